"""The graphs of an experiment, drawn as SVG files that any tool can show."""

import io
import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from netesto.report import palette
from netesto.report.context import Reference
from netesto.report.graphs import Entry, Fan, Kind, Marks, Picture, Trace
from netesto.report.palette import Look

# Inches; half of a page's text width on a desk, the whole of it on paper.
SIZE_IN = (7.4, 3.5)

STYLE = Path(__file__).with_name("templates") / "netesto.mplstyle"

# Of the figure: left, bottom, width, height of what is below the title.
PLACE = (0.075, 0.15, 0.91, 0.76)

# How many characters of the legend's font fit beside each other, what a handle takes of them, and
# the height of a row.
LEGEND_CHARACTERS = 104
LEGEND_HANDLE = 7
LEGEND_ROW_IN = 0.185
LEGEND_ROWS_MAX = 4

# Where the sum is so many times higher than any flow, both on one axis show nothing of the flows.
SUM_APART = 4.0

# Of the highest value, for what is written above it.
HEADROOM = 1.08

# Opacity of the ground where most flows run, and of a band.
SHADE_ALPHA, BAND_ALPHA = 0.05, 0.28

# Line width and opacity.
_STROKES: dict[Kind, tuple[float, float]] = {
    "line": (1.5, 1.0),
    "thin": (0.6, 0.3),
    "median": (1.8, 1.0),
    "steps": (1.5, 1.0),
    "sum": (1.5, 1.0),
}


def render(pictures: Iterable[Picture]) -> dict[str, str]:
    """The SVG of each picture, by the name of its graph. The same picture gives the same text."""
    with mpl.rc_context(fname=STYLE):
        return {picture.graph.name: _draw(picture) for picture in pictures}


def _draw(picture: Picture) -> str:
    highest = max(
        [max(trace.points[1], default=0.0) for trace in picture.traces]
        + [max(fan.band.high, default=0.0) for fan in picture.fans]
    )
    has_sum = bool(picture.total[0])
    is_apart = has_sum and max(picture.total[1]) > SUM_APART * max(highest, 1e-9)

    figure = Figure(figsize=SIZE_IN)
    FigureCanvasSVG(figure)
    handles = [_line_handle(entry) for entry in picture.entries]
    if has_sum:
        handles.append(_line_handle(Entry("sum", Look(palette.INK, ()), ())))
    if picture.marks:
        handles.append(_mark_handle())
    top, axes = _panels(figure, picture, handles, is_apart=is_apart)

    titles: dict[str, str] = {}
    for fan in picture.fans:
        _fill(axes, fan)
        titles[fan.name] = fan.label
    for trace in picture.traces:
        _line(axes, trace)
        titles[trace.name] = trace.label
    for marks in picture.marks:
        _crosses(axes, marks)
        titles[marks.name] = marks.label
    if has_sum:
        _line(top, Trace("sum", "sum", Look(palette.INK, ()), "sum", picture.total))
        titles["sum"] = "sum"
    for reference in picture.references:
        _reference(top, reference)
    for panel in {top, axes}:
        panel.set_xlim(0, max(picture.end_s, 1.0) * 1.01)
        panel.set_ylim(0, panel.dataLim.y1 * HEADROOM if panel.dataLim.y1 > 0 else 1)
        for shade in picture.shades:
            alpha = SHADE_ALPHA * shade.share
            panel.axvspan(shade.start_s, shade.end_s, color=palette.INK, alpha=alpha, linewidth=0)
    return _titled(_svg(figure), titles)


def _line(axes: Axes, trace: Trace) -> None:
    width, alpha = _STROKES[trace.kind]
    (line,) = axes.plot(
        *trace.points,
        color=trace.look.color,
        drawstyle="steps-pre" if trace.kind == "steps" else "default",
        marker="o" if len(trace.points[0]) == 1 else "",
        markersize=3,
        linewidth=width,
        alpha=alpha,
        zorder={"median": 4, "sum": 5}.get(trace.kind, 2),
    )
    line.set_gid(trace.name)
    _dash(line, trace.look)


def _fill(axes: Axes, fan: Fan) -> None:
    band = fan.band
    area = axes.fill_between(
        band.time_s, band.low, band.high, color=fan.look.color, alpha=BAND_ALPHA, linewidth=0
    )
    area.set_gid(fan.name)


