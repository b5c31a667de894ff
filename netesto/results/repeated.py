"""Experiments that were deleted and imported again: their old rows stay in exp.csv."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from netesto.results import csvfile, imported, store

# What differs in the rows of an experiment that is imported again.
_NUMBERED = frozenset({"exp", "expNumber"})


def of(folder: Path) -> Mapping[int, int]:
    """The experiments of a results folder that have no folder of their own any more, and the same
    rows as an imported one, with the number of that one."""
    numbers = store.experiments(folder) if folder.is_dir() else []
    known = [exp for exp in numbers if (folder / str(exp) / imported.NAME).is_file()]
    if not known:
        return {}
    rows = csvfile.by_experiment(csvfile.salvage(folder / store.TABLE))

    def content(exp: int) -> tuple[tuple[str, ...], ...]:
        return tuple(
            tuple(text for name, text in row.items() if name not in _NUMBERED) for row in rows[exp]
        )

    again = {content(exp): exp for exp in known if exp in rows}
    gone = (exp for exp in rows if not store.bears(folder, exp))
    return {exp: again[key] for exp in gone if (key := content(exp)) in again}


def warnings(folder: Path) -> Iterator[str]:
    """A warning for each of them: its rows are omitted."""
    for exp, again in of(folder).items():
        yield f"experiment {exp} was deleted and imported again as {again}: it counts once"
