"""Runs one command inside a guest kernel as if it ran here: same files, same output, same status.

    run() ── linux (one process, its own session) ── inside.py (process 1) ── the command

Needs no root. The guest ends with this process, also after kill -9.
"""

import contextlib
import errno
import os
import re
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from netesto.collectors import cpu
from netesto.errors import GuestError, LabError, ProcessError, UsageError
from netesto.files import jsontext
from netesto.grounds import GUEST_CONTROLS, GUEST_QDISCS
from netesto.lab import inside
from netesto.lab.graph import Link, Topology
from netesto.lab.kernels import Kernel
from netesto.lab.watch import (
    MORE_MEMORY,
    STALL_S,
    Guest,
    GuestOutput,
    Watch,
    console,
    crash_report,
    size,
)
from netesto.model import GUEST_MEMORY_MB
from netesto.system import owned, proc, process

# The usual memory (model.GUEST_MEMORY_MB) is enough for so many hosts; further ones take this much
# each. Pages are allocated when used.
USUAL_HOSTS, HOST_MEMORY_MB = 16, 14

# The memory for each byte that a link can have in flight: with as much again in its queue, at the
# sender and at the receiver, and with what the kernel adds to each packet, 10 Gbit/s over 100 ms
# needs more than 2 GB; with less, TCP is throttled.
FLIGHT_FACTOR = 16

# More must be requested: the kernel's list of its pages takes a sixty-fourth of it.
MOST_MEMORY_MB = 8192

# The kernel's message if this machine refuses it its memory.
_NO_ADDRESSES = "setup_physmem - mapping"

# Without it no process of a guest runs on a processor with AMX (source/registers.c).
REGISTERS = Path(__file__).parent / "netesto-registers.so"
_NO_REGISTERS = f"set fp regs failed, errno = {errno.EFAULT}"

# A fact of a guest.
_KERNEL_HASH = "kernel hash"

# They refer to things outside that the guest lacks.
FOREIGN_VARIABLES = frozenset(
    {"XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK", "TMPDIR", "NOTIFY_SOCKET"}
)

# Modules of the distribution's kernel that a lab may need; those that are built in, or missing in a
# version, are skipped. overlay is first: the guest's root needs it.
MODULES = (
    "overlay",
    *("veth", "bridge", "ifb", "dummy", "tun", "8021q", "macvlan", "ipvlan", "vrf"),
    *("udp_diag", "raw_diag", "unix_diag", "af_packet_diag", "netlink_diag"),
    *(f"tcp_{control}" for control in GUEST_CONTROLS),
    *(f"sch_{qdisc}" for qdisc in GUEST_QDISCS),
    *("cls_basic", "cls_bpf", "cls_flow", "cls_flower", "cls_fw"),
    *("cls_matchall", "cls_u32", "act_mirred", "act_bpf", "act_police", "act_gact", "act_skbedit"),
)


# Benchmarks for RAID, which take most of a second of the distribution kernel's boot.
SLOW_INITCALLS = ("raid6_select_algo", "calibrate_xor_blocks")

# This distinguishes a busy processor from an idle one.
CPU_LOOK_S = 0.1

