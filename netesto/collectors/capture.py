"""Packets on the wire, as tcpdump(8) writes them.

Give the file the suffix `.pcap`: Debian's AppArmor profile lets tcpdump write no other. What
tcpdump said lies beside it, in `NAME.log`.
"""

import asyncio
import os
import re
import signal
from pathlib import Path

from netesto import process
from netesto.collectors.base import Collector, Warn
from netesto.errors import ProcessError
from netesto.model import CaptureRequest

# tcpdump listens within milliseconds, unless the machine is choked.
READY_TIMEOUT_S = 5.0

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
        # Interrupted, tcpdump writes what it holds and says what it dropped.
        await self._job.end(signal.SIGINT)
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
    """tcpdump that writes each packet at once (-U), so that the file is whole whenever it ends."""
    argv = ["tcpdump", "-n", "-U", "-i", device, "-c", str(request.packets)]
    argv += ["-s", str(request.snap_bytes), "-w", str(path)]
    if is_root:
        # By itself it would become another user, who may not write where we do.
        argv += ["-Z", "root"]
    if request.peer is not None:
        argv += ["host", str(request.peer)]
    return argv


def dropped_packets(said: str) -> int:
    """How many packets tcpdump says the kernel dropped, for want of room in its buffer."""
    match = _DROPPED.search(said)
    return int(match[1]) if match else 0
