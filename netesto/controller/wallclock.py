"""Simulated time and the machine's own.

How long simulated time took is read from the machine's clock, from inside a guest.

All clocks of a guest in simulated time are its own. But a file that it makes in the results folder
is made by the machine outside, which dates it; the guest sees the whole seconds of that date.
Looking at it changes nothing in the guest: the same seed still gives the same numbers.
"""

import time
from dataclasses import dataclass
from pathlib import Path

# The ground whose time is simulated.
SIMULATED = "sim"

# A run comes to its first experiment some microseconds sooner or later, by the number of its files
# and the length of their names. The kernel's own clock ticks at whole hundredths of a second, so
# experiments begin between two ticks: at a tick, it would be chance which of the two came first.
MOMENT_NS = 100_000_000
BETWEEN_TICKS_NS = 5_000_000

# sleep() rounds up to whole nanoseconds, and its argument has some digits behind them.
_HALF_NS = 0.5


@dataclass(frozen=True, slots=True)
class Speed:
    """What simulated time took, to the second. `speed_up` is simulated seconds for each second of
    wall time, None where there was less than one."""

    wall_s: float
    speed_up: float | None


def await_moment(ground: str) -> None:
    """In simulated time, wait for the next of ten moments in a second; it costs nothing."""
    if ground == SIMULATED:
        left_ns = (BETWEEN_TICKS_NS - time.monotonic_ns()) % MOMENT_NS
        time.sleep(max(left_ns - _HALF_NS, 0) / 1e9)


class Stopwatch:
    """Runs from when it is made. `path` is a file it may make, in a folder of the machine's."""

    def __init__(self, path: Path, *, ground: str) -> None:
        self._path = path
        self._is_simulated = ground == SIMULATED
        self._since_wall_s = self._dated_s()
        self._since_s = time.monotonic()

    def wall_s(self) -> float | None:
        """How much real time has passed; in simulated time to the second, None if not known."""
        if not self._is_simulated:
            return round(time.monotonic() - self._since_s, 3)
        speed = self.speed()
        return None if speed is None else speed.wall_s

    def speed(self) -> Speed | None:
        """How fast time went; None in real time, or where the folder takes no file."""
        now_wall_s, now_s = self._dated_s(), time.monotonic()
        if now_wall_s is None or self._since_wall_s is None:
            return None
        return speed(now_s - self._since_s, now_wall_s - self._since_wall_s)

    def _dated_s(self) -> int | None:
        """The date of a new file."""
        if not self._is_simulated:
            return None
        try:
            self._path.unlink(missing_ok=True)
            self._path.touch(exist_ok=False)
            made_s = int(self._path.stat().st_mtime)
            self._path.unlink()
        except OSError:
            # A disk that is full is told of by what is lost by it; this is not worth an experiment.
            return None
        return made_s


def speed(simulated_s: float, wall_s: float) -> Speed | None:
    """The speed; None if the machine's clock was set back meanwhile."""
    if wall_s < 0:
        return None
    return Speed(wall_s, round(simulated_s / wall_s, 3) if wall_s else None)
