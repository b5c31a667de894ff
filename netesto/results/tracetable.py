"""The table of `netesto summary --as trace`: what experiments played, and the course's numbers."""

import functools
import itertools
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from netesto.files import jsontext
from netesto.flowspec import TRACE_TESTS, UDP_TESTS
from netesto.links import cuts
from netesto.results import links
from netesto.results.links import LinkRecord
from netesto.results.manifest import Manifest
from netesto.results.traces import MISS, NAME, PlayedEvent, read

COLUMNS = (
    "case", "kind", "src", "dst", "start_s", "dur_s", "kbps", "course_kbps", "requests", "misses",
    "mean_us", "p50_us", "p90_us", "p99_us", "cut_kbps", "way",
)  # fmt: skip

# The text shows at most so many flows of a case, and for each so many of those that share its link;
# a trace may have thousands.
_FLOWS_SHOWN, _OTHERS_SHOWN = 100, 8

# The course's receivers count datagrams in windows of so many seconds.
WINDOW_S = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedFlow:
    """A flow of the trace, as it asks for it, and what became of it. `way` are the nodes that it
    visits, `shared` what it shares of the busiest link on it: None if its way is unknown."""

    source: str
    asked_start_s: float
    asked_s: float
    line: PlayedEvent
    is_udp: bool = False
    way: tuple[str, ...] = ()
    shared: "Shared | None" = None

    @property
    def name(self) -> str:
        return f"{self.source}→{self.line.destination}"

    @property
    def seconds(self) -> float:
        """Its duration; of a flow of a size the time until its last byte arrived."""
        return self.asked_s or (self.line.us or 0.0) / 1e6

    @property
    def kbps(self) -> float | None:
        """Its goodput; None if it failed."""
        return self._rate(self.line.in_time_bytes)

    @property
    def course_kbps(self) -> float | None:
        """By the course's definition: the payload that was handed to the socket of TCP."""
        return None if self.is_udp else self._rate(self.line.sent_bytes)

    def _rate(self, size: int) -> float | None:
        if self.line.reason or not self.seconds:
            return None
        return size * 8 / self.seconds / 1000


@dataclass(frozen=True, slots=True)
class Shared:
    """The busiest link on a way, its utilisation if known, and how many flows of each name, also
    its own, are on it."""

    link: str
    utilisation: float | None
    flows: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A trace in an experiment. `requests` are those of each host, `windows_bytes` the closed
    windows of all receivers of datagrams, `cut_bps` the capacity from all senders to all
    receivers, None if there is no such."""

    flows: tuple[PlayedFlow, ...]
    requests: Mapping[str, tuple[PlayedEvent, ...]]
    windows_bytes: tuple[int, ...] = ()
    cut_bps: float | None = None

    @property
    def kbps(self) -> float | None:
        """The sum of the goodput of all flows that did not fail."""
        known = [flow.kbps for flow in self.flows if flow.kbps is not None]
        return math.fsum(known) if known else None


def window_kbps(size: int) -> int:
    """The course's value of a window."""
    return size * 8 // 1000 // WINDOW_S


def course_kbps(played: Sequence[Played]) -> float | None:
    """The course's throughput: of TCP the mean over flows of the payload handed to the socket, per
    second; of UDP the mean over all closed windows of all hosts."""
    values = [float(window_kbps(size)) for each in played for size in each.windows_bytes]
    for each in played:
        values += [flow.course_kbps for flow in each.flows if flow.course_kbps is not None]
    return statistics.fmean(values) if values else None


