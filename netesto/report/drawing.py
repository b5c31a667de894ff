"""Draws the graphs and charts of pages, as SVG."""

import math
import re
from collections.abc import Iterable, Sequence
from html import escape

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from netesto.report import artists, looks
from netesto.report.figures import Chart, Curve, Graph, Layer
from netesto.report.looks import Look

# ---- graphs of an experiment -------------------------------------------------------------

# Inches; half of a page's text width on a desk, the whole of it on paper.
SIZE_IN = (7.4, 3.5)

# Of the figure: left, bottom, width, height of what is below the title.
PLACE = (0.075, 0.15, 0.91, 0.76)

# How many characters of the legend's font fit beside each other, and the height of a row in inches.
LEGEND_CHARACTERS = 104
LEGEND_ROW_IN = 0.185
LEGEND_ROWS_MAX = 4

# If the sum is this many times higher than any flow, one axis for both shows nothing of the flows.
SUM_APART = 4.0

# The share of the highest value that is left for text above it.
HEADROOM = 1.08

# More changed settings than this have no numbers, which would overlap.
NUMBERED_MAX = 20

# Opacity of the ground where most flows run, and of a band.
SHADE_ALPHA, BAND_ALPHA = 0.05, 0.28


def _draw_graph(graph: Graph) -> str:
    figure = Figure(figsize=SIZE_IN)
    FigureCanvasSVG(figure)
    top, axes = _graph_axes(figure, graph)
    for fan in graph.fans:
        band = fan.band
        area = axes.fill_between(
            band.time_s, band.low, band.high, color=fan.look.color, alpha=BAND_ALPHA, linewidth=0
        )
        area.set_gid(fan.name)
    for line in graph.lines:
        artists.draw_line(axes, line)
    if graph.total[0]:
        artists.draw_line(top, Curve("sum", "sum", Look(looks.INK), "sum", graph.total))
    for reference in graph.references:
        artists.across(top, reference, artists.LIMIT)
    for each in graph.losses:
        artists.draw_losses(axes, each)
    for part in {top, axes}:
        part.set_xlim(0, max(graph.end_s, 1.0) * 1.01)
        part.set_ylim(0, part.dataLim.y1 * HEADROOM if part.dataLim.y1 > 0 else 1)
        for shade in graph.shades:
            alpha = SHADE_ALPHA * shade.share
            part.axvspan(shade.start_s, shade.end_s, color=looks.INK, alpha=alpha, linewidth=0)
        for number, change in enumerate(graph.changes, 1):
            artists.upright(part, change.value, _change(number, part is top))
            if part is top and len(graph.changes) <= NUMBERED_MAX:
                part.annotate(
                    str(number), (change.value, 1), (2, -1), fontsize=8, color=looks.INK,
                    xycoords=part.get_xaxis_transform(), textcoords="offset points", va="top",
                )  # fmt: skip
    return _with_tooltips(artists.save(figure, "svg").decode(), graph)


def _change(number: int, is_top: bool) -> str:
    """The id of the line of a changed setting."""
    return f"change-{number}" if is_top else f"change-{number}-below"


def _with_tooltips(svg: str, graph: Graph) -> str:
    """`svg` where each line names its flow to a pointer."""
    titles = {"sum": "sum"} | {fan.name: fan.label for fan in graph.fans}
    titles |= {line.name: line.label for line in graph.lines}
    titles |= {each.name: f"frames of {each.label} that a link lost" for each in graph.losses}
    for number, change in enumerate(graph.changes, 1):
        titles |= {_change(number, is_top): change.label for is_top in (True, False)}

    def titled(match: re.Match[str]) -> str:
        line = match[1].replace("marks", "flow")
        if line not in titles:
            return match[0]
        what = "retransmissions of " if line != match[1] else ""
        return f"{match[0]}<title>{what}{escape(titles[line])}</title>"

    return re.sub(r'<g id="([^"]+)">', titled, svg)


