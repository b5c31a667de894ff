"""Process 1 of a guest kernel: sets the guest up, runs one command, reports, powers off.

Python starts this file by its path, without site packages: only the standard library is there.

The guest's root is a layer of memory over the machine's own files: everything can be read and
written, but only what is written under `GuestJob.writable` reaches the machine.

    outside                                 inside (this file)
    job.json, stdin          ──────────►    read once, before anything else
    stdout, stderr (files)   ◄──────────    what the command writes, as it writes it
    clock (a file)           ◄──────────    guest time, and idle time
    orders (a pipe)          ──────────►    `signal N`, `size R C`, `close X`
    status (a file)          ◄──────────    the exit status, last of all

Output goes through files, because writing to a file takes no guest time and causes no interrupt. A
pipe that fills or empties interrupts the guest at a random instant of simulated time, which mixes
into the kernel's random numbers: no two runs would be equal.
"""

import ctypes
import errno
import fcntl
import json
import os
import pty
import select
import signal
import socket
import struct
import sys
import termios
import time
import tty
from collections.abc import Mapping, Sequence
from pathlib import Path

# From <linux/reboot.h>, <linux/mount.h>, <linux/random.h>, <asm/unistd_64.h>, <linux/if.h>,
# <linux/prctl.h>.
POWER_OFF = 0x4321FEDC
MS_MOVE = 0x2000
RNDRESEEDCRNG = 0x5207
SYS_FINIT_MODULE = 313
IFF_UP = 0x1
PR_SET_TIMERSLACK = 29

# A hostfs mount with this source shows the working folder of the kernel process, so that its
# command line contains no changing path.
PRIVATE = "/proc/self/cwd"

# Exit statuses of shells for a command that cannot be started.
NOT_EXECUTABLE, NOT_FOUND = 126, 127

CHUNK_BYTES = 65536

# In simulated time, how long a guest has been up when its command begins; it costs nothing.
UPTIME_S = 10

# A processor counts its cycles in real time, also in a guest. gRPC (Abseil's sysinfo.cc) measures
# their frequency against the clock until two measurements agree, which depends on chance in
# simulated time. It reads the frequency from here if it can, and uses it only for statistics.
CPU_FOLDER = "/sys/devices/system/cpu/cpu0"
CPU_FACTS: Mapping[str, str] = {"tsc_freq_khz": "1000000\n"}


class GuestJob:
    """The guest's task.

    `terminals` has rows and columns of those of stdout and stderr that are terminals outside.
    `modules` are loaded from `modules_folder` in order, with their dependencies. `seed` sets every
    random number of the guest; None leaves them random. `beat_s` is the interval, in guest time,
    between signs of life. With `defers_interrupts` the command begins with SIGINT blocked.

    Not a dataclass: to import what makes them takes a quarter of this program's start.
    """

    def __init__(
        self,
        *,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        writable: Sequence[str] = (),
        terminals: Mapping[str, Sequence[int]],
        modules_folder: str | None = None,
        modules: Sequence[str] = (),
        hostname: str = "guest",
        seed: int | None = None,
        beat_s: float = 1.0,
        defers_interrupts: bool = False,
    ) -> None:
        self.argv = argv
        self.cwd = cwd
        self.env = env
        self.writable = writable
        self.terminals = terminals
        self.modules_folder = modules_folder
        self.modules = modules
        self.hostname = hostname
        self.seed = seed
        self.beat_s = beat_s
        self.defers_interrupts = defers_interrupts

    def text(self) -> str:
        """The task as JSON."""
        return json.dumps(vars(self))


# --- the kernel's interface -----------------------------------------------------------------------


