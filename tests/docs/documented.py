"""Reads documentation in Markdown: its scripts, the commands under them, and what these print.

A block ```nts is a script; it is saved as `my.nts`. A block ```text that begins with `$ netesto …`
is that command and what it prints, output and errors.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Shown:
    """A command line and what the documentation says it prints."""

    words: list[str]
    output: str

    @property
    def is_error(self) -> bool:
        return (
            re.search(r"^(netesto|[\w.]+:\d+:\d+): (?!warning: )", self.output, re.MULTILINE)
            is not None
        )


@dataclass
class Example:
    """A script in the documentation at `line`, and the commands shown for it."""

    line: int
    script: str
    shown: list[Shown] = field(default_factory=list)


def examples(path: Path) -> Iterator[Example]:
    """The scripts of a page, in order."""
    text = path.read_text(encoding="utf-8")
    example: Example | None = None
    for match in _BLOCK.finditer(text):
        kind, content = match[1], match[2]
        if kind == "nts":
            if example is not None:
                yield example
            example = Example(text.count("\n", 0, match.start()) + 1, content)
        elif kind == "text" and content.startswith("$ "):
            assert example is not None, "a command before any script"
            command, _, output = content.partition("\n")
            example.shown.append(Shown(shlex.split(command)[2:], output))
    if example is not None:
        yield example
