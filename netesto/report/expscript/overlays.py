"""plotType=time: what happened during chosen experiments, laid over each other.

The lines come from series.json in the folder of each experiment.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from netesto.errors import ResultsError, ScriptError
from netesto.report.expscript import numerals, plotplan, samples, ticks
from netesto.report.expscript.dataset import EXP, View
from netesto.report.expscript.lines import items
from netesto.report.expscript.plot import Axis, Mark, Panel, Plot, Trace
from netesto.report.expscript.plotaxes import Request, line_positions
from netesto.report.expscript.ticks import Scale, Tick
from netesto.results import series
from netesto.results.series import FlowSeries, Series, SocketSeries

FILE = "series.json"


_Points: TypeAlias = tuple[tuple[float, float], ...]
MARKS_REMARK = "Crosses: retransmissions."


@dataclass(frozen=True, slots=True)
class _Line:
    """One line: its words for the legend, its group (0: of no group), its points.

    `marked`: places on the line where segments were retransmitted.
    """

    label: str
    group: int
    points: _Points
    marked: _Points = ()


@dataclass(frozen=True, slots=True)
class _Quantity:
    """What can be drawn over time: the title of its axis, and its lines in a series."""

    title: str
    lines: Callable[[Series], list[_Line]]


def _of_sockets(
    column: Callable[[SocketSeries], Sequence[float | None]], *, is_marked: bool = True
) -> Callable[[Series], list[_Line]]:
    def lines(one: Series) -> list[_Line]:
        found: list[_Line] = []
        for flow in _well(one):
            for socket in flow.sockets:
                points = _known(socket.time_s, column(socket))
                marked = _on(points, _sent_again([socket])) if is_marked else ()
                found.append(_Line(flow.label, flow.group, points, marked))
        return found

    return lines


def _goodput(one: Series) -> list[_Line]:
    found: list[_Line] = []
    for flow in _well(one):
        points = _known(flow.goodput.time_s, flow.goodput.mbit_per_s)
        marked = _on(points, _sent_again(flow.sockets))
        found.append(_Line(flow.label, flow.group, points, marked))
    return found


def _sent_again(sockets: Sequence[SocketSeries]) -> list[float]:
    """When segments were retransmitted, in seconds."""
    return [
        time
        for socket in sockets
        for time, count in zip(socket.time_s, socket.retransmits, strict=True)
        if count
    ]


def _on(points: _Points, times: Sequence[float]) -> _Points:
    """The places on a line at these times; none before its first point and behind its last."""
    if not points:
        return ()
    known_times, values = zip(*points, strict=True)
    inside = [time for time in times if known_times[0] <= time <= known_times[-1]]
    return tuple(zip(inside, np.interp(inside, known_times, values).tolist(), strict=True))


def _well(one: Series) -> list[FlowSeries]:
    """A flow that failed has no line."""
    return [flow for flow in one.flows if flow.status == "ok"]


def _known(times: Sequence[float], values: Sequence[float | None]) -> _Points:
    return tuple((t, value) for t, value in zip(times, values, strict=True) if value is not None)


QUANTITIES: Mapping[str, _Quantity] = {
    "rate": _Quantity("Goodput (Mbit/s)", _goodput),
    "acked_rate": _Quantity("Acknowledged (Mbit/s)", _of_sockets(lambda s: s.acked_mbit_per_s)),
    "cwnd": _Quantity("Congestion window (segments)", _of_sockets(lambda s: s.cwnd)),
    "unacked": _Quantity("In flight (segments)", _of_sockets(lambda s: s.unacked)),
    "rtt": _Quantity("Round-trip time (ms)", _of_sockets(lambda s: s.rtt_ms)),
    "minrtt": _Quantity(
        "Least round-trip time (ms)", _of_sockets(lambda s: s.min_rtt_ms, is_marked=False)
    ),
    "retrans": _Quantity(
        "Retransmitted (segments)", _of_sockets(lambda s: s.retransmits, is_marked=False)
    ),
    "ping": _Quantity(
        "Ping (ms)",
        lambda one: [
            _Line(f"{each.host}→{each.server}", each.group, _known(each.time_s, each.rtt_ms))
            for each in one.pings
        ],
    ),
    "cpu": _Quantity(
        "CPU (%)",
        lambda one: [
            _Line(each.host, 0, _known(each.time_s, each.mean_percent)) for each in one.cpu
        ],
    ),
}


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A line with the legend entry and the panel it belongs to."""

    label: str
    panel: str
    points: _Points
    marked: _Points


