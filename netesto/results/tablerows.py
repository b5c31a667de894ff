"""Rows of exp.csv, and whether they are those derived from the data."""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from netesto.errors import ResultsError
from netesto.results import csvfile, keyvalue, packed, store
from netesto.results.columns import COLUMNS, column
from netesto.results.evidence import DAMAGED
from netesto.schema.columns import canonical

_GROUPS = "groupRows"


def of(folder: Path, wanted: Collection[int]) -> list[Mapping[str, str]]:
    """The rows of these experiments in exp.csv, in order. Damaged rows are omitted."""
    found = csvfile.by_experiment(csvfile.salvage(folder / store.TABLE))
    return [row for exp in sorted(wanted) for row in found.get(exp, ())]


def altered(folder: Path) -> Iterator[str]:
    """Warnings, in words, of complete experiments in `folder` whose rows in exp.csv are missing, or
    differ from those derived from their data; experiments without derived files are skipped."""
    numbers = store.experiments(folder) if folder.is_dir() else []
    known = {exp: derived(folder / str(exp)) for exp in numbers}
    if not any(known.values()):
        return
    found = csvfile.by_experiment(csvfile.salvage(folder / store.TABLE))
    for exp in numbers:
        if known[exp] and not _agree(known[exp], found.get(exp, [{}]), exp):
            yield (
                f"{folder / store.TABLE}: the rows of experiment {exp} differ from those derived"
                f" from its data; `netesto report {folder}` rebuilds them"
            )


def _agree(known: Mapping[str, str], rows: Sequence[Mapping[str, str]], exp: int) -> bool:
    """Whether rows are the derived ones, of which exp.csv may have fewer columns; or the row of an
    experiment with a damaged manifest."""
    row, *groups = rows
    as_derived = all(known.get(name) == " ".join(text.split()) for name, text in row.items())
    if _GROUPS in known:  # later than the first results folders
        as_derived = as_derived and known.items() >= checksum_of_groups(groups).items()
    return bool(row) and (as_derived or row == damaged_row(row, exp))


def checksum_of_groups(rows: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """A key of an experiment's derived file: the SHA-256 of the rows of its groups. Empty columns
    that are added later do not change it."""
    cells = [sorted((name, text) for name, text in row.items() if text) for row in rows]
    return {_GROUPS: hashlib.sha256(json.dumps(cells).encode()).hexdigest()}


def status_of(row: Mapping[str, str], folder: Path) -> str:
    """The status in a row of exp.csv; without such a column, the derived one in the experiment's
    folder. Empty if unknown."""
    return row["status"] if "status" in row else derived(folder).get("status", "")


def with_requested(folder: Path, rows: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """Aggregate rows of exp.csv with their status and what was requested, also if the folder's
    fields.txt has no such columns: from the experiments' own files, as far as these are there."""
    names = {name for name in COLUMNS if column(name).is_factor} | {"status"}
    if not rows or names <= set(map(canonical, rows[0])):
        return [*rows]
    known = [derived(folder / row["exp"].partition(".")[0]) for row in rows]
    missing = {name for each in known for name in each if canonical(name) in names} - rows[0].keys()
    return [
        {**row, **{name: each.get(name, "") for name in sorted(missing)}}
        for row, each in zip(rows, known, strict=True)
    ]


def with_own_values(folder: Path, row: Mapping[str, str]) -> Mapping[str, str]:
    """A group's row of exp.csv, and the values of the group for which exp.csv has no column."""
    exp, _, group = row["exp"].partition(".")
    with packed.opened(folder / exp) as inside:
        own = next(inside.glob(f"*-{group}.exp.out"), None)
        return row if own is None else {**_values(own), **row}


def damaged_row(names: Iterable[str], exp: int) -> dict[str, str]:
    """The one row of an experiment whose manifest is damaged: nothing can be derived."""
    known = {"exp": f"{exp}.0", "expNumber": str(exp), "group": "0", "status": DAMAGED}
    return {name: known.get(name, "") for name in names}


def is_damaged_row(row: Mapping[str, str]) -> bool:
    """Whether a row of exp.csv is such a row, without measurements."""
    number = row.get("exp", "").partition(".")[0]
    return number.isdecimal() and row == damaged_row(row, int(number))


def derived(folder: Path) -> dict[str, str]:
    """The derived values of an experiment, by key, from its folder; none if they are not there."""
    return _values(folder / store.DERIVED)


def _values(path: Path) -> dict[str, str]:
    try:
        return keyvalue.read(path)
    except ResultsError:
        return {}
