"""The only module that prints, so that no text of a script or host controls the terminal, and every
encoding works.
"""

import codecs
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

from netesto.errors import WorldError
from netesto.files import atomic
from netesto.text.printable import printable, replaced

_ERRORS = "netesto.replaced"


def settle() -> None:
    """Make standard output and error accept every character, whatever their encoding."""
    codecs.register_error(_ERRORS, replaced)
    for stream in (sys.stdout, sys.stderr):
        # A stream may be closed, or replaced by an object without an encoding.
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors=_ERRORS)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a standard stream is a terminal; it is None if it was closed before we were
    started."""
    return stream is not None and stream.isatty()


def out(text: object = "", *, end: str = "\n", flush: bool = False) -> None:
    """Print to standard output. WorldError if that fails, for example on a full disk."""
    try:
        print(printable(str(text)), end=end, flush=flush)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise WorldError(f"standard output: {error.strerror}") from error


def err(
    text: object = "", *, end: str = "\n", flush: bool = False, stream: TextIO | None = None
) -> None:
    """Print to standard error, or to `stream`. Failures are ignored."""
    with contextlib.suppress(OSError):
        print(printable(str(text)), end=end, flush=flush, file=stream or sys.stderr)


def warn(text: str) -> None:
    """Print a warning to standard error."""
    err(f"warning: {text}")


def deliver(text: str, path: Path | None) -> None:
    """`into` with a text in UTF-8, with every character unchanged."""
    with into(path) as file:
        file.write(text.encode(errors="surrogateescape"))


@contextlib.contextmanager
def into(path: Path | None) -> Iterator[BinaryIO]:
    """The file of an option -o, replaced atomically, in a folder that is made if it is missing;
    without one standard output. WorldError if it cannot be written, for example on a full disk."""
    if path is None and sys.stdout is None:
        raise WorldError("standard output is closed")
    try:
        if path is None:
            # After what was printed before.
            sys.stdout.flush()
            yield sys.stdout.buffer
            sys.stdout.flush()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic.written(path) as file:
                yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        if path is None:
            raise WorldError(f"standard output: {error.strerror}") from error
        raise WorldError(
            f"{path}: cannot write: {error.strerror}",
            remedy="Choose a file with -o that you may write to, where there is room.",
        ) from error
