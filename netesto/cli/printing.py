"""Where the command line prints. Nothing else does, so that no text of a script or of a host acts
on a terminal, and no encoding lacks a character.
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
    """Make standard output and error take every character, whatever their encoding."""
    codecs.register_error(_ERRORS, replaced)
    for stream in (sys.stdout, sys.stderr):
        _reconfigure(stream, errors=_ERRORS)


def out(text: object = "", *, end: str = "\n", flush: bool = False) -> None:
    """Print to standard output. WorldError if it takes no more: a full disk behind it."""
    try:
        print(printable(str(text)), end=end, flush=flush)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise WorldError(f"standard output: {error.strerror}") from error


def err(text: object = "", *, end: str = "\n", flush: bool = False) -> None:
    """Print to standard error. That nobody reads it changes nothing of what it is about."""
    with contextlib.suppress(BrokenPipeError):
        print(printable(str(text)), end=end, flush=flush, file=sys.stderr)


def data() -> TextIO:
    """Standard output for a file that somebody may keep: UTF-8, and every character as it is.
    WorldError if it is closed."""
    if sys.stdout is None:
        raise WorldError("standard output is closed")
    _reconfigure(sys.stdout, encoding="utf-8", errors="surrogateescape")
    return sys.stdout


@contextlib.contextmanager
def into(path: Path) -> Iterator[BinaryIO]:
    """The file of an option -o, to write; complete, or as before. WorldError if it cannot be
    written."""
    try:
        with atomic.written(path) as file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        folder = path.absolute().parent
        remedy = "Choose a file with -o that you may write to, where there is room."
        if not folder.is_dir():
            remedy = f"There is no folder {folder}: make it, or choose another file with -o."
        raise WorldError(f"{path}: cannot write: {error.strerror}", remedy=remedy) from error


def _reconfigure(
    stream: TextIO | None, *, encoding: str | None = None, errors: str | None = None
) -> None:
    # A stream may be closed, or somebody's replacement that has no encoding.
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding=encoding, errors=errors)
