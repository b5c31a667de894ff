"""A script as data: what it asks of hosts, step by step, in parts. Whoever executes it interprets
nothing.

A part is a cell of a SWEEP, or one repetition of `RUN macro,n`. It depends on nothing but what was
set before it, so the parts of a plan may run side by side, in any order, or not at all. The cells
of a SWEEP within a part belong to it; they are listed too, because `--resume` may pass over one.
What belongs to no part is called the rest.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from netesto.errors import Place
from netesto.language import ports

# The version of the file format. It is part of every hash.
FORMAT = 1

REST_NAME = "the rest of the script"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that was read when the script was planned, as it was then."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning to the author."""

    message: str
    place: Place


@dataclass(frozen=True, slots=True)
class Totals:
    """What a script asks for altogether.

    `seconds` is the estimated duration in real time, of everything from the lab to the last page;
    `simulated_s` that of the flows and waits alone, which is all there is in simulated time.
    """

    experiments: int
    flows: int
    seconds: float
    simulated_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a script.

    index        its place in Plan.parts; None for the rest
    name         what it is called; unique among those that are within no other part
    cell         the SWEEP cell, with `rep`; empty for a repetition of a RUN, and for the rest
    within       the index of the part that it is within, if it is
    before       the experiment number last taken when it begins
    numbers      how many experiment numbers it takes
    ranges       its steps in the plan, as pairs of first and end, in the order they are to be
                 carried out in when it runs alone: what earlier parts have set on hosts and still
                 holds, then its own, then claims behind it about its last experiment
    hash         hexadecimal SHA-256 of all that decides its results: two parts with the same hash
                 measure the same. Claims and ECHO are left out, and so are the numbers of
                 experiments. The seed of the run is not.
    seconds      how long it should take in real time, and simulated_s in simulated time
    is_idle      it asks no host for an experiment
    attempt      how often it was planned: each time it draws other random numbers
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

    @property
    def drawn(self) -> str:
        """What its random numbers depend on, beside the seed: its name, and the attempt."""
        return self.name if self.attempt == 1 else f"{self.name}, attempt {self.attempt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """All of a plan but its steps. It does not grow with the number of steps, only with that of
    parts.

    sources       the script, then all files that it read
    found         which of them SOURCE meant: the file with the SOURCE, its word, the path
    counter       the experiment number last taken when the script begins; last_number at its end
    fields        the columns of exp.csv, as they count for the hashes
    echoes        what the script prints outside of its parts, and in idle ones
    columns       the columns that OTHER and SWEEP fill
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
    found: tuple[tuple[str, str, str], ...]
    definitions: Mapping[str, str]
    seed: int
    max_iterations: int
    fields: str
    counter: int
    last_number: int
    lab: ports.LabRequest | None
    requirements: tuple[ports.Requirement, ...]
    warnings: tuple[Warned, ...]
    echoes: tuple[str, ...]
    columns: tuple[str, ...]
    commands: tuple[ports.RemoteCommand, ...]
    numbered: tuple[ports.RemoteCommand, ...]
    rewriting: tuple[ports.RemoteCommand, ...]
    totals: Totals
    parts: tuple[Part, ...]
    rest: Part | None
    entangled: int


class Steps(Protocol):
    """The steps of a plan, kept in a file."""

    def __len__(self) -> int: ...

    def between(self, first: int, end: int) -> Iterator[ports.Step]:
        """The steps from number `first` on (0 is the first of all), without `end`."""


class Plan:
    """A script as data. Closing it, best by `with`, removes the file that its steps are kept in."""

    def __init__(self, head: Head, steps: Steps) -> None:
        self.head = head
        self._steps = steps

    def part(self, index: int) -> Part:
        """The part of this index, which EnterPart and LeavePart name."""
        raise NotImplementedError

    def steps(self) -> Iterator[ports.Step]:
        """All steps, in the order of the script. Parts are between EnterPart and LeavePart."""
        return self._steps.between(0, len(self._steps))

    def steps_of(self, part: Part) -> Iterator[ports.Step]:
        """The steps of one part alone."""
        for first, end in part.ranges:
            yield from self._steps.between(first, end)

    def slice(self, part: Part) -> "Plan":
        """A plan of this part alone. Its head has only this part and those within it, or only the
        rest; their numbers stay, and so do the commands for pre-flight and the totals. It has no
        sources: it cannot be planned again."""
        raise NotImplementedError

    def write(self, path: Path) -> None:
        """Write the plan to a file."""
        raise NotImplementedError
