"""fields.txt: the columns of exp.csv, their order, and how each aggregates groups."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from netesto.errors import ScriptError, UsageError
from netesto.files import texts
from netesto.results import csvfile
from netesto.results.columns import column
from netesto.schema.columns import Operation, canonical
from netesto.text.nearest import nearest

OPERATIONS: tuple[Operation, ...] = get_args(Operation)

# Comment before the columns that are added to a file.
ADDED = "# ---- filled by OTHER and SWEEP"

# The content of a column for ASSERT; any: values of the script.
Kind: TypeAlias = Literal["number", "text", "any"]


@dataclass(frozen=True, slots=True)
class Field:
    """One column of exp.csv and its operation over the groups of an experiment."""

    name: str
    operation: Operation


@dataclass(frozen=True, slots=True)
class Fields:
    """The columns of exp.csv, in order. `source` is the file they were read from, `text` its text;
    the last columns, `added`, are not in it."""

    columns: tuple[Field, ...]
    source: str = ""
    text: str = ""
    added: tuple[Field, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.columns)

    @property
    def own(self) -> tuple[Field, ...]:
        """The columns of the file."""
        return self.columns[: len(self.columns) - len(self.added)]

    def has(self, name: str) -> bool:
        """Whether there is a column for OTHER or a SWEEP factor called `name`.

        ScriptError, without a place, if the script cannot set it.
        """
        known = column(name)
        if not _is_for_scripts(name):
            what = "measured" if known.is_measured else "a number that netesto gives"
            raise ScriptError(
                f"column {name} is {what}; OTHER or SWEEP cannot set it",
                remedy="Choose another name.",
            )
        return canonical(name) in {canonical(field.name) for field in self.columns}

    def nearest(self, name: str) -> str:
        """The column that OTHER or a SWEEP may mean by `name`; empty if none is similar."""
        return nearest(name, filter(_is_for_scripts, self.names)) or ""

    def kinds(self) -> dict[str, Kind]:
        """The content of each column."""
        found = {name: column(name).holds for name in self.names}
        return {name: "any" if holds == "name" else holds for name, holds in found.items()}

    def with_added(self, fields: Iterable[Field]) -> "Fields":
        """These columns, followed by those of `fields` that are missing."""
        present = {canonical(field.name) for field in self.columns}
        fresh: dict[str, Field] = {}
        for field in fields:
            if canonical(field.name) not in present:
                fresh.setdefault(canonical(field.name), field)
        new = tuple(fresh.values())
        return replace(self, columns=(*self.columns, *new), added=(*self.added, *new))

    def with_names(self, names: Iterable[str]) -> "Fields":
        """These columns, followed by one for each further name from OTHER or SWEEP."""
        return self.with_added(Field(name, "one") for name in names)

    def __str__(self) -> str:
        """The text of a fields.txt with these columns."""
        if not self.added:
            return self.text
        lines = [f"{field.name}:{field.operation}" for field in self.added]
        return "\n".join([self.text.rstrip("\n"), "", ADDED, *lines, ""])


def _is_for_scripts(name: str) -> bool:
    known = column(name)
    return not known.is_measured and known.by != "netesto"


def difference(old: Fields, new: Fields) -> str:
    """In words, how `new` differs from `old`."""
    before = {field.name: field.operation for field in old.columns}
    changed = [
        f"{name} is {operation} now, and was {before[name]}"
        for name, operation in ((field.name, field.operation) for field in new.columns)
        if before.get(name, operation) != operation
    ]
    names = csvfile.difference(old.names, new.names)
    return "; ".join([*names, *changed]) or "their order differs"


def load(path: Path) -> Fields:
    """Read a fields.txt. UsageError, with file and line, if it is invalid."""
    remedy = "Name a file with a line NAME:OPERATION for each column, like fields.txt."
    return parse(texts.read(path, remedy=remedy), source=str(path))


def parse(text: str, *, source: str) -> Fields:
    """The columns in the text of a fields.txt."""
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
            f"{source}: no column exp",
            remedy="Add `exp:one`: it identifies rows.",
        )
    return Fields(tuple(columns), source, text)


def _field(content: str, *, where: str) -> Field:
    name, colon, operation = (part.strip() for part in content.partition(":"))
    if not colon or not name:
        raise UsageError(f"{where}: {content!r} is not NAME:OPERATION", remedy="Example: cwnd:avg")
    if any(character in name for character in ' \t",'):
        raise UsageError(f"{where}: invalid name {name!r}: it holds a space, a comma or a quote")
    for known in OPERATIONS:
        if operation == known:
            return Field(name, known)
    near = nearest(operation, OPERATIONS)
    raise UsageError(
        f"{where}: {operation!r} is not an operation" + (f"; did you mean {near}?" if near else ""),
        remedy=f"Operations: {' '.join(OPERATIONS)}",
    )
