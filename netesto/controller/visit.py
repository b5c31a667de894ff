"""Ask agents what they and their hosts are, all at once and without holding them."""

import asyncio
from collections.abc import Mapping, Sequence

from netesto.collectors.clock import Clock
from netesto.controller.host import Connect, clock_offset
from netesto.controller.inventory import Inventory
from netesto.controller.readiness import Visited
from netesto.errors import AgentError, NetestoError
from netesto.model import Address, Endpoint

# A dead host costs no more; one that is only slow is not measured well either.
VISIT_S = 3.0

# Answers that wait for those of many others would make clocks look less exact than they are.
CLOCKS_AT_ONCE = 8


async def visit(
    inventory: Inventory, peers: Mapping[str, Sequence[Address]], *, connect: Connect
) -> list[Visited]:
    """What every host of the inventory is now, within VISIT_S; each tries the paths to its `peers`.
    Errors are among what is told."""
    clock, turns = Clock(), asyncio.Semaphore(CLOCKS_AT_ONCE)
    return list(
        await asyncio.gather(
            *(
                _visit(endpoint, peers[endpoint.host], connect, clock, turns)
                for endpoint in inventory.endpoints.values()
            )
        )
    )


async def _visit(
    endpoint: Endpoint,
    peers: Sequence[Address],
    connect: Connect,
    clock: Clock,
    turns: asyncio.Semaphore,
) -> Visited:
    try:
        async with asyncio.timeout(VISIT_S), await connect(endpoint) as agent:
            info = await agent.info()
            state = await agent.examine(peers)
            async with turns:
                offset = await clock_offset(agent, clock)
    except TimeoutError:
        reason = f"agent unreachable at {endpoint.agent}: no answer within {VISIT_S:g} s"
        remedy = "Is the host up, and its agent running?"
        return Visited(endpoint=endpoint, error=AgentError(reason, remedy=remedy))
    except NetestoError as error:
        return Visited(endpoint=endpoint, error=error)
    return Visited(endpoint=endpoint, info=info, clock=offset, state=state)
