"""The time of an agent, and the offset between the clocks of two hosts."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from netesto.model import ClockOffset, ClockReading


class Clock:
    """UTC in seconds since 1970, without steps: read once, then counted by the monotonic clock.

    It does not follow when somebody sets the system's time.
    """

    def __init__(self) -> None:
        # In whole ns: rounded to a float, the anchor would depend on the instant of the reading.
        self._anchor_ns = time.time_ns() - time.monotonic_ns()

    def now(self) -> float:
        """Seconds since 1970, UTC."""
        return (self._anchor_ns + time.monotonic_ns()) / 10**9

    def reading(self, received_s: float) -> ClockReading:
        """The answer to a probe that came at `received_s` on this clock; it leaves now."""
        return ClockReading(received_s, self.now())

    def system_ahead_s(self) -> float:
        """How far the system's own time, which tools print, is ahead of this clock."""
        return time.time() - self.now()


@dataclass(frozen=True, slots=True)
class Exchange:
    """A probe of an agent's clock and its answer: T1 to T4 of RFC 5905, section 8.

    `sent_s` and `returned_s` are on the clock of who asked, `reading` on the agent's.
    """

    sent_s: float
    reading: ClockReading
    returned_s: float

    @property
    def round_trip_s(self) -> float:
        """Time on the way: all of it, less what the agent took to answer."""
        inside_s = self.reading.sent_s - self.reading.received_s
        return max(0.0, self.returned_s - self.sent_s - inside_s)

    @property
    def offset_s(self) -> float:
        """Agent's clock minus the asker's, if both ways took equally long."""
        there_s = self.reading.received_s - self.sent_s
        back_s = self.reading.sent_s - self.returned_s
        return (there_s + back_s) / 2


def offset(exchanges: Sequence[Exchange]) -> ClockOffset:
    """How far the agent's clock is ahead of the asker's.

    Offset and round trip as in RFC 5905, section 8; of several exchanges the one with the shortest
    round trip counts (section 10): however unlike its two ways were, it is wrong by no more than
    half its round trip. ValueError if there is none.
    """
    if not exchanges:
        raise ValueError("no exchange to compute a clock offset from")
    best = min(exchanges, key=lambda exchange: exchange.round_trip_s)
    return ClockOffset(best.offset_s, best.round_trip_s / 2)
