"""The flows of one group at its client: started at their instant, watched, and judged when over.

    accepted ──the instant comes──► started ──progress …──► ended | failed     (each instance)
                                                            complete           (the group)

Every instance lives and fails by itself. A flow that failed says why; it has no result.
"""

import asyncio
import contextlib
import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from netesto import process
from netesto.agent import spool
from netesto.collectors.clock import Clock
from netesto.errors import OutputError, ProcessError
from netesto.model import EventKind, GroupRequest, Ports, TransferResult
from netesto.traffic.base import Tool

# How much of a tool's last words go into an event.
_LAST_LINES = 5
_LAST_BYTES = 2000

# netesto/lab/spinner.py ends so what would keep all others of a guest from running.
_HINTS: Mapping[int, str] = {signal.SIGFPE: "in simulated time: it computed and never waited"}


class Emit(Protocol):
    """Tells the controller what happened (`time_s` None: now), and keeps it with the experiment."""

    def __call__(
        self,
        kind: EventKind,
        *,
        exp: int = 0,
        group: int = 0,
        instance: int = 0,
        rate_bps: float = 0.0,
        text: str = "",
        last_lines: str = "",
        time_s: float | None = None,
    ) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an instance ended. `reason` is "" if it ended well; then there is a result."""

    reason: str = ""
    exit_status: int | None = None
    result: TransferResult | None = None
    last_lines: str = ""


class Flow:
    """One instance of a group. Writes `flow.G.I.out`, `.err` and `.json` into `folder`."""

    def __init__(
        self,
        request: GroupRequest,
        ports: Ports,
        instance: int,
        *,
        asked_start_s: float,
        tool: Tool,
        version: str,
        folder: Path,
        clock: Clock,
        emit: Emit,
    ) -> None:
        self._asked_start_s = asked_start_s
        self._request = request
        self._ports = ports
        self._instance = instance
        self._tool = tool
        self._version = version
        self._clock = clock
        self._emit = emit
        self._argv = tool.client_command(request, ports, instance)
        name = f"flow.{request.group}.{instance}"
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        self._record = folder / f"{name}.json"
        self._started_s: float | None = None
        self._is_over = False

    async def run(self) -> None:
        """Run it to its end. Cancelled, it ends the tool; `give_up` then says why."""
        self._conclude(await self._outcome())

    def give_up(self, reason: str) -> None:
        """It has failed for this reason, unless it is over already."""
        if not self._is_over:
            self._conclude(Outcome(reason=reason, last_lines=self._last_lines()))

    async def _outcome(self) -> Outcome:
        # Read before the tool is there: a flow never begins before the start it tells.
        self._started_s = self._clock.now()
        try:
            job = await process.start(self._argv, stderr=self._err)
        except ProcessError as error:
            self._started_s = None
            return Outcome(reason=str(error))
        self._tell("started", text=" ".join(self._argv), time_s=self._started_s)
        limit_s = self._tool.deadline_s(self._request)
        try:
            async with asyncio.timeout(limit_s):
                await self._follow(job)
                status = await job.wait()
        except TimeoutError:
            status = await job.end()
            reason = f"{self._tool.name} still ran after {limit_s:g} s, ended"
            return Outcome(reason=reason, exit_status=status, last_lines=self._last_lines())
        except OSError as error:
            return Outcome(reason=f"its output cannot be kept: {error.strerror}")
        finally:
            await job.end()
        return await self._judge(status)

    async def _follow(self, job: process.Job) -> None:
        with self._out.open("xb", buffering=0) as copy:
            async for line in job.lines(copy):
                rate_bps = self._tool.progress(line, self._request)
                if rate_bps is not None:
                    self._tell("progress", rate_bps=rate_bps)

    async def _judge(self, status: int) -> Outcome:
        """What the exit status and the output say, read apart: other flows go on meanwhile."""
        return await asyncio.to_thread(self._read_outcome, status)

    def _read_outcome(self, status: int) -> Outcome:
        output = self._out.read_text(errors="replace")
        # Some exit with 0 though they failed; so what they say counts, too.
        said = self._tool.failure(output + self._err.read_text(errors="replace"))
        reason = failure(self._tool.name, status, said)
        result = None
        if not reason and not output.strip():
            reason = f"{self._tool.name} printed nothing"
        elif not reason:
            assert self._started_s is not None, "a tool that exited was started"
            try:
                result = self._tool.parse(output, self._request, started_s=self._started_s)
            except OutputError as error:
                reason = str(error)
        last_lines = self._last_lines() if reason else ""
        return Outcome(reason=reason, exit_status=status, result=result, last_lines=last_lines)

    def _conclude(self, outcome: Outcome) -> None:
        self._is_over = True
        record = {
            "argv": self._argv,
            "tool": self._tool.name,
            "version": self._version,
            "asked_start_s": self._asked_start_s,
            "started_s": self._started_s,
            "ended_s": self._clock.now(),
            "exit_status": outcome.exit_status,
            "reason": outcome.reason,
            "ports": {
                "control": self._ports.control[self._instance - 1],
                "data": self._ports.data[self._instance - 1],
                "client": self._tool.client_port(self._request, self._ports, self._instance),
            },
        }
        try:
            spool.write_json(self._record, record)
        except OSError as error:
            reason = outcome.reason or f"its record cannot be kept: {error.strerror}"
            outcome = replace(outcome, reason=reason)
        if outcome.reason:
            self._tell("failed", text=outcome.reason, last_lines=outcome.last_lines)
        elif outcome.result is not None:
            self._tell("ended", rate_bps=outcome.result.rate_bps)

    def _last_lines(self) -> str:
        return last_lines(self._err) or last_lines(self._out)

    def _tell(
        self,
        kind: EventKind,
        *,
        rate_bps: float = 0.0,
        text: str = "",
        last_lines: str = "",
        time_s: float | None = None,
    ) -> None:
        self._emit(
            kind,
            exp=self._request.exp,
            group=self._request.group,
            instance=self._instance,
            rate_bps=rate_bps,
            text=text,
            last_lines=last_lines,
            time_s=time_s,
        )


def failure(tool: str, status: int, said: str) -> str:
    """Why a tool failed, from its exit status and what it said; "" if it did not."""
    if status == 0:
        return f"{tool}: {said}" if said else ""
    if status > 0:
        reason = f"{tool} exited {status}"
    else:
        hint = f" ({_HINTS[-status]})" if -status in _HINTS else ""
        reason = f"{tool} was ended by {_signal_name(-status)}{hint}"
    return f"{reason}: {said}" if said else reason


def _signal_name(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


def last_lines(path: Path) -> str:
    """The last few lines of a file, "" if there is none."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _LAST_BYTES))
        text = file.read().decode(errors="replace").strip()
    return "\n".join(text.splitlines()[-_LAST_LINES:])
