"""The rows of a report: columns that are converted when needed, a selection, the visible
columns."""

import functools
import itertools
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote

import numpy as np

from netesto.errors import ScriptError
from netesto.report.expscript import csvcells, numerals
from netesto.report.expscript.csvcells import Booleans, Floats, Integers, Warn, parse_all
from netesto.report.expscript.ids import NUMBER, Ids
from netesto.results import aggregate, repeated, store, tablerows
from netesto.results.columns import NO_VARIANT, SEVERITY
from netesto.results.columns import column as described
from netesto.results.evidence import PARTIAL
from netesto.results.severity import Severity
from netesto.text.nearest import alike
from netesto.units import counted

# The column whose text identifies a row: N.0 is the experiment N, N.1, N.2 … its groups.
EXP = "exp"
# Columns that identify rows; their mean would be meaningless, and would break links.
IDENTIFYING = frozenset({EXP, NUMBER, "expName", "group"})
# Columns of our exp.csv (it has a status) that classic scripts, the paper's among them, make under
# the same name. A column of the script replaces ours: our Jain's index is not their fastest over
# slowest.
YIELDING = frozenset({"fairness"})
STATUS = "status"
DEFAULT_DECIMALS = 2
# How many duplicate ids a warning names.
DUPLICATES_NAMED = 5

Parsed: TypeAlias = tuple[Floats, Booleans]


@dataclass(frozen=True, eq=False)
class DataColumn:
    """A column of cells, converted to text or numbers when first used.

    `read_texts` and `read_numbers` read the cells of some rows, with None all of them, and `rows`
    are those of the column. `decimals` is how many are shown when formatting is on; None: the
    default of the report.
    """

    name: str
    read_texts: Callable[[Integers | None], list[str]]
    read_numbers: Callable[[Integers | None], Parsed]
    decimals: int | None = None
    rows: Integers | None = None

    @classmethod
    def computed(
        cls,
        name: str,
        *,
        texts: Callable[[], list[str]],
        numbers: Callable[[], Parsed] | None = None,
        decimals: int | None = None,
    ) -> "DataColumn":
        """A column that is computed as a whole, once; its numbers are those in its texts."""
        known = functools.cache(texts)
        parsed = functools.cache(numbers or (lambda: parse_all(known())))
        return cls(
            name,
            lambda rows: known() if rows is None else [*map(known().__getitem__, rows.tolist())],
            lambda rows: parsed() if rows is None else (parsed()[0][rows], parsed()[1][rows]),
            decimals,
        )

    @classmethod
    def of(cls, name: str, texts: list[str], *, decimals: int | None = None) -> "DataColumn":
        """A column whose texts are known."""
        return cls.computed(name, texts=lambda: texts, decimals=decimals)

    @cached_property
    def texts(self) -> list[str]:
        """The cells as written."""
        return self.read_texts(self.rows)

    @cached_property
    def _parsed(self) -> Parsed:
        return self.read_numbers(self.rows)

    @property
    def numbers(self) -> Floats:
        """The cells as numbers, nan where a cell is not one."""
        return self._parsed[0]

    @property
    def numeric(self) -> Booleans:
        """Which cells are numbers."""
        return self._parsed[1]

    def take(self, rows: Integers) -> "DataColumn":
        """These rows, in this order; nothing is converted yet."""
        return replace(self, rows=rows if self.rows is None else self.rows[rows])


def _below(name: str, parts: Sequence[tuple[DataColumn | None, int]], missing: str) -> DataColumn:
    """The cells of columns one below the other; a part without such a column has `missing`
    cells instead."""

    def texts() -> list[str]:
        return [
            text
            for column, count in parts
            for text in ([missing] * count if column is None else column.texts)
        ]

    decimals = next(column.decimals for column, _ in parts if column is not None)
    return DataColumn.computed(name, texts=texts, decimals=decimals)


