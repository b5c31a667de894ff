"""Compressed files of hosts and results, which may be truncated, and may be made by an attacker."""

import zlib
from pathlib import Path

# A host is not trusted. Its samples become values that take ten times as much memory.
CONTENT_BYTES_MAX = 2**30

_GZIP_WINDOW = 31


def read(path: Path) -> bytes:
    """The content of a gzip file; unlike with gzip.open, all that a killed agent has written.
    OSError, zlib.error, or ValueError if it is too large."""
    machine = zlib.decompressobj(wbits=_GZIP_WINDOW)
    content = machine.decompress(path.read_bytes(), CONTENT_BYTES_MAX + 1)
    if len(content) > CONTENT_BYTES_MAX:
        raise ValueError(f"it has more than {CONTENT_BYTES_MAX} bytes")
    return content
