"""Changes are put back, also after an agent was killed, or could not go on, between two steps."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from netesto.agent import putback, steps
from netesto.agent.journal import Journal
from netesto.agent.steps import Run, Step, Write
from netesto.agent.things import KernelFile
from netesto.hostsettings import Sysctl

IMPOSSIBLE = Run(("false",))


class KilledError(Exception):
    """Stands for the end of the agent."""


@pytest.fixture
def thing(tmp_path: Path) -> Path:
    """What the agent changed, as it left it."""
    path = tmp_path / "thing"
    path.write_text("made")
    return path


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with contextlib.closing(Journal(tmp_path / "journal")) as opened:
        yield opened


def change(journal: Journal, thing: Path, *undo: Step) -> None:
    journal.note_made(journal.begin(Sysctl("it", "1"), KernelFile(str(thing)), undo), "made")


def restored(journal: Journal) -> tuple[int, list[str]]:
    return asyncio.run(putback.restore(journal))


def killed_after(do: Callable[[Step], Awaitable[None]]) -> Callable[[Step], Awaitable[None]]:
    async def done(step: Step) -> None:
        await do(step)
        raise KilledError

    return done


def test_change_that_a_killed_agent_had_half_undone_is_undone(
    thing: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
):
    change(journal, thing, Write(str(thing), "half"), Write(str(thing), "then"))
    with monkeypatch.context() as patched:
        patched.setattr(steps, "do", killed_after(steps.do))
        with pytest.raises(KilledError):
            restored(journal)
    assert thing.read_text() == "half"
    assert (restored(journal), thing.read_text()) == ((1, []), "then")


def test_change_that_could_be_half_undone_is_tried_again(thing: Path, journal: Journal):
    change(journal, thing, Write(str(thing), "half"), IMPOSSIBLE)
    left = "sysctl it=1: not put back; the log of the agent has the reason"
    assert [restored(journal) for _ in "12"] == [(0, [left])] * 2


def test_change_that_could_be_half_undone_and_then_was_changed_is_left(
    thing: Path, journal: Journal
):
    change(journal, thing, Write(str(thing), "half"), IMPOSSIBLE)
    restored(journal)
    thing.write_text("else")
    left = "sysctl it=1: another program changed it since, to else, which is left as it is"
    assert (restored(journal), thing.read_text()) == ((0, [left]), "else")
