"""A running agent, and a way to hold it."""

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import TypeAlias, cast

from netesto.model import Event
from netesto.transport.client import AgentClient, connect

# An agent answers in well under a second; this only keeps a broken test from hanging.
READY_TIMEOUT_S = 60


class HoldingClient(AgentClient):
    """A client, and the events of its hold."""

    events: AsyncIterator[Event]


@dataclass(frozen=True, slots=True)
class Daemon:
    """A running agent. `state` is its folder, `log` the file with its output. `held` holds it for
    `run`."""

    host: str
    child: Popen[bytes]
    address: str
    state: Path
    log: Path
    run: str = "run"

    @property
    def socket(self) -> Path:
        return Path(self.address.removeprefix("unix:"))

    @contextlib.asynccontextmanager
    async def held(self, run: str | None = None) -> AsyncIterator[HoldingClient]:
        """A connection that holds it, for `self.run` if no other is named."""
        async with await connect(self.address, host=self.host, timeout=READY_TIMEOUT_S) as agent:
            events = agent.hold("the test", self.run if run is None else run)
            async with contextlib.aclosing(events):
                await anext(events)
                holding = cast("HoldingClient", agent)
                holding.events = events
                yield holding


StartDaemon: TypeAlias = Callable[..., Daemon]
