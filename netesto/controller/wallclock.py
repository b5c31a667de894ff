"""Simulated time and real time.

Inside a guest with simulated time, all clocks are simulated. But a file that it creates in the
results folder gets the time of the machine outside, in whole seconds for the guest: these show how
long simulated time took. Reading it changes nothing in the guest: the same seed still gives the
same numbers.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from netesto.grounds import Ground

# A run reaches its first experiment some microseconds earlier or later, depending on the number of
# its files and the length of their names. The kernel's clock ticks at whole milliseconds, so
# experiments begin between two ticks: at a tick, the order would depend on chance.
MOMENT_NS = 100_000_000
BETWEEN_TICKS_NS = 5_500_000
EARLY_NS = 1_000_000

# sleep() rounds its argument, which is not exact, up to whole nanoseconds.
_HALF_NS = 0.5


@dataclass(frozen=True, slots=True)
class Speed:
    """The real time that simulated time took, in whole seconds. `speed_up` is simulated seconds per
    real second; None if there was less than one. Both are None if unknown, and in real time."""

    wall_s: float | None = None
    speed_up: float | None = None


def await_moment(ground: Ground) -> None:
    """In simulated time, wait for the next tenth of a second, which takes no real time.

    After much computing at one instant, reading the clock takes 256 ns, and a wait is too long by
    this much. So a first wait ends shortly before, and the second begins at a fresh instant.
    """
    if ground.is_simulated:
        for early_ns in (EARLY_NS, 0):
            left_ns = (BETWEEN_TICKS_NS - time.monotonic_ns()) % MOMENT_NS - early_ns
            time.sleep(max(left_ns - _HALF_NS, 0) / 1e9)


class Stopwatch:
    """Runs from its creation on, in real or simulated time. `path` is a file that it may create, in
    a folder of the machine outside."""

    def __init__(self, path: Path, *, is_simulated: bool) -> None:
        self._path = path
        self._is_simulated = is_simulated
        self._since_wall_s = self._dated_s()
        self._since_s = time.monotonic()

    def wall_s(self) -> float | None:
        """Real time in seconds; in simulated time in whole seconds, None if unknown."""
        if not self._is_simulated:
            return round(time.monotonic() - self._since_s, 3)
        return self.speed().wall_s

    def speed(self) -> Speed:
        """The speed of simulated time; unknown if the file cannot be made."""
        now_wall_s, now_s = self._dated_s(), time.monotonic()
        if now_wall_s is None or self._since_wall_s is None:
            return Speed()
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
            # Other writes will report a full disk; an experiment must not fail for this.
            return None
        return made_s


def speed(simulated_s: float, wall_s: float) -> Speed:
    """The speed; unknown if the machine's clock was set back in between."""
    if wall_s < 0:
        return Speed()
    return Speed(wall_s, round(simulated_s / wall_s, 3) if wall_s else None)
