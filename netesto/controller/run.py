"""The asynchronous part of a run: it holds hosts, starts flows, handles events and fetches data."""

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from netesto import traffic, units
from netesto.collectors import cgroup
from netesto.collectors.cgroup import Quota
from netesto.collectors.clock import Clock, SystemTime, words_of_step
from netesto.controller import requests
from netesto.controller.experiment import Experiment, FlowState, GroupState
from netesto.controller.fetcher import Fetcher
from netesto.controller.host import Connect, HostConnection
from netesto.controller.hosts import AT_ONCE, Hosts
from netesto.controller.inventory import Inventory
from netesto.controller.observer import Observer
from netesto.controller.progress import LATE_S, OVERDUE_GRACE_S, Progress
from netesto.controller.starter import Starter
from netesto.controller.wallclock import Stopwatch, await_moment
from netesto.errors import AgentError, MissingError, WorldError
from netesto.grounds import Ground
from netesto.hostsettings import LinkLimits
from netesto.language import steps
from netesto.links.routed import RoutedFlow
from netesto.links.settings import SETTINGS
from netesto.model import CaptureRequest, GroupRequest, Ports
from netesto.results.links import LinkRecord, Way
from netesto.results.manifest import PathRecord
from netesto.results.severity import invalidates
from netesto.results.store import Store
from netesto.transport.base import Agent

Answer = TypeVar("Answer")

# The tests whose servers DO_SERVER start=1 starts.
CLASSIC_TESTS = ("TCP_STREAM", "TCP_RR")

# A flow starts this long after DO_CLIENT is sent: an agent needs the time to accept it and to start
# its samplers. Without it every flow would start late, each by another amount.
START_LEAD_S = 0.15

# The time in which an agent must report the end of flows that were aborted.
ABORT_GRACE_S = 3.0

# After a hurried request to end, the time for agents to end their flows, then to send data, and
# then to put settings back. One that takes longer continues by itself, and keeps its data.
ABORT_S, FETCH_S, RELEASE_S = 1.0, 1.2, 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNetwork:
    """The ground of a run, and of its lab, for the results, the drawing, paths and links; what
    finds the ways of flows in the lab, and what shows a link; and the controller's clock, which its
    agents share."""

    ground: Ground
    topology: str = ""
    paths: tuple[PathRecord, ...] = ()
    links: tuple[LinkRecord, ...] = ()
    ways: Callable[[Sequence[RoutedFlow]], Sequence[Way | None]] | None = None
    show_link: Callable[[str, str], str] | None = None
    clock: Clock = field(default_factory=Clock)


