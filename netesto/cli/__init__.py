"""The command line: it alone prints (netesto.cli.printing), and chooses an exit status."""

import argparse
import contextlib
import importlib
import logging
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from netesto.cli import printing
from netesto.errors import NetestoError, ScriptError
from netesto.run import status
from netesto.system import interrupts, process

__all__ = ["guarded", "main"]


# Of `run`: argparse would interpret the word after -n, or --wait, as its value, and "-n=json" as
# the value "=json".
_ALONE = {
    "-n": "--dry-run=plain",
    "--dry-run": "--dry-run=plain",
    "-n=json": "--dry-run=json",
    "--wait": "--wait=inf",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit status (netesto.run.status)."""
    words = list(sys.argv[1:] if argv is None else argv)
    process.reach_system_programs()
    return guarded(lambda: _dispatch(words), debug="--debug" in words)


def guarded(run: Callable[[], int], *, debug: bool = False) -> int:
    """The exit status of `run`; errors in it are printed in words.

    Every request to end is treated like Ctrl-C: partial results are kept, hosts are put back.
    """
    printing.settle()
    with interrupts.handled():
        return _status_of(run, debug=debug)


def _status_of(run: Callable[[], int], *, debug: bool) -> int:
    try:
        return _printed(run)
    except NetestoError as error:
        if debug:
            traceback.print_exc()
        # An error with a place begins with it, as editors expect.
        placed = isinstance(error, ScriptError) and error.place is not None
        printing.err(error if placed else f"netesto: {error}")
        _tell_notes(error)
        return status.of(error)
    except KeyboardInterrupt as error:
        _tell_notes(error)
        return _interrupted()
    except BrokenPipeError:
        # The reader of a listing (head, less) has closed the pipe.
        return status.OK
    except Exception as error:
        # Python replaces an exception that is raised while a class is created, for example in an
        # import.
        if isinstance(error.__cause__, KeyboardInterrupt):
            return _interrupted()
        if debug:
            raise
        if isinstance(error, OSError) and error.errno is not None:
            # A full disk or a deleted folder is not an internal error.
            if error.filename is None and not _settle_output():
                printing.err(f"netesto: standard output: {error.strerror}")
                return status.NOT_READY
            about = f"{error.filename}: " if error.filename else ""
            printing.err(
                f"netesto: {about}{error.strerror}\nnetesto --debug … shows where it happened",
            )
            return status.NOT_READY
        if isinstance(error, ModuleNotFoundError) and "netesto" not in str(error.name):
            # An installation for an agent has no more than an agent needs.
            printing.err(
                f"netesto: Python package {error.name}: not found\n"
                f"{sys.executable} -m pip check lists all that are missing"
            )
            return status.NOT_READY
        logging.getLogger(__name__).debug("unexpected", exc_info=True)
        printing.err(
            f"netesto: internal error; please report it: {type(error).__name__}: {error}\n"
            "netesto --debug … shows where it happened",
        )
        return status.FAILED
    finally:
        _settle_output()


def _tell_notes(error: BaseException) -> None:
    """Errors during the cleanup after the error."""
    for note in getattr(error, "__notes__", ()):
        printing.err(f"netesto: {note}")


def _interrupted() -> int:
    interrupts.begin_shutdown()
    printing.err("netesto: interrupted")
    return status.INTERRUPTED


def _printed(run: Callable[[], int]) -> int:
    """The exit status of `run`, after its output is flushed: a disk may be full, a reader gone."""
    outcome = run()
    # Standard output is None if it was closed before we were started.
    if sys.stdout is not None:
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.flush()
    return outcome


def _settle_output() -> bool:
    """Whether all output is flushed. Otherwise Python's own last flush would make the exit status
    120."""
    is_out = True
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            is_out = False
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
    return is_out


def _dispatch(words: list[str]) -> int:
    """Import what the command needs, and no more, and run it."""
    if not words and sys.stdin is not None and not sys.stdin.isatty():
        words = ["run", "-"]
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    # The agent reads its own options.
    if words and words[0] == "agent":
        from netesto.agent import daemon

        return daemon.main(words[1:])
    # Only netesto itself starts one: no options.
    if words[:1] == ["job"] and len(words) == 2:
        from netesto.cli import job

        return job.run(Path(words[1]))
    from netesto.cli import options

    is_run = next((word for word in words if not word.startswith("-")), "") == "run"
    chosen = options.parser().parse_args([_ALONE.get(w, w) for w in words] if is_run else words)
    # An import records them.
    chosen.words = words
    if chosen.command is None:
        options.parser().print_help()
        return status.WRONG
    module, name = chosen.function.split(".")
    command: Callable[[argparse.Namespace], int] = getattr(
        importlib.import_module(f"netesto.cli.{module}"), name
    )
    return command(chosen)
