"""The clock of an agent, and the offset between the clocks of two hosts."""

import asyncio
import bisect
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from netesto.model import LATEST_S, ClockOffset, ClockReading

# A kernel adjusts the rate of its clock by at most 500 ppm (adjtimex(2)), at both ends.
DRIFT_MAX = 1e-3

# More readings do not improve the bound, and these take a millisecond to compute.
READINGS_MAX = 12

# Two readings of the system's time against an agent's clock that differ by more than this, and by
# more than their errors: somebody has set it. NTP adjusts the rates of both alike (adjtimex(2)).
STEP_S = 0.0001

# How often an agent compares them during an experiment.
LOOK_S = 0.1

# A reading of both is exact enough if it took less, or else the best of so many.
_READING_NS, _READINGS = 100_000, 10

# A float has seconds since 1970 to 0.24 µs.
ROUNDING_S = 1e-6


def instant(seconds: float | str) -> float:
    """A time from a host, which is not trusted. ValueError if no clock shows it."""
    value = float(seconds)
    if not 0 <= value < LATEST_S:
        raise ValueError(f"{value} is not a time in seconds since 1970")
    return value


def words_of_step(moved_s: float, seen_s: float) -> str:
    """Why an experiment is partial during which somebody set the system's time."""
    at = datetime.fromtimestamp(seen_s, UTC).isoformat(timespec="seconds")
    return (
        f"the system's time was set by {moved_s:+.4f} s (seen at {at}); what was measured by it is"
        " left out"
    )


class Clock:
    """UTC in seconds since 1970, without steps: read once, then counted by the monotonic clock.

    It does not follow steps of the system's time. `anchor_ns` makes it equal to another clock of
    this kernel.
    """

    def __init__(self, anchor_ns: int | None = None) -> None:
        # UTC minus the monotonic clock.
        self.anchor_ns = _utc_ahead_ns()[1] if anchor_ns is None else anchor_ns

    def now(self) -> float:
        """Seconds since 1970, UTC."""
        return (self.anchor_ns + time.monotonic_ns()) / 10**9

    def at(self, monotonic_ns: int) -> float:
        """The UTC instant of one of the monotonic clock."""
        return (self.anchor_ns + monotonic_ns) / 10**9

    def monotonic_ns(self, instant_s: float) -> int:
        """The instant of the monotonic clock at a UTC instant."""
        return round(instant_s * 10**9) - self.anchor_ns

    def reading(self, received_s: float) -> ClockReading:
        """The reply to a probe that arrived at `received_s` on this clock; it leaves now."""
        return ClockReading(received_s, self.now())

    def system_ahead_s(self) -> tuple[float, float]:
        """Seconds by which the system's time, which tools print, is ahead of this clock; and the
        error of this reading."""
        # A process that does not run for a while between two readings must not look like a step.
        readings: list[tuple[int, int]] = []
        while not readings or (min(readings)[0] > _READING_NS and len(readings) < _READINGS):
            readings.append(_utc_ahead_ns())
        took_ns, ahead_ns = min(readings)
        return (ahead_ns - self.anchor_ns) / 10**9, took_ns / 2 / 10**9


class SystemTime:
    """The system's time during an experiment, beside an agent's clock, which does not follow it.

    `on_step` gets the seconds of the first step that `look` sees; later ones are not looked for.
    """

    def __init__(self, clock: Clock, on_step: Callable[[float], None]) -> None:
        self._clock = clock
        self._on_step = on_step
        self._first_s, self._error_s = clock.system_ahead_s()
        self._was_set = False
        self._task: asyncio.Task[None] | None = None

    @property
    def ahead_s(self) -> float | None:
        """How far it is ahead of the clock, 0 if that may be the error of the reading; None if
        somebody has set it during the experiment."""
        if self._was_set:
            return None
        return self._first_s if abs(self._first_s) > STEP_S + self._error_s else 0.0

    def begin(self) -> None:
        """Look every LOOK_S from now on, until `end`: also what is then set back is a step."""
        if self._task is None:
            self._task = asyncio.create_task(self._look_again())

    def end(self) -> None:
        """Look for the last time."""
        if self._task is not None:
            self._task.cancel()
        self.look()

    def look(self) -> None:
        """Compare it with the clock."""
        if self._was_set:
            return
        ahead_s, error_s = self._clock.system_ahead_s()
        if abs(ahead_s - self._first_s) > STEP_S + self._error_s + error_s:
            self._was_set = True
            self._on_step(ahead_s - self._first_s)

    async def _look_again(self) -> None:
        while not self._was_set:
            await asyncio.sleep(LOOK_S)
            self.look()


def _utc_ahead_ns() -> tuple[int, int]:
    """How long reading both took, and how far the system's time is ahead of the monotonic clock."""
    # In whole ns: rounded to a float, the difference would depend on the instant of the reading.
    # Between two readings of the other clock: in a guest that computes a lot at one simulated
    # instant, each reading takes 256 ns.
    before_ns, utc_ns, after_ns = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
    return after_ns - before_ns, utc_ns - (before_ns + after_ns) // 2


@dataclass(frozen=True, slots=True)
class Exchange:
    """A probe of an agent's clock and its reply: T1 to T4 of RFC 5905, section 8.

    `sent_s` and `returned_s` are on the controller's clock, `reading` on the agent's.
    """

    sent_s: float
    reading: ClockReading
    returned_s: float

    @property
    def round_trip_s(self) -> float:
        """Round-trip time, without the time that the agent took to reply."""
        inside_s = self.reading.sent_s - self.reading.received_s
        return max(0.0, self.returned_s - self.sent_s - inside_s)

    @property
    def offset_s(self) -> float:
        """Agent's clock minus the controller's, if both directions took equally long."""
        there_s = self.reading.received_s - self.sent_s
        back_s = self.reading.sent_s - self.returned_s
        return (there_s + back_s) / 2