def _crosses(axes: Axes, marks: Marks) -> None:
    (line,) = axes.plot(
        *marks.points,
        linestyle="none",
        marker="x",
        markersize=5.5,
        markeredgewidth=1.3,
        color=marks.look.color,
        clip_on=False,
        zorder=6,
    )
    line.set_gid(marks.name)


def _reference(axes: Axes, reference: Reference) -> None:
    """A dotted line, named at its right end."""
    axes.axhline(reference.value, color=palette.INK, linewidth=1.0, linestyle=(0, (1, 2)))
    axes.annotate(
        reference.label,
        (1.0, reference.value),
        xycoords=("axes fraction", "data"),
        xytext=(-2, 2),
        textcoords="offset points",
        ha="right",
        fontsize=8,
    )


def _titled(svg: str, titles: dict[str, str]) -> str:
    """`svg` where each line tells its flow to a pointer."""

    def named(match: re.Match[str]) -> str:
        title = titles.get(match[1])
        return match[0] if title is None else f"{match[0]}<title>{escape(title)}</title>"

    return re.sub(r'<g id="([^"]+)">', named, svg)


def _panels(
    figure: Figure, picture: Picture, handles: Sequence[Line2D], *, is_apart: bool
) -> tuple[Axes, Axes]:
    """The axes of the sum and those of the flows: the same, or the sum's above the flows'."""
    columns, shown = _arranged(handles)
    rows = -(-len(shown) // columns)
    left, bottom, width, full = PLACE
    height = full - rows * LEGEND_ROW_IN / SIZE_IN[1]
    graph = picture.graph
    if is_apart:
        axes = figure.add_axes((left, bottom, width, height * 0.5))
        top = figure.add_axes((left, bottom + height * 0.64, width, height * 0.36))
        top.tick_params(labelbottom=False)
        axes.set_title("Each flow", fontsize=9.5, fontweight="normal", y=1.0, pad=4)
    else:
        axes = top = figure.add_axes((left, bottom, width, height))
    axes.set_xlabel("seconds since the experiment began", labelpad=7)
    what = "Sum of the flows' goodput" if is_apart else graph.title
    top.set_title(f"{what}, {graph.unit}", y=1.0, pad=5 + rows * LEGEND_ROW_IN * 72)
    legend = top.legend(
        handles=shown,
        loc="lower left",
        bbox_to_anchor=(-0.008, 1.0),
        ncols=columns,
        borderaxespad=0.2,
        borderpad=0.2,
        labelspacing=0.25,
        columnspacing=1.4,
        handlelength=2.0,
        handletextpad=0.5,
    )
    legend.set_gid("legend")
    return top, axes


def _arranged(handles: Sequence[Line2D]) -> tuple[int, list[Line2D]]:
    """How many columns the legend has, and which of its entries there is room for."""
    lengths = [len(str(handle.get_label())) + LEGEND_HANDLE for handle in handles]
    if sum(lengths) <= LEGEND_CHARACTERS:
        return len(handles), list(handles)
    columns = max(1, min(len(handles), LEGEND_CHARACTERS // max(lengths)))
    room = columns * LEGEND_ROWS_MAX
    if len(handles) <= room:
        return columns, list(handles)
    rest = Line2D([], [], linestyle="none", label=f"and {len(handles) - room + 1} more")
    return columns, [*handles[: room - 1], rest]


def _line_handle(entry: Entry) -> Line2D:
    line = Line2D([], [], color=entry.look.color, linewidth=1.8, label=entry.label)
    _dash(line, entry.look)
    return line


def _mark_handle() -> Line2D:
    return Line2D([], [], linestyle="none", marker="x", color=palette.AXIS, label="retransmission")


def _dash(line: Line2D, look: Look) -> None:
    if look.dashes:
        line.set_dashes(look.dashes)


def _svg(figure: Figure) -> str:
    """The figure without what would differ from day to day."""
    text = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(text, format="svg", metadata=nothing)
    # Matplotlib lists every font it knows; the generic family is on every machine.
    return re.sub(r"font-family: [^;\"]*?sans-serif", "font-family: sans-serif", text.getvalue())