@dataclass(frozen=True, slots=True)
class Dataset:
    """Columns by name, in order, and where the pages of their experiments are.

    `folders` are the folders with experiments, `folder_of` is each row's (an index), `numbered`
    holds the ids that the experiments have there, and `ids` is what ids are. `formatted`: numbers
    are shown with `decimals` decimals, or with those of their column. `yielding` are the columns
    that a new one of the same name may replace.

    Of results of netesto are known: `units`, by column, and `factors`, the columns that scripts
    set: rows that differ in one of them are not repetitions of each other.
    """

    columns: Mapping[str, DataColumn]
    count: int
    folders: tuple[Path, ...]
    folder_of: Integers
    numbered: DataColumn
    ids: Ids
    formatted: bool = False
    decimals: int = DEFAULT_DECIMALS
    yielding: frozenset[str] = frozenset()
    units: Mapping[str, str] = field(default_factory=dict)
    factors: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns)

    def with_column(self, column: DataColumn) -> "Dataset":
        """Add a column at the end; it replaces one with the same name."""
        others = {name: known for name, known in self.columns.items() if name != column.name}
        return replace(
            self,
            columns={**others, column.name: column},
            yielding=self.yielding - {column.name},
            units={name: unit for name, unit in self.units.items() if name != column.name},
            factors=self.factors - {column.name},
        )

    def titled(self, name: str) -> str:
        """A column's name, and its unit if it is known; also of a statistic of it (rate.ci95)."""
        base, _, word = name.partition(".")
        unit = "" if word == "n" else self.units.get(name) or self.units.get(base)
        return f"{name} ({unit})" if unit else name

    def take(self, rows: Integers) -> "Dataset":
        """Only these rows, in this order."""
        return replace(
            self,
            columns={name: column.take(rows) for name, column in self.columns.items()},
            count=len(rows),
            folder_of=self.folder_of[rows],
            numbered=self.numbered.take(rows),
        )

    def shown_decimals(self, name: str) -> int:
        """The number of decimals of a column when formatting is on."""
        own = self.columns[name].decimals
        return self.decimals if own is None else own

    def cell_text(self, name: str, text: str) -> str:
        """A cell of a column as a table shows it."""
        if name == EXP and self.ids.mislead:
            # With two decimals 12.1 would look like the tenth group.
            return text
        return numerals.fixed(text, self.shown_decimals(name)) if self.formatted else text


@dataclass(frozen=True, slots=True)
class View:
    """A data set, the selected rows in their order, and the visible columns as requested."""

    data: Dataset
    rows: Integers
    visible: tuple[str, ...]
    # Cols= may show columns in its own order instead of the file's.
    own_order: bool = False

    @classmethod
    def of(cls, data: Dataset) -> "View":
        """All rows in their order, all columns."""
        return cls(data, np.arange(data.count), data.names)

    @property
    def shown_columns(self) -> tuple[str, ...]:
        """The visible columns in the order in which a table shows them."""
        if self.own_order:
            return tuple(dict.fromkeys(self.visible))
        chosen = frozenset(self.visible)
        return tuple(name for name in self.data.names if name in chosen)

    def column(self, name: str, *, what: str) -> DataColumn:
        """A column. ScriptError with `what` needs it and the nearest names if there is none."""
        if name not in self.data.columns:
            raise ScriptError(f"{what}: no column {name!r}", remedy=nearest(name, self.data.names))
        return self.data.columns[name]

    def with_column(self, column: DataColumn) -> "View":
        """One more column, computed for every row, visible."""
        others = tuple(name for name in self.visible if name != column.name)
        return replace(self, data=self.data.with_column(column), visible=(*others, column.name))


def nearest(name: str, names: Sequence[str]) -> str:
    """Similar names, as a sentence."""
    if near := alike(name, names, most=3):
        return f"did you mean {' or '.join(map(repr, near))}?"
    shown = ", ".join(list(names)[:12])
    return f"there are: {shown}{', …' if len(names) > 12 else ''}"


def load(path: Path, *, decimals: int | None, warn: Warn) -> Dataset:
    """Read a CSV file. ScriptError if it cannot be read or has no column exp.

    `decimals` is the count that a `format` before the file has given. A header cell `name:2` sets
    the decimals of its column.
    """
    header, cells = csvcells.load(path, warn=warn)
    columns: dict[str, DataColumn] = {}
    for position, written in enumerate(header):
        name, own = _name_and_decimals(written)
        if name in columns:
            numbered = (f"{name}.{number}" for number in itertools.count(2))
            other = next(each for each in numbered if each not in columns)
            warn(f"{path}: column {name!r} is there again; this one is called {other!r}")
            name = other
        columns[name] = DataColumn(
            name,
            functools.partial(cells.texts, position),
            functools.partial(cells.numbers, position),
            own,
        )
    if EXP not in columns:
        raise ScriptError(
            f"csv file {str(path)!r} has no column 'exp'",
            remedy=f"Its first line must name it; it names: {', '.join(columns)[:200]!r}",
        )
    _tell_duplicates(path, columns[EXP], warn=warn)
    is_ours = path.name == store.TABLE
    doubts = [*tablerows.altered(path.parent), *repeated.warnings(path.parent)] if is_ours else ()
    for text in doubts:
        warn(text)
    data = Dataset(
        columns=columns,
        count=cells.count,
        folders=(path.parent,),
        folder_of=np.zeros(cells.count, dtype=np.intp),
        numbered=columns[EXP],
        ids=Ids.of(columns[EXP], columns),
        formatted=decimals is not None
        or any(column.decimals is not None for column in columns.values()),
        decimals=DEFAULT_DECIMALS if decimals is None else decimals,
        yielding=YIELDING if STATUS in columns else frozenset(),
        units=_units(columns),
        factors=_factors(columns),
    )
    omitted = [*repeated.of(path.parent)] if is_ours else []
    if not omitted:
        return data
    return data.take(np.flatnonzero(~np.isin(np.trunc(columns[EXP].numbers), omitted)))


