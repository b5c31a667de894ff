"""Arithmetic on lines over time: sums, medians, bands, means over a window. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

# More points than a wide screen has columns cannot be seen.
MAX_POINTS = 2000

# A band holds this much of the flows: from the 10th to the 90th percentile.
BAND_PERCENT = (10.0, 90.0)

# Instants and values, equally many.
Points = tuple[Sequence[float], Sequence[float]]

_Array = np.ndarray[tuple[int], np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Band:
    """The band that contains most of several lines (BAND_PERCENT), and their median."""

    time_s: Sequence[float]
    low: Sequence[float]
    median: Sequence[float]
    high: Sequence[float]


def total(each: Iterable[Points]) -> Points:
    """The sum of rates over time. A flow's rate is a straight line from point to point, continues
    for half an interval before its first and after its last point (a point is the middle of one),
    and is 0 elsewhere."""
    arrays = [_whole_intervals(points) for points in each if len(points[0]) > 1]
    if not arrays:
        return (), ()
    grid = _grid(arrays)
    found = np.zeros_like(grid)
    for t, v in arrays:
        found += np.interp(grid, t, v, left=0.0, right=0.0)
    return grid.tolist(), found.tolist()


def band(each: Iterable[Points]) -> Band:
    """The median of several lines over time and the band around it, of those that have begun and
    not ended."""
    arrays = [(np.asarray(t, float), np.asarray(v, float)) for t, v in each if len(t) > 1]
    if not arrays:
        return Band((), (), (), ())
    grid = _grid(arrays)
    values = np.stack([np.interp(grid, t, v, left=np.nan, right=np.nan) for t, v in arrays])
    is_known = ~np.all(np.isnan(values), axis=0)
    low, high = BAND_PERCENT
    found = np.nanpercentile(values[:, is_known], [low, 50.0, high], axis=0)
    return Band(grid[is_known].tolist(), *(row.tolist() for row in found))


def counted(each: Sequence[Points], *, bin_s: float) -> Points:
    """The sum of several counts in each `bin_s` seconds from 0, at the bins' ends."""
    times = [np.asarray(t, float) for t, _ in each if len(t)]
    counts = [np.asarray(v, float) for t, v in each if len(t)]
    if not times:
        return (), ()
    places = np.ceil(np.concatenate(times) / bin_s).astype(int)
    found = np.bincount(np.maximum(places, 0), weights=np.concatenate(counts))
    first = int(places.min())
    return (np.arange(first, len(found)) * bin_s).tolist(), found[first:].tolist()


def on_line(line: Points, times_s: Sequence[float]) -> Points:
    """The points of a line at some instants; outside of the line, its nearest end counts."""
    return times_s, np.interp(times_s, *line).tolist()


def sliding_means(points: Points, starts_s: Sequence[float], width_s: float) -> _Array:
    """The mean of a rate over the `width_s` seconds from each of `starts_s`. Outside of the line,
    as `total` takes it, the rate is 0."""
    if not points[0]:
        return np.zeros(len(starts_s))
    t, v = _whole_intervals(points)
    # The integral of a straight line from point to point, and its value at any instant.
    area = np.concatenate(([0.0], np.cumsum((v[1:] + v[:-1]) / 2 * np.diff(t))))

    def integral(at_s: _Array) -> _Array:
        inside = np.clip(at_s, t[0], t[-1])
        place = np.clip(np.searchsorted(t, inside, side="right") - 1, 0, len(t) - 2)
        value = np.interp(inside, t, v)
        found: _Array = area[place] + (v[place] + value) / 2 * (inside - t[place])
        return found

    starts = np.asarray(starts_s, float)
    means: _Array = (integral(starts + width_s) - integral(starts)) / width_s
    return means


def _whole_intervals(points: Points) -> tuple[_Array, _Array]:
    t, v = np.asarray(points[0], float), np.asarray(points[1], float)
    half = float(np.median(np.diff(t))) / 2 if len(t) > 1 else 0.5
    return np.concatenate(([t[0] - half], t, [t[-1] + half])), np.concatenate((v[:1], v, v[-1:]))


def _grid(arrays: Sequence[tuple[_Array, _Array]]) -> _Array:
    """Instants at the usual distance of samples, from the first to the last."""
    begin, end = min(t[0] for t, _ in arrays), max(t[-1] for t, _ in arrays)
    step = float(np.median(np.concatenate([np.diff(t) for t, _ in arrays])))
    count = int(min(MAX_POINTS, (end - begin) / max(step, 1e-3))) + 1
    return np.linspace(begin, end, count)
