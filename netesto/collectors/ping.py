"""Round-trip times of ICMP echoes, as ping(8) prints them.

The file holds the unmodified output of `ping -D`, whose times are the system's.
"""

import asyncio
import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from netesto.collectors.base import ByProgram
from netesto.measured import PingSample
from netesto.model import SAME_CLOCK, Address, ClockOffset
from netesto.system import proc, process

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

    async def _follow(self, job: process.BackgroundCommand) -> None:
        status = await job.wait()
        if not self._is_stopping or status < 0:
            text = await asyncio.to_thread(self.path.read_text, errors="replace")
            last = text.strip().rpartition("\n")[2]
            when = "at the end, being stopped or hung" if self._is_stopping else "early"
            self._warn(f"ping {self.destination} {process.manner(status)} {when}: {last}")


def command(destination: Address, interval_s: float) -> list[str]:
    """Ping with a timestamp on every line (-D), without name lookups (-n)."""
    return ["ping", "-D", "-n", "-i", f"{interval_s:g}", str(destination)]


def read(
    path: Path, *, offset: ClockOffset = SAME_CLOCK, system_ahead_s: float = 0.0
) -> list[PingSample]:
    """The replies, without duplicates; a truncated last line is ignored.

    `offset` is that of the agent's clock from the one that the samples use, `system_ahead_s` how
    far the system's time was ahead of the agent's clock.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    replies: list[PingSample] = []
    for time, sequence, rtt in _REPLY.findall(text):
        last = replies[-1].number if replies else int(sequence)
        # The number in a packet has 16 bits. The next one is the nearest to the last.
        step = (int(sequence) - last + 2**15) % 2**16 - 2**15
        time_s = offset.controllers(float(time) - system_ahead_s)
        replies.append(PingSample(time_s, float(rtt), last + step))
    return replies
