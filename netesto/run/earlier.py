"""Measurements of earlier runs in the SWEEP cells that `--resume` skips."""

import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from netesto import units
from netesto.controller import digest
from netesto.language import steps
from netesto.language.commands import DO_CLIENT_ARGUMENTS
from netesto.language.plan import Part, Plan
from netesto.model import FlowSpec
from netesto.results import csvfile, derive, manifest, store
from netesto.results.fields import Fields
from netesto.results.store import FinishedCell, Store
from netesto.run.request import Watcher

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Passed:
    """The skipped parts, by their indices, with the experiments that finished them; and the false
    claims of the script about them."""

    parts: Mapping[int, Sequence[int]] = field(default_factory=dict)
    failures: tuple[str, ...] = ()


def pass_over(
    plan: Plan,
    results: Store,
    watcher: Watcher,
    *,
    script: str,
    claimable: Fields,
    nested: bool,
) -> Passed:
    """Find and report the cells of `script` that were finished successfully before; with `nested`,
    also those within unfinished cells. `claimable` are the columns that claims may use."""
    if not any(part.cell for part in plan.head.parts):
        watcher.warn(
            "--resume skips finished cells of a SWEEP; this script has none, and all of it runs"
        )
        return Passed()
    done: dict[int, _Done] = {}
    inside: set[int] = set()
    changed: list[str] = []
    for part in plan.head.parts:
        if part.index is None or not part.cell:
            continue
        if part.within in done or part.within in inside:
            inside.add(part.index)
        elif part.within is None or nested:
            found = results.finished_cell(script, part.cell, part_hash=part.hash)
            if found is not None and not found.faults:
                done[part.index] = _Done(part, found)
            if found is None and results.knows_cell(script, part.cell):
                changed.append(_name(part))
            for exp, fault in found.faults.items() if found is not None else ():
                watcher.warn(f"{_name(part)} is run again: experiment {exp} {fault}")
    if changed:
        names = changed[0] if len(changed) == 1 else f"{changed[0]} … ({len(changed)} cells)"
        watcher.warn(
            f"run again: {names}: the script, a library, the LAB, the seed, the columns of"
            " fields.txt, or the version of netesto has changed. Their earlier experiments stay in"
            " exp.csv, and count as repetitions"
        )
    if not done:
        return Passed()
    failures = list(_failures(plan, done, _earlier_columns(results, claimable)))
    whole = [_name(each.part) for each in done.values()]
    for name in whole:
        _log.info("skipped %s", name)
    which = whole[0] if len(whole) == 1 else f"{len(whole)} cells, {whole[0]} … {whole[-1]}"
    watcher.say(f"skipped {which}: finished by an earlier run")
    for each in done.values():
        how = "" if each.cell.part_hash else otherwise(results, each.cell, each.flows)
        if how:
            name = _name(each.part)
            watcher.warn(f"{name} was measured with {how}; without --resume it runs again")
    is_all = len(done) + len(inside) == sum(bool(each.cell) for each in plan.head.parts)
    drawn = [] if is_all else [_name(each.part) for each in done.values() if each.drew(results)]
    if drawn:
        watcher.warn(
            f"{drawn[0] if len(drawn) == 1 else f'{drawn[0]} … ({len(drawn)} cells)'}: an earlier"
            " version drew Poisson arrivals and requests of KV_RR from the number of the"
            " experiment; cells that run now draw them from the seed and the name of the cell;"
            " without --resume all cells run"
        )
    for failed in failures:
        watcher.warn(f"assertion failed: {failed}")
    parts = {index: each.cell.experiments for index, each in done.items()}
    return Passed(parts, tuple(failures))


@dataclass(frozen=True, slots=True)
class _Done:
    """A skipped part, its finished experiments, and the flows that the script requests there
    now."""

    part: Part
    cell: FinishedCell
    flows: list[steps.DoClient] = field(default_factory=list)

    def drew(self, results: Store) -> bool:
        """Whether its flows drew something, and got no seed for that, as before these had one."""
        manifests = (
            manifest.read(results.whole(exp) / manifest.NAME) for exp in self.cell.experiments
        )
        requests = [group.request for each in manifests for group in each.groups]
        return any(
            not each.seed and (each.arrivals == "poisson" or each.test == "KV_RR")
            for each in requests
        )


def _name(part: Part) -> str:
    return " ".join(f"{name}={value}" for name, value in part.cell.items())


def _failures(
    plan: Plan, done: Mapping[int, _Done], columns_of: Callable[[int], Mapping[str, str]]
) -> Iterator[str]:
    """The false claims of the script about skipped parts. Their flows are noted."""
    from netesto.language.claims import falsehood

    current: _Done | None = None
    left: Iterator[int] = iter(())
    # By the number in the plan: the owner of the experiment, and its earlier number.
    measured: dict[int, tuple[_Done, int]] = {}
    for step in plan.steps():
        match step:
            case steps.EnterPart(index=index) if index in done:
                current = done[index]
                left = iter(current.cell.experiments)
            case steps.LeavePart(index=index) if index in done:
                current = None
            case steps.DoClient() if current is not None:
                current.flows.append(step)
            case steps.ProcessExperiment(exp=exp) if current is not None:
                number = next(left, None)
                if number is not None:
                    measured[exp] = current, number
            case steps.Claim(exp=exp) if exp in measured:
                owner, number = measured[exp]
                if said := falsehood(step, columns_of(number), exp=number):
                    yield f"{_name(owner.part)}, of an earlier run: {said}"


def _earlier_columns(results: Store, claimable: Fields) -> Callable[[int], Mapping[str, str]]:
    """The columns that claims may use, of an experiment in the results folder."""
    rows = csvfile.by_experiment(csvfile.read(results.folder / store.TABLE))

    @functools.cache
    def columns_of(exp: int) -> Mapping[str, str]:
        row = rows[exp][0] if exp in rows else {}
        if row.keys() >= set(claimable.names):
            return row
        folder = results.whole(exp)
        found = manifest.read(folder / manifest.NAME)
        return derive.aggregate_row(digest.evidence(folder, found), found, claimable)

    return columns_of


# The compared options, by their arguments. Excluded are the tool, which a run chooses, and start
# times and durations, which scripts draw at random; only the longest duration counts.
_COMPARED: Mapping[str, Sequence[str]] = {
    argument.name: argument.fields.split()
    for argument in DO_CLIENT_ARGUMENTS
    if argument.fields and argument.name not in {"tool", "delay", "dur"}
}


def otherwise(results: Store, cell: FinishedCell, flows: Sequence[steps.DoClient]) -> str:
    """How the measured flows of a cell differ from these, which the script requests now, in words;
    "" if they do not."""
    manifests = [manifest.read(results.whole(exp) / manifest.NAME) for exp in cell.experiments]
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
        f"{name}={old} (now {new})" for name, (old, new) in pairs.items() if old != new
    )


def _values(flows: Sequence[FlowSpec], fields: Sequence[str]) -> str:
    found = {tuple(_text(field, getattr(flow, field)) for field in fields) for flow in flows}
    return "/".join(sorted(map(",".join, found)))


def _text(field: str, value: object) -> str:
    """The value of a field of FlowSpec as a script has it."""
    match value:
        case None:
            return "default"
        case bool():
            return str(int(value))
        case float():
            is_rate = field.endswith("_bps")
            return f"{units.decimal(value / 1e6)}mbit" if is_rate else units.decimal(value)
        case tuple():
            return units.format_processors(value) or "default"
        case _:
            return str(value)
