"""What an earlier run has measured in the SWEEP cells that `--resume` passes over."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial

from netesto.controller import digest
from netesto.results import csvfile, derive, manifest, store
from netesto.results.fields import Fields
from netesto.results.store import Store


class _Columns(Mapping[str, str]):
    """Columns that are made when somebody looks at them: most cells claim nothing."""

    def __init__(self, make: Callable[[], Mapping[str, str]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> Mapping[str, str]:
        return self._make()

    def __getitem__(self, name: str) -> str:
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


def earlier(
    results: Store, script: str, claimable: Fields, *, warn: Callable[[str], None]
) -> Callable[[Mapping[str, str]], Sequence[Mapping[str, str]] | None]:
    """Tells the columns of the experiments that finished a cell of `script` well, those that
    ASSERT may speak of; None for a cell that none did. `warn` is told which are run again, because
    their experiments are not what they were."""
    rows = store.by_experiment(csvfile.read(results.folder / store.TABLE))

    def columns_of(exp: int) -> Mapping[str, str]:
        row = rows[exp][0] if exp in rows else {}
        if row.keys() >= set(claimable.names):
            return row
        folder = results.whole(exp)
        found = manifest.read(folder / manifest.NAME)
        return derive.aggregate_row(digest.evidence(folder, found), found, claimable)

    def of_cell(cell: Mapping[str, str]) -> Sequence[Mapping[str, str]] | None:
        experiments = results.finished_cell(script, cell)
        if experiments is None:
            name = " ".join(f"{name}={value}" for name, value in cell.items())
            for lost in results.lost_cell(script, cell):
                warn(f"{name} is run again: {lost}")
            return None
        return [_Columns(partial(columns_of, exp)) for exp in experiments]

    return of_cell
