"""Ask all agents at once for their state and that of their hosts, without holding them."""

import asyncio
import contextlib
import functools

from netesto.collectors.clock import Clock
from netesto.controller.host import Connect, clock_offset, in_time, status_of
from netesto.controller.inventory import Inventory
from netesto.controller.readiness import Peers, Visited
from netesto.errors import NetestoError

# Replies that wait for many others would make clocks look less exact than they are.
CLOCKS_AT_ONCE = 8


async def visit(inventory: Inventory, peers: Peers, *, connect: Connect) -> list[Visited]:
    """The state of every host of the inventory; each tries the paths to its `peers`. The result
    includes errors. A host has REPLY_S to identify itself, and the same time for the rest."""
    names = [*inventory.endpoints]
    one = functools.partial(
        _visit,
        inventory=inventory,
        peers=peers,
        connect=connect,
        known=asyncio.Barrier(len(names)),
        clock=Clock(),
        turns=asyncio.Semaphore(CLOCKS_AT_ONCE),
    )
    return list(await asyncio.gather(*map(one, names)))


async def _visit(
    name: str,
    *,
    inventory: Inventory,
    peers: Peers,
    connect: Connect,
    known: asyncio.Barrier,
    clock: Clock,
    turns: asyncio.Semaphore,
) -> Visited:
    endpoint = inventory.endpoints[name]
    try:
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with in_time(endpoint):
                    agent = await stack.enter_async_context(await connect(endpoint))
                    info = await agent.first_info()
                    endpoint = inventory.learn(name, info.addresses)
            except Exception:
                await known.wait()
                raise
            # The addresses of traffic are known when all hosts are.
            await known.wait()
            async with in_time(endpoint):
                state = await agent.examine(peers(inventory)[name])
                status = await status_of(agent)
                async with turns:
                    offset = await clock_offset(agent, clock)
    except NetestoError as error:
        return Visited(endpoint=endpoint, error=error)
    return Visited(endpoint=endpoint, info=info, clock=offset, state=state, status=status)
