"""What the code decides of the manual, of the editors' files and of fields.txt. `make docs` (python
tests/docs/tables.py) writes it into these files."""

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from netesto.collectors.counters import COUNTERS
from netesto.language.commands import DO_CLIENT_ARGUMENTS, DO_TRACE_ARGUMENTS, REMOTE
from netesto.language.specification import COMMON, Specification
from netesto.results import carried
from netesto.schema.columns import BLOCKS, Description
from netesto.schema.kinds import Argument

ROOT = Path(__file__).parents[2]

_ARGUMENTS: Mapping[str, tuple[Argument, ...]] = {
    "DO_CLIENT": DO_CLIENT_ARGUMENTS,
    "DO_TRACE": DO_TRACE_ARGUMENTS,
}
# Commands that have a sentence come before it.
_BEHIND = "### Settings that stay\n"
_VIM = re.compile(r"(syntax match ntsRemote /.*?@<=\\%\()(?:[A-Z_]+|\\\||\n *\\)+(?=\\\))")
_CODE = re.compile(r"(\\s\*\()DO_SERVER[A-Z_|]*(?=\))")
_COUNTERS = re.compile(r"(?<=\n## Counters\n)(.*?\n\|---\|---\|---\|\n)(?:\|[^\n]*\n)*", re.DOTALL)
_HEAD = "| column | unit | row N.0 | description |\n|---|---|---|---|\n"
_COLUMNS = re.compile(rf"(?<={re.escape(_HEAD)})(?:\|[^\n]*\n)*")


def with_commands(page: str) -> str:
    """The text of docs/language.md with its tables of arguments, and what there is to say of
    commands that have a sentence: it, and the table; new ones are the last."""
    for name, arguments in _ARGUMENTS.items():
        head = rf"(?<=\n### {name}\n)(.*?\n\|---\|---\|---\|\n)(?:\|[^\n]*\n)+"
        found = re.search(head, page, re.DOTALL)
        assert found, f"no table of {name}"
        page = f"{page[: found.start()]}{found[1]}{_arguments(arguments)}{page[found.end() :]}"
    for command in REMOTE.values():
        if command.sentence:
            page = _with_command(page, command)
    return page


def _with_command(page: str, command: Specification) -> str:
    own = [each for each in command.arguments if each not in COMMON]
    said = textwrap.fill(command.sentence, 112, break_long_words=False, break_on_hyphens=False)
    head = "| argument | default | description |\n|---|---|---|\n"
    section = f"### {command.name}\n\n{said}\n\n{head}{_arguments(own)}"
    known = re.compile(rf"### {command.name}\n.*?\n\|---\|---\|---\|\n(?:\|[^\n]*\n)+", re.DOTALL)
    text, count = known.subn(lambda _: section, page, count=1)
    return text if count else page.replace(_BEHIND, f"{section}\n{_BEHIND}", 1)


def _arguments(arguments: Sequence[Argument]) -> str:
    """The rows of a table."""
    return "".join(
        f"| `{each.name}` | {'required' if each.required else each.default or ''} |"
        f" {each.sentence} |\n".replace("|  |", "| |")
        for each in arguments
    )


def with_vim(text: str) -> str:
    """The text of Vim's syntax file with the commands to hosts."""
    names, lines = list(REMOTE), list[str]()
    while names:
        lines.append("\\|".join(names[:7]))
        del names[:7]
    found, count = _VIM.subn(lambda match: match[1] + "\n      \\\\|".join(lines), text)
    assert count == 1, "no commands to hosts"
    return found


def with_code(text: str) -> str:
    """The text of Visual Studio Code's grammar with the commands to hosts."""
    found, count = _CODE.subn(lambda match: match[1] + "|".join(REMOTE), text)
    assert count == 1, "no commands to hosts"
    return found


def with_counters(page: str) -> str:
    """The text of docs/measurements.md with its table of the counters of hosts, and of links."""
    known = {**COUNTERS.own, **{each.name: each for each in carried.KINDS}}
    rows = (
        f"| `{name}` | {', '.join(f'`{one}` ({each.unit(one)})' for one in each.units)} |"
        f" {each.title}: {each.sentence} |\n"
        for name, each in known.items()
    )
    table = "".join(rows)
    text, count = _COUNTERS.subn(lambda match: match[1] + table, page, count=1)
    assert count, "no table of counters"
    return text


def with_fields(text: str) -> str:
    """The text of fields.txt, in whose order the columns are; new ones are the last."""
    lines = {
        each.name: _field(each)
        for block in BLOCKS.values()
        for each in block
        if isinstance(each, Description) and each.operation
    }
    kept = [
        line if not line or line.startswith("#") else lines.pop(line.partition(":")[0], None)
        for line in text.splitlines()
    ]
    return "".join(f"{line}\n" for line in [*kept, *lines.values()] if line is not None)


def _field(column: Description) -> str:
    unit = f"{column.unit:<4} " if len(column.unit) < 5 else f"{column.unit}   "
    meaning = column.meaning if column.meaning.startswith(column.unit) else unit + column.meaning
    return f"{f'{column.name}:{column.operation}':<26} # {meaning}".rstrip()


def with_columns(page: str) -> str:
    """The text of docs/results.md with its table of columns, in the order of an experiment's
    page."""
    rows = []
    for title, block in BLOCKS.items():
        rows.append(f"| **{title}** | | | |\n")
        rows += [_row(each) for each in block if isinstance(each, Description)]
    found, count = _COLUMNS.subn(lambda _: "".join(rows), page)
    assert count == 1, "no table of columns"
    return found


def _row(column: Description) -> str:
    # The unit is in a cell of its own.
    meaning = re.sub(r"^\S+ {2,}", "", column.meaning)
    said = ". ".join(filter(None, (meaning, column.details))).removesuffix(".")
    cells = (column.name, column.counts, column.operation or "", said)
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|\n"


WRITTEN: Mapping[Path, Callable[[str], str]] = {
    ROOT / "docs" / "language.md": with_commands,
    ROOT / "docs" / "measurements.md": with_counters,
    ROOT / "docs" / "results.md": with_columns,
    ROOT / "editors" / "vim" / "syntax" / "nts.vim": with_vim,
    ROOT / "editors" / "vscode" / "syntaxes" / "nts.tmLanguage.json": with_code,
    ROOT / "fields.txt": with_fields,
}
"""The files, and what makes the text of each of what it was."""

if __name__ == "__main__":
    for path, written in WRITTEN.items():
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")
