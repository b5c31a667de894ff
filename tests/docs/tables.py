"""What the code decides of the manual and of fields.txt. `make docs` (python tests/docs/tables.py)
writes it into these files."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from netesto.collectors.counters import COUNTERS
from netesto.language.commands import DO_CLIENT_ARGUMENTS, DO_TRACE_ARGUMENTS
from netesto.schema.columns import BLOCKS, Description
from netesto.schema.kinds import Argument

ROOT = Path(__file__).parents[2]

_ARGUMENTS: Mapping[str, tuple[Argument, ...]] = {
    "DO_CLIENT": DO_CLIENT_ARGUMENTS,
    "DO_TRACE": DO_TRACE_ARGUMENTS,
}
_COUNTERS = re.compile(r"(?<=\n## Counters\n)(.*?\n\|---\|---\|---\|\n)(?:\|[^\n]*\n)*", re.DOTALL)
_HEAD = "| column | unit | row N.0 | description |\n|---|---|---|---|\n"
_COLUMNS = re.compile(rf"(?<={re.escape(_HEAD)})(?:\|[^\n]*\n)*")


def with_options(page: str) -> str:
    """The text of docs/language.md with its tables of arguments."""
    for command, arguments in _ARGUMENTS.items():
        page = _with_table(page, command, arguments)
    return page


def _with_table(page: str, command: str, arguments: tuple[Argument, ...]) -> str:
    rows = (
        f"| `{each.name}` | {'required' if each.required else each.default or ''} |"
        f" {each.sentence} |\n".replace("|  |", "| |")
        for each in arguments
    )
    table = "".join(rows)
    head = rf"(?<=\n### {command}\n)(.*?\n\|---\|---\|---\|\n)(?:\|[^\n]*\n)+"
    text, count = re.subn(head, lambda match: match[1] + table, page, count=1, flags=re.DOTALL)
    assert count, f"no table of {command}"
    return text


def with_counters(page: str) -> str:
    """The text of docs/measurements.md with its table of the counters of hosts."""
    rows = (
        f"| `{name}` | {', '.join(f'`{one}` ({each.unit(one)})' for one in each.units)} |"
        f" {each.title}: {each.sentence} |\n"
        for name, each in COUNTERS.own.items()
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
    ROOT / "docs" / "language.md": with_options,
    ROOT / "docs" / "measurements.md": with_counters,
    ROOT / "docs" / "results.md": with_columns,
    ROOT / "fields.txt": with_fields,
}
"""The files, and what makes the text of each of what it was."""

if __name__ == "__main__":
    for path, written in WRITTEN.items():
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")
