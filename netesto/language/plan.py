"""A script as data: its steps, in parts. Its execution interprets nothing.

A part is a cell of a SWEEP, or one repetition of `RUN macro,n`. It depends only on earlier
settings, so the parts of a plan may run side by side, in any order, or not at all. The cells of a
SWEEP within a part belong to it; they are listed too, because `--resume` may skip one. Steps that
belong to no part are called the rest.
"""

import contextlib
import gzip
import hashlib
import json
import operator
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Self, TypeVar, cast

import cattrs

from netesto.errors import Place, ScriptError, UsageError
from netesto.files import jsontext
from netesto.flowspec import fault
from netesto.language import permitted
from netesto.language.spool import CONVERTER, StepSpool, closed_on_error, is_echo, step_of
from netesto.language.steps import (
    REPETITION,
    Configure,
    DoClient,
    EnterPart,
    LabRequest,
    LeavePart,
    RemoteCommand,
    Requirement,
    Step,
    keep_sort,
)

V = TypeVar("V")

# The version of the file format; another one is refused. It is part of every hash.
FORMAT = 3

# The beginning of every plan of any version.
BEGINNING = b'{"netesto_plan": '
# The beginning of a gzip file (RFC 1952).
_COMPRESSED = b"\x1f\x8b"
# The maximum number of an experiment or group that agents accept.
_MAX_NUMBER = 2**32 - 1
_HEAD, _STEPS, _SUMMARY = b'"head": ', b'"steps": [', b'"summary": '
MAKE_AGAIN = "Make it again from its script: netesto plan SCRIPT -o plan.json"

REST_NAME = "the rest of the script"

# The name of a script without a file.
STANDARD_INPUT = "<standard input>"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that was read during planning, with its content."""

    path: str
    text: str
    is_script: bool = True


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning to the author. `chain`: as in ScriptError."""

    message: str
    place: Place
    chain: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of a script.

    `seconds` is the estimated duration in real time, of everything from the lab to the last page;
    `simulated_s` that of flows and waits alone, which is the duration in simulated time.
    """

    experiments: int
    flows: int
    seconds: float
    simulated_s: float

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(*map(operator.add, astuple(self), astuple(other)))

    def __sub__(self, other: "Totals") -> "Totals":
        return Totals(*map(operator.sub, astuple(self), astuple(other)))


def factors_of(cell: Mapping[str, str]) -> dict[str, str]:
    """What tells a cell of a SWEEP from others: all but the number of its repetition."""
    return {name: value for name, value in cell.items() if name != REPETITION}


@dataclass(frozen=True, slots=True, kw_only=True)
class Until:
    """How often a SWEEP repeats each of its cells: from `least` to `most` times, until the interval
    of the mean of each of `columns` is at most this share of the mean, in percent, to both sides.

    `sweep` is its number among the SWEEPs of the script that have such a rule.
    """

    columns: Mapping[str, float]
    least: int
    most: int
    sweep: int

    def key(self, cell: Mapping[str, str]) -> Hashable:
        """What the repetitions of a cell have in common, and no others of the script have."""
        return self.sweep, *factors_of(cell).items()

    def __str__(self) -> str:
        shares = ", ".join(f"{name} ± {share:g} %" for name, share in self.columns.items())
        return (
            f"{self.least} to {self.most} repetitions of each cell, until the 95 % interval of its"
            f" mean is at most {shares}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a script.

    index        its place in Plan.parts; None for the rest
    name         its name; unique among the outermost parts
    cell         the SWEEP cell, with `rep`; empty for a repetition of a RUN, and for the rest
    within       the index of the part that it is within, if it is
    before       the last experiment number taken before it
    numbers      how many experiment numbers it takes
    ranges       its steps in the plan, as pairs of first and end, in the order they are to be
                 carried out in when it runs alone: what earlier parts have set on hosts and still
                 holds, then its own, then claims behind it about its last experiment
    hash         hexadecimal SHA-256 of all that decides its results: two parts with the same hash
                 measure the same. Claims and ECHO are left out, and so are the numbers of
                 experiments. The seed of the run is not.
    seconds      how long it should take in real time, and simulated_s in simulated time
    is_idle      it has no experiment on any host
    attempt      how often it was planned: each attempt draws different random numbers
    until        the rule that decides whether this repetition of the cell runs, if there is one
    """

    index: int | None
    name: str
    before: int
    numbers: int
    ranges: tuple[tuple[int, int], ...]
    hash: str
    seconds: float
    simulated_s: float
    cell: Mapping[str, str] = field(default_factory=dict)
    within: int | None = None
    is_idle: bool = False
    attempt: int = 1
    until: Until | None = None

    @property
    def repetition(self) -> int:
        """The number of the repetition of a SWEEP cell, from 1."""
        return int(self.cell[REPETITION])

    @property
    def drawn(self) -> str:
        """What its random numbers depend on, beside the seed: its name, and the attempt."""
        return drawn(self.name, self.attempt)


