import asyncio
from contextlib import AsyncExitStack, aclosing
from ipaddress import ip_address

import pytest
from recording_service import HELD, INFO, PORTS, REQUEST, STATE, STATUS, RecordingService
from transport_wires import Wire, held

from netesto.errors import AgentBusyError, AgentError, MissingError
from netesto.hostsettings import Applied, ModuleParameter, Netem, Qdisc, Sysctl
from netesto.model import CaptureRequest, ClockReading, Event, FilePiece
from netesto.transport import client
from netesto.transport.base import Connection

# These are settled by events; the deadline only keeps a broken test from hanging.
DEADLINE_S = 60


async def test_info_needs_no_hold(wire: Wire):
    async with wire(RecordingService()) as connect:
        assert await (await connect()).info() == INFO


async def test_the_first_info_is_that_of_the_connection(wire: Wire):
    async with wire(RecordingService()) as connect:
        assert await (await connect()).first_info() == INFO


async def test_info_names_the_holder(wire: Wire):
    async with wire(RecordingService()) as connect:
        agent, other = await connect(), await connect()
        async with held(agent, "ann@desk pid 7", "run"):
            assert (await other.info()).holder == "ann@desk pid 7"


async def test_clock_probe_needs_no_hold(wire: Wire):
    async with wire(RecordingService()) as connect:
        assert await (await connect()).probe_clock() == ClockReading(12.5, 12.75)


async def test_examination_needs_no_hold(wire: Wire):
    service = RecordingService()
    async with wire(service) as connect:
        agent = await connect()
        state = await agent.examine([ip_address("10.0.0.2"), ip_address("2001:db8::2")])
    assert (state, service.asked) == (STATE, [("examine", "10.0.0.2", "2001:db8::2")])


async def test_status_needs_no_hold(wire: Wire):
    async with wire(RecordingService()) as connect:
        assert await (await connect()).status() == STATUS


async def test_hold_brings_events_in_order(wire: Wire):
    service = RecordingService()
    told = Event(
        sequence=2,
        time_s=100.5,
        kind="failed",
        exp=3,
        group=1,
        instance=2,
        text="netperf exited 1",
        last_lines="no",
    )
    service.events.put_nowait(told)
    async with wire(service) as connect:
        events = (await connect()).hold("ann", "run")
        assert [await anext(events), await anext(events)] == [HELD, told]


async def test_hold_brings_names_of_controller_and_run(wire: Wire):
    service = RecordingService()
    async with wire(service) as connect:
        async with aclosing((await connect()).hold("ann", "2026-11-20")) as events:
            await anext(events)
        assert service.asked == [("hold", "ann", "2026-11-20"), "put back"]


async def test_second_holder_is_reported_who_holds(wire: Wire):
    async with wire(RecordingService()) as connect:
        agent, other = await connect(), await connect()
        async with held(agent, "ann@desk pid 7", "run"):
            with pytest.raises(AgentBusyError) as caught:
                await anext(other.hold("bob", "run"))
    assert (str(caught.value), caught.value.holder, caught.value.host) == (
        "h1: in use by ann@desk pid 7\nnetesto run --wait … waits until it is free.",
        "ann@desk pid 7",
        "h1",
    )


async def test_refused_holder_leaves_the_first_one_alone(wire: Wire):
    service = RecordingService()
    async with wire(service) as connect:
        agent, other = await connect(), await connect()
        async with held(agent):
            with pytest.raises(AgentBusyError):
                await anext(other.hold("bob", "run"))
            await agent.abort()
    assert service.asked == [("hold", "ann", "run"), "abort", "put back"]


async def test_holds_follow_each_other(wire: Wire):
    service = RecordingService()
    async with wire(service) as connect:
        agent, other = await connect(), await connect()
        async with held(agent, "ann", "1"):
            pass
        async with held(other, "bob", "2"):
            pass
    assert service.asked == [("hold", "ann", "1"), "put back", ("hold", "bob", "2"), "put back"]