# The C library then takes memory for each request from a place of its own, and none from behind the
# program, where the guest's memory is (physmem.h).
HEAP: Mapping[str, str] = {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=0"}


def kernel_inside() -> str:
    """The hash of the kernel of the guest that this process runs in, "" outside of guests."""
    return proc.guest_facts().get(_KERNEL_HASH, "")


def run(
    argv: Sequence[str],
    *,
    kernel: Kernel,
    writable: Sequence[Path] = (),
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    max_wall_s: float | None = None,
    stall_s: float = STALL_S,
    memory_mb: int = GUEST_MEMORY_MB,
    warn: Callable[[str], None] | None = None,
    seed: int = 0,
    stdout: int = 1,
    stderr: int = 2,
    meanwhile: Callable[[], None] | None = None,
    defers_interrupts: bool = False,
) -> int:
    """Run a command in a guest, in this working directory; its exit status (128+n: a signal).

    The guest reads all files of the machine except those below /run, /dev, /proc and /sys, which
    are its own. Only files that it writes in the existing folders `writable` remain. `stdout` and
    `stderr` are file descriptors; if one is a terminal, it is one inside, too. `seed` sets every
    random number of a guest in simulated time. `meanwhile` is called several times a second while
    the guest runs; it must not raise. A program that computes for `stall_s` in simulated time and
    never waits is ended, and `warn` called; without `warn`, or if it is the command itself, the
    guest is ended.

    The first KeyboardInterrupt interrupts the command, which may end in its own way; with
    `defers_interrupts` it begins with SIGINT blocked, and unblocks it. A second Ctrl-C, or much
    computing afterwards, ends the guest and raises KeyboardInterrupt. LabError if the guest cannot
    start. GuestError if it crashes (with the kernel's last lines), shows no sign of life for
    `stall_s` of processor time, or runs longer than `max_wall_s` of wall time. The guest ends with
    the calling thread.
    """
    if missing := [path for path in writable if not path.is_dir()]:
        raise UsageError(f"{missing[0]}: no such folder")
    terminals = {
        name: size(number)
        for name, number in (("stdout", stdout), ("stderr", stderr))
        if os.isatty(number)
    }
    job = inside.GuestJob(
        argv=tuple(argv),
        cwd=str(Path.cwd()),
        env=environment(os.environ if env is None else env, kernel, memory_mb=memory_mb),
        writable=tuple(str(path.resolve()) for path in writable),
        terminals=terminals,
        modules_folder=str(kernel.modules) if kernel.modules else None,
        modules=MODULES if kernel.modules else (),
        hostname=kernel.kind,
        seed=seed if kernel.ground.is_simulated else None,
        beat_s=kernel.ground.beat_s,
        defers_interrupts=defers_interrupts,
    )
    with (
        owned.folder(base_folder()) as folder,
        _booted(job, kernel, memory_mb, folder, stdin) as guest,
    ):
        outputs = (GuestOutput("stdout", folder, stdout), GuestOutput("stderr", folder, stderr))
        watch = Watch(
            guest,
            outputs,
            max_wall_s=max_wall_s,
            stall_s=stall_s,
            meanwhile=meanwhile,
            argv=argv,
            warn=warn,
        )
        watch.run()
        status = _status(folder, guest.child, memory_mb)
        if killed := killed_for_memory(console(folder)):
            _tell_memory(memory_mb, killed, status, warn)
        return status


def memory_mb(network: Topology) -> int:
    """The memory, in MiB, of a guest with this lab. TCP derives limits and tables from it, so it
    depends on nothing else: not on the machine."""
    more_hosts = max(0, len(network.hosts) - USUAL_HOSTS)
    in_flight = sum(map(_in_flight_bytes, network.links))
    wanted = GUEST_MEMORY_MB + more_hosts * HOST_MEMORY_MB + FLIGHT_FACTOR * in_flight / 2**20
    return min(round(wanted), MOST_MEMORY_MB)


def _in_flight_bytes(link: Link) -> float:
    """The bandwidth-delay product of a link, in its faster direction."""
    both = link.settings, link.back or link.settings
    fastest_bps = max(each.rate_bps or 0 for each in both)
    return fastest_bps / 8 * sum(each.delay_ms for each in both) / 1000


def remove_leftovers() -> list[Path]:
    """Remove folders of guests whose starter was killed, as the next `run` does; the folders."""
    return owned.remove_abandoned(base_folder())


def environment(given: Mapping[str, str], kernel: Kernel, *, memory_mb: int) -> dict[str, str]:
    """The command's environment: the given one without FOREIGN_VARIABLES, the mark, and facts of
    the guest. For a `netesto run` inside, the mark wins over --ground: it builds its lab there. In
    simulated time sets of Python have the same order in every run."""
    kept = {name: value for name, value in given.items() if name not in FOREIGN_VARIABLES}
    same = {"PYTHONHASHSEED": "0"} if kernel.ground.is_simulated else {}
    known = facts(memory_mb, kernel.sha256())
    lines = "\n".join(f"{name}: {text}" for name, text in known.items())
    return kept | same | {proc.GROUND_MARK: kernel.kind, proc.GUEST_FACTS: lines}


def facts(memory_mb: int, kernel_hash: str) -> dict[str, str]:
    """What manifests have of a guest."""
    return {"guest memory": f"{memory_mb} MiB", _KERNEL_HASH: kernel_hash}


def command(
    kernel: Kernel,
    *,
    memory_mb: int,
    orders: int,
    now_s: int,
    seed: int = 0,
    launcher: Sequence[str] = (),
) -> list[str]:
    """The command line of a guest kernel; `orders` is the file descriptor it gets orders from.

    Only the date in it changes from run to run; the working folder is the guest's. When the starter
    ends, this machine's kernel sends the signal, on which a user-mode kernel ends its processes
    (SIGKILL would leave them behind). `launcher` comes before the kernel.
    """
    distributed = (f"initcall_blacklist={','.join(SLOW_INITCALLS)}",)
    simulated = (
        "time-travel=inf-cpu",
        f"time-travel-start={now_s * 1_000_000_000}",
        # Losses and jitter: see repeatable.h.
        f"netesto.chance={seed}",
    )
    argv = [
        *launcher,
        str(kernel.path),
        f"mem={memory_mb}M",
        *("root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro"),
        *("uml_dir=./", "umid=guest"),
        *("con=null", "con0=null,fd:1", "ssl=null", f"ssl0=fd:{orders},null"),
        # A crash ends the guest at once; its report needs all of the kernel's messages.
        *("quiet", "loglevel=7", "panic=1"),
        *(simulated if kernel.ground.is_simulated else distributed),
        # A plain interpreter: a virtual environment's needs its site packages to be found.
        word(f"init={Path(sys.executable).resolve()}"),
        *("--", "-I", "-S", word(inside.__file__)),
    ]
    return process.tethered(argv)


def word(text: str) -> str:
    """One word of a kernel's command line. The kernel interprets it as Latin-1, in which a byte of
    a letter such as `à` in UTF-8 is a space, and accepts double quotes, which cannot be quoted
    themselves."""
    if '"' in text:
        raise LabError(f"a guest cannot start from {text!r}: the path contains a double quote")
    return text if re.fullmatch("[!-~]+", text) else f'"{text}"'


# --- the guest as a process ----------------------------------------------------------------------


@contextlib.contextmanager
def _booted(
    job: inside.GuestJob, kernel: Kernel, memory_mb: int, folder: Path, stdin: bytes
) -> Iterator[Guest]:
    (folder / "job.json").write_text(job.text(), encoding="utf-8")
    (folder / "stdin").write_bytes(stdin)
    for name in ("stdout", "stderr", "clock", "status", "console"):
        (folder / name).touch()
    with contextlib.ExitStack() as stack:
        theirs, ours = os.pipe()
        stack.callback(os.close, theirs)
        stack.callback(os.close, ours)
        argv = command(
            kernel,
            memory_mb=memory_mb,
            orders=theirs,
            now_s=_now_s(),
            seed=(job.seed or 0) % 2**64,
            launcher=("taskset", "--cpu-list", str(_idlest_cpu())),
        )
        env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(folder),
            "TMPDIR": str(_memory_folder(0 if kernel.ground.is_simulated else memory_mb, folder)),
            **HEAP,
        }
        if REGISTERS.exists():
            # By a path without spaces and colons, which separate paths there.
            (folder / REGISTERS.name).symlink_to(REGISTERS)
            env["LD_PRELOAD"] = f"./{REGISTERS.name}"
        try:
            child = stack.enter_context(
                process.background(
                    argv,
                    stdout=folder / "console",
                    env=env,
                    cwd=folder,
                    # With both ends there is no end of input when we are killed. In its interrupt a
                    # user-mode kernel could not end on the SIGTERM that comes at that moment: it
                    # would wait, computing, for the interrupt to be over.
                    pass_fds=(theirs, ours),
                )
            )
        except ProcessError as error:
            raise LabError(f"the guest kernel does not start: {error}") from error
        # Reports of crashes use the last lines, not a core dump.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            resource.prlimit(child.pid, resource.RLIMIT_CORE, (0, 0))
            # hostfs keeps every file open that the guest has looked at, and the imports of a Python
            # program are more than the usual limit of 1024.
            _, most = resource.prlimit(child.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(child.pid, resource.RLIMIT_NOFILE, (most, most))
        end = os.pidfd_open(child.pid)
        stack.callback(os.close, end)
        yield Guest(kernel.ground, folder, ours, end, child)


def _idlest_cpu() -> int:
    """The least busy of the processors that we may use.

    A guest's processes never run at the same time, and switch some ten thousand times a second. A
    switch on one processor costs a fifth of waking a process on another one.
    """
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) == 1:
        return allowed[0]
    before = cpu.idle_ticks()
    # The interval of the measurement, not a wait.
    time.sleep(CPU_LOOK_S)
    after = cpu.idle_ticks()
    return max(allowed, key=lambda core: after.get(core, 0) - before.get(core, 0))