def _graph_axes(figure: Figure, graph: Graph) -> tuple[Axes, Axes]:
    """The axes of the sum and those of the flows: the same, or the sum's above the flows'."""
    handles = [artists.line_handle(entry.label, entry.look) for entry in graph.entries]
    if graph.total[0]:
        handles.append(artists.line_handle("sum", Look(looks.INK)))
    if graph.is_marked:
        handles.append(
            Line2D([], [], linestyle="none", marker="x", color=looks.AXIS, label="retransmission")
        )
    if graph.losses:
        handles.append(
            Line2D([], [], linestyle="none", marker="|", color=looks.AXIS, label="frame lost")
        )
    columns, shown = _arranged(handles)
    rows = -(-len(shown) // columns)
    left, bottom, width, full = PLACE
    height = full - rows * LEGEND_ROW_IN / SIZE_IN[1]
    highest = max(
        [max(line.points[1], default=0.0) for line in graph.lines]
        + [max(fan.band.high, default=0.0) for fan in graph.fans]
    )
    if graph.total[0] and max(graph.total[1]) > SUM_APART * max(highest, 1e-9):
        title = "Sum of the flows' goodput"
        axes = figure.add_axes((left, bottom, width, height * 0.5))
        top = figure.add_axes((left, bottom + height * 0.64, width, height * 0.36))
        top.tick_params(labelbottom=False)
        axes.set_title("Each flow", fontsize=9.5, fontweight="normal", y=1.0, pad=4)
    else:
        title = graph.quantity.title
        axes = top = figure.add_axes((left, bottom, width, height))
    axes.set_xlabel("seconds since the experiment began", labelpad=7)
    top.set_title(f"{title}, {graph.quantity.unit}", y=1.0, pad=5 + rows * LEGEND_ROW_IN * 72)
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
    """The number of columns of the legend, and the entries that fit."""
    lengths = [len(str(handle.get_label())) + artists.LEGEND_HANDLE for handle in handles]
    if sum(lengths) <= LEGEND_CHARACTERS:
        return len(handles), list(handles)
    columns = max(1, min(len(handles), LEGEND_CHARACTERS // max(lengths)))
    room = columns * LEGEND_ROWS_MAX
    if len(handles) <= room:
        return columns, list(handles)
    rest = Line2D([], [], linestyle="none", label=f"and {len(handles) - room + 1} more")
    return columns, [*handles[: room - 1], rest]


# ---- charts of single flows --------------------------------------------------------------

CHART_IN = (7.4, 4.0)


def draw(figures: Iterable[Graph | Chart]) -> list[str]:
    """The SVG of each figure. The same figure gives the same text."""
    with mpl.rc_context(fname=artists.STYLE):
        return [
            _draw_graph(each) if isinstance(each, Graph) else _draw_chart(each) for each in figures
        ]


def _draw_chart(chart: Chart) -> str:
    figure = Figure(figsize=CHART_IN, layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.add_subplot()
    for layer in chart.layers:
        _draw_layer(axes, layer)
    axes.set_title(chart.title)
    axes.set_xlabel(chart.x_title)
    axes.set_ylabel(chart.y_title)
    if chart.scale == "log":
        axes.set_xscale("log")
        axes.set_yscale("log")
        # A range of less than a decade has ticks, too.
        for axis, steps in ((axes.xaxis, (1, 2, 5)), (axes.yaxis, (1,))):
            axis.set_major_locator(LogLocator(subs=steps))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_formatter(NullFormatter())
        axes.set_ylim(top=chart.top)
        axes.legend(loc="lower left")
    else:
        axes.set_ylim(0, chart.top)
        axes.legend(loc="upper left", ncols=2)
    return artists.save(figure, "svg").decode()


def _draw_layer(axes: Axes, layer: Layer) -> None:
    x, y, color = layer.x, layer.y, layer.look.color
    match layer.kind:
        case "bars" | "crosses":
            # One line with gaps: an element for each bar would make the file ten times as long.
            across = [value for each in x for value in (each, each, math.nan)]
            upright = [
                value
                for low, high in zip(y, layer.high, strict=True)
                for value in (low, high, math.nan)
            ]
            (drawn,) = axes.plot(
                across, upright, color=color, linewidth=1.6, solid_capstyle="projecting"
            )
            if layer.kind == "crosses":
                drawn.set_zorder(5)
                axes.plot(x, y, linestyle="none", marker="x", markersize=6, color=color, zorder=6,
                          label=layer.label)  # fmt: skip
            else:
                drawn.set_label(layer.label)
        case "dots":
            axes.plot(
                x, y, linestyle="none", marker="o", markersize=2, color=color, label=layer.label
            )
        case _:
            (drawn,) = axes.plot(
                x, y, color=color, linewidth=1.0, label=layer.label,
                drawstyle="steps-post" if layer.kind == "steps" else "default",
            )  # fmt: skip
            artists.dash(drawn, layer.look)
