"""Packets on the wire, as tcpdump(8) writes them.

Give the file the suffix `.pcap`: Debian's AppArmor profile lets tcpdump write no other. What
tcpdump said lies beside it, in `NAME.log`.
"""

import asyncio
import os
import re
from pathlib import Path

from netesto import process
from netesto.collectors.base import Collector, Warn
from netesto.errors import ProcessError
from netesto.model import CaptureRequest

# tcpdump listens within milliseconds, unless the machine is choked.
READY_TIMEOUT_S = 5.0

# tcpdump's own buffer is the smaller one. The larger one holds a thousand packets of 64 kB, as they
# come from a sender with segmentation offload.
BUFFER_KIB = (2 * 1024, 64 * 1024)

# The kernel writes a header before each packet in the buffer.
_HEADER_BYTES = 128
_WHOLE_BYTES = 65536

_DROPPED = re.compile(r"(\d+) packets? dropped by kernel")


class Capture(Collector):
    """Captures what a request asks for, until it has its packets or is stopped."""

    def __init__(
        self,
        path: Path,
        request: CaptureRequest,
        device: str,
        *,
        on_warning: Warn | None = None,
    ) -> None:
        super().__init__(on_warning=on_warning)
        self._path = path
        self._log = path.with_suffix(".log")
        self._argv = command(path, request, device, is_root=os.geteuid() == 0)
        self._job: process.Job | None = None
        self._watch: asyncio.Task[None] | None = None
        self._is_listening = asyncio.Event()

    async def start(self) -> None:
        """Begin; from its return on, packets are captured."""
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
        if self._job is None or self._watch is None:
            return
        # Not SIGINT: tcpdump leaves that ignored where it was when the agent was started.
        await self._job.end()
        await self._watch

    async def _follow(self, job: process.Job) -> None:
        """Keep what tcpdump says; see when it listens, and whether all went well."""
        said = []
        async for line in job.lines():
            said.append(line)
            if "listening on" in line:
                self._is_listening.set()
        status = await job.wait()
        if status != 0 or not self._is_listening.is_set():
            self._warn(f"tcpdump ended with exit status {status}: {said[-1] if said else ''}")
        self._is_listening.set()
        dropped = dropped_packets("\n".join(said))
        if dropped:
            self._warn(f"the capture {self._path.name} lacks {dropped} packets the kernel dropped")
        try:
            await asyncio.to_thread(self._log.write_text, "".join(f"{line}\n" for line in said))
        except OSError as error:
            self._warn(f"{self._log.name}: {error.strerror}")


def command(path: Path, request: CaptureRequest, device: str, *, is_root: bool) -> list[str]:
    """tcpdump that takes and writes each packet at once: the file is whole whenever it ends.

    Without --immediate-mode the packets of the last second would be lost with the kernel's buffer.
    """
    argv = ["tcpdump", "-n", "-U", "--immediate-mode", "-B", str(_buffer_kib(request))]
    argv += ["-i", device, "-c", str(request.packets)]
    argv += ["-s", str(request.snap_bytes), "-w", str(path)]
    if is_root:
        # By itself it would become another user, who may not write where we do.
        argv += ["-Z", "root"]
    if request.peer is not None:
        argv += ["host", str(request.peer)]
    return argv


def _buffer_kib(request: CaptureRequest) -> int:
    """Room for all packets, within limits: then none is dropped because tcpdump is slower."""
    packet_bytes = _HEADER_BYTES + min(request.snap_bytes or _WHOLE_BYTES, _WHOLE_BYTES)
    smallest, largest = BUFFER_KIB
    return max(smallest, min(largest, request.packets * packet_bytes // 1024))


def dropped_packets(said: str) -> int:
    """How many packets tcpdump says the kernel dropped, for want of room in its buffer."""
    match = _DROPPED.search(said)
    return int(match[1]) if match else 0
