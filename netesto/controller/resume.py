"""What an earlier run has measured in the SWEEP cells that `--resume` passes over."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial

from netesto.controller import digest
from netesto.language import ports
from netesto.language.commands import DO_CLIENT_ARGUMENTS
from netesto.model import FlowSpec
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


# The options that are compared, by their arguments. Left out are the tool, which a run chooses, and
# when flows start and how long they run, which scripts draw at random; of durations the longest
# counts.
_COMPARED: Mapping[str, Sequence[str]] = {
    argument.name: argument.fields.split()
    for argument in DO_CLIENT_ARGUMENTS
    if argument.fields and argument.name not in {"tool", "delay", "dur"}
}


def otherwise(
    results: Store, script: str, cell: Mapping[str, str], flows: Sequence[ports.DoClient]
) -> str:
    """In words, how a finished cell was measured otherwise than with these flows, which the script
    asks for now; "" if it was not."""
    experiments = results.finished_cell(script, cell) or ()
    manifests = [manifest.read(results.whole(exp) / manifest.NAME) for exp in experiments]
    then: list[FlowSpec] = [group.request for each in manifests for group in each.groups]
    now = [command.flow for command in flows]
    pairs = {
        name: [_values(each, fields) for each in (then, now)] for name, fields in _COMPARED.items()
    }
    pairs["groups"] = [str(len(each)) for each in (then, now)]
    pairs["dur"] = [
        f"{max((flow.duration_s for flow in each), default=0):g}" for each in (then, now)
    ]
    return ", ".join(
        f"{name}={old} and not {new}" for name, (old, new) in pairs.items() if old != new
    )


def _values(flows: Sequence[FlowSpec], fields: Sequence[str]) -> str:
    found = {tuple(getattr(flow, field) for field in fields) for flow in flows}
    texts = (
        ",".join("default" if value is None else f"{value}" for value in values) for values in found
    )
    return "/".join(sorted(texts))