async def test_those_who_wait_are_served_in_the_order_in_which_they_came(wire: Wire):
    async with wire(RecordingService()) as connect:
        agents = [await connect() for _ in range(6)]
        holder, looks, late = agents[0], agents[4], agents[5]
        async with AsyncExitStack() as stack:
            async with held(holder, "ann", "1"):
                queues = [
                    await stack.enter_async_context(aclosing(agent.queue(name, name)))
                    for agent, name in zip(agents[1:4], ("bob", "cem", "dan"), strict=True)
                ]
                ahead = [(await anext(queue)).ahead for queue in queues]
                waiting = (await looks.status()).waiting
                # Who gives up makes room for those who came later.
                await queues[1].aclose()
                moved = await anext(queues[2])
            turn = await anext(queues[0])
            refused = await _holder_told(late)
            agents[1].ticket = turn.ticket
            async with aclosing(agents[1].hold("bob", "2")) as events:
                await anext(events)
                await queues[0].aclose()
                # The agent hears of it a moment later.
                async with asyncio.timeout(DEADLINE_S):
                    while (behind := (await looks.status()).waiting) == ("bob", "dan"):
                        pass
            while (last := await anext(queues[2])).ahead:
                pass
    assert ahead == [("ann",), ("ann", "bob"), ("ann", "bob", "cem")]
    assert (waiting, moved.ahead) == (("bob", "cem", "dan"), ("ann", "bob"))
    assert (turn.ahead, refused, behind) == ((), "bob, who came first", ("dan",))
    assert last.ticket == moved.ticket


async def _holder_told(agent: Connection) -> str:
    with pytest.raises(AgentBusyError) as caught:
        await anext(agent.hold("eve", "3"))
    return caught.value.holder


async def test_next_holder_waits_until_all_is_put_back(wire: Wire):
    service = RecordingService()
    async with wire(service) as connect:
        agent, other = await connect(), await connect()
        events = agent.hold("ann", "1")
        await anext(events)
        service.putting_back.clear()
        ending = asyncio.create_task(events.aclose())
        await service.is_ending.wait()
        following = asyncio.create_task(anext(other.hold("bob", "2")))
        done, _ = await asyncio.wait({following}, timeout=0.05)
        assert done == set()
        service.putting_back.set()
        assert await asyncio.wait_for(following, DEADLINE_S) == HELD
        await ending


async def test_call_without_hold_is_refused(wire: Wire):
    service = RecordingService()
    async with wire(service) as connect:
        with pytest.raises(AgentError, match=r"^h1: the hold has ended"):
            await (await connect()).abort()
    assert service.asked == []


async def test_call_of_a_stranger_names_the_holder(wire: Wire):
    async with wire(RecordingService()) as connect:
        agent, stranger = await connect(), await connect()
        async with held(agent):
            with pytest.raises(AgentBusyError, match=r"^h1: in use by ann\n"):
                await stranger.finish(1)


async def test_former_holder_cannot_act(wire: Wire):
    service = RecordingService()
    async with wire(service) as connect:
        former, agent = await connect(), await connect()
        async with held(former, "ann", "1"):
            pass
        async with held(agent, "bob", "2"):
            with pytest.raises(AgentError, match=r"^h1: now held by bob$"):
                await former.abort()
    assert "abort" not in service.asked


async def test_fetch_needs_the_hold(wire: Wire):
    async with wire(RecordingService(files_by_path={"a": b"content"})) as connect:
        with pytest.raises(AgentError, match=r"^h1: the hold has ended"):
            await anext((await connect()).fetch(1, ["a"]))


async def test_end_of_the_agent_is_an_error_of_the_hold(wire: Wire):
    service = RecordingService()
    service.events.put_nowait(None)
    async with wire(service) as connect:
        events = (await connect()).hold("ann", "run")
        await anext(events)
        with pytest.raises(AgentError, match=r"^h1: the agent was told to end$"):
            await anext(events)


async def test_cancelled_reader_ends_the_hold(wire: Wire):
    service = RecordingService()
    async with wire(service) as connect:
        agent, other = await connect(), await connect()
        held = asyncio.Event()

        async def read() -> None:
            async with aclosing(agent.hold("ann", "1")) as events:
                async for _ in events:
                    held.set()

        reader = asyncio.create_task(read())
        await held.wait()
        reader.cancel()
        await asyncio.wait({reader})
        assert service.asked == [("hold", "ann", "1"), "put back"]
        await anext(other.hold("bob", "2"))


