"""A plan while its script is interpreted."""

import hashlib
import json
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

from netesto.errors import Place, ScriptError, UsageError
from netesto.hostsettings import LinkLimits
from netesto.language import steps
from netesto.language.duration import NOTHING, REAL_TIME, Timeline
from netesto.language.plan import (
    FORMAT,
    MAKE_AGAIN,
    REST_NAME,
    Head,
    Part,
    Plan,
    SourceFile,
    Totals,
    Until,
    Warned,
    drawn,
    seed_of,
)
from netesto.language.scope import ColumnError, MisuseError
from netesto.language.spool import StepSpool, encoded
from netesto.language.standing import Standing
from netesto.language.steps import REPETITION
from netesto.model import GUEST_MEMORY_MB, LARGEST_EXPERIMENT
from netesto.text.nearest import hint

# The experiments of skipped parts have numbers after this one, which no stored experiment has.
SHADOW = LARGEST_EXPERIMENT

# Fields of a step that do not influence its effect; the number of its experiment depends on earlier
# ones.
_BESIDE = ("exp", "arguments", "place", "chain", "suffix", "mean_s", "seed")
# Settings do not belong to an experiment.
_BESIDE_SETTING = (*_BESIDE, "exp_name")
_DECIDES_NOTHING = (steps.Claim, steps.Echo, steps.EnterPart, steps.LeavePart)


_NOTHING = Totals(0, 0, 0.0, 0.0)


@dataclass(slots=True)
class _OpenPart:
    """A part that is being planned, or the rest (without an index)."""

    index: int | None
    name: str
    cell: Mapping[str, str]
    within: int | None
    before: int
    first: int
    requests: int
    seconds: float
    simulated_s: float
    attempt: int
    until: Until | None = None
    # The names of its experiments, and the totals before it.
    processed: list[str] = field(default_factory=list)
    totals: Totals = _NOTHING
    ranges: list[tuple[int, int]] = field(default_factory=list)
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    # The numbers that it has taken, each with its place among them.
    numbers: dict[int, int] = field(default_factory=dict)
    echoes: list[str] = field(default_factory=list)
    # What it has set on hosts, and still holds.
    settings: Standing[tuple[int, bytes]] = field(default_factory=Standing)


