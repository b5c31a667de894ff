import os
import secrets
from pathlib import Path

import pytest

from netesto import process
from netesto.agent import leftovers


@pytest.fixture
def life() -> str:
    return secrets.token_hex(16)


def marked(life: str) -> dict[str, str]:
    return {**os.environ, leftovers.LIFE_VARIABLE: life}


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
        assert (leftovers.end(life), child.wait(10)) == ([child.pid], -15)


def test_process_that_ignores_the_polite_signal_is_ended(life: str, tmp_path: Path):
    with run_script("trap '' TERM; echo ready; exec sleep 60", life, tmp_path) as child:
        assert (leftovers.end(life, grace_s=0.1), child.wait(10)) == ([child.pid], -9)


def test_process_that_left_its_group_is_ended(life: str, tmp_path: Path):
    with run_script("setsid sleep 60 & echo ready; wait", life, tmp_path) as child:
        ended = leftovers.end(life)
        assert (len(ended), child.pid in ended, leftovers.end(life)) == (2, True, [])


def test_process_of_another_life_is_left_alone(life: str, tmp_path: Path):
    with run_script("echo ready; exec sleep 60", life, tmp_path) as child:
        assert (leftovers.end(life[:-1]), leftovers.end(life + "0"), child.poll()) == ([], [], None)
