"""Ask all agents at once for their state and that of their hosts, without holding them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import psutil

from netesto.collectors.clock import Clock, ClockTrack
from netesto.controller.host import Connect, clock_offset
from netesto.controller.inventory import Inventory
from netesto.controller.readiness import Peers, Visited
from netesto.errors import AgentError, NetestoError
from netesto.model import Endpoint

# Replies that wait for many others would make clocks look less exact than they are.
CLOCKS_AT_ONCE = 8

# Beginning ssh takes some 80 ms of a processor for each host: with less rest than this share of the
# time, the hosts may be well.
LEAST_REST = 0.1
SLOW_HERE = (
    " This machine's processors were busy all the time: if many hosts do not answer, name fewer"
    " at once."
)

# The maximum delay by a dead host; a host that is this slow would not be measured well either. As
# long as this machine's processors have no rest, it has so much more each time, up to the longest.
REPLY_S, MORE_S, LONGEST_REPLY_S = 3.0, 1.0, 10.0
# Before the end of that time, it is decided if there is more.
DECISION_S = 0.02


async def visit(inventory: Inventory, peers: Peers, *, connect: Connect) -> list[Visited]:
    """The state of every host of the inventory; each tries the paths to its `peers`. The result
    includes errors. A host has REPLY_S to identify itself, and the same time for its state, and for
    its clock."""
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
                    status = await agent.status()
                async with turns, in_time(endpoint):
                    offset = await clock_offset(agent, clock, ClockTrack())
        except NetestoError as error:
            return Visited(endpoint=endpoint, error=error)
        info = replace(info, device=state.device or info.device)
        return Visited(endpoint=endpoint, info=info, clock=offset, state=state, status=status)

    return list(await asyncio.gather(*map(visited, [*inventory.endpoints.values()])))


async def ask(inventory: Inventory, *, connect: Connect) -> list[Visited]:
    """The status of every agent of the inventory alone, or the error instead."""

    async def visited(endpoint: Endpoint) -> Visited:
        try:
            async with in_time(endpoint), await connect(endpoint) as agent:
                return Visited(endpoint=endpoint, status=await agent.status())
        except NetestoError as error:
            return Visited(endpoint=endpoint, error=error)

    return list(await asyncio.gather(*map(visited, inventory.endpoints.values())))


@contextlib.asynccontextmanager
async def in_time(endpoint: Endpoint) -> AsyncIterator[None]:
    """AgentError if the body takes longer than REPLY_S, or than LONGEST_REPLY_S on a machine whose
    processors have no rest, as with ssh to very many hosts at once."""
    loop = asyncio.get_running_loop()
    begun_s, given_s, before = loop.time(), REPLY_S, psutil.cpu_times()
    limit = asyncio.timeout(given_s)
    decision: asyncio.TimerHandle

    def decide() -> None:
        nonlocal given_s, before, decision
        now = psutil.cpu_times()
        if given_s < LONGEST_REPLY_S and had_no_rest(before, now):
            given_s, before = given_s + MORE_S, now
            limit.reschedule(begun_s + given_s)
            decision = next_decision()

    def next_decision() -> asyncio.TimerHandle:
        return loop.call_at(begun_s + given_s - DECISION_S, decide)

    decision = next_decision()
    try:
        async with limit:
            yield
    except TimeoutError:
        raise AgentError(
            f"agent unreachable at {endpoint.agent}: no answer within {given_s:g} s",
            host=endpoint.host,
            remedy="Is the host up, and its agent running?"
            f"{SLOW_HERE if given_s > REPLY_S else ''}",
        ) from None
    finally:
        decision.cancel()


def had_no_rest(before: Sequence[float], after: Sequence[float]) -> bool:
    """Whether this machine's processors were hardly idle between two `psutil.cpu_times()`."""
    spent = [late - early for early, late in zip(before, after, strict=True)]
    # user nice system idle iowait …
    return sum(spent[3:5]) < LEAST_REST * sum(spent)
