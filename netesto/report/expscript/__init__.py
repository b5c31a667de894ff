"""The language of report scripts: from exp.csv and a script to one page with tables and plots.

The classic command line and the new one differ only in how they name the script:

    run_words(["--file=bbr.exp,bw=100mbit", "doTable"], ...)
    run_script(Path("bbr.exp"), {"bw": "100mbit"}, ...)
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from netesto import atomic
from netesto.errors import ResultsError
from netesto.report.expscript import page
from netesto.report.expscript.runner import Runner

__all__ = ["Report", "run_script", "run_words"]


def _quiet(_: str) -> None:
    """Tells nobody."""


@dataclass(frozen=True, slots=True)
class Report:
    """A finished page, and the files its script asked for: plots, tables, the log."""

    html: str
    files: Mapping[Path, bytes]

    def write(self, out: Path | None = None) -> None:
        """Write the files, then the page to `out`, each whole or not at all.

        ResultsError if one cannot be written. Without `out` the page is for the caller to send.
        """
        for path, content in self.files.items():
            _write(path, content)
        if out is not None:
            _write(out, self.html.encode())

    def send(self, stream: TextIO) -> None:
        """Write the page to a stream, to the last byte. ResultsError if the stream takes no more.

        A reader that went away (BrokenPipeError) is for the caller to judge.
        """
        with _writing("the page"):
            # The page says that it is UTF-8, whatever the terminal is.
            binary = getattr(stream, "buffer", None)
            if binary is None:
                stream.write(self.html)
            else:
                stream.flush()
                binary.write(self.html.encode())
            stream.flush()


def _write(path: Path, content: bytes) -> None:
    with _writing(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            # A pipe or a device takes bytes; a file in its place would be a surprise.
            path.write_bytes(content)
            return
        # Where a link leads is written, and the link stays.
        with atomic.replaced(path.resolve()) as file:
            file.write(content)


@contextlib.contextmanager
def _writing(what: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ResultsError(
            f"{what}: cannot write: {error.strerror}",
            remedy="a page is written with -o FILE, where there is room for it and it is allowed",
        ) from error


def run_script(
    script: Path,
    variables: Mapping[str, str],
    *,
    strict: bool = False,
    explain: bool = False,
    out: Path | None = None,
    warn: Callable[[str], None] = _quiet,
    tell: Callable[[str], None] = _quiet,
) -> Report:
    """Run a report script; `$name` in it is replaced by the variables. Nothing is written yet.

    `warn` is handed each warning as `file:line: what; what would be right`; with `strict` the
    first one is an error. With `explain`, `tell` is handed what each step made of the rows, and
    the page tells it too. `out` is where the page is meant to be: links and files are relative to
    its folder, without it to the current one. ScriptError, with its place, if the script is wrong.
    """
    runner = Runner(warn=warn, tell=tell, strict=strict, explain=explain, out=out)
    runner.run_script(script, variables)
    return _report(runner)


def run_words(
    words: Sequence[str],
    *,
    strict: bool = False,
    explain: bool = False,
    out: Path | None = None,
    warn: Callable[[str], None] = _quiet,
    tell: Callable[[str], None] = _quiet,
) -> Report:
    """Run the words of a classic command line: `--file=SCRIPT,var=val`, `Key=value`, `doTable`.

    Each word is a line of a script, from left to right; the rest is as in run_script.
    """
    runner = Runner(warn=warn, tell=tell, strict=strict, explain=explain, out=out)
    runner.run_words(words)
    return _report(runner)


def _report(runner: Runner) -> Report:
    session = runner.session
    return Report(page.render(session.title, session.blocks), dict(session.files))
