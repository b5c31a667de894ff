"""The flows of one group at its client: started at their instant, monitored, and judged at the end.

    accepted ──ready──the instant comes──► started ──progress …──► ended | failed  (each instance)
                                                                   complete        (the group)

Every instance runs and fails independently. A failed flow has a reason and no result.
"""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from netesto.agent import spool
from netesto.collectors.clock import Clock, SystemTime
from netesto.errors import OutputError, ProcessError
from netesto.measured import TransferResult
from netesto.model import Event, GroupRequest, Ports
from netesto.system import process
from netesto.traffic import native
from netesto.traffic.base import Tool

# A client is ready within milliseconds plus some round trips. It gives up by itself after 10 s of
# silence in each of its steps.
READY_TIMEOUT_S = 30.0

# Progress is for people who watch. Each event costs a millisecond of processor time at agent and
# controller together, which in a lab compete with the flows.
PROGRESS_S = 1.0

# How much of a tool's last output goes into an event.
_LAST_LINES = 5
_LAST_BYTES = 2000

# netesto/lab/spinner.py uses this signal for a program that stops all others of a guest.
_HINTS: Mapping[int, str] = {signal.SIGFPE: "in simulated time: it computed and never waited"}

# Reports an event to the controller, and keeps it with the experiment.
Emit: TypeAlias = Callable[[Event], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A group and the resources of its flows; files go to `folder`. It starts at `begins`, once
    that is known, plus its delay. `link` ends the command of a stress test: the link's settings."""

    request: GroupRequest
    ports: Ports
    begins: asyncio.Future[float]
    tool: Tool
    version: str
    folder: Path
    clock: Clock
    system: SystemTime
    emit: Emit
    link: tuple[str, ...] = ()

    @property
    def known_start_s(self) -> float | None:
        return self.begins.result() + self.request.delay_s if self.begins.done() else None

    async def start_s(self) -> float:
        return await asyncio.shield(self.begins) + self.request.delay_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an instance ended. `reason` is "" if it ended well; then there is a result."""

    reason: str = ""
    exit_status: int | None = None
    result: TransferResult | None = None
    last_lines: str = ""


class FlowJob:
    """One instance of a group, which starts `late_s` after the group does. Writes `flow.G.I.out`,
    `.err` and `.json`."""

    def __init__(self, start: Start, instance: int, late_s: float) -> None:
        self._start = start
        self._request = start.request
        self._tool = start.tool
        self._instance = instance
        self._late_s = late_s
        command = start.tool.client_command(
            start.request,
            start.ports,
            instance,
            folder=start.folder,
        )
        self._argv = [*command, *start.link]
        # Done when it is ready, or over.
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._files = start.folder / f"flow.{start.request.group}.{instance}"
        self._out, self._err = (Path(f"{self._files}.{end}") for end in ("out", "err"))
        self._started_s: float | None = None
        self._is_over = False

    async def run(self) -> None:
        """Run it to its end. If cancelled, end the tool; `give_up` then sets the reason."""
        self._conclude(await self._outcome())

    def give_up(self, reason: str) -> None:
        """Fail it with this reason, unless it is over."""
        if not self._is_over:
            self._conclude(Outcome(reason=reason, last_lines=self._last_lines()))

    async def _outcome(self) -> Outcome:
        async with contextlib.AsyncExitStack() as stack:
            try:
                job = await self._client(stack)
            except ProcessError as error:
                return Outcome(reason=str(error))
            ended = asyncio.create_task(self._follow(job))
            stack.callback(ended.cancel)
            stack.push_async_callback(job.end)
            if reason := await self._outlasts(ended):
                status = await job.end()
                return Outcome(reason=reason, exit_status=status, last_lines=self._last_lines())
            try:
                status = ended.result()
            except OSError as error:
                return Outcome(reason=f"its output cannot be kept: {error.strerror}")
        # In a thread, so that other flows continue meanwhile.
        return await asyncio.to_thread(self._judge, status)

    async def _client(self, stack: contextlib.AsyncExitStack) -> process.BackgroundCommand:
        """The tool's client, which waits for its instant; without netesto-flow, at the instant."""
        held = _launcher(self._argv)
        if not held:
            self._set_ready()
            start_s = await self._start.start_s() + self._late_s
            await asyncio.sleep(start_s - self._start.clock.now())
            # Read before the tool exists: a flow never begins before the start that it reports.
            now_s = self._start.clock.now()
            job = await process.start(self._argv, stderr=self._err)
            self._begin(now_s)
            return job
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                job = await process.start(held, stderr=self._err, stdin=theirs.fileno())
        except BaseException:
            ours.close()
            raise
        reader, writer = await asyncio.open_connection(sock=ours)
        stack.callback(writer.close)
        released = asyncio.create_task(self._release(reader, writer))
        stack.push_async_callback(self._hang_up, released)
        return job

    async def _release(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Give a client its start instant when it is ready, and read when it began."""
        with contextlib.suppress(ConnectionError):
            if await reader.readline() != b"ready\n":
                return
            self._set_ready()
            start_s = await self._start.start_s() + self._late_s
            writer.write(b"%d\n" % max(1, self._start.clock.monotonic_ns(start_s)))
            word, _, begun_ns = (await reader.readline()).partition(b" ")
            if word == b"begun":
                self._begin(self._start.clock.at(int(begun_ns)))

    async def _hang_up(self, released: asyncio.Task[None]) -> None:
        """The client has ended: read its last messages."""
        if not self._start.begins.done():
            released.cancel()
        await asyncio.wait({released})

    async def _outlasts(self, ended: asyncio.Task[int]) -> str:
        """Wait for the client's end; return the reason if it takes too long."""
        begins, ready = self._start.begins, self.ready
        await asyncio.wait(
            (ended, ready), timeout=READY_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED
        )
        if not ended.done() and not ready.done():
            return f"{self._tool.name} was not ready after {READY_TIMEOUT_S:g} s, ended"
        await asyncio.wait((ended, begins), return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            return ""
        ahead_s = (self._start.known_start_s or 0.0) + self._late_s - self._start.clock.now()
        limit_s = self._tool.deadline_s(self._request)
        await asyncio.wait({ended}, timeout=max(0.0, ahead_s) + limit_s)
        return "" if ended.done() else f"{self._tool.name} still ran after {limit_s:g} s, ended"

    def _set_ready(self) -> None:
        if not self.ready.done():
            self.ready.set_result(None)

    def _begin(self, time_s: float) -> None:
        self._started_s = time_s
        self._emit(Event(time_s=time_s, kind="started", text=" ".join(self._argv)))

    async def _follow(self, job: process.BackgroundCommand) -> int:
        """The exit status of a client, when it has ended."""
        next_s = 0.0
        with self._out.open("xb", buffering=0) as copy:
            async for line in job.lines(copy):
                rate_bps = self._tool.progress(line, self._request)
                if rate_bps is not None:
                    self._start.system.look()
                now_s = self._start.clock.now()
                if rate_bps is not None and rate_bps >= 0 and now_s >= next_s:
                    next_s = now_s + PROGRESS_S
                    self._emit(Event(time_s=now_s, kind="progress", rate_bps=rate_bps))
        status = await job.wait()
        self._start.system.look()
        return status

    def _judge(self, status: int) -> Outcome:
        """The outcome by exit status and output."""
        output = self._out.read_text(errors="replace")
        # Some tools exit with 0 when they fail, so the output counts, too.
        said = self._tool.failure(output + self._err.read_text(errors="replace"))
        reason = failure(self._tool.name, status, said)
        result = None
        if not reason and not output.strip():
            reason = f"{self._tool.name} printed nothing"
        elif not reason:
            try:
                if self._started_s is None:
                    raise OutputError(f"{self._tool.name} does not report when it began")
                result = self._tool.parse(
                    output,
                    self._request,
                    started_s=self._started_s,
                    system_ahead_s=self._start.system.ahead_s,
                )
            except OutputError as error:
                reason = str(error)
        last_lines = self._last_lines() if reason else ""
        return Outcome(reason=reason, exit_status=status, result=result, last_lines=last_lines)

    def _conclude(self, outcome: Outcome) -> None:
        self._is_over = True
        self._set_ready()
        ports = self._start.ports
        record = {
            "argv": self._argv,
            "tool": self._tool.name,
            "version": self._start.version,
            "asked_start_s": self._start.known_start_s,
            "started_s": self._started_s,
            "ended_s": self._start.clock.now(),
            "exit_status": outcome.exit_status,
            "reason": outcome.reason,
            "ports": {
                "control": ports.control[self._instance - 1],
                "data": ports.data[self._instance - 1],
                "client": self._tool.client_port(self._request, ports, self._instance),
            },
        }
        try:
            spool.write_json(Path(f"{self._files}.json"), record)
        except OSError as error:
            reason = outcome.reason or f"its record cannot be kept: {error.strerror}"
            outcome = replace(outcome, reason=reason)
        event = Event(time_s=self._start.clock.now(), kind="ended")
        if outcome.reason:
            last_lines = outcome.last_lines
            event = replace(event, kind="failed", text=outcome.reason, last_lines=last_lines)
        elif outcome.result is not None and outcome.result.rate_bps is not None:
            event = replace(event, rate_bps=outcome.result.rate_bps)
        self._emit(event)

    def _last_lines(self) -> str:
        return last_lines(self._err) or last_lines(self._out)

    def _emit(self, event: Event) -> None:
        of = self._request
        self._start.emit(replace(event, exp=of.exp, group=of.group, instance=self._instance))


def _launcher(command: Sequence[str]) -> list[str]:
    """The command of a client that reports when it is ready, waits for its start instant, and
    reports when it began (start.c of netesto-flow). Empty if netesto-flow or the tool is
    missing."""
    program = process.program(command[0])
    if not (native.PROGRAM.exists() and Path(program).is_absolute()):
        return []
    if program == str(native.PROGRAM):
        return [*command, "hold=1"]
    return [str(native.PROGRAM), "at", program, *command[1:]]


def failure(tool: str, status: int, said: str) -> str:
    """Why a tool failed, from its exit status and the error it `said`; "" if it did not fail."""
    if status == 0:
        return f"{tool}: {said}" if said else ""
    hint = f" ({_HINTS[-status]})" if -status in _HINTS else ""
    reason = f"{tool} {process.manner(status)}{hint}"
    return f"{reason}: {said}" if said else reason


def last_lines(path: Path) -> str:
    """The last few lines of a file, "" if it does not exist."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _LAST_BYTES))
        text = file.read().decode(errors="replace").strip()
    return "\n".join(text.splitlines()[-_LAST_LINES:])
