"""The graphs of an experiment's page: their lines, bands, sums, legends and captions. Pure."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from netesto.flowspec import REQUEST_TESTS
from netesto.report import curves, looks, quantities, together
from netesto.report.context import Context, Reference
from netesto.report.curves import Points
from netesto.report.figures import Curve, Entry, Fan, Graph, Losses, Shade, Stroke
from netesto.report.looks import Look
from netesto.report.quantities import (
    ACKED_RATE,
    BACKLOG,
    CORES,
    CPU,
    DROPS,
    MIN_RTT,
    PING,
    RATE,
    RETRANS,
    RTT,
    TimeQuantity,
)
from netesto.results.evidence import OK
from netesto.results.series import CpuSeries, FlowSeries, Series
from netesto.units import counted

# With more flows, individual names and colours are useless: flows of one group then look alike, and
# the legend names groups. A group of more than this is drawn as a band.
MAX_LINES_WITH_NAMES = 8

# A level this far above all measurements would compress the lines.
REFERENCE_ABOVE = 3.0

# Of the height of a graph.
LABEL_HEIGHT = 0.06

# A sum may exceed the link by data that was late by less than one sample; more needs an
# explanation.
SUM_ABOVE_LINK = 1.02


def of(series: Series, context: Context) -> Iterator[Graph]:
    """The graphs with data, in the order of the page; empty if every flow failed."""
    entries = legend(series)
    if not entries:
        return
    end_s = max((flow.end_s for flow in series.flows if flow.end_s is not None), default=0.0)
    shades = _shades(series)
    lost = _losses(series, entries)
    for quantity in quantities.of(series).values():
        fans: list[Fan] = []
        losses: list[Losses] = []
        if quantity in _OF_HOSTS or quantity.is_counted:
            named = _OF_HOSTS.get(quantity, partial(_queues, quantity))(series, context)
            lines = [line for _, line in named]
            shown = [entry for entry, _ in named if entry.label]
        else:
            shown = [
                entry
                for entry in entries
                if any(quantities.flow_lines(quantity, series.flows[i]) for i in entry.flows)
            ]
            lines, fans = _lines(quantity, series, shown, is_marked=not is_crowded(entries))
            losses = lost
        if not lines:
            continue
        total = _total(series) if quantity is RATE else ((), ())
        highest = _highest([total, *(line.points for line in lines)])
        every = _references(quantity, context)
        near = [each for each in every if each.value <= REFERENCE_ABOVE * highest]
        references = _apart(near, highest)
        changes = [each for each in context.changes if each.value <= end_s]
        graph = Graph(
            quantity, end_s, shown, lines, fans, total, references, shades, changes, losses
        )
        yield replace(graph, caption=" ".join(_caption(graph, series, context)))


def legend(series: Series) -> list[Entry]:
    """An entry for each flow; for each group where flows are many. Flows that failed without data
    have none."""
    drawn = [(i, flow) for i, flow in enumerate(series.flows) if flow.has_run]
    if len(drawn) <= MAX_LINES_WITH_NAMES:
        return [
            Entry(
                flow.label if flow.status == OK else f"{flow.label} (failed)",
                looks.of_line(place),
                (i,),
            )
            for place, (i, flow) in enumerate(drawn)
        ]
    groups: dict[int, list[int]] = {}
    for i, flow in drawn:
        groups.setdefault(flow.group, []).append(i)
    return [
        Entry(
            _group_label(series.flows[members[0]], len(members)), looks.of_line(place), (*members,)
        )
        for place, members in enumerate(groups.values())
    ]


def _losses(series: Series, entries: Sequence[Entry]) -> list[Losses]:
    """Those of each entry of the legend."""
    found = []
    for entry in entries:
        times = sorted({time_s for i in entry.flows for time_s in series.flows[i].lost_s})
        if times:
            found.append(Losses(f"lost-{entry.flows[0]}", entry.label, entry.look, times))
    return found


def _group_label(flow: FlowSeries, count: int) -> str:
    """As a flow's label, with the group only where a flow's needs it."""
    group = f" #{flow.group}" if "." in flow.number else ""
    return f"{flow.ca} {flow.host}→{flow.server}{group}, {counted(count, 'flow')}"


def _lines(
    quantity: TimeQuantity, series: Series, entries: Sequence[Entry], *, is_marked: bool
) -> tuple[list[Curve], list[Fan]]:
    """The lines of each entry of the legend: of one flow its own; of several also their median,
    and of many the band they lie in instead of them. Counts of several flows are added.

    With `is_marked` goodput has crosses. Where flows are many, the graph of retransmissions shows
    what crosses would only cover.
    """
    lines: list[Curve] = []
    fans: list[Fan] = []
    for entry in entries:
        of_flows = {i: quantities.flow_lines(quantity, series.flows[i]) for i in entry.flows}
        each = [line.points for found in of_flows.values() for line in found]
        first, is_alone = entry.flows[0], len(entry.flows) == 1
        if quantity is RETRANS and not is_alone:
            added = curves.counted(each, bin_s=_bin_s(series))
            label = f"retransmissions of {entry.label}"
            lines.append(Curve(f"count-{first}", label, entry.look, "steps", added))
            continue
        if len(entry.flows) <= MAX_LINES_WITH_NAMES:
            stroke: Stroke = "steps" if quantity is RETRANS else "line" if is_alone else "thin"
            for i, found in of_flows.items():
                for part, one in enumerate(found):
                    name, label = f"flow-{i}-{part}", series.flows[i].label
                    crosses: Points = (
                        one.retransmissions if quantity is RATE and is_marked else ((), ())
                    )
                    lines.append(Curve(name, label, entry.look, stroke, one.points, crosses))
        if is_alone:
            continue
        band = curves.band(each)
        if len(entry.flows) > MAX_LINES_WITH_NAMES:
            low, high = curves.BAND_PERCENT
            label = f"{low:.0f}th to {high:.0f}th percentile of {entry.label}"
            fans.append(Fan(f"band-{first}", label, entry.look, band))
        label = f"median of {entry.label}"
        median = (band.time_s, band.median)
        lines.append(Curve(f"median-{first}", label, entry.look, "median", median))
    return lines, fans


def _total(series: Series) -> Points:
    found = [line for flow in series.flows for line in quantities.flow_lines(RATE, flow)]
    return curves.total(line.points for line in found) if len(found) > 1 else ((), ())


def _look_of_host(series: Series, place: int, host: str, server: str = "") -> Look:
    """That of the first flows that the host starts, to `server` if given; of another host, the one
    at `place` after those of flows."""
    entries = legend(series)
    for entry in entries:
        flow = series.flows[entry.flows[0]]
        if flow.host == host and server in {"", flow.server}:
            return entry.look
    return looks.of_line(len(entries) + place)


def _pings(series: Series, _: Context) -> list[tuple[Entry, Curve]]:
    """One line for each group's pings; a pair of hosts is named once."""
    found = []
    places: dict[tuple[str, str], int] = {}
    for each in series.pings:
        ends = (each.host, each.server)
        is_new = ends not in places
        look = _look_of_host(series, places.setdefault(ends, len(places)), *ends)
        label = f"{each.host}→{each.server}"
        line = Curve(f"ping-{each.group}", label, look, "line", (each.time_s, each.rtt_ms))
        found.append((Entry(label if is_new else "", look), line))
    return found


