"""Text to lines of a report script: comments, continued lines, variables, key and value.

Files are usually in UTF-8; deviations are reported, and never changed silently.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from netesto.errors import Place, ScriptError

_VARIABLE = re.compile(
    r"\$(?:(?P<dollar>\$)|\{(?P<braced>[A-Za-z_]\w*)\}|(?P<bare>[A-Za-z_]\w*))", re.ASCII
)
# Lines of a report script are short; a longer one results from a mistake with variables.
REPLACED_MAX = 1_000_000
# Lines that are valid without an `=`.
BARE_WORDS = frozenset({"dotable", "doplot", "end", "endfor", "endif", "else"})
OLDER_ENCODING = "latin-1"
# How Python keeps a byte that is not UTF-8.
_ESCAPED = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True, slots=True)
class JoinedLine:
    """A joined line, before its variables are replaced."""

    text: str
    place: Place = field(compare=False)

    @property
    def word(self) -> str:
        """The key, in lower case, as far as it can be known before variables are replaced."""
        return self.text.partition("=")[0].strip().lower()


def read(path: Path, *, warn: Callable[[str], None]) -> tuple[JoinedLine, ...]:
    """The lines of a script file. ScriptError if it cannot be read or is not text."""
    try:
        text = decoded(path.read_bytes(), path, warn=warn)
    except OSError as error:
        raise ScriptError(
            f"cannot read the script {str(path)!r}: {error.strerror}",
            remedy="Paths are relative to the current directory.",
        ) from error
    return split(text, str(path))


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


def split(text: str, file: str) -> tuple[JoinedLine, ...]:
    """Join continued lines; drop blank lines and comments.

    A comment is recognised in the joined text, so a comment after a continuation is part of it. A
    continuation at the end of the file drops its line, as the classic tool did.
    """
    lines: list[JoinedLine] = []
    joined = ""
    place: Place | None = None
    # Lines may end as they did on a Macintosh. The end of the last one does not begin another.
    end = "\n" if "\n" in text else "\r"
    for number, physical in enumerate(text.removesuffix(end).split(end), start=1):
        stripped = physical.strip()
        if place is None:
            place = _place(file, number, physical)
        if stripped.endswith("\\"):
            joined += stripped[:-1]
            continue
        joined = (joined + stripped).strip()
        if joined and not joined.startswith("#"):
            lines.append(JoinedLine(joined, place))
        joined, place = "", None
    return tuple(lines)


def _place(file: str, number: int, physical: str) -> Place:
    shown = physical.rstrip()
    indent = len(shown) - len(shown.lstrip())
    return Place(file, number, indent + 1, max(1, len(shown) - indent), shown)


def replace_variables(
    text: str, variables: Mapping[str, str], *, unknown: Callable[[str], None] | None = None
) -> str:
    """`$name` and `${name}` by their values, `$$` by `$`; unknown names stay and are reported.

    ScriptError for a line that grows beyond REPLACED_MAX.
    """
    length = len(text)

    def value(match: re.Match[str]) -> str:
        nonlocal length
        if match["dollar"]:
            return "$"
        name = match["braced"] or match["bare"]
        if name in variables:
            length += len(variables[name])
            if length > REPLACED_MAX:
                raise ScriptError(
                    f"${name}: the line grows beyond {REPLACED_MAX:,} characters",
                    remedy="Set = a=$a$a makes a variable twice as long each time.",
                )
            return variables[name]
        if unknown is not None:
            unknown(name)
        return match[0]

    return _VARIABLE.sub(value, text)


def command(text: str, place: Place) -> tuple[str, str] | None:
    """The key and the value, split at the first `=`; None for nothing and for a comment.

    ScriptError without an `=`, unless the word means something alone.
    """
    text = text.strip()
    if not text or text.startswith("#"):
        return None
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals:
        if key.lower() in BARE_WORDS:
            return key, ""
        raise ScriptError(
            f"{key!r} has no value",
            place=place,
            remedy=f"Write {key.split()[0][:40]}=…; only doTable, doPlot and end stand alone.",
        )
    if not key:
        raise ScriptError("missing name before '='", place=place, remedy="Write: key=value")
    return key, unquoted(value)


def unquoted(value: str) -> str:
    """Without spaces around it, and without one pair of equal quotes."""
    value = value.strip()
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value


def items(value: str, separator: str = ",") -> list[str]:
    """A list as written: parts without spaces around them, empty parts left out."""
    return [part.strip() for part in value.split(separator) if part.strip()]


def assignments(parts: Sequence[str]) -> dict[str, str]:
    """`name=value` items as a mapping. ScriptError for an item of another form."""
    values: dict[str, str] = {}
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise ScriptError(
                f"{part.strip()!r} is not of the form name=value",
                remedy="source=FILE,name=value,… sets variables; names and values hold no commas.",
            )
        values[name.strip()] = value.strip()
    return values
