"""fields.txt: which columns exp.csv has, in which order, and how groups are summed up in each."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from netesto.errors import ScriptError, UsageError
from netesto.results.columns import MEASURED

Operation: TypeAlias = Literal["one", "all", "avg", "sum", "min", "max", "sumRateDur"]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)


@dataclass(frozen=True, slots=True)
class Field:
    """One column of exp.csv and its operation over the groups of an experiment."""

    name: str
    operation: Operation


@dataclass(frozen=True, slots=True)
class Fields:
    """The columns of exp.csv, in order. `source` is the file they were read from."""

    columns: tuple[Field, ...]
    source: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.columns)

    def check_extra(self, keys: Iterable[str]) -> None:
        """Refuse a key of OTHER or SWEEP that has no column, or whose column is measured.

        ScriptError names the field and the file; without a place, for the caller knows it.
        """
        for key in keys:
            if canonical(key) in MEASURED:
                raise ScriptError(
                    f"column {key} is measured; OTHER or SWEEP cannot set it",
                    remedy=f"Choose another name, and add a line `NAME:one` to {self.source}.",
                )
            if canonical(key) not in {canonical(name) for name in self.names}:
                near = difflib.get_close_matches(key, self.names, n=1)
                hint = f"Is {near[0]} meant? Else add" if near else "Add"
                raise ScriptError(
                    f"field {key} is not in {self.source}",
                    remedy=f"{hint} a line `{key}:one` to {self.source}.",
                )


def canonical(name: str) -> str:
    """One spelling for a key: the classic file writes `adaptive_rx`, ethtool `adaptive-rx`."""
    return name.replace("_", "-")


def load(path: Path) -> Fields:
    """Read a fields.txt. UsageError, with file and line, tells what is wrong in it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    return parse(text, source=str(path))


def parse(text: str, *, source: str) -> Fields:
    """The columns that the text of a fields.txt names."""
    columns: list[Field] = []
    lines: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.partition("#")[0].strip()
        if not content:
            continue
        field = _field(content, where=f"{source}:{number}")
        same = lines.setdefault(canonical(field.name), number)
        if same != number:
            raise UsageError(f"{source}:{number}: column {field.name} is already in line {same}")
        columns.append(field)
    if "exp" not in lines:
        raise UsageError(
            f"{source}: there is no column exp",
            remedy="Add `exp:one`; without it no row could be told from another.",
        )
    return Fields(tuple(columns), source)


def _field(content: str, *, where: str) -> Field:
    name, colon, operation = (part.strip() for part in content.partition(":"))
    if not colon or not name:
        raise UsageError(f"{where}: {content!r} is not NAME:OPERATION", remedy="Example: cwnd:avg")
    if any(character in name for character in ' \t",'):
        raise UsageError(f"{where}: the name {name!r} has a blank, a comma or a quote in it")
    for known in OPERATIONS:
        if operation == known:
            return Field(name, known)
    near = difflib.get_close_matches(operation, OPERATIONS, n=1)
    raise UsageError(
        f"{where}: {operation!r} is not an operation" + (f"; is {near[0]} meant?" if near else ""),
        remedy=f"Operations: {' '.join(OPERATIONS)}",
    )
