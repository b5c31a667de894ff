"""doPlot: from the selected rows and the remembered options to a plot with axes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from matplotlib import cbook

from netesto.errors import ScriptError
from netesto.report import ticks
from netesto.report.context import Reference
from netesto.report.expscript import estimates, numerals, samples
from netesto.report.expscript.dataset import (
    EXP,
    View,
    refuse_pools,
    warn_of_partial,
    without_invalidated,
)
from netesto.report.expscript.lines import items
from netesto.report.expscript.options import Options
from netesto.report.expscript.plotaxes import (
    AxisPlaces,
    Frame,
    Vertical,
    equal,
    left_values,
    vertical,
    x_places,
)
from netesto.report.expscript.samples import PlotColumns, PlotSample
from netesto.report.figures import (
    BARS,
    KINDS,
    Axis,
    Box,
    Kind,
    LegendEntry,
    Panel,
    Plot,
    Style,
    ValueMark,
)
from netesto.report.ticks import Scale, Tick
from netesto.units import counted

# The shares of the distance between neighbours on the X axis for a group of bars, and for a single
# bar.
GROUP_SHARE, BAR_SHARE = 0.8, 0.7
# Diamonds and short lines.
RIGHT_COLUMNS_MAX = 2
DEFAULT_SIZE_PX = (1800, 900)
DEFAULT_AXIS_IN = 6.5
BOX_REMARK = (
    "Boxes: quartiles and median; whiskers reach the last value within 1.5 times the distance of"
    " the quartiles, circles are beyond."
)


def plan(view: View, request: Options) -> Plot | None:
    """The plot; None, with a warning, if plotX or plotY1 is missing or no row can be drawn."""
    kind = next(kind for kind in KINDS if kind == request.chosen("plotType", *KINDS))
    wanted = _columns_of(view, request)
    if not wanted.lefts or (not wanted.x and kind not in {"cdf", "box"}):
        request.warn("doPlot: plotX and plotY1 must be given; there is no plot")
        return None
    if request.chosen("plotRepeats", "each", "mean", "median") != "each":
        keeps = request.chosen("Invalidated", "omit", "keep") == "keep"
        view = without_invalidated(view, "plotRepeats", keep=keeps, warn=request.warn)
    warn_of_partial(view, "doPlot", warn=request.warn)
    found = samples.collect(view, wanted, needs_x=bool(wanted.x) and kind != "cdf")
    if not any(sample.is_drawn for sample in found):
        request.warn(
            f"doPlot: none of {len(view.rows)} selected rows has numbers in "
            f"{', '.join((*wanted.lefts, *wanted.rights))}; there is no plot"
        )
        return None
    panels = samples.panels(found, are_pairs=wanted.facet == EXP and view.data.ids.mislead)
    frame = Frame(request, kind, wanted, found, wanted.labels, panels)
    make = {"cdf": _cdf, "box": _boxes}.get(kind, _over_x)
    return make(_with_repeats(frame, view))


def _columns_of(view: View, request: Options) -> PlotColumns:
    errors = tuple(items(request.get("Y1Error")))
    if len(errors) > 2:
        raise ScriptError(
            f"Y1Error names {len(errors)} columns",
            remedy="Y1Error=rate.ci95 is half of each bar; Y1Error=low,high are its two ends.",
        )
    return PlotColumns(
        x=request.get("plotX"),
        lefts=_names("plotY1", request, view),
        rights=_rights(request, view),
        series=samples.series_choice(request.get("plotSeries"), view, warn=request.warn),
        facet=request.get("plotFacet"),
        errors=errors,
        has_pairs=request.get("plotX") == EXP and view.data.ids.mislead,
        titles={name: view.data.titled(name) for name in view.data.names},
    )


def _names(key: str, request: Options, view: View) -> tuple[str, ...]:
    """The columns of an option. One whose name holds a comma is found before the list is split."""
    written = request.get(key)
    return (written,) if written in view.data.columns else tuple(items(written))


def _rights(request: Options, view: View) -> tuple[str, ...]:
    names = _names("plotY2", request, view)
    if len(names) > RIGHT_COLUMNS_MAX:
        more = ", ".join(names[RIGHT_COLUMNS_MAX:])
        request.warn(f"plotY2: the first is drawn as diamonds, the second as lines; not {more}")
    return names[:RIGHT_COLUMNS_MAX]


def _with_repeats(frame: Frame, view: View) -> Frame:
    how = frame.request.chosen("plotRepeats", "each", "mean", "median")
    if frame.kind in {"cdf", "box"}:
        return frame
    if how != "each":
        drawn = [sample for sample in frame.samples if sample.is_drawn]
        pools = ([one.row for one in members] for members in samples.repeats(drawn))
        except_ = items(frame.request.get("Repeats"))
        refuse_pools(view.data, pools, "plotRepeats", except_)
        return replace(frame, samples=samples.merged(frame.samples, how))
    if frame.kind in BARS and (hidden := samples.overlapping(frame.samples)):
        frame.request.warn(
            f"doPlot: {counted(hidden, 'bar')} overlap{'' if hidden > 1 else 's'} another of the "
            "same series and X; select fewer rows, use Average, or plotRepeats=mean"
        )
    return frame


# ---- bars, lines, scatter, stacked -------------------------------------------------------


def _over_x(frame: Frame) -> Plot:
    places = x_places(frame)
    left = vertical(frame, "Y1", left_values(frame), frame.columns.lefts)
    right = None
    if frame.columns.rights:
        values = [value for sample in frame.samples for value in sample.right]
        right = vertical(frame, "Y2", values, frame.columns.rights)
        if frame.request.get("Y1eqY2") == "on":
            left, right = equal(frame, left, right)

    def traces(title: str) -> Sequence[LegendEntry]:
        found = [
            _trace(frame, title, number, places=places, left=left, right=right)
            for number in range(len(frame.labels))
        ]
        return _stacked(found) if frame.kind == "stacked" else found

    title = frame.request.get("plotXTitle") or frame.columns.titles.get(
        frame.columns.x, frame.columns.x
    )
    plot = replace(
        _plot(frame, Axis(title, places.scale), left.axis, traces, places.find),
        right=right.axis if right else None,
        right_names=_right_names(frame),
        bar_width=BAR_SHARE * places.spacing / (len(frame.labels) if frame.kind == "bars" else 1),
    )
    return replace(plot, remarks=_remarks(frame, plot))


def _plot(
    frame: Frame,
    x: Axis,
    left: Axis,
    traces: Callable[[str], Sequence[LegendEntry]],
    find_x: Callable[[str], float | None] = numerals.drawable,
) -> Plot:
    """The common part of all plots except those over time; `traces` are those of a panel."""
    title = f"Plot of {' and '.join((*frame.columns.lefts, *frame.columns.rights))}"
    panels = {value: traces(value) for value in frame.panels}
    return with_axes(frame.request, frame.kind, title, x=x, left=left, panels=panels, find_x=find_x)


def with_axes(
    request: Options,
    kind: Kind,
    title: str,
    *,
    x: Axis,
    left: Axis,
    panels: Mapping[str, Sequence[LegendEntry]],
    find_x: Callable[[str], float | None] = numerals.drawable,
) -> Plot:
    """The common part of all plots. `title` is that of a plot without plotTitle, `panels` are
    traces by value of plotFacet, and `find_x` gives the place of a text on the X axis."""
    return Plot(
        kind=kind,
        # The main title, then sub-titles.
        titles=tuple(items(request.get("plotTitle") or title, "|")),
        x=x,
        left=left,
        panels=tuple(
            Panel(samples.panel_title(request.get("plotFacet"), value), tuple(traces))
            for value, traces in panels.items()
        ),
        legend_title=request.get("plotSeriesTitle"),
        style=_style(request),
        across=_reference_lines(request, "plotHLines", left.scale, numerals.drawable),
        upright=_reference_lines(request, "plotVLines", x.scale, find_x),
    )


def _trace(
    frame: Frame,
    panel: str,
    number: int,
    *,
    places: AxisPlaces,
    left: Vertical,
    right: Vertical | None,
) -> LegendEntry:
    label = frame.labels[number]
    offset = places.spacing * _offset(frame, number) if frame.kind == "bars" else 0.0
    marks = [
        ValueMark(
            x=places.of(sample.x) + offset,
            y=sample.y / left.divisor,
            low=None if sample.low is None else sample.low / left.divisor,
            high=None if sample.high is None else sample.high / left.divisor,
            right=tuple(value / right.divisor for value in sample.right) if right else (),
            note=_note(frame, panel, number, sample),
        )
        for sample in frame.of(panel, label)
    ]
    if frame.kind == "line":
        marks.sort(key=lambda mark: mark.x)
    return LegendEntry(label, number, tuple(marks))


def _note(frame: Frame, panel: str, number: int, sample: PlotSample) -> str:
    """The text on a bar: PlotRatio is Y2/Y1, PlotPercent the change from the first series."""
    switched_on = {"Horizontal", "Vertical"}
    if frame.request.get("PlotRatio") in switched_on:
        return f"{sample.right[0] / sample.y:.2f}" if sample.right and sample.y else ""
    if frame.request.get("PlotPercent") not in switched_on or number == 0:
        return ""
    first = [one.y for one in frame.of(panel, frame.labels[0]) if one.x == sample.x]
    return f"{(sample.y - first[0]) / first[0] * 100:+.1f}%" if first and first[0] else ""


def _stacked(traces: Sequence[LegendEntry]) -> list[LegendEntry]:
    """Each bar begins where the one below ends; negative ones hang down from 0."""
    tops: dict[tuple[float, bool], float] = {}
    stacked = []
    for trace in traces:
        marks = []
        for mark in trace.marks:
            key = (mark.x, mark.y >= 0)
            base = tops.get(key, 0.0)
            tops[key] = base + mark.y
            marks.append(replace(mark, base=base, low=None, high=None))
        stacked.append(replace(trace, marks=tuple(marks)))
    return stacked


# ---- distributions -----------------------------------------------------------------------


def _cdf(frame: Frame) -> Plot:
    """The share of rows at or below each value of Y1, one curve a series."""
    left = vertical(frame, "Y1", [sample.y for sample in frame.samples], frame.columns.lefts)
    scale = left.axis.scale
    bottom = Tick(scale.low, ticks.label(scale.low, scale.ticks[0].position - scale.low))
    scale = replace(scale, ticks=(bottom, *scale.ticks))
    shares = Scale(0.0, 1.0, tuple(Tick(part / 5, f"{part / 5:g}") for part in range(6)))

    def traces(title: str) -> Sequence[LegendEntry]:
        found = []
        for number, label in enumerate(frame.labels):
            values = sorted(sample.y / left.divisor for sample in frame.of(title, label))
            parts = (ValueMark(value, (i + 1) / len(values)) for i, value in enumerate(values))
            found.append(LegendEntry(label, number, tuple(parts)))
        return found

    y = Axis("share of rows at or below", shares)
    return _plot(frame, Axis(left.axis.title, scale), y, traces)


def _boxes(frame: Frame) -> Plot:
    """One box for each X and series."""
    found = frame.samples
    if not frame.columns.x:
        found = [replace(sample, x="all rows") for sample in found]
    uniform = Options({**frame.request.values, "xUniform": "on"}, frame.request.warn)
    frame = replace(frame, samples=found, request=uniform)
    places = x_places(frame)
    left = vertical(frame, "Y1", [sample.y for sample in frame.samples], frame.columns.lefts)

    def traces(title: str) -> Sequence[LegendEntry]:
        return [
            LegendEntry(label, number, boxes=_boxes_of(
                frame.of(title, label), places, _offset(frame, number), left.divisor))
            for number, label in enumerate(frame.labels)
        ]  # fmt: skip

    name = frame.columns.titles.get(frame.columns.x, frame.columns.x)
    x = Axis(frame.request.get("plotXTitle") or name, places.scale)
    return replace(
        _plot(frame, x, left.axis, traces, places.find),
        bar_width=BAR_SHARE / len(frame.labels),
        remarks=(BOX_REMARK,),
    )


def _offset(frame: Frame, number: int) -> float:
    """Of a series from the middle of its group, in distances of neighbours on the X axis."""
    return GROUP_SHARE / len(frame.labels) * (number - (len(frame.labels) - 1) / 2)


def _boxes_of(
    found: Sequence[PlotSample], places: AxisPlaces, offset: float, divisor: float
) -> tuple[Box, ...]:
    by_x: dict[str, list[float]] = {}
    for sample in found:
        by_x.setdefault(sample.x, []).append(sample.y / divisor)
    stats = cbook.boxplot_stats([*by_x.values()]) if by_x else []
    return tuple(Box(places.of(x) + offset, one) for x, one in zip(by_x, stats, strict=True))


# ---- what all kinds have -----------------------------------------------------------------


def _right_names(frame: Frame) -> tuple[str, ...]:
    """The legend's texts for diamonds and for short lines; a title for both is used for neither."""
    names = frame.columns.rights
    given = frame.request.get("plotY2Title")
    return (given,) if given and len(names) == 1 else names


