"""The ticks of an axis and their labels. Pure."""

import math
from dataclasses import dataclass

# With values this far apart, an automatic axis is logarithmic.
LOG_RATIO = 100
# A single tick gives no scale.
MIN_TICKS = 2
# No measurement is this small, and the largest drawn value divided by it is still finite.
TINY = 1e-150
# Values this close, relative to their size, are one value: there are no floats for ticks between
# them.
NARROW = 1e-9
# More labels on a logarithmic axis cannot be read; some decades then go without one.
DECADES_MAX = 16
_SUFFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "K"))


@dataclass(frozen=True, slots=True)
class Tick:
    position: float
    label: str


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis from `low` to `high`; the ticks are labelled, `low` itself is not."""

    low: float
    high: float
    ticks: tuple[Tick, ...]
    is_log: bool = False


def scale(low: float, high: float, *, log: str = "Auto", step: float | None = None) -> Scale:
    """A scale for values between low and high. `log` is On, Off, or chooses by itself."""
    if low > 0 and log != "Off" and (log == "On" or high / low > LOG_RATIO):
        return logarithmic(low, high)
    return linear(low, high, step=step)


def linear(low: float, high: float, *, step: float | None = None) -> Scale:
    """Ticks from the first above a round bottom to the first strictly above `high`."""
    low, high = sorted(0.0 if abs(end) < TINY else end for end in (low, high))
    if high - low <= NARROW * max(-low, high):
        # A bar of no height shows nothing: a lone value is drawn from 0.
        low, high = min(0.0, low), max(0.0, high) or float(low == 0)
    unit, multiple = _step(low, high) if step is None else (step, step)
    ticks = _ticks(low, high, unit, multiple)
    if step is None and len(ticks) < MIN_TICKS:
        while (high - low) / unit < MIN_TICKS:
            unit /= 10
        while (high - low) / unit > 10:
            unit *= 2
        multiple = unit
        ticks = _ticks(low, high, unit, multiple)
    bottom = _snap(math.floor(_clean(low / multiple)) * multiple, unit)
    return Scale(bottom, ticks[-1], tuple(Tick(tick, label(tick, unit)) for tick in ticks))


def _clean(ratio: float) -> float:
    """Without the noise of a division: 0.3 / 0.1 is 3."""
    return round(ratio, 9)


def _snap(value: float, step: float) -> float:
    """Without the noise of a product: 3 * 0.1 is 0.3."""
    return round(value, max(0, 2 - math.floor(math.log10(step))))


def _ticks(low: float, high: float, step: float, multiple: float) -> list[float]:
    """From one step above the bottom, which is a `multiple`, to the first one above `high`."""
    bottom = math.floor(_clean(low / multiple)) * multiple
    first = math.floor(_clean(bottom / step)) + 1
    last = math.floor(_clean(high / step)) + 1
    return [_snap(place * step, step) for place in range(first, last + 1)]


def _step(low: float, high: float) -> tuple[float, float]:
    """The classic tool's choice: 1, 2, 5 or 10, times a power of ten; and the divisor of the
    bottom, which is the step, but for steps of 5 the corresponding 10."""
    power = 1.0
    largest = max(abs(low), abs(high))
    if largest == 0:
        return 1.0, 1.0
    while largest * power <= 1:
        power *= 10
    low, high = _clean(low * power), _clean(high * power)
    down = 1.0
    while math.floor((high - low) / down) >= 100:
        down *= 10
    step, multiple = _step_of_units(math.floor(low / down), math.floor(high / down))
    return step * down / power, multiple * down / power


def _step_of_units(low: int, high: int) -> tuple[int, int]:
    """For an axis from `low` to `high`, both in whole units."""
    if high - low <= 10:
        return 1, 1
    if high - low <= 20:
        return 2, 2
    rounded_out = math.ceil(high / 10) * 10 - math.floor(low / 10) * 10
    return (5, 10) if high % 10 and rounded_out <= 50 else (10, 10)


def label(value: float, step: float) -> str:
    """12000 is 12K, 1.5e6 is 1.5M; small steps keep plain numbers."""
    if step > 1:
        for factor, suffix in _SUFFIXES:
            if abs(value) >= factor:
                return _plain(value / factor) + suffix
    return _plain(value)


def _plain(value: float) -> str:
    if value and not 1e-10 < abs(value) < 1e16:
        return f"{value:g}"
    text = f"{value:.10f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def logarithmic(low: float, high: float) -> Scale:
    """A label for each decade, from the one above `low` to the one at or above `high`."""
    first = math.floor(_clean(math.log10(low))) + 1
    last = max(math.ceil(_clean(math.log10(high))), first)
    stride = -(-(last - first + 1) // DECADES_MAX)
    ticks = tuple(
        Tick(10.0**power, _plain(10.0**power)) for power in range(first, last + 1, stride)
    )
    return Scale(10.0 ** (first - 1), 10.0**last, ticks, is_log=True)
