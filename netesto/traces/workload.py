"""Workloads of the course CS 145, in JSON, and the traces made from them."""

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from netesto.errors import UsageError
from netesto.files import placedjson, texts
from netesto.files.placedjson import Duplicates, Value
from netesto.text.nearest import hint
from netesto.traces.addresses import Addresses
from netesto.traces.distributions import (
    Constant,
    Distribution,
    Empirical,
    Exponential,
    Uniform,
    empirical,
)
from netesto.traces.format import MOST_EVENTS, MOST_US, Event, Flow, Request, Trace

_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_SHORTEST_WORD, _LONGEST_WORD = 5, 8


@dataclass(frozen=True, slots=True)
class Group:
    """Flows from a time on; sizes of flows and flowlets are durations (µs), but an empirical size
    of flows is in bytes."""

    start_us: float
    length_us: float
    sources: tuple[str, ...]
    destinations: tuple[str, ...]
    size: Distribution
    gap: Distribution
    flowlet: Distribution
    flowlet_gap: Distribution


@dataclass(frozen=True, slots=True)
class RequestStream:
    """RequestStream from time 0 on, of the hosts that are also the stores."""

    hosts: tuple[str, ...]
    length_us: float
    gap: Distribution


@dataclass(frozen=True, slots=True)
class Workload:
    """What a trace is made from. `file` names it in messages."""

    file: str
    groups: tuple[Group, ...]
    requests: RequestStream | None


Warn = Callable[[str], None]


# ---- reading -----------------------------------------------------------------------------------


def read(
    path: Path,
    hosts: Addresses | None = None,
    *,
    text: str = "",
    duplicates: Duplicates = "refuse",
    warn: Warn = lambda _: None,
) -> Workload:
    """The workload in a file; `text` is its content, if known. Hosts must be among `hosts`, if
    given. `warn` receives the names that mean nothing. ScriptError with line and column."""
    document = placedjson.parse(text or texts.read(path), str(path), duplicates=duplicates)
    return _WorkloadReader(path, hosts, warn).workload(document)


_GROUP_NAMES = (
    "start_time",
    "length",
    "src_host_list",
    "dst_host_list",
    "flow_size_distribution",
    "flow_gap_distribution",
    "flowlet_size_distribution",
    "flowlet_gap_distribution",
)
_NAMES = ("flow_groups", "mc_host_list", "mc_gap_distribution", "length", "output")
_NONE = Constant(0.0)


