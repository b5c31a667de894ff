"""What all figures consist of: lines, levels, legends; and their files."""

import io
import re
from collections.abc import Mapping
from pathlib import Path

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from netesto.report import looks, rendering
from netesto.report.context import Reference
from netesto.report.figures import Curve, Losses, Stroke
from netesto.report.looks import Look

STYLE = Path(__file__).with_name("templates") / "netesto.mplstyle"

# Line width, opacity, z-order.
_STROKES: Mapping[Stroke, tuple[float, float, float]] = {
    "line": (1.5, 1.0, 2),
    "thin": (0.6, 0.3, 2),
    "pale": (0.8, 0.6, 2),
    "median": (1.8, 1.0, 4),
    "steps": (1.5, 1.0, 2),
    "sum": (1.5, 1.0, 5),
}


def draw_line(axes: Axes, line: Curve) -> None:
    width, alpha, order = _STROKES[line.stroke]
    (drawn,) = axes.plot(
        *line.points,
        color=line.look.color,
        drawstyle="steps-pre" if line.stroke == "steps" else "default",
        marker="o" if len(line.points[0]) == 1 else "",
        markersize=3,
        linewidth=width,
        alpha=alpha,
        zorder=order,
    )
    dash(drawn, line.look)
    _name(drawn, line.name)
    if len(line.crosses[0]):
        is_pale = line.stroke == "pale"
        (crosses,) = axes.plot(
            *line.crosses,
            linestyle="none",
            marker="x",
            markersize=3.0 if is_pale else 5.5,
            markeredgewidth=0.8 if is_pale else 1.3,
            color=line.look.color,
            clip_on=False,
            zorder=6,
        )
        _name(crosses, line.name.replace("flow", "marks"))


def draw_losses(axes: Axes, losses: Losses) -> None:
    """Strokes on the time axis."""
    (drawn,) = axes.plot(
        losses.time_s,
        [0.0] * len(losses.time_s),
        transform=axes.get_xaxis_transform(),
        linestyle="none",
        marker="|",
        markersize=9,
        markeredgewidth=1.0,
        color=losses.look.color,
        clip_on=False,
        zorder=6,
    )
    _name(drawn, losses.name)


def dash(line: Line2D, look: Look) -> None:
    if look.dashes:
        line.set_dashes(look.dashes)


def _name(artist: Artist, name: str) -> None:
    if name:
        artist.set_gid(name)


def line_handle(label: str, look: Look, marker: str = "") -> Line2D:
    line = Line2D([], [], color=look.color, marker=marker, linewidth=1.8, label=label)
    dash(line, look)
    return line


# Characters of a legend's text that its handle takes.
LEGEND_HANDLE = 7

# Options of a line at a level that measurements are compared with.
LIMIT = {"color": looks.INK, "linewidth": 1.0, "linestyle": (0, (1, 2))}
LEVEL = {"color": looks.INK, "linewidth": 0.9, "linestyle": (0, (5, 3)), "zorder": 3}


def across(axes: Axes, reference: Reference, look: Mapping[str, object]) -> None:
    """A level, with its label above its right end."""
    axes.axhline(reference.value, **look)  # type: ignore[arg-type]  # a table of options
    axes.annotate(
        reference.label, (1, reference.value), (-4, 2), xycoords=axes.get_yaxis_transform(),
        textcoords="offset points", ha="right", va="bottom", fontsize=8, color=looks.INK,
    )  # fmt: skip


def upright(axes: Axes, time_s: float, name: str) -> None:
    """An instant at which something was changed."""
    _name(axes.axvline(time_s, color=looks.INK, linewidth=0.8, linestyle=(0, (4, 2))), name)


# Metadata that would change from day to day.
_METADATA = {
    "svg": ("Date", "Creator", "Format", "Type"),
    "pdf": ("CreationDate", "Creator", "Producer"),
    "png": ("Software",),
}


def save(figure: Figure, form: str, dpi: float | None = None) -> bytes:
    """The figure; the same one gives the same bytes."""
    data = io.BytesIO()
    figure.savefig(
        data,
        format=form,
        dpi=dpi or "figure",
        facecolor="none" if form == "svg" else looks.PAPER,
        metadata=dict.fromkeys(_METADATA[form]),
    )
    if form != "svg":
        return data.getvalue()
    # Matplotlib lists every font it knows; the generic family is on every machine.
    text = re.sub(r"font-family: [^;\"]*?sans-serif", "font-family: sans-serif",
                  data.getvalue().decode())  # fmt: skip
    # An XML file must not hold control characters.
    return rendering.visible(text).encode()
