"""Waiting for hosts that other controllers hold.

Nobody waits for one host while they hold another: who finds one in use lets all others go, waits
until it is free, and tries all again. So no two wait for each other, in whatever order they name
their hosts. Agents have no list of who waits; but who has waited longer looks more often.
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from netesto.controller.host import Connect
from netesto.controller.observer import Observer
from netesto.errors import AgentBusyError
from netesto.model import Endpoint

# Between two looks at a host that is in use: at first, after these seconds half of it, and so on.
LOOK_S, HALVED_AFTER_S, LOOK_MIN_S = 1.0, 10.0, 0.1


class Holder(Protocol):
    """What holds hosts (controller.run.Run)."""

    async def hold_free(self) -> Sequence[tuple[Endpoint, AgentBusyError]]:
        """Hold all hosts but those that are in use; these, with the errors that say by whom."""

    async def close_all(self) -> None:
        """Let all hosts go."""


async def until_held(
    holder: Holder,
    connect: Connect,
    observer: Observer,
    *,
    timeout_s: float,
    chance: Callable[[], float] = random.random,
) -> None:
    """Hold all hosts, as soon as none of them is in use by others. AgentBusyError after
    `timeout_s` seconds; hosts that cannot be held for another reason are left out."""
    begun_s = time.monotonic()
    told = ""
    while busy := await holder.hold_free():
        await holder.close_all()
        text = "; ".join(error.message for _, error in busy)
        endpoint, error = busy[0]
        if time.monotonic() - begun_s >= timeout_s:
            raise AgentBusyError(
                error.holder,
                host=endpoint.host,
                remedy=f"It was not free within {timeout_s:g} s; --wait without a time waits on.",
            )
        if text != told:
            observer.say(f"waiting: {text}")
            told = text
        observer.doing(f"waiting: {text}")
        await _until_free(endpoint, connect, begun_s, timeout_s=timeout_s, chance=chance)


async def _until_free(
    endpoint: Endpoint,
    connect: Connect,
    begun_s: float,
    *,
    timeout_s: float,
    chance: Callable[[], float],
) -> None:
    """Look at an agent until nobody holds it, or the time is over."""
    async with await connect(endpoint) as agent:
        while True:
            waited_s = time.monotonic() - begun_s
            pause_s = max(LOOK_MIN_S, LOOK_S / (1 + waited_s / HALVED_AFTER_S))
            # By chance, for two that let go of what the other one wants must not meet again.
            pause_s *= 0.5 + chance()
            await asyncio.sleep(max(0.0, min(pause_s, timeout_s - waited_s)))
            if waited_s >= timeout_s or not (await agent.info()).holder:
                return