def _reference_lines(
    request: Options, key: str, scale: Scale, place: Callable[[str], float | None]
) -> tuple[Reference, ...]:
    """`50=fair share,100`; what is outside the axis is ignored with a warning."""
    lines: list[Reference] = []
    for item in items(request.get(key)):
        written, _, text = item.partition("=")
        position = place(written.strip())
        if position is None or not scale.low <= position <= scale.high:
            request.warn(f"{key}: {written.strip()!r} is outside the axis and is ignored")
        else:
            lines.append(Reference(position, text.strip()))
    return tuple(lines)


def _style(request: Options) -> Style:
    """The appearance of a plot of any kind. ScriptError for a size that cannot be drawn."""
    sizes = (request.number(key) for key in ("plotXSize", "plotYSize", "plotXLen"))
    width, height, axis = (
        default if given is None else given
        for given, default in zip(sizes, (*DEFAULT_SIZE_PX, DEFAULT_AXIS_IN), strict=True)
    )
    if min(width, height, axis) <= 0 or max(width, height) > 20000 or axis > 100:
        raise ScriptError(
            f"a plot of {width:g} by {height:g} pixels, {axis:g} inches wide, cannot be drawn",
            remedy="The defaults are plotSize=1800,900 and plotXLen=6.5.",
        )
    palette = request.chosen("plotPalette", "safe", "classic", "grey")
    background = request.number("BkgLevel")
    if background is None and palette == "classic":
        background = 0.8
    return Style(
        width_px=round(width),
        height_px=round(height),
        axis_in=axis,
        palette=palette,
        legend=request.chosen("plotLegend", "right", "above", "below", "none"),
        background=None if background is None else min(1.0, max(0.0, background)),
        vertical_notes="Vertical" in {request.get("PlotPercent"), request.get("PlotRatio")},
    )


