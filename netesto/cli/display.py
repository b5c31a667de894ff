"""The display of a run as lines. On a terminal `live` shows more."""

import contextlib
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

from netesto import units
from netesto.cli import printing
from netesto.collectors.clock import Clock


@dataclass(slots=True)
class ShownFlow:
    """A flow of the experiment that runs, as it was last heard of."""

    start_s: float
    duration_s: float | None
    rate_bps: float | None = None
    status: str = ""


class Display:
    """Watches a run (netesto.run.request.Watcher): each event is a line with its time on standard
    error, or on `stream`. `quiet` shows only warnings and the output of ECHO.
    """

    def __init__(self, *, quiet: bool, stream: TextIO | None = None) -> None:
        self.pages: list[str] = []
        self.experiments: list[int] = []
        self.differences: list[str] = []
        self._stream = stream
        self._quiet = quiet
        self._expected = 0
        self._seconds = 0.0
        # The controller's, but for what both took to be read.
        self._clock = Clock()
        self._began_s = self._clock.now()
        self._count = 0
        self._title = ""
        self._now = "starting"
        self._flows: dict[str, ShownFlow] = {}
        self._lock = threading.RLock()
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
        """Begin to show what goes on."""

    def stop(self) -> None:
        """Show it no longer."""

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
        with self._lock, contextlib.suppress(OSError):
            printing.out(text, flush=True)

    def say(self, text: str) -> None:
        if self._quiet:
            return
        with self._lock:
            self._print(text)

    def warn(self, text: str) -> None:
        with self._lock:
            self._print(f"warning: {text}")

    def setting_left(self, text: str) -> None:
        self.differences.append(text)

    def error(self, text: str) -> None:
        """An error that ended the run."""
        with self._lock:
            self._print(f"error: {text}")

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
            self._flows[flow] = ShownFlow(start_s, duration_s)
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

    # ---- lines ---------------------------------------------------------------------------

    def _print(self, text: str) -> None:
        """Print a line. The reader may be gone (`netesto run … 2>&1 | head`); the run continues."""
        printing.err(text, stream=self._stream)

    def _line(self, text: str) -> None:
        if self._quiet:
            return
        clock = time.strftime("%H:%M:%S", time.localtime())
        self._print(f"{clock} {text}")


def to_stderr(*, plain: bool, quiet: bool) -> Display:
    """The display on standard error: on a terminal live, unless it is to be `plain`."""
    if plain or quiet or not printing.is_terminal(sys.stderr):
        return Display(quiet=quiet)
    # Only terminals need it.
    from netesto.cli import console
    from netesto.cli.live import LiveDisplay

    return LiveDisplay(console.to_stderr())