async def test_every_request_arrives_as_it_was_made(wire: Wire):
    service = RecordingService()
    capture = CaptureRequest(exp=3, host="h1", peer=ip_address("192.0.2.7"), packets=10)
    everything = CaptureRequest(exp=3, host="h1", peer=None, packets=10, snap_bytes=96)
    async with wire(service) as connect:
        agent = await connect()
        async with held(agent):
            service.asked.clear()
            await agent.take_stats(3, 1, tests=("TCP_RR", "TCP_STREAM"), tools=("netperf",))
            ports = await agent.expect(REQUEST)
            await agent.start(REQUEST, PORTS, None)
            await agent.start(REQUEST, PORTS, 1e9 + 0.125)
            await agent.begin(3, (1, 2), 1e9 + 0.125)
            await agent.start_capture(capture)
            await agent.start_capture(everything)
            await agent.forget(3, 1)
            await agent.finish(3)
            await agent.confirm(3)
            await agent.abort(3)
            await agent.abort()
            left = await agent.put_back()
            await agent.shut_down()
            asked = list(service.asked)
    assert left == ["sysctl net.ipv4.tcp_ecn=1: not put back"]
    assert (ports, asked) == (
        PORTS,
        [
            ("take_stats", 3, 1, ("TCP_RR", "TCP_STREAM"), ("netperf",)),
            ("expect", REQUEST),
            ("start", REQUEST, PORTS, None),
            ("start", REQUEST, PORTS, 1e9 + 0.125),
            ("begin", 3, (1, 2), 1e9 + 0.125),
            capture,
            everything,
            ("forget", 3, 1),
            ("finish", 3),
            ("confirm", 3),
            ("abort", 3),
            "abort",
            "shut_down",
        ],
    )


@pytest.mark.parametrize(
    "setting",
    [
        Sysctl("net.ipv4.tcp_wmem", "4096 16384 4194304"),
        Qdisc("tbf", ("rate", "10mbit"), "replace", "eth1"),
        Netem(20.5, 2000, 0.01),
        ModuleParameter("tcp_cubic", "hystart", "0"),
    ],
)
async def test_setting_arrives_as_it_was_made(wire: Wire, setting):
    service = RecordingService()
    async with wire(service) as connect:
        agent = await connect()
        async with held(agent):
            applied = await agent.configure(setting)
    assert (service.asked[1], applied) == (setting, Applied(setting, "before", "after"))


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (
            MissingError("netem: not here", remedy="use uml"),
            MissingError,
            "h1: netem: not here\nuse uml",
        ),
        (AgentError("no ünicode?"), AgentError, "h1: no ünicode?"),
        (
            ZeroDivisionError("division by zero"),
            AgentError,
            (
                "h1: internal error of the agent: ZeroDivisionError: division by zero\n"
                "Please report it, with the log of the agent."
            ),
        ),
    ],
)
async def test_error_keeps_its_kind_and_text(wire: Wire, error, kind, text):
    async with wire(RecordingService(error=error)) as connect:
        agent = await connect()
        async with held(agent):
            with pytest.raises(kind) as caught:
                await agent.configure(Sysctl("a", "b"))
    assert (type(caught.value), str(caught.value)) == (kind, text)


async def test_fetch_brings_the_pieces_of_one_file_after_the_other(wire: Wire):
    files = {"0/h1.snmp": b"abcdef", "empty": b"", "log": b"xy"}
    async with wire(RecordingService(files_by_path=files)) as connect:
        agent = await connect()
        async with held(agent):
            assert [piece async for piece in agent.fetch(3, list(files))] == [
                FilePiece("0/h1.snmp", b"abc"),
                FilePiece("0/h1.snmp", b"def"),
                FilePiece("log", b"xy"),
            ]


@pytest.mark.parametrize(
    ("details", "cause"),
    [
        ("last error: UNKNOWN: unix:/run/a.sock: Connection refused", "Connection refused"),
        ("Stream removed (write: Broken pipe (32))", "Broken pipe (32)"),
        ("Stream removed (ping timeout)", "Stream removed (ping timeout)"),
        ("", "the agent is gone"),
    ],
)
def test_the_cause_is_the_last_part_of_what_grpc_says(details: str, cause: str):
    assert client._cause(details) == cause
