"""An agent without a host: it accepts everything, and reports the events that a test chooses."""

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from netesto.collectors.clock import Clock
from netesto.controller.inventory import Inventory
from netesto.controller.run import RunNetwork, RunOnHosts
from netesto.errors import AgentBusyError, AgentError, HoldEndedError, MissingError, Place
from netesto.flowspec import FlowSpec
from netesto.grounds import GROUNDS
from netesto.hostsettings import Applied, Command, Setting, Sysctl
from netesto.language import steps
from netesto.model import (
    Address,
    AgentStatus,
    CaptureRequest,
    ClockReading,
    Endpoint,
    Event,
    FileEntry,
    FilePiece,
    FinishedExperiment,
    GroupRequest,
    HostInfo,
    HostState,
    InterfaceState,
    Ports,
    TimeSync,
    Unfetched,
)
from netesto.results.store import Store
from netesto.transport.base import QueuePlace

HERE = Place("a.nts", 1)
CONTENT = b"what was measured"
TIME_SYNC = TimeSync(is_synchronized=True, error_s=0.001, source="chronyd")


@dataclass
class ScriptedAgent:
    """Records calls by name. A started group ends well at once, unless `silent`.

    With `dies` its connection is lost when a flow is started; `deaf`, it never answers that one is,
    or that something is set; `frozen`, it answers neither an abort nor what comes after, and never
    says that it was let go.
    It `refuses` groups with these words, the remedy in a second line. It `lacks` what flows need
    that start there, a sysctl with this value, and a command of this name. It `stays` when it is to
    end. `gone`, nobody can hold it, or end its flows.
    The call `expires` finds, once, that the lease has ended. What others `altered` is no longer as
    it was set.
    """

    host: str
    silent: bool = False
    fails: str = ""
    dies: bool = False
    deaf: bool = False
    frozen: bool = False
    later_tools: Sequence[str] = ()
    announced: str = "log"
    content: bytes = CONTENT
    holder: str = ""
    # Who is shown as the holder, and ends before the next one begins.
    ending: str = ""
    identity: str = ""
    calls: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    events: "asyncio.Queue[Event | None]" = field(default_factory=asyncio.Queue)
    starts_s: list[float] = field(default_factory=list)
    held: dict[int, GroupRequest] = field(default_factory=dict)
    unready: bool = False
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    on_cut: Callable[[str], None] = lambda _: None
    is_cut: bool = False
    is_given_up: bool = False
    refuses: str = ""
    lacks: str = ""
    stays: bool = False
    gone: bool = False
    expires: str = ""
    ticket: str = ""
    waiting: list[str] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    unfetched: tuple[Unfetched, ...] = ()
    altered: tuple[str, ...] = ()
    # The value that all have before they are set.
    sysctl: str = "2"

    def let_go(self) -> None:
        """Nobody holds it any more, and waiting controllers are informed."""
        self.holder = ""
        self._note_change()

    def _note_change(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    async def queue(self, controller: str, run: str) -> AsyncGenerator[QueuePlace, None]:
        del controller
        self.waiting.append(run)
        told: tuple[str, ...] | None = None
        try:
            while True:
                changed = self.changed
                ahead = (*filter(None, [self.holder]), *self.waiting[: self.waiting.index(run)])
                if ahead != told:
                    told = ahead
                    yield QueuePlace(run, ahead)
                await changed.wait()
        finally:
            self.waiting.remove(run)
            self._note_change()

    def give_up(self) -> None:
        self.is_given_up = True

    async def first_info(self) -> HostInfo:
        return await self.info()

    async def info(self) -> HostInfo:
        return HostInfo(
            host=self.host,
            version="0.1.0",
            kernel="6.18.44",
            cpus=2,
            memory_bytes=1 << 30,
            device="eth0",
            addresses=(),
            tools={"netperf": "2.7.0", **dict.fromkeys(self.later_tools, "1")},
            congestion_controls=("cubic", "bbr"),
            qdiscs=("tbf",),
            holder=self.holder or self.ending,
            identity=self.identity,
        )

    async def hold(self, controller: str, run: str) -> AsyncGenerator[Event, None]:
        if self.gone:
            raise AgentError("connection refused", host=self.host)
        if self.holder:
            raise AgentBusyError(self.holder, host=self.host)
        if self.waiting and self.waiting[0] != self.ticket:
            raise AgentBusyError(self.waiting[0], host=self.host)
        self.holder = controller
        self._note_change()
        try:
            yield Event(sequence=1, time_s=time.time(), kind="held")
            while (event := await self.events.get()) is not None:
                yield event
        finally:
            self.let_go()
            await self._answers()
        raise AgentError("connection lost", host=self.host)

    async def probe_clock(self) -> ClockReading:
        now = time.time()
        return ClockReading(now, now)

    async def examine(self, peers: Sequence[Address], *, for_run: bool = False) -> HostState:
        del peers, for_run
        return HostState(
            is_synchronized=True,
            clock_error_s=0.001,
            clock_source="chronyd",
            disk_free_bytes=1 << 40,
            missing_commands=(),
            management=(),
            interfaces=(InterfaceState(name="eth0", mtu_bytes=1500, is_up=True),),
            paths=(),
        )

    async def status(self) -> AgentStatus:
        return AgentStatus(holder=self.holder, unfetched=self.unfetched)

    async def configure(self, setting: Setting) -> Applied:
        self.calls.append(f"configure {setting}")
        if self.deaf:
            self.asked.set()
            await asyncio.Event().wait()
        if isinstance(setting, Command) and setting.name == self.lacks:
            raise MissingError(f"{self.host}: command {setting.name}: not in this kernel")
        if isinstance(setting, Sysctl) and setting.value == self.lacks:
            raise MissingError(f"{self.host}: sysctl {setting.name}: not in this kernel")
        if isinstance(setting, Sysctl):
            return Applied(
                setting,
                self.sysctl,
                setting.value,
                time.time(),
                f"sysctl -w {setting.name}={self.sysctl}",
            )
        return Applied(setting, "", "")

    async def _expire_at(self, call: str) -> None:
        if self.expires == call:
            self.expires = ""
            changed = self.changed
            self.events.put_nowait(None)
            await changed.wait()
            raise HoldEndedError("the hold has ended", host=self.host)

    async def take_stats(
        self, exp: int, order: int, *, tests: Sequence[str] = (), tools: Sequence[str] = ()
    ) -> None:
        await self._expire_at("take_stats")
        servers = f" {' '.join(tests)} {' '.join(tools)}" if tools else ""
        self.calls.append(f"take_stats {exp} {order}{servers}")

    async def expect(self, request: GroupRequest) -> Ports:
        await self._expire_at("expect")
        if self.refuses:
            message, _, remedy = self.refuses.partition("\n")
            raise AgentError(message, host=self.host, remedy=remedy)
        self.calls.append(f"expect {request.exp} {request.group}")
        return Ports(control=(12865,) * request.instances, data=(12900,) * request.instances)

    async def forget(self, exp: int, group: int) -> None:
        self.calls.append(f"forget {exp} {group}")

    async def start(self, request: GroupRequest, ports: Ports, start_at_s: float | None) -> None:
        del ports
        if self.lacks:
            raise MissingError(f"{self.host}: {self.lacks}")
        self.calls.append(f"start {request.exp} {request.group}")
        self.asked.set()
        if start_at_s is None:
            self.held[request.group] = request
            if not self.unready:
                self.tell("ready", request.exp, request.group)
            return
        self.starts_s.append(start_at_s)
        if self.deaf:
            await asyncio.Event().wait()
        if self.dies:
            self.events.put_nowait(None)
        elif not self.silent:
            self.end(request)

    async def begin(self, exp: int, groups: Sequence[int], start_at_s: float) -> None:
        self.calls.append(f"begin {exp} {' '.join(map(str, groups))}")
        self.starts_s.append(start_at_s)
        for group in groups:
            if group in self.held:
                self.end(self.held.pop(group))

    def end(self, request: GroupRequest) -> None:
        """Report all events of the group's flows, as an agent does."""
        kinds = ["started", "failed" if self.fails else "ended"]
        for instance in range(1, request.instances + 1):
            for kind in kinds:
                self.tell(kind, request.exp, request.group, instance, text=self.fails)
        self.tell("complete", request.exp, request.group)

    def tell(
        self,
        kind: str,
        exp: int,
        group: int,
        instance: int = 0,
        text: str = "",
        time_s: float | None = None,
    ) -> None:
        event = Event(
            sequence=2,
            time_s=time.time() if time_s is None else time_s,
            kind=kind,  # type: ignore[arg-type]
            exp=exp,
            group=group,
            instance=instance,
            text=text,
        )
        self.events.put_nowait(event)

    async def start_capture(self, request: CaptureRequest) -> None:
        self.calls.append(f"start_capture {request.exp} {request.packets}")

    async def _answers(self) -> None:
        if self.frozen:
            await asyncio.Event().wait()

    async def finish(self, exp: int, *, with_time_sync: bool = False) -> FinishedExperiment:
        await self._answers()
        await self._expire_at("finish")
        self.calls.append(f"finish {exp}")
        digest = hashlib.sha256(self.content).hexdigest()
        entry = FileEntry(self.announced, len(self.content), digest)
        return FinishedExperiment(
            (entry,), TIME_SYNC if with_time_sync else None, changed=self.altered
        )

    async def fetch(self, exp: int, paths: Sequence[str]) -> AsyncGenerator[FilePiece, None]:
        del exp
        for path in paths:
            yield FilePiece(path, self.content)

    async def confirm(self, exp: int) -> None:
        await self._expire_at("confirm")
        self.calls.append(f"confirm {exp}")

    async def abort(self, exp: int | None = None) -> None:
        await self._answers()
        if self.gone:
            raise AgentError("the hold has ended", host=self.host)
        self.calls.append("abort" if exp is None else f"abort {exp}")

    async def put_back(self) -> list[str]:
        return self.left

    async def shut_down(self) -> None:
        self.calls.append("shut_down")
        if self.stays:
            raise AgentError("internal error of the agent", host=self.host)
        changed = self.changed
        self.events.put_nowait(None)
        await changed.wait()


class Watcher:
    """An observer that records its calls."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.left: list[str] = []
        self.said: list[str] = []
        self.ended: list[tuple[str, str]] = []
        self.warned = asyncio.Event()

    async def until(self, warning: str) -> None:
        """Wait for this message."""
        while warning not in self.warnings:
            self.warned.clear()
            await self.warned.wait()

    def echo(self, text: str) -> None: ...

    def say(self, text: str) -> None:
        self.said.append(text)

    def warn(self, text: str) -> None:
        self.warnings.append(text)
        self.warned.set()

    def setting_left(self, text: str) -> None:
        self.left.append(text)

    def experiment_started(self, exp: int, exp_name: str) -> None: ...

    def doing(self, text: str) -> None: ...

    def flow_accepted(
        self, exp: int, flow: str, *, start_s: float, duration_s: float | None
    ) -> None: ...

    def flow_progress(self, exp: int, flow: str, rate_bps: float) -> None: ...

    def flow_ended(self, exp: int, flow: str, status: str) -> None:
        del exp
        self.ended.append((flow, status))

    def experiment_ended(self, exp: int, status: str, rows: object, page: str) -> None: ...


@dataclass
class World:
    """A run over scripted agents a and b."""

    run: RunOnHosts
    agents: dict[str, ScriptedAgent]
    watcher: Watcher


def statuses(run: RunOnHosts) -> list[str]:
    """Of the flows of experiment 1."""
    return [flow.status for flow in run.progress.experiments[1].flows]


def world(
    folder: Path,
    *,
    ground: str = "lab",
    clock: Clock | None = None,
    others: Sequence[str] = (),
    **client: object,
) -> World:
    """Agents a (made with `client`'s options), b and `others`, and a run that uses them."""
    agents = {
        "a": ScriptedAgent("a", **client),  # type: ignore[arg-type]
        **{name: ScriptedAgent(name) for name in ("b", *others)},
    }
    endpoints = [
        Endpoint(host=name, agent="", addresses={4: ip_address(f"10.0.0.{number}")})
        for number, name in enumerate(agents, start=1)
    ]
    watcher = Watcher()

    async def connect(endpoint: Endpoint):
        return contextlib.nullcontext(agents[endpoint.host])

    run = RunOnHosts(
        inventory=Inventory(endpoints),
        store=Store(folder),
        connect=connect,
        observer=watcher,
        network=RunNetwork(ground=GROUNDS[ground], clock=clock or Clock()),
        name="test",
    )
    return World(run, agents, watcher)


def do_client(
    group: int = 1,
    *,
    exp: int = 1,
    hold: bool = False,
    between: tuple[str, str] = ("a", "b"),
    **options: object,
) -> steps.DoClient:
    """DO_CLIENT from a to b, or `between` others, with `options` of its flow."""
    plain: dict[str, object] = {
        "test": "TCP_STREAM",
        "congestion_control": "cubic",
        "duration_s": 1.0,
    }
    return steps.DoClient(
        name="DO_CLIENT",
        host=between[0],
        server=between[1],
        exp=exp,
        exp_name="x",
        group=group,
        arguments={},
        place=HERE,
        hold=hold,
        flow=FlowSpec(**plain | options),  # type: ignore[arg-type]
    )


def do_server(host: str) -> steps.DoServer:
    return steps.DoServer(
        name="DO_SERVER",
        host=host,
        order=0,
        start=True,
        exp=1,
        exp_name="x",
        arguments={},
        place=HERE,
    )


def set_sysctl(name: str, value: str, host: str = "a") -> steps.Configure:
    """SET_SYSCTL."""
    return steps.Configure(
        name="SET_SYSCTL",
        host=host,
        exp=0,
        exp_name="",
        arguments={},
        place=HERE,
        settings=(Sysctl(name, value),),
    )


def get_data(host: str) -> steps.GetData:
    return steps.GetData(name="GET_DATA", host=host, exp=1, exp_name="x", arguments={}, place=HERE)


def release(command: type[steps.Close] | type[steps.Exit], host: str) -> steps.Close | steps.Exit:
    """CLOSE or EXIT."""
    name = command.__name__.upper()
    return command(name=name, host=host, exp=1, exp_name="x", arguments={}, place=HERE)
