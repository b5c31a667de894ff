import dataclasses
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto.errors import LabError, UsageError
from netesto.lab import guest, inside, mconsole, topology, watch
from netesto.lab.kernels import Kernel
from netesto.system import process


def test_simulated_kernel_skips_idle_time_from_a_whole_second(any_kernel):
    argv = guest.command(any_kernel, memory_mb=512, orders=5, now_s=1_800_000_000, seed=7)
    expected = [
        "/cache/linux",
        "mem=512M",
        "root=/dev/root",
        "rootfstype=hostfs",
        "rootflags=/",
        "ro",
        "uml_dir=./",
        "umid=guest",
        "con=null",
        "con0=null,fd:1",
        "ssl=null",
        "ssl0=fd:5,null",
        "quiet",
        "loglevel=7",
        "panic=1",
        "time-travel=inf-cpu",
        "time-travel-start=1800000000000000000",
        "netesto.chance=7",
        f"init={Path(sys.executable).resolve()}",
        "--",
        "-I",
        "-S",
        inside.__file__,
    ]
    assert argv == process.tethered(expected)


def test_real_time_kernel_keeps_real_time(any_kernel):
    real = dataclasses.replace(any_kernel, kind="uml")
    argv = guest.command(real, memory_mb=512, orders=5, now_s=1_800_000_000)
    assert [word for word in argv if word.startswith("time-travel")] == []


@pytest.fixture
def kernel(any_kernel: Kernel, tmp_path: Path) -> Kernel:
    """A kernel with a file."""
    path = tmp_path / "linux"
    path.write_bytes(b"kernel")
    return dataclasses.replace(any_kernel, path=path)


# printf kernel | sha256sum
FACTS = (
    "guest memory: 512 MiB\n"
    "kernel hash: 6923dd1bc0460082c5d55a831908c24a282860b7f1cd6c2b79cf1bc8857c639c"
)


def test_the_environment_names_the_ground_its_kernel_and_nothing_outside(kernel):
    given_variables = {"PATH": "/bin", "XDG_RUNTIME_DIR": "/run/user/0", "TMPDIR": "/var/x"}
    real = dataclasses.replace(kernel, kind="uml")
    assert guest.environment(given_variables, real, memory_mb=512) == {
        "PATH": "/bin", "NETESTO_GROUND": "uml", "NETESTO_GUEST_FACTS": FACTS,
    }  # fmt: skip


def test_in_simulated_time_python_orders_sets_in_the_same_way_always(kernel):
    inside = guest.environment({"PYTHONHASHSEED": "7"}, kernel, memory_mb=512)
    assert inside == {
        "PYTHONHASHSEED": "0", "NETESTO_GROUND": "sim", "NETESTO_GUEST_FACTS": FACTS,
    }  # fmt: skip


def test_a_writable_folder_must_exist(any_kernel, tmp_path):
    with pytest.raises(UsageError, match="no such folder"):
        guest.run(["true"], kernel=any_kernel, writable=[tmp_path / "none"])


def test_crash_is_told_from_the_panic_on():
    console = "booting\nmore\nKernel panic - not syncing: oops\nCPU: 0\n"
    assert watch.crash_report(console) == "Kernel panic - not syncing: oops\nCPU: 0"


def test_a_crash_is_told_from_the_line_that_names_the_culprit_on():
    culprit = (
        "Modules linked in: sch_odd\nPid: 58, comm: tc Tainted: G\nRIP: 0033:odd_enqueue+0x12\n"
        "RSP: 0000000061023d20\nKernel panic - not syncing: Kernel mode fault at addr 0x8\nCPU: 0"
    )
    assert watch.crash_report(f"booting\n{ASKED}\n{culprit}\n") == culprit


# The answer to `sysrq p`, by which a run finds out who computes.
ASKED = """\
sysrq: Show Regs

Pid: 43, comm: netesto-agent Not tainted 6.1.192-4440b8
RIP: 0000:0x0
RSP: 0000000000000000  EFLAGS: 00000000
RAX: 0000000000000000 RBX: 0000000000000000 RCX: 0000000000000000
RDX: 0000000000000000 RSI: 0000000000000000 RDI: 0000000000000000
RBP: 0000000000000000 R08: 0000000000000000 R09: 0000000000000000
R10: 0000000000000000 R11: 0000000000000000 R12: 0000000000000000
R13: 0000000000000000 R14: 0000000000000000 R15: 0000000000000000"""


