"""The only module that prints, so that no text of a script or host controls the terminal, and every
encoding works.
"""

import codecs
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

from netesto import atomic
from netesto.errors import WorldError
from netesto.printable import printable, replaced

_ERRORS = "netesto.replaced"


def settle() -> None:
    """Make standard output and error accept every character, whatever their encoding."""
    codecs.register_error(_ERRORS, replaced)
    for stream in (sys.stdout, sys.stderr):
        _reconfigure(stream, errors=_ERRORS)


def out(text: object = "", *, end: str = "\n", flush: bool = False) -> None:
    """Print to standard output. WorldError if that fails, for example on a full disk."""
    try:
        print(printable(str(text)), end=end, flush=flush)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise WorldError(f"standard output: {error.strerror}") from error


def err(text: object = "", *, end: str = "\n", flush: bool = False) -> None:
    """Print to standard error. Failures are ignored."""
    with contextlib.suppress(BrokenPipeError):
        print(printable(str(text)), end=end, flush=flush, file=sys.stderr)


@contextlib.contextmanager
def document() -> Iterator[TextIO]:
    """Standard output for a document: UTF-8, with every character unchanged.
    WorldError if it is closed, or if writing fails, for example on a full disk."""
    if sys.stdout is None:
        raise WorldError("standard output is closed")
    _reconfigure(sys.stdout, encoding="utf-8", errors="surrogateescape")
    try:
        yield sys.stdout
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise WorldError(f"standard output: {error.strerror}") from error


@contextlib.contextmanager
def into(path: Path) -> Iterator[BinaryIO]:
    """The file of an option -o, replaced atomically. WorldError if it cannot be written."""
    try:
        with atomic.written(path) as file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        folder = path.absolute().parent
        remedy = "Choose a file with -o that you may write to, where there is room."
        if not folder.is_dir():
            remedy = f"The folder {folder} does not exist: make it, or choose another file with -o."
        raise WorldError(f"{path}: cannot write: {error.strerror}", remedy=remedy) from error


def _reconfigure(
    stream: TextIO | None, *, encoding: str | None = None, errors: str | None = None
) -> None:
    # A stream may be closed, or replaced by an object without an encoding.
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding=encoding, errors=errors)