def _units(columns: Collection[str]) -> dict[str, str]:
    """Of results of netesto, whose columns have the units of its table."""
    if STATUS not in columns:
        return {}
    return {name: unit for name in columns if (unit := described(name).unit)}


def _factors(columns: Collection[str]) -> frozenset[str]:
    """The columns of results of netesto that distinguish experiments. Groups of one usually differ
    in their delay."""
    if STATUS not in columns:
        return frozenset()
    known = {name for name in columns if described(name).is_factor}
    return frozenset(known - IDENTIFYING - NO_VARIANT - {"delay"})


def pooled(data: Dataset, pools: Iterable[Sequence[int]], except_: Collection[str]) -> str:
    """A factor in which rows of a pool differ, and two of its values, in words; "" if none do."""
    texts = {name: data.columns[name].texts for name in sorted(data.factors - set(except_))}
    for rows in pools:
        for name, column in texts.items():
            first = column[rows[0]]
            for other in {column[row] for row in rows[1:]} - {first}:
                if not aggregate.same(first, other):
                    return f"{name} ({first.strip() or 'none'} and {other.strip() or 'none'})"
    return ""


def refuse_pools(
    data: Dataset, pools: Iterable[Sequence[int]], what: str, except_: Collection[str]
) -> None:
    """ScriptError if rows that `what` would pool differ in a factor."""
    if found := pooled(data, pools, except_):
        name = found.partition(" ")[0]
        raise ScriptError(
            f"{what}: rows that would count as repetitions of each other differ in {found}",
            remedy=f"Select one value, or keep them apart: {_APART[what]}. If they are repetitions"
            f" all the same, write Repeats={name}.",
        )


_APART = {
    "Average": "name the column in Average=",
    "plotRepeats": "use the column for plotX, plotSeries or plotFacet",
}


def _name_and_decimals(written: str) -> tuple[str, int | None]:
    name, colon, digits = written.strip().rpartition(":")
    if colon and digits.isdecimal():
        return name.strip(), min(int(digits), numerals.DECIMALS_MAX)
    return written.strip(), None


def _tell_duplicates(path: Path, ids: DataColumn, *, warn: Warn) -> None:
    # Different numbers are different texts, and comparing a million numbers is fast.
    if ids.numeric.all() and len(np.unique(ids.numbers)) == len(ids.numbers):
        return
    again = [text for text, count in Counter(ids.texts).items() if count > 1]
    if again:
        named = ", ".join(again[:DUPLICATES_NAMED])
        more = ", …" if len(again) > DUPLICATES_NAMED else ""
        warn(f"{path}: exp {named}{more} on more than one row; all of them are kept")


def warn_of_partial(view: View, what: str, *, warn: Warn) -> None:
    """Warn if selected rows are of experiments or groups of which flows failed: the values are
    those of the others."""
    status = view.data.columns.get(STATUS)
    count = 0 if status is None else status.take(view.rows).texts.count(PARTIAL)
    if count:
        warn(
            f"{what}: {counted(count, 'row')} with status {PARTIAL}: some flows failed, and the"
            f" values are those of the others; Select={STATUS}!={PARTIAL} leaves them out"
        )


def without_invalidated(view: View, what: str, *, keep: bool, warn: Warn) -> View:
    """The selected rows that no warning invalidates, unless all are to be kept."""
    column = view.data.columns.get(SEVERITY)
    if keep or column is None:
        return view
    texts = column.take(view.rows).texts
    is_valid = np.array([text != Severity.INVALIDATES for text in texts], dtype=np.bool_)
    if count := len(is_valid) - int(is_valid.sum()):
        warn(
            f"{what}: {counted(count, 'row')} left out: a warning invalidates "
            f"{'them' if count > 1 else 'it'}; Invalidated=keep keeps them"
        )
    return replace(view, rows=view.rows[is_valid])