def _remarks(frame: Frame, plot: Plot) -> tuple[str, ...]:
    remarks: list[str] = []
    low = plot.left.scale.low
    if plot.kind == "bars" and low > 0:
        start = f"{low:.10g}"
        remarks.append(f"Bars begin at {start}, not at 0; Y1min=0 makes their lengths comparable.")
    how = frame.request.chosen("plotRepeats", "each", "mean", "median")
    if how != "each":
        remarks.append(_of_repeats(how, frame))
    elif frame.columns.errors:
        remarks.append(f"Error bars: {' to '.join(frame.columns.errors)}.")
    return tuple(remarks)


def _of_repeats(how: str, frame: Frame) -> str:
    """The meaning of points and bars of repeats, and why some have no bar."""
    drawn = [sample for sample in frame.samples if sample.is_drawn]
    without = sum(sample.low is None for sample in drawn)
    method, needed = (
        ("Student's t: of values that are normally distributed", 2)
        if how == "mean"
        else ("of order statistics", estimates.values_needed(50))
    )
    text = f"Repeats are shown as their {how}"
    if frame.kind == "stacked":
        return f"{text}."
    if without < len(drawn):
        text += f" with its 95 % interval ({method})"
    same = sum(sample.low == sample.high == sample.y for sample in drawn)
    if same:
        text += f"; the runs of {same} of {len(drawn)} do not differ, so their interval is 0"
    if without:
        text += f"; {without} of {len(drawn)} have fewer than {needed} runs, and no interval"
    return f"{text}."
