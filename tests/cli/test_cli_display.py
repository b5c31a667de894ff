"""The lines of a run in the terminal."""

import io

from rich.console import Console

from netesto.cli.display import Display


def test_a_flow_of_counted_transfers_lasts_until_they_are_done():
    said = io.StringIO()
    display = Display(Console(file=said, width=200), plain=True, quiet=False)
    display.flow_accepted(1, "reno a→b #1.1", start_s=0.0, duration_s=None)
    assert said.getvalue().split(" ", 1)[1] == "flow reno a→b #1.1: until done\n"
