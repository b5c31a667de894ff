"""A service that records its calls, and a value for every message."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address

from netesto.errors import AgentError, MissingError
from netesto.hostsettings import Applied, Setting
from netesto.model import (
    Address,
    AgentStatus,
    CaptureRequest,
    ClockReading,
    Event,
    FileEntry,
    FilePiece,
    FinishedExperiment,
    GroupRequest,
    HostInfo,
    HostState,
    InterfaceState,
    PathState,
    Ports,
    TimeSync,
    Unfetched,
)

STATUS = AgentStatus(
    holder="ann@desk pid 7",
    run="2026-11-20T121500.250Z",
    held_s=12.5,
    unfetched=(
        Unfetched(run="2026-11-19", exp=3, files=12, size_bytes=5 << 32, age_s=86_400.5),
        Unfetched(run="2026-11-19", exp=4, files=1, size_bytes=7, age_s=0.25),
    ),
    settings=("sysctl net.ipv4.tcp_ecn=1",),
    left=("qdisc eth0: another program changed it",),
)

STATE = HostState(
    is_synchronized=True,
    clock_error_s=0.25,
    clock_source="chronyd",
    disk_free_bytes=1 << 40,
    missing_commands=("ethtool",),
    management=("eth0",),
    interfaces=(
        InterfaceState(name="eth1", mtu_bytes=9000, is_up=True, offloads=("tso", "gro")),
        InterfaceState(name="lo", mtu_bytes=65536, is_up=False),
    ),
    paths=(PathState(peer="10.0.0.2", device="eth1", mtu_bytes=9000, answer="whole"),),
    refusals=("the disk is full",),
    setting_refusal="not root",
    capture_refusal="not root, either",
    longest_flow_s=0.5,
    most_flows=7,
    largest_capture_bytes=1e9,
)

INFO = HostInfo(
    host="h1",
    version="0.1.0",
    kernel="6.1.0",
    cpus=2,
    processors=(0, 3),
    memory_bytes=8 << 30,
    device="eth0",
    addresses=("192.0.2.1", "2001:db8::1"),
    tools={"netperf": "2.7.0"},
    congestion_controls=("cubic", "reno"),
    qdiscs=("pfifo", "tbf"),
)

REQUEST = GroupRequest(
    exp=3,
    group=1,
    exp_name="Two",
    test="TCP_STREAM",
    tool="netperf",
    client="h1",
    server="h2",
    client_address=ip_address("2001:db8::1"),
    server_address=ip_address("2001:db8::2"),
    duration_s=10.5,
    mss_bytes=1400,
)

TIME_SYNC = TimeSync(is_synchronized=True, error_s=0.001, source="chronyd")
PORTS = Ports(control=(12865,), data=(12900,))

HELD = Event(sequence=1, time_s=100.25, kind="held")


@dataclass(eq=False)
class RecordingService:
    """Keeps `asked`; tells `events` while it is held; has `files` by path.

    `announced` overrides what it says of its files, `content` comes with that, `error` is what
    configure raises. When a hold ends it sets `is_ending` and waits until `putting_back` is set, as
    it is unless cleared.
    """

    events: asyncio.Queue[Event | None] = field(default_factory=asyncio.Queue)
    files_by_path: dict[str, bytes] = field(default_factory=dict)
    announced: list[FileEntry] | None = None
    content: tuple[FilePiece, ...] = ()
    error: Exception | None = None
    asked: list[object] = field(default_factory=list)
    is_ending: asyncio.Event = field(default_factory=asyncio.Event)
    putting_back: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.putting_back.set()

    async def info(self) -> HostInfo:
        return INFO

    async def examine(self, peers: Sequence[Address], *, for_run: bool = False) -> HostState:
        self.asked.append(("examine", *map(str, peers), *(["for run"] if for_run else [])))
        return STATE

    async def status(self) -> AgentStatus:
        return STATUS

    async def hold(self, controller: str, run: str) -> AsyncGenerator[Event, None]:
        self.asked.append(("hold", controller, run))
        try:
            yield HELD
            while (event := await self.events.get()) is not None:
                yield event
        finally:
            self.is_ending.set()
            await self.putting_back.wait()
            self.asked.append("put back")
        raise AgentError("the agent was told to end")

    async def probe_clock(self) -> ClockReading:
        return ClockReading(12.5, 12.75)

    async def configure(self, setting: Setting) -> Applied:
        self.asked.append(setting)
        if self.error is not None:
            raise self.error
        return Applied(setting, "before", "after")

    async def take_stats(
        self, exp: int, order: int, *, tests: Sequence[str] = (), tools: Sequence[str] = ()
    ) -> None:
        self.asked.append(("take_stats", exp, order, tests, tools))

    async def expect(self, request: GroupRequest) -> Ports:
        self.asked.append(("expect", request))
        return PORTS

    async def forget(self, exp: int, group: int) -> None:
        self.asked.append(("forget", exp, group))

    async def start(self, request: GroupRequest, ports: Ports, start_at_s: float | None) -> None:
        self.asked.append(("start", request, ports, start_at_s))

    async def begin(self, exp: int, groups: Sequence[int], start_at_s: float) -> None:
        self.asked.append(("begin", exp, tuple(groups), start_at_s))

    async def start_capture(self, request: CaptureRequest) -> None:
        self.asked.append(request)

    async def finish(self, exp: int, *, with_time_sync: bool = False) -> FinishedExperiment:
        self.asked.append(("finish", exp))
        announced = self.announced
        if announced is None:
            announced = [
                FileEntry(path, len(content), hashlib.sha256(content).hexdigest())
                for path, content in self.files_by_path.items()
            ]
        time_sync = TIME_SYNC if with_time_sync else None
        return FinishedExperiment(tuple(announced), time_sync, self.content)

    async def fetch(self, exp: int, paths: Sequence[str]) -> AsyncGenerator[FilePiece, None]:
        for path in paths:
            if path not in self.files_by_path:
                raise MissingError(f"no file {path}")
            content = self.files_by_path[path]
            for part in filter(None, (content[:3], content[3:])):
                yield FilePiece(path, part)

    async def confirm(self, exp: int) -> None:
        self.asked.append(("confirm", exp))

    async def abort(self, exp: int | None = None) -> None:
        self.asked.append("abort" if exp is None else ("abort", exp))

    async def put_back(self) -> list[str]:
        return ["sysctl net.ipv4.tcp_ecn=1: not put back"]

    async def shut_down(self) -> None:
        self.asked.append("shut_down")
