"""Packets on the wire, as tcpdump(8) writes them.

The file needs the suffix `.pcap`: Debian's AppArmor profile lets tcpdump write no other. Its
messages are in `NAME.log`, and after them the lines `@system-ahead SECONDS` of
netesto/collectors/ping.py: it prints the system's time.
"""

import asyncio
import os
import re
from pathlib import Path

from netesto import process
from netesto.collectors.base import Collector, Warn
from netesto.collectors.clock import SetTime, ahead_lines
from netesto.errors import ProcessError
from netesto.model import CaptureRequest

# tcpdump listens within milliseconds, unless the machine is overloaded.
READY_TIMEOUT_S = 5.0

# The smaller one is tcpdump's default. The larger one holds a thousand super-packets of 64 kB.
BUFFER_KIB = (2 * 1024, 64 * 1024)

# The kernel writes a header before each packet in the buffer.
_HEADER_BYTES = 128
_WHOLE_BYTES = 65536

_CAPTURED = re.compile(r"(\d+) packets? captured")
DROPPED = re.compile(r"(\d+) packets? dropped by kernel")


class Capture(Collector):
    """Captures up to the requested number of packets, until it is stopped."""

    def __init__(
        self,
        path: Path,
        set_time: SetTime,
        request: CaptureRequest,
        device: str,
        *,
        on_warning: Warn | None = None,
    ) -> None:
        super().__init__(on_warning=on_warning)
        self._path = path
        self._set_time = set_time
        self._begun = 0
        self._log = path.with_suffix(".log")
        self._packets = request.packets
        self._stopping = False
        self._argv = command(path, request, device, is_root=os.geteuid() == 0)
        self._job: process.Job | None = None
        self._watch: asyncio.Task[None] | None = None
        self._is_listening = asyncio.Event()

    async def start(self) -> None:
        self._begun = self._set_time.now()
        try:
            self._job = await process.start(self._argv)
        except ProcessError as error:
            self._warn(f"no capture: {error}")
            return
        self._watch = asyncio.create_task(self._follow(self._job))
        try:
            await asyncio.wait_for(self._is_listening.wait(), READY_TIMEOUT_S)
        except TimeoutError:
            self._warn(f"tcpdump did not listen within {READY_TIMEOUT_S:g} s")

    async def stop(self) -> None:
        self._stopping = True
        if self._job is None or self._watch is None:
            return
        # Not SIGINT, which tcpdump ignores if the agent was started with it ignored.
        await self._job.end()
        await self._watch

    async def _follow(self, job: process.Job) -> None:
        """Keep the messages of tcpdump; notice when it listens, and how it ended."""
        said = []
        async for line in job.lines():
            said.append(line)
            if "listening on" in line:
                self._is_listening.set()
        status = await job.wait()
        text = "\n".join(said)
        is_full = packets_of(_CAPTURED, text) >= self._packets
        if status != 0 or not self._is_listening.is_set():
            self._warn(f"tcpdump {process.manner(status)}: {said[-1] if said else ''}")
        elif not (self._stopping or is_full):
            self._warn(f"{self._path.name}: tcpdump was ended by a signal, before the end")
        self._is_listening.set()
        if is_full:
            self._warn(
                f"{self._path.name}: the capture ended at its limit of {self._packets} packets; "
                "packets= of DO_TCPDUMP raises it. Columns pkt… need all packets of a flow"
            )
        dropped = packets_of(DROPPED, text)
        if dropped:
            self._warn(f"{self._path.name}: the kernel dropped {dropped} packets")
        lines = [f"{line}\n" for line in said]
        lines += ahead_lines(self._set_time.since(self._begun))
        try:
            await asyncio.to_thread(self._log.write_text, "".join(lines))
        except OSError as error:
            self._warn(f"{self._log.name}: {error.strerror}")


def command(path: Path, request: CaptureRequest, device: str, *, is_root: bool) -> list[str]:
    """tcpdump that reads and writes each packet at once, so that the file is always complete.

    Without --immediate-mode the packets of the last second would be lost with the kernel's buffer.
    """
    argv = ["tcpdump", "-n", "-U", "--immediate-mode", "-B", str(_buffer_kib(request))]
    argv += ["-i", device, "-c", str(request.packets)]
    argv += ["-s", str(request.snap_bytes), "-w", str(path)]
    if is_root:
        # Otherwise it changes to a user who may not write to the agent's folder.
        argv += ["-Z", "root"]
    if request.peer is not None:
        argv += ["host", str(request.peer)]
    return argv


def _buffer_kib(request: CaptureRequest) -> int:
    """Space for all packets, within limits, so that none is dropped if tcpdump is slow."""
    packet_bytes = _HEADER_BYTES + min(request.snap_bytes or _WHOLE_BYTES, _WHOLE_BYTES)
    smallest, largest = BUFFER_KIB
    return max(smallest, min(largest, request.packets * packet_bytes // 1024))


def packets_of(kind: re.Pattern[str], said: str) -> int:
    """The number of packets of a kind, as tcpdump reports it."""
    match = kind.search(said)
    return int(match[1]) if match else 0
