import os
import secrets
from pathlib import Path

import pytest

from netesto.agent import recovery
from netesto.system import process


@pytest.fixture
def life() -> str:
    return secrets.token_hex(16)


def marked(life: str) -> dict[str, str]:
    return {**os.environ, recovery.LIFE_VARIABLE: life}


def run_script(script: str, life: str, tmp_path: Path):
    """A shell that carries the mark and has said that it is ready."""
    said = tmp_path / "said"
    return process.background(
        ["sh", "-c", script],
        stdout=said,
        ready=lambda: "ready" in said.read_text(),
        env=marked(life),
    )


def test_process_with_the_mark_is_ended(life: str, tmp_path: Path):
    with run_script("echo ready; exec sleep 60", life, tmp_path) as child:
        assert (recovery.end_life(life), child.wait(10)) == ([child.pid], -15)


def test_process_that_ignores_the_polite_signal_is_ended(life: str, tmp_path: Path):
    with run_script("trap '' TERM; echo ready; exec sleep 60", life, tmp_path) as child:
        assert (recovery.end_life(life, grace_s=0.1), child.wait(10)) == ([child.pid], -9)


def test_process_that_left_its_group_is_ended(life: str, tmp_path: Path):
    with run_script("setsid sleep 60 & echo ready; wait", life, tmp_path) as child:
        ended = recovery.end_life(life)
        assert (len(ended), child.pid in ended, recovery.end_life(life)) == (2, True, [])


def test_process_of_another_life_is_left_alone(life: str, tmp_path: Path):
    with run_script("echo ready; exec sleep 60", life, tmp_path) as child:
        assert (recovery.end_life(life[:-1]), recovery.end_life(life + "0"), child.poll()) == (
            [],
            [],
            None,
        )
