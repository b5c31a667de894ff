"""Real guests. What depends on the kernel is checked in real time and in simulated time; what the
starter and process 1 do, in simulated time, whose kernel boots in a third of the time."""

import contextlib
import os
import pty
import re
import signal
import sys
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

import pytest
from guests import Ended, run_inside
from needs import kernel_or_reason
from processes import wait_for_costly

import netesto
from netesto.errors import GuestError, LabError
from netesto.lab import guest, watch
from netesto.lab.kernels import Kernel
from netesto.system import owned, process

# A boot takes a second or two; a busy machine may need far longer, and nothing here waits it out.
PATIENCE_S = 200

STARTER = Path(__file__).with_name("starter.py")

# Interrupted, it says so, as a run that keeps its partial results does.
POLITE = """
import signal, sys, time
def stop(number, frame):
    print("partial results", flush=True)
    sys.exit(130)
signal.signal(signal.SIGINT, stop)
print("up", flush=True)
while True:
    time.sleep(0.05)
"""

PYTHON = (str(Path(sys.executable).resolve()), "-I", "-S", "-c")


@pytest.fixture
def busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A guest whose processor time is limited has any wall time: it may boot slowly."""
    monkeypatch.setattr(watch, "STALL_WALL", 10_000)


@contextlib.contextmanager
def started(kernel: Kernel, argv: list[str], out: Path) -> Iterator[Popen[bytes]]:
    """A program that runs a guest, once the command inside has printed `up`."""
    words = [sys.executable, str(STARTER), kernel.kind, *argv]
    ready = lambda: "up\n" in out.read_text()  # noqa: E731
    with process.background(words, stdout=out, ready=ready, timeout=PATIENCE_S) as child:
        yield child


def session(leader: int) -> list[int]:
    """The processes of a session, the sixth field of stat without the name."""
    found: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, number, *_ = stat.read_text().rpartition(")")[2].split()
            # A zombie waits for its parent, which we cannot speed up.
            if int(number) == leader and state != "Z":
                found.append(int(stat.parent.name))
    return found


# ---- one guest for many facts --------------------------------------------------------------------

# A command and what it finds, each in a file of the results folder. `$1` is a Python.
FACTS = """
pwd > cwd; echo "$COLOUR" > colour
cat /proc/sys/net/ipv4/tcp_available_congestion_control > controls
echo 1 > ../lost; echo 2 > new; mv new kept; ln -s kept latest
ip netns add far && ip link add here type veth peer name there netns far \\
    && ip addr add 10.9.0.1/24 dev here && ip link set here up \\
    && ip -n far addr add 10.9.0.2/24 dev there && ip -n far link set there up \\
    && tc qdisc add dev here root netem delay 20ms \\
    && ping -n -q -c 2 -i 0.2 10.9.0.2 > lab
ping -q -c 3 -i 0.5 127.0.0.1 > pings
[ "$kind" = uml ] || cat /sys/devices/system/cpu/cpu0/tsc_freq_khz > frequency
begin='import select, time; time.sleep(-time.monotonic_ns() % 10**8 / 1e9)'
for name in looks polls sleep select; do
    eval program=\\$$name
    "$0" -I -S -c "$begin
$program" > $name
done
"$0" -I -S -c "$memory" > memory
[ "$kind" = uml ] || sleep 3600
echo to out; echo to err >&2; exit 7
"""

# Programs that begin at a whole tenth of a second, and print nanoseconds.
CLOCKS = {
    "looks": "looks = [time.monotonic_ns() for _ in range(500)]; print(looks[-1] - looks[0])",
    "polls": """
end = time.monotonic_ns() + 100_000
while (now := time.monotonic_ns()) < end:
    pass
print(now - end)""",
    "sleep": "since = time.monotonic_ns(); time.sleep(0.25); print(time.monotonic_ns() - since)",
    "select": """