def plan(view: View, request: Request) -> Plot | None:
    """The plot of plotY1 over time for the selected rows; None if there is no line, which is told.

    A row N.0 brings all flows of experiment N, a row N.k those of its group k.
    """
    name = request.get("plotY1")
    if name not in QUANTITIES:
        raise ScriptError(
            f"plotY1: {name!r} is not known over time", remedy=f"one of {', '.join(QUANTITIES)}"
        )
    drawn = _lines(view, request, QUANTITIES[name])
    if not drawn:
        request.warn(
            f"doPlot: no {FILE} of the {len(view.rows)} selected rows has {name}; there is no plot"
        )
        return None
    times = [time for line in drawn for time, _ in line.points]
    values = [value for line in drawn for _, value in line.points]
    values += line_positions(request, "plotHLines")
    labels = tuple(dict.fromkeys(line.label for line in drawn))
    panels = tuple(
        Panel(title, tuple(_trace(line, labels) for line in drawn if line.panel == title))
        for title in dict.fromkeys(line.panel for line in drawn)
    )
    seconds = _seconds(times)
    least, most = request.number("Y1min"), request.number("Y1max")
    log = request.get("Y1LogScale")
    scale = ticks.scale(
        min(0.0, *values) if least is None and log != "On" else least or min(values),
        max(values) if most is None else most,
        log="On" if log == "On" else "Off",
    )
    return Plot(
        kind="time",
        titles=tuple(items(request.get("plotTitle") or QUANTITIES[name].title, "|")),
        x=Axis(request.get("plotXTitle") or "Seconds since the experiment began", seconds),
        left=Axis(request.get("plotY1Title") or QUANTITIES[name].title, scale),
        right=None,
        panels=panels,
        legend_title=request.get("plotSeriesTitle"),
        bar_width=0.0,
        style=plotplan.style(request),
        across=plotplan.reference_lines(request, "plotHLines", scale, numerals.drawable),
        upright=plotplan.reference_lines(request, "plotVLines", seconds, numerals.drawable),
        remarks=(MARKS_REMARK,) if any(line.marked for line in drawn) else (),
    )


def _seconds(times: Sequence[float]) -> Scale:
    high = max(*times, 1.0)
    round_scale = ticks.linear(0.0, high)
    inside = tuple(tick for tick in round_scale.ticks if tick.position <= high)
    return Scale(0.0, high * 1.01, (Tick(0.0, "0"), *inside))


def _trace(line: _Drawn, labels: Sequence[str]) -> Trace:
    marks = tuple(Mark(time, value) for time, value in line.points)
    return Trace(line.label, labels.index(line.label), marks, crosses=line.marked)


def _lines(view: View, request: Request, quantity: _Quantity) -> list[_Drawn]:
    """The lines of the selected rows; those with equal words are one entry of the legend."""
    data = view.data
    choice = samples.series_choice(request.get("plotSeries"), view, warn=request.warn)
    facet = request.get("plotFacet")
    if facet:
        view.column(facet, what="plotFacet")
    read: dict[Path, list[_Line]] = {}
    drawn: list[_Drawn] = []
    several = len({_folder(view, row) for row in view.rows.tolist()}) > 1
    for row in view.rows.tolist():
        folder = _folder(view, row)
        if folder is None:
            continue
        if folder not in read:
            read[folder] = _read(folder, quantity, request)
        group = _group(data.columns[EXP].texts[row])
        label = None
        if choice is not None:
            value = data.columns[choice.column].texts[row]
            label = choice.labels.get(value)
            if label is None:
                continue
        for line in read[folder]:
            if line.points and (not group or line.group in {0, group}):
                own = f"{folder.name}: {line.label}" if several else line.label
                panel = data.columns[facet].texts[row] if facet else ""
                drawn.append(
                    _Drawn(own if label is None else label, panel, line.points, line.marked)
                )
    return drawn


def _folder(view: View, row: int) -> Path | None:
    number = numerals.drawable(view.data.numbered.texts[row])
    if number is None:
        return None
    return view.data.folders[int(view.data.folder_of[row])] / str(int(number))


def _group(exp: str) -> int:
    """12.3 is group 3; 12.0, and what has no part behind the point, is the whole experiment."""
    part = exp.strip().partition(".")[2]
    return int(part) if part.isdecimal() else 0


def _read(folder: Path, quantity: _Quantity, request: Request) -> list[_Line]:
    try:
        return quantity.lines(series.read(folder / FILE))
    except ResultsError as error:
        request.warn(f"doPlot: {error.message}; experiment {folder.name} is left out")
        return []
