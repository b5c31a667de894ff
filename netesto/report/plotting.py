"""Draws plots as SVG, PDF and PNG files.

Every plot can be read in black and white: bars have hatches, lines have dashes and markers.
"""

import math
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter

from netesto.report import artists, looks
from netesto.report.figures import BARS, Curve, LegendEntry, Panel, Plot, Stroke, Style
from netesto.report.looks import Look
from netesto.report.ticks import Scale

FORMATS = ("svg", "pdf", "png")

# Of a narrow legend.
_WRAPPER = textwrap.TextWrapper(18, break_long_words=False, break_on_hyphens=False)

# ---- the figure --------------------------------------------------------------------------

# Inches: beside the axes for the labels of both of them, and for a legend at the right.
LABELS_IN, LEGEND_IN = 1.3, 1.2
TITLE_IN, SUBTITLE_IN, TITLE_PAD_IN = 0.25, 0.19, 0.08
# Inches that a character of a tick label takes; labels that need more than there is are turned.
CHARACTER_IN = 0.075
# Inches of the axis that a label takes when it is turned, and when it is upright.
TURNED_LABEL_IN, UPRIGHT_LABEL_IN = 0.3, 0.15
PANELS_ABREAST = 3
# A line of more points is drawn without markers.
MARKED_POINTS = 40
# More lines over time are paler.
MANY_LINES = 12


def draw_svg(plot: Plot) -> str:
    """The plot as SVG."""
    return draw_plot(plot, ("svg",))["svg"].decode()


def draw_plot(plot: Plot, formats: Sequence[str]) -> dict[str, bytes]:
    """The plot in each of the formats; the same plot gives the same bytes."""
    with _plot_style(plot.style):
        figure = _figure(plot)
        dpi = plot.style.width_px / figure.get_size_inches()[0]
        return {form: artists.save(figure, form, dpi) for form in formats}


@contextmanager
def _plot_style(style: Style) -> Iterator[None]:
    """matplotlib's settings for one plot; they are put back."""
    with mpl.rc_context(fname=artists.STYLE), warnings.catch_warnings():
        # A label too long for its space, a letter missing in the font: the plot is drawn anyway.
        warnings.simplefilter("ignore", UserWarning)
        # Fonts as TrueType outlines, as printers and publishers require.
        mpl.rcParams["pdf.fonttype"] = 42
        mpl.rcParams["hatch.color"] = looks.PAPER
        mpl.rcParams["hatch.linewidth"] = 0.9
        mpl.rcParams["axes.titlelocation"] = "center"
        mpl.rcParams["grid.linestyle"] = (0, (1, 2))
        mpl.rcParams["grid.linewidth"] = 0.8
        mpl.rcParams["grid.color"] = looks.AXIS
        mpl.rcParams["grid.alpha"] = 0.6
        if style.background is not None:
            mpl.rcParams["axes.facecolor"] = (style.background,) * 3
        yield


