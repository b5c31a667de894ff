"""plotType=time: overlays time series of selected experiments.

The lines come from series.json in the folder of each experiment.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from netesto.errors import ResultsError, ScriptError
from netesto.report import quantities, ticks
from netesto.report.expscript import numerals, plotaxes, plotplan, samples
from netesto.report.expscript.dataset import EXP, View
from netesto.report.expscript.options import Options
from netesto.report.figures import Axis, LegendEntry, Plot
from netesto.report.quantities import QUANTITIES, FlowLine, TimeQuantity, of
from netesto.report.ticks import Scale, Tick
from netesto.results import series
from netesto.results.series import Series

FILE = "series.json"
CROSSES_REMARK = "Crosses: retransmissions."


def plan(view: View, request: Options) -> Plot | None:
    """The plot of plotY1 over time for the selected rows; None, with a warning, without a line.

    A row N.0 brings all flows of experiment N, a row N.k those of its group k.
    """
    name = request.get("plotY1")
    read = _read(view, request)
    known = {**QUANTITIES} | {key: each for one in read.values() for key, each in of(one).items()}
    if name not in known:
        raise ScriptError(
            f"plotY1: {name!r} is not known over time",
            remedy=f"It takes one of {', '.join(known)}.",
        )
    quantity = known[name]
    drawn = list(_lines(view, request, quantity, read))
    if not drawn:
        request.warn(
            f"doPlot: no {FILE} of the {len(view.rows)} selected rows has {name}; there is no plot"
        )
        return None
    values = [value for *_, line in drawn for value in line.points[1]]
    labels = list(dict.fromkeys(label for _, label, _ in drawn))
    panels: dict[str, list[LegendEntry]] = {}
    for panel, label, line in drawn:
        place = labels.index(label)
        trace = LegendEntry(label, place, points=line.points, crosses=line.retransmissions)
        panels.setdefault(panel, []).append(trace)
    seconds = _seconds([time for *_, line in drawn for time in line.points[0]])
    # A logarithmic axis has no 0.
    low = min(values) if request.get("Y1LogScale") == "On" else min(0.0, *values)
    scale = plotaxes.y_scale(request, "time", "Y1", low, max(values))
    plot = plotplan.with_axes(
        request,
        "time",
        quantity.axis,
        x=Axis(request.get("plotXTitle") or "Seconds since the experiment began", seconds),
        left=Axis(request.get("plotY1Title") or quantity.axis, scale),
        panels=panels,
    )
    is_marked = any(line.retransmissions[0] for *_, line in drawn)
    return replace(plot, remarks=(CROSSES_REMARK,)) if is_marked else plot


def _seconds(times: Sequence[float]) -> Scale:
    high = max(*times, 1.0)
    inside = tuple(tick for tick in ticks.linear(0.0, high).ticks if tick.position <= high)
    return Scale(0.0, high * 1.01, (Tick(0.0, "0"), *inside))


def _lines(
    view: View, request: Options, quantity: TimeQuantity, read: Mapping[Path, Series]
) -> Iterator[tuple[str, str, FlowLine]]:
    """The lines of the selected rows, each with its panel and its entry in the legend."""
    data = view.data
    choice = samples.series_choice(request.get("plotSeries"), view, warn=request.warn)
    facet = request.get("plotFacet")
    if facet:
        view.column(facet, what="plotFacet")
    folders = {row: folder for row in view.rows.tolist() if (folder := _folder(view, row))}
    lines = {
        folder: list(_of_series(read[folder], quantity)) if folder in read else []
        for folder in dict.fromkeys(folders.values())
    }
    # Experiments of joined files may have the same number.
    are_unique = len({folder.name for folder in lines}) == len(lines)
    for row, folder in folders.items():
        label = None if choice is None else choice.of(row)
        if choice is not None and label is None:
            continue
        group = _group(data.columns[EXP].texts[row])
        panel = data.columns[facet].texts[row] if facet else ""
        for own, groups, line in lines[folder]:
            if not group or not groups or group in groups:
                name = folder.name if are_unique else folder.as_posix()
                several = f"{name}: {own}" if len(lines) > 1 else own
                yield panel, several if label is None else label, line


def _folder(view: View, row: int) -> Path | None:
    number = numerals.drawable(view.data.numbered.texts[row])
    if number is None:
        return None
    return view.data.folders[int(view.data.folder_of[row])] / str(int(number))


def _group(exp: str) -> int:
    """12.3 is group 3; 12.0, or an id without a point, is the whole experiment: 0."""
    part = exp.strip().partition(".")[2]
    return int(part) if part.isdecimal() else 0


def _read(view: View, request: Options) -> dict[Path, Series]:
    """The series of the experiments of the selected rows, by their folders."""
    found: dict[Path, Series] = {}
    folders = (_folder(view, row) for row in view.rows.tolist())
    for folder in dict.fromkeys(each for each in folders if each is not None):
        try:
            found[folder] = series.read(folder / FILE)
        except ResultsError as error:
            request.warn(f"doPlot: {error.message}; experiment {folder.name} is left out")
    return found


def _of_series(
    one: Series, quantity: TimeQuantity
) -> Iterator[tuple[str, tuple[int, ...], FlowLine]]:
    for other in quantities.other_lines(quantity, one):
        if not other.is_second:
            yield other.label, other.groups, FlowLine(other.points)
    for flow in one.flows:
        for line in quantities.flow_lines(quantity, flow):
            yield flow.label, (flow.group,), line