@dataclass(frozen=True, slots=True)
class _WorkloadReader:
    path: Path
    hosts: Addresses | None
    warn: Warn

    def workload(self, document: Value) -> Workload:
        members = document.table("a workload")
        self._warn_of_unknown(document, _NAMES)
        listed = members.get("flow_groups")
        groups = () if listed is None else listed.items("flow_groups")
        stores = members.get("mc_host_list")
        is_asking = stores is not None and bool(stores.items("mc_host_list"))
        requests = self._requests(document) if is_asking else None
        if not groups and requests is None:
            raise document.source.wrong(
                document.start, document.start + 1, "no flow_groups and no mc_host_list",
                "A workload has flows, requests, or both.",
            )  # fmt: skip
        return Workload(
            str(self.path),
            tuple(self._group(group, f"group {i + 1}") for i, group in enumerate(groups)),
            requests,
        )

    def _requests(self, document: Value) -> RequestStream:
        what = "a workload with mc_host_list"
        length = self._time(document, "length", what)
        gap = self._distribution(document.required("mc_gap_distribution", what), "gap")
        self._check_gap(document, "mc_gap_distribution", gap, length)
        return RequestStream(self._hosts(document, "mc_host_list", what), length, gap)

    def _group(self, group: Value, what: str) -> Group:
        members = group.table(what)
        self._warn_of_unknown(group, _GROUP_NAMES)
        start = self._time(group, "start_time", what)
        length = self._time(group, "length", what)
        sources = self._hosts(group, "src_host_list", what)
        destinations = self._hosts(group, "dst_host_list", what)
        if len({*sources, *destinations}) == 1:
            raise members["dst_host_list"].wrong(f"{what}: its only destination is its only source")
        size, gap = (
            self._distribution(group.required(f"flow_{name}_distribution", what), name)
            for name in ("size", "gap")
        )
        self._check_gap(group, "flow_gap_distribution", gap, length)
        flowlet, flowlet_gap = (
            self._distribution(members[key], "flowlet") if key in members else _NONE
            for key in _GROUP_NAMES[-2:]
        )
        if isinstance(size, Empirical) and flowlet.mean:
            raise members[_GROUP_NAMES[-2]].wrong(
                f"{what}: flowlets of a flow of a size",
                "Flows with an empirical size send throughout: they have no flowlets.",
            )
        return Group(
            start, length, sources, destinations, size, gap, flowlet, flowlet_gap
        )  # fmt: skip

    def _warn_of_unknown(self, value: Value, known: tuple[str, ...]) -> None:
        for name, place in value.unknown(known):
            self.warn(f"{place}: {name!r} means nothing here. {hint(name, known)}".rstrip())

    def _time(self, value: Value, name: str, what: str) -> float:
        found = value.required(name, what)
        number = found.number(name)
        if number > MOST_US:
            raise found.wrong(f"{name}: {number:g} µs: at most {MOST_US:.0e}")
        return number

    def _hosts(self, value: Value, name: str, what: str) -> tuple[str, ...]:
        listed = value.required(name, what)
        entries = listed.items(name)
        if not entries:
            raise listed.wrong(f"{what}: {name} is empty", 'Example: ["h1", "h2"]')
        found: dict[str, None] = {}
        for entry in entries:
            host = entry.words(f"{name}: a host")
            if not host or len(host.split()) != 1 or host.split()[0] != host:
                raise entry.wrong(f"{name}: {host!r} is not the name of a host")
            if self.hosts is not None and self.hosts.address_of(host) is None:
                names = self.hosts.names
                otherwise = (
                    f"Hosts: {', '.join(names[:20])}."
                    if names
                    else "Without --topology FILE.toml hosts are h1, h2, …"
                )
                raise entry.wrong(
                    f"{name}: unknown host {host}", hint(host, names, otherwise=otherwise)
                )
            if host in found:
                raise entry.wrong(f"{name}: host {host} twice")
            found[host] = None
        return tuple(found)

    def _check_gap(self, value: Value, name: str, gap: Distribution, length: float) -> None:
        place = value.table("")[name]
        if not gap.mean > 0:
            raise place.wrong(
                f"{name}: a gap that stays 0", "Time would never go on: give a gap in µs."
            )
        if length / gap.mean > MOST_EVENTS:
            raise place.wrong(
                f"{name}: more than {MOST_EVENTS:,} events: a mean gap of {gap.mean:g} µs for "
                f"{length:g} µs"
            )

    # ---- distributions -------------------------------------------------------------------------

    def _distribution(self, value: Value, of: str) -> Distribution:
        """`{"type": "uniform", "min": 1, "max": 5}`. The kind may be left out, have another name
        than `type`, or be the only name of the object, around the others."""
        members = value.table("a distribution")
        if len(members) == 1:
            (kind, inner), *_ = members.items()
            if kind in _KINDS and isinstance(inner.content, dict):
                return self._of_kind(kind, inner, of)
        said = [
            member
            for name, member in members.items()
            if isinstance(member.content, str) and name != "file"
        ]
        given = {name for name in members if not isinstance(members[name].content, str)}
        given |= {"file"} & set(members)
        kind = said[0].content if said else ""
        if not said:
            fitting = [kind for kind, names in _KINDS.items() if set(names) == given]
            kind = fitting[0] if fitting else ""
        if kind not in _KINDS:
            forms = "; ".join(f"{kind} {', '.join(names)}" for kind, names in _KINDS.items())
            raise (said[0] if said else value).wrong(
                f"unknown distribution {kind}".rstrip(), f"Distributions: {forms}."
            )
        return self._of_kind(kind, value, of)

    def _of_kind(self, kind: str, value: Value, of: str) -> Distribution:
        for name, place in value.unknown(_KINDS[kind]):
            if not isinstance(value.content[name].content, str):
                self.warn(f"{place}: {name!r} means nothing in a distribution {kind}")
        wanted = {name: value.required(name, f"a distribution {kind}") for name in _KINDS[kind]}
        if kind == "empirical":
            if of != "size":
                raise value.wrong(
                    "an empirical distribution has bytes: it is for flow_size_distribution"
                )
            return empirical(self.path.parent / wanted["file"].words("file"))
        numbers = {name: each.number(name) for name, each in wanted.items()}
        for name, number in numbers.items():
            if number > MOST_US:
                raise wanted[name].wrong(f"{name}: {number:g} µs: at most {MOST_US:.0e}")
        match kind:
            case "constant":
                return Constant(numbers["value"])
            case "uniform":
                if not numbers["min"] < numbers["max"]:
                    raise wanted["min"].wrong(
                        f"min {numbers['min']:g} is not below max {numbers['max']:g}"
                    )
                return Uniform(numbers["min"], numbers["max"])
            case _:
                return Exponential(wanted["mean"].number("mean", above=0))


