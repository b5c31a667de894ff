"""Rows of the table of truths, and the runs that measure them."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Literal, TypeAlias

from readings import Group, Results
from theory import Interval

Ground: TypeAlias = Literal["sim", "uml", "lab"]
Measure: TypeAlias = Callable[[Results], float]
# An experiment, and a group of it.
Place: TypeAlias = tuple[int, int]

# Which run is the first to measure a study: `make test`, `.ci/run`, or `make truth`, which measures
# all of them.
Run: TypeAlias = Literal["test", "ci", "truth"]

# All cells start together.
NATIVE = "tool=native hold=1"

# What a path of so many equal links is in LAB: hosts joined by switches.
SHAPES = {1: "pair", 2: "star", 4: "tree"}


@dataclass(frozen=True, slots=True)
class Exactness:
    """How exact a ground is: rates to a share, and delays that are so much too short (in packets of
    the MTU, but at least for a time) or too long. `why` says it in words."""

    rate_share: float
    early_packets: float
    early_s: float
    late_s: float
    why: str


EXACTNESS: Mapping[Ground, Exactness] = {
    "sim": Exactness(0.001, 0, 0, 0, "rates to 0.1 %, delays to 1 µs"),
    "lab": Exactness(
        0.01, 4, 0.001, 0.002,
        "rates to 1 %. A shaper passes a burst of two packets, or 1 ms of its rate, at once: on an "
        "idle link a packet may arrive so much earlier, and from a full queue by two more, one for "
        "a ping and one for the packet that has just left. The machine may be 2 ms late",
    ),
    "uml": Exactness(
        0.03, 2, 0.005, 0.1,
        "only counts are compared: beside other busy programs a guest was late by 50 ms, and its "
        "paced senders left out a quarter of what they had to send",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One quantity: what theory expects of it, from which source, and how a run measures it.

    `link` are the settings as in LAB.
    """

    quantity: str
    link: str
    interval: Interval
    unit: str
    source: str
    measure: Measure


