"""Ask all agents at once for their state and that of their hosts, without holding them."""

import asyncio
import contextlib

from netesto.collectors.clock import Clock
from netesto.controller.host import Connect, clock_offset, in_time, status_of
from netesto.controller.inventory import Inventory
from netesto.controller.readiness import Peers, Visited
from netesto.errors import NetestoError
from netesto.model import Endpoint

# Replies that wait for many others would make clocks look less exact than they are.
CLOCKS_AT_ONCE = 8


async def visit(inventory: Inventory, peers: Peers, *, connect: Connect) -> list[Visited]:
    """The state of every host of the inventory; each tries the paths to its `peers`. The result
    includes errors. A host has REPLY_S to identify itself, and the same time for the rest."""
    clock = Clock()
    turns = asyncio.Semaphore(CLOCKS_AT_ONCE)
    known = asyncio.Barrier(len(inventory.endpoints))

    async def visited(endpoint: Endpoint) -> Visited:
        try:
            async with contextlib.AsyncExitStack() as stack:
                try:
                    async with in_time(endpoint):
                        agent = await stack.enter_async_context(await connect(endpoint))
                        info = await agent.first_info()
                        endpoint = inventory.learn(endpoint.host, info.addresses)
                except Exception:
                    await known.wait()
                    raise
                # The addresses of traffic are known when all hosts are.
                await known.wait()
                async with in_time(endpoint):
                    state = await agent.examine(peers(inventory)[endpoint.host])
                    status = await status_of(agent)
                    async with turns:
                        offset = await clock_offset(agent, clock)
        except NetestoError as error:
            return Visited(endpoint=endpoint, error=error)
        return Visited(endpoint=endpoint, info=info, clock=offset, state=state, status=status)

    return list(await asyncio.gather(*map(visited, [*inventory.endpoints.values()])))
