"""An agent calls itself, and ends if it does not answer; a service manager hears that it does. That
of a lab looks whether the event loop of each of its hosts runs.
"""

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Self, TypeVar

from netesto.errors import AgentError
from netesto.transport.addresses import UnixAddress
from netesto.transport.client import AgentClient

# One request can leave a server of gRPC deaf while its process lives on, and answers pings: since
# grpcio 1.84 a `:path` that is not UTF-8. Nothing of gRPC reports that.
_INTERVAL_S = 3.0
_MISSED_MAX = 2

# A reply takes milliseconds. The wait for it has steps, of which only one passes while this process
# is stopped, or too busy to read the reply.
_ANSWER_STEP_S, _ANSWER_STEPS = 0.1, 30

# An event loop that has run nothing for so many intervals is blocked. Of them, too, only one passes
# while this process is stopped; that of a host is blocked for milliseconds.
_LOOP_INTERVAL_S, _LOOP_SILENT_MAX = 5.0, 4

Host = TypeVar("Host", bound=Hashable)


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

    async def watch(self, address: UnixAddress) -> None:
        """Call the agent at its own socket, which is this process, and report each reply.
        AgentError after two calls in a row without one."""
        interval_s = min(_INTERVAL_S, self.watchdog_s / 2 or _INTERVAL_S)
        missed = 0
        # One connection: those of others may use up the agent's descriptors.
        async with AgentClient(address, host="") as agent:
            while True:
                if await _answers(agent):
                    missed = 0
                    if self.watchdog_s:
                        self.report("WATCHDOG=1")
                else:
                    missed += 1
                if missed == _MISSED_MAX:
                    raise AgentError(f"the agent did not answer {missed} calls of its own")
                await asyncio.sleep(interval_s)


async def blocked(
    loops: Callable[[], Mapping[Host, asyncio.AbstractEventLoop]],
    *,
    interval_s: float = _LOOP_INTERVAL_S,
) -> tuple[Host, float]:
    """Return the first host whose event loop is blocked, and for how many seconds at least. `loops`
    has those of the hosts that are served now; each has a thread of its own."""
    # Set by the loop; and how many intervals ago it was asked to.
    asked: dict[Host, tuple[threading.Event, int]] = {}
    while True:
        for host, loop in loops().items():
            has_run, silent = asked.get(host, (None, 0))
            if has_run is not None and not has_run.is_set():
                if silent == _LOOP_SILENT_MAX:
                    return host, silent * interval_s
                asked[host] = has_run, silent + 1
                continue
            has_run = threading.Event()
            asked[host] = has_run, 1
            try:
                loop.call_soon_threadsafe(has_run.set)
            except RuntimeError:
                # It has ended since.
                del asked[host]
        await asyncio.sleep(interval_s)


async def _answers(agent: AgentClient) -> bool:
    """Whether the agent answers a call."""
    call = asyncio.create_task(agent.probe_clock())
    try:
        for _ in range(_ANSWER_STEPS):
            done, _ = await asyncio.wait({call}, timeout=_ANSWER_STEP_S)
            if done:
                return call.exception() is None
    finally:
        call.cancel()
        await asyncio.wait({call})
    return False
