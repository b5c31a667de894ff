"""Logging: one formatter, one line per event, values as keys outside the text."""

import logging
from contextvars import ContextVar

from netesto.text.printable import printable

# The attributes of every LogRecord; all others come from `extra` and are printed as key=value.
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


# The host to which the events of this thread belong, in a process that serves several.
HOST: ContextVar[str] = ContextVar("HOST", default="")


class KeyFormatter(logging.Formatter):
    """`12:15:00.123 info netesto.agent transfer started host=client1 flow=2`."""

    default_time_format, default_msec_format = "%H:%M:%S", "%s.%03d"

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


def configure(*, level: int) -> None:
    """Write this process's log to standard error. Only the `main` functions call it."""
    handler = logging.StreamHandler()
    handler.setFormatter(KeyFormatter())
    handler.addFilter(_with_host)
    root = logging.getLogger("netesto")
    root.handlers[:] = [handler]
    root.setLevel(level)
    root.propagate = False


def _with_host(record: logging.LogRecord) -> bool:
    if HOST.get():
        record.host = HOST.get()
    return True