_KINDS: Mapping[str, tuple[str, ...]] = {
    "constant": ("value",),
    "uniform": ("min", "max"),
    "exponential": ("mean",),
    "empirical": ("file",),
}


# ---- making ------------------------------------------------------------------------------------


def generate(workload: Workload, seed: int) -> Trace:
    """The trace of a workload; the same for the same seed. UsageError if it has too many events.

    Each group, and the requests, have random numbers of their own.
    """
    events: list[Event] = []
    for number, group in enumerate(workload.groups):
        _extend(events, _flows(group, Random(f"{seed} flows {number}")), workload.file)
    requests = workload.requests
    if requests is not None:
        _extend(events, _requests(requests, Random(f"{seed} requests")), workload.file)
    # Stable: events of the same time are in the order of the workload.
    events.sort(key=operator.attrgetter("time_us"))
    return Trace(requests.hosts if requests else (), tuple(events))


def _extend(events: list[Event], more: Iterator[Event], file: str) -> None:
    for event in more:
        if len(events) == MOST_EVENTS:
            raise UsageError(
                f"{file}: more than {MOST_EVENTS:,} events", remedy="Give longer gaps."
            )
        events.append(event)


def _flows(group: Group, generator: Random) -> Iterator[Flow]:
    draw = generator.random
    size, gap, flowlet, flowlet_gap = (
        distribution.drawn_by(generator)
        for distribution in (group.size, group.gap, group.flowlet, group.flowlet_gap)
    )
    sources, destinations, start = group.sources, group.destinations, group.start_us
    is_of_bytes, has_flowlets = isinstance(group.size, Empirical), group.flowlet.mean > 0
    elapsed = 0.0
    while elapsed < group.length_us:
        source = destination = ""
        while source == destination:
            source = sources[int(draw() * len(sources))]
            destination = destinations[int(draw() * len(destinations))]
        time = _rounded(start + elapsed)
        if is_of_bytes:
            yield Flow(time, source, destination, 0.0, 0.0, 0.0, max(1, round(size())))
        elif has_flowlets:
            yield Flow(
                time, source, destination,
                _rounded(size()), _rounded(flowlet()), _rounded(flowlet_gap()),
            )  # fmt: skip
        else:
            yield Flow(time, source, destination, _rounded(size()))
        elapsed += gap()


def _rounded(time_us: float) -> float:
    """To the nanosecond; several times as fast as round()."""
    return int(time_us * 1000 + 0.5) / 1000


def _requests(requests: RequestStream, generator: Random) -> Iterator[Request]:
    """A set first; then sets and gets alike often. Half of the sets set an old key again."""
    draw, gap, hosts = generator.random, requests.gap.drawn_by(generator), requests.hosts
    keys: list[str] = []
    taken: set[str] = set()
    elapsed = 0.0
    while elapsed < requests.length_us:
        host, time = hosts[int(draw() * len(hosts))], _rounded(elapsed)
        if keys and draw() < 0.5:
            yield Request(time, host, keys[int(draw() * len(keys))])
        else:
            if keys and draw() < 0.5:
                key = keys[int(draw() * len(keys))]
            else:
                key = _word(generator)
                if key not in taken:
                    keys.append(key)
                    taken.add(key)
            yield Request(time, host, key, _word(generator))
        elapsed += gap()


def _word(generator: Random) -> str:
    length = _SHORTEST_WORD + int(generator.random() * (_LONGEST_WORD - _SHORTEST_WORD + 1))
    return "".join(generator.choices(_CHARACTERS, k=length))
