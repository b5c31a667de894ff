"""The load of every link of a lab, and the ways of flows: links.csv, links-series.csv, ways.csv.

Each direction of a link is counted where packets leave its middle, as `tc -s` shows it; without a
middle, by the interface of a node that was sampled. See docs/data-formats.md.
"""

import contextlib
import csv
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from netesto.links import routed
from netesto.links.routed import RoutedFlow
from netesto.measured import InstalledQdisc, LinkSamples
from netesto.results import csvfile, durable
from netesto.results.carried import CarriedLinks, CarriedWay
from netesto.results.queues import POLICER, SHAPERS, Column

LINKS, SERIES, WAYS = "links.csv", "links-series.csv", "ways.csv"
RAW_WAYS = f"raw/{WAYS}"

_COUNTS = ("rate_bps", "bytes", "packets", "drops", "marks", "utilisation")
LINK_COLUMNS = ("link", "from", "to", *_COUNTS)
# Those of labs where programs carry links, with the counts of a program that they have.
PROGRAM_COLUMNS: Mapping[str, str] = {
    "lost": "wire_lost",
    "resent": "resent",
    "given_up": "given_up",
}
WAY_COLUMNS = (
    "group", "flow", "source", "destination", "protocol", "sport", "dport", "way",
)  # fmt: skip
# Of the raw file, which has the names of the links, too: between two nodes there may be several.
RAW_WAY_COLUMNS = (*WAY_COLUMNS, "links")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRecord:
    """A direction of a link of a lab, from one node to another. `place`: where it is counted, as
    `node/device`: what leaves, or (`is_received`) what enters by the interface; "": nowhere.
    `rate_bps` is that of the topology; None: without a limit."""

    link: str
    source: str
    destination: str
    place: str
    is_received: bool = False
    rate_bps: float | None = None