def _processors(series: Series, context: Context) -> list[tuple[Entry, Curve]]:
    """Two lines for each host. Hosts on one machine have the same CPUs, shown by the host with the
    longest series."""
    found = []
    for place, each in enumerate(machines(series, context)):
        look = Look(_look_of_host(series, place, each.host).color)
        label = "this machine, all hosts of the lab" if context.one_machine else each.host
        mean = Curve(f"cpu-{place}", label, look, "line", (each.time_s, each.mean_percent))
        found.append((Entry(label, look), mean))
        if each.busiest_percent != each.mean_percent:
            dashed = Look(look.color, looks.DASHES[1])
            points = (each.time_s, each.busiest_percent)
            busiest = Curve(f"cpu-{place}-busiest", f"busiest of {label}", dashed, "line", points)
            found.append((Entry("", dashed), busiest))
    return found


def _cores(series: Series, context: Context) -> list[tuple[Entry, Curve]]:
    """A line for each core; the cores of a machine with one are in the other graph."""
    several = [each for each in machines(series, context) if len(each.cores) > 1]
    found: list[tuple[Entry, Curve]] = []
    for host in several:
        for each in host.cores:
            look = looks.of_line(len(found))
            label = f"{host.host} {each.core}" if len(several) > 1 else str(each.core)
            points = (host.time_s, each.busy_percent)
            found.append(
                (Entry(label, look), Curve(f"core-{len(found)}", label, look, "line", points))
            )
    return found


