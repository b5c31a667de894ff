"""A hold outlives its connection: over a cut nothing is lost, and nothing is done twice."""

import asyncio
import contextlib
import itertools
from contextlib import aclosing
from pathlib import Path

import pytest
from cuttable_wires import CuttableWire, in_memory, over_sockets
from recording_service import HELD, PORTS, REQUEST, RecordingService
from transport_wires import held

from netesto.errors import AgentBusyError, AgentError, ConnectionLostError, HoldEndedError
from netesto.model import Event, FinishedExperiment, Ports
from netesto.transport.base import Stamp
from netesto.transport.client import AgentClient
from netesto.transport.gate import CALLS_MAX, CONNECTIONS_MAX, EVENTS_MAX, Gate
from netesto.transport.holding import Holding

# These are settled by events; the deadline only keeps a broken test from hanging.
DEADLINE_S = 60


@pytest.fixture(params=[in_memory, over_sockets], ids=["memory", "unix"])
def wire(request: pytest.FixtureRequest) -> CuttableWire:
    return request.param


def event(number: int, kind: str = "started") -> Event:
    return Event(sequence=number, time_s=100.0 + number, kind=kind, exp=1, group=1)  # type: ignore[arg-type]


async def test_events_go_on_after_a_cut(wire: CuttableWire, tmp_path: Path):
    service = RecordingService()
    async with (
        wire(service, tmp_path) as there,
        aclosing(there.agent.hold("ann", "run")) as events,
    ):
        got = [await anext(events)]
        there.wire.cut()
        there.wire.mend()
        service.events.put_nowait(event(2))
        got.append(await asyncio.wait_for(anext(events), DEADLINE_S))
    assert (got, service.asked) == ([HELD, event(2)], [("hold", "ann", "run"), "put back"])


async def test_an_event_of_the_cut_comes_after_it(wire: CuttableWire, tmp_path: Path):
    service = RecordingService()
    async with wire(service, tmp_path) as there, held(there.agent) as events:
        there.wire.cut()
        service.events.put_nowait(event(2))
        coming = asyncio.ensure_future(anext(events))
        done, _ = await asyncio.wait({coming}, timeout=0.1)
        there.wire.mend()
        assert (done, await asyncio.wait_for(coming, DEADLINE_S)) == (set(), event(2))


async def test_progress_of_the_cut_is_left_out(wire: CuttableWire, tmp_path: Path):
    service = RecordingService()
    async with wire(service, tmp_path) as there, held(there.agent) as events:
        there.wire.cut()
        coming = asyncio.ensure_future(anext(events))
        await asyncio.wait({coming}, timeout=0.1)
        service.events.put_nowait(event(2, "progress"))
        service.events.put_nowait(event(3))
        await asyncio.sleep(0)
        there.wire.mend()
        assert await asyncio.wait_for(coming, DEADLINE_S) == event(3)


