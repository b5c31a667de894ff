"""The process of a guest that computes and never waits: found, named and ended from outside.

In simulated time such a process keeps all others from running, also the guest's process 1: only
from outside can it be told. Each process of a guest is one of this machine, too (a "stub":
arch/um/os-Linux/skas), traced by the guest kernel: its processor time is that of the program, its
memory the program's memory, and a fault that it is sent is a fault of the program.
"""

import contextlib
import os
import platform
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from netesto import proc

# Of the signals that a guest kernel takes for a fault of its process (arch/um/os-Linux/skas/
# process.c, userspace()), the one that programs rarely meet, and rarely handle.
FAULT = signal.SIGFPE

# Its arguments and its environment have room in so much.
_TOLD_BYTES = 256 * 1024

# At the top of a program's stack (fs/exec.c, fs/binfmt_elf.c): its arguments, its environment, the
# file that it was started from, eight zero bytes.
_VARIABLE = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*=")


@dataclass(frozen=True, slots=True)
class Spinner:
    """The process of a guest that computes most: `pid` on this machine, and its command line, ()
    if its memory does not tell. `share` is what it computed of what all processes did."""

    pid: int
    argv: tuple[str, ...]
    share: float


def processor_ticks(leader: int) -> dict[int, int]:
    """The processor time, in clock ticks, of each process of the session of a guest kernel; in
    that of the leader that of processes which it has waited for."""
    found = {pid: proc.stat(pid) for pid in proc.numbers()}
    # proc(5): the session is field 6, and the four times are fields 14 to 17.
    return {
        pid: sum(map(int, words[11:15]))
        for pid, words in found.items()
        if words and int(words[3]) == leader
    }


def busiest(leader: int, before: Mapping[int, int]) -> Spinner | None:
    """The process of a guest that has computed most since `before` (what `processor_ticks` said),
    None if none has."""
    used = {
        pid: ticks - before.get(pid, 0)
        for pid, ticks in processor_ticks(leader).items()
        # It computes for all of them.
        if pid != leader
    }
    total = sum(used.values())
    if total <= 0:
        return None
    pid = max(used, key=lambda each: used[each])
    return Spinner(pid, _command_line(pid), used[pid] / total)


def end(spinner: Spinner) -> None:
    """End it as if it had made a fault; one that is gone is fine."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(spinner.pid, FAULT)


def _command_line(pid: int) -> tuple[str, ...]:
    try:
        begin, end_ = stack(Path(f"/proc/{pid}/maps").read_text(encoding="utf-8"))
        with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
            memory.seek(begin)
            return arguments(memory.read(end_ - begin))
    except OSError:
        return ()


def stack(maps: str) -> tuple[int, int]:
    """The last of a program's stack, from its process's map (proc(5)). (0, 0) if it has none.

    It is the highest of what the program may write of its guest's memory, a file that many share.
    Above it is the guest kernel's own code, which nobody may write.
    """
    lines = [line.split() for line in reversed(maps.splitlines())]
    shared = [(words[0], words[1]) for words in lines if words[1].endswith("s")]
    code = next((at for at, (_, mode) in enumerate(shared) if mode == "r-xs"), len(shared))
    writable = [region for region, mode in shared[code:] if mode.startswith("rw")]
    regions = [[int(bound, 16) for bound in region.split("-")] for region in writable]
    begin, end_ = regions[0] if regions else (0, 0)
    for below, until in regions[1:]:
        if until != begin or end_ - below > _TOLD_BYTES:
            break
        begin = below
    return begin, end_


def arguments(stack: bytes) -> tuple[str, ...]:
    """A program's arguments, from the last of its stack; () if that is not what it is."""
    told = stack.rstrip(b"\0")
    if not told or len(stack) - len(told) < 8:
        return ()
    # Before them, the name of the processor's kind, or a gap.
    *words, _file = told.rpartition(b"\0\0")[2].split(b"\0")
    kind = platform.machine().encode()
    first = next((at + 1 for at, word in enumerate(words) if word.endswith(kind)), 0)
    until = next((at for at, word in enumerate(words) if _VARIABLE.match(word)), len(words))
    return tuple(word.decode(errors="replace") for word in words[min(first, until) : until])