class Draft:
    """Keeps the steps of a script, which the interpreter has resolved, as a plan.

    Two clocks advance with the steps: WAIT adds to them, RAND_WAIT adds its mean, WAIT_FLOWS
    advances them to the end of the experiment's last flow. One counts only that; the other one also
    the work around flows and waits. (Here it is unknown whether the script will run in simulated
    time.)

    Experiment numbers follow `counter`, the last number taken; the parts with the indexes `passed`
    take none. With `columns`, the columns of OTHER, SWEEP and ASSERT are checked. `lab` is built
    instead of the script's, `lab_text` reads the file of a LAB. `memory_mb` is what a guest with
    that lab gets. `watch` gets every step as it is made; without `keep` the plan has no steps and
    no valid hashes, which is faster.
    """

    def __init__(
        self,
        *,
        seed: int,
        counter: int = 0,
        columns: steps.ColumnKnowledge | None = None,
        lab: steps.LabRequest | None = None,
        lab_text: Callable[[steps.LabRequest], str] = lambda request: request.text,
        memory_mb: Callable[[steps.LabRequest | None], int] = lambda _: GUEST_MEMORY_MB,
        passed: Collection[int] = (),
        begins: Mapping[int, int] | None = None,
        watch: Callable[[steps.Step], None] | None = None,
        keep: bool = True,
    ) -> None:
        self.seed = seed
        self._start = self._counter = counter
        self._columns = columns
        self._lab_text = lab_text
        self._memory_mb = memory_mb
        self._passed = passed
        # The last experiment number taken where a part begins, if it is not the previous one.
        self._begins = begins or {}
        self._watch = watch
        self._keep = keep
        self._spool = StepSpool()
        self._simulated = Timeline(NOTHING)
        self._real = Timeline(REAL_TIME)
        self._shadow = SHADOW
        # The running nested parts, the outermost first.
        self._open: list[_OpenPart] = []
        self._has_rest = False
        self._parts: list[Part | None] = []
        # The claims about the last experiment of a part that follow the part.
        self._behind: dict[int, list[int]] = {}
        self._settings = Standing[tuple[int, bytes]]()
        self._lab: steps.LabRequest | None = None
        # The steps that every part's hash includes.
        self._network = ""
        # It overrides the script's LAB.
        self._is_lab_given = False
        if lab is not None:
            self.lab(lab)
            self._is_lab_given = True
        self._requirements: dict[steps.Requirement, None] = {}
        self._warnings: list[Warned] = []
        self._warned_once: set[Hashable] = set()
        self._commands: dict[Hashable, steps.RemoteCommand] = {}
        self._numbered: dict[int, steps.RemoteCommand] = {}
        self._rewriting: dict[int, steps.RemoteCommand] = {}
        self._experiments = 0
        self._flows = 0
        # The number of DO_SERVER and DO_CLIENT so far.
        self._requests = 0
        self._rest = self._opened(None, REST_NAME, {})
        self._counted: set[int] = set()
        self._finished: set[int] = set()
        # What waits for START_FLOWS.
        self._held: list[steps.DoClient] = []
        self._filled: dict[str, None] = {}
        self._checked: set[str] = set()
        self._echoes: list[str] = []
        self._entangled = 0
        # The outermost part that an experiment began in; None for the rest.
        self._owners: dict[int, int | None] = {}
        # Where the experiment was processed that claims are about.
        self._last_owner: int | None = None
        # The parts with an Until; the names of the experiments of each of their cells; and the
        # totals of the repetitions that may be omitted.
        self._ruled: set[int | None] = set()
        self._alike: dict[Hashable, list[str]] = {}
        self._optional = _NOTHING

    def plan(
        self,
        *,
        sources: tuple[SourceFile, ...],
        found: tuple[tuple[str, str, str], ...],
        definitions: Mapping[str, str],
        max_iterations: int,
        like: Head | None = None,
    ) -> Plan:
        """The plan. The script has ended; the interpreter knows the rest of the head. If the same
        script was planned before, `like` is the head of that plan: its knowledge of columns and its
        hashes are kept."""
        self._close_range(self._rest)
        links = self._links()
        parts = [
            _with_links(self._with_claims(part), links) for part in self._parts if part is not None
        ]
        outer = [part for part in parts if part.within is None]
        rest = _with_links(self._part(self._rest), links)
        rest = replace(
            rest,
            seconds=rest.seconds - sum(part.seconds for part in outer),
            simulated_s=rest.simulated_s - sum(part.simulated_s for part in outer),
        )
        head = Head(
            script=sources[0].path,
            sources=sources,
            resolved=found,
            definitions=definitions,
            max_iterations=max_iterations,
            seed=self.seed,
            fields="" if self._columns is None else str(self._columns.table),
            counter=self._start,
            last_number=self._counter,
            lab=self._lab,
            memory_mb=self._memory_mb(self._lab),
            requirements=tuple(self._requirements),
            warnings=tuple(self._warnings),
            echoes=tuple(self._echoes),
            columns=tuple(self._filled),
            commands=tuple(self._commands.values()),
            numbered=tuple(self._numbered.values()),
            rewriting=tuple(self._rewriting.values()),
            totals=self.totals(),
            parts=tuple(parts),
            rest=rest if self._has_rest else None,
            entangled=self._entangled,
            at_least=self.totals() - self._optional if self._ruled else None,
        )
        if like is not None:
            head = _alike(head, like)
            if self._columns is None:
                head = replace(head, warnings=like.warnings)
        return Plan(head, self._spool)

    def close(self) -> None:
        """Remove its steps, if no plan is made of them."""
        self._spool.close()

    def left_s(self, exp: int) -> float:
        """How long the started flows of an experiment still run, as far as it is known."""
        return self._simulated.left_s(exp)

    def is_idle(self) -> bool:
        """Whether all flows have ended, and that is certain."""
        return self._simulated.is_idle()

    def totals(self) -> Totals:
        """Experiments processed, flows started, seconds passed on both clocks."""
        return Totals(self._experiments, self._flows, self._real.now_s, self._simulated.now_s)

    # ---- what the interpreter calls ------------------------------------------------------

    def next_experiment(self) -> int:
        """Take the next number from the counter."""
        self._counter += 1
        self._counted.add(self._counter)
        for part in self._open or [self._rest]:
            part.numbers[self._counter] = len(part.numbers) + 1
        return self._counter

    def previous_experiment(self) -> int:
        """The number last taken, 0 if none ever was."""
        return self._counter

    def round_counter(self) -> None:
        """NEXT_COUNTER."""
        self._counter = rounded_counter(self._counter)

    def do(self, step: steps.Step) -> None:
        """The next step of the script. EnterPart and LeavePart are not among them."""
        if isinstance(step, steps.DoClient):
            step = replace(step, seed=self._flow_seed(step))
        match step:
            case steps.RemoteCommand():
                self._remote(step)
            case steps.StartFlows():
                self._held = []
            case steps.ProcessExperiment():
                self._process(step)
            case steps.Claim():
                self._claim()
            case steps.Echo(text=text):
                (self._open[0].echoes if self._open else self._echoes).append(text)
            case _:
                """No more than the step is needed."""
        self._do(step)

    def enter_part(
        self, name: str, cell: Mapping[str, str], *, attempt: int, until: Until | None = None
    ) -> None:
        """A part of the script begins that no other part depends on: a cell of a SWEEP, or one
        repetition of `RUN macro,n` (`cell` is empty then). Only cells are within other parts."""
        if not self._open:
            self._close_range(self._rest)
        index = len(self._parts)
        if index in self._passed:
            # When the part ends, the numbers go on from here.
            self._counter, self._shadow = self._shadow, self._counter
        self._counter = self._begins.get(index, self._counter)
        part = self._opened(index, name, cell, attempt=attempt)
        part.until, part.totals = until, self.totals()
        if until is not None:
            self._ruled.add(index)
        for number, hashed in self._settings:
            _add_range(part.ranges, number, number + 1)
            part.digest.update(hashed)
        self._parts.append(None)
        self._open.append(part)
        self._do(steps.EnterPart(index=index))

    def end_repetition(self) -> None:
        """The steps of the part that began last are complete. MisuseError if it is a repetition
        that may be omitted, with other experiments than the first one of its cell: their values
        have no common mean."""
        part = self._open[-1]
        until = part.until
        if until is None:
            return
        first = self._alike.setdefault(until.key(part.cell), part.processed)
        if part.processed != first:
            raise MisuseError(
                f"{part.name} has the experiments {', '.join(part.processed) or 'none'};"
                f" its first repetition has {', '.join(first) or 'none'}",
                near=("until=",),
                remedy="With until=, every repetition of a cell has the same experiments, with the"
                " same names.",
            )
        if int(part.cell[REPETITION]) > until.least:
            self._optional += self.totals() - part.totals

    def leave_part(self, *, whole: bool) -> None:
        """The part that began last has ended; `whole`: completely."""
        part = self._open[-1]
        assert part.index is not None, "the rest is not left"
        self._do(steps.LeavePart(index=part.index, whole=whole))
        self._close_range(part)
        self._parts[part.index] = self._part(part)
        self._open.pop()
        if part.index in self._passed:
            self._counter, self._shadow = self._shadow, self._counter
        if self._open:
            return
        if self._requests == part.requests:
            self._echoes += part.echoes
        # The rest finds hosts as the part has set them.
        for number, hashed in part.settings:
            _add_range(self._rest.ranges, number, number + 1)
            self._rest.digest.update(hashed)
        self._rest.first = len(self._spool)

    def lab(self, request: steps.LabRequest) -> None:
        """The network that the script expects. Comes once, before any remote command."""
        if not self._is_lab_given:
            self._lab = replace(request, text=self._lab_text(request))
            self._network = _network(self._lab)
            for timeline in (self._simulated, self._real):
                timeline.lab()

    @property
    def topology_text(self) -> str:
        """The text of the topology file of LAB; "" if there is none."""
        return "" if self._lab is None else self._lab.text

    def require(self, requirements: Sequence[steps.Requirement]) -> None:
        """Pre-flight conditions."""
        self._requirements.update(dict.fromkeys(requirements))

    def need_column(self, name: str, place: Place, *, is_factor: bool = False) -> None:
        """OTHER, or a factor of SWEEP, says what is in a column of the experiments to come.

        A factor without a column is no reason for a warning, unless its name is like that of one:
        where the body uses another name, the variable is undefined.

        ScriptError if that is not for scripts to say.
        """
        if self._columns is None or name in self._checked:
            return
        table = self._columns.table
        try:
            there = table.has(name)
        except ScriptError as error:
            column = ColumnError(error.message, remedy=error.remedy)
            column.place = place
            raise column from None
        self._checked.add(name)
        near = table.nearest(name)
        if not there and (near or not is_factor):
            meant = f"; did you mean {near}?" if near else ""
            self.warn(
                f"{table.source} has no column {name}: exp.csv has it as the last{meant}", place
            )

    def check_means(self, names: Iterable[str]) -> None:
        """ColumnError for a column without numbers that are measured."""
        if self._columns is None:
            return
        kinds = self._columns.kinds
        numbers = [name for name, kind in kinds.items() if kind != "text"]
        for name in names:
            if name not in numbers:
                what = "has texts, which have no mean" if name in kinds else "is not measured"
                meant = [] if name in kinds else numbers
                raise ColumnError(
                    f"until: column {name} {what}",
                    near=(f"{name}:", "until="),
                    remedy=hint(name, meant, otherwise="fields.txt lists the columns."),
                )

    def column_kinds(self) -> Mapping[str, steps.ColumnKind] | None:
        """What the columns hold that ASSERT may name now; None if that is not known."""
        if self._columns is None:
            return None
        own: dict[str, steps.ColumnKind] = dict.fromkeys(self._filled, "any")
        return own | dict(self._columns.kinds)

    def warn(
        self, message: str, place: Place, chain: tuple[str, ...] = (), *, once: Hashable = None
    ) -> None:
        """A warning to the author, such as a macro defined twice. Of those with the same key
        `once` only the first counts: loops would repeat it."""
        if once is None or once not in self._warned_once:
            self._warned_once.add(once)
            self._warnings.append(Warned(message, place, chain))

    # ---- steps ---------------------------------------------------------------------------

    @property
    def _owner(self) -> int | None:
        """The outermost part that runs; None in the rest."""
        return self._open[0].index if self._open else None

    def _remote(self, command: steps.RemoteCommand) -> None:
        if isinstance(command, steps.DoServer | steps.DoClient):
            self._requests += 1
            self._own(command.exp)
            self._has_rest = self._has_rest or not self._open
            if command.exp not in self._counted:
                self._numbered.setdefault(command.exp, command)
            if command.exp in self._finished:
                self._rewriting.setdefault(command.exp, command)
        if isinstance(command, steps.DoClient):
            self._flows += command.flow.instances
            if command.hold:
                self._held.append(command)
        if isinstance(command, steps.Close | steps.Exit):
            for held in self._held:
                if command.host in held.hosts:
                    self._refuse_held(held, f"{command.name} of {command.host}")
        steps.keep_sort(self._commands, command)

    def _flow_seed(self, command: steps.DoClient) -> int:
        """The outermost part decides it, for that runs alone; numbers count within it."""
        part = self._open[0] if self._open else self._rest
        number = self._number_in(part, command).decode()
        words = f"{drawn(part.name, part.attempt)}, experiment {number}, group {command.group}"
        return seed_of(self.seed, words)

    def _process(self, step: steps.ProcessExperiment) -> None:
        for held in self._held:
            if held.exp == step.exp:
                self._refuse_held(held, f"the end of experiment {step.exp}")
        self._own(step.exp)
        self._experiments += 1
        self._finished.add(step.exp)
        self._last_owner = self._owner
        if self._open:
            self._open[0].processed.append(step.notes.exp_name)
        self._filled.update(dict.fromkeys(step.notes.columns))
        if REPETITION in step.notes.cell:
            self._filled[REPETITION] = None

    def _claim(self) -> None:
        """Claims are about the experiment processed last, perhaps in another part."""
        if self._last_owner == self._owner:
            return
        if self._last_owner in self._ruled:
            raise MisuseError(
                "ASSERT about a repetition of a SWEEP with until=, which may not run",
                remedy="Write it into the body of the SWEEP, behind the experiment's PROCESS_EXP.",
            )
        number = len(self._spool)
        if self._last_owner is None:
            _add_range(self._rest.ranges, number, number + 1)
        else:
            self._behind.setdefault(self._last_owner, []).append(number)

    def _do(self, step: steps.Step) -> None:
        if self._keep:
            self._append(step)
        self._simulated.take(step)
        self._real.take(step)
        if self._watch is not None:
            self._watch(step)

    def _append(self, step: steps.Step) -> None:
        """Keep a step, and add it to the hashes of the parts that it influences."""
        beside = _BESIDE_SETTING if isinstance(step, steps.Configure) else _BESIDE
        decisive, line = encoded(step, beside=beside)
        number = len(self._spool)
        self._spool.append(line)
        if not isinstance(step, _DECIDES_NOTHING):
            for part in self._open or [self._rest]:
                part.digest.update(decisive + self._number_in(part, step))
                if isinstance(step, steps.Configure):
                    part.settings.add(step, decisive, (number, decisive))
        if isinstance(step, steps.Configure):
            self._settings.add(step, decisive, (number, decisive))

    def _number_in(self, part: _OpenPart, step: steps.Step) -> bytes:
        """The number of a step's experiment relative to its part; unchanged if the script itself
        gives it."""
        match step:
            case steps.Configure():
                return b""
            case (
                steps.RemoteCommand(exp=exp)
                | steps.WaitFlows(exp=exp)
                | steps.ProcessExperiment(exp=exp)
            ):
                if exp in self._counted or not exp:
                    return b"own %d" % part.numbers.get(exp, 0)
                return b"%d" % exp
            case _:
                return b""

    def _refuse_held(self, command: steps.DoClient, before: str) -> NoReturn:
        """MisuseError, at its command, for flows that would never start."""
        self._held = []
        error = MisuseError(
            f"hold={command.arguments['hold']}, but no START_FLOWS comes before {before}",
            remedy="START_FLOWS starts, at one instant, what hold=1 has held back.",
        )
        error.place, error.chain = command.place.narrowed("hold="), command.chain
        raise error

    def _own(self, exp: int) -> None:
        if self._owners.setdefault(exp, self._owner) != self._owner:
            if not self._ruled.isdisjoint((self._owners[exp], self._owner)):
                raise MisuseError(
                    f"experiment {exp} is not all in one repetition of a SWEEP with until=",
                    remedy="Let every repetition have its own experiment, from exp=COUNTER to"
                    " PROCESS_EXP.",
                )
            self._entangled = self._entangled or exp

    # ---- parts ---------------------------------------------------------------------------

    def _opened(
        self, index: int | None, name: str, cell: Mapping[str, str], *, attempt: int = 1
    ) -> _OpenPart:
        return _OpenPart(
            index=index,
            name=name,
            cell=dict(cell),
            within=self._open[-1].index if self._open else None,
            before=self._counter,
            first=len(self._spool),
            requests=self._requests,
            seconds=self._real.now_s,
            simulated_s=self._simulated.now_s,
            attempt=attempt,
        )

    def _close_range(self, part: _OpenPart) -> None:
        _add_range(part.ranges, part.first, len(self._spool))
        part.first = len(self._spool)

    def _part(self, part: _OpenPart) -> Part:
        within = [each.name for each in self._open or [part]]
        names = () if self._columns is None else self._columns.table.names
        where = [FORMAT, self.seed, within, self._network, names, self._memory_mb(self._lab)]
        part.digest.update(json.dumps(where, sort_keys=True).encode())
        return Part(
            index=part.index,
            name=part.name,
            cell=part.cell,
            within=part.within,
            before=part.before,
            numbers=self._counter - part.before,
            ranges=tuple(part.ranges),
            hash=part.digest.hexdigest(),
            seconds=self._real.now_s - part.seconds,
            simulated_s=self._simulated.now_s - part.simulated_s,
            is_idle=self._requests == part.requests,
            until=part.until,
        )

    def _links(self) -> list[tuple[str, str, bool]]:
        """The links that can change in every part, because of some SET_LINK; whether that protects
        them, so that a program carries them."""
        return sorted(
            {
                (command.host, setting.to, "protect" in setting.values)
                for command in self._commands.values()
                if isinstance(command, steps.Configure)
                for setting in command.settings
                if isinstance(setting, LinkLimits)
            }
        )

    def _with_claims(self, part: Part) -> Part:
        behind = self._behind.get(part.index, ()) if part.index is not None else ()
        return replace(part, ranges=(*part.ranges, *((at, at + 1) for at in behind)))


