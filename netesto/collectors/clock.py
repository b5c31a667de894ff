"""The time of an agent, and the offset between the clocks of two hosts."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from netesto.model import ClockOffset, ClockReading

# The year 5138: no clock is so far ahead, and what is computed with such an instant is exact.
LATEST_S = 1e11


def instant(seconds: float | str) -> float:
    """A time of a host, which may claim anything. ValueError if no clock shows it."""
    value = float(seconds)
    if not 0 <= value < LATEST_S:
        raise ValueError(f"{value} is not a time in seconds since 1970")
    return value


class Clock:
    """UTC in seconds since 1970, without steps: read once, then counted by the monotonic clock.

    It does not follow when somebody sets the system's time. `anchor_ns` makes it the same as
    another one of this kernel.
    """

    def __init__(self, anchor_ns: int | None = None) -> None:
        if anchor_ns is not None:
            self._anchor_ns = anchor_ns
            return
        # In whole ns: rounded to a float, the anchor would depend on the instant of the reading.
        # Between two readings of the other clock: in a guest that computes a lot at one simulated
        # instant, each reading takes 256 ns.
        before_ns, utc_ns, after_ns = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        self._anchor_ns = utc_ns - (before_ns + after_ns) // 2

    @property
    def anchor_ns(self) -> int:
        """UTC minus the monotonic clock."""
        return self._anchor_ns

    def now(self) -> float:
        """Seconds since 1970, UTC."""
        return (self._anchor_ns + time.monotonic_ns()) / 10**9

    def at(self, monotonic_ns: int) -> float:
        """The UTC instant of one of the monotonic clock."""
        return (self._anchor_ns + monotonic_ns) / 10**9

    def monotonic_ns(self, instant_s: float) -> int:
        """The instant of the monotonic clock at a UTC instant."""
        return round(instant_s * 10**9) - self._anchor_ns

    def reading(self, received_s: float) -> ClockReading:
        """The reply to a probe that arrived at `received_s` on this clock; it leaves now."""
        return ClockReading(received_s, self.now())

    def system_ahead_s(self) -> float:
        """Seconds by which the system's time, which tools print, is ahead of this clock."""
        return time.time() - self.now()


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


def offset(exchanges: Sequence[Exchange]) -> ClockOffset:
    """How far the agent's clock is ahead of the controller's.

    Offset and round trip as in RFC 5905, section 8. Of several exchanges the one with the shortest
    round trip counts (section 10): its error is at most half its round trip, however much its two
    directions differ. ValueError if there is none.
    """
    if not exchanges:
        raise ValueError("no exchange to compute a clock offset from")
    best = min(exchanges, key=lambda exchange: exchange.round_trip_s)
    return ClockOffset(best.offset_s, best.round_trip_s / 2)
