import asyncio
import json
import socket
from dataclasses import dataclass
from pathlib import Path

import pytest
from agent_values import ShellTool, request

from netesto.agent import jobs
from netesto.agent.jobs import FlowJob, Start, last_lines
from netesto.collectors.clock import Clock, SystemTime
from netesto.model import Event, GroupRequest, Ports
from netesto.system import process
from netesto.traffic import native

PORTS = Ports(control=(1000,), data=(2000,))

# Nothing here takes long; the deadline only keeps a broken test from hanging.
DEADLINE_S = 60


class Told(list):
    """The events of a flow, as (kind, text, rate, last lines)."""

    def __call__(self, event: Event) -> None:
        self.append((event.kind, event.text, event.rate_bps, event.last_lines))


def flow_of(
    tool: ShellTool,
    folder: Path,
    told: Told,
    start_s: asyncio.Future[float] | None = None,
    *,
    late_s: float = 0.0,
) -> FlowJob:
    begins = start_s or asyncio.get_running_loop().create_future()
    if start_s is None:
        begins.set_result(100.0)
    clock = Clock()
    start = Start(
        request=request(),
        ports=PORTS,
        begins=begins,
        tool=tool,
        version="1.0",
        folder=folder,
        clock=clock,
        system=SystemTime(clock, lambda _: None),
        emit=told,
    )
    return FlowJob(start, 1, late_s)


async def outcome(tool: ShellTool, folder: Path) -> list[tuple[str, str, float, str]]:
    """The events of a flow after `started`."""
    told = Told()
    await asyncio.wait_for(flow_of(tool, folder, told).run(), DEADLINE_S)
    return [entry for entry in told if entry[0] != "started"]