def _with_links(part: Part, links: list[tuple[str, str, bool]]) -> Part:
    """A part whose results are also decided by which links can change, if there are any."""
    if not links:
        return part
    made_from = json.dumps([part.hash, links])
    return replace(part, hash=hashlib.sha256(made_from.encode()).hexdigest())


def _alike(head: Head, like: Head) -> Head:
    """The head of a plan, with what is known from another plan of the same script. UsageError if
    that has other parts than its script."""
    if [(part.name, part.cell) for part in head.parts] != [
        (part.name, part.cell) for part in like.parts
    ]:
        raise UsageError(
            f"the plan has other cells and repetitions than its script {head.script}",
            remedy=MAKE_AGAIN,
        )
    parts = tuple(
        replace(new, hash=old.hash) for new, old in zip(head.parts, like.parts, strict=True)
    )
    rest = head.rest and like.rest and replace(head.rest, hash=like.rest.hash)
    return replace(head, fields=like.fields, memory_mb=like.memory_mb, parts=parts, rest=rest)


def rounded_counter(counter: int) -> int:
    """The counter after NEXT_COUNTER: the next number that is taken begins a new ten.

    `counter` is the last number taken. After 13 the next experiment is 20; after 19 it is 30,
    because 20 would follow anyway.
    """
    return ((counter + 1) // 10 + 1) * 10 - 1


def _network(lab: steps.LabRequest) -> str:
    """The hash of a lab's description, without the name of a file."""
    settings = {key: text for key, text in lab.settings.items() if key != "file"}
    made_from = json.dumps([lab.topology, settings, lab.text], sort_keys=True)
    return hashlib.sha256(made_from.encode()).hexdigest()


def _add_range(ranges: list[tuple[int, int]], first: int, end: int) -> None:
    """Add steps to ranges; those that follow each other become one."""
    if first >= end:
        return
    if ranges and ranges[-1][1] == first:
        first = ranges.pop()[0]
    ranges.append((first, end))
