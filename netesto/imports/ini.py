"""Job files of the harness: sections in order, each with its keys. Nothing is interpolated."""

import configparser
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from netesto import texts
from netesto.errors import UsageError


@dataclass(frozen=True, slots=True)
class Section:
    """A section: keys in lower case, values without trailing comments."""

    name: str
    keys: Mapping[str, str]


def read(path: Path) -> list[Section]:
    """The sections of a job file. UsageError, with file and line, if it is not one."""
    text, source = texts.read(path, most_mib=1), str(path)
    parser = configparser.ConfigParser(
        interpolation=None, delimiters=("=",), inline_comment_prefixes=("#",),
        comment_prefixes=("#", ";"), default_section="DEFAULT",
    )  # fmt: skip
    try:
        parser.read_string(text, source)
    except configparser.DuplicateSectionError as error:
        raise UsageError(
            f"{source}:{error.lineno}: section [{error.section}] is there twice",
            remedy="Give each test a name of its own.",
        ) from None
    except configparser.DuplicateOptionError as error:
        raise UsageError(
            f"{source}:{error.lineno}: [{error.section}] has {error.option} twice",
            remedy="Remove one of them.",
        ) from None
    except configparser.MissingSectionHeaderError as error:
        raise UsageError(
            f"{source}:{error.lineno}: {error.line.strip()!r} is before the first section",
            remedy="A test begins with its name in brackets: [iperf3_1stream]",
        ) from None
    except configparser.ParsingError as error:
        # The line in the error is written as a literal by Python before 3.13, and as it is since.
        number, _ = error.errors[0]
        line = text.split("\n")[number - 1].strip()
        raise UsageError(
            f"{source}:{number}: {line!r} is not KEY = VALUE",
            remedy="Example: src-cmd = iperf3 -c {dst} -t 60",
        ) from None
    return [
        Section(name, {key: _value(key, text) for key, text in parser[name].items()})
        for name in parser.sections()
    ]


def _value(key: str, text: str) -> str:
    """A value without its trailing comment; in a command `;` begins another command."""
    return text if key.endswith("-cmd") else re.split(r"\s;", text)[0]
