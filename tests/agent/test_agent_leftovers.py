import contextlib
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

import pytest

from netesto.agent import recovery
from netesto.system import proc, process


@pytest.fixture
def life() -> str:
    return secrets.token_hex(16)


def marked(life: str) -> dict[str, str]:
    return {**os.environ, recovery.LIFE_VARIABLE: life}


def names_with(life: str) -> list[str]:
    """The names of the processes that carry the mark, none of which is being replaced by a program:
    while that is loaded, it has its name already, and no environment yet."""
    found = []
    for pid in proc.numbers():
        with contextlib.suppress(OSError):
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            if recovery.carries(pid, life):
                found.append(name)
    return sorted(found)


def run_script(script: str, life: str, tmp_path: Path, *, names: Sequence[str] = ("sleep",)):
    """A shell that carries the mark, once these are the names of those that do."""
    return process.background(
        ["sh", "-c", script],
        stdout=tmp_path / "said",
        ready=lambda: names_with(life) == [*names],
        timeout=60,
        env=marked(life),
    )


def test_process_with_the_mark_is_ended(life: str, tmp_path: Path):
    with run_script("exec sleep 60", life, tmp_path) as child:
        assert (recovery.end_life(life), child.wait(60)) == ([child.pid], -15)


def test_process_that_ignores_the_polite_signal_is_ended(life: str, tmp_path: Path):
    with run_script("trap '' TERM; exec sleep 60", life, tmp_path) as child:
        assert (recovery.end_life(life, grace_s=0.1), child.wait(60)) == ([child.pid], -9)


def test_process_that_left_its_group_is_ended(life: str, tmp_path: Path):
    with run_script("setsid sleep 60 & wait", life, tmp_path, names=("sh", "sleep")) as child:
        ended = recovery.end_life(life)
        assert (len(ended), child.pid in ended, recovery.end_life(life)) == (2, True, [])


def test_process_of_another_life_is_left_alone(life: str, tmp_path: Path):
    with run_script("exec sleep 60", life, tmp_path) as child:
        assert (recovery.end_life(life[:-1]), recovery.end_life(life + "0"), child.poll()) == (
            [],
            [],
            None,
        )
