"""Finds, names and ends a process of a guest that computes and never waits, from outside.

In simulated time such a process prevents all others from running, including the guest's process 1,
so it can be found only from outside. Each process of a guest is also one of this machine (a "stub":
arch/um/os-Linux/skas), traced by the guest kernel: its processor time and its memory are those of
the program, and a fault signal that it gets is a fault of the program.
"""

import contextlib
import os
import platform
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from netesto.system import proc

# Of the signals that a guest kernel takes for a fault of its process (arch/um/os-Linux/skas/
# process.c, userspace()), the one that programs rarely get or handle.
FAULT = signal.SIGFPE

# Enough for arguments and environment.
_STACK_BYTES = 256 * 1024

# A page, mapped or not.
_CLOCK_BYTES = 4096

# At the top of a program's stack (fs/exec.c, fs/binfmt_elf.c): its arguments, its environment, the
# file that it was started from, eight zero bytes.
_VARIABLE = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*=")


@dataclass(frozen=True, slots=True)
class Spinner:
    """The most active process of a guest: its `pid` on this machine, its command line, () if
    unknown, and its `share` of the processor time of all processes."""

    pid: int
    argv: tuple[str, ...]
    share: float


def processor_ticks(leader: int) -> dict[int, int]:
    """The processor time, in clock ticks, of each process in the session of a guest kernel; the
    leader's includes that of processes that it has waited for. Empty if `leader` is 0, the session
    of this machine's kernel."""
    ticks = {}
    for pid in proc.numbers() if leader else ():
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
            # proc(5): the name in parentheses may hold anything; after it comes field 3. The
            # session is field 6, and the four times are fields 14 to 17.
            words = text.rpartition(")")[2].split()
            if int(words[3]) == leader:
                ticks[pid] = sum(map(int, words[11:15]))
    return ticks


def busiest(leader: int, before: Mapping[int, int]) -> Spinner | None:
    """The process of a guest with the most processor time since `before` (earlier
    `processor_ticks`); None if none has any."""
    used = {
        pid: ticks - before.get(pid, 0)
        for pid, ticks in processor_ticks(leader).items()
        # The kernel works for all of them.
        if pid != leader
    }
    total = sum(used.values())
    if total <= 0:
        return None
    pid = max(used, key=lambda each: used[each])
    return Spinner(pid, _command_line(pid), used[pid] / total)


def end(spinner: Spinner) -> None:
    """End it as if by its own fault; a process that has ended is not an error."""
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
    """The top of a program's stack, from its process's map (proc(5)). (0, 0) if it has none.

    It is the highest writable region of the guest's memory, a shared file, below code of the guest
    kernel, which is read-only, and the page with its clock (switches.h), if the program has it.
    """
    shared = [_region(line) for line in reversed(maps.splitlines()) if line.split()[1][3] == "s"]
    code = next((at for at, (_, _, mode) in enumerate(shared) if mode == "r-xs"), None)
    top = shared[code][0] - _CLOCK_BYTES if code is not None else 0
    regions = [
        (begin, min(end_, top))
        for begin, end_, mode in shared
        if mode.startswith("rw") and begin < top
    ]
    begin, end_ = regions[0] if regions else (0, 0)
    for below, until in regions[1:]:
        if until != begin or end_ - below > _STACK_BYTES:
            break
        begin = below
    return begin, end_


def _region(line: str) -> tuple[int, int, str]:
    bounds, mode, *_ = line.split()
    begin, end_ = bounds.split("-")
    return int(begin, 16), int(end_, 16), mode


def arguments(stack: bytes) -> tuple[str, ...]:
    """A program's arguments, from the top of its stack; () if it has another content."""
    content = stack.rstrip(b"\0")
    if not content or len(stack) - len(content) < 8:
        return ()
    # The name of the processor's kind, or a gap, comes before them.
    *words, _file = content.rpartition(b"\0\0")[2].split(b"\0")
    kind = platform.machine().encode()
    first = next((at + 1 for at, word in enumerate(words) if word.endswith(kind)), 0)
    until = next((at for at, word in enumerate(words) if _VARIABLE.match(word)), len(words))
    return tuple(word.decode(errors="replace") for word in words[min(first, until) : until])