def _now_s() -> int:
    # A whole second, so that runs have no fraction that differs, minus the guest's uptime when the
    # command begins.
    return int(time.time()) - inside.UPTIME_S


def _memory_folder(memory_mb: int, folder: Path) -> Path:
    """The folder for the (nameless) file of the guest's memory: in memory, or else on disk. In
    simulated time there is no such file (physmem.h), only small ones."""
    needed = memory_mb * 2**20
    for place in (Path("/dev/shm"), folder):  # noqa: S108 - the kernel's own file has no name
        try:
            facts = os.statvfs(place)
        except OSError:
            continue
        # The guest's programs run from there.
        runs = not facts.f_flag & os.ST_NOEXEC
        if runs and os.access(place, os.W_OK) and facts.f_bavail * facts.f_frsize >= needed:
            return place
    raise LabError(
        f"no space for a guest's memory of {memory_mb} MB: neither /dev/shm nor {folder.parent} "
        "has that much free space and allows running programs",
        remedy="Free space there, name another folder (TMPDIR=FOLDER), or use less: --memory SIZE.",
    )


def base_folder() -> Path:
    """Where each guest has its private folder while it runs."""
    return Path(tempfile.gettempdir())


def killed_for_memory(console: str) -> list[str]:
    """The names of the processes that a guest's kernel killed because it had no memory left."""
    return re.findall(r"Out of memory: Killed process \d+ \((.*?)\)", console)


