"""Waiting for hosts that other controllers hold.

Each agent has a queue, first come, first served. A controller that needs several agents waits for
one after the other, in an order that is the same for all controllers: so no two wait for each
other, in whatever order they name their hosts, and nobody overtakes them.
"""

import asyncio
import contextlib
import math
from collections.abc import AsyncGenerator, Iterable

from netesto.controller.host import Connect, holder
from netesto.controller.hosts import Hosts
from netesto.controller.observer import Observer
from netesto.errors import AgentBusyError, NetestoError
from netesto.model import Endpoint
from netesto.transport.base import Connection, QueuePlace


async def until_held(hosts: Hosts, observer: Observer, *, timeout_s: float) -> None:
    """Hold all hosts when they are free, in the order in which controllers asked.
    AgentBusyError after `timeout_s` seconds; hosts that cannot be held for another reason are left
    out."""
    busy = await hosts.hold_free({})
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_s
    while busy:
        await hosts.close_all()
        queues = _Queues(hosts.connect, observer, hosts.run)
        async with queues:
            try:
                async with asyncio.timeout_at(None if math.isinf(deadline_s) else deadline_s):
                    tickets = await queues.tickets(hosts.inventory.endpoints.values())
            except TimeoutError:
                raise AgentBusyError(
                    queues.first or busy[0][1].holder,
                    host=queues.host or busy[0][0].host,
                    remedy=f"It was not free within {timeout_s:g} s; --wait without a time waits"
                    " on.",
                ) from None
            busy = await hosts.hold_free(tickets)


class _Queues(contextlib.AsyncExitStack):
    """Places in the queues of agents, until the context is left. `first` is the controller before
    us, at `host`."""

    def __init__(self, connect: Connect, observer: Observer, run: str) -> None:
        super().__init__()
        self.first = self.host = ""
        self._connect = connect
        self._observer = observer
        self._run = run
        self._shown_text = ""

    async def tickets(self, endpoints: Iterable[Endpoint]) -> dict[str, str]:
        """Wait for our turn at each agent that responds."""
        reached = await asyncio.gather(*map(self._reach, endpoints))
        found = {}
        for _, host, agent in sorted(filter(None, reached), key=lambda each: each[:2]):
            places = agent.queue(holder(), self._run)
            await self.enter_async_context(contextlib.aclosing(places))
            with contextlib.suppress(NetestoError):
                found[host] = await self._turn(host, places)
        return found

    async def _reach(self, endpoint: Endpoint) -> tuple[str, str, Connection] | None:
        """The agent of a host, with its key in the order of waiting."""
        try:
            agent = await self.enter_async_context(await self._connect(endpoint))
            return (await agent.first_info()).identity, endpoint.host, agent
        except NetestoError:
            return None

    async def _turn(self, host: str, places: AsyncGenerator[QueuePlace, None]) -> str:
        async for place in places:
            if not place.ahead:
                return place.ticket
            self.host, self.first, others = host, place.ahead[0], len(place.ahead) - 1
            text = f"waiting: {host}: in use by {self.first}"
            text += f", and {others} more before us" if others else ""
            if text != self._shown_text:
                self._observer.say(text)
                self._shown_text = text
            self._observer.doing(text)
        raise AssertionError("a queue has no end")