def drawn(name: str, attempt: int) -> str:
    """What the random numbers of a part depend on, beside the seed."""
    return name if attempt == 1 else f"{name}, attempt {attempt}"


def seed_of(seed: int, drawn: str) -> int:
    """The seed, 31 bits, for something with a name: it depends only on the name and the run's
    seed."""
    digest = hashlib.sha256(f"{seed} {drawn}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A plan without its steps. Its size depends on the number of parts, not of steps.

    sources       the script, then all files that it read
    resolved      the resolution of each SOURCE: the file with the SOURCE, its word, the path
    counter       the last experiment number taken before the script; last_number at its end
    fields        the text of the fields.txt that names the columns of exp.csv
    echoes        what the script prints outside of its parts, and in idle ones
    columns       the columns that OTHER and SWEEP fill
    at_least      the totals without the repetitions that an Until may omit; None without any
    memory_mb     the memory of a guest, in MiB
    commands      one of each sort: same host, and same demands on it; for pre-flight
    numbered      the first command of each experiment whose number the script itself gives, and
    rewriting     of each that would write to one that is processed
    parts         the parts in the order they begin; `rest` is what belongs to none, if that has
                  experiments
    entangled     an experiment that belongs to more than one part, or to one and the rest: they
                  cannot run apart. 0 if there is none
    """

    script: str
    sources: tuple[SourceFile, ...]
    resolved: tuple[tuple[str, str, str], ...]
    definitions: Mapping[str, str]
    seed: int
    max_iterations: int
    fields: str
    counter: int
    last_number: int
    lab: LabRequest | None
    requirements: tuple[Requirement, ...]
    warnings: tuple[Warned, ...]
    echoes: tuple[str, ...]
    columns: tuple[str, ...]
    commands: tuple[RemoteCommand, ...]
    numbered: tuple[RemoteCommand, ...]
    rewriting: tuple[RemoteCommand, ...]
    totals: Totals
    parts: tuple[Part, ...]
    rest: Part | None
    entangled: int
    memory_mb: int
    at_least: Totals | None = None

    @property
    def untils(self) -> list[Until]:
        """The rules of its SWEEPs, in their order."""
        found = {part.until.sweep: part.until for part in self.parts if part.until is not None}
        return [*found.values()]


class Plan:
    """A script as data. Closing it, best by `with`, removes the file with its steps."""

    def __init__(self, head: Head, spool: StepSpool) -> None:
        self.head = head
        self._spool = spool
        self._parts = {part.index: part for part in head.parts}
        self._within = defaultdict[int | None, list[Part]](list)
        for part in head.parts:
            self._within[part.within].append(part)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove its steps."""
        self._spool.close()

    @property
    def outer(self) -> list[Part]:
        """The parts that are within no other: they may run apart."""
        return [*self._within.get(None, ())]

    def part(self, index: int) -> Part:
        """The part of this index, which EnterPart and LeavePart name."""
        return self._parts[index]

    def steps(self) -> Iterator[Step]:
        """All steps, in the order of the script. Those of a part are between its EnterPart and its
        LeavePart."""
        return self._spool.steps(0, len(self._spool))

    def commands(self) -> Sequence[RemoteCommand]:
        """One of each sort among its own steps. Those of a slice do not depend on other parts,
        unlike those of its head."""
        if self.head.sources:
            return self.head.commands
        found: dict[Hashable, RemoteCommand] = {}
        for step in self.steps():
            if isinstance(step, RemoteCommand):
                keep_sort(found, step)
        return [*found.values()]

    def slice(self, part: Part) -> "Plan":
        """A plan of this part alone. Its head has only this part and those within it, or only the
        rest; numbers, totals and the commands for pre-flight stay. It has no sources, so it cannot
        be planned again. The output of the rest is omitted: the head of the whole plan has it."""
        spool = StepSpool()
        for first, end in part.ranges:
            for line in self._spool.lines(first, end):
                if part.index is not None or not is_echo(line):
                    spool.append(line)
        alone = replace(part, ranges=((0, len(spool)),))
        parts = () if part.index is None else (alone, *self._inside(part.index))
        rest = alone if part.index is None else None
        head = replace(
            self.head, sources=(), resolved=(), warnings=(), echoes=(), parts=parts, rest=rest
        )
        return Plan(head, spool)

    def _inside(self, index: int) -> Iterator[Part]:
        """The parts within a part, in their order; their steps are not known by themselves."""
        for part in self._within.get(index, ()):
            yield replace(part, ranges=())
            if part.index is not None:
                yield from self._inside(part.index)

    def write(self, file: BinaryIO) -> None:
        """Write the plan: one JSON document, in which each step has a line."""
        digest = hashlib.sha256()

        def put(line: bytes) -> None:
            digest.update(line + b"\n")
            file.write(line + b"\n")

        file.write(BEGINNING + b"%d,\n" % FORMAT)
        put(_HEAD + _json(CONVERTER.unstructure(self.head)) + b",")
        put(_STEPS)
        count = len(self._spool)
        for number, line in enumerate(self._spool.lines(0, count), start=1):
            put(line + b"," if number < count else line)
        summary = {"steps": count, "sha256": digest.hexdigest()}
        file.write(b"],\n" + _SUMMARY + _json(summary) + b"}\n")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The file of a plan, which may be compressed."""
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(path.open("rb"))
        if file.peek(len(_COMPRESSED)).startswith(_COMPRESSED):
            yield cast("BinaryIO", stack.enter_context(gzip.open(file)))
        else:
            yield file


def is_plan(path: Path) -> bool:
    """Whether a regular file begins like a plan. (Data read from a pipe would be lost; `-` is
    standard input.)"""
    try:
        if path == Path("-") or not path.is_file():
            return False
        with _opened(path) as file:
            return file.read(len(BEGINNING)) == BEGINNING
    except (OSError, ValueError, EOFError, zlib.error):
        return False


def read(path: Path) -> Plan:
    """The plan in a file. UsageError if it cannot be read, is not a plan, has another version, or
    was modified."""
    try:
        with _opened(path) as file:
            return read_opened(path, file)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except (EOFError, zlib.error) as error:
        raise UsageError(f"{path}: damaged: {error}", remedy=MAKE_AGAIN) from error


def read_opened(path: Path, file: BinaryIO) -> Plan:
    """The plan that is the rest of an opened file. UsageError as of `read`."""
    return _PlanReader(path, file).read()


class _PlanReader:
    """Reads the lines of a plan. `_number` is that of the line that was read last."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file
        self._number = 0
        self._digest = hashlib.sha256()
        # The nested parts that contain the step read last, the outermost first.
        self._open: list[int] = []
        self._parts: set[int | None] = set()

    def read(self) -> Plan:
        self._check_version(self._line())
        head = self._head(self._digested())
        if self._digested() != _STEPS:
            raise self._wrong("unexpected content")
        self._parts = {part.index for part in head.parts}
        spool = StepSpool()
        with closed_on_error(spool):
            self._read_steps(spool)
            summary = {"steps": len(spool), "sha256": self._digest.hexdigest()}
            if self._line() != _SUMMARY + _json(summary) + b"}":
                raise self._wrong("the plan was modified after it was written")
            if self._file.read(1):
                raise self._wrong("the plan continues after its end")
            self._check_parts(head, len(spool))
        return Plan(head, spool)

    def _read_steps(self, spool: StepSpool) -> None:
        while (line := self._line()) != b"],":
            self._digest.update(line + b"\n")
            line = line.removesuffix(b",")
            self._follow(self._parsed(line, _allowed))
            spool.append(line)

    def _follow(self, step: Step) -> None:
        """Check that parts are nested."""
        match step:
            case EnterPart(index=index):
                if index not in self._parts:
                    raise self._wrong(f"the plan has no part {index}")
                self._open.append(index)
            case LeavePart(index=index):
                if not self._open or self._open.pop() != index:
                    raise self._wrong(f"part {index} ends before it begins")
            case _:
                """It is in the part that began last."""

    def _check_parts(self, head: Head, steps: int) -> None:
        """Check that the steps of parts exist in the plan."""
        for part in (*head.parts, *([head.rest] if head.rest else [])):
            if any(not 0 <= first <= end <= steps for first, end in part.ranges):
                raise self._wrong(f"{part.name} has steps that do not exist")

    def _line(self) -> bytes:
        line = self._file.readline()
        self._number += 1
        if not line.endswith(b"\n"):
            raise self._wrong("the plan is truncated")
        return line[:-1]

    def _digested(self) -> bytes:
        line = self._line()
        self._digest.update(line + b"\n")
        return line

    def _check_version(self, line: bytes) -> None:
        match = re.fullmatch(re.escape(BEGINNING) + rb"(\d{1,9}),", line)
        if match is None:
            raise self._wrong("not a plan")
        if int(match[1]) != FORMAT:
            raise UsageError(
                f"{self._path}: a plan of version {int(match[1])}; this netesto reads version"
                f" {FORMAT}",
                remedy=MAKE_AGAIN,
            )

    def _head(self, line: bytes) -> Head:
        return self._parsed(
            line.removeprefix(_HEAD).removesuffix(b","),
            lambda value: CONVERTER.structure(value, Head),
        )

    def _parsed(self, line: bytes, make: Callable[[object], V]) -> V:
        try:
            return make(jsontext.parse(line, finite=True))
        except cattrs.BaseValidationError as error:
            raise self._wrong(cattrs.transform_error(error)[0]) from error
        except (ValueError, KeyError, TypeError) as error:
            raise self._wrong(f"unexpected content: {error}") from error
        except ScriptError as error:
            raise self._wrong(error.message) from error

    def _wrong(self, what: str) -> UsageError:
        return UsageError(f"{self._path}:{self._number}: {what}", remedy=MAKE_AGAIN)


def _allowed(record: object) -> Step:
    """The step of a JSON object. ScriptError if it sets what no script may set, ValueError if it
    has numbers that no script can have."""
    step = step_of(record)
    if isinstance(step, RemoteCommand):
        permitted.check(step.settings if isinstance(step, Configure) else ())
        if not (0 <= step.exp <= _MAX_NUMBER and 0 <= step.group <= _MAX_NUMBER):
            raise ValueError(f"experiment {step.exp}, group {step.group}")
    if isinstance(step, DoClient) and (wrong := fault(step.flow)):
        raise ValueError(wrong)
    return step


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
