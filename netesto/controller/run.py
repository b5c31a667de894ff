"""The asynchronous part of a run: it holds hosts, starts flows, handles events and fetches data."""

import asyncio
import contextlib
import math
import time
from collections import defaultdict
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Sequence,
)
from pathlib import Path
from typing import TypeVar

from netesto import traffic, units
from netesto.collectors.clock import STEP_S, Clock, words_of_step
from netesto.controller import requests
from netesto.controller.experiment import Experiment, Flow, Group
from netesto.controller.host import Connect, HostConnection
from netesto.controller.hosts import Hosts
from netesto.controller.inventory import Inventory
from netesto.controller.observer import Observer
from netesto.controller.wallclock import SIMULATED, Stopwatch, await_moment
from netesto.errors import (
    AgentError,
    ConnectionLostError,
    MissingError,
)
from netesto.language import steps
from netesto.model import CaptureRequest, Event, FileEntry, Ports
from netesto.results.store import Store
from netesto.transport import channel, files
from netesto.transport.base import Agent

Answer = TypeVar("Answer")

# The tests whose servers DO_SERVER start=1 starts.
CLASSIC_TESTS = ("TCP_STREAM", "TCP_RR")

# A flow starts this long after DO_CLIENT is sent: an agent needs the time to accept it and to start
# its samplers. Without it every flow would start late, each by another amount.
START_LEAD_S = 0.15

# START_FLOWS tells clients that are ready an instant at least so far ahead, and so much further for
# each pace (transport.channel) by which a large lab is slower.
RELEASE_LEAD_S = 0.2
SAMPLED_FIRST_S = 0.1

# A group that is not ready by then fails, and the others start.
READY_TIMEOUT_S = 60.0

# The number of hosts that are prepared, or asked for data, at once.
AT_ONCE = 16

# The time in which an agent must report the end of flows that were aborted.
ABORT_GRACE_S = 3.0

# After a hurried request to end, the time for agents to end their flows, then to send data, and
# then to put settings back. One that takes longer continues by itself, and keeps its data.
ABORT_S, FETCH_S, RELEASE_S = 1.0, 1.2, 0.6

# How often the files of an experiment are requested, each time after a cut.
FETCH_ATTEMPTS = 5

# The time in which an agent must report the end of a flow after it was due: a hanging tool gets
# some extra time, the server completes its samples, and the machine may be busy.
OVERDUE_GRACE_S = 30.0

# After this process was stopped, the time until a cut connection is noticed (channel.KEEPALIVE_S);
# and by how much a busy machine may delay it.
RESUMED_S, LATE_S = 5.0, 1.0

# Hosts are not trusted. The longest cut of a connection limits the delay of an event, and further
# warnings of a run are useless.
ABSURD_S = 3600.0
WARNINGS_MAX = 10_000