def _status(folder: Path, child: process.Child, memory_mb: int) -> int:
    """The status that process 1 wrote before it powered off; LabError if it did not, GuestError if
    its command had begun."""
    try:
        result = jsontext.read(folder / "status")
    except ValueError:
        has_begun = (folder / "clock").stat().st_size > 0
        crash = GuestError if has_begun else LabError
        if child.wait() == -signal.SIGKILL:
            # Also while it starts: those that follow may have more memory.
            raise GuestError(
                "the guest kernel was killed (SIGKILL)",
                remedy="If no user did this, this machine was out of memory; see dmesg.",
            ) from None
        if os.statvfs(folder).f_bavail == 0:
            raise LabError(
                f"the guest kernel crashed: no space left in {folder.parent}",
                remedy="Free space there, or name another folder: TMPDIR=FOLDER.",
            ) from None
        said = console(folder)
        if _NO_ADDRESSES in said and f"errno = -{errno.ENOMEM}" in said:
            raise LabError(
                f"the guest kernel may not map its {memory_mb} MB of memory",
                remedy="A limit on address space forbids it: ulimit -v unlimited, or LimitAS= of"
                " the service.",
            ) from None
        if _NO_REGISTERS in said:
            raise LabError(
                "the guest kernel cannot run on this processor, which has AMX, without"
                f" {REGISTERS.name}: no C compiler when netesto was installed",
                remedy="Install a compiler (Debian: gcc, libc6-dev), and netesto again.",
            ) from None
        raise crash(f"the guest kernel crashed:\n{crash_report(said)}") from None
    if "status" not in result:
        raise LabError(f"the guest could not be set up:\n{result.get('error')}")
    return int(result["status"])


def _tell_memory(
    memory_mb: int, killed: Sequence[str], status: int, warn: Callable[[str], None] | None
) -> None:
    """Report the processes that the lack of memory ended. GuestError if the command is one."""
    names = ", ".join(sorted(set(killed)))
    what = f"the guest was out of memory ({memory_mb} MB): its kernel killed {names}"
    if status == 128 + signal.SIGKILL:
        raise GuestError(what, remedy=MORE_MEMORY)
    if warn is not None:
        warn(f"{what}. {MORE_MEMORY}")
