"""One experiment on one host: its flows and collectors, from its start to `finish`."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from netesto import emulator
from netesto.agent import middles, routes, spool
from netesto.agent.carried import CarriedLink, StateRecording
from netesto.agent.commands import Allowed
from netesto.agent.config import Config
from netesto.agent.group import GroupJob, preparation_s
from netesto.agent.jobs import Emit, Start
from netesto.agent.journal import Journal
from netesto.agent.limits import OF_LAB, AgentLimits
from netesto.agent.observation import Observation
from netesto.agent.spool import Spool
from netesto.agent.tools import Tools
from netesto.collectors import cgroup, hostfacts
from netesto.collectors.cgroup import Quota
from netesto.collectors.clock import Clock, SystemTime, words_of_step
from netesto.collectors.sampler import Sampler
from netesto.errors import AgentError
from netesto.flowspec import LINK_TESTS
from netesto.limits import amounts
from netesto.model import Event, EventKind, GroupRequest, Ports
from netesto.traffic.base import Tool
from netesto.traffic.ports import PortRange
from netesto.transport.codec import members

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Premises:
    """The resources of an agent in every hold. `device` is the interface it tests through: the one
    that was named for tests, which may carry the host's management, or else the one by which the
    peers of the present hold are reached; without peers that of the default route. `links` is the
    network namespace of a lab's links, "" outside of a lab; `nodes` those of its routers and its
    links, by name; `program_links` are those that a program carries. `machine_hosts` share one
    machine. `config` is the agent.toml as it is now; None in a lab."""

    host: str
    device: str
    folder: Path
    spool: Spool
    journal: Journal
    clock: Clock
    sampler: Sampler
    tools: Tools
    ports: PortRange
    links: str = ""
    commands: Mapping[str, Allowed] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)
    limits: AgentLimits = OF_LAB
    is_device_named: bool = False
    is_in_lab: bool = False
    machine_hosts: int = 1
    program_links: tuple[CarriedLink, ...] = ()
    config: Callable[[], Config] | None = None

    def renew(self) -> None:
        """Before a hold: follow a changed agent.toml, and forget the peers of the last hold."""
        if self.config is None:
            return
        now = self.config()
        self.limits, self.commands = now.limits, now.commands
        self.is_device_named = bool(now.device)
        self.device = now.device or routes.default_device()

    def check_interface(self, device: str, *, managing: Iterable[str]) -> None:
        """Whether a script may set the qdisc of `device`. The interfaces `managing` carry the
        host's management now: the default route may be newer than the agent."""
        own = () if self.is_device_named else managing
        self.limits.check_interface(device, managing=own, test=self.device)


