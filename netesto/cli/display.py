"""The display of a run: live on a terminal, plain lines elsewhere."""

import contextlib
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from netesto import units
from netesto.cli import printing
from netesto.collectors.clock import Clock

# Lines a terminal can show without scrolling; more flows are counted instead.
FLOWS_SHOWN = 12
REFRESHES_PER_SECOND = 5


@dataclass(slots=True)
class _Flow:
    start_s: float
    duration_s: float | None
    rate_bps: float | None = None
    status: str = ""


class Display:
    """Watches a run (netesto.run.request.Watcher).

    On a terminal a display at the bottom is updated; with `plain`, or elsewhere, each event is a
    line with its time. `quiet` shows only warnings and the output of ECHO.
    """

    def __init__(
        self,
        console: Console,
        *,
        plain: bool,
        quiet: bool,
    ) -> None:
        self.pages: list[str] = []
        self.experiments: list[int] = []
        self.left: list[str] = []
        self._console = console
        self._quiet = quiet
        self._lively = console.is_terminal and not plain and not quiet
        self._expected = 0
        self._seconds = 0.0
        # The controller's, but for what both took to be read.
        self._clock = Clock()
        self._began_s = self._clock.now()
        self._count = 0
        self._title = ""
        self._now = "starting"
        self._flows: dict[str, _Flow] = {}
        self._lock = threading.RLock()
        self._live: Live | None = None
        self._parts: tuple[str, ...] = ()
        self._left_s: float | None = None

    # ---- its life ------------------------------------------------------------------------

    def expect(self, *, experiments: int, seconds: float) -> None:
        """From the plan: the number of experiments, and the estimated duration of the run."""
        self._expected, self._seconds = experiments, seconds

    def parts(self, running: Sequence[str], *, done: int, of: int, left_s: float | None) -> None:
        """The number of parts that run side by side now, and how many have ended."""
        with self._lock:
            for name in running:
                if name not in self._parts:
                    self._line(f"{name}: begins")
            self._parts = tuple(running)
            self._title = f"{done} of {of} parts of the script done"
            self._left_s = left_s
            self._now = ""

    def start(self) -> None:
        """Show the live display, if there is one."""
        if self._lively and self._live is None:
            self._live = Live(
                get_renderable=self._picture,
                console=self._console,
                refresh_per_second=REFRESHES_PER_SECOND,
                transient=True,
            )
            self._live.start()

    def stop(self) -> None:
        """Remove the live display."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def agrees(self, question: str) -> bool:
        """Ask at the terminal; True without one. Its end, Ctrl-D, is no answer, and means no."""
        if not (printing.is_terminal(sys.stdin) and printing.is_terminal(sys.stderr)):
            return True
        self.stop()
        printing.err(question, end="", flush=True)
        answer = sys.stdin.readline().lower()
        self.start()
        return answer.strip() in {"", "y", "yes"} and answer != ""

    # ---- controller.Observer -------------------------------------------------------------

    def echo(self, text: str) -> None:
        with self._lock:
            if self._live is not None and printing.is_terminal(sys.stdout):
                self._print(text, markup=False)
            else:
                with contextlib.suppress(OSError):
                    printing.out(text, flush=True)

    def say(self, text: str) -> None:
        if self._quiet:
            return
        with self._lock:
            self._print(text, markup=False)

    def warn(self, text: str) -> None:
        with self._lock:
            self._print(f"[yellow]warning:[/] {escape(text)}")

    def setting_left(self, text: str) -> None:
        self.left.append(text)

    def error(self, text: str) -> None:
        """An error that ended the run."""
        with self._lock:
            self._print(f"[red]error:[/] {escape(text)}")

    def experiment_started(self, exp: int, exp_name: str) -> None:
        with self._lock:
            self._count += 1
            self._flows.clear()
            of = f" of {self._expected}" if self._expected >= self._count else ""
            self._title = f"experiment {self._count}{of}: {exp_name} (number {exp})"
            self._line(self._title)

    def doing(self, text: str) -> None:
        with self._lock:
            self._now = text

    def flow_accepted(
        self, exp: int, flow: str, *, start_s: float, duration_s: float | None
    ) -> None:
        del exp
        with self._lock:
            self._flows[flow] = _Flow(start_s, duration_s)
            wait_s = start_s - self._clock.now()
            when = f", starts in {units.format_time(wait_s)}" if wait_s > 1 else ""
            lasts = "until done" if duration_s is None else units.format_time(duration_s)
            self._line(f"flow {flow}: {lasts}{when}")

    def flow_progress(self, exp: int, flow: str, rate_bps: float) -> None:
        del exp
        with self._lock:
            if flow in self._flows:
                self._flows[flow].rate_bps = rate_bps

    def flow_ended(self, exp: int, flow: str, status: str) -> None:
        del exp
        with self._lock:
            if flow in self._flows:
                self._flows[flow].status = status
            if status == "ok":
                self._line(f"flow {flow}: ended")
            else:
                self.warn(f"flow {flow} failed: {status}")

    def experiment_ended(
        self, exp: int, status: str, rows: Sequence[Mapping[str, str]], page: str
    ) -> None:
        with self._lock:
            self.pages.append(page)
            self.experiments.append(exp)
            rate = next((row.get("rate", "") for row in rows), "")
            total = f", {rate} Mbit/s in total" if rate else ""
            self._line(f"experiment {exp}: {status}{total}")
            self._flows.clear()

    # ---- drawing -------------------------------------------------------------------------

    def _print(self, text: object, *, markup: bool = True) -> None:
        """Print a line. The reader may be gone (`netesto run … 2>&1 | head`); the run continues."""
        with contextlib.suppress(OSError):
            self._console.print(text, markup=markup, highlight=False, soft_wrap=True)

    def _line(self, text: str) -> None:
        if self._quiet or self._lively:
            return
        clock = time.strftime("%H:%M:%S", time.localtime())
        self._print(f"{clock} {text}", markup=False)

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


def _flow_row(name: str, flow: _Flow, now_s: float) -> tuple[Text, ProgressBar, Text]:
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
