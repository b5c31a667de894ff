"""Accompanies a guest kernel until it ends: passes output and orders on, watches its clock."""

import contextlib
import math
import os
import re
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from netesto.errors import GuestError
from netesto.grounds import Ground
from netesto.lab import inside, mconsole, spinner
from netesto.system import interrupts, process

# The maximum processor time of a guest without a sign of life. In real time the sign is that its
# clock moves. In simulated time it is that all processes waited for a moment: while a program polls
# the clock, time advances by nanoseconds. A program that only computes (for example, reads a large
# capture) gives no sign, so this must be longer than any useful computation. Wall time is no
# measure: on a busy machine a guest may get a tenth of it.
STALL_S = 120.0

# The share of the processor time that marks a program to be ended. If a thousand programs start at
# one instant of simulated time, none has this share.
SPINNER_SHARE = 0.6

# Simulated time passes while all processes wait. If this much of it passes otherwise, twice within
# this much processor time, a program polls: it reads the clock a thousand times as often as
# programs that wait. Detection takes some ten seconds.
POLLED_S, POLLED_WITHIN_S = 0.05, 60.0

# If no single program of an experiment is the cause, wait this many times as long: netesto itself,
# or a thousand programs, may have much to compute.
DOUBT = 5

# The maximum once the command was asked to end, and the interval then: the command needs the rest
# of ENDING_S for its own end.
HASTE_S, HASTE_LOOK_S = 1.5, 0.25

# After a request to end, the guest may compute for this much longer. A limit of wall time would
# lose measurements on a busy machine.
ENDING_S = 3.5

# This many times as much wall time is too long in any case: the guest waits for something that
# never happens.
STALL_WALL = 10

# The processor time is read after this much silence, and then at this interval.
LULL_S = 1.0

# After the wall-clock limit the command may still write its results.
LAST_WORDS_S = 20.0

# The remedy if a guest had too little memory.
MORE_MEMORY = "Use fewer hosts or flows at once, or give the guest more: --memory SIZE."

# The remedy for a program that never waits.
NEVER_WAITS = (
    "A loop that polls must sleep, or wait with a timeout; a sender must be limited by a path"
    " with a rate. --max-stall allows more."
)

# The remedy for a program that polls.
POLLS = "The run continues. A loop that polls must sleep, or wait with a timeout."

# The maximum of a command line in messages, and of the kernel's name of a process.
SHOWN_CHARACTERS = 200
NAME_CHARACTERS = 15

# What a crash report shows of the console: from the panic on, or at its end, and at most before the
# panic. There a kernel tells what it was doing (show_regs(), BUG()).
LAST_LINES, CULPRIT_LINES, REGISTER_LINES = 15, 40, 10
_CULPRIT = re.compile(
    r"(\[[ \d.]+\] )?(BUG: |kernel BUG at |Modules linked in|Pid: \d+, comm|RIP: )"
)

