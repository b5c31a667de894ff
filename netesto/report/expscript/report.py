"""A finished report: its page and its files, written completely or not at all."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from netesto import atomic
from netesto.errors import ResultsError


@dataclass(frozen=True, slots=True)
class Report:
    """A finished page, and the files that its script writes: plots, tables, the log."""

    html: str
    files: Mapping[Path, bytes]

    def write(self, out: Path | None = None) -> None:
        """Write the files, then the page to `out`, each completely or not at all.

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
        with atomic.written(path) as file:
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
            remedy="-o FILE writes the page to another place",
        ) from error