since = time.monotonic_ns(); select.select([], [], [], 0.25); print(time.monotonic_ns() - since)""",
}

# A process with a thread, its children and their children write to pages that they share, next to
# pages that only some of them write to. Prints how the children ended, pages that have not what
# this process has written to them, and what children have written to shared memory.
MEMORY = """
import mmap, os, threading, warnings
# Of a fork beside threads, since Python 3.12.
warnings.simplefilter("ignore", DeprecationWarning)
PAGES, SIZE = 100, mmap.PAGESIZE
private = mmap.mmap(-1, PAGES * SIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
shared = mmap.mmap(-1, SIZE)
written = [0] * PAGES
def write(step, value):
    for page in range(0, PAGES, step):
        private[page * SIZE] = written[page] = value
def wrong():
    return [page for page in range(PAGES) if private[page * SIZE] != written[page]]
write(2, 1)
over = threading.Event()
thread = threading.Thread(target=over.wait)
thread.start()
ends = []
for value in (2, 3, 4):
    child = os.fork()
    if child == 0:
        write(value, 10 * value)
        grandchild = os.fork()
        write(3, 20 * value + bool(grandchild))
        shared[value] = value
        status = os.waitpid(grandchild, 0)[1] if grandchild else 0
        os._exit(status != 0 or wrong() != [])
    write(5, value)
    ends.append(os.waitpid(child, 0)[1])
over.set()
thread.join()
print(ends, wrong(), list(shared[2:5]))
"""


@dataclass(frozen=True, slots=True)
class Facts:
    """A guest that has recorded many facts. `folder` is its working folder, the only one where
    what it wrote remains."""

    ended: Ended
    folder: Path
    left: list[Path]
    home: Path

    def found(self, name: str) -> str:
        return (self.folder / name).read_text()


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("uml", marks=pytest.mark.uml),
        pytest.param("sim", marks=pytest.mark.sim),
    ],
)
def facts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Facts:
    kernel = kernel_or_reason(request.param)
    base = tmp_path_factory.mktemp("facts")
    folder = base / "with space, comma"
    folder.mkdir()
    environment = {
        **os.environ, **CLOCKS, "memory": MEMORY,
        "COLOUR": "green blue", "HOME": str(base / "home"), "kind": kernel.kind,
    }  # fmt: skip
    argv = ["sh", "-c", FACTS, PYTHON[0]]
    before = _own_folders()
    with contextlib.chdir(folder):
        ended = run_inside(
            base, kernel, argv, env=environment, writable=[folder], max_wall_s=2 * PATIENCE_S
        )
    return Facts(ended, folder, sorted(_own_folders() - before), base / "home")


def _own_folders() -> set[Path]:
    """Those of this process, also of other tests in it."""
    return set(guest.base_folder().glob(f"{owned.PREFIX}{os.getpid()}-*"))


IN_SIMULATED_TIME = pytest.mark.parametrize(
    "facts", [pytest.param("sim", marks=pytest.mark.sim)], indirect=True
)


def test_exit_status_and_both_outputs_come_out(facts: Facts):
    assert facts.ended == Ended(7, b"to out\n", b"to err\n")


def test_working_folder_and_environment_are_the_same(facts: Facts):
    assert (facts.found("cwd"), facts.found("colour")) == (f"{facts.folder}\n", "green blue\n")


def test_only_writable_folders_are_written(facts: Facts):
    assert (facts.found("kept"), facts.found("latest")) == ("2\n", "2\n")
    assert not (facts.folder / "new").exists()
    assert not (facts.folder.parent / "lost").exists()


def test_a_lab_needs_no_root_of_this_machine(facts: Facts):
    assert float(facts.found("lab").rpartition(" = ")[2].split("/")[0]) >= 20


@IN_SIMULATED_TIME
def test_a_delay_in_simulated_time_is_exact(facts: Facts):
    assert facts.found("lab").rpartition(" = ")[2].split("/")[0].startswith("20.0")


def test_every_congestion_control_is_there(facts: Facts):
    offered = set(facts.found("controls").split())
    assert {"reno", "cubic", "bbr", "dctcp", "nv", "cdg", "vegas"} <= offered


def test_memory_after_a_fork_is_each_process_s_own(facts: Facts):
    assert facts.found("memory") == "[0, 0, 0] [] [2, 3, 4]\n"


def test_nothing_is_left_behind(facts: Facts):
    assert (facts.left, facts.home.exists()) == ([], False)


@IN_SIMULATED_TIME
def test_simulated_sleep_takes_no_wall_time(facts: Facts):
    # The guest slept for an hour, and had no such wall time.
    assert facts.ended.status == 7


@IN_SIMULATED_TIME
def test_pings_keep_their_distance_in_simulated_time(facts: Facts):
    # ping takes a clock that says less than 1 s for one that was never set.
    assert re.search(r"3 received, 0% packet loss, time 10\d\dms", facts.found("pings"))


@IN_SIMULATED_TIME
def test_looking_at_the_clock_takes_no_time(facts: Facts):
    assert facts.found("looks") == "0\n"


@IN_SIMULATED_TIME
def test_who_waits_for_the_clock_by_looking_at_it_sees_it_move(facts: Facts):
    assert 0 <= int(facts.found("polls")) < 256


@IN_SIMULATED_TIME
@pytest.mark.parametrize("wait", ["sleep", "select"])
def test_a_timer_fires_within_two_nanoseconds(facts: Facts, wait):
    assert 0 <= int(facts.found(wait)) - 250_000_000 <= 2


@IN_SIMULATED_TIME
def test_a_processor_s_speed_is_reported_instead_of_measured(facts: Facts):
    assert facts.found("frequency") == "1000000\n"


# ---- a guest for each fact -----------------------------------------------------------------------


@pytest.mark.sim
def test_a_signal_is_reported_as_a_shell_tells_it(sim_kernel, inside):
    assert inside(sim_kernel, ["sh", "-c", "kill -KILL $$"]).status == 128 + signal.SIGKILL


@pytest.mark.sim
def test_a_command_that_is_not_there_is_127(sim_kernel, inside):
    ended = inside(sim_kernel, ["no-such-command"])
    assert (ended.status, ended.stderr) == (127, b"no-such-command: No such file or directory\n")


def test_bytes_pass_unchanged(kernel, inside):
    every_byte = bytes(range(256)) * 4096
    ended = inside(kernel, ["cat"], stdin=every_byte)
    assert (ended.status, ended.stdout) == (0, every_byte)


def test_a_terminal_outside_is_a_terminal_inside(kernel):
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (33, 99))
    ask = "import os; print(os.isatty(0), os.isatty(1), os.isatty(2), *os.get_terminal_size(1))"
    guest.run([*PYTHON, ask], kernel=kernel, stdout=theirs, stderr=theirs)
    assert os.read(ours, 1000) == b"False True True 99 33\r\n"


@pytest.mark.uml
def test_an_ordinary_user_runs_a_lab_too(as_nobody, user_folder):
    script = "id -u; ip netns add far; ip netns list; echo lost > ../lost; echo kept > kept"
    ended = as_nobody("sh", "-c", script)
    kept = user_folder / "results" / "kept"
    assert (ended.status, ended.stdout, ended.stderr) == (0, "0\nfar\n", "")
    assert (kept.read_text(), kept.owner()) == ("kept\n", "nobody")
    assert not (user_folder / "lost").exists()


def test_a_crash_tells_the_kernel_s_last_lines(kernel, inside):
    with pytest.raises(LabError, match="crashed:\nKernel panic - not syncing: sysrq triggered"):
        inside(kernel, ["sh", "-c", "echo c > /proc/sysrq-trigger; sleep 60"])


# It grows by parts: all at once would be refused.
GROWS = "kept = []\nwhile True: kept.append(bytearray(2**20))"


@pytest.mark.uml
def test_a_guest_that_is_killed_while_it_starts_fails_alone(tmp_path):
    for name in ("clock", "status"):
        (tmp_path / name).touch()
    child = process.launch(["sh", "-c", "kill -KILL $$"], stdout=tmp_path / "log")
    with pytest.raises(GuestError, match=r"the guest kernel was killed \(SIGKILL\)"):
        guest._status(tmp_path, child, 1024)


def test_a_command_that_the_guest_had_no_memory_for_is_reported_with_a_remedy(inside):
    with pytest.raises(
        LabError, match=r"was out of memory \(128 MB\): its kernel killed py"
    ) as error:
        inside(kernel_or_reason("uml"), [*PYTHON, GROWS], memory_mb=128)
    assert error.value.remedy == watch.MORE_MEMORY


@pytest.mark.usefixtures("busy_machine")
@pytest.mark.sim
def test_without_memory_a_guest_stands_still_until_it_is_ended_and_that_is_reported(
    sim_kernel, inside
):
    told: list[str] = []
    with pytest.raises(LabError, match=r"of memory|no memory left") as error:
        inside(sim_kernel, [*PYTHON, GROWS], memory_mb=256, stall_s=2, warn=told.append)
    assert (error.value.remedy, told) == (watch.MORE_MEMORY, [])


@pytest.mark.sim
def test_a_limit_on_address_space_is_reported_with_a_remedy(sim_kernel):
    limited = 'ulimit -v 900000; exec "$@"'
    words = ("sh", "-c", limited, "sh", sys.executable, STARTER, sim_kernel.kind, "true")
    done = process.run([*map(str, words)], timeout=PATIENCE_S, check=False)
    assert "may not map its" in done.stderr
    assert "ulimit -v unlimited" in done.stderr


# Two processes take turns, each with values of its own in every floating-point register it can use.
COMPUTES = """
import os
child = os.fork()
value = 1.0 if child else 3.0
for _ in range(2000):
    value = (value + 1.5) - 1.5
    os.sched_yield()
if not child:
    os._exit(int(value))
print(value, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_processes_keep_their_floating_point_registers(kernel, inside):
    assert inside(kernel, [*PYTHON, COMPUTES]).stdout == b"1.0 3\n"


@pytest.mark.skipif(
    "amx_tile" not in Path("/proc/cpuinfo").read_text(), reason="the processor has no AMX"
)
def test_on_a_processor_with_more_registers_a_missing_library_is_reported(
    kernel, inside, tmp_path, monkeypatch
):
    monkeypatch.setattr(guest, "REGISTERS", tmp_path / "none")
    with pytest.raises(LabError, match=r"which has AMX, without none: no C compiler") as error:
        inside(kernel, ["true"])
    assert error.value.remedy == "Install a compiler (Debian: gcc, libc6-dev), and netesto again."


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small folder")
@pytest.mark.sim
def test_a_temporary_folder_without_room_is_reported(sim_kernel, tmp_path):
    mounted = """mount -t tmpfs -o size=256k none "$1" && cd / && TMPDIR=$1 exec "$2" "$3" "$4" \\
        head -c 1000000 /dev/zero"""
    words = ("sh", "-c", mounted, "sh", tmp_path, sys.executable, STARTER, sim_kernel.kind)
    done = process.run(["unshare", "--mount", *map(str, words)], timeout=PATIENCE_S, check=False)
    assert f"the guest kernel crashed: no space left in {tmp_path}" in done.stderr


@pytest.mark.sim
def test_interrupted_once_the_command_may_end_in_its_own_way(sim_kernel, tmp_path):
    out = tmp_path / "out"
    out.touch()
    with started(sim_kernel, [*PYTHON, POLITE], out) as child:
        os.kill(child.pid, signal.SIGINT)
        status = child.wait(PATIENCE_S)
    assert (status, out.read_text()) == (130, "up\npartial results\n")


@pytest.mark.sim
def test_a_guest_has_both_ends_of_its_orders_so_that_they_do_not_end_with_its_starter(
    sim_kernel, tmp_path
):
    """A kernel that handles the end of its input when SIGTERM comes would compute for ever."""
    out = tmp_path / "out"
    out.touch()
    with started(sim_kernel, [*PYTHON, POLITE], out) as child:
        [pid] = [int(each) for each in children(child.pid)]
        pipes = [each for each in Path(f"/proc/{pid}/fd").iterdir() if "pipe:" in target(each)]
        accesses = {os.O_ACCMODE & flags(pid, each.name) for each in pipes}
        places = {target(each) for each in pipes}
        os.kill(child.pid, signal.SIGINT)
        child.wait(PATIENCE_S)
    assert (len(places), accesses) == (1, {os.O_RDONLY, os.O_WRONLY})


def children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def target(link: Path) -> str:
    """Where a descriptor leads, "" if it was closed meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        return str(link.readlink())
    return ""


def flags(pid: int, descriptor: str) -> int:
    """The flags of an open file (proc_pid_fdinfo(5))."""
    lines = Path(f"/proc/{pid}/fdinfo/{descriptor}").read_text().splitlines()
    return int(dict(line.split() for line in lines if len(line.split()) == 2)["flags:"], 8)


@pytest.mark.sim
def test_interrupted_twice_the_guest_ends(sim_kernel, tmp_path):
    out = tmp_path / "out"
    out.touch()
    stubborn = ["sh", "-c", "trap 'echo no' INT; echo up; while true; do sleep 0.1; done"]
    with started(sim_kernel, stubborn, out) as child:
        os.kill(child.pid, signal.SIGINT)
        assert process.wait_until(lambda: "no\n" in out.read_text(), timeout=PATIENCE_S)
        os.kill(child.pid, signal.SIGINT)
        child.wait(PATIENCE_S)
    assert out.read_text().splitlines()[-1] == "KeyboardInterrupt"


def test_netesto_may_be_in_a_folder_whose_name_has_spaces_and_any_letters(sim_kernel, tmp_path):
    folder = tmp_path / "été à l'atelier" / "results"
    folder.mkdir(parents=True)
    (folder / "netesto").symlink_to(Path(netesto.__file__).parents[1] / "netesto")
    ended = process.run(
        [sys.executable, str(STARTER), sim_kernel.kind, "sh", "-c", "pwd | tee 'so viel Öl'"],
        env={**os.environ, "PYTHONPATH": str(folder)},
        cwd=folder,
        timeout=PATIENCE_S,
        check=False,
    )
    written = (folder / "so viel Öl").read_text()
    assert (ended.status, ended.stdout, written) == (0, f"{folder}\n", f"{folder}\n")


def test_what_a_killed_starter_leaves_is_ended_by_who_cleans(kernel, tmp_path):
    out = tmp_path / "out"
    out.touch()
    with started(kernel, [*PYTHON, POLITE], out) as child:
        [folder] = guest.base_folder().glob(f"{owned.PREFIX}{child.pid}-*")
        leader = int((folder / "guest" / "pid").read_text())
        before = session(leader)
        os.kill(child.pid, signal.SIGKILL)
        child.wait(PATIENCE_S)
    # The guest ends by itself, as a rule. A kernel that is told to end just as it frees what a
    # module needed to begin may compute for ever instead, or leave a process that it was making.
    guest.remove_leftovers()
    # Another guest of this user that starts now may be cleaning, too.
    gone = wait_for_costly(
        lambda: session(leader) == [] and not folder.exists(), timeout=PATIENCE_S
    )
    assert (leader in before, gone) == (True, True)


@pytest.mark.sim
def test_a_wall_clock_limit_ends_the_command_politely(sim_kernel, inside, tmp_path):
    with pytest.raises(LabError, match=r"longer than 0.1 s of wall time .* results so far"):
        inside(sim_kernel, [*PYTHON, POLITE], max_wall_s=0.1)


@pytest.mark.usefixtures("busy_machine")
@pytest.mark.sim
def test_a_process_that_spins_is_named(sim_kernel, inside):
    with pytest.raises(
        LabError, match=r"bash \(process \d+: bash -c while .*\) computes and never"
    ):
        inside(sim_kernel, ["bash", "-c", "while :; do :; done"], stall_s=0.5)


# The endless loop of each. The second advances simulated time by nanoseconds.
BUSY = {
    "computes": "while True: pass",
    "looks at the clock": "import time\nwhile True: time.monotonic()",
    "calls the kernel": "import os\nr, w = os.pipe()\nwhile os.write(w, b'x'): os.read(r, 1)",
}


@pytest.mark.usefixtures("busy_machine")
@pytest.mark.sim
@pytest.mark.parametrize("what", BUSY)
def test_a_program_that_never_waits_is_ended_and_the_rest_goes_on(sim_kernel, inside, what):
    told: list[str] = []
    around = 'PYTHON=$0; "$PYTHON" -I -S -c "$1" word; echo status $?; sleep 1; echo goes on'
    argv = ["sh", "-c", around, PYTHON[0], BUSY[what]]
    ended = inside(sim_kernel, argv, stall_s=0.5, warn=told.append)
    line = " ".join(f"{PYTHON[0]} -I -S -c {BUSY[what]} word".split())
    shown = rf"python\S* \(process \d+: {re.escape(line)}\) computes and never waits, so "
    pattern = rf"{shown}simulated time stands still \(at (its start|\d+\.\d+ s).*\); it was ended"
    assert (ended.status, ended.stdout) == (0, b"status 136\ngoes on\n")
    assert [re.sub(pattern, "named", text).partition(".")[0] for text in told] == ["named"]


@pytest.mark.sim
def test_interrupted_a_command_that_a_busy_program_keeps_waiting_ends_in_its_own_way(
    sim_kernel, tmp_path
):
    out = tmp_path / "out"
    out.touch()
    shell = """trap 'echo partial results; exit 130' INT
    echo up; sleep 1; "$0" -I -S -c 'while True: pass'; sleep 60; echo late"""
    with started(sim_kernel, ["sh", "-c", shell, PYTHON[0]], out) as child:
        os.kill(child.pid, signal.SIGINT)
        status = child.wait(PATIENCE_S)
        # Warnings, and what the shell says of the program that was ended, may come before or after.
        lines = out.read_text().splitlines()
        assert (status, "partial results" in lines, "late" in lines) == (130, True, False)


@pytest.mark.usefixtures("busy_machine")
@pytest.mark.sim
def test_who_has_long_to_compute_but_waits_now_and_then_is_left_alone(sim_kernel, inside):
    told: list[str] = []
    program = """
import time
for _ in range(12):
    sum(range(4_000_000))
    time.sleep(0.05)
print("done")"""
    ended = inside(sim_kernel, [*PYTHON, program], stall_s=1.0, warn=told.append)
    assert (ended.stdout, told) == (b"done\n", [])


# Random numbers of the kernel, its memory, losses of a link, Python's hashes, the ports of TCP.
DICE = """
set -e
grep MemTotal /proc/meminfo; cat /proc/sys/net/ipv4/tcp_mem
head -c 16 /dev/urandom | od -An -tx1
ip netns add far && ip link add here type veth peer name there netns far
ip addr add 10.9.0.1/24 dev here && ip link set here up
ip -n far addr add 10.9.0.2/24 dev there && ip -n far link set there up
tc qdisc add dev here root netem delay 5ms 2ms loss 30%
# At least one comes back. (With shorter intervals ping looks at the clock all the time.)
ping -n -c 20 -i 0.2 10.9.0.2
"$1" -c 'import random, socket, time
print(hash("flow"), random.random(), time.monotonic())
with socket.create_server(("127.0.0.1", 0)) as listener: print(listener.getsockname())'
"""


def dice(folder: Path, seed: int) -> Ended:
    python = str(Path(sys.executable).resolve())
    return run_inside(
        folder, kernel_or_reason("sim"), ["sh", "-c", DICE, "dice", python], seed=seed
    )


@pytest.fixture(scope="module")
def thrown(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    return dice(tmp_path_factory.mktemp("dice"), 1)


@pytest.mark.sim
def test_a_simulated_run_repeats_to_the_byte(thrown: Ended, tmp_path):
    assert (thrown.status, dice(tmp_path, 1)) == (0, thrown)


@pytest.mark.sim
def test_another_seed_is_another_run(thrown: Ended, tmp_path):
    assert dice(tmp_path, 2) != thrown


@pytest.mark.sim
def test_interrupted_a_guest_whose_command_computes_on_ends(sim_kernel, tmp_path):
    out = tmp_path / "out"
    out.touch()
    program = "print('up', flush=True)\nwhile True: pass"
    with started(sim_kernel, [PYTHON[0], "-I", "-S", "-c", program], out) as child:
        os.kill(child.pid, signal.SIGINT)
        child.wait(PATIENCE_S)
    assert "did not end within 3.5 s of processor time" in out.read_text()
