"""Whether this host's clock is synchronised with UTC, and the bound of its error.

The kernel knows (adjtimex(2)) from every program that sets the clock. chronyd informs it only if
its configuration has `rtcsync`; therefore chronyd is asked as well.
"""

import ctypes
from dataclasses import replace
from pathlib import Path

from netesto.errors import ProcessError
from netesto.model import TimeSync
from netesto.system import proc, process

_CHRONYC_TIMEOUT_S = 2.0

# <linux/timex.h>
_STA_UNSYNC = 0x0040

# Programs that set the clock, by their names in /proc/PID/comm, which has 15 characters.
_PROGRAMS = {
    "chronyd": "chronyd",
    "ntpd": "ntpd",
    "systemd-timesyn": "systemd-timesyncd",
    "ptp4l": "ptp4l",
    "phc2sys": "phc2sys",
}

# Of the fields of `chronyc -c tracking`: the reference, corrections still to be made, root delay
# and dispersion (all in seconds), and the leap status, which also shows if there is no source.
_REFERENCE, _OFFSET, _DELAY, _DISPERSION, _LEAP = 0, 4, 10, 11, 13

# The reference 127.127.1.1: the clock itself, by chrony's directive `local`.
_ITSELF = "7F7F0101"


class _Timex(ctypes.Structure):
    """The beginning of struct timex, with more than enough room for the rest."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("frequency", ctypes.c_long),
        ("max_error_us", ctypes.c_long),
        ("estimated_error_us", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_long * 32),
    )


async def read() -> TimeSync:
    """The state of this host's clock."""
    found = replace(_kernel(), source=_program())
    if found.is_synchronized or found.source != "chronyd":
        return found
    try:
        argv = ("chronyc", "-n", "-c", "tracking")
        asked = await process.run_async(argv, timeout=_CHRONYC_TIMEOUT_S)
    except ProcessError:
        return found
    return parse_tracking(asked.stdout)


def parse_tracking(text: str) -> TimeSync:
    """What `chronyc -c tracking` printed. Its bound is that of chrony's manual: the offset, the
    root dispersion and half the root delay."""
    fields = text.strip().split(",")
    try:
        error_s = (
            abs(float(fields[_OFFSET])) + float(fields[_DISPERSION]) + float(fields[_DELAY]) / 2
        )
        is_synchronized = fields[_LEAP] != "Not synchronised" and fields[_REFERENCE] != _ITSELF
    except (ValueError, IndexError):
        is_synchronized, error_s = False, 0.0
    return TimeSync(is_synchronized, error_s, "chronyd")


def _kernel() -> TimeSync:
    state = _Timex()
    if ctypes.CDLL(None).adjtimex(ctypes.byref(state)) < 0:
        return TimeSync(is_synchronized=False, error_s=0.0, source="")
    return TimeSync(not state.status & _STA_UNSYNC, state.max_error_us / 1e6, "")


def _program() -> str:
    for pid in proc.numbers():
        try:
            name = Path("/proc", str(pid), "comm").read_text(encoding="utf-8").strip()
        except OSError:
            continue  # it has ended
        if name in _PROGRAMS:
            return _PROGRAMS[name]
    return ""