# The delay of output, too short to be seen.
LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Guest:
    """A started guest: its folder, our end of the pipe for orders, its process; the descriptor
    `end` is readable when it has ended."""

    ground: Ground
    folder: Path
    orders: int
    end: int
    child: process.Child

    def order(self, text: str) -> None:
        """Pass an order in; no error if the guest has just ended."""
        with contextlib.suppress(OSError):
            os.write(self.orders, f"{text}\n".encode())

    def doing(self) -> str:
        """The process that runs on its processor; "" if unknown."""
        return mconsole.current(mconsole.ask(self.folder / "guest" / "mconsole", "sysrq p"))

    def lacks_memory(self) -> bool:
        """Whether memory is so short that its kernel reads programs from disk again and again."""
        return mconsole.is_short(mconsole.ask(self.folder / "guest" / "mconsole", "sysrq m"))

    @property
    def leader(self) -> int:
        """Its kernel's process on this machine; 0 before it is known."""
        try:
            return int((self.folder / "guest" / "pid").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return 0

    def clock(self) -> tuple[str, str]:
        """Its clock and its idle time in seconds; "" before its command runs."""
        time_s, _, idle_s = (self.folder / "clock").read_text(encoding="utf-8").partition(" ")
        return time_s, idle_s


def size(terminal: int) -> tuple[int, int]:
    """Rows and columns."""
    columns, rows = os.get_terminal_size(terminal)
    return rows, columns


class GuestOutput:
    """An output of the command: a file to which the guest appends, passed on as it grows."""

    def __init__(self, name: str, folder: Path, sink: int) -> None:
        self.name = name
        self.sink = sink
        self._source = (folder / name).open("rb", buffering=0)
        # An attribute, so that an interrupt between reading and writing does not lose data.
        self._rest = b""
        self._is_closed = False

    def pass_on(self) -> bool:
        """Write new content to the sink; False, once, if that is closed."""
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
    """Accompanies a guest until it ends."""

    def __init__(
        self,
        guest: Guest,
        outputs: Sequence[GuestOutput],
        *,
        max_wall_s: float | None,
        stall_s: float,
        meanwhile: Callable[[], None] | None = None,
        argv: Sequence[str] = (),
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self._argv = tuple(argv)
        self._warn = warn
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
        # When it was first found silent: the processor time of its processes. It is not asked what
        # it does before it is to be ended: that interrupts it at a random instant.
        self._ticks: dict[int, int] | None = None
        self._has_ended_spinner = False
        self._patience = 1
        self._guest_time = self._idle_s = self._sign_s = ""
        # The last reading of the simulated time that passed during polling, and the processor time
        # of its processes then; None if there is no report to make.
        self._polled_s = 0.0
        self._is_simulated = guest.ground.is_simulated
        self._ticks_polled: dict[int, int] | None = {} if warn and self._is_simulated else None
        self._waiting_orders: list[str] = []
        self._was_interrupted = False
        # The command was asked to end; it cannot notice while another program never waits.
        self._is_in_haste = False
        # The processor time of its processes by which it must have ended.
        self._latest_s = math.inf

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
                    interrupts.begin_shutdown()
                    self._was_interrupted = True
                    self._latest_s = self._processor_s() + ENDING_S
                    self._interrupt()
        if self._is_over_time:
            raise self._over_time("its results so far are kept")

    def _look_in_haste(self) -> bool:
        with interrupts.hurried():
            return self._look()

    def _look(self) -> bool:
        """Wait a moment, then pass on new output; False when the guest has ended."""
        ended, _, _ = select.select([self._guest.end], [], [], LOOK_S)
        now = time.monotonic()
        self._note_clock(now)
        self._pass_on()
        if ended:
            return False
        self._check_clock(now)
        if self._meanwhile is not None:
            self._meanwhile()
        return True

    def _note_clock(self, now: float) -> None:
        time_s, idle_s = self._guest.clock()
        lives = idle_s != self._idle_s if self._is_simulated else time_s != self._guest_time
        self._guest_time, self._idle_s = time_s, idle_s
        if lives:
            self._last_sign, self._sign_s = now, time_s
            self._ticks = None
            self._has_ended_spinner = False
            self._patience = 1
            self._order()
            if self._ticks_polled is not None:
                self._note_polling(float(time_s) - float(idle_s), self._ticks_polled)

    def _note_polling(self, polled_s: float, before: Mapping[int, int]) -> None:
        """Report once which program makes simulated time crawl: the most active one."""
        if not before and not self._polled_s:
            self._polled_s = polled_s
        passed_s = polled_s - self._polled_s
        if passed_s < POLLED_S:
            return
        self._polled_s, self._ticks_polled = polled_s, spinner.processor_ticks(self._guest.leader)
        used_s = _seconds(self._ticks_polled) - _seconds(before)
        if not before or used_s > POLLED_WITHIN_S or self._warn is None:
            return
        found = spinner.busiest(self._guest.leader, before)
        self._ticks_polled = None
        name = "a program"
        if found is not None and found.argv and found.share > SPINNER_SHARE:
            name = described("", found.argv)
        self._warn(
            f"{name} polls, and simulated time crawls: {passed_s:.2g} s of it took {used_s:.2g} s"
            f" of processor time (at {self._guest_time} s). {POLLS}"
        )

    def _interrupt(self) -> None:
        self._is_in_haste = True
        self._order(f"signal {int(signal.SIGINT)}")

    def _order(self, *orders: str) -> None:
        """Pass orders in, or keep them until the guest's command runs."""
        self._waiting_orders += orders
        while self._guest_time and self._waiting_orders:
            self._guest.order(self._waiting_orders.pop(0))

    def _pass_on(self) -> None:
        for output in self._outputs:
            if not output.pass_on():
                self._order(f"close {output.name}")

    def _check_clock(self, now: float) -> None:
        if self._was_interrupted and self._processor_s() > self._latest_s:
            if self._warn is not None:
                self._warn(
                    f"the guest did not end within {ENDING_S:g} s of processor time;"
                    " measurements since its last experiment are lost"
                )
            raise interrupts.RequestToEnd
        if self._has_stalled(now):
            self._end_spinner(now)
        if self._deadline is None or now < self._deadline:
            return
        if self._is_over_time:
            doing = self._guest.doing() or "its command"
            raise self._over_time(f"{doing} did not end when interrupted")
        self._is_over_time = True
        self._deadline = now + LAST_WORDS_S
        self._interrupt()

    def _has_stalled(self, now: float) -> bool:
        silent_s = now - self._last_sign
        if silent_s < LULL_S or now < self._next_glance:
            return False
        self._next_glance = now + (HASTE_LOOK_S if self._is_in_haste else LULL_S)
        ticks = spinner.processor_ticks(self._guest.leader)
        if self._ticks is None:
            self._ticks = ticks
        used_s = _seconds(ticks) - _seconds(self._ticks)
        limit_s = self._stall_s * self._patience
        if self._is_in_haste:
            limit_s = min(limit_s, HASTE_S)
        return used_s > limit_s or silent_s > STALL_WALL * self._stall_s

    def _processor_s(self) -> float:
        return _seconds(spinner.processor_ticks(self._guest.leader))

    def _end_spinner(self, now: float) -> None:
        """End the program for which all others wait. GuestError if it is unknown or must not be
        ended, if that did not help, or if the guest has no memory left."""
        if self._guest.lacks_memory():
            raise GuestError(
                f"the guest had no memory left and made no progress (at {self._guest_time or 0} s)",
                remedy=MORE_MEMORY,
            )
        found = spinner.busiest(self._guest.leader, self._ticks or {})
        may_end = (
            self._is_simulated
            and self._warn is not None
            and not self._has_ended_spinner
            and found is not None
            and found.share > SPINNER_SHARE
            and found.argv not in {(), self._argv}
            # The guest's process 1: while it boots on a busy machine, or the user interrupts it.
            and inside.__file__ not in found.argv
        )
        if not may_end and self._is_simulated and (self._is_in_haste or self._patience == 1):
            self._is_in_haste, self._patience = False, DOUBT
            return
        doing = self._guest.doing()
        if found is None or self._warn is None or not may_end:
            raise self._stalled(doing, found.argv if found is not None else ())
        self._has_ended_spinner = True
        self._last_sign, self._ticks = now, None
        spinner.end(found)
        name = described(doing, found.argv)
        self._warn(f"{name} {self._stands_still()}; it was ended. {NEVER_WAITS}")

    def _stalled(self, doing: str, argv: Sequence[str]) -> GuestError:
        silent_s = time.monotonic() - self._last_sign
        message = f"the guest showed no sign of life for {silent_s:.0f} s of wall time"
        if not doing:
            last = crash_report(console(self._guest.folder))
            return GuestError(f"{message}; its last lines:\n{last}")
        if self._is_simulated:
            return GuestError(
                f"{message}: {described(doing, argv)} {self._stands_still()}", remedy=NEVER_WAITS
            )
        return GuestError(f"{message}; {doing} runs on its processor")

    def _stands_still(self) -> str:
        since = "its start" if not self._sign_s else f"{self._sign_s} s"
        crept = "" if self._sign_s == self._guest_time else f", now {self._guest_time} s"
        return f"computes and never waits, so simulated time stands still (at {since}{crept})"

    def _over_time(self, what: str) -> GuestError:
        return GuestError(
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
    """Call `action` when the terminal's size changes, in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGWINCH, lambda _number, _frame: action())
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)


def _seconds(ticks: Mapping[int, int]) -> float:
    return sum(ticks.values()) / os.sysconf("SC_CLK_TCK")


def described(doing: str, argv: Sequence[str]) -> str:
    """A process by name, number and command line. The name is left out if it may be another's: of
    two processes that wake each other either may be running."""
    line = " ".join(" ".join(argv).split())
    shown = line if len(line) <= SHOWN_CHARACTERS else f"{line[:SHOWN_CHARACTERS]}…"
    if not argv:
        return doing
    is_same = doing.partition(" (process")[0].startswith(Path(argv[0]).name[:NAME_CHARACTERS])
    return f"{doing.removesuffix(')')}: {shown})" if is_same else shown


def console(folder: Path) -> str:
    """The console output of a guest's kernel."""
    return (folder / "console").read_text(encoding="utf-8", errors="replace")


def crash_report(said: str) -> str:
    """The console lines with the reason for the kernel's end: from the line that names the culprit
    on, or from its panic on, or the last ones."""
    lines = said.splitlines()
    panics = [at for at, line in enumerate(lines) if "Kernel panic" in line]
    if not panics:
        return "\n".join(lines[-LAST_LINES:]) or "(no output)"
    # What this program has asked it meanwhile (mconsole) names nobody.
    asked = [at for at in range(panics[0]) if lines[at] == "sysrq: Show Regs"]
    first = max(0, panics[0] - CULPRIT_LINES, *(at + REGISTER_LINES for at in asked))
    named = (at for at in range(first, panics[0]) if _CULPRIT.match(lines[at]))
    begin = next(named, panics[0])
    return "\n".join(lines[begin : panics[0] + LAST_LINES])
