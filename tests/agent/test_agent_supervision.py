"""A host whose event loop is blocked is found. Calls of the agent to itself: test_agent_daemon."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from netesto.agent import supervision

INTERVAL_S = 0.01


@pytest.fixture
def stuck() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop that waits for something outside of it."""
    loop = asyncio.new_event_loop()
    are_over, is_stuck = threading.Event(), threading.Event()

    def wait() -> None:
        is_stuck.set()
        are_over.wait()
        loop.stop()

    loop.call_soon(wait)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    is_stuck.wait()
    yield loop
    are_over.set()
    thread.join()
    loop.close()


def test_the_host_whose_event_loop_is_blocked_is_found_among_others(stuck):
    async def find() -> tuple[str, float]:
        loops = {"own": asyncio.get_running_loop(), "stuck": stuck}
        return await supervision.blocked(lambda: loops, interval_s=INTERVAL_S)

    assert asyncio.run(find()) == ("stuck", 4 * INTERVAL_S)


def test_an_event_loop_that_has_ended_is_not_blocked(stuck):
    async def find() -> tuple[str, float]:
        ended = asyncio.new_event_loop()
        ended.close()
        loops = {"ended": ended, "stuck": stuck}
        return await supervision.blocked(lambda: loops, interval_s=INTERVAL_S)

    assert asyncio.run(find()) == ("stuck", 4 * INTERVAL_S)


def test_a_host_that_is_not_served_any_more_is_not_watched(stuck):
    looks = 0

    async def find() -> tuple[str, float]:
        def loops() -> dict[str, asyncio.AbstractEventLoop]:
            nonlocal looks
            looks += 1
            # The first one ends before it is missed.
            return {"first": stuck} if looks < 4 else {"second": stuck}

        return await supervision.blocked(loops, interval_s=INTERVAL_S)

    assert asyncio.run(find()) == ("second", 4 * INTERVAL_S)
