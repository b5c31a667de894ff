"""Logging: one formatter, one line per event, values as keys outside the text."""

import logging
from typing import TextIO

from netesto.printable import printable

# The attributes of every LogRecord; all others come from `extra` and are printed as key=value.
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class KeyFormatter(logging.Formatter):
    """`12:15:00.123 info netesto.agent transfer started host=client1 flow=2`."""

    def format(self, record: logging.LogRecord) -> str:
        keys = " ".join(
            f"{key}={value!r}" if isinstance(value, str) and " " in value else f"{key}={value}"
            for key, value in sorted(vars(record).items())
            if key not in _OWN
        )
        line = f"{self.formatTime(record)} {record.levelname.lower()} {record.name} "
        line += record.getMessage() + (f" {keys}" if keys else "")
        if record.exc_info:
            line += f"\n{self.formatException(record.exc_info)}"
        return printable(line)

    def formatTime(  # noqa: N802 - logging names it so
        self, record: logging.LogRecord, datefmt: str | None = None
    ) -> str:
        return f"{super().formatTime(record, datefmt or '%H:%M:%S')}.{int(record.msecs):03d}"


def configure(*, level: int, stream: TextIO) -> None:
    """Write this process's log to `stream`. Only the `main` functions call it."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(KeyFormatter())
    root = logging.getLogger("netesto")
    root.handlers[:] = [handler]
    root.setLevel(level)
    root.propagate = False
