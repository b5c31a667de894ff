"""Processes that a killed agent left running: found by the mark they carry, and ended.

An agent notes a random mark in its journal, then puts it into its own environment before it starts
anything. So every process that it or its children start carries `NETESTO_LIFE=MARK`, also one that
was started an instant before the kill or left its process group, and no other process does.
"""

import os
from collections.abc import Callable, Iterable

from netesto import proc
from netesto.collectors import hostfacts

LIFE_VARIABLE = "NETESTO_LIFE"

# The time after SIGTERM: tcpdump writes its last packets.
GRACE_S = 2.0


def end(
    life: str, *, grace_s: float = GRACE_S, among: Callable[[], Iterable[int]] = proc.numbers
) -> list[int]:
    """End every process that carries the mark, first with SIGTERM; return their PIDs. This includes
    processes that they start meanwhile, unless one survives SIGKILL. Processes of other users whose
    environment we may not read are not ours. `among`: the processes that may carry it.
    """
    ended: list[int] = []
    while True:
        # Opening a pidfd takes as long as this check, and most processes are not ours.
        ours = (pid for pid in among() if pid != os.getpid() and carries(pid, life))
        last = proc.end(ours, grace_s=grace_s, belongs=lambda pid: carries(pid, life))
        ended += (pid for pid in last.found if pid not in ended)
        if not last.found or last.surviving:
            return ended


def carries(pid: int, life: str) -> bool:
    """Whether a process carries this mark; one that has ended does not."""
    try:
        variables = hostfacts.contents(f"/proc/{pid}/environ")
    except OSError:
        return False
    return f"\0{LIFE_VARIABLE}={life}\0" in f"\0{variables}"
