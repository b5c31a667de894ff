"""How far the system's time was ahead of the agent's clock during a flow, in `flow.G.I.json`."""

from pathlib import Path

from netesto import jsontext
from netesto.model import LATEST_S, REAL_TIME, SystemTime

# Nobody sets a clock so often during a flow.
_STEPS_MAX = 100


def read(path: Path) -> SystemTime:
    """What the client's agent noted while the flow ran; agents of older versions noted nothing.
    OSError."""
    try:
        noted = jsontext.read(path)["system_ahead_s"]
        pairs = tuple((int(line), float(ahead_s)) for line, ahead_s in noted)
    except (ValueError, KeyError, TypeError, OverflowError):
        return REAL_TIME
    is_known = [line for line, _ in pairs[:1]] == [0] and len(pairs) <= _STEPS_MAX
    are_times = all(abs(each) < LATEST_S for _, each in pairs)
    return SystemTime(pairs) if is_known and are_times else REAL_TIME
