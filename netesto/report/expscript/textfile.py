"""Text files of other people: UTF-8 as a rule; what is not is told, never changed in silence."""

from collections.abc import Callable
from pathlib import Path

from netesto.errors import ScriptError

# Of many lines that are not UTF-8 the first is named.
OLDER_ENCODING = "latin-1"


def lines_of(text: str) -> list[str]:
    """The lines, whether they end in \\n, \\r\\n, or in \\r as they did on a Macintosh."""
    ends = "\n" if "\n" in text else "\r"
    # The end of the last line begins no other.
    return [line.removesuffix("\r") for line in text.removesuffix(ends).split(ends)]


def decoded(data: bytes, path: Path, *, warn: Callable[[str], None]) -> str:
    """The text of a file. Lines that are not UTF-8 are read as Latin-1, and that is told.

    ScriptError, with the place, for a NUL: a text has none, and what has is no file for us.
    """
    nul = data.find(b"\0")
    if nul >= 0:
        line = data.count(b"\n", 0, nul) + 1
        raise ScriptError(
            f"{path}: line {line} holds a NUL: this is no text file in UTF-8",
            remedy="UTF-16 becomes UTF-8 with: iconv -f UTF-16 -t UTF-8 OLD > NEW",
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        first = error.object.count(b"\n", 0, error.start) + 1
        byte = error.object[error.start]
    lines = [_line(line) for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
    count = sum(is_older for _, is_older in lines)
    more = f" and {count - 1} more are" if count > 1 else " is"
    warn(
        f"{path}: line {first}{more} not UTF-8 (byte 0x{byte:02x}), and read as Latin-1; "
        f"iconv -f LATIN1 -t UTF-8 makes UTF-8 of such a file"
    )
    return "\n".join(text for text, _ in lines)


def _line(line: bytes) -> tuple[str, bool]:
    try:
        return line.decode(), False
    except UnicodeDecodeError:
        return line.decode(OLDER_ENCODING), True
