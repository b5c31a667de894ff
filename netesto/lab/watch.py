"""Stands beside a guest kernel until it ends: passes output and orders on, watches its clock."""

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from netesto import interrupts, process
from netesto.errors import LabError
from netesto.lab import inside, mconsole
from netesto.lab.kernels import Kind

# The most processor time that a guest may use without a sign of life. One that computes and never
# waits (drawing a page of graphs, say) shows none in simulated time, so this must be longer than
# any honest computation. Wall time says little: on a busy machine a guest may get a tenth of it.
STALL_S = 120.0

# But so many times as much wall time is too long in any case: then it waits for what never comes.
STALL_WALL = 10

# Its processor time is not looked at before it has been silent for so long, and then no oftener.
LULL_S = 1.0

# After the wall-clock limit the command may still write what it has.
LAST_WORDS_S = 20.0

# How soon what the command wrote is passed on: soon enough for the eye.
LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Guest:
    """A guest that was started: its folder, our end of the pipe for orders, its process; `end` can
    be read when it has ended."""

    kind: Kind
    folder: Path
    orders: int
    end: int
    child: process.Child

    def order(self, text: str) -> None:
        """Pass an order in; a guest that has just ended does not mind."""
        with contextlib.suppress(OSError):
            os.write(self.orders, f"{text}\n".encode())

    def doing(self) -> str:
        """The process that has its processor, "" if it does not say."""
        return mconsole.current(mconsole.ask(self.folder / "guest" / "mconsole", "sysrq p"))

    def processor_s(self) -> float:
        """The processor time that all its processes have used so far; 0 before it has any."""
        try:
            leader = int((self.folder / "guest" / "pid").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return 0.0
        return session_processor_s(leader)


def session_processor_s(leader: int) -> float:
    """The processor time of a session's processes and of those that they have waited for."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # proc(5): the name in parentheses may hold anything; behind it, the session is the
            # fourth word, and the four times begin with the twelfth.
            words = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
            if int(words[3]) == leader:
                ticks += sum(map(int, words[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def size(terminal: int) -> tuple[int, int]:
    """Rows and columns."""
    columns, rows = os.get_terminal_size(terminal)
    return rows, columns


class Output:
    """One output of the command: a file the guest appends to, passed on as it grows."""

    def __init__(self, name: str, folder: Path, sink: int) -> None:
        self.name = name
        self.sink = sink
        self._source = (folder / name).open("rb", buffering=0)
        # Kept here, so that an interrupt between reading and writing loses nothing.
        self._rest = b""
        self._is_closed = False

    def pass_on(self) -> bool:
        """Write what is new to our own output; False, once, if that is closed."""
        while self._rest or self._read():
            if self._is_closed:
                self._rest = b""
                continue
            try:
                self._rest = self._rest[os.write(self.sink, self._rest) :]
            except BlockingIOError:
                select.select([], [self.sink], [])
            except BrokenPipeError:
                self._is_closed = True
                return False
        return True

    def _read(self) -> bool:
        self._rest = self._source.read(inside.CHUNK_BYTES) or b""
        return bool(self._rest)

    def close(self) -> None:
        self._source.close()


class Watch:
    """Stands beside a guest until it ends."""

    def __init__(
        self,
        guest: Guest,
        outputs: Sequence[Output],
        *,
        max_wall_s: float | None,
        stall_s: float,
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        self._meanwhile = meanwhile
        self._guest = guest
        self._outputs = outputs
        self._stall_s = stall_s
        self._max_wall_s = max_wall_s
        started = time.monotonic()
        self._deadline = None if max_wall_s is None else started + max_wall_s
        self._is_over_time = False
        self._last_sign = started
        self._next_glance = started
        self._used_s: float | None = None
        self._guest_time = ""
        self._waiting_orders: list[str] = []
        self._was_interrupted = False

    def run(self) -> None:
        with contextlib.ExitStack() as stack:
            for output in self._outputs:
                stack.callback(output.close)
            stack.enter_context(_on_resize(self._resized))
            goes_on = True
            while goes_on:
                try:
                    goes_on = self._look_in_haste() if self._was_interrupted else self._look()
                except KeyboardInterrupt:
                    if self._was_interrupted:
                        raise
                    interrupts.heed()
                    self._was_interrupted = True
                    self._order(f"signal {int(signal.SIGINT)}")
        if self._is_over_time:
            raise self._over_time("its results so far are kept")

    def _look_in_haste(self) -> bool:
        with interrupts.hurried():
            return self._look()

    def _look(self) -> bool:
        """Pass on what there is, then wait a moment; False when the guest has ended."""
        ended, _, _ = select.select([self._guest.end], [], [], LOOK_S)
        now = time.monotonic()
        guest_time = (self._guest.folder / "clock").read_text(encoding="utf-8")
        if guest_time != self._guest_time:
            self._guest_time = guest_time
            self._last_sign = now
            self._used_s = None
            self._order()
        self._pass_on()
        if ended:
            return False
        self._check_clock(now)
        if self._meanwhile is not None:
            self._meanwhile()
        return True

    def _order(self, *orders: str) -> None:
        """Pass orders in, once the guest has said that its command runs; before, it is deaf."""
        self._waiting_orders += orders
        while self._guest_time and self._waiting_orders:
            self._guest.order(self._waiting_orders.pop(0))

    def _pass_on(self) -> None:
        for output in self._outputs:
            if not output.pass_on():
                self._order(f"close {output.name}")

    def _check_clock(self, now: float) -> None:
        if self._has_stalled(now):
            raise self._stalled()
        if self._deadline is None or now < self._deadline:
            return
        if self._is_over_time:
            doing = self._guest.doing() or "its command"
            raise self._over_time(f"{doing} did not end when interrupted")
        self._is_over_time = True
        self._deadline = now + LAST_WORDS_S
        self._order(f"signal {int(signal.SIGINT)}")

    def _has_stalled(self, now: float) -> bool:
        silent_s = now - self._last_sign
        if silent_s < LULL_S or now < self._next_glance:
            return False
        self._next_glance = now + LULL_S
        used_s = self._guest.processor_s()
        if self._used_s is None:
            self._used_s = used_s
        return used_s - self._used_s > self._stall_s or silent_s > STALL_WALL * self._stall_s

    def _stalled(self) -> LabError:
        doing = self._guest.doing()
        silent_s = time.monotonic() - self._last_sign
        message = f"the guest showed no sign of life for {silent_s:.0f} s of wall time"
        if not doing:
            return LabError(f"{message}; its last lines:\n{last_lines(self._guest.folder)}")
        if self._guest.kind == "sim":
            return LabError(
                f"{message}: {doing} computes and never waits, so simulated time stands still "
                f"(at {self._guest_time or 'its start'} s)",
                remedy="a loop that polls must sleep, or wait with a timeout",
            )
        return LabError(f"{message}; {doing} has its processor")

    def _over_time(self, what: str) -> LabError:
        return LabError(
            f"the guest ran longer than {self._max_wall_s:g} s of wall time "
            f"(its own clock: {self._guest_time or 0} s); {what}"
        )

    def _resized(self) -> None:
        for output in self._outputs:
            if os.isatty(output.sink):
                rows, columns = size(output.sink)
                self._order(f"size {rows} {columns}")
                return


@contextlib.contextmanager
def _on_resize(action: Callable[[], None]) -> Iterator[None]:
    """Call `action` whenever the terminal's size changes; only the main thread can be told."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGWINCH, lambda _number, _frame: action())
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)


def last_lines(folder: Path) -> str:
    return crash_report((folder / "console").read_text(errors="replace"))


def crash_report(console: str) -> str:
    """The part of the kernel's own lines that says why it ended: from its panic on, or the end."""
    lines = console.splitlines()
    panics = [at for at, line in enumerate(lines) if "Kernel panic" in line]
    told = lines[panics[0] :][:15] if panics else lines[-15:]
    return "\n".join(told) or "(it said nothing)"
