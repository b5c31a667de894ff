"""Traffic servers on this host, persistent ones and those of one flow, and their ports."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from netesto.agent import listening
from netesto.agent.jobs import last_lines
from netesto.errors import AgentError, MissingError, ProcessError
from netesto.model import GroupRequest, Ports
from netesto.system import proc, process
from netesto.traffic.base import Tool, pinned
from netesto.traffic.ports import PortRange

log = logging.getLogger(__name__)

# A server listens within milliseconds, unless the machine is overloaded.
_READY_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class _Lasting:
    """A server that serves all flows of its tool, and where it listens."""

    job: process.BackgroundCommand
    port: int


class Servers:
    """The servers of one hold. The output of lasting ones goes to `folder`. `on_death` gets what
    ended the server of a flow, which its client does not know, with its experiment and group."""

    def __init__(
        self,
        ports: PortRange,
        *,
        folder: Path,
        on_death: Callable[[str, int, int], None] = lambda *_: None,
    ) -> None:
        self._ports = ports
        self._folder = folder
        self._lasting: dict[str, _Lasting] = {}
        self._on_death = on_death
        self._groups: dict[tuple[int, int], tuple[Ports, list[process.BackgroundCommand]]] = {}
        self._watches: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()

    async def ensure(self, tool: Tool) -> int:
        """Start the lasting server of `tool` unless it runs; its port. It stays until `close`."""
        async with self._turn:
            lasting = self._lasting.get(tool.name)
            if lasting is not None and not await _serves(lasting):
                log.warning("server replaced: it had ended, or hung", extra={"tool": tool.name})
                await lasting.job.end()
                self._ports.give_back([self._lasting.pop(tool.name).port])
                lasting = None
            if lasting is None:
                lasting = self._lasting[tool.name] = await self._start_lasting(tool)
            return lasting.port

    async def expect(self, request: GroupRequest, tool: Tool, *, folder: Path) -> Ports:
        """Reserve ports for a group and start its servers. Their output goes to `folder`."""
        key = (request.exp, request.group)
        if key in self._groups:
            raise AgentError(f"experiment {request.exp} has group {request.group} already")
        data = self._take(request.instances)
        jobs: list[process.BackgroundCommand] = []
        try:
            if tool.lasting_server:
                control = (await self.ensure(tool),) * request.instances
            else:
                control = data
                for instance, port in enumerate(data, start=1):
                    out = folder / f"server.{request.group}.{instance}.out"
                    jobs.append(await start(tool, port, out, cpus=request.server_cpus))
        except BaseException:
            await _end(jobs)
            self._ports.give_back(data)
            raise
        ports = Ports(control=control, data=data)
        self._groups[key] = (ports, jobs)
        for instance, job in enumerate(jobs, start=1):
            watch = asyncio.create_task(self._watch(job, request, instance))
            self._watches.add(watch)
            watch.add_done_callback(self._watches.discard)
        return ports

    async def _watch(
        self, job: process.BackgroundCommand, request: GroupRequest, instance: int
    ) -> None:
        """Report a server that a signal ends, unless `forget` does."""
        status = await job.wait()
        if status < 0 and (request.exp, request.group) in self._groups:
            flow = f"group {request.group}, flow {instance}"
            text = f"the server of {flow} ({request.tool}) {process.manner(status)}"
            self._on_death(text, request.exp, request.group)

    async def forget(self, exp: int, group: int) -> Ports | None:
        """End the group's own servers and free its ports; the ports, None if it had none."""
        entry = self._groups.pop((exp, group), None)
        if entry is None:
            return None
        ports, jobs = entry
        await _end(jobs)
        self._ports.give_back(ports.data)
        return ports

    async def close(self) -> None:
        """End all servers."""
        for exp, group in list(self._groups):
            await self.forget(exp, group)
        async with self._turn:
            await _end([lasting.job for lasting in self._lasting.values()])
            self._ports.give_back(lasting.port for lasting in self._lasting.values())
            self._lasting.clear()

    async def _start_lasting(self, tool: Tool) -> _Lasting:
        # Debian starts a netserver at boot; ours then takes another port.
        port = tool.server_port
        if port in listening.ports():
            port = self._take(1)[0]
        self._folder.mkdir(parents=True, exist_ok=True)
        out = self._folder / f"{tool.name}.out"
        out.unlink(missing_ok=True)
        try:
            return _Lasting(await start(tool, port, out), port)
        except BaseException:
            self._ports.give_back([port])
            raise

    def _take(self, count: int) -> tuple[int, ...]:
        """Ports that nobody uses."""
        occupied = listening.ports()
        ports: list[int] = []
        others: list[int] = []
        try:
            while len(ports) < count:
                (port,) = self._ports.take(1)
                (others if port in occupied else ports).append(port)
        except BaseException:
            self._ports.give_back(ports)
            raise
        finally:
            self._ports.give_back(others)
        return tuple(ports)


async def start(
    tool: Tool, port: int, out: Path, *, cpus: tuple[int, ...] = ()
) -> process.BackgroundCommand:
    """Start a server on these processors (none: on any) and wait until it listens on `port`. Its
    output goes to the new file `out`."""
    argv = [*pinned(cpus), *tool.server_command(port)]
    try:
        job = await process.start(argv, stdout=out)
    except ProcessError as error:
        raise MissingError(str(error), remedy=f"Is {tool.name} installed?") from None
    try:
        is_ready = await process.wait_until_async(
            lambda: job.status is not None or listening.listens(job.pid, port),
            timeout=_READY_TIMEOUT_S,
        )
        if job.status is not None or not is_ready:
            reason = "does not listen" if job.status is None else "ended at once"
            said = last_lines(out)
            raise AgentError(f"{' '.join(argv)}: {reason}" + (f": {said}" if said else ""))
    except BaseException:
        await job.end()
        raise
    return job


async def _serves(lasting: _Lasting) -> bool:
    """Whether a server runs, and accepts connections within the time limit for its start."""
    if lasting.job.status is not None or proc.is_stopped(lasting.job.pid):
        return False
    return await process.wait_until_async(
        lambda: not listening.waiting(lasting.port), timeout=_READY_TIMEOUT_S
    )


async def _end(jobs: list[process.BackgroundCommand]) -> None:
    await asyncio.gather(*(job.end() for job in jobs))