@dataclass(frozen=True, slots=True)
class Way:
    """The nodes that packets visit, and the names of the links between them."""

    nodes: tuple[str, ...]
    links: tuple[str, ...]

    @property
    def directions(self) -> tuple[str, ...]:
        """What names the direction of each link."""
        return tuple(f"{link} {node}" for link, node in zip(self.links, self.nodes, strict=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What one direction of a link has carried, in chronological order: the counts increase from 0.
    `rates_bps` are those of its shaper from the sample before each sample on. Unknown counts are
    None."""

    record: LinkRecord
    time_s: tuple[float, ...] = ()
    bytes: Column = ()
    packets: Column = ()
    drops: Column = ()
    marks: Column = ()
    rates_bps: tuple[float | None, ...] = ()

    def _mean_rate_bps(self, first: int, last: int) -> float | None:
        """The mean over time between two samples; None if it was unknown for a while."""
        seconds = self.time_s[last] - self.time_s[first]
        known = [rate for rate in self.rates_bps[first + 1 : last + 1] if rate is not None]
        if seconds <= 0 or len(known) < last - first:
            return None
        times = itertools.pairwise(self.time_s[first : last + 1])
        bits = (rate * (end - start) for rate, (start, end) in zip(known, times, strict=True))
        return math.fsum(bits) / seconds

    def between(self, first: int, last: int) -> "CarriedTraffic":
        """What it carried from one sample to another."""
        rates = self.rates_bps[first + 1 : last + 1]
        # One rate is as it was set; a mean has been rounded.
        is_constant = len(set(rates)) == 1
        rate_bps = rates[0] if is_constant else self._mean_rate_bps(first, last)
        counts = (
            _increase(column[first], column[last])
            for column in (self.bytes, self.packets, self.drops, self.marks)
        )
        seconds = self.time_s[last] - self.time_s[first]
        return CarriedTraffic(self.record, rate_bps, seconds, *counts)

    def window(self, start_s: float, end_s: float) -> tuple[int, int] | None:
        """The last sample before an instant and the first one after another, or else the first and
        the last; None without two samples."""
        if len(self.time_s) < 2:
            return None
        before = [at for at, time_s in enumerate(self.time_s) if time_s <= start_s]
        after = [at for at, time_s in enumerate(self.time_s) if time_s >= end_s]
        first = before[-1] if before else 0
        last = after[0] if after else len(self.time_s) - 1
        return (first, last) if last > first else None


@dataclass(frozen=True, slots=True)
class CarriedTraffic:
    """What one direction of a link carried in some seconds. `program`: what is counted of one that
    a program carries, as PROGRAM_COLUMNS."""

    record: LinkRecord
    rate_bps: float | None = None
    seconds: float = 0.0
    bytes: int | None = None
    packets: int | None = None
    drops: int | None = None
    marks: int | None = None
    program: tuple[int, ...] = field(default=(), kw_only=True)

    @property
    def utilisation(self) -> float | None:
        if self.bytes is None or not self.rate_bps or self.seconds <= 0:
            return None
        return self.bytes * 8 / (self.rate_bps * self.seconds)

    @property
    def cells(self) -> tuple[str, ...]:
        """Those of links.csv."""
        of, share = self.record, self.utilisation
        counts = (self.bytes, self.packets, self.drops, self.marks)
        return (
            *(of.link, of.source, of.destination),
            "" if self.rate_bps is None else f"{self.rate_bps:.0f}",
            *("" if count is None else str(count) for count in counts),
            "" if share is None else f"{share:.6f}",
        )


@dataclass(frozen=True, kw_only=True)
class Links:
    """The links of a lab in an experiment, from the first start to the last end of a flow (`busy`),
    and the known ways of flows."""

    loads: tuple[Load, ...] = ()
    busy: tuple[float, float] | None = None
    ways: tuple[Way, ...] = ()
    programs: CarriedLinks = field(default_factory=CarriedLinks)

    @cached_property
    def traffic(self) -> list[CarriedTraffic]:
        """A value for each direction, without counts if it was not sampled."""
        return [
            CarriedTraffic(load.record, load.record.rate_bps)
            if self.busy is None or (window := self._window(load)) is None
            else self._with_program(load.between(*window), *self.busy)
            for load in self.loads
        ]

    @cached_property
    def _of_programs(self) -> Mapping[tuple[str, str], CarriedWay]:
        """The directions that programs carry, by their ends."""
        return {(way.source, way.destination): way for way in self.programs.ways}

    def _with_program(
        self, traffic: CarriedTraffic, start_s: float, end_s: float, *, goes_on: bool = False
    ) -> CarriedTraffic:
        """With what the program that carries the link tells: the kernel knows nothing of it."""
        way = self._of_programs.get((traffic.record.source, traffic.record.destination))
        if way is None:
            return traffic
        drops, marks, *others = (
            way.increase(name, start_s, end_s, goes_on=goes_on)
            for name in ("drops", "marks", *PROGRAM_COLUMNS.values())
        )
        return replace(traffic, drops=drops, marks=marks, program=tuple(others))

    def _window(self, load: Load) -> tuple[int, int] | None:
        return None if self.busy is None else load.window(*self.busy)

    @property
    def series(self) -> Iterator[tuple[float, CarriedTraffic]]:
        """What was carried or dropped in each interval, with its end after the first start."""
        for load in self.loads:
            if (window := self._window(load)) is None or self.busy is None:
                continue
            for first, last in itertools.pairwise(range(window[0], window[1] + 1)):
                found = self._with_program(
                    load.between(first, last),
                    *(load.time_s[first], load.time_s[last]),
                    goes_on=first > window[0],
                )
                if found.bytes or found.drops or any(found.program):
                    yield load.time_s[last] - self.busy[0], found

    @cached_property
    def max_utilisation_percent(self) -> float | None:
        """Of the direction with the highest one."""
        known = [each.utilisation for each in self.traffic]
        return max((100 * each for each in known if each is not None), default=None)

    @cached_property
    def shared_flows(self) -> int | None:
        """The most flows on one direction of a link; None if no way is known."""
        counts = Counter(each for way in self.ways for each in way.directions)
        return max(counts.values(), default=None)

    @cached_property
    def uplink_variation(self) -> float | None:
        """Of a fat tree the largest coefficient of variation of the flows on the links of a pod to
        the cores, unused links included; None of other labs, or if no flow uses any."""
        uplinks = [
            load.record
            for load in self.loads
            if _AGGREGATION.fullmatch(load.record.source)
            and _CORE.fullmatch(load.record.destination)
        ]
        counts = Counter(each for way in self.ways for each in way.directions)
        aggregations = {each.source for each in uplinks}
        if len(aggregations) < 2:
            return None
        pods: dict[int, list[int]] = {}
        for each in uplinks:
            flows = pods.setdefault(routed.pod(each.source, aggregations), [])
            flows.append(counts[f"{each.link} {each.source}"])
        return max((routed.variation(flows) for flows in pods.values() if any(flows)), default=None)


# The names of routers in a fat tree.
_AGGREGATION, _CORE = re.compile(r"a[1-9]\d*"), re.compile(r"c[1-9]\d*")


def load(record: LinkRecord, samples: LinkSamples) -> Load:
    """The counts of one direction, in the samples of the node where it is counted."""
    device = record.place.partition("/")[2]
    interface = samples.interfaces.get(device)
    if interface is None or not interface.time_s:
        return Load(record=record)
    # In simulated time an agent that was lost, and began again, may have two at one instant.
    last = {time_s: place for place, time_s in enumerate(interface.time_s)}
    places, at = [*last.values()], {time_s: tick for tick, time_s in enumerate(last)}
    roots: list[dict[InstalledQdisc, int]] = [{} for _ in at]
    others: list[list[tuple[InstalledQdisc, int]]] = [[] for _ in at]
    for qdisc, counted in samples.qdiscs.items():
        if qdisc.device != device or record.is_received:
            continue
        for time_s, place in {each: place for place, each in enumerate(counted.time_s)}.items():
            if (tick := at.get(time_s)) is not None:
                others[tick].append((qdisc, place))
                if qdisc.parent == "root" and qdisc.kind != POLICER:
                    roots[tick][qdisc] = place
    columns: dict[str, list[int | None]] = {
        "bytes": [0],
        "packets": [0],
        "drops": [0],
        "marks": [0],
    }
    rates: list[float | None] = [None]
    way = "rx" if record.is_received else "tx"
    for before, after in itertools.pairwise(range(len(at))):
        grown = {
            **{
                name: _passed(
                    name,
                    samples,
                    (roots[before], roots[after]),
                    _increase(
                        *(interface.at(places[tick], f"{way}_{name}") for tick in (before, after))
                    ),
                )
                for name in ("bytes", "packets")
            },
            "drops": _qdisc_increase("drops", samples, others[before], _droppers(others[after])),
            "marks": _qdisc_increase("marks", samples, others[before], others[after]),
        }
        for name, count in grown.items():
            known = columns[name][-1]
            columns[name].append(None if known is None or count is None else known + count)
        shapers = (each.rate_bps for each, _ in others[after] if each.kind in SHAPERS)
        rates.append(next(filter(None, shapers), record.rate_bps))
    return Load(
        record=record,
        time_s=tuple(at),
        **{name: tuple(column) for name, column in columns.items()},
        rates_bps=tuple(rates),
    )


# A qdisc, and the place of one of its samples.
_Sample: TypeAlias = tuple[InstalledQdisc, int]


def _passed(
    name: str,
    samples: LinkSamples,
    roots: tuple[Mapping[InstalledQdisc, int], Mapping[InstalledQdisc, int]],
    by_interface: int | None,
) -> int | None:
    """How much passed from one tick to the next: the outermost qdisc counts what has left it, with
    the headers of each segment of a super-packet; without one, the interface counts."""
    before, after = roots
    for qdisc, place in after.items():
        if qdisc in before:
            counted = samples.qdiscs[qdisc]
            return _increase(counted.at(before[qdisc], name), counted.at(place, name))
    return by_interface


def _droppers(installed: Iterable[_Sample]) -> list[_Sample]:
    """The outermost qdisc, which counts what all below it drop, and a policer."""
    return [each for each in installed if each[0].parent == "root" or each[0].kind == POLICER]


def _qdisc_increase(
    name: str, samples: LinkSamples, before: Iterable[_Sample], after: Iterable[_Sample]
) -> int | None:
    """The increase of a count of qdiscs from one tick to the next; None if no qdisc has it."""
    earlier = dict(before)
    found = 0 if name == "drops" else None
    for qdisc, place in after:
        counted = samples.qdiscs[qdisc]
        then = counted.at(earlier[qdisc], name) if qdisc in earlier else 0
        if (grown := _increase(then, counted.at(place, name))) is not None:
            found = (found or 0) + grown
    return found


def _increase(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else max(0, after - before)


def write(folder: Path, links: Links) -> None:
    """The files of an experiment of a lab; none of any other."""
    if not links.loads:
        return
    added = tuple(PROGRAM_COLUMNS) if links.programs.ways else ()
    columns = (*LINK_COLUMNS, *added)
    rows = [_row(each, len(added)) for each in links.traffic]
    durable.replace(folder / LINKS, csvfile.text([columns], rows))
    series = [(*_row(each, len(added)), f"{t_s:.6f}") for t_s, each in links.series]
    durable.replace(folder / SERIES, csvfile.text([(*columns, "t_s")], series))
    known = [[row[name] for name in WAY_COLUMNS] for row in read_table(folder / RAW_WAYS)]
    durable.replace(folder / WAYS, csvfile.text([WAY_COLUMNS], known))


def _row(traffic: CarriedTraffic, added: int) -> tuple[str, ...]:
    """Those of the kernel's links have empty cells for what programs count."""
    return (*traffic.cells, *(map(str, traffic.program) if traffic.program else ("",) * added))


def read_table(path: Path) -> Iterator[dict[str, str]]:
    """The rows of one of these files, by the names of their columns; none if it is missing."""
    with contextlib.suppress(FileNotFoundError), path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def read_ways(path: Path) -> tuple[Way, ...]:
    """The ways in a raw file."""
    return tuple(map(way_of, read_table(path)))


def read_numbered(folder: Path) -> list[tuple[int, int, Way]]:
    """The ways of an experiment, each with its group and the number of its flow."""
    rows = read_table(folder / RAW_WAYS)
    return [(int(row["group"]), int(row["flow"]), way_of(row)) for row in rows]


def way_of(row: Mapping[str, str]) -> Way:
    """The way in a row of the raw file."""
    return Way(tuple(row["way"].split()), tuple(row["links"].split()))


def read_utilisations(folder: Path) -> dict[str, float]:
    """The known utilisations in links.csv, by direction as in `Way.directions`."""
    return {
        f"{row['link']} {row['from']}": float(row["utilisation"])
        for row in read_table(folder / LINKS)
        if row["utilisation"]
    }


def write_ways(path: Path, flows: Iterable[tuple[int, int, RoutedFlow, Way]]) -> None:
    """The raw file, with a row of RAW_WAY_COLUMNS for each flow of a group."""
    rows = [
        (
            *(group, flow, way.nodes[0], way.nodes[-1]),
            *(packets.protocol, packets.source_port, packets.destination_port),
            *(" ".join(way.nodes), " ".join(way.links)),
        )
        for group, flow, packets, way in flows
    ]
    durable.replace(path, csvfile.text([RAW_WAY_COLUMNS], rows))