class Slow(RecordingService):
    """Answers `expect` when it may."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.asked_to_expect = asyncio.Event()
        self.may = asyncio.Event()

    async def expect(self, request) -> Ports:
        self.asked_to_expect.set()
        await self.may.wait()
        return await super().expect(request)


async def test_a_call_into_the_cut_is_answered_after_it_and_carried_out_once(
    wire: CuttableWire, tmp_path: Path
):
    service = Slow()
    async with wire(service, tmp_path) as there, held(there.agent) as events:
        reading = asyncio.ensure_future(anext(events))
        expecting = asyncio.ensure_future(there.agent.expect(REQUEST))
        await asyncio.wait_for(service.asked_to_expect.wait(), DEADLINE_S)
        there.wire.cut()
        await asyncio.wait({expecting}, timeout=0.1)
        service.may.set()
        there.wire.mend()
        ports = await asyncio.wait_for(expecting, DEADLINE_S)
        reading.cancel()
        await asyncio.wait({reading})
    asked = [each for each in service.asked if each == ("expect", REQUEST)]
    assert (ports, asked) == (PORTS, [("expect", REQUEST)])


async def test_a_call_made_during_the_cut_waits_for_its_end(wire: CuttableWire, tmp_path: Path):
    service = RecordingService()
    async with wire(service, tmp_path) as there, held(there.agent) as events:
        reading = asyncio.ensure_future(anext(events))
        there.wire.cut()
        finishing = asyncio.ensure_future(there.agent.finish(3))
        done, _ = await asyncio.wait({finishing}, timeout=0.3)
        there.wire.mend()
        await asyncio.wait_for(finishing, DEADLINE_S)
        reading.cancel()
        await asyncio.wait({reading})
    assert (done, service.asked[1]) == (set(), ("finish", 3))


async def test_the_lease_ends_a_hold_that_is_not_joined_again(wire: CuttableWire, tmp_path: Path):
    service = RecordingService()
    async with wire(service, tmp_path, lease_s=0.05) as there, held(there.agent) as events:
        coming = asyncio.ensure_future(anext(events))
        there.wire.cut()
        await asyncio.wait_for(service.is_ending.wait(), DEADLINE_S)
        there.wire.mend()
        with pytest.raises(HoldEndedError, match=r"^h1: the hold has ended"):
            await asyncio.wait_for(coming, DEADLINE_S)


async def test_a_call_fails_for_the_end_of_its_hold_when_the_reader_of_events_knows_of_it():
    may = asyncio.Event()

    async def join(token: str, seen: int):
        del token, seen
        yield "token", HELD
        await may.wait()
        raise HoldEndedError("the hold has ended")

    async def ask(stamp: Stamp) -> None:
        raise HoldEndedError(f"call {stamp.call}: the hold has ended")

    holding = Holding(join, patience_s=DEADLINE_S)
    events = holding.events()
    await anext(events)
    reading = asyncio.ensure_future(anext(events))
    calling = asyncio.ensure_future(holding.call(ask))
    done, _ = await asyncio.wait({calling}, timeout=0.1)
    may.set()
    outcomes = await asyncio.wait_for(
        asyncio.gather(reading, calling, return_exceptions=True), DEADLINE_S
    )
    assert (done, list(map(str, outcomes))) == (
        set(),
        ["the hold has ended", "call 1: the hold has ended"],
    )


async def test_a_call_that_is_not_answered_in_time_is_repeated_once_and_carried_out_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("netesto.transport.client._WORK_S", 1.0)
    service = Slow()
    async with over_sockets(service, tmp_path) as there, held(there.agent):
        asked = 0
        call = there.gate.call

        async def counted(token: str, stamp: Stamp, work, *, keep: bool):
            nonlocal asked
            asked += 1
            if asked == 2:
                service.may.set()
            return await call(token, stamp, work, keep=keep)

        monkeypatch.setattr(there.gate, "call", counted)
        ports = await there.agent.expect(REQUEST)
    carried_out = [each for each in service.asked if each == ("expect", REQUEST)]
    assert (ports, asked, carried_out) == (PORTS, 2, [("expect", REQUEST)])


async def test_an_experiment_that_an_agent_never_ends_is_an_error_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class Silent(RecordingService):
        async def finish(self, exp: int, *, with_time_sync: bool = False) -> FinishedExperiment:
            return await asyncio.get_running_loop().create_future()

    for name in ("_FILES_S", "_QUICK_S"):
        monkeypatch.setattr(f"netesto.transport.client.{name}", 0.2)
    async with over_sockets(Silent(), tmp_path) as there, held(there.agent):
        with pytest.raises(AgentError, match=r"^h1: no reply in time$"):
            await asyncio.wait_for(there.agent.finish(3), DEADLINE_S)


async def test_a_cut_is_an_error_when_the_patience_ends(wire: CuttableWire, tmp_path: Path):
    async with (
        wire(RecordingService(), tmp_path, patience_s=0.3) as there,
        held(there.agent) as events,
    ):
        there.wire.cut()
        with pytest.raises(ConnectionLostError, match=r"^h1: connection lost: "):
            await asyncio.wait_for(anext(events), DEADLINE_S)


async def test_a_hold_that_is_given_up_does_not_wait_for_the_end_of_a_cut(
    wire: CuttableWire, tmp_path: Path
):
    async with wire(RecordingService(), tmp_path, patience_s=3600.0) as there:
        events = there.agent.hold("ann", "run")
        await anext(events)
        there.wire.cut()
        coming = asyncio.ensure_future(anext(events))
        finishing = asyncio.ensure_future(there.agent.finish(3))
        await asyncio.wait({coming, finishing}, timeout=0.3)
        there.agent.give_up()
        outcomes = await asyncio.wait_for(
            asyncio.gather(coming, finishing, return_exceptions=True), DEADLINE_S
        )
    assert [type(each) for each in outcomes] == [ConnectionLostError, ConnectionLostError]


async def test_another_controller_waits_while_nothing_is_heard_of_the_holder():
    gate = Gate(RecordingService(), lease_s=0.1)
    first = gate.hold("ann", "1")
    await anext(first)
    await first.aclose()
    _, begun = await asyncio.wait_for(anext(gate.hold("bob", "2")), DEADLINE_S)
    assert (begun, (await gate.info()).holder) == (HELD, "bob")


async def test_another_controller_is_refused_when_the_holder_is_back():
    gate = Gate(RecordingService())
    first = gate.hold("ann", "1")
    token, _ = await anext(first)
    await first.aclose()
    waiting = asyncio.ensure_future(anext(gate.hold("bob", "2")))
    await asyncio.wait({waiting}, timeout=0.05)
    again = gate.rejoin(token, 1)
    assert await anext(again) == (token, None)
    with pytest.raises(AgentBusyError, match="in use by ann"):
        await asyncio.wait_for(waiting, DEADLINE_S)
    await gate.release(token)


async def test_results_are_kept_until_the_holder_has_them():
    service = RecordingService()
    gate = Gate(service)
    holding = gate.hold("ann", "1")
    token, _ = await anext(holding)

    async def work() -> str:
        service.asked.append("work")
        return "done"

    answers = [
        await gate.call(token, Stamp(call=1, pending=1), work),
        await gate.call(token, Stamp(call=1, pending=1), work),
        await gate.call(token, Stamp(call=2, pending=2), work),
        await gate.call(token, Stamp(call=1, pending=1), work),
    ]
    worked = service.asked.count("work")
    await gate.release(token)
    assert (answers, worked) == (["done"] * 4, 3)


async def test_files_that_came_with_their_list_are_not_kept_but_read_again():
    service = RecordingService()
    gate = Gate(service)
    token, _ = await anext(holding := gate.hold("ann", "1"))
    may_end = asyncio.Event()

    async def work() -> str:
        service.asked.append("work")
        await may_end.wait()
        return "files"

    def finish() -> "asyncio.Task[str]":
        stamp = Stamp(call=1, pending=1)
        return asyncio.create_task(gate.call(token, stamp, work, keep=False))

    # The second request joins the first one, which is not over; the third comes afterwards.
    together = [finish(), finish()]
    await asyncio.sleep(0)
    may_end.set()
    answers = [await each for each in together]
    answers.append(await finish())
    worked = service.asked.count("work")
    await gate.release(token)
    await holding.aclose()
    assert (answers, worked) == (["files"] * 3, 2)


async def test_calls_without_a_number_are_all_carried_out():
    gate = Gate(RecordingService())
    token, _ = await anext(holding := gate.hold("ann", "1"))
    numbers = itertools.count()

    async def work() -> int:
        return next(numbers)

    answers = [await gate.call(token, Stamp(), work) for _ in range(3)]
    await gate.release(token)
    await holding.aclose()
    assert answers == [0, 1, 2]


async def test_a_holder_that_takes_no_results_is_refused_more_calls():
    gate = Gate(RecordingService())
    token, _ = await anext(holding := gate.hold("ann", "1"))

    async def work() -> str:
        return "done"

    for number in range(1, CALLS_MAX + 1):
        await gate.call(token, Stamp(call=number), work)
    with pytest.raises(AgentError, match="refused: the results of 10000 calls"):
        await gate.call(token, Stamp(call=CALLS_MAX + 1), work)
    last = await gate.call(token, Stamp(call=CALLS_MAX + 1, pending=CALLS_MAX), work)
    await gate.release(token)
    await holding.aclose()
    assert last == "done"


# One that acknowledges, reads nothing, and joins again: its connection has them all still.
@pytest.mark.parametrize("seen", [0, 10**18])
async def test_the_hold_of_one_who_takes_no_events_ends(seen: int):
    service = RecordingService()
    gate = Gate(service)
    token, _ = await anext(holding := gate.hold("ann", "1"))

    async def work() -> None:
        pass

    for number in range(2, EVENTS_MAX + 100):
        service.events.put_nowait(event(number))
        if number % 1000 == 0:
            await asyncio.sleep(0)
            with contextlib.suppress(AgentError):
                await gate.call(token, Stamp(acknowledged=seen), work)
    # The gate reads what is there in one turn.
    await asyncio.sleep(0)
    await asyncio.wait_for(gate.release(token), DEADLINE_S)
    with pytest.raises(AgentError, match="hold ended: 50000 events are not acknowledged"):
        async for _ in holding:
            pass
    assert service.asked == [("hold", "ann", "1"), "put back"]


async def test_a_hold_has_no_more_connections_than_a_holder_needs():
    gate = Gate(RecordingService())
    token, _ = await anext(holding := gate.hold("ann", "1"))
    others = [gate.rejoin(token, 0) for _ in range(CONNECTIONS_MAX)]
    for other in others[1:]:
        await anext(other)
    with pytest.raises(AgentError, match="refused: this hold has 32 connections"):
        await anext(others[0])
    await gate.release(token)
    for each in (holding, *others):
        await each.aclose()


async def test_a_closed_connection_cannot_be_held(tmp_path: Path):
    async with over_sockets(RecordingService(), tmp_path) as there:
        assert isinstance(there.agent, AgentClient)
        await there.agent.close()
        with pytest.raises(AgentError, match="the connection was closed"):
            await anext(there.agent.hold("ann", "run"))
