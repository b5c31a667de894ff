"""Reports of an agent to the service manager: that it is ready, and that it still responds."""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Self

from netesto.errors import NetestoError
from netesto.transport.client import connect

log = logging.getLogger(__name__)

# The agent responds to its own call within milliseconds.
_ANSWER_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Manager:
    """A service manager (sd_notify(3)). `address` is "" without one; it wants a report at least
    every `watchdog_s` seconds, 0 for none."""

    address: str
    watchdog_s: float

    @classmethod
    def of_environment(cls) -> Self:
        """The one that started this process; our children must not report to it."""
        watchdog_us = int(os.environ.pop("WATCHDOG_USEC", "0"))
        return cls(os.environ.pop("NOTIFY_SOCKET", ""), watchdog_us / 1e6)

    def report(self, state: str) -> None:
        """Report `READY=1` or another state, if there is a manager."""
        if self.address:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
                # A leading @ stands for the NUL byte of an abstract address.
                is_abstract = self.address.startswith("@")
                manager.connect("\0" + self.address[1:] if is_abstract else self.address)
                manager.send(state.encode())

    @contextlib.asynccontextmanager
    async def watching(self, agent: object) -> AsyncIterator[None]:
        """While the body runs, call the agent at the address `agent`, which is this process, and
        report that it answered; if it does not, the manager starts another."""
        if not self.watchdog_s:
            yield
            return
        calls = asyncio.create_task(self._call(str(agent)))
        try:
            yield
        finally:
            calls.cancel()
            await asyncio.wait({calls})

    async def _call(self, address: str) -> None:
        try:
            # One connection: those of others may use up the agent's descriptors.
            async with await connect(address, host="", timeout=_ANSWER_TIMEOUT_S) as agent:
                while True:
                    await agent.probe_clock()
                    self.report("WATCHDOG=1")
                    await asyncio.sleep(self.watchdog_s / 2)
        except NetestoError as error:
            log.error("the agent does not answer its own calls", extra={"reason": str(error)})  # noqa: TRY400 - the reason says it all
