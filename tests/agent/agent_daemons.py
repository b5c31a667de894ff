"""A running agent, and a way to hold it."""

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import TypeAlias

from netesto.transport.client import AgentClient, connect

# An agent answers in well under a second; this only keeps a broken test from hanging.
READY_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Daemon:
    """A running agent. `state` is its folder, `log` the file with what it said."""

    host: str
    child: Popen[bytes]
    address: str
    state: Path
    log: Path

    @property
    def socket(self) -> Path:
        return Path(self.address.removeprefix("unix:"))

    @contextlib.asynccontextmanager
    async def held(self, run: str = "run") -> AsyncIterator[AgentClient]:
        """A connection that holds it; `events` of it are in the attribute of that name."""
        async with await connect(self.address, host=self.host, timeout=READY_TIMEOUT_S) as agent:
            events = agent.hold("the test", run)
            async with contextlib.aclosing(events):
                await anext(events)
                agent.events = events
                yield agent


StartDaemon: TypeAlias = Callable[..., Daemon]