def machines(series: Series, context: Context) -> Sequence[CpuSeries]:
    """The hosts with CPUs of their own."""
    if context.simulated or not series.cpu:
        return []
    if context.one_machine:
        return [max(series.cpu, key=lambda each: len(each.time_s))]
    return series.cpu


def _queues(quantity: TimeQuantity, series: Series, _: Context) -> list[tuple[Entry, Curve]]:
    """One or two lines for each queue or host where something happened."""
    found: list[tuple[Entry, Curve]] = []
    places: dict[str, int] = {}
    for each in quantities.queue_lines(quantity, series):
        place = places.setdefault(each.label, len(places))
        if place >= MAX_LINES_WITH_NAMES:
            continue
        is_host = quantity.is_counted
        plain = _look_of_host(series, place, each.label) if is_host else looks.of_line(place)
        look = Look(plain.color, looks.DASHES[1]) if each.is_second else plain
        is_named = each.label not in {entry.label for entry, _ in found}
        name = f"{quantity.name}-{place}{'-second' if each.is_second else ''}"
        stroke: Stroke = "steps" if quantity is DROPS else "line"
        line = Curve(name, each.label, look, stroke, each.points)
        found.append((Entry(each.label if is_named else "", look), line))
    return found


# The graphs whose lines are not those of flows, beside those of counters.
_OF_HOSTS: Mapping[TimeQuantity, Callable[[Series, Context], list[tuple[Entry, Curve]]]] = {
    PING: _pings,
    CPU: _processors,
    CORES: _cores,
    BACKLOG: partial(_queues, BACKLOG),
    DROPS: partial(_queues, DROPS),
}


def _references(quantity: TimeQuantity, context: Context) -> Sequence[Reference]:
    if quantity in {RATE, ACKED_RATE}:
        return context.capacities
    return context.base_rtts if quantity in {RTT, MIN_RTT, PING} else ()


def _apart(references: Sequence[Reference], highest: float) -> list[Reference]:
    """The levels, in ascending order; those whose labels would overlap share one, at the lowest."""
    found: list[Reference] = []
    lowest = 0
    for each in references:
        height = LABEL_HEIGHT * max(highest, each.value)
        if found and each.value - found[lowest].value < height:
            below = found[lowest]
            found[lowest] = Reference(below.value, f"{below.label}, {each.label}")
            found.append(Reference(each.value, ""))
        else:
            lowest = len(found)
            found.append(each)
    return found


def _shades(series: Series) -> list[Shade]:
    """The background, darker where more flows ran; empty if all ran all the time, or too many came
    and went."""
    found = together.periods(series)
    most = max((len(each.flows) for each in found), default=0)
    if len(found) < 2 or len(found) > together.MAX_PERIODS or most < 2:
        return []
    return [
        Shade(each.start_s, each.end_s, (len(each.flows) - 1) / (most - 1))
        for each in found
        if len(each.flows) > 1
    ]


