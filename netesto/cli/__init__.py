"""The command line: the only place that prints, and that chooses an exit status."""

import logging
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType

from netesto.cli import options, status
from netesto.errors import NetestoError, ScriptError

__all__ = ["main"]


# argparse would take the word after -n for its value, and "-n=json" for the value "=json".
_DRY_RUN = {"-n": "--dry-run=plain", "--dry-run": "--dry-run=plain", "-n=json": "--dry-run=json"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit status (netesto.cli.status)."""
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    try:
        return _dispatch(words)
    except NetestoError as error:
        if debug:
            traceback.print_exc()
        # An error with a place begins with it, as editors expect.
        placed = isinstance(error, ScriptError) and error.place is not None
        print(error if placed else f"netesto: {error}", file=sys.stderr)
        return status.of(error)
    except KeyboardInterrupt:
        print("netesto: interrupted", file=sys.stderr)
        return status.INTERRUPTED
    except BrokenPipeError:
        # The reader of a listing (head, less) has seen enough.
        return status.OK
    except Exception as error:
        if debug:
            raise
        logging.getLogger(__name__).debug("unexpected", exc_info=True)
        print(
            f"netesto: a mistake of ours, please report it: {type(error).__name__}: {error}\n"
            "netesto --debug … shows where it happened",
            file=sys.stderr,
        )
        return status.FAILED
    finally:
        _settle_output()


def _settle_output() -> None:
    """Python's own last flush would turn a reader that went away into exit status 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """A request to end is treated as Ctrl-C: partial results are kept, hosts are put back."""
    del number, frame
    raise KeyboardInterrupt


def _dispatch(words: list[str]) -> int:
    """Import what the command needs, and no more, and run it."""
    if not words and not sys.stdin.isatty():
        words = ["run", "-"]
    # The agent reads its own options.
    if words and words[0] == "agent":
        from netesto.agent import daemon

        return daemon.main(words[1:])
    chosen = options.parser().parse_args([_DRY_RUN.get(word, word) for word in words])
    match chosen.command:
        case "run":
            from netesto.cli import run

            return run.run(chosen)
        case "check":
            from netesto.cli import scripts

            return scripts.check(chosen)
        case "fmt":
            from netesto.cli import scripts

            return scripts.format_scripts(chosen)
        case "report":
            from netesto.cli import folders

            return folders.report(chosen)
        case "show":
            from netesto.cli import folders

            return folders.show(chosen)
        case "exp" | "compare":
            from netesto.cli import reports

            return reports.exp(chosen) if chosen.command == "exp" else reports.compare(chosen)
        case "kernel":
            from netesto.cli import guests

            return guests.kernel(chosen)
        case "lab" | "clean":
            from netesto.cli import labs

            return labs.lab(chosen) if chosen.command == "lab" else labs.clean(chosen)
        case _:
            options.parser().print_help()
            return status.WRONG