def rows(cases: Mapping[str, Sequence[Played]]) -> Iterator[dict[str, str]]:
    """The rows of the CSV: flows, requests of each host, and a total of each case. Repetitions are
    pooled; the sum of the goodput is the mean of theirs."""
    for case, played in cases.items():
        for flow in (flow for each in played for flow in each.flows):
            yield _row(
                case,
                "flow",
                src=flow.source,
                dst=flow.line.destination,
                start_s=f"{flow.asked_start_s:.6f}",
                dur_s=f"{flow.seconds:.6f}",
                kbps=_kilobits(flow.kbps),
                course_kbps=_kilobits(flow.course_kbps),
                way=" ".join(flow.way),
            )
        hosts = dict.fromkeys(host for each in played for host in each.requests)
        for host in hosts:
            lines = [line for each in played for line in each.requests.get(host, ())]
            yield _row(case, "requests", src=host, **_latencies(lines))
        sums = [each.kbps for each in played if each.kbps is not None]
        cuts = {each.cut_bps for each in played}
        cut_bps = cuts.pop() if len(cuts) == 1 else None
        everything = [line for each in played for lines in each.requests.values() for line in lines]
        yield _row(
            case,
            "total",
            kbps=_kilobits(statistics.fmean(sums) if sums else None),
            course_kbps=_kilobits(course_kbps(played)),
            cut_kbps=_kilobits(None if cut_bps is None else cut_bps / 1000),
            **(_latencies(everything) if everything else {}),
        )


def _row(case: str, kind: str, **cells: str) -> dict[str, str]:
    return dict.fromkeys(COLUMNS, "") | {"case": case, "kind": kind} | cells