def _figure(plot: Plot) -> Figure:
    style = plot.style
    handles = _handles(plot)
    abreast = min(len(plot.panels), PANELS_ABREAST)
    down = -(-len(plot.panels) // abreast)
    width = style.axis_in + LABELS_IN + (LEGEND_IN if handles and style.legend == "right" else 0.0)
    height = width * style.height_px / style.width_px * (1.0 if down == 1 else 0.62 * down)
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasSVG(figure)
    top = _write_titles(figure, plot.titles, height)
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.set(rect=(0, 0, 1, 1 - top / height))  # type: ignore[call-arg]  # its own option
    grid = figure.subplots(down, abreast, squeeze=False, sharex=True, sharey=True)
    spaces = [axes for row in grid for axes in row]
    for axes, panel in zip(spaces, plot.panels, strict=False):
        _draw_panel(axes, panel, plot, style.axis_in / abreast)
    for axes in spaces[len(plot.panels) :]:
        axes.remove()
    _title_axes(figure, spaces[: len(plot.panels)], plot, abreast)
    if handles and style.legend != "none":
        _place_legend(figure, handles, plot)
    return figure


def _write_titles(figure: Figure, titles: Sequence[str], height: float) -> float:
    """The main title bold, sub-titles smaller and grey below; returns the inches they take."""
    top = TITLE_PAD_IN
    for number, title in enumerate(titles):
        figure.text(
            0.5,
            1 - top / height,
            title,
            ha="center",
            va="top",
            fontsize=12 if number == 0 else 9.5,
            fontweight="bold" if number == 0 else "normal",
            color=looks.INK,
            alpha=1.0 if number == 0 else 0.72,
        )
        top += TITLE_IN if number == 0 else SUBTITLE_IN
    return top


def _title_axes(figure: Figure, spaces: Sequence[Axes], plot: Plot, abreast: int) -> None:
    """Titles at the outer axes only; of panels, each below and left of the outermost ones."""
    if len(spaces) == 1:
        spaces[0].set_xlabel(plot.x.title, fontweight="bold")
        spaces[0].set_ylabel(plot.left.title, fontweight="bold")
        return
    figure.supxlabel(plot.x.title, fontweight="bold", fontsize=9.5)
    figure.supylabel(plot.left.title, fontweight="bold", fontsize=9.5)
    for number, axes in enumerate(spaces):
        # sharex hides the labels of a panel that has an empty place below it.
        axes.tick_params(labelbottom=number + abreast >= len(spaces))


def _draw_panel(axes: Axes, panel: Panel, plot: Plot, width_in: float) -> None:
    if panel.title:
        axes.set_title(panel.title, fontsize=9.5)
    _scale_x(axes, plot, width_in)
    _scale_y(axes, plot.left.scale)
    right = _right_axes(axes, plot)
    for trace in panel.traces:
        look = looks.of_series(trace.place, plot.style.palette)
        _DRAW[plot.kind](axes, trace, look, plot)
        _error_bars(axes, trace, look, plot)
        _notes(axes, trace, plot)
        if right is not None:
            _right_marks(right, trace, plot)
    _reference_lines(axes, plot)


def _scale_x(axes: Axes, plot: Plot, width_in: float) -> None:
    scale = plot.x.scale
    if scale.is_log:
        axes.set_xscale("log")
        _unlabel_minor(axes.xaxis)
    axes.set_xlim(scale.low, scale.high)
    # Where even upright labels would touch, only some ticks have one.
    stride = max(1, math.ceil(len(scale.ticks) * UPRIGHT_LABEL_IN / width_in))
    shown = scale.ticks[::stride]
    labels = [tick.label for tick in shown]
    turned = sum(len(label) + 2 for label in labels) * CHARACTER_IN > width_in
    angle = 90 if len(labels) * TURNED_LABEL_IN > width_in else 35
    axes.xaxis.set_major_locator(FixedLocator([tick.position for tick in shown]))
    axes.set_xticklabels(
        labels, rotation=angle if turned else 0, ha="right" if turned else "center",
        va="center" if turned and angle == 90 else "top",
        rotation_mode="anchor" if turned else "default",
    )  # fmt: skip
    if plot.kind in BARS or plot.kind == "box":
        axes.grid(visible=False, axis="x")


def _unlabel_minor(axis: Axis) -> None:
    """Minor ticks of a logarithmic axis, without labels."""
    axis.set_minor_locator(LogLocator(subs=range(2, 10)))
    axis.set_minor_formatter(NullFormatter())


def _scale_y(axes: Axes, scale: Scale) -> None:
    if scale.is_log:
        axes.set_yscale("log")
        _unlabel_minor(axes.yaxis)
    axes.set_ylim(scale.low, scale.high)
    axes.yaxis.set_major_locator(FixedLocator([tick.position for tick in scale.ticks]))
    axes.set_yticklabels([tick.label for tick in scale.ticks])


def _right_axes(axes: Axes, plot: Plot) -> Axes | None:
    if plot.right is None:
        return None
    right = axes.twinx()
    _scale_y(right, plot.right.scale)
    right.grid(visible=False)
    right.spines["right"].set_visible(True)
    right.set_ylabel(plot.right.title, fontweight="bold")
    return right


# ---- what is on it -----------------------------------------------------------------------


def _draw_bars(axes: Axes, trace: LegendEntry, look: Look, plot: Plot) -> None:
    scale = plot.left.scale
    foot = scale.low if scale.is_log or scale.low > 0 else min(0.0, scale.high)
    axes.bar(
        [mark.x for mark in trace.marks],
        [mark.y - foot if mark.base is None else mark.y for mark in trace.marks],
        plot.bar_width,
        bottom=[foot if mark.base is None else mark.base for mark in trace.marks],
        color=look.color,
        hatch=look.hatch,
        linewidth=0,
        zorder=2,
    )


def _draw_points(axes: Axes, trace: LegendEntry, look: Look, plot: Plot) -> None:
    """Of a line with markers, of a scatter plot, of a cumulative distribution."""
    marks = trace.marks
    if plot.kind == "cdf":
        steps = [(mark.x, mark.y) for mark in marks]
        (line,) = axes.plot(
            *zip((steps[0][0], 0.0), *steps, strict=True) if steps else ([], []),
            drawstyle="steps-post", color=look.color, linewidth=1.6,
        )  # fmt: skip
    elif plot.kind == "scatter":
        (line,) = axes.plot(
            [mark.x for mark in marks], [mark.y for mark in marks], linestyle="none",
            color=look.color, marker=look.marker, markersize=5, alpha=0.8,
            markeredgecolor=looks.PAPER, markeredgewidth=0.5,
        )  # fmt: skip
        return
    else:
        (line,) = axes.plot(
            [mark.x for mark in marks], [mark.y for mark in marks], color=look.color,
            marker=look.marker if len(marks) <= MARKED_POINTS else "", markersize=5, linewidth=1.5,
        )  # fmt: skip
    artists.dash(line, look)


def _draw_time(axes: Axes, trace: LegendEntry, look: Look, plot: Plot) -> None:
    many = sum(len(panel.traces) for panel in plot.panels) > MANY_LINES
    stroke: Stroke = "pale" if many else "line"
    artists.draw_line(axes, Curve("", trace.label, look, stroke, trace.points, trace.crosses))


def _draw_boxes(axes: Axes, trace: LegendEntry, look: Look, plot: Plot) -> None:
    edge = {"color": looks.INK, "linewidth": 0.8}
    axes.bxp(
        [box.stats for box in trace.boxes],
        positions=[box.x for box in trace.boxes],
        widths=plot.bar_width,
        patch_artist=True,
        manage_ticks=False,
        boxprops={"facecolor": look.color, "hatch": look.hatch, "edgecolor": looks.INK,
                  "linewidth": 0.8},
        medianprops={"color": looks.INK, "linewidth": 2.2},
        whiskerprops=edge,
        capprops=edge,
        flierprops={"marker": "o", "markersize": 3.5, "markeredgecolor": looks.INK,
                    "markerfacecolor": "none"},
    )  # fmt: skip


_DRAW: Mapping[str, Callable[[Axes, LegendEntry, Look, Plot], None]] = {
    "bars": _draw_bars,
    "stacked": _draw_bars,
    "line": _draw_points,
    "scatter": _draw_points,
    "cdf": _draw_points,
    "time": _draw_time,
    "box": _draw_boxes,
}


def _error_bars(axes: Axes, trace: LegendEntry, look: Look, plot: Plot) -> None:
    """On bars they are dark; beside lines they have the line's colour, to show which line they
    belong to."""
    ends = [
        (mark.x, mark.y, max(0.0, mark.y - mark.low), max(0.0, mark.high - mark.y))
        for mark in trace.marks
        if mark.low is not None and mark.high is not None
    ]
    if ends:
        places, values, below, above = (list(column) for column in zip(*ends, strict=True))
        axes.errorbar(
            places, values, yerr=[below, above], fmt="none", elinewidth=1.1, capsize=3, zorder=4,
            ecolor=looks.INK if plot.kind in BARS else look.color,
        )  # fmt: skip


def _notes(axes: Axes, trace: LegendEntry, plot: Plot) -> None:
    for mark in trace.marks:
        if mark.note:
            axes.annotate(
                mark.note, (mark.x, mark.y), (0, -3), textcoords="offset points", ha="center",
                va="top", fontsize=7.5, rotation=90 if plot.style.vertical_notes else 0,
                color=looks.BLACK, zorder=6,
                bbox={"facecolor": looks.PAPER, "edgecolor": "none", "alpha": 0.85, "pad": 1.0},
            )  # fmt: skip


def _right_marks(axes: Axes, trace: LegendEntry, plot: Plot) -> None:
    """Diamonds for the first column of the right axis, short white bars for the second."""
    assert plot.right is not None
    scale = plot.right.scale
    # Not clipped, or a diamond at the end of the axis would lose its half.
    marked = [mark for mark in trace.marks if mark.right]
    marked = [mark for mark in marked if scale.low <= mark.right[0] <= scale.high]
    if not marked:
        return
    axes.plot(
        [mark.x for mark in marked], [mark.right[0] for mark in marked], linestyle="none",
        marker="D", markersize=6.5, markerfacecolor=looks.RIGHT_COLORS[plot.style.palette],
        markeredgecolor=looks.BLACK, markeredgewidth=0.8, zorder=5, clip_on=False,
    )  # fmt: skip
    second = [mark for mark in marked if len(mark.right) > 1]
    half = plot.bar_width / 2
    for width, color in ((3.4, looks.BLACK), (1.8, looks.PAPER)):
        axes.hlines(
            [mark.right[1] for mark in second], [mark.x - half for mark in second],
            [mark.x + half for mark in second], colors=color, linewidths=width, zorder=5,
        )  # fmt: skip


def _reference_lines(axes: Axes, plot: Plot) -> None:
    for line in plot.across:
        artists.across(axes, line, artists.LEVEL)
    for line in plot.upright:
        axes.axvline(line.value, **artists.LEVEL)  # type: ignore[arg-type]  # a table of options
        axes.annotate(
            line.label, (line.value, 1), (3, -4), xycoords=axes.get_xaxis_transform(),
            textcoords="offset points", ha="left", va="top", rotation=90, fontsize=8,
            color=looks.INK,
        )  # fmt: skip


# ---- the legend --------------------------------------------------------------------------


def _handles(plot: Plot) -> list[Artist]:
    """An entry for each series if there are several, and for the values of the right axis."""
    entries = [entry for entry in plot.labels if entry[0]]
    handles: list[Artist] = []
    if len(entries) > 1 or (entries and plot.kind == "time"):
        handles += [
            _handle(label, looks.of_series(place, plot.style.palette), plot)
            for label, place in entries
        ]
    for number, name in enumerate(plot.right_names):
        handles.append(_right_handle(name, number, plot.style))
    return handles


def _handle(label: str, look: Look, plot: Plot) -> Artist:
    if plot.kind in BARS or plot.kind == "box":
        return Patch(facecolor=look.color, hatch=look.hatch, linewidth=0, label=label)
    if plot.kind == "scatter":
        return Line2D([], [], linestyle="none", marker=look.marker, color=look.color, label=label)
    return artists.line_handle(label, look, look.marker if plot.kind == "line" else "")


def _right_handle(name: str, number: int, style: Style) -> Artist:
    marker, size = ("D", 6.5) if number == 0 else ("_", 11.0)
    color = looks.RIGHT_COLORS[style.palette] if number == 0 else looks.INK
    return Line2D(
        [], [], linestyle="none", marker=marker, markersize=size, markerfacecolor=color,
        markeredgecolor=looks.INK, label=_WRAPPER.fill(name),
    )  # fmt: skip


_LEGEND_PLACES: Mapping[
    str, Literal["outside right upper", "outside upper center", "outside lower center"]
] = {
    "right": "outside right upper",
    "above": "outside upper center",
    "below": "outside lower center",
}


def _place_legend(figure: Figure, handles: Sequence[Artist], plot: Plot) -> None:
    longest = max(len(str(handle.get_label())) for handle in handles) + artists.LEGEND_HANDLE
    abreast = int(figure.get_size_inches()[0] / (longest * CHARACTER_IN))
    columns = 1 if plot.style.legend == "right" else max(1, min(len(handles), abreast))
    legend = figure.legend(
        handles=list(handles),
        loc=_LEGEND_PLACES[plot.style.legend],
        title=plot.legend_title if len(plot.labels) > 1 else None,
        ncols=columns,
        handlelength=1.9,
        labelspacing=0.5,
        alignment="left",
    )
    legend.get_title().set_fontweight("bold")
    legend.get_title().set_fontsize(9)