def mount(source: str, target: str, kind: str, *, flags: int = 0, data: str = "") -> None:
    words = (source.encode(), target.encode(), kind.encode())
    if _libc().mount(*words, flags, data.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount {kind}: {os.strerror(number)}", target)


def power_off() -> None:
    os.sync()
    _libc().reboot(POWER_OFF)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def load_order(names: Sequence[str], dependencies: str) -> list[str]:
    """Files to load, in order, for module names; `dependencies` is the text of modules.dep.

    Unknown names are skipped: they are built in, or not in this kernel.
    """
    needs: dict[str, list[str]] = {}
    for line in dependencies.splitlines():
        file, _, others = line.partition(":")
        needs[Path(file).name.split(".")[0]] = [file, *others.split()]
    # A line of modules.dep has the module to load first at its end.
    files = (file for name in names for file in reversed(needs.get(name, [])))
    return list(dict.fromkeys(files))


def _load_modules(folder: Path, names: Sequence[str]) -> None:
    libc = _libc()
    for file in load_order(names, (folder / "modules.dep").read_text(encoding="utf-8")):
        with (folder / file).open("rb") as module:
            if libc.syscall(SYS_FINIT_MODULE, module.fileno(), b"", 0) != 0:
                number = ctypes.get_errno()
                if number != errno.EEXIST:
                    # Not fatal: before a run the lab names what the kernel lacks.
                    _say(f"module {file}: {os.strerror(number)}")


def _say(text: str) -> None:
    """Write to the kernel's console, whose last lines are shown if the guest fails."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


# --- setting up -----------------------------------------------------------------------------------


def _enter_private_folder() -> Path:
    mount("proc", "/proc", "proc")
    mount("tmpfs", "/run", "tmpfs")
    folder = Path("/run/outside")
    folder.mkdir()
    mount("none", str(folder), "hostfs", data=PRIVATE)
    return folder


def _set_up(job: GuestJob) -> None:
    if job.modules_folder is not None:
        _load_modules(Path(job.modules_folder), job.modules)
    root = Path("/run/root")
    for path in (root, Path("/run/upper"), Path("/run/work")):
        path.mkdir()
    layers = "lowerdir=/,upperdir=/run/upper,workdir=/run/work"
    mount("overlay", str(root), "overlay", data=layers)
    os.chdir(root)
    mount(".", "/", "", flags=MS_MOVE)
    os.chroot(".")
    os.chdir("/")
    mount("proc", "/proc", "proc")
    mount("sysfs", "/sys", "sysfs")
    mount("devtmpfs", "/dev", "devtmpfs")
    mount("tmpfs", "/run", "tmpfs", data="mode=755")
    for folder, kind, data in (
        ("/dev/pts", "devpts", "mode=620,ptmxmode=666"),
        ("/dev/shm", "tmpfs", "mode=1777"),  # noqa: S108 - the guest's own
    ):
        Path(folder).mkdir(exist_ok=True)
        mount(kind, folder, kind, data=data)
    # Shorter paths first, so that no folder covers one within it.
    for writable in sorted(job.writable, key=len):
        Path(writable).mkdir(parents=True, exist_ok=True)
        mount("none", writable, "hostfs", data=writable)
    if home := job.env.get("HOME"):
        Path(home).mkdir(parents=True, exist_ok=True)
    socket.sethostname(job.hostname)
    _bring_up_loopback()
    _give_tcp_memory()
    if job.seed is not None:
        _say_cpu_facts()
        _seed(job.seed)
        # Otherwise the kernel wakes sleepers together, up to 50 us late. All processes inherit it.
        _libc().prctl(PR_SET_TIMERSLACK, 1)
        # Programs interpret a clock at 0 s as never set; ping would flood.
        time.sleep(max(UPTIME_S - time.monotonic(), 0))


def _bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        # struct ifreq: a name, then the flags.
        request = struct.pack("16sH22x", b"lo", IFF_UP)
        fcntl.ioctl(any_socket, 0x8914, request)  # SIOCSIFFLAGS


def _give_tcp_memory() -> None:
    """Let TCP use as much of the guest's memory as an experiment may need.

    By default TCP is throttled at a sixteenth of it, which is half of the data in flight on a path
    of 10 Gbit/s and 100 ms.
    """
    pages = os.sysconf("SC_PHYS_PAGES")
    Path("/proc/sys/net/ipv4/tcp_mem").write_text(
        " ".join(str(pages * eighths // 8) for eighths in (4, 5, 6)), encoding="utf-8"
    )


def _say_cpu_facts() -> None:
    """Add CPU_FACTS to the processor's folder in sysfs."""
    layer = Path("/run/cpu0")
    layer.mkdir()
    for name, text in CPU_FACTS.items():
        (layer / name).write_text(text, encoding="utf-8")
    mount("overlay", CPU_FOLDER, "overlay", data=f"lowerdir={layer}:{CPU_FOLDER}")


def _seed(seed: int) -> None:
    """Mix the seed into the kernel's random numbers, and restart them from it."""
    with Path("/dev/urandom").open("wb", buffering=0) as pool:
        pool.write(f"netesto seed {seed}".encode())
        fcntl.ioctl(pool, RNDRESEEDCRNG)


# --- running --------------------------------------------------------------------------------------


class _Stream:
    """An output of the command: the end that it writes to, the end that we read, the file
    outside."""

    def __init__(
        self, name: str, *, command_end: int, our_end: int, file: int, is_terminal: bool
    ) -> None:
        self.name = name
        self.command_end = command_end
        self.our_end = our_end
        self.file = file
        self.is_terminal = is_terminal

    def relay(self) -> bool:
        """Pass on new output; False after the last."""
        try:
            chunk = os.read(self.our_end, CHUNK_BYTES)
        except BlockingIOError:
            return True
        except OSError as error:
            # EIO: the last writer has closed the terminal.
            if error.errno != errno.EIO:
                raise
            return False
        if not chunk:
            return False
        while chunk:
            chunk = chunk[os.write(self.file, chunk) :]
        return True

    def resize(self, rows: int, columns: int) -> None:
        if self.is_terminal:
            size = struct.pack("HHHH", rows, columns, 0, 0)
            fcntl.ioctl(self.our_end, termios.TIOCSWINSZ, size)


def _stream(name: str, file: int, size: Sequence[int] | None) -> _Stream:
    if size is None:
        our_end, command_end = os.pipe()
    else:
        our_end, command_end = pty.openpty()
        # Bytes pass unchanged; the terminal outside processes them.
        tty.setraw(command_end)
    os.set_blocking(our_end, False)
    stream = _Stream(
        name, command_end=command_end, our_end=our_end, file=file, is_terminal=size is not None
    )
    if size is not None:
        stream.resize(*size)
    return stream


def _start(job: GuestJob, stdin: int, streams: Sequence[_Stream]) -> int:
    """Start the command in a new session; its process id, once it can be signalled."""
    # exec closes it; then the session exists, and our signal handlers are gone.
    begun, before = os.pipe()
    pid = os.fork()
    if pid:
        for number in (before, *(stream.command_end for stream in streams)):
            os.close(number)
        os.read(begun, 1)
        os.close(begun)
        return pid
    failure, culprit = NOT_EXECUTABLE, job.cwd
    try:
        os.setsid()
        os.dup2(stdin, 0)
        os.dup2(streams[0].command_end, 1)
        os.dup2(streams[1].command_end, 2)
        # Python ignores these; commands expect the defaults.
        for sign in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(sign, signal.SIG_DFL)
        if job.defers_interrupts:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        os.chdir(job.cwd)
        culprit = job.argv[0]
        # process.py cannot be imported here, and process 1 has to fork anyway.
        os.execvpe(job.argv[0], list(job.argv), dict(job.env))  # noqa: S606
    except OSError as error:
        os.write(2, f"{culprit}: {error.strerror}\n".encode())
        failure = NOT_FOUND if error.errno == errno.ENOENT else NOT_EXECUTABLE
    finally:
        os._exit(failure)


class _Guest:
    """The command while it runs: passes output out and orders in, and reaps orphans."""

    def __init__(
        self, job: GuestJob, pid: int, streams: Sequence[_Stream], *, orders: int, clock: int
    ) -> None:
        self._beat_ms = job.beat_s * 1000
        self._pid = pid
        self._streams = {stream.our_end: stream for stream in streams}
        self._orders = orders
        self._clock = clock
        self._uptime = os.open("/proc/uptime", os.O_RDONLY | os.O_CLOEXEC)
        self._unread = b""
        self._woken, wake = os.pipe()
        for end in (self._woken, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        self._poll = select.poll()
        for number in (*self._streams, orders, self._woken):
            self._poll.register(number, select.POLLIN)

    def run(self) -> int:
        """Wait for the end of the command; its exit status, as of a shell."""
        self._say_time()
        while True:
            for number, _ in self._poll.poll(self._beat_ms):
                self._answer(number)
            self._say_time()
            status = self._reap()
            if status is not None:
                for number in list(self._streams):
                    self._drain(number)
                return status

    def _answer(self, number: int) -> None:
        if number in self._streams:
            self._relay(number)
        elif number == self._orders:
            self._obey()
        else:
            os.read(self._woken, CHUNK_BYTES)

    def _relay(self, number: int) -> bool:
        goes_on = self._streams[number].relay()
        if not goes_on:
            self._close(number)
        return goes_on

    def _drain(self, number: int) -> None:
        """Pass on what the command had written when it ended; others may still have its streams."""
        ready = select.poll()
        ready.register(number, select.POLLIN)
        while ready.poll(0) and self._relay(number):
            pass

    def _close(self, number: int) -> None:
        self._poll.unregister(number)
        del self._streams[number]
        os.close(number)

    def _say_time(self) -> None:
        # proc(5): its second number is the time without any work.
        idle = os.pread(self._uptime, CHUNK_BYTES, 0).split()[1]
        os.pwrite(self._clock, b"%.3f %s" % (time.monotonic(), idle), 0)

    def _obey(self) -> None:
        try:
            self._unread += os.read(self._orders, CHUNK_BYTES)
        except OSError:
            return
        *orders, self._unread = self._unread.split(b"\n")
        for order in orders:
            self._carry_out(order.decode().split())

    def _carry_out(self, words: list[str]) -> None:
        match words:
            case ["signal", sign]:
                self._signal(int(sign))
            case ["size", rows, columns]:
                for stream in self._streams.values():
                    stream.resize(int(rows), int(columns))
                self._signal(signal.SIGWINCH)
            case ["close", name]:
                for number, stream in list(self._streams.items()):
                    if stream.name == name:
                        self._close(number)
            case _:
                _say(f"unknown order: {words}")

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self._pid, number)
        except ProcessLookupError:
            return

    def _reap(self) -> int | None:
        """Reap every process that has ended; the command's status if it is one of them."""
        while True:
            try:
                pid, raw = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return None
            if pid == 0:
                return None
            if pid == self._pid:
                code = os.waitstatus_to_exitcode(raw)
                return code if code >= 0 else 128 - code


def _open_orders() -> int:
    orders = os.open("/dev/ttyS0", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    # TCSANOW keeps orders that have arrived; the default would discard them.
    tty.setraw(orders, termios.TCSANOW)
    return orders


def _append(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)


def main() -> None:
    """Run the job; whatever happens, write the status and power off."""
    result: dict[str, object] = {"error": "the guest ended before its command"}
    folder = _enter_private_folder()
    status = (folder / "status").open("w")
    try:
        job = GuestJob(**json.loads((folder / "job.json").read_text(encoding="utf-8")))
        stdin = os.open(folder / "stdin", os.O_RDONLY | os.O_CLOEXEC)
        files = {name: _append(folder / name) for name in ("stdout", "stderr")}
        clock = os.open(folder / "clock", os.O_WRONLY | os.O_CLOEXEC)
        _set_up(job)
        streams = [_stream(name, file, job.terminals.get(name)) for name, file in files.items()]
        orders = _open_orders()
        pid = _start(job, stdin, streams)
        result = {"status": _Guest(job, pid, streams, orders=orders, clock=clock).run()}
    except Exception:  # noqa: BLE001 - the top of a whole machine
        import traceback  # noqa: PLC0415 - rarely needed, and it takes a moment

        result = {"error": traceback.format_exc()}
    finally:
        json.dump(result, status)
        status.close()
        power_off()


if __name__ == "__main__":
    main()
