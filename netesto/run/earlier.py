"""Measurements of earlier runs in the SWEEP cells that `--resume` skips."""

import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from netesto.controller import digest
from netesto.language import steps
from netesto.language.plan import Part, Plan
from netesto.results import csvfile, derive, manifest, packed, store
from netesto.results.evidence import OK
from netesto.results.fields import Fields
from netesto.results.store import Store
from netesto.run.rounds import Rounds
from netesto.run.session import RunSession
from netesto.run.settings import claimable

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Passed:
    """The skipped parts, by their indices, with the experiments that finished them; and the false
    claims of the script about them."""

    parts: Mapping[int, Sequence[int]] = field(default_factory=dict)
    failures: tuple[str, ...] = ()


def pass_over(session: RunSession, results: Store, *, nested: bool) -> Passed:
    """Find and report the cells of the script that were finished successfully before, if the run
    skips them; with `nested`, also those within unfinished cells."""
    plan, watcher = session.plan, session.watcher
    if not session.request.resume or session.is_part:
        return Passed()
    if not any(part.cell for part in plan.head.parts):
        watcher.warn(
            "--resume skips finished cells of a SWEEP; this script has none, and all of it runs"
        )
        return Passed()
    done: dict[int, Sequence[int]] = {}
    # These, and the parts within them.
    covered: set[int | None] = set()
    changed: list[str] = []
    # In a loop around a SWEEP, and in two of them, cells share their factors: a finished one is no
    # earlier version of another.
    hashes = {session.hash_of(part) for part in plan.head.parts}
    for part in plan.head.parts:
        if part.index is None or not part.cell:
            continue
        if part.within is not None and part.within in covered:
            covered.add(part.index)
        elif part.within is None or (nested and plan.part(part.within).until is None):
            found = results.finished_cell(session.hash_of(part))
            if found is not None and not found.faults:
                done[part.index] = found.experiments
                covered.add(part.index)
            if found is None and results.knows_other(session.name, part.cell, hashes):
                changed.append(_name(part))
            for exp, fault in found.faults.items() if found is not None else ():
                watcher.warn(f"{_name(part)} is run again: experiment {exp} {fault}")
    if changed:
        names = changed[0] if len(changed) == 1 else f"{changed[0]} … ({len(changed)} cells)"
        watcher.warn(
            f"run again: {names}: the script, a library, the LAB, the seed, the columns of"
            " fields.txt, the kernel or memory of a guest, or the version of netesto has changed."
            " Their earlier experiments stay in exp.csv, and count as repetitions"
        )
    if not done:
        return Passed()
    failures = list(_failures(plan, done, columns_in(results.folder, claimable(session.fields))))
    whole = [_name(plan.part(index)) for index in done]
    for name in whole:
        _log.info("skipped %s", name)
    which = whole[0] if len(whole) == 1 else f"{len(whole)} cells, {whole[0]} … {whole[-1]}"
    watcher.say(f"skipped {which}: finished by an earlier run")
    for failed in failures:
        watcher.warn(f"assertion failed: {failed}")
    return Passed(done, tuple(failures))


def without_numbers(session: RunSession, passed: Passed) -> RunSession:
    """The session with a plan in which the skipped parts take no numbers of experiments."""
    if not passed.parts:
        return session
    # The interpreter takes a moment to import, and is rarely needed.
    from netesto.language import planner

    counter = session.plan.head.counter
    return replace(
        session, plan=planner.renumbered(session.plan, counter=counter, passed=passed.parts)
    )


def untried_first(session: RunSession, results: Store, parts: Sequence[Part]) -> list[Part]:
    """The parts in the order in which they run: with `--resume`, those that an earlier run has
    begun and not finished come last, because they may have ended it."""
    if not session.request.resume:
        return list(parts)
    return sorted(parts, key=lambda part: results.was_tried(session.hash_of(part)))


def _name(part: Part) -> str:
    return " ".join(f"{name}={value}" for name, value in part.cell.items())


def _failures(
    plan: Plan, done: Mapping[int, Sequence[int]], columns_of: Callable[[int], Mapping[str, str]]
) -> Iterator[str]:
    """The false claims of the script about skipped parts."""
    from netesto.language.claims import falsehood

    part: Part | None = None
    left: Iterator[int] = iter(())
    # By the number in the plan: the part of the experiment, and its earlier number.
    measured: dict[int, tuple[Part, int]] = {}
    for step in plan.steps():
        match step:
            case steps.EnterPart(index=index) if index in done:
                part, left = plan.part(index), iter(done[index])
            case steps.LeavePart(index=index) if index in done:
                part = None
            case steps.ProcessExperiment(exp=exp) if part is not None:
                number = next(left, None)
                if number is not None:
                    measured[exp] = part, number
            case steps.Claim(exp=exp) if exp in measured:
                owner, number = measured[exp]
                if said := falsehood(step, columns_of(number), exp=number):
                    yield f"{_name(owner)}, of an earlier run: {said}"


def rounds_of(session: RunSession, results: Store, passed: Passed) -> Rounds:
    """The cells that are repeated until something is certain, with what the skipped parts have
    measured."""
    plan = session.plan
    # The process that started a part decides for all.
    untils = () if session.is_part else plan.head.untils
    rounds = Rounds(plan if untils else None, is_simulated=session.ground.is_simulated)
    if not untils:
        return rounds
    needed = {name for until in untils for name in until.columns}
    columns_of = columns_in(results.folder, claimable(session.fields), needed)
    for index, experiments in passed.parts.items():
        rounds.add(plan.part(index), [(OK, columns_of(exp)) for exp in experiments])
    for until in untils:
        session.watcher.say(f"{until}; experiments and time are therefore at most what is planned")
    return rounds


def columns_in(
    folder: Path, columns: Fields, needed: Iterable[str] | None = None
) -> Callable[[int], Mapping[str, str]]:
    """The columns that claims may use, of an experiment in a results folder; at least those that
    are `needed`, by default all."""
    names = set(columns.names if needed is None else needed)
    rows = csvfile.by_experiment(csvfile.read(folder / store.TABLE))

    @functools.cache
    def columns_of(exp: int) -> Mapping[str, str]:
        row = rows[exp][0] if exp in rows else {}
        if row.keys() >= names:
            return row
        with packed.opened(folder / str(exp)) as own:
            found = manifest.read(own / manifest.NAME)
            return derive.aggregate_row(digest.evidence(own, found), found, columns)

    return columns_of