class HostExperiment:
    """Experiment `exp`, with its files in `folder`. `hung` are programs that did not end in this or
    an earlier experiment. `changed` finds what is not as the run has set it."""

    def __init__(
        self,
        exp: int,
        folder: Path,
        premises: Premises,
        *,
        emit: Emit,
        hung: set[str],
        changed: Callable[[], Awaitable[Sequence[str]]],
    ) -> None:
        self.exp = exp
        self.folder = folder
        self._premises = premises
        self._clock = premises.clock
        self._emit = emit
        self._hung = hung
        self._changed = changed
        # Groups that are not complete, and those of them whose flows still run.
        self._groups: dict[int, asyncio.Task[None]] = {}
        self._flowing: set[int] = set()
        self._accepted: set[int] = set()
        # The instant of START_FLOWS, for groups that wait for it.
        self._starts: dict[int, tuple[GroupRequest, asyncio.Future[float]]] = {}
        # When the next staggered group may start that was to start at an instant.
        self._next_s: dict[float, float] = {}
        self._sizes: dict[int, int] = {}
        # How long before its flows the idle path is measured.
        self._idle_s = 0.0
        self._expected: dict[int, tuple[tuple[int, ...], float]] = {}
        self._reason = ""
        self._system = SystemTime(self._clock, self._on_step)
        # In a lab, where all share one machine, the controller looks at it.
        self._quota = None if premises.is_in_lab else Quota.now()
        folder.mkdir(parents=True, exist_ok=True)
        self._events = (folder / "events.jsonl").open("a", buffering=1)
        self.observation = Observation(
            folder,
            self._clock,
            premises.sampler,
            on_warning=self.warn,
            on_loss=self._lose,
        )
        self._recording = StateRecording(premises.program_links, self.folder)
        if self._system.ahead_s:
            self._keep_ahead()

    def keep(self, event: Event) -> None:
        """Add an event to the experiment's own."""
        if self._events.closed:
            return
        try:
            self._events.write(json.dumps(members(event), ensure_ascii=False) + "\n")
        except OSError as error:
            # The controller gets the event nevertheless.
            log.error("event not kept", extra={"exp": self.exp, "reason": error.strerror})  # noqa: TRY400 - the reason says it all

    def warn(self, text: str) -> None:
        """Report something that belongs on the experiment's page."""
        self._report("warning", text=text)

    def _lose(self, text: str) -> None:
        """Report why the experiment is partial."""
        self._report("lost", text=text)

    def _report(self, kind: EventKind, *, group: int = 0, text: str = "") -> None:
        now_s = self._clock.now()
        self._emit(Event(time_s=now_s, kind=kind, exp=self.exp, group=group, text=text))

    async def take_stats(self, order: int) -> None:
        """Take host statistics: `0/` are the first ones before, `1/` the last ones after; earlier
        ones after stay as `1.1/`, `1.2/` …"""
        if order not in (0, 1):
            raise AgentError(f"host statistics are taken before (0) or after (1), not {order}")
        place = self.folder / str(order)
        if order == 1:
            spool.set_aside(place)
        if not place.exists():
            for text in await self._changed():
                self._report("changed", text=text)
        of = self._premises
        try:
            late = await hostfacts.take(place, of.host, of.device, links=of.links, hung=self._hung)
        except OSError as error:
            raise AgentError(f"statistics of the host cannot be kept: {error.strerror}") from error
        if late:
            self.warn(
                f"'{late[0]}' did not end within {hostfacts.COMMANDS_TIMEOUT_S:g} s: statistics of"
                f" {of.host} are not complete, and {', '.join(sorted(self._hung))} is not run for"
                " them any more in this run"
            )

    async def start(
        self,
        request: GroupRequest,
        ports: Ports,
        start_at_s: float | None,
        *,
        tool: Tool,
        version: str,
    ) -> None:
        """Accept a group; it runs by itself from here on."""
        if request.group in self._accepted:
            raise AgentError(f"experiment {self.exp}: group {request.group} was started before")
        self._accepted.add(request.group)
        self._sizes[request.group] = amounts.flows_of(request)
        self._idle_s = max(self._idle_s, request.idle_s)
        if request.stats:
            await self.take_stats(0)
        self._look_at_time()
        device = routes.device_to(request.server_address, default=self._premises.device)
        link: tuple[str, ...] = ()
        if request.test in LINK_TESTS:
            emulator.program()
            ways = await middles.find(self._premises.links, device)
            link = tuple(emulator.words(*(way.settings for way in ways)))
        if request.group == 1:
            # For all groups: one agent is enough, and every experiment with flows has this one.
            for node, namespace in self._premises.nodes.items():
                await self.observation.watch_links(
                    request.interval_s, node=node, namespace=namespace
                )
            if request.test not in LINK_TESTS:
                await self._recording.begin(request.interval_s)
        # From here on nothing waits: what is aborted now is among the groups.
        if self._reason:
            raise AgentError(f"experiment {self.exp}: {self._reason}")
        begins = asyncio.get_running_loop().create_future()
        if start_at_s is None:
            self._starts[request.group] = request, begins
        else:
            begins.set_result(self._turn_s(request, start_at_s))
        start = Start(
            request=request,
            ports=ports,
            begins=begins,
            tool=tool,
            version=version,
            folder=self.folder,
            clock=self._clock,
            system=self._system,
            emit=self._emit,
            link=link,
        )
        group = GroupJob(start, device=device, observation=self.observation)
        self._report("accepted", group=request.group)
        self._flowing.add(request.group)
        task = asyncio.create_task(self._run(group), name=f"group {request.group}")
        self._groups[request.group] = task
        # Not the end of `_run`, which never begins if it is cancelled first.
        task.add_done_callback(lambda _: self._end(group))

    def begin(self, groups: Sequence[int], start_at_s: float) -> None:
        """Give waiting groups their start instant, and observe from shortly before it. Groups that
        have ended meanwhile do not start."""
        for group in groups:
            if group in self._groups and group in self._starts:
                request, begins = self._starts.pop(group)
                begins.set_result(self._turn_s(request, start_at_s))
        of = self._premises
        first_s = start_at_s - preparation_s(of.host, of.machine_hosts) - self._idle_s
        self.observation.begin(self._clock.monotonic_ns(first_s))

    def _turn_s(self, request: GroupRequest, start_at_s: float) -> float:
        """When the group's delay begins: after the staggered groups of the same instant."""
        instant_s = start_at_s + request.delay_s
        if not request.stagger_s:
            return start_at_s
        first_s = self._next_s.get(instant_s, instant_s)
        self._next_s[instant_s] = first_s + request.staggered_s[-1]
        return first_s - request.delay_s

    async def expect(self, request: GroupRequest, ports: Ports) -> None:
        """At the server: observe a group's sockets until `forget`."""
        record = {
            "request": members(request),
            "ports": members(ports),
            # The receiver of datagrams reports their arrival in monotonic time.
            "monotonic_zero_s": self._clock.at(0),
        }
        spool.write_json(self.folder / f"server.{request.group}.json", record)
        self._look_at_time()
        self._expected[request.group] = (ports.data, request.interval_s)
        self._sizes[request.group] = amounts.flows_of(request)
        self._idle_s = max(self._idle_s, request.idle_s)
        await self.observation.watch(
            ports.data, request.interval_s, test=request.test, is_held=request.is_held
        )
        await self.observation.watch_links(
            request.interval_s, group=request.group, peer=str(request.client_address)
        )

    def _look_at_time(self) -> None:
        # The hosts of a lab have one time: not all of them look at it all the time.
        if not self._premises.is_in_lab:
            self._system.begin()

    def _on_step(self, moved_s: float) -> None:
        self._keep_ahead()
        # In a lab, the controller reports it.
        if not self._premises.is_in_lab:
            self._lose(words_of_step(moved_s, self._clock.now()))

    def _keep_ahead(self) -> None:
        try:
            spool.write_json(self.folder / spool.CLOCK, {"system_ahead_s": self._system.ahead_s})
        except OSError as error:
            self._lose(f"{spool.CLOCK} cannot be kept: {error.strerror}")

    def forget(self, group: int) -> None:
        """At the server: the group has ended."""
        if group in self._expected:
            self.observation.unwatch(*self._expected.pop(group))

    @property
    def flows(self) -> int:
        """How many flows run and are expected here."""
        return sum(self._sizes[group] for group in {*self._groups, *self._expected})

    @property
    def expected(self) -> tuple[int, ...]:
        """The groups that are expected and not yet forgotten."""
        return tuple(self._expected)

    async def abort(self, reason: str) -> None:
        """End all flows and captures now; the flows fail for this reason, and no further group is
        accepted."""
        self._reason = reason
        tasks = list(self._groups.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.observation.end_captures()

    async def finish(self) -> None:
        """End all observation; nothing is written afterwards. AgentError while flows run."""
        if self._groups:
            groups = ", ".join(str(group) for group in self._groups)
            raise AgentError(f"experiment {self.exp}: flows of group {groups} still run")
        await self.observation.end()
        for text in await self._recording.end():
            self._lose(text)
        self._system.end()
        if not self._premises.is_in_lab and (said := cgroup.words(self._quota, Quota.now())):
            self.warn(said)
        with contextlib.suppress(OSError):
            # `keep` has logged what is missing.
            self._events.close()

    @property
    def is_finished(self) -> bool:
        return self._events.closed

    async def _run(self, group: GroupJob) -> None:
        """One group from its instant to its end, whatever happens in between."""
        number = group.request.group
        try:
            await group.run(self._why_ended)
            self._flowing.discard(number)
            if group.request.stats and not self._flowing:
                await self.take_stats(1)
        except Exception:  # the top of a task: nobody else would report it
            log.exception("group failed", extra={"exp": self.exp, "group": number})
            self.warn("internal error in the agent; its log has the details")

    def _end(self, group: GroupJob) -> None:
        number = group.request.group
        group.give_up(self._why_ended())
        self._flowing.discard(number)
        del self._groups[number]
        self._report("complete", group=number)

    def _why_ended(self) -> str:
        return self._reason or "ended by the controller"
