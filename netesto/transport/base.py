"""The border between controller and agents: one Protocol, whatever carries it.

A controller *holds* an agent for as long as its `hold` stream lives. Whatever ends the stream, the
agent ends the flows it runs, puts every setting back and forgets nothing it measured: files stay
until `confirm`. Any error is an `AgentError` that names the host; a lost connection is one too.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from netesto.model import (
    Applied,
    CaptureRequest,
    ClockReading,
    Event,
    FileEntry,
    FilePiece,
    GroupRequest,
    HostInfo,
    Ports,
    Setting,
)


class Agent(Protocol):
    """What an agent does for its controller. All but `info` and `probe_clock` need a hold."""

    async def info(self) -> HostInfo:
        """What the host is and can do, and who holds it."""

    def hold(self, controller: str, run: str) -> AsyncGenerator[Event, None]:
        """Take the agent and read what happens on it, from the first event (`held`) on.

        `controller` names the holder to others ("user@host pid 123"), `run` names the run: files
        of different runs never mix. AgentBusyError if another controller holds it. Closing the
        generator (`contextlib.aclosing`) ends the hold, and returns when all is put back.
        AgentError if the agent ends it or is lost.
        """

    async def probe_clock(self) -> ClockReading:
        """The agent's clock, for measuring its offset."""

    async def configure(self, setting: Setting) -> Applied:
        """Make one setting, journaled first. AgentError with the reason, nothing half done."""

    async def start_servers(self, tests: tuple[str, ...], tools: tuple[str, ...]) -> None:
        """Have the traffic servers that these tests need, running and listening."""

    async def take_stats(self, exp: int, order: int) -> None:
        """Keep the host's statistics before (order 0) or after (1) in the experiment's files."""

    async def expect(self, request: GroupRequest) -> Ports:
        """At the server: reserve ports for the group, have its servers listen, sample its sockets
        until `forget`."""

    async def forget(self, exp: int, group: int) -> None:
        """At the server: the group has ended; its ports are free, its samples are complete."""

    async def start(self, request: GroupRequest, ports: Ports, start_at_s: float | None) -> None:
        """At the client: run the group; its delay counts from `start_at_s` on this agent's clock
        (None: from when all is prepared, 0.1 s from now). Returns once it is accepted; the rest is
        told by events."""

    async def start_capture(self, request: CaptureRequest) -> None:
        """Capture packets for the experiment."""

    async def finish(self, exp: int) -> None:
        """Complete the experiment's files: samplers and captures end, nothing is written after."""

    async def files(self, exp: int) -> list[FileEntry]:
        """The experiment's files. Path `0/…` and `1/…`: host statistics; all others raw data."""

    def fetch(self, exp: int, paths: Sequence[str]) -> AsyncGenerator[FilePiece, None]:
        """The content of these files, one after the other, in pieces; an empty one has none."""

    async def confirm(self, exp: int) -> None:
        """The controller has the experiment's files whole; the agent may remove its own."""

    async def abort(self) -> None:
        """End all flows and captures now; what was measured stays."""

    async def shut_down(self) -> None:
        """End the agent, as after a termination signal."""