def append(view: View, path: str, *, warn: Warn) -> View:
    """Add the rows of another file below, selected, with new ids above all that exist.

    The ids grow by the largest one rounded up to the next hundred. Columns are matched by name:
    a missing one is filled with single spaces, an extra one is omitted.
    """
    old = view.data
    new = load(Path(path), decimals=None, warn=warn)
    extra = [name for name in new.names if name not in old.columns]
    if extra:
        warn(f"{path}: columns that the first file does not have are left out: {', '.join(extra)}")
    known = old.columns[EXP]
    largest = np.max(known.numbers[np.isfinite(known.numbers)], initial=0.0)
    base = (int(largest) // 100 + 1) * 100
    renumbered = DataColumn.of(EXP, [_renumbered(text, base) for text in new.columns[EXP].texts])
    below = {**new.columns, EXP: renumbered}
    data = replace(
        old,
        columns={
            name: _below(name, [(column, old.count), (below.get(name), new.count)], " ")
            for name, column in old.columns.items()
        },
        count=old.count + new.count,
        folders=(*old.folders, *new.folders),
        folder_of=np.concatenate((old.folder_of, new.folder_of + len(old.folders))),
        numbered=_below(EXP, [(old.numbered, old.count), (new.numbered, new.count)], " "),
        ids=old.ids.with_files(new.ids),
    )
    return replace(view, data=data, rows=np.append(view.rows, np.arange(old.count, data.count)))


def _renumbered(text: str, base: int) -> str:
    whole, point, part = text.strip().partition(".")
    if not whole.isdecimal():
        raise ScriptError(f"append: exp {text!r} is not a number, it cannot be given a new one")
    return f"{int(whole) + base}{point}{part}"


def join(sources: Mapping[str, Path], *, decimals: int | None, warn: Warn) -> Dataset:
    """Several files as one, with a first column `source` that holds their labels.

    All columns are kept, in order of first appearance; a file without one has empty cells there.
    Ids stay: source and exp identify a row.
    """
    parts = {label: load(path, decimals=decimals, warn=warn) for label, path in sources.items()}
    names = dict.fromkeys(name for part in parts.values() for name in part.names)
    columns = {
        "source": DataColumn.of(
            "source", [label for label, part in parts.items() for _ in range(part.count)]
        )
    }
    if "source" in names:
        warn("join: the files have a column 'source'; the labels replace it")
        del names["source"]
    for name in names:
        found = [(part.columns.get(name), part.count) for part in parts.values()]
        columns[name] = _below(name, found, "")
    return Dataset(
        columns=columns,
        count=sum(part.count for part in parts.values()),
        folders=tuple(part.folders[0] for part in parts.values()),
        folder_of=np.repeat(np.arange(len(parts)), [part.count for part in parts.values()]),
        numbered=columns[EXP],
        ids=functools.reduce(Ids.with_files, (part.ids for part in parts.values())),
        formatted=any(part.formatted for part in parts.values()),
        decimals=DEFAULT_DECIMALS if decimals is None else decimals,
        yielding=YIELDING if all(part.yielding for part in parts.values()) else frozenset(),
        units={name: unit for part in parts.values() for name, unit in part.units.items()},
        factors=frozenset[str]().union(*(part.factors for part in parts.values()), {"source"}),
    )


def link(
    data: Dataset,
    row: int,
    *,
    prefix: str | None,
    page: str,
    out_folder: Path | None,
) -> str:
    """Where the page of a row's experiment is, "" for none.

    With a `prefix` (relPath) it is prefix/N/page, N the number shown; an empty prefix means no
    links. Without, it is found from the row's own CSV file, relative to the folder of the report.
    """
    own = prefix is None or data.folder_of[row] != 0
    ids = data.numbered if own else data.columns[EXP]
    number = numerals.drawable(ids.texts[row])
    if number is None or prefix == "":
        return ""
    if not own:
        return f"{prefix}/{int(number)}/{page}"
    folder = data.folders[int(data.folder_of[row])]
    shown = folder.as_posix()
    if out_folder is not None:
        shown = Path(os.path.relpath(folder, out_folder)).as_posix()
    # A folder's name may contain characters with a meaning in a URL: # ? % and colons.
    return f"{quote(shown)}/{int(number)}/{quote(page)}"
