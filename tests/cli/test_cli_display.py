"""The lines of a run in the terminal."""

import io
import sys

import pytest
from rich.console import Console

from netesto.cli.display import Display
from netesto.cli.live import LiveDisplay


def test_a_flow_of_counted_transfers_lasts_until_they_are_done():
    said = io.StringIO()
    display = Display(quiet=False, stream=said)
    display.flow_accepted(1, "reno a→b #1.1", start_s=0.0, duration_s=None)
    assert said.getvalue().split(" ", 1)[1] == "flow reno a→b #1.1: until done\n"


def test_without_a_standard_input_nobody_is_asked(monkeypatch):
    display = Display(quiet=False, stream=io.StringIO())
    monkeypatch.setattr(sys, "stdin", None)
    assert display.agrees("Continue? [Y/n] ")


class Terminal(io.StringIO):
    """A terminal at which somebody types these keys."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("typed", "is_yes"), [("\n", True), ("Yes\n", True), ("no\n", False), ("", False), ("y", True)]
)
def test_enter_agrees_and_ctrl_d_does_not(typed, is_yes, monkeypatch):
    display = Display(quiet=False, stream=io.StringIO())
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert display.agrees("Continue? [Y/n] ") == is_yes


def test_a_script_prints_nothing_where_standard_output_was_closed(monkeypatch):
    said = io.StringIO()
    display = LiveDisplay(Console(file=said, force_terminal=True))
    display.start()
    monkeypatch.setattr(sys, "stdout", None)
    display.echo("printed")
    display.stop()
    assert "printed" not in said.getvalue()
