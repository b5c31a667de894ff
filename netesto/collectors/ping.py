"""Round-trip times of ICMP echoes, as ping(8) prints them.

The file holds the unmodified output of `ping -D`, then a line `@system-ahead SECONDS`: how far the
system's time, which ping prints, was ahead of the agent's clock at the start. Each time that
somebody set it meanwhile has another such line.
"""

import asyncio
import itertools
import math
import os
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from netesto import proc, process
from netesto.collectors.base import ByProgram
from netesto.collectors.clock import ahead_in, steps_of
from netesto.measured import PingSample
from netesto.model import SAME_CLOCK, Address, ClockOffset

# How the warning of an agent that cannot start ping begins.
UNMEASURED = "round trips are not measured"

# Between two requests.
INTERVAL_S = 0.2

_REPLY = re.compile(
    r"^\[(\d{1,10}\.\d+)\] \d+ bytes from [^\n]{1,99}icmp_seq=(\d{1,5}) [^\n]{0,99}time=(\d{1,9}"
    r"(?:\.\d+)?) ms(?! \(DUP!\)).*\n",
    re.MULTILINE | re.ASCII,
)


@dataclass(eq=False, slots=True)
class PingCollector(ByProgram):
    """Sends an echo request every `interval_s` seconds to `destination`."""

    destination: Address
    interval_s: float = INTERVAL_S
    # ping prints its summary on SIGINT, and not on other signals.
    end_sign: ClassVar = signal.SIGINT

    async def start(self) -> None:
        argv = command(self.destination, self.interval_s)
        job = await self._launch(argv, UNMEASURED, stdout=self.path)
        if job is not None:
            # In the last 10 ms before a request ping polls, if no reply is due.
            proc.sleep_when_yielding(job.pid)

    async def _follow(self, job: process.Job) -> None:
        status = await job.wait()
        if not self._is_stopping or status < 0:
            text = await asyncio.to_thread(self.path.read_text, errors="replace")
            last = text.strip().rpartition("\n")[2]
            when = "at the end, being stopped or hung" if self._is_stopping else "early"
            self._warn(f"ping {self.destination} {process.manner(status)} {when}: {last}")
        try:
            # It must still be there.
            with self.path.open("r+") as file:
                file.seek(0, os.SEEK_END)
                file.writelines(self._ahead_lines())
        except OSError as error:
            self._warn(f"{self.path.name}: {error.strerror}")


def command(destination: Address, interval_s: float) -> list[str]:
    """Ping with a timestamp on every line (-D), without name lookups (-n)."""
    return ["ping", "-D", "-n", "-i", f"{interval_s:g}", str(destination)]


def read(path: Path, *, offset: ClockOffset = SAME_CLOCK) -> list[PingSample]:
    """The replies, without duplicates; a truncated last line is ignored.

    `offset` is that of the agent's clock from the one that the samples use.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    replies: list[PingSample] = []
    for time, sequence, rtt in _REPLY.findall(text):
        last = replies[-1].number if replies else int(sequence)
        # The number in a packet has 16 bits. The next one is the nearest to the last.
        step = (int(sequence) - last + 2**15) % 2**16 - 2**15
        replies.append(PingSample(float(time), float(rtt), last + step))
    system_s, parts = ahead_in(text), list[Sequence[PingSample]]()
    rest: Sequence[PingSample] = replies
    for step_s in steps_of(system_s):
        part, rest = _parted(rest, step_s)
        parts.append(part)
    return [
        replace(reply, time_s=offset.controllers(reply.time_s - ahead_s))
        for ahead_s, part in zip(system_s, (*parts, rest), strict=True)
        for reply in part
    ]


def _parted(
    replies: Sequence[PingSample], moved_s: float
) -> tuple[Sequence[PingSample], Sequence[PingSample]]:
    """The replies before and after somebody set the system's time by `moved_s`, without those that
    were on the way then: ping took their round-trip times from two times.

    Requests are sent at a fixed interval, whatever the round-trip times are.
    """
    sent_s = [reply.time_s - reply.rtt_ms / 1000 for reply in replies]
    off_s = [
        abs(later - earlier - (replies[n].number - replies[n - 1].number) * INTERVAL_S - moved_s)
        for n, (earlier, later) in enumerate(itertools.pairwise(sent_s), start=1)
    ]
    if not moved_s or min(off_s, default=math.inf) > abs(moved_s) / 2:
        return replies, ()
    first = off_s.index(min(off_s)) + 1
    before = [reply for reply in replies[:first] if reply.time_s < sent_s[first - 1]]
    # It prints 0 if the reply came before the request.
    return before, [reply for reply in replies[first:] if reply.rtt_ms > 0]