def test_what_a_kernel_was_asked_before_its_crash_is_not_reported():
    panic = "Kernel panic - not syncing: sysrq triggered crash\nCPU: 0 PID: 74 Comm: sh"
    said = f"{ASKED}\n{ASKED}\nsysrq: Trigger a crash\n{panic}"
    assert watch.crash_report(said) == panic


def test_crash_without_a_panic_is_reported_by_the_end():
    console = "\n".join(str(number) for number in range(100))
    assert watch.crash_report(console).split() == [str(number) for number in range(85, 100)]


def test_modules_are_loaded_after_what_they_need():
    dependencies = "kernel/a.ko: kernel/b.ko kernel/c.ko\nkernel/b.ko: kernel/c.ko\nkernel/c.ko:\n"
    assert inside.load_order(["a"], dependencies) == ["kernel/c.ko", "kernel/b.ko", "kernel/a.ko"]


def test_a_module_is_loaded_once():
    dependencies = "kernel/a.ko: kernel/c.ko\nkernel/b.ko: kernel/c.ko\nkernel/c.ko:\n"
    assert inside.load_order(["a", "b"], dependencies) == [
        "kernel/c.ko",
        "kernel/a.ko",
        "kernel/b.ko",
    ]


def test_a_module_that_is_not_there_is_passed_over():
    assert inside.load_order(["tcp_prague"], "kernel/c.ko:\n") == []


def test_process_that_has_the_processor_is_named():
    said = "sysrq: Show Regs\n\nPid: 22, comm: python3.11 Not tainted 6.1.192\nRIP: 0033"
    assert mconsole.current(said) == "python3.11 (process 22)"


def test_a_name_with_spaces_is_kept_whole():
    said = "Pid: 7, comm: tmux: server Not tainted 6.1.192"
    assert mconsole.current(said) == "tmux: server (process 7)"


def test_an_idle_kernel_names_nobody():
    assert mconsole.current("Pid: 0, comm: swapper Not tainted 6.1.192") == ""


@pytest.mark.parametrize(("free_kb", "is_short"), [(1996, True), (2493, False)])
def test_a_kernel_with_less_memory_than_it_wants_is_short_of_it(free_kb, is_short):
    said = (
        f"Mem-Info:\n free:499 free_pcp:14\nNormal free:{free_kb}kB boost:0kB min:1996kB low:2492kB"
    )
    assert mconsole.is_short(said) == is_short


def test_a_console_that_is_not_there_says_nothing(tmp_path):
    assert mconsole.ask(tmp_path / "mconsole", "sysrq p") == ""


@given(st.text(max_size=500).filter(lambda text: "\0" not in text), st.booleans())
def test_an_answer_is_read_as_it_was_sent(text, more):
    said = text.encode()[:1000]
    header = (0).to_bytes(4, "little") + int(more).to_bytes(4, "little")
    reply = header + len(said).to_bytes(4, "little") + said + b"\0" * 16
    assert mconsole.answer(reply) == (said.decode(errors="replace"), more)


@pytest.mark.parametrize(
    ("name", "settings", "memory_mb"),
    [
        ("pair", {}, 1024),
        ("star", {"hosts": "16"}, 1024),
        ("star", {"hosts": "20"}, 1024 + 4 * 14),
        # 125 MB in flight, sixteen times.
        ("pair", {"rate": "10gbit", "rtt": "100"}, 1024 + 1907),
        ("pair", {"rate": "100gbit", "rtt": "100"}, 8192),
    ],
)
def test_a_guest_s_memory_follows_from_its_hosts_and_what_its_links_hold(name, settings, memory_mb):
    assert guest.memory_mb(topology.build(name, settings)) == memory_mb


@pytest.mark.parametrize(
    ("path", "word"), [("/opt/a-b_c.py", "/opt/a-b_c.py"), ("/a b", '"/a b"'), ("/à", '"/à"')]
)
def test_a_path_is_one_word_of_a_kernels_command_line(path, word):
    assert guest.word(path) == word


def test_a_path_with_a_double_quote_is_refused():
    with pytest.raises(LabError, match="double quote"):
        guest.word('/a"b')