@pytest.mark.parametrize(("pace_s", "rates"), [(0.0, [3.0, 4.0]), (DEADLINE_S, [3.0])])
async def test_flow_tells_progress_no_more_often_than_people_read_it(
    pace_s: float, rates: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(jobs, "PROGRESS_S", pace_s)
    tool = ShellTool(script="echo rate 3; echo noise; echo rate 4; echo result 5")
    assert await outcome(tool, tmp_path) == [
        *(("progress", "", rate, "") for rate in rates),
        ("ended", "", 5.0, ""),
    ]


@pytest.mark.parametrize(
    ("script", "reason", "lines"),
    [
        ("echo result 5; exit 1", "shelltool exited 1", "result 5"),
        ("exit 3", "shelltool exited 3", ""),
        ("echo 'error: no route' >&2; exit 1", "shelltool exited 1: no route", "error: no route"),
        ("echo 'error: server is busy'", "shelltool: server is busy", "error: server is busy"),
        ("kill -9 $$", "shelltool was ended by SIGKILL", ""),
        (
            "kill -FPE $$",
            "shelltool was ended by SIGFPE (in simulated time: it computed and never waited)",
            "",
        ),
        ("true", "shelltool printed nothing", ""),
        ("echo ' '", "shelltool printed nothing", ""),
        ("echo words", "shelltool told no result", "words"),
        ("echo out; echo err >&2; exit 2", "shelltool exited 2", "err"),
    ],
)
async def test_flow_that_failed_says_why(script: str, reason: str, lines: str, tmp_path: Path):
    assert await outcome(ShellTool(script=script), tmp_path) == [("failed", reason, 0.0, lines)]


async def test_missing_tool_is_a_failed_flow_that_never_started(tmp_path: Path):
    told = Told()
    await flow_of(ShellTool(argv=["no-such-tool"]), tmp_path, told).run()
    assert told == [("failed", "no-such-tool: cannot start: No such file or directory", 0.0, "")]


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckTool(ShellTool):
    """Prints a word and then waits; it is asked for its deadline when it has the start instant."""

    said: Path

    def deadline_s(self, request: GroupRequest) -> float:
        # On a busy machine a shell may take longer to begin than this one may run.
        assert process.wait_until(lambda: self.said.read_text() == "begun\n", timeout=DEADLINE_S)
        return self.limit_s


async def test_stuck_tool_is_ended_at_its_deadline(tmp_path: Path):
    script = "echo begun >&2; exec sleep 60"
    tool = StuckTool(script=script, limit_s=0.2, said=tmp_path / "flow.1.1.err")
    assert await outcome(tool, tmp_path) == [
        ("failed", "shelltool still ran after 0.2 s, ended", 0.0, "begun")
    ]


async def test_cancelled_flow_fails_with_the_reason_given(tmp_path: Path):
    told = Told()
    flow = flow_of(ShellTool(script="echo rate 1; exec sleep 60"), tmp_path, told)
    task = asyncio.create_task(flow.run())
    await process.wait_until_async(lambda: ("progress", "", 1.0, "") in told, timeout=DEADLINE_S)
    task.cancel()
    await asyncio.wait({task})
    flow.give_up("aborted by the controller")
    assert told[-1] == ("failed", "aborted by the controller", 0.0, "rate 1")


@pytest.mark.parametrize("program", [native.PROGRAM, Path("/no/netesto-flow")])
async def test_flow_is_ready_before_its_start_and_begins_as_late_after_it_as_it_shall(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(native, "PROGRAM", program)
    told, begins = Told(), asyncio.get_running_loop().create_future()
    flow = flow_of(ShellTool(), tmp_path, told, begins, late_s=0.2)
    running = asyncio.create_task(flow.run())
    await asyncio.wait_for(flow.ready, DEADLINE_S)
    before = list(told)
    start_s = Clock().now() + 0.1
    begins.set_result(start_s)
    await asyncio.wait_for(running, DEADLINE_S)
    record = json.loads((tmp_path / "flow.1.1.json").read_text())
    assert before == []
    assert [kind for kind, *_ in told] == ["started", "ended"]
    # Two clocks of one test may be some microseconds apart.
    assert record["asked_start_s"] == start_s
    assert record["started_s"] >= start_s + 0.2 - 1e-4


async def test_flow_that_ends_before_it_is_ready_has_failed(tmp_path: Path):
    told = Told()
    closed = [str(native.PROGRAM), "client", "127.0.0.1", "1", "port=2", "duration=1"]
    begins = asyncio.get_running_loop().create_future()
    flow = flow_of(ShellTool(argv=closed), tmp_path, told, begins)
    await asyncio.wait_for(flow.run(), DEADLINE_S)
    said = "netesto-flow: cannot connect: Connection refused"
    assert (told, flow.ready.done()) == ([("failed", "shelltool exited 1", 0.0, said)], True)


async def test_client_that_is_never_ready_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("netesto.agent.jobs.READY_TIMEOUT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = str(silent.getsockname()[1])
        words = [str(native.PROGRAM), "client", "127.0.0.1", port, "port=2", "duration=1"]
        told, begins = Told(), asyncio.get_running_loop().create_future()
        flow = flow_of(ShellTool(argv=words), tmp_path, told, begins)
        await asyncio.wait_for(flow.run(), DEADLINE_S)
    assert told == [("failed", "shelltool was not ready after 0.1 s, ended", 0.0, "")]


async def test_flow_that_is_over_is_not_given_up(tmp_path: Path):
    told = Told()
    flow = flow_of(ShellTool(), tmp_path, told)
    await flow.run()
    flow.give_up("too late")
    assert [kind for kind, *_ in told] == ["started", "ended"]


async def test_output_is_kept_as_it_came(tmp_path: Path):
    tool = ShellTool(script=r"printf 'rate 1\r\n\377result 5\n\nno end'; printf err >&2")
    await outcome(tool, tmp_path)
    assert ((tmp_path / "flow.1.1.out").read_bytes(), (tmp_path / "flow.1.1.err").read_bytes()) == (
        b"rate 1\r\n\xffresult 5\n\nno end",
        b"err",
    )


async def test_line_of_a_megabyte_is_read(tmp_path: Path):
    tool = ShellTool(script="head -c 1000000 /dev/zero | tr '\\0' x; echo; echo result 5")
    assert await outcome(tool, tmp_path) == [("ended", "", 5.0, "")]


async def test_record_tells_how_it_was_started_and_ended(tmp_path: Path):
    await outcome(ShellTool(script="echo error: no; exit 4"), tmp_path)
    record = json.loads((tmp_path / "flow.1.1.json").read_text())
    assert record["started_s"] <= record["ended_s"]
    assert {**record, "started_s": 0, "ended_s": 0} == {
        "argv": ["sh", "-c", "echo error: no; exit 4"],
        "tool": "shelltool",
        "version": "1.0",
        "asked_start_s": 100.0,
        "started_s": 0,
        "ended_s": 0,
        "exit_status": 4,
        "reason": "shelltool exited 4: no",
        "ports": {"control": 1000, "data": 2000, "client": None},
    }


def test_last_lines_are_the_last_five(tmp_path: Path):
    path = tmp_path / "out"
    path.write_text("".join(f"line {number}\n" for number in range(1000)))
    assert last_lines(path) == "line 995\nline 996\nline 997\nline 998\nline 999"


def test_file_that_is_not_there_has_no_last_lines(tmp_path: Path):
    assert last_lines(tmp_path / "out") == ""
