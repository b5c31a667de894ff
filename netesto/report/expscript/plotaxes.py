"""The axes of a plot: the places of X values, and the scale and names of Y values."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from netesto.errors import ScriptError
from netesto.report import ticks
from netesto.report.expscript import numerals, samples
from netesto.report.expscript.lines import items
from netesto.report.expscript.options import Options
from netesto.report.expscript.samples import PlotColumns, PlotSample
from netesto.report.figures import BARS, Axis, Kind
from netesto.report.ticks import Scale, Tick

# With more categories, a round scale replaces their labels.
LABELLED_VALUES = 12
# The most ticks that a script may request.
MAX_STEPS = 200


@dataclass(frozen=True, slots=True)
class AxisPlaces:
    """The X axis, and the distance of neighbours. `find`: the place of a text; None if it has
    none."""

    scale: Scale
    find: Callable[[str], float | None]
    spacing: float

    def of(self, text: str) -> float:
        """Where the X of a sample stands."""
        found = self.find(text)
        if found is None:
            raise ValueError(f"{text!r} has no place on the X axis")
        return found


@dataclass(frozen=True, slots=True)
class Vertical:
    """A Y axis: its values are divided by `divisor`."""

    axis: Axis
    divisor: float


@dataclass(frozen=True, slots=True)
class Frame:
    """The context for the builders of traces."""

    request: Options
    kind: Kind
    columns: PlotColumns
    samples: Sequence[PlotSample]
    labels: tuple[str, ...]
    panels: tuple[str, ...]

    def of(self, panel: str, label: str) -> list[PlotSample]:
        return [one for one in self.samples if (one.panel, one.label) == (panel, label)]


def x_places(frame: Frame) -> AxisPlaces:
    texts = samples.categories(
        frame.samples,
        frame.request.chosen("plotXOrder", "sorted", "selection", "natural"),
        are_pairs=frame.columns.has_pairs,
    )
    numbers = {text: numerals.drawable(text) for text in texts}
    uniform = "xUniform" in frame.request.values and frame.request.get("xUniform") not in {
        "off", "Off",
    }  # fmt: skip
    values = [value for value in numbers.values() if value is not None]
    if uniform or frame.columns.has_pairs or len(values) < len(texts):
        index = {text: float(place) for place, text in enumerate(texts)}
        labels = tuple(Tick(place, text) for text, place in index.items())
        return AxisPlaces(Scale(-0.6, len(texts) - 0.4, labels), index.get, 1.0)
    far = min(values) > 0 and max(values) / min(values) > ticks.LOG_RATIO
    return _numeric_places(values, logarithmic=far, is_bars=frame.kind in BARS)


def _numeric_places(values: Sequence[float], *, logarithmic: bool, is_bars: bool) -> AxisPlaces:
    """Numbers on a scale; a logarithmic one holds powers of ten, so that bars stay equally wide."""

    def find(text: str) -> float | None:
        value = numerals.drawable(text)
        if value is None or not logarithmic:
            return value
        return math.log10(value) if value > 0 else None

    places = sorted({math.log10(value) if logarithmic else value for value in values})
    gaps = np.diff(places)
    spacing = float(gaps.min()) if len(gaps) else 1.0
    # Bars need room beside the outermost places, points only a little.
    margin = max(0.6 * spacing if is_bars else 0.0, 0.03 * (places[-1] - places[0]))
    low, high = places[0] - (margin or 1.0), places[-1] + (margin or 1.0)
    if logarithmic:
        decades = ticks.logarithmic(min(values), max(values)).ticks
        labels = [Tick(math.log10(tick.position), tick.label) for tick in decades]
        labels.insert(0, Tick(labels[0].position - 1, ticks.label(decades[0].position / 10, 1)))
    else:
        round_scale = ticks.linear(places[0], places[-1])
        bottom = round_scale.low
        step = round_scale.ticks[0].position - bottom
        labels = [Tick(bottom, ticks.label(bottom, step)), *round_scale.ticks]
    inside = tuple(tick for tick in labels if low <= tick.position <= high)
    # Each group of bars has its value below it.
    are_few = (is_bars and not logarithmic) or len(inside) < ticks.MIN_TICKS
    if are_few and len(places) <= LABELLED_VALUES:
        inside = tuple(Tick(one, ticks.label(10**one if logarithmic else one, 1)) for one in places)
    return AxisPlaces(Scale(low, high, inside), find, spacing)


def vertical(frame: Frame, name: str, values: Sequence[float], columns: Sequence[str]) -> Vertical:
    """The axis Y1 or Y2 for these values: divided, in their unit, with its ticks."""
    request = frame.request
    given = request.number(f"{name}div")
    if given is not None and abs(given) < ticks.TINY:
        request.warn(f"{name}div: cannot divide by {given:g}; it is ignored")
    divisor = _own_divisor(request, name)
    unit = unit_for(request.get(f"{name}Units"), max(values))
    # What is divided has another unit.
    titles = frame.columns.titles if not unit and divisor == 1 else {}
    names = " and ".join(titles.get(column, column) for column in columns)
    title = request.get(f"plot{name}Title") or names
    if unit:
        divisor *= unit[0]
        title += f" ({unit[1]})"
    scale = y_scale(request, frame.kind, name, min(values) / divisor, max(values) / divisor)
    return Vertical(Axis(title, scale), divisor)


def unit_for(text: str, largest: float) -> tuple[float, str] | None:
    """The largest unit below the largest value: its factor and name, of `1=us,1000=ms`.

    None leaves the values as they are. Items of another form are left out.
    """
    found = []
    for item in items(text):
        factor, _, name = item.partition("=")
        value = numerals.drawable(factor)
        if value is not None and ticks.TINY < value < largest and name.strip() and "=" not in name:
            found.append((value, name.strip()))
    return max(found, key=lambda unit: unit[0], default=None)


def y_scale(request: Options, kind: Kind, name: str, low: float, high: float) -> Scale:
    """The scale of Y1 or Y2 for values from low to high, with the limits and steps of the
    script."""
    least, most = request.number(f"{name}min"), request.number(f"{name}max")
    step = request.number(f"{name}step")
    lines: list[float] = []
    if name == "Y1":
        lines = _line_positions(request, "plotVLines" if kind == "cdf" else "plotHLines")
    low = min([low, *lines]) if least is None else least
    high = max([high, *lines]) if most is None else most
    # Without data in view, an axis of the requested range is still drawn.
    high = max(low, high)
    if step is not None and not 0 < (high - low) / MAX_STEPS <= step:
        raise ScriptError(
            f"{name}step: steps of {step:g} do not fit an axis from {low:g} to {high:g}",
            remedy=f"A step is above 0, and there are at most {MAX_STEPS} of them.",
        )
    log = request.get(f"{name}LogScale")
    if log not in {"On", "Off"}:
        log = "Off" if kind == "time" else "Auto"
    scale = ticks.scale(low, high, log="Off" if kind == "stacked" else log, step=step)
    if most is not None:
        kept = tuple(tick for tick in scale.ticks if tick.position <= most)
        scale = replace(scale, high=most, ticks=kept or scale.ticks[:1])
    return scale


def _line_positions(request: Options, key: str) -> list[float]:
    """The places of the reference lines of plotHLines or plotVLines, which the axis must
    include."""
    found = (numerals.drawable(item.partition("=")[0]) for item in items(request.get(key)))
    return [position for position in found if position is not None]


def equal(frame: Frame, left: Vertical, right: Vertical) -> tuple[Vertical, Vertical]:
    """Both axes with the least and the greatest value of both; equal values are equally high.

    A unit names values and does not change them: 10 ms at the left stand as high as 10000 us at
    the right. What Y1div and Y2div divide is another value.
    """
    # What each value is divided by only to be shown in a unit.
    units = [one.divisor / _own_divisor(frame.request, name) for name, one in
             (("Y1", left), ("Y2", right))]  # fmt: skip
    lefts = [value / left.divisor * units[0] for value in left_values(frame)]
    rights = [
        value / right.divisor * units[1] for sample in frame.samples for value in sample.right
    ]
    low, high = min(lefts + rights), max(lefts + rights)
    scale = y_scale(frame.request, frame.kind, "Y1", low / units[0], high / units[0])
    other = scale
    if units[0] != units[1]:
        part = units[0] / units[1]
        own = ticks.scale(low / units[1], high / units[1], log="On" if scale.is_log else "Off")
        ends = scale.low * part, scale.high * part
        inside = tuple(tick for tick in own.ticks if ends[0] < tick.position <= ends[1])
        other = replace(own, low=ends[0], high=ends[1], ticks=inside or own.ticks)
    return (
        replace(left, axis=replace(left.axis, scale=scale)),
        replace(right, axis=replace(right.axis, scale=other)),
    )


def _own_divisor(request: Options, name: str) -> float:
    """Y1div or Y2div; 1 if it is not set or cannot divide, which `vertical` warns of."""
    divisor = numerals.drawable(request.get(f"{name}div"))
    return 1.0 if divisor is None or abs(divisor) < ticks.TINY else divisor


def left_values(frame: Frame) -> list[float]:
    """The values that the left axis must include: of all usable rows, including series that are not
    listed."""
    if frame.kind != "stacked":
        ends = [end for s in frame.samples for end in (s.low, s.high) if end is not None]
        return [sample.y for sample in frame.samples] + ends
    sums: dict[tuple[str, str, bool], float] = {}
    for sample in frame.samples:
        key = (sample.panel, sample.x, sample.y >= 0)
        sums[key] = sums.get(key, 0.0) + sample.y
    return [0.0, *sums.values()]
