"""What an earlier run has measured in the SWEEP cells that `--resume` passes over."""

from collections.abc import Callable, Mapping, Sequence

from netesto.controller import digest
from netesto.results import csvfile, derive, manifest, store
from netesto.results.fields import Fields
from netesto.results.store import Store


def earlier(
    results: Store, script: str, claimable: Fields
) -> Callable[[Mapping[str, str]], Sequence[Mapping[str, str]] | None]:
    """Tells the columns of the experiments that finished a cell of `script` well, those that
    ASSERT may speak of; None for a cell that none did."""
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
        return None if experiments is None else [columns_of(exp) for exp in experiments]

    return of_cell
