"""Round-trip times of a train of echoes, as ping(8) prints them.

The file holds what `ping -D` printed, untouched, and after it a line `@system-ahead SECONDS`: how
far the system's time, which ping prints, was ahead of the agent's clock when the train began.
"""

import asyncio
import math
import re
import signal
from pathlib import Path

from netesto import process
from netesto.collectors.base import Collector, Warn
from netesto.collectors.clock import Clock
from netesto.errors import ProcessError
from netesto.model import Address, PingSample

# A change of the system's time that is no drift: somebody set it while ping was running.
STEP_S = 0.005

# icmp_seq has 16 bits.
_SEQUENCES = 1 << 16

_REPLY = re.compile(
    r"\[(\d+\.\d+)\] \d+ bytes from .*icmp_seq=(?P<sequence>\d+) .*time=(?P<rtt>[\d.]+) ms"
)
_ERROR = re.compile(r"\[\d+\.\d+\] From .*icmp_seq=(?P<sequence>\d+) ")
_SUMMARY = re.compile(r"(\d+) packets transmitted, (\d+) received.* time (\d+)ms")
_AHEAD = re.compile(r"@system-ahead (-?\d+\.\d+)\n")


class PingCollector(Collector):
    """Sends an echo every `interval_s` to `destination`, which counts lost ones too."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        destination: Address,
        interval_s: float = 0.2,
        *,
        on_warning: Warn | None = None,
    ) -> None:
        super().__init__(on_warning=on_warning)
        self._path = path
        self._clock = clock
        self._destination = destination
        self._interval_s = interval_s
        self._stopping = False
        self._ahead_s = 0.0
        self._job: process.Job | None = None
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._ahead_s = self._clock.system_ahead_s()
        try:
            argv = command(self._destination, self._interval_s)
            self._job = await process.start(argv, stdout=self._path)
        except ProcessError as error:
            self._warn(f"round trips are not measured: {error}")
            return
        self._watch = asyncio.create_task(self._until_end(self._job))

    async def stop(self) -> None:
        self._stopping = True
        if self._job is None or self._watch is None:
            return
        # Interrupted, ping prints its summary; ended otherwise, it would not.
        await self._job.end(signal.SIGINT)
        await self._watch

    async def _until_end(self, job: process.Job) -> None:
        status = await job.wait()
        if not self._stopping:
            text = await asyncio.to_thread(self._path.read_text, errors="replace")
            last = text.strip().rpartition("\n")[2]
            self._warn(f"ping {self._destination} ended early, exit status {status}: {last}")
        moved_s = self._clock.system_ahead_s() - self._ahead_s
        if abs(moved_s) > STEP_S:
            self._warn(f"the system's time was set by {moved_s:+.3f} s while ping was running")
        try:
            with self._path.open("a") as file:
                file.write(f"@system-ahead {self._ahead_s:.6f}\n")
        except OSError as error:
            self._warn(f"{self._path.name}: {error.strerror}")


def command(destination: Address, interval_s: float) -> list[str]:
    """Ping with a time on every line (-D) and without asking for names (-n)."""
    return ["ping", "-D", "-n", "-i", f"{interval_s:g}", str(destination)]


def read(path: Path) -> list[PingSample]:
    """The echoes that came back, on the agent's clock; a last line cut short is left out.

    Of an echo that came back twice the first counts.
    """
    answers = _answers(path.read_text(encoding="utf-8", errors="replace"))
    return [sample for sample in answers.values() if sample is not None]


def lost(path: Path) -> int:
    """How many echoes did not come back.

    Not counted are the last ones sent, whose answers may have been on their way when ping ended:
    as many as fit into the longest round trip seen, and at least one. Without a summary (ping was
    killed) only those are known that were followed by an answer.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    answers = _answers(text)
    samples = [sample for sample in answers.values() if sample is not None]
    known = max(answers, default=0)
    summary = _SUMMARY.search(text)
    if summary is not None:
        longest_ms = max((sample.rtt_ms for sample in samples), default=0.0)
        known = max(known, _answerable(int(summary[1]), int(summary[3]), longest_ms))
    return known - len(samples)


def _answerable(sent: int, elapsed_ms: int, longest_ms: float) -> int:
    """How many of `sent` echoes, the first and last `elapsed_ms` apart, had time for an answer."""
    interval_ms = elapsed_ms / (sent - 1) if sent > 1 else 0.0
    under_way = 1 + math.floor(longest_ms / interval_ms) if interval_ms else 1
    return max(0, sent - under_way)


def _answers(text: str) -> dict[int, PingSample | None]:
    """The first answer to each echo, by its number from 1 on; None: "unreachable" and the like."""
    ahead = _AHEAD.search(text)
    ahead_s = float(ahead[1]) if ahead else 0.0
    answers: dict[int, PingSample | None] = {}
    last = 0
    for line in text.rpartition("\n")[0].splitlines():
        reply = _REPLY.match(line)
        match = reply or _ERROR.match(line)
        if match is None:
            continue
        sequence = int(match["sequence"])
        # Beyond 65535 ping begins anew: the number closest to the one before with the same end.
        last += (sequence - last + _SEQUENCES // 2) % _SEQUENCES - _SEQUENCES // 2
        sample = PingSample(float(reply[1]) - ahead_s, float(reply["rtt"])) if reply else None
        answers.setdefault(last, sample)
    return answers
