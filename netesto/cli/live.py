"""The display of a run at the bottom of a terminal, updated while it lasts."""

import contextlib
import sys

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from netesto import units
from netesto.cli import printing
from netesto.cli.display import Display, ShownFlow

# Lines a terminal can show without scrolling; more flows are counted instead.
FLOWS_SHOWN = 12
REFRESHES_PER_SECOND = 5


class LiveDisplay(Display):
    """Shows the flows of an experiment with their progress and rates; warnings and the output of
    ECHO stay above."""

    def __init__(self, console: Console) -> None:
        super().__init__(quiet=False)
        self._console = console
        self._live: Live | None = None

    def start(self) -> None:
        """Show it."""
        if self._live is None:
            self._live = Live(
                get_renderable=self._picture,
                console=self._console,
                refresh_per_second=REFRESHES_PER_SECOND,
                transient=True,
            )
            self._live.start()

    def stop(self) -> None:
        """Remove it."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def echo(self, text: str) -> None:
        if self._live is not None and printing.is_terminal(sys.stdout):
            with self._lock:
                self._print(text)
        else:
            super().echo(text)

    def warn(self, text: str) -> None:
        self._colored("yellow", "warning", text)

    def error(self, text: str) -> None:
        self._colored("red", "error", text)

    def _colored(self, color: str, kind: str, text: str) -> None:
        with self._lock:
            self._print(f"[{color}]{kind}:[/] {escape(text)}", markup=True)

    def _print(self, text: str, *, markup: bool = False) -> None:
        with contextlib.suppress(OSError):
            self._console.print(text, markup=markup, highlight=False, soft_wrap=True)

    def _line(self, text: str) -> None:
        """What the display shows needs no line."""

    def _picture(self) -> Group:
        with self._lock:
            now_s = self._clock.now()
            head = Table.grid(padding=(0, 1))
            text = Text(f"{self._title or 'preparing'}", style="bold")
            head.add_row(Spinner("dots"), text, Text(self._time_left(now_s), style="dim"))
            table = Table.grid(padding=(0, 2))
            for name, flow in list(self._flows.items())[:FLOWS_SHOWN]:
                table.add_row("", *_flow_row(name, flow, now_s))
            for name in self._parts:
                table.add_row("", name, "", Text("running", style="cyan"))
            hidden = len(self._flows) - FLOWS_SHOWN
            if hidden > 0:
                table.add_row("", f"and {hidden} more flows", "", "")
            return Group(head, table, Text(f"  {self._now}", style="dim"))

    def _time_left(self, now_s: float) -> str:
        left_s = self._left_s
        if left_s is None:
            left_s = self._began_s + self._seconds - now_s
        return f"about {units.format_time(round(left_s))} left" if left_s >= 1 else ""


def _flow_row(name: str, flow: ShownFlow, now_s: float) -> tuple[Text, ProgressBar, Text]:
    done = 1.0
    if flow.duration_s:
        done = min(max((now_s - flow.start_s) / flow.duration_s, 0.0), 1.0)
    # Without a total the bar shows only that something happens.
    total = 1.0 if flow.duration_s or flow.status else None
    if flow.status == "ok":
        state = Text("ended", style="green")
    elif flow.status:
        state = Text(f"failed: {flow.status}", style="red")
    elif now_s < flow.start_s:
        state = Text(f"starts in {flow.start_s - now_s:.0f} s", style="dim")
    elif flow.rate_bps is None:
        state = Text("running")
    else:
        state = Text(f"{units.format_rate(flow.rate_bps):>12}", style="cyan")
    return Text(name), ProgressBar(total=total, completed=done, width=24), state
