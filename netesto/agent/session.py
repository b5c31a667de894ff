"""One hold of the agent: everything that a controller does here, which ends with the hold."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from netesto.agent import congestion, routes
from netesto.agent.experiment import HostExperiment, Premises
from netesto.agent.servers import Servers
from netesto.agent.settings import Settings
from netesto.collectors import hostfacts
from netesto.errors import AgentError
from netesto.flowspec import TRACE_TESTS, UDP_TESTS, fault
from netesto.hostsettings import Applied, Setting
from netesto.model import EARLIER_RUN, Address, CaptureRequest, Event, GroupRequest, Ports
from netesto.system import proc


class Session:
    """The hold of one controller for one run. Its first events are the hold itself, and unreported
    leftovers of earlier holds."""

    def __init__(self, premises: Premises, *, controller: str, run: str) -> None:
        self.controller = controller
        self.run = run
        self.begun_s = premises.clock.now()
        self.events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._premises = premises
        self._sequence = 0
        self._is_closing = False
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._experiments: dict[int, HostExperiment] = {}
        # The controller has all data of these: only their numbers are kept here.
        self._confirmed: set[int] = set()
        # Programs that did not end: a run waits for each of them once.
        self._hung: set[str] = set()
        self._servers = Servers(
            premises.ports, folder=premises.folder / "servers", on_death=self._warn
        )
        self._settings = Settings(premises, on_warning=self._warn)
        premises.spool.experiment(run, 0)  # raises if the name is invalid
        self.emit(Event(time_s=self.begun_s, kind="held"))
        for sentence in premises.journal.remains().left:
            text = f"{EARLIER_RUN}{sentence}"
            self.emit(Event(time_s=self.begun_s, kind="left", text=text))

    async def configure(self, setting: Setting) -> Applied:
        """Make a setting. A setting that a lab's host would keep vanishes with the lab; settings of
        the whole kernel are put back."""
        if setting.keep and self._premises.is_in_lab:
            setting = setting.having(keep=False)
        if setting.keep:
            self._premises.limits.check_keep()
        return await self._settings.apply(setting)

    def _warn(self, text: str, exp: int = 0, group: int = 0) -> None:
        now_s = self._premises.clock.now()
        self.emit(Event(time_s=now_s, kind="warning", exp=exp, group=group, text=text))

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Let the body change the host; `close` waits for it, so that all of it is undone."""
        self._calls += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    def emit(self, event: Event) -> None:
        """Send an event to the controller, and keep it with its experiment."""
        self._sequence += 1
        event = replace(event, sequence=self._sequence)
        if event.exp in self._experiments:
            self._experiments[event.exp].keep(event)
        self.events.put_nowait(event)

    def experiment(self, exp: int) -> HostExperiment:
        """The experiment, begun if it is new. AgentError if it, or the hold, has ended."""
        if self._is_closing:
            raise AgentError("the hold has ended")
        if exp not in self._experiments:
            folder = self._premises.spool.experiment(self.run, exp)
            if folder.exists() or exp in self._confirmed:
                raise AgentError(f"experiment {exp} of this run was finished before")
            self._experiments[exp] = HostExperiment(
                exp,
                folder,
                self._premises,
                emit=self.emit,
                hung=self._hung,
                changed=self._settings.changed,
            )
        experiment = self._experiments[exp]
        if experiment.is_finished:
            raise AgentError(f"experiment {exp} is finished")
        return experiment

    async def take_stats(
        self, exp: int, order: int, *, tests: Sequence[str] = (), tools: Sequence[str] = ()
    ) -> None:
        for name in tools:
            tool, _ = await self._premises.tools.get(name)
            if tool.lasting_server and tool.tests.intersection(tests):
                await self._servers.ensure(tool)
        await self.experiment(exp).take_stats(order)

    async def expect(self, request: GroupRequest) -> Ports:
        check(request)
        tool, _ = await self._premises.tools.get(request.tool)
        if request.test not in UDP_TESTS:
            congestion.require(request.congestion_controls[1])
        await self._check_limits(request, request.client_address)
        experiment = self.experiment(request.exp)
        ports = await self._servers.expect(request, tool, folder=experiment.folder)
        try:
            await experiment.expect(request, ports)
        except OSError:
            await self.forget(request.exp, request.group)
            raise
        return ports

    async def forget(self, exp: int, group: int) -> None:
        ports = await self._servers.forget(exp, group)
        if ports is not None and exp in self._experiments:
            self._experiments[exp].forget(group)

    async def start(self, request: GroupRequest, ports: Ports, start_at_s: float | None) -> None:
        check(request)
        is_trace = request.test in TRACE_TESTS
        if not (len(ports.control) == len(ports.data) >= request.instances) or (
            len(ports.data) > request.instances and not is_trace
        ):
            raise AgentError(f"{request.instances} instances need a pair of ports each")
        tool, version = await self._premises.tools.get(request.tool)
        if request.test not in UDP_TESTS:
            congestion.require(request.congestion_controls[0])
        self._premises.limits.check_ports(ports)
        await self._check_limits(request, request.server_address)
        experiment = self.experiment(request.exp)
        await experiment.start(request, ports, start_at_s, tool=tool, version=version)

    async def begin(self, exp: int, groups: Sequence[int], start_at_s: float) -> None:
        if exp not in self._experiments:
            raise AgentError(f"experiment {exp}: no flow waits for its start")
        self._experiments[exp].begin(groups, start_at_s)

    async def _check_limits(self, request: GroupRequest, peer: Address) -> None:
        """NotAllowedError if agent.toml does not allow these flows here."""
        limits, spool = self._premises.limits, self._premises.folder / "spool"
        running = sum(experiment.flows for experiment in self._experiments.values())
        limits.check_group(request, peer, running=running)
        await asyncio.to_thread(limits.check_room, spool)

    async def start_capture(self, request: CaptureRequest) -> None:
        limits, device = self._premises.limits, self._premises.device
        if request.peer is not None:
            device = routes.device_to(request.peer, default=device)
        # Without the interface the capture fails, and says why.
        limits.check_capture(request, hostfacts.mtu_bytes(device) or 0)
        experiment = self.experiment(request.exp)
        await experiment.observation.add_capture(request, device, most_bytes=limits.captures)

    async def finish(self, exp: int) -> None:
        """Complete an experiment; one that did not begin here is complete."""
        experiment = self._experiments.get(exp)
        if experiment is None or experiment.is_finished:
            return
        for group in experiment.expected:
            await self.forget(exp, group)
        await experiment.finish()
        if self._premises.is_in_lab:
            proc.reap_adopted()

    async def changed(self) -> list[str]:
        """A sentence for each thing that is not as this run has set it."""
        return await self._settings.changed()

    async def confirm(self, exp: int) -> None:
        """The controller has the experiment: forget it."""
        await self.finish(exp)
        await asyncio.to_thread(self._premises.spool.remove, self.run, exp)
        self._experiments.pop(exp, None)
        self._confirmed.add(exp)

    async def abort(
        self, exp: int | None = None, *, reason: str = "aborted by the controller"
    ) -> None:
        """End all flows and captures, or those of one experiment, which can then be finished."""
        await asyncio.gather(
            *(
                experiment.abort(reason)
                for experiment in self._experiments.values()
                if not experiment.is_finished and exp in {None, experiment.exp}
            )
        )

    async def put_back(self) -> list[str]:
        """End all flows and put everything back; a sentence for each setting that is not."""
        await self.abort(reason="the controller let the agent go")
        left = await self._settings.restore()
        journal = self._premises.journal
        # The controller gets these by this call, and those of earlier runs as events.
        journal.note_told(len(journal.remains().left))
        return left

    async def close(self, reason: str) -> None:
        """End everything and put everything back.

        No new call begins; calls in progress start nothing, and end within seconds.
        """
        self._is_closing = True
        try:
            await self.abort(reason=reason)
            await self._idle.wait()
            for exp in self._experiments:
                await self.finish(exp)
        finally:
            # Whatever failed above, the host is put back.
            try:
                await self._servers.close()
            finally:
                await self._settings.restore()


def check(request: GroupRequest) -> None:
    """AgentError if a request makes no sense; the language checks more."""
    # Which tools there are is known where one is started.
    if wrong := fault(replace(request, tool="auto")):
        raise AgentError(wrong)
    if request.group < 1 or request.exp < 1:
        raise AgentError(f"experiment {request.exp}, group {request.group}: both count from 1")