class Run:
    """The asynchronous part of one run. Every method runs in one event loop."""

    def __init__(
        self,
        *,
        inventory: Inventory,
        store: Store,
        connect: Connect,
        observer: Observer,
        family: int,
        name: str,
        ground: str,
        clock: Clock,
    ) -> None:
        self.store = store
        # The hosts that flows of the script name; none if it has no flows.
        self.tools: frozenset[str] = frozenset()
        self.clock = clock
        self.experiments: dict[int, Experiment] = {}
        self.hosts = Hosts(
            inventory,
            connect=connect,
            clock=clock,
            listener=self,
            run=name,
            shares_clock=ground != "hosts",
        )
        self._observer = observer
        self._family = family
        self._ground = ground
        self._warnings = 0
        self._changed = asyncio.Event()
        self._turns: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._places = asyncio.Semaphore(AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        # After `abort`, the instants until which the end of flows, and data, are waited for.
        self._latest_end_s = self._latest_data_s = math.inf

    async def close_all(self) -> None:
        """Release all hosts; each puts its settings back."""
        await self.hosts.close_all(timeout_s=RELEASE_S if self._is_in_haste else None)

    async def _part_with(self, command: steps.Close | steps.Exit) -> None:
        """CLOSE, EXIT: keep what a host has measured, and release it. Its flows that have not ended
        fail, and it does no more for experiments that have begun: it knows nothing of them."""
        name = self.hosts.inventory.find(command.host).host
        is_exit = isinstance(command, steps.Exit)
        connection = await self.hosts.named(name) if is_exit else self.hosts.held.get(name)
        if connection is None:
            return
        for experiment, group in self._groups():
            if not group.is_over and name in group.hosts:
                self._end(experiment, group, f"{name}: {command.name} before the end of the flow")
        for experiment in self.experiments.values():
            if name in experiment.hosts:
                experiment.lost.setdefault(name, f"{name}: {command.name} has released it")
        await self._fetch_all_from(name)
        del self.hosts.held[name]
        if is_exit and connection.lost is None:
            await connection.dismiss()
        await connection.close()

    async def _of(self, experiment: Experiment, name: str) -> HostConnection:
        """The connection to a host that takes part in an experiment. AgentError if it was lost
        meanwhile: an agent that was started again knows nothing of what it began."""
        connection = await self.hosts.named(name)
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

    # ---- commands ------------------------------------------------------------------------

    def experiment(self, exp: int, exp_name: str) -> Experiment:
        """The experiment's state; its first command makes it, and its folder."""
        experiment = self.experiments.get(exp)
        if experiment is None:
            folder = self.store.begin(exp)
            await_moment(self._ground)
            experiment = Experiment(
                exp,
                exp_name,
                folder,
                started_s=self.clock.now(),
                started_monotonic_s=time.monotonic(),
                stopwatch=Stopwatch(folder / ".wall", ground=self._ground),
                system_ahead_s=self.clock.system_ahead_s(),
            )
            self.experiments[exp] = experiment
            self._observer.experiment_started(exp, exp_name)
        return experiment

    async def carry_out(self, command: steps.RemoteCommand) -> None:
        """Have an agent carry out a command.

        If the agent refuses, or is lost meanwhile, the experiment fails, not the run.
        """
        try:
            await self._carry_out(command)
        except (AgentError, MissingError) as error:
            experiment = self.experiments.get(command.exp)
            if experiment is None:
                raise
            reason = f"{error.message} (requested at {command.place})"
            if isinstance(command, steps.DoClient) and command.group not in experiment.groups:
                error.message = reason
                raise
            if error.message not in experiment.reasons:
                experiment.spoil(reason)
                self._observer.warn(f"experiment {command.exp}: {reason}")

    @contextlib.asynccontextmanager
    async def _turn(self, host: HostConnection) -> AsyncIterator[None]:
        """Concurrent commands of one host keep their order, and the number of all together is
        limited, because the hosts of a lab share one machine."""
        async with self._turns[host.name], self._places:
            yield

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
                async with self._turn(host):
                    answer = await call(host.agent)
            except AgentError as error:
                if lost is not None and host.losses == losses:
                    experiment.lost.setdefault(host.name, lost.message)
                    raise lost from error
                if host.losses == losses or host.name in experiment.begun:
                    raise
                lost = error
                await host.ready()
            else:
                experiment.begun.add(host.name)
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
            case steps.Close() | steps.Exit():
                await self._part_with(command)
            case steps.Configure():
                host = await self.hosts.named(command.host)
                for name, each in requests.of_agents(
                    command, self.hosts.inventory, device=host.info.device, family=self._family
                ):
                    await (await self.hosts.named(name)).configure(each)
            case _:
                raise AssertionError(f"{command.name}: an unknown command")

    async def _do_server(self, command: steps.DoServer) -> None:
        experiment = self.experiment(command.exp, command.exp_name)
        host = await self._of(experiment, command.host)

        async def prepare(agent: Agent) -> None:
            if command.start:
                # The most likely tool; others start with their first flow.
                # A newer agent may have tools that this controller does not know.
                known = [traffic.TOOLS[name] for name in host.info.tools if name in traffic.TOOLS]
                likely = [tool.name for tool in known if tool.lasting_server][:1]
                if not self.tools or self.tools.intersection(("auto", *likely)):
                    await agent.start_servers(CLASSIC_TESTS, tuple(likely))
            self._observer.doing(f"host statistics of {host.name}")
            await agent.take_stats(command.exp, command.order)

        await self._begin(experiment, host, prepare)

    async def _do_tcpdump(self, command: steps.DoTcpdump) -> None:
        experiment = self.experiment(command.exp, command.exp_name)
        host = await self._of(experiment, command.host)
        peer = None
        if command.server != steps.EVERYBODY:
            peer = requests.address(self.hosts.inventory.find(command.server), self._family)
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
            await self.hosts.named(command.host),
            await self.hosts.named(command.server),
        )
        request = requests.group_request(
            command,
            (client.endpoint, client.info),
            (server.endpoint, server.info),
            family=self._family,
        )
        if request.bitrate_bps != command.flow.bitrate_bps and request.bitrate_bps is not None:
            offered = units.format_rate(request.bitrate_bps)
            self._observer.say(
                f"{command.host}→{command.server}: UDP_STREAM without bitrate= offers {offered},"
                f" {requests.OFFERED_SHARE:g} times the rate of its first shaped link"
            )
        nowhere = (0,) * request.instances
        group = Group(
            request=request,
            ports=Ports(control=nowhere, data=nowhere),
            full_host=command.host,
            full_server=command.server,
            flows=[Flow(instance) for instance in range(1, request.instances + 1)],
            held=command.hold,
        )
        # A flow that no agent accepts is recorded as failed.
        experiment.groups[request.group] = group
        try:
            for host in (client, server):
                experiment.use(host.name)
            for name in (command.host, command.server):
                await self._of(experiment, name)
            ports_ = await self._begin(experiment, server, lambda agent: agent.expect(request))
            if not len(ports_.control) == len(ports_.data) == request.instances:
                raise AgentError(
                    f"reserved {len(ports_.data)} ports for {request.instances} flows",
                    host=server.name,
                )
            group.ports = ports_
        except (AgentError, MissingError) as error:
            self._end(experiment, group, error.message)
            raise
        if not group.held:
            start_s = self.clock.now() + START_LEAD_S + request.idle_s
            await self._start(experiment, group, start_s)

    async def start_held(self, lead_s: float) -> None:
        """START_FLOWS: make all held groups ready, and let them start at one instant: as soon as
        the last one is ready, but not before `lead_s` from now."""
        held = [(experiment, group) for experiment, group in self._groups() if group.held]
        await_moment(self._ground)
        earliest_s = self.clock.now() + lead_s
        self._observer.doing("making flows ready")
        await asyncio.gather(*(self._start_or_spoil(*pair) for pair in held))
        deadline_s = self.clock.now() + READY_TIMEOUT_S
        await self._until(
            lambda: all(group.ready or group.complete for _, group in held),
            deadline_s=lambda: deadline_s,
        )
        for experiment, group in held:
            if not group.ready and not group.complete:
                reason = f"{group.request.client}: not ready within {READY_TIMEOUT_S:g} s"
                self._end(experiment, group, reason)
        release_s = await self._calling_time_s(
            {name for _, group in held if not group.complete for name in group.hosts}
        )
        # All start together, when the last of the pings that precede some has shown an idle path.
        idle_s = max((group.request.idle_s for _, group in held), default=0.0)
        start_s = max(earliest_s, self.clock.now() + release_s) + idle_s
        waiting: dict[tuple[int, str], list[Group]] = defaultdict(list)
        for experiment, group in held:
            if not group.complete:
                self._set_start(experiment, group, start_s)
                for name in dict.fromkeys((group.request.client, group.request.server)):
                    waiting[experiment.exp, name].append(group)
        await asyncio.gather(
            *(
                self._release_at(name, self.experiments[exp], groups, start_s)
                for (exp, name), groups in waiting.items()
            )
        )

    async def _calling_time_s(self, hosts: Collection[str]) -> float:
        """How far ahead an instant has to be for all hosts to know it in time. Their clocks are
        measured on this occasion."""
        if self._ground == SIMULATED:
            return SAMPLED_FIRST_S
        begun_s = self.clock.now()
        # A host that is lost now does not start its flows either.
        await asyncio.gather(
            *(self.hosts.held[name].measure_clock() for name in hosts), return_exceptions=True
        )
        # To do what is told takes longer than to tell a time; what keeps a machine busy comes and
        # goes. The hosts of a large lab take samples first, one after the other.
        told_s = max(RELEASE_LEAD_S, 2 * (self.clock.now() - begun_s))
        machine_hosts = 1 if self._ground == "hosts" else len(self.hosts.inventory.endpoints)
        return told_s + SAMPLED_FIRST_S * (channel.pace(machine_hosts) - 1)

    async def _start_or_spoil(self, experiment: Experiment, group: Group) -> None:
        try:
            await self._start(experiment, group, None)
        except AgentError as error:
            experiment.spoil(error.message)

    async def _release_at(
        self, name: str, experiment: Experiment, groups: Sequence[Group], start_s: float
    ) -> None:
        """Let groups that are ready start at their client, and be observed at their server."""
        host = self.hosts.held[name]
        numbers = [group.request.group for group in groups]
        try:
            await host.agent.begin(experiment.exp, numbers, host.to_agent_clock(start_s))
        except AgentError as error:
            for group in groups:
                self._end(experiment, group, error.message)
            experiment.spoil(error.message)

    async def _start(self, experiment: Experiment, group: Group, start_s: float | None) -> None:
        client = self.hosts.held[group.request.client]
        group.held = False
        experiment.begun.add(client.name)
        at_s = None if start_s is None else client.to_agent_clock(start_s)
        try:
            await client.agent.start(group.request, group.ports, at_s)
        except AgentError as error:
            self._end(experiment, group, error.message)
            raise
        group.accepted = True
        if start_s is not None:
            self._set_start(experiment, group, start_s)

    def _set_start(self, experiment: Experiment, group: Group, start_s: float) -> None:
        group.set_start(start_s)
        for flow in group.flows:
            self._observer.flow_accepted(
                experiment.exp,
                group.label(flow.instance),
                start_s=start_s + group.request.delay_s,
                duration_s=group.request.duration_s,
            )

    @property
    def is_left(self) -> bool:
        """Whether all open experiments have failed already, and no flow runs."""
        return bool(self.experiments) and all(each.is_left for each in self.experiments.values())

    # ---- events --------------------------------------------------------------------------

    def on_event(self, host: HostConnection, event: Event) -> None:
        experiment = self.experiments.get(event.exp)
        if event.kind == "warning":
            self._warn(experiment, f"{host.name}: {event.text}")
            return
        if event.kind == "lost":
            text = f"{host.name}: {event.text}"
            if experiment and text in experiment.reasons:
                return  # each kind of samples is lost with the sampler
            if experiment and host.name in experiment.hosts and self._warnings < WARNINGS_MAX:
                experiment.spoil(text)
            self._warn(None, text)
            return
        if event.kind == "left":
            self._note_left(f"{host.name}: {event.text}")
            return
        group = experiment.groups.get(event.group) if experiment else None
        if experiment is None or group is None or group.request.client != host.name:
            return
        group.observe(event, self._possible_time(experiment, group, host, event))
        if event.kind == "progress":
            self._observer.flow_progress(event.exp, group.label(event.instance), event.rate_bps)
        elif event.kind in {"ended", "failed"}:
            status = "ok" if event.kind == "ended" else event.text
            self._observer.flow_ended(event.exp, group.label(event.instance), status)
        elif event.kind == "complete":
            self._release(experiment, group)
        self._changed.set()

    def _possible_time(
        self, experiment: Experiment, group: Group, host: HostConnection, event: Event
    ) -> float:
        """When an event happened. If the time is impossible, the flows fail: no other report of
        this host on them is credible."""
        time_s, now_s = host.from_agent_clock(event.time_s), self.clock.now()
        if abs(time_s - now_s) < ABSURD_S:
            return time_s
        reason = f"{host.name}: reported an event at an impossible time"
        if reason not in experiment.reasons:
            experiment.reasons.append(reason)
        group.fail(reason, now_s)
        return now_s

    def on_lost(self, host: HostConnection, reason: str) -> None:
        if host.is_dismissed:
            return
        text = f"{host.name}: {reason}"
        for experiment in self.experiments.values():
            if host.name in experiment.begun:
                experiment.lost[host.name] = text
                experiment.spoil(text)
        for experiment, group in self._groups():
            if not group.is_over and host.name in group.hosts & experiment.begun:
                self._end(experiment, group, text)
        self._observer.warn(text)
        self._changed.set()

    def on_cut(self, host: HostConnection, reason: str) -> None:
        said = f"{reason}; joining again" if reason else "connected again; nothing was lost"
        for experiment in self.experiments.values():
            if host.name in experiment.hosts:
                experiment.warnings.append(f"{host.name}: {said}")
        self._observer.warn(f"{host.name}: {said}")
        self._changed.set()

    def on_back(self, host: HostConnection) -> None:
        if host.is_dismissed:
            return
        again = f"; ran again: {'; '.join(host.ran_again)}" if host.ran_again else ""
        self._observer.warn(f"{host.name}: its agent is back, with its settings made again{again}")
        self._changed.set()

    def _groups(self) -> Iterator[tuple[Experiment, Group]]:
        for experiment in self.experiments.values():
            for group in experiment.groups.values():
                yield experiment, group

    def _end(self, experiment: Experiment, group: Group, reason: str) -> None:
        """Fail the flows of a group that have not ended: no agent will report on them."""
        group.fail(reason, self.clock.now())
        group.complete = True
        group.held = False
        group.left = group.accepted
        self._release(experiment, group)

    def _warn(self, experiment: Experiment | None, text: str) -> None:
        self._warnings += 1
        if self._warnings > WARNINGS_MAX:
            return
        if self._warnings == WARNINGS_MAX:
            text = f"{text} (further warnings of hosts are not shown)"
        if experiment is not None:
            experiment.warnings.append(text)
        self._observer.warn(text)

    def note_set_time(self, experiment: Experiment) -> None:
        """Report if somebody has set this machine's time during an experiment. In a lab the agents
        report it."""
        moved_s = self.clock.system_ahead_s() - experiment.system_ahead_s
        if self._ground == "hosts" and abs(moved_s) > STEP_S:
            self._warn(experiment, f"the controller: {words_of_step(moved_s)}")

    def _note_left(self, text: str) -> None:
        self._warn(None, text)
        if self._warnings < WARNINGS_MAX:
            self._observer.setting_left(text)

    def _release(self, experiment: Experiment, group: Group) -> None:
        task = asyncio.create_task(self._forget(experiment, group))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forget(self, experiment: Experiment, group: Group) -> None:
        server = self.hosts.held.get(group.request.server)
        try:
            if server is not None and server.lost is None:
                await server.agent.forget(experiment.exp, group.request.group)
        except AgentError as error:
            # There is nothing to forget if the agent is gone.
            if server is not None and server.lost is None:
                self._warn(experiment, error.message)
        finally:
            group.released = True
            self._changed.set()

    async def _until(self, fact: Callable[[], bool], *, deadline_s: Callable[[], float]) -> bool:
        """Wait for events until `fact()` is true; False if it is not by `deadline_s()`."""
        while not fact():
            self._changed.clear()
            remaining = deadline_s() - self.clock.now()
            if remaining <= 0:
                return False
            try:
                await asyncio.wait_for(self._changed.wait(), remaining)
            except TimeoutError:
                continue
        return True

    async def _until_over(
        self,
        is_over: Callable[[], bool],
        deadline_s: Callable[[], float],
        *,
        tolerance_s: float = 0.0,
    ) -> bool:
        """Wait for the end of flows; False if they have not ended by `deadline_s()`.

        This process, or its machine, may have been stopped until `tolerance_s` or more after that:
        what agents have reported meanwhile comes first."""
        if await self._until(is_over, deadline_s=deadline_s):
            return True
        woken_s = self.clock.now()
        if woken_s < deadline_s() + tolerance_s:
            return False
        return await self._until(
            is_over,
            deadline_s=lambda: max(deadline_s(), min(woken_s + RESUMED_S, self._latest_end_s)),
        )

    async def wait_flows(self, exp: int, timeout_s: float | None) -> None:
        """Wait until every flow of the experiment has ended. Flows that have not after `timeout_s`,
        or long after they were due, fail for that reason."""
        experiment = self.experiments.get(exp)
        if experiment is None:
            return
        self._observer.doing("waiting for the flows")
        begun_s = self.clock.now()

        def deadline_s() -> float:
            if timeout_s is not None:
                return begun_s + timeout_s
            return self._overdue_s(experiment)

        tolerance_s = 0.0 if timeout_s is None else LATE_S
        if await self._until_over(lambda: experiment.is_over, deadline_s, tolerance_s=tolerance_s):
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
                group.fail(reason, self.clock.now())
                group.complete = True
        for name in experiment.hosts:
            host = self.hosts.held.get(name)
            if host is not None:
                # One that has been cut off for long may not have been noticed as lost yet.
                await self._abort_at(host)

    def _overdue_s(self, experiment: Experiment) -> float:
        """Until when the end of its flows must be reported. A cut is limited, and events during it
        are reported afterwards."""
        hosts = [self.hosts.held[name] for name in experiment.hosts if name in self.hosts.held]
        if any(host.is_cut for host in hosts):
            return math.inf
        joined_s = max((host.joined_s for host in hosts), default=0.0)
        return max(experiment.expected_end_s, joined_s) + OVERDUE_GRACE_S

    # ---- data ----------------------------------------------------------------------------

    async def _get_data(self, command: steps.GetData) -> None:
        experiment = self.experiments.get(command.exp)
        if experiment is None:
            return
        host = await self.hosts.named(command.host)
        try:
            await self.fetch(experiment, host.name)
        except AgentError as error:
            # The fetch is repeated before the experiment is processed, which is partial without the
            # data.
            self._warn(experiment, error.message)

    async def fetch(
        self, experiment: Experiment, name: str, *, places: asyncio.Semaphore | None = None
    ) -> None:
        """Fetch the experiment's files from a host, when its flows there are over. An agent that
        was lost is asked for what it had written until then, when it is back.

        A host that waits for one of the `places` takes no samples any more: those of 200 hosts of
        a lab, five times a second, would keep a processor from what they wait for.
        """
        await self._until_over(
            lambda: experiment.is_over_at(name),
            lambda: min(self._overdue_s(experiment), self._latest_end_s),
        )
        host = self.hosts.held.get(name)
        if host is None or name not in experiment.pending_data:
            return
        self._observer.doing(f"data from {name}")
        await host.ready()
        for attempt in range(1, FETCH_ATTEMPTS + 1):
            losses = host.losses
            try:
                await self._bring(experiment, host, places or contextlib.nullcontext())
                break
            except AgentError as error:
                is_cut = isinstance(error, ConnectionLostError) or host.losses > losses
                if attempt == FETCH_ATTEMPTS or not is_cut:
                    raise
                # After the cut it begins again.
                await host.ready()
        experiment.pending_data.discard(name)

    async def _bring(
        self,
        experiment: Experiment,
        host: HostConnection,
        turn: contextlib.AbstractAsyncContextManager[None],
    ) -> None:
        if self._is_left_running(experiment, host.name):
            await host.agent.abort()
        entries = await host.finish(experiment.exp)

        def place(entry: FileEntry) -> Path:
            return self.store.place(experiment.exp, host.name, entry.path)

        def keep(entry: FileEntry, path: Path) -> None:
            experiment.files[str(path.relative_to(experiment.folder))] = entry.sha256

        async with turn:
            await files.ship(
                host.agent, experiment.exp, entries, place, host=host.name, on_arrival=keep
            )
            await host.agent.confirm(experiment.exp)

    def _is_left_running(self, experiment: Experiment, name: str) -> bool:
        """Whether a host may still run flows of the experiment, because their server was lost, and
        none of another one."""
        others = (each for each in self.experiments.values() if each is not experiment)
        return any(
            group.left and group.request.client == name for group in experiment.groups.values()
        ) and all(other.is_over_at(name) for other in others)

    async def fetch_rest(self, experiment: Experiment) -> None:
        """Fetch, before processing, the data of every host that GET_DATA has not fetched."""
        places = asyncio.Semaphore(AT_ONCE)
        pending = sorted(experiment.pending_data)
        await asyncio.gather(*(self._fetch_in_time(experiment, name, places) for name in pending))

    async def fetch_open(self) -> None:
        """Fetch the data of all experiments from all hosts at once: none waits for one that does
        not respond."""
        await asyncio.gather(*(self._fetch_all_from(name) for name in self.hosts.held))

    async def _fetch_all_from(self, name: str) -> None:
        for experiment in self.experiments.values():
            if name in experiment.pending_data:
                await self._fetch_in_time(experiment, name)

    async def _fetch_in_time(
        self, experiment: Experiment, name: str, places: asyncio.Semaphore | None = None
    ) -> None:
        left_s = max(0.0, self._latest_data_s - self.clock.now()) if self._is_in_haste else None
        try:
            async with asyncio.timeout(left_s):
                await self.fetch(experiment, name, places=places)
        except TimeoutError:
            experiment.reasons.append(f"{name}: its data did not arrive in time")
        except AgentError as error:
            experiment.spoil(error.message)

    @property
    def _is_in_haste(self) -> bool:
        return self._latest_data_s < math.inf

    async def abort(self, *, in_haste: bool = False) -> None:
        """After an interruption: end all flows now, keep what was measured, and do not wait long
        for any flow; if `in_haste`, for nothing else either."""
        now_s = self.clock.now()
        self._latest_end_s = now_s + (ABORT_S if in_haste else ABORT_GRACE_S)
        if in_haste:
            self._latest_data_s = now_s + ABORT_S + FETCH_S
        for host in self.hosts.held.values():
            host.give_up()
        for _, group in self._groups():
            if not group.is_over:
                group.fail("interrupted", self.clock.now())
        await asyncio.gather(*map(self._abort_at, self.hosts.held.values()))
        # No agent will report the end of a group that it has not accepted.
        for experiment, group in self._groups():
            if not group.accepted and not group.complete and not group.held:
                self._end(experiment, group, "interrupted")

    async def _abort_at(self, host: HostConnection) -> None:
        try:
            async with asyncio.timeout(ABORT_S if self._is_in_haste else None):
                if host.lost is None:
                    await host.agent.abort()
        except TimeoutError:
            self._observer.warn(f"{host.name}: did not confirm that it ended its flows")
        except AgentError as error:
            self._observer.warn(error.message)
