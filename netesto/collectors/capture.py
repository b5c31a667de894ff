"""Packets on the wire, as tcpdump(8) writes them.

The file needs the suffix `.pcap`: Debian's AppArmor profile lets tcpdump write no other. Its
messages are in `NAME.log`.
"""

import asyncio
import math
import os
import re
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from netesto import units
from netesto.collectors.base import ByProgram
from netesto.model import CaptureRequest
from netesto.system import process

# tcpdump listens within milliseconds, unless the machine is overloaded.
READY_TIMEOUT_S = 5.0

# The smaller one is tcpdump's default. The larger one holds a thousand super-packets of 64 kB.
BUFFER_KIB = (2 * 1024, 64 * 1024)

# The kernel writes a header before each packet in the buffer.
_HEADER_BYTES = 128
_WHOLE_BYTES = 65536

# The shell's limit of the size of a file is in these units.
_LIMITED = ("sh", "-c", 'ulimit -c 0; ulimit -f "$0" && exec "$@"')
_BLOCK_BYTES = 512

_CAPTURED = re.compile(r"(\d+) packets? captured")
DROPPED = re.compile(r"(\d+) packets? dropped by kernel")


@dataclass(eq=False, slots=True)
class CaptureCollector(ByProgram):
    """Captures up to the requested number of packets, until it is stopped or the file has
    `most_bytes`."""

    request: CaptureRequest
    device: str
    most_bytes: float = math.inf
    # Not SIGINT, which tcpdump ignores if the agent was started with it ignored.
    end_sign: ClassVar = signal.SIGTERM
    _is_listening: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    async def start(self) -> None:
        argv = command(self.path, self.request, self.device, is_root=os.geteuid() == 0)
        if self.most_bytes != math.inf:
            argv = [*_LIMITED, str(int(self.most_bytes) // _BLOCK_BYTES), *argv]
        if await self._launch(argv, "no capture") is None:
            return
        try:
            await asyncio.wait_for(self._is_listening.wait(), READY_TIMEOUT_S)
        except TimeoutError:
            self._warn(f"tcpdump did not listen within {READY_TIMEOUT_S:g} s")

    async def _follow(self, job: process.BackgroundCommand) -> None:
        """Keep the messages of tcpdump; notice when it listens, and how it ended."""
        said = []
        async for line in job.lines():
            said.append(line)
            if "listening on" in line:
                self._is_listening.set()
        status = await job.wait()
        text = "\n".join(said)
        is_full = packets_of(_CAPTURED, text) >= self.request.packets
        if status == -signal.SIGXFSZ:
            self._warn(
                f"{self.path.name}: the capture ended at the limit of its host,"
                f" {units.format_bytes(self.most_bytes)} (captures in its agent.toml). Columns pkt…"
                " need all packets of a flow"
            )
        elif status != 0 or not self._is_listening.is_set():
            self._warn(f"tcpdump {process.manner(status)}: {said[-1] if said else ''}")
        elif not (self._is_stopping or is_full):
            self._warn(f"{self.path.name}: tcpdump was ended by a signal, before the end")
        self._is_listening.set()
        if is_full:
            self._warn(
                f"{self.path.name}: the capture ended at its limit of {self.request.packets}"
                " packets; packets= of DO_TCPDUMP raises it. Columns pkt… need all packets of a"
                " flow"
            )
        dropped = packets_of(DROPPED, text)
        if dropped:
            self._warn(f"{self.path.name}: the kernel dropped {dropped} packets")
        log = self.path.with_suffix(".log")
        lines = (f"{line}\n" for line in said)
        try:
            await asyncio.to_thread(log.write_text, "".join(lines))
        except OSError as error:
            self._warn(f"{log.name}: {error.strerror}")


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
