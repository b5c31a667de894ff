"""A run with its display, from its start to its exit status."""

import contextlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from netesto import log
from netesto.cli import display, printing
from netesto.cli.display import Display
from netesto.results import certainty
from netesto.run import status
from netesto.run.request import RunRequest
from netesto.run.session import RunEnd

# The rows of more experiments are not printed at the end: most of them would scroll away, and a
# table of some ten thousand takes minutes.
_SHOWN_MAX = 500


def run(request: RunRequest, carry_out: Callable[[Display], RunEnd]) -> int:
    """Carry out a request, show it, and say how it ended; the exit status."""
    shown = request.shown
    watcher = display.to_stderr(plain=shown.plain, quiet=shown.quiet)
    _configure_log(shown.verbosity)
    end = carry_out(watcher)
    # The reader may be gone; that must not affect the measurements.
    with contextlib.suppress(BrokenPipeError):
        _tell(end, watcher, quiet=shown.quiet, pages=request.pages)
    return end.status


def _tell(end: RunEnd, watcher: Display, *, quiet: bool, pages: bool) -> None:
    if end.out is None:
        return
    if watcher.experiments and not quiet:
        printing.out()
        _print_rows(end.out, watcher.experiments)
        if pages and len(watcher.pages) == 1:
            printing.out(f"page     {watcher.pages[0]}")
        printing.out(f"results  {end.out}/{'exp.html' if pages else 'exp.csv'}")
    if not quiet:
        for sentence in certainty.sentences(end.certainty):
            printing.out(sentence)
    for failure in end.failures:
        printing.err(f"netesto: {failure}")
    if end.status == status.INTERRUPTED:
        printing.err("netesto: interrupted; what was measured is kept")


def _print_rows(folder: Path, experiments: Sequence[int]) -> None:
    if len(experiments) > _SHOWN_MAX:
        printing.out(f"{len(experiments)} experiments: netesto show {folder} lists them")
        return
    from netesto.cli import tables
    from netesto.results import tablerows

    if rows := tablerows.of(folder, experiments):
        tables.print_rows(rows)
        printing.out()


def _configure_log(verbosity: int) -> None:
    """Log to stderr at the level given by -v; the display already shows warnings of the log."""
    levels = (logging.ERROR, logging.INFO, logging.DEBUG)
    log.configure(level=levels[min(verbosity, 2)])