def _bin_s(series: Series) -> float:
    """The width of a bin: two hundred make a graph, and none is shorter than usual sampling."""
    end_s = max((flow.end_s or 0.0 for flow in series.flows), default=0.0)
    return max(0.2, math.ceil(end_s / 20) / 10)


def is_crowded(entries: Sequence[Entry]) -> bool:
    """True where a line is one of many of its group."""
    return sum(len(entry.flows) for entry in entries) > MAX_LINES_WITH_NAMES


# Where goodput is not what the receiver's socket got (results.series.RateSeries).
_OTHER_SOURCES: Mapping[str, str] = {
    "tool": "as reported by its tool, which may count data still in the sender's buffer",
    "bytes acked": "what was acknowledged to the sender",
}


def _names(labels: Sequence[str]) -> str:
    return ", ".join(labels[:3]) + (f" and {len(labels) - 3} more" if len(labels) > 3 else "")


def _caption(graph: Graph, series: Series, context: Context) -> Iterator[str]:
    """The caption of a graph, with the peculiarities of this experiment."""
    quantity = graph.quantity
    if quantity is RETRANS and is_crowded(legend(series)):
        yield f"Segments that each group retransmitted, in steps of {_bin_s(series):g} s."
    else:
        yield quantity.caption
        if graph.fans:
            low, high = curves.BAND_PERCENT
            yield (
                f"Lines are the median of each group; bands hold its flows from the {low:.0f}th to "
                f"the {high:.0f}th percentile."
            )
        elif any(line.stroke == "median" for line in graph.lines):
            yield "Thick lines are the median of each group, thin ones single flows."
    if quantity in {BACKLOG, DROPS} or quantity.is_counted:
        labels = {line.label for line in quantities.queue_lines(quantity, series)}
        if len(labels) > MAX_LINES_WITH_NAMES:
            yield f"The {MAX_LINES_WITH_NAMES} with most are shown."
    if quantity is CORES and any(each.cores_count > len(each.cores) for each in series.cpu):
        yield "Of more cores, those of `cores=` are shown, else the busiest."
    if quantity in {CPU, CORES} and context.one_machine:
        yield "The hosts of a lab share the CPUs of one machine."
    if quantity is RATE:
        yield from _of_rates(graph, series)
    if graph.references:
        what = "link rate, headers included" if quantity.unit == "Mbit/s" else "idle path's RTT"
        yield f"The dotted line is the {what}."
    if graph.losses:
        yield "Strokes on the time axis show when links lost frames with data of a flow."
    if graph.changes:
        which = "1" if len(graph.changes) == 1 else f"1 to {len(graph.changes)}"
        yield f"Upright lines show when settings were changed: {which} in the table of settings."


def _of_rates(graph: Graph, series: Series) -> Iterator[str]:
    for source, what in _OTHER_SOURCES.items():
        measured = [flow for flow in series.flows if flow.goodput.source == source]
        # A request with a reply is in no buffer; datagrams are counted by receivers.
        others = [
            each for each in measured if each.test not in REQUEST_TESTS and not each.datagrams
        ]
        if labels := [flow.label for flow in others]:
            yield f"{_names(labels)}: {what}."
    if graph.shades:
        yield "The background is darker where more flows ran."
    if graph.total[0]:
        silent = [
            flow.label
            for flow in series.flows
            if flow.status == OK and not quantities.flow_lines(RATE, flow)
        ]
        without = f", without {_names(silent)}: not known over time" if silent else ""
        yield f"The uncoloured line is their sum{without}."
    if graph.is_marked:
        yield "Crosses show when segments were retransmitted."
    highest = _highest([graph.total, *(line.points for line in graph.lines)])
    capacity = max((each.value for each in graph.references), default=math.inf)
    if highest > SUM_ABOVE_LINK * capacity:
        yield (
            "A rate above the link's is not an error: data that arrived behind a lost segment are "
            "delivered at once when it has been retransmitted."
        )


def _highest(lines: Sequence[Points]) -> float:
    return max((max(values) for _, values in lines if len(values)), default=0.0)
