"""How soon a run ends on request, and how much slower this machine is now than an idle one."""

import time

# After a request to end, and after a second Ctrl-C, on a machine that is idle.
END_S, HURRIED_END_S = 5.0, 1.0


def slowdown() -> float:
    """How much slower this machine is now than if it were idle: wall time by processor time."""
    wall_s, own_s = time.perf_counter(), time.thread_time()
    while time.thread_time() - own_s < 0.03:
        pass
    return max(1.0, (time.perf_counter() - wall_s) / 0.03)
