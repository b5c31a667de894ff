"""Text files of other origin: usually UTF-8; deviations are reported, and never changed
silently."""

import re
from collections.abc import Callable
from pathlib import Path

from netesto.errors import ScriptError

OLDER_ENCODING = "latin-1"
# How Python keeps a byte that is not UTF-8.
_ESCAPED = re.compile("[\udc80-\udcff]")


def lines_of(text: str) -> list[str]:
    """The lines, whether they end in \\n, \\r\\n, or in \\r as they did on a Macintosh."""
    ends = "\n" if "\n" in text else "\r"
    # The end of the last line does not begin another one.
    return [line.removesuffix("\r") for line in text.removesuffix(ends).split(ends)]


def decoded(data: bytes, path: Path, *, warn: Callable[[str], None]) -> str:
    """The text of a file. Lines that are not UTF-8 are read as Latin-1, with a warning.

    ScriptError, with the place, for a NUL, which no text has.
    """
    nul = data.find(b"\0")
    if nul >= 0:
        line = data.count(b"\n", 0, nul) + 1
        raise ScriptError(
            f"{path}: line {line}: NUL character; not a text file in UTF-8",
            remedy="UTF-16 becomes UTF-8 with: iconv -f UTF-16 -t UTF-8 OLD > NEW",
        )
    text = data.decode("utf-8-sig", "surrogateescape")
    escaped = _ESCAPED.search(text)
    if escaped is None:
        return text
    lines = text.split("\n")
    older = [place for place, line in enumerate(lines) if _ESCAPED.search(line)]
    for place in older:
        lines[place] = lines[place].encode(errors="surrogateescape").decode(OLDER_ENCODING)
    more = f" and {len(older) - 1} more are" if len(older) > 1 else " is"
    warn(
        f"{path}: line {older[0] + 1}{more} not UTF-8 (byte 0x{ord(escaped[0]) - 0xDC00:02x}), and"
        " read as Latin-1; iconv -f LATIN1 -t UTF-8 makes UTF-8 of such a file"
    )
    return "\n".join(lines)