@dataclass(frozen=True, slots=True)
class _Reading:
    """The offset at an instant of the controller's clock, within ± `half_s`."""

    time_s: float
    offset_s: float
    half_s: float


class ClockTrack:
    """Estimates an agent's clock over time from bursts of exchanges.

    In each burst the exchange with the shortest round trip counts (RFC 5905, section 10): its error
    is at most half its round trip, however asymmetric the path is. If the rates of the two clocks
    differ by a constant, the true offset is a straight line over time that passes through all
    readings within their errors. The estimate is the middle of all such lines, and the bound the
    largest distance of any of them from it.
    """

    def __init__(self) -> None:
        self._readings: list[_Reading] = []

    def add(self, burst: Sequence[Exchange]) -> None:
        """Add the exchanges of a burst. ValueError if there is none."""
        if not burst:
            raise ValueError("no exchange to compute a clock offset from")
        best = min(burst, key=lambda exchange: exchange.round_trip_s)
        time_s = best.sent_s + (best.returned_s - best.sent_s) / 2
        # The instant of the agent's reading may differ by up to half the round trip.
        half_s = best.round_trip_s / 2 * (1 + DRIFT_MAX) + ROUNDING_S
        self._readings.append(_Reading(time_s, best.offset_s, half_s))
        self._readings.sort(key=lambda reading: reading.time_s)

    def over(self, begin_s: float, end_s: float) -> ClockOffset:
        """The offset at `begin_s`, its drift until `end_s`, and the bound for all of that time.

        It uses the last burst before, those within, and the first one after. ValueError without a
        burst.
        """
        times = [each.time_s for each in self._readings]
        first = max(0, bisect.bisect_right(times, begin_s) - 1)
        last = bisect.bisect_left(times, end_s) + 1
        every = self._readings[first:last]
        readings = _thinned(every)
        more_s = _more_s(readings, begin_s)
        lines = list(_lines([replace(r, half_s=r.half_s + more_s) for r in readings], begin_s))
        begins = [at_s for at_s, _ in lines]
        ends = [at_s + drift * (end_s - begin_s) for at_s, drift in lines]
        begin, end = _middle(begins), _middle(ends)
        drifts = _middle([line[1] for line in lines])
        drift = (end[0] - begin[0]) / (end_s - begin_s) if end_s > begin_s else drifts[0]
        # The bound is half the range of possible values.
        drift_bound = drifts[1] + abs(drift - drifts[0])
        found = ClockOffset(
            offset_s=begin[0],
            bound_s=max(begin[1], end[1]) + more_s,
            drift_ppm=drift * 1e6,
            drift_bound_ppm=drift_bound * 1e6,
            at_s=begin_s,
        )
        # Omitted readings agree, unless the rate was adjusted.
        off = [(abs(found.at(each.time_s) - each.offset_s), each.half_s) for each in every]
        farther = [at_s + half_s for at_s, half_s in off if at_s > found.bound_s + half_s]
        return replace(found, bound_s=max(farther, default=found.bound_s))


def _thinned(readings: Sequence[_Reading]) -> Sequence[_Reading]:
    """The best of each of READINGS_MAX stretches of time."""
    count = len(readings)
    if count <= READINGS_MAX:
        return readings
    borders = [count * number // READINGS_MAX for number in range(READINGS_MAX + 1)]
    return [
        min(readings[begin:end], key=lambda reading: reading.half_s)
        for begin, end in itertools.pairwise(borders)
    ]


def _limits(readings: Sequence[_Reading], zero_s: float, drift: float) -> tuple[float, float]:
    """The minimum and maximum offset at `zero_s` of the lines with this drift through all readings;
    there is none if the minimum is greater."""
    offsets = [(each.offset_s - drift * (each.time_s - zero_s), each.half_s) for each in readings]
    return max(at - half for at, half in offsets), min(at + half for at, half in offsets)


def _drifts(readings: Sequence[_Reading]) -> Iterator[float]:
    """The drifts at which the possible lines can have their extremes: through the ends of two
    readings, and the greatest of all."""
    yield from (-DRIFT_MAX, DRIFT_MAX)
    for one, other in itertools.combinations(readings, 2):
        time_s, offset_s = other.time_s - one.time_s, other.offset_s - one.offset_s
        if time_s > 0:
            for each in (one.half_s + other.half_s, one.half_s - other.half_s):
                yield from (
                    drift
                    for drift in ((offset_s - each) / time_s, (offset_s + each) / time_s)
                    if abs(drift) < DRIFT_MAX
                )


def _lines(readings: Sequence[_Reading], zero_s: float) -> Iterator[tuple[float, float]]:
    """The corners of all lines that go through all readings: offset at `zero_s`, and drift."""
    for drift in _drifts(readings):
        least, most = _limits(readings, zero_s, drift)
        # Lines through the ends of two readings meet these except for rounding.
        if least <= most + ROUNDING_S / 10:
            yield from ((least, drift), (most, drift))


def _more_s(readings: Sequence[_Reading], zero_s: float) -> float:
    """How far the readings exclude every line, because the rate of one of the clocks was adjusted;
    0 if a line goes through all of them."""
    limits = (_limits(readings, zero_s, drift) for drift in _drifts(readings))
    gap_s = min(least - most for least, most in limits)
    return gap_s / 2 + ROUNDING_S if gap_s > 0 else 0.0


def _middle(values: Sequence[float]) -> tuple[float, float]:
    """The middle of minimum and maximum, and their distance from it."""
    least, most = min(values), max(values)
    return (least + most) / 2, (most - least) / 2
