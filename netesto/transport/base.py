"""The interface between controller and agents: one Protocol for every transport.

A controller *holds* an agent for as long as its `hold` stream exists. When the stream ends, the
agent ends its flows, puts every setting back and keeps what it measured until `confirm`. A stream
whose connection is cut has not ended: it can be joined again within a lease. Every error, a lost
connection included, is an `AgentError` that names the host.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from netesto.hostsettings import Applied, Setting
from netesto.model import (
    Address,
    AgentStatus,
    CaptureRequest,
    ClockReading,
    Event,
    FilePiece,
    FinishedExperiment,
    GroupRequest,
    HostInfo,
    HostState,
    Ports,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Sent with each call of a holder: the number of the `call`, from 1 in each hold (0: none); the
    lowest number whose result is `pending`; the last event that it has `acknowledged`."""

    call: int = 0
    pending: int = 0
    acknowledged: int = 0


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """A place in the queue for an agent, by its `ticket`; `ahead` are the holder and those who came
    earlier. If empty, the agent is reserved for this place."""

    ticket: str
    ahead: tuple[str, ...]


class Agent(Protocol):
    """The calls of an agent. All except the first four need a hold."""

    async def info(self) -> HostInfo:
        """The host's facts and capabilities, and the holder of its agent."""

    async def probe_clock(self) -> ClockReading:
        """The agent's clock, to measure its offset."""

    async def examine(self, peers: Sequence[Address], *, for_run: bool = False) -> HostState:
        """The present state of the host, and of its paths to `peers`. Changes nothing; but with
        `for_run`, which needs a hold, the host tests from now on through the interface that leads
        to these peers, and waits until that is connected."""

    async def status(self) -> AgentStatus:
        """The holder of the agent, and what earlier runs left with it."""

    def hold(self, controller: str, run: str) -> AsyncGenerator[Event, None]:
        """Take the agent and yield its events, of which the first is `held`.

        `controller` names the holder to others ("user@host pid 123"). `run` names the run, whose
        files never mix with those of another. AgentBusyError if another controller holds the agent,
        AgentError if the agent ends the hold or is lost. Closing the generator
        (`contextlib.aclosing`) ends the hold and returns when all settings are put back.
        """

    async def configure(self, setting: Setting) -> Applied:
        """Make one setting, which is journaled first. AgentError with the reason if it fails and
        has changed nothing."""

    async def take_stats(
        self, exp: int, order: int, *, tests: Sequence[str] = (), tools: Sequence[str] = ()
    ) -> None:
        """Start the traffic servers of these tools that the tests need, if they do not run, and add
        the host's statistics before (order 0) or after (1) to the experiment's files."""

    async def expect(self, request: GroupRequest) -> Ports:
        """At the server: reserve ports for the group, start its servers, and sample its sockets
        until `forget`."""

    async def forget(self, exp: int, group: int) -> None:
        """At the server: the group has ended. Free its ports and complete its samples."""

    async def start(self, request: GroupRequest, ports: Ports, start_at_s: float | None) -> None:
        """At the client: run the group. Its delay counts from `start_at_s` on this agent's clock.
        Without it the group prepares, which the event `ready` reports, and waits for `begin`.
        Returns when it is accepted; events report the rest."""

    async def begin(self, exp: int, groups: Sequence[int], start_at_s: float) -> None:
        """At the client: let groups that wait start, at `start_at_s` on this agent's clock."""

    async def start_capture(self, request: CaptureRequest) -> None:
        """Capture packets for the experiment."""

    async def finish(self, exp: int, *, with_time_sync: bool = False) -> FinishedExperiment:
        """End samplers and captures, and complete the experiment's files; those that are small
        together come with their list."""

    def fetch(self, exp: int, paths: Sequence[str]) -> AsyncGenerator[FilePiece, None]:
        """The content of these files, one after the other, in pieces; an empty file has none."""

    async def confirm(self, exp: int) -> None:
        """The controller has all files of the experiment; the agent may remove its own."""

    async def abort(self, exp: int | None = None) -> None:
        """End the flows and captures of an experiment now, without it all, and keep what was
        measured."""

    async def put_back(self) -> list[str]:
        """End all flows and put every setting back before the hold ends, which would do the same;
        return a sentence for each that is not restored, such as one that somebody else has
        changed."""

    async def shut_down(self) -> None:
        """End the agent, as after a termination signal."""


class Connection(Agent, Protocol):
    """An agent at the end of a connection that may be cut and made again. `on_cut` is called with
    the reason when a cut is noticed, and with "" when the hold was joined again. Calls made
    meanwhile wait for that. `ticket` is that of our place in the agent's queue.
    """

    on_cut: Callable[[str], None]
    ticket: str

    async def first_info(self) -> HostInfo:
        """`info` of the instant at which the connection was made."""

    def queue(self, controller: str, run: str) -> AsyncGenerator[QueuePlace, None]:
        """Wait for the agent after those who came earlier: yield who is ahead whenever that
        changes. The place is lost when the generator is closed, or the connection."""

    @property
    def is_cut(self) -> bool:
        """Whether the connection of a hold is cut, and is being restored."""

    def give_up(self) -> None:
        """Stop joining: a present or later cut ends the hold with a ConnectionLostError."""