class RunOnHosts:
    """The asynchronous part of one run, whose name agents show. `tools` are those that its flows
    name; none if it has no flows. Every method runs in one event loop."""

    def __init__(
        self,
        *,
        inventory: Inventory,
        store: Store,
        connect: Connect,
        observer: Observer,
        network: RunNetwork,
        name: str,
        family: int = 4,
        tools: frozenset[str] = frozenset(),
    ) -> None:
        self.progress = Progress(self._connection_to, clock=network.clock, observer=observer)
        self.hosts = Hosts(
            inventory,
            connect=connect,
            clock=network.clock,
            listener=self.progress,
            run=name,
            shares_clock=network.ground.on_one_machine,
        )
        self.starter = Starter(self.hosts, self.progress, observer, ground=network.ground)
        self.fetcher = Fetcher(self.hosts, self.progress, store, observer)
        self.store = store
        self._tools = tools
        self.observer = observer
        self.network = network
        self.ground = network.ground
        self.family = family
        self._clock = network.clock
        # Of links of a lab, by their ends.
        self._changed_rates_bps: dict[tuple[str, str], float | None] = {}
        # Concurrent commands of one host keep their order, and the number of all together is
        # limited, because the hosts of a lab share one machine.
        self._turns: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._places = asyncio.Semaphore(AT_ONCE)

    def _connection_to(self, name: str) -> HostConnection | None:
        return self.hosts.held.get(name)

    # ---- commands ------------------------------------------------------------------------

    def experiment(self, exp: int, exp_name: str) -> Experiment:
        """The experiment's state; its first command makes it, and its folder."""
        experiment = self.progress.experiments.get(exp)
        if experiment is None:
            folder = self.store.begin(exp)
            await_moment(self.ground)
            experiment = Experiment(
                exp,
                exp_name,
                folder,
                started_s=self._clock.now(),
                started_monotonic_s=time.monotonic(),
                stopwatch=Stopwatch(folder / ".wall", is_simulated=self.ground.is_simulated),
                system=SystemTime(self._clock, lambda moved_s: self._on_step(exp, moved_s)),
                quota=Quota.now() if self.ground.in_this_kernel else None,
            )
            self.progress.experiments[exp] = experiment
            self.observer.experiment_started(exp, exp_name)
        return experiment

    async def carry_out(self, command: steps.RemoteCommand) -> None:
        """Have an agent carry out a command. Errors name the place of the command.

        If the agent refuses, or is lost meanwhile, the experiment fails, not the run.
        """
        try:
            await self._carry_out(command)
        except WorldError as error:
            experiment = self.progress.experiments.get(command.exp)
            reason = f"{error.message} (requested at {command.place})"
            if (
                experiment is None
                or not isinstance(error, AgentError | MissingError)
                or (isinstance(command, steps.DoClient) and command.group not in experiment.groups)
            ):
                error.message = reason
                raise
            if not experiment.has_noted(error.message):
                is_setting = isinstance(command, steps.Configure)
                experiment.mark_partial(invalidates(reason) if is_setting else reason)
                self.observer.warn(
                    "\n    ".join(
                        filter(None, (f"experiment {command.exp}: {reason}", error.remedy))
                    )
                )

    async def _of(self, experiment: Experiment, name: str) -> HostConnection:
        """The connection to a host that takes part in an experiment. AgentError if it was lost
        meanwhile: an agent that was started again knows nothing of what it began."""
        connection = await self.hosts.connection(name)
        # Also if nothing comes of it: the manifest names the hosts of all flows.
        experiment.use(connection.name)
        if reason := experiment.lost.get(connection.name):
            raise AgentError(reason)
        await connection.ready()
        if connection.lost is not None:
            reason = f"{connection.name}: {connection.lost}"
            experiment.lost[connection.name] = reason
            raise AgentError(reason)
        return connection

    async def _begin(
        self,
        experiment: Experiment,
        host: HostConnection,
        call: Callable[[Agent], Awaitable[Answer]],
    ) -> Answer:
        """The result of a call that may be the first of an experiment at its host. An agent that is
        lost before it has begun the experiment loses nothing of it, and is called again when it is
        back. It refuses what it had begun before it was lost."""
        lost: AgentError | None = None
        while True:
            losses = host.losses
            try:
                async with self._turns[host.name], self._places:
                    answer = await call(host.agent)
            except AgentError as error:
                if lost is not None and host.losses == losses:
                    experiment.lost.setdefault(host.name, lost.message)
                    raise lost from error
                if host.losses == losses or host.name in experiment.started:
                    raise
                lost = error
                await host.ready()
            else:
                experiment.started.add(host.name)
                return answer

    async def _carry_out(self, command: steps.RemoteCommand) -> None:
        match command:
            case steps.DoServer():
                await self._do_server(command)
            case steps.DoClient():
                await self._do_client(command)
            case steps.GetData():
                await self._get_data(command)
            case steps.DoTcpdump():
                await self._do_tcpdump(command)
            case steps.ShowLink():
                await self._show_link(command)
            case steps.Close() | steps.Exit():
                await self._part_with(command)
            case steps.Configure():
                await self._configure(command)
            case _:
                raise AssertionError(f"{command.name}: an unknown command")

    async def _show_link(self, command: steps.ShowLink) -> None:
        if self.network.show_link is None:
            raise MissingError("SHOW_LINK: only a lab has links that netesto carries")
        a, b = self.hosts.inventory.find(command.host).host, command.to
        with contextlib.suppress(WorldError):  # not a host: a switch or a router, by its own name
            b = self.hosts.inventory.find(command.to).host
        self.observer.echo(await asyncio.to_thread(self.network.show_link, a, b))

    async def _configure(self, command: steps.Configure) -> None:
        host = await self.hosts.connection(command.host)
        for name, each in requests.of_agents(
            command, self.hosts.inventory, device=host.info.device, family=self.family
        ):
            configured = await self.hosts.connection(name)
            await configured.configure(each)
            for setting in each.settings:
                if isinstance(setting, LinkLimits) and "rate" in setting.given:
                    rate_bps = SETTINGS["rate"].read(setting.values["rate"])
                    forth, back = (configured.name, setting.to), (setting.to, configured.name)
                    for direction in setting.among(forth, back):
                        self._changed_rates_bps[direction] = rate_bps

    async def _do_server(self, command: steps.DoServer) -> None:
        experiment = self.experiment(command.exp, command.exp_name)
        host = await self._of(experiment, command.host)

        likely: list[str] = []
        if command.start:
            # The most likely tool; others start with their first flow.
            # A newer agent may have tools that this controller does not know.
            known = [traffic.TOOLS[name] for name in host.info.tools if name in traffic.TOOLS]
            likely = [tool.name for tool in known if tool.lasting_server][:1]
            if self._tools and not self._tools.intersection(("auto", *likely)):
                likely = []
        self.observer.doing(f"host statistics of {host.name}")
        await self._begin(
            experiment,
            host,
            lambda agent: agent.take_stats(
                command.exp, command.order, tests=CLASSIC_TESTS, tools=likely
            ),
        )
        experiment.described.append((command.order, host.name))

    async def _do_tcpdump(self, command: steps.DoTcpdump) -> None:
        experiment = self.experiment(command.exp, command.exp_name)
        host = await self._of(experiment, command.host)
        peer = None
        if command.server != steps.EVERYBODY:
            peer = requests.address(self.hosts.inventory.find(command.server), self.family)
        request = CaptureRequest(
            exp=command.exp,
            host=host.name,
            peer=peer,
            packets=command.packets,
            snap_bytes=command.snap_bytes,
        )
        await self._begin(experiment, host, lambda agent: agent.start_capture(request))

    async def _do_client(self, command: steps.DoClient) -> None:
        experiment = self.experiment(command.exp, command.exp_name)
        client, server = (
            await self.hosts.connection(command.host),
            await self.hosts.connection(command.server),
        )
        if isinstance(command, steps.DoTrace) and not self.ground.on_one_machine:
            raise MissingError(
                "DO_TRACE needs a lab: its hosts have one clock",
                remedy="Run the script without --hosts.",
            )
        others = command.peers if isinstance(command, steps.DoTrace) else (command.server,)
        receivers = {name: await self.hosts.connection(name) for name in others}
        request = requests.group_request(
            command,
            (client.endpoint, client.info),
            (server.endpoint, server.info),
            family=self.family,
            changed_rates_bps=self._changed_rates_bps,
            peers={name: each.endpoint for name, each in receivers.items()},
        )
        is_other = request.bitrate_bps != command.flow.bitrate_bps
        if request.test == "UDP_STREAM" and is_other and request.bitrate_bps is not None:
            offered = units.format_rate(request.bitrate_bps)
            self.observer.say(
                f"{command.host}→{command.server}: UDP_STREAM without bitrate= offers {offered},"
                f" {requests.OFFERED_SHARE:g} times the rate of its first shaped link"
            )
        nowhere = (0,) * request.instances
        group = GroupState(
            request=request,
            ports=Ports(control=nowhere, data=nowhere),
            full_host=command.host,
            full_server=command.server,
            flows=[FlowState(instance) for instance in range(1, request.instances + 1)],
            held=command.hold,
            peers=tuple(each.name for each in receivers.values()),
        )
        # A flow that no agent accepts is recorded as failed.
        experiment.add(group)
        try:
            for host in (client, *receivers.values()):
                experiment.use(host.name)
            for name in (command.host, *receivers):
                await self._of(experiment, name)
            reserved = [
                await self._expect(experiment, receiver, request) for receiver in receivers.values()
            ]
            group.ports = Ports(
                control=tuple(port for each in reserved for port in each.control),
                data=tuple(port for each in reserved for port in each.data),
            )
        except (AgentError, MissingError) as error:
            self.progress.end(experiment, group, error.message)
            raise
        if not group.held:
            start_s = self._clock.now() + START_LEAD_S + request.idle_s
            await self.starter.start(experiment, group, start_s)

    async def _expect(
        self, experiment: Experiment, receiver: HostConnection, request: GroupRequest
    ) -> Ports:
        """The ports that a receiver reserves for a group; it need not know what a trace says."""
        asked = replace(request, trace="")
        ports = await self._begin(experiment, receiver, lambda agent: agent.expect(asked))
        if not len(ports.control) == len(ports.data) == request.instances:
            raise AgentError(
                f"reserved {len(ports.data)} ports for {request.instances} flows",
                host=receiver.name,
            )
        return ports

    async def _get_data(self, command: steps.GetData) -> None:
        experiment = self.progress.experiments.get(command.exp)
        name = self.hosts.inventory.find(command.host).host
        if experiment is None or name not in experiment.pending_data:
            return
        # CLOSE may have released it without its data.
        await self.hosts.connection(name)
        try:
            await self.fetcher.fetch(experiment, name)
        except AgentError as error:
            # The fetch is repeated before the experiment is processed, which is partial without the
            # data.
            self.progress.warn(experiment, error.message)

    async def _part_with(self, command: steps.Close | steps.Exit) -> None:
        """CLOSE, EXIT: keep what a host has measured, and release it. Its flows that have not ended
        fail, and it does no more for experiments that have begun: it knows nothing of them."""
        name = self.hosts.inventory.find(command.host).host
        is_exit = isinstance(command, steps.Exit)
        connection = await self.hosts.connection(name) if is_exit else self.hosts.held.get(name)
        if connection is None:
            return
        for experiment in tuple(self.progress.experiments.values()):
            reason = f"{name}: {command.name} before the end of the flow"
            self.progress.end_at(name, experiment, reason)
            if name in experiment.hosts:
                experiment.lost.setdefault(name, f"{name}: {command.name} has released it")
        await self.fetcher.fetch_all_from(name)
        del self.hosts.held[name]
        try:
            if is_exit and connection.lost is None:
                await connection.dismiss()
        finally:
            await connection.close()

    # ---- the end ---------------------------------------------------------------------------

    async def wait_flows(self, exp: int, timeout_s: float | None) -> None:
        """Wait until every flow of the experiment has ended. Flows that have not after `timeout_s`,
        or long after they were due, fail for that reason."""
        experiment = self.progress.experiments.get(exp)
        if experiment is None:
            return
        self.observer.doing("waiting for the flows")
        begun_s = self._clock.now()

        def deadline_s() -> float:
            if timeout_s is not None:
                return begun_s + timeout_s
            return self.progress.overdue_s(experiment)

        tolerance_s = 0.0 if timeout_s is None else LATE_S
        if await self.progress.until_over(
            lambda: experiment.is_over, deadline_s, tolerance_s=tolerance_s
        ):
            return
        reason = (
            f"still running after WAIT_FLOWS timeout={timeout_s:g}"
            if timeout_s is not None
            else f"its end was not reported within {OVERDUE_GRACE_S:g} s after it was due"
        )
        await self._give_up(experiment, reason)

    async def _give_up(self, experiment: Experiment, reason: str) -> None:
        for group in experiment.groups.values():
            if not group.is_over and not group.held:
                group.fail(reason, self._clock.now())
                group.complete = True
        for name in experiment.hosts:
            host = self.hosts.held.get(name)
            if host is not None:
                # One that has been cut off for long may not have been noticed as lost yet.
                await self._abort_at(host, experiment.exp)

    async def abort(self, *, in_haste: bool = False) -> None:
        """After an interruption: end all flows now, keep what was measured, and do not wait long
        for any flow; if `in_haste`, for nothing else either."""
        now_s = self._clock.now()
        self.progress.latest_end_s = now_s + (ABORT_S if in_haste else ABORT_GRACE_S)
        if in_haste:
            self.progress.latest_data_s = now_s + ABORT_S + FETCH_S
        for host in self.hosts.held.values():
            host.give_up()
        for _, group in self.progress.groups():
            if not group.is_over:
                group.fail("interrupted", self._clock.now())
        await asyncio.gather(*map(self._abort_at, self.hosts.held.values()))
        # No agent will report the end of a group that it has not accepted.
        for experiment, group in self.progress.groups():
            if not group.accepted and not group.complete and not group.held:
                self.progress.end(experiment, group, "interrupted")

    async def _abort_at(self, host: HostConnection, exp: int | None = None) -> None:
        try:
            async with asyncio.timeout(ABORT_S if self.progress.is_in_haste else None):
                if host.lost is None:
                    await host.agent.abort(exp)
        except TimeoutError:
            self.observer.warn(f"{host.name}: did not confirm that it ended its flows")
        except AgentError as error:
            self.observer.warn(error.message)

    async def close_all(self) -> None:
        """Release all hosts; each puts its settings back."""
        await self.hosts.close_all(timeout_s=RELEASE_S if self.progress.is_in_haste else None)

    def note_throttling(self, experiment: Experiment) -> None:
        """Report what a quota of processors did to a lab on this machine; other agents report their
        own."""
        said = cgroup.words(experiment.quota, Quota.now()) if self.ground.in_this_kernel else ""
        if said:
            self.progress.warn(experiment, f"this machine: {said}")

    def _on_step(self, exp: int, moved_s: float) -> None:
        """Somebody has set this machine's time: in a lab, that of all hosts."""
        where = "this machine" if self.ground.on_one_machine else "the controller"
        text = f"{where}: {words_of_step(moved_s, self._clock.now())}"
        self.progress.mark_partial(self.progress.experiments[exp], text)