@dataclass(frozen=True, kw_only=True)
class Study:
    """A script, the files beside it, what it measures, and which run does. `expected` makes its
    rows, which are computed when they are needed: some take seconds."""

    name: str
    script: str
    expected: Callable[[], Sequence[Row]]
    ground: Ground = "sim"
    files: Mapping[str, str] = field(default_factory=dict)
    run: Run = "truth"

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        return tuple(self.expected())


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A path of `links` equal links, and flows over it: arguments of DO_CLIENT. `before` is a
    command that comes first; {server} in it is the host at the end. `captures`: so many packets
    are captured there.

    `rows` makes the rows of the cell; it is given the places of these flows in the results.
    """

    link: str
    flows: tuple[str, ...]
    rows: Callable[[Sequence[Place]], list[Row]]
    links: int = 1
    before: str = ""
    captures: int = 0


def side_by_side(
    name: str, cells: Sequence[Cell], *, ground: Ground = "sim", run: Run = "truth"
) -> Study:
    """One run of all cells at once: a host `a`, and a path to a host b1, b2, … for each cell.

    In simulated time they cannot disturb each other: computing takes none.
    """
    nodes = ['a = { kind = "router", agent = true }']
    links: list[str] = []
    settings: list[str] = []
    flows: list[str] = []
    rows: list[Callable[[], list[Row]]] = []
    for place, cell in enumerate(cells, start=1):
        nodes.append(f'b{place} = "host"')
        switches = [f"s{place}x{number}" for number in range(1, cell.links)]
        nodes += [f'{switch} = "switch"' for switch in switches]
        path = ["a", *switches, f"b{place}"]
        limits = [f'{key} = "{value}"' for key, value in _settings(cell.link)]
        links += [
            "\n".join(["[[links]]", f'between = ["{one}", "{other}"]', *limits])
            for one, other in itertools.pairwise(path)
        ]
        if cell.before:
            settings.append(cell.before.format(server=f"b{place}"))
        if cell.captures:
            settings.append(f"DO_TCPDUMP host=b{place} server=a {_kept(cell)}")
        first = len(flows) + 1
        flows += [f"DO_CLIENT host=a server=b{place} {NATIVE} {flow}" for flow in cell.flows]
        places = [(1, number) for number in range(first, len(flows) + 1)]
        rows.append(partial(on, SHAPES[cell.links], cell, places))
    hosts = [f"b{place}" for place in range(1, len(cells) + 1)]
    script = [
        "LAB file=topology.toml",
        f"DO_SERVER host=b1 exp=COUNTER expName={name} start=1",
        *(f"DO_SERVER host={host} start=1" for host in hosts[1:]),
        *settings,
        *flows,
        "START_FLOWS",
        "WAIT_FLOWS",
        "PROCESS_EXP",
    ]
    topology = "\n".join([f'name = "{name}"', "[nodes]", *nodes, *links])
    return Study(
        name=name,
        script="\n".join(script) + "\n",
        expected=partial(_all, rows),
        ground=ground,
        files={"topology.toml": topology + "\n"},
        run=run,
    )


def in_turn(
    name: str,
    lab: str,
    ends: tuple[str, str],
    cells: Sequence[Cell],
    *,
    changed: str = "",
    ground: Ground = "sim",
) -> Study:
    """One run of all cells, an experiment each, between two hosts of `LAB lab`. The link of the
    first one is in LAB, and SET_LINK with the arguments `changed` gives it that of the others."""
    client, server = ends
    script, rows = [f"LAB {lab} {cells[0].link}"], list[Callable[[], list[Row]]]()
    for experiment, cell in enumerate(cells, start=1):
        if experiment > 1:
            script.append(f"SET_LINK {changed} {_whole(cell.link, cells[: experiment - 1])}")
        if cell.captures:
            script.append(f"DO_TCPDUMP host={server} server={client} {_kept(cell)}")
        script += [
            f"DO_SERVER host={server} exp=COUNTER expName={name} start=1",
            *(f"DO_CLIENT host={client} server={server} {NATIVE} {flow}" for flow in cell.flows),
            *("START_FLOWS", "WAIT_FLOWS", "PROCESS_EXP"),
        ]
        places = [(experiment, number) for number in range(1, len(cell.flows) + 1)]
        rows.append(partial(on, lab.partition(" ")[0], cell, places))
    text = "\n".join(script) + "\n"
    return Study(name=name, script=text, expected=partial(_all, rows), ground=ground)


def _kept(cell: Cell) -> str:
    """What DO_TCPDUMP captures for the cell."""
    return f"packets={cell.captures} snap=64"


def _whole(link: str, earlier: Sequence[Cell]) -> str:
    """The settings, and what undoes those of earlier cells."""
    given = dict(_settings(link))
    before = {key for cell in earlier for key, _ in _settings(cell.link)}
    words: dict[str, str] = {}
    words |= {key: "0" for key in ("loss", "duplicate", "reorder") if key in before}
    if "police" not in given:
        if "police" in before:
            words["police"] = "none"
        if "qdisc" in before:
            words["qdisc"] = "bfifo" if given.get("limit", "p")[-1] == "K" else "pfifo"
        if "limit" in before:
            words["limit"] = "1000p"
    words |= given
    return " ".join(f"{key}={value}" for key, value in words.items())


def on(shape: str, cell: Cell, places: Sequence[Place]) -> list[Row]:
    """The rows of a cell, with the topology before the settings of the link."""
    return [replace(row, link=f"{shape} {row.link}") for row in cell.rows(places)]


def _all(rows: Sequence[Callable[[], list[Row]]]) -> list[Row]:
    return [row for each in rows for row in each()]


def _settings(link: str) -> list[tuple[str, str]]:
    return [(key, value) for key, _, value in (word.partition("=") for word in link.split())]


def column(name: str, place: Place) -> Measure:
    """The column of exp.csv."""
    return lambda results: results.group(*place).value(name)


def of_group(read: Callable[[Group], float], place: Place) -> Measure:
    return lambda results: read(results.group(*place))