def _kilobits(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _latencies(lines: Sequence[PlayedEvent]) -> dict[str, str]:
    """Of the requests that did not fail, misses included."""
    good = [line for line in lines if not line.reason]
    times = [line.us for line in good if line.us is not None]
    found = {"requests": str(len(lines)), "misses": str(sum(line.status == MISS for line in good))}
    if times:
        found["mean_us"] = f"{statistics.fmean(times):.3f}"
        # By linear interpolation at (n - 1) p, as in the table of completions.
        values = np.quantile(times, (0.5, 0.9, 0.99))
        named = zip(("p50_us", "p90_us", "p99_us"), values, strict=True)
        found |= {name: f"{value:.3f}" for name, value in named}
    return found


def text(cases: Mapping[str, Sequence[Played]]) -> str:
    """The course's two numbers of each case, and ours beside them."""
    lines: list[str] = []
    totals = {row["case"]: row for row in rows(cases) if row["kind"] == "total"}
    for case, played in cases.items():
        total = totals[case]
        flows = [flow for each in played for flow in each.flows]
        lines.append(case or "trace")
        if total["requests"]:
            lines.append(
                f"  mean request latency: {total['mean_us'] or '-'} µs"
                f" ({total['requests']} requests, {total['misses']} misses; 50%"
                f" {total['p50_us'] or '-'}, 90% {total['p90_us'] or '-'},"
                f" 99% {total['p99_us'] or '-'})"
            )
        if flows:
            repeated = f", mean of {len(played)} repetitions" if len(played) > 1 else ""
            cut = f", of a cut of {total['cut_kbps']} kbit/s" if total["cut_kbps"] else ""
            lines += [
                f"  throughput as the course computes it: {total['course_kbps'] or '-'} kbit/s",
                f"  goodput: {total['kbps'] or '-'} kbit/s in sum{repeated}{cut}",
            ]
        failed = [flow for flow in flows if flow.line.reason]
        failed_requests = [
            line for each in played for own in each.requests.values() for line in own if line.reason
        ]
        if failed or failed_requests:
            lines.append(f"  failed: {len(failed)} flows, {len(failed_requests)} requests")
        lines += map(_line_of, flows[:_FLOWS_SHOWN])
        if len(flows) > _FLOWS_SHOWN:
            lines.append(f"    and {len(flows) - _FLOWS_SHOWN} further flows: -f csv lists all")
    return "".join(f"{line}\n" for line in lines)


def _line_of(flow: PlayedFlow) -> str:
    if flow.line.reason:
        said = f"failed: {flow.line.reason}"
    else:
        course = "" if flow.course_kbps is None else f" (course: {flow.course_kbps:.1f})"
        said = f"{flow.kbps or 0.0:.1f} kbit/s{course}"
    shared = ""
    if flow.shared is not None:
        use = flow.shared.utilisation
        busy = "" if use is None else f" ({100 * use:.0f} %)"
        shared = f"; shares {flow.shared.link}{busy} with {_other_flows(flow.shared, flow.name)}"
    return f"    {flow.name}, {flow.seconds:g} s from {flow.asked_start_s:g} s: {said}{shared}"


def _other_flows(shared: Shared, own: str) -> str:
    others = Counter(shared.flows)
    others[own] -= 1
    counts = +others
    shown = [
        name if count == 1 else f"{name} ({count})"
        for name, count in itertools.islice(counts.items(), _OTHERS_SHOWN)
    ]
    rest = counts.total() - sum(itertools.islice(counts.values(), _OTHERS_SHOWN))
    return ", ".join([*shown, *([f"{rest} further flows"] if rest else [])]) or "nobody"


# ---- from the files of an experiment -------------------------------------------------------------


def played(folder: Path, known: Manifest) -> Played | None:
    """What an experiment played; None if it played no trace. OutputError, OSError."""
    groups = [group for group in known.groups if group.request.test in TRACE_TESTS]
    if not groups:
        return None
    flows: list[PlayedFlow] = []
    requests: dict[str, tuple[PlayedEvent, ...]] = {}
    windows: dict[str, list[int]] = {}
    # A host has a group of flows and one of requests in one file.
    lines = functools.cache(read)
    for group in groups:
        asked = group.request
        place = folder / "raw" / asked.client
        path = place / NAME
        own = [each for each in lines(path) if each.group == asked.group] if path.exists() else []
        if asked.test == "TRACE_KV":
            requests[asked.client] = (*requests.get(asked.client, ()), *own)
            continue
        times = _asked_times(place / f"trace.{asked.group}.txt")
        flows += [
            PlayedFlow(
                source=asked.client,
                asked_start_s=times[line.number][0],
                asked_s=times[line.number][1],
                line=line,
                is_udp=asked.test in UDP_TESTS,
            )
            for line in own
        ]
        for host, sizes in _windows(place / f"flow.{asked.group}.1.out").items():
            # Each session of a host reports those that had closed when it ended.
            windows[host] = max(windows.get(host, []), sizes, key=len)
    return Played(
        flows=tuple(_with_ways(folder, flows)),
        requests=requests,
        windows_bytes=tuple(size for sizes in windows.values() for size in sizes),
        cut_bps=_cut_bps(known.links, flows),
    )


def _asked_times(path: Path) -> dict[int, tuple[float, float]]:
    """The start and the duration of each flow that a host's process was asked for."""
    lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    deeds = [line for line in lines if line and line[0] != "P"]
    return {
        number: (int(words[1]) / 1e9, int(words[2]) / 1e9)
        for number, words in enumerate(deeds, start=1)
        if words[0] == "F"
    }


def _windows(path: Path) -> dict[str, list[int]]:
    """The bytes of the closed windows of each host."""
    found: dict[str, list[int]] = {}
    if not path.exists():
        return found
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith('{"event":"result"'):
            for host, _, size in jsontext.parse(line).get("windows", []):
                found.setdefault(host, []).append(int(size))
    return found


def _cut_bps(records: Sequence[LinkRecord], flows: Sequence[PlayedFlow]) -> float | None:
    senders = {flow.source for flow in flows}
    receivers = {flow.line.destination for flow in flows}
    if not flows or senders & receivers:
        return None
    arcs = [cuts.Arc(each.source, each.destination, each.rate_bps) for each in records]
    return cuts.smallest(arcs, senders, receivers).rate_bps


def _with_ways(folder: Path, flows: Sequence[PlayedFlow]) -> Iterator[PlayedFlow]:
    """The flows with their ways, and what they share."""
    found = {(group, number): way for group, number, way in links.read_numbered(folder)}
    busy = links.read_utilisations(folder)
    of_direction: dict[str, Counter[str]] = defaultdict(Counter)
    for flow in flows:
        if (way := found.get((flow.line.group, flow.line.number))) is not None:
            for direction in way.directions:
                of_direction[direction][flow.name] += 1
    for flow in flows:
        way = found.get((flow.line.group, flow.line.number))
        if way is None or not way.links:
            yield flow
            continue
        directions = list(zip(way.directions, way.links, strict=True))
        busiest, link = max(directions, key=lambda each: busy.get(each[0]) or 0.0)
        shared = Shared(link, busy.get(busiest), of_direction[busiest])
        yield replace(flow, way=way.nodes, shared=shared)
