"""Unfetched data is copied to the controller; only then may its agent remove it."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest
from scripted_agent import CONTENT, ScriptedAgent

from netesto.controller import unfetched
from netesto.controller.inventory import Inventory
from netesto.controller.unfetched import Fetched
from netesto.errors import AgentError
from netesto.model import (
    AgentStatus,
    Endpoint,
    Event,
    FileEntry,
    FilePiece,
    FinishedExperiment,
    Unfetched,
)

LEFT = Unfetched(run="2026-11-19T1", exp=3, files=1, size_bytes=len(CONTENT), age_s=60.0)


def fetch(agent: ScriptedAgent, out: Path) -> Fetched:
    async def connect(endpoint: Endpoint):
        del endpoint
        return contextlib.nullcontext(agent)

    inventory = Inventory([Endpoint(host="h1", agent="")])
    [fetched] = asyncio.run(unfetched.fetch(inventory, out, connect=connect))
    return fetched


class Cut(ScriptedAgent):
    """Has files `a` and `b`; it is killed when it has sent `a`, and half of `b`."""

    wanted: Sequence[str] = ()

    async def finish(self, exp: int, *, with_time_sync: bool = False) -> FinishedExperiment:
        del exp, with_time_sync
        digest = hashlib.sha256(CONTENT).hexdigest()
        return FinishedExperiment(
            tuple(FileEntry(name, len(CONTENT), digest) for name in "ab"), None
        )

    async def fetch(self, exp: int, paths: Sequence[str]) -> AsyncGenerator[FilePiece, None]:
        del exp
        yield FilePiece(paths[0], CONTENT)
        yield FilePiece(paths[1], CONTENT[:5])
        raise AgentError("connection lost", host=self.host)


class Back(Cut):
    """The same, when it runs again."""

    async def fetch(self, exp: int, paths: Sequence[str]) -> AsyncGenerator[FilePiece, None]:
        del exp
        self.wanted = paths
        for path in paths:
            yield FilePiece(path, CONTENT)


def everything_below(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


HALF = {"2026-11-19T1-unfetched/h1/3.part/a": CONTENT}
WHOLE = {f"2026-11-19T1-unfetched/h1/3/{name}": CONTENT for name in "ab"}


def test_half_an_experiment_does_not_look_whole(tmp_path: Path):
    agent = Cut("h1", unfetched=(LEFT,))
    fetched = fetch(agent, tmp_path)
    found = (fetched.experiments, everything_below(tmp_path / "runs"), agent.calls)
    assert found == ([], HALF, [])


def test_a_second_fetch_brings_the_rest(tmp_path: Path):
    fetch(Cut("h1", unfetched=(LEFT,)), tmp_path)
    agent = Back("h1", unfetched=(LEFT,))
    assert fetch(agent, tmp_path).error is None
    found = (agent.wanted, everything_below(tmp_path / "runs"), agent.calls)
    assert found == (["b"], WHOLE, ["confirm 3"])


def test_a_folder_that_lacks_a_file_does_not_look_whole_while_it_comes(tmp_path: Path):
    fetch(Back("h1", unfetched=(LEFT,)), tmp_path)
    (tmp_path / "runs/2026-11-19T1-unfetched/h1/3/a").unlink()
    (tmp_path / "runs/2026-11-19T1-unfetched/h1/3/b").unlink()
    fetch(Cut("h1", unfetched=(LEFT,)), tmp_path)
    assert everything_below(tmp_path / "runs") == HALF


def test_data_of_an_earlier_run_is_fetched_and_confirmed(tmp_path: Path):
    agent = ScriptedAgent("h1", unfetched=(LEFT,))
    folder = tmp_path / "runs" / "2026-11-19T1-unfetched" / "h1" / "3"
    assert fetch(agent, tmp_path) == Fetched("h1", [(LEFT, folder)])
    assert ((folder / "log").read_bytes(), agent.calls) == (CONTENT, ["finish 3", "confirm 3"])


def test_where_nothing_is_left_the_agent_is_not_held(tmp_path: Path):
    agent = ScriptedAgent("h1", gone=True)
    assert (fetch(agent, tmp_path), [*tmp_path.iterdir()]) == (Fetched("h1", []), [])


def test_what_was_fetched_before_may_be_fetched_again(tmp_path: Path):
    first = fetch(ScriptedAgent("h1", unfetched=(LEFT,)), tmp_path)
    agent = ScriptedAgent("h1", unfetched=(LEFT,))
    assert (fetch(agent, tmp_path), agent.calls) == (first, ["finish 3", "confirm 3"])


def test_a_file_with_another_content_is_not_overwritten(tmp_path: Path):
    [(_, folder)] = fetch(ScriptedAgent("h1", unfetched=(LEFT,)), tmp_path).experiments
    (folder / "log").write_text("measured elsewhere")
    agent = ScriptedAgent("h1", unfetched=(LEFT,))
    error = fetch(agent, tmp_path).error
    assert error is not None
    assert error.message == f"{folder}/log: exists, with other content than on h1"
    assert ((folder / "log").read_text(), agent.calls) == ("measured elsewhere", ["finish 3"])


@pytest.mark.parametrize("run", ["../../etc", "/etc", "..", "a/b", ""])
def test_a_run_is_no_path(run: str, tmp_path: Path):
    left = Unfetched(run=run, exp=3, files=1, size_bytes=1, age_s=0.0)
    agent = ScriptedAgent("h1", unfetched=(left,))
    fetched = fetch(agent, tmp_path / "out")
    assert isinstance(fetched.error, AgentError)
    assert (fetched.experiments, agent.calls, [*tmp_path.iterdir()]) == ([], [], [])


class Leased(ScriptedAgent):
    """The controller that holds it is gone; its data show when its hold has ended."""

    async def status(self) -> AgentStatus:
        if not self.ending:
            return AgentStatus(unfetched=(LEFT,))
        return AgentStatus(holder=self.ending, run=LEFT.run)

    async def hold(self, controller: str, run: str) -> AsyncGenerator[Event, None]:
        self.ending = ""
        async with contextlib.aclosing(super().hold(controller, run)) as events:
            async for event in events:
                yield event


def test_data_of_a_run_whose_controller_is_gone_is_fetched_when_its_hold_has_ended(tmp_path: Path):
    agent = Leased("h1", ending="bob")
    fetched = fetch(agent, tmp_path)
    assert ([each for each, _ in fetched.experiments], agent.calls) == (
        [LEFT],
        ["finish 3", "confirm 3"],
    )


@pytest.mark.parametrize("left", [(), (LEFT,)])
def test_a_host_in_use_says_by_whom(tmp_path: Path, left: tuple[Unfetched, ...]):
    agent = ScriptedAgent("h1", unfetched=left, holder="bob")
    error = fetch(agent, tmp_path).error
    assert error is not None
    assert (error.message, agent.calls) == ("h1: in use by bob", [])
