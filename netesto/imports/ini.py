"""Job files of the harness: sections in order, each with its keys. Nothing is interpolated."""

import configparser
import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from netesto.errors import UsageError
from netesto.files import texts


@dataclass(frozen=True, slots=True)
class Section:
    """A section: keys in lower case, values without trailing comments."""

    name: str
    keys: Mapping[str, str]


Warn = Callable[[str], None]


def read(path: Path, warn: Warn = lambda _: None) -> list[Section]:
    """The sections of a job file. `warn` receives what is left out, with file and line. UsageError
    if it has no section."""
    text, source = texts.read(path, most_mib=1), str(path)
    lines = text.split("\n")
    first = next((at for at, line in enumerate(lines) if _HEADER.match(line)), len(lines))
    for number, line in enumerate(lines[:first], start=1):
        if line.strip() and not line.strip().startswith(("#", ";")):
            warn(f"{source}:{number}: {line.strip()!r} is before the first section: left out")
    lines[:first] = [""] * first
    if not any(map(str.strip, lines)):
        raise UsageError(
            f"{source}: no section", remedy="A test begins with its name: [iperf3_1stream]"
        )
    parser = _parser(strict=True)
    try:
        parser.read_string("\n".join(lines), source)
    except configparser.Error:
        parser = _leniently(lines, source, warn)
    return [
        Section(name, {key: _value(key, text) for key, text in parser[name].items()})
        for name in parser.sections()
    ]


def _parser(*, strict: bool) -> configparser.ConfigParser:
    return configparser.ConfigParser(
        interpolation=None, delimiters=("=", ":"), inline_comment_prefixes=("#",),
        comment_prefixes=("#", ";"), default_section="DEFAULT", strict=strict,
    )  # fmt: skip


def _leniently(lines: list[str], source: str, warn: Warn) -> configparser.ConfigParser:
    """The parser of a file of which some lines are left out. The second section of a name gets
    another one; of a key that is there twice the last value counts."""
    sections: set[str] = set()
    keys: dict[str, set[str]] = {}
    section = ""
    for place, line in enumerate(lines):
        where = f"{source}:{place + 1}"
        if (header := _HEADER.match(line)) is not None:
            section = header[1]
            if section in sections:
                number = next(n for n in itertools.count(2) if f"{section} {n}" not in sections)
                warn(
                    f"{where}: section [{section}] is there twice: this one is [{section} {number}]"
                )
                section = f"{section} {number}"
                lines[place] = f"[{section}]"
            sections.add(section)
            continue
        words = line.strip()
        if not words or words.startswith(("#", ";")) or line[0].isspace():
            continue
        key, between, _ = line.replace(":", "=", 1).partition("=")
        if not between or not key.strip():
            warn(f"{where}: {words!r} is not KEY = VALUE: left out")
            lines[place] = ""
            continue
        key = key.strip().lower()
        if key in keys.setdefault(section, set()):
            warn(f"{where}: [{section}] has {key} twice: the last one counts")
        keys[section].add(key)
    parser = _parser(strict=False)
    try:
        parser.read_string("\n".join(lines), source)
    except configparser.Error as error:
        raise UsageError(
            f"{source}: {' '.join(str(error).split())}",
            remedy="Example: src-cmd = iperf3 -c {dst} -t 60",
        ) from None
    return parser


_HEADER = re.compile(r"\[(.+)\]")


def _value(key: str, text: str) -> str:
    """A value without its trailing comment; in a command `;` begins another command."""
    return text if key.endswith("-cmd") else re.split(r"\s;", text)[0]
