"""Links that a program carries, in a lab of this machine, whose kernel needs no netem for them."""

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from needs import unmet
from places import LAB, PATIENCE_S, UML, skip_unless_possible
from whole_runs import Outcome, command, left_of_labs, netesto, run_script

from netesto.emulator import PROGRAM
from netesto.files import paths
from netesto.lab import records
from netesto.packets.decode import decode
from netesto.packets.reader import PacketReader
from netesto.results import completions, csvfile, lostframes, manifest
from netesto.system import process

# Transfers of the fifth experiment.
FLOWS = 40

# Without protection the first flow loses its SYN in one run of fifty, and sends it again after 1 s.
SCRIPT = f"""\
LAB corrupting emulator=program rate=20mbit rtt=10 delay=1 loss=2 limit=200p
SWEEP protect=off,ordered,nonblocking DO
    SET_LINK host=s1 to=s2 dir=to protect=$protect
    DO_CLIENT host=h1 server=h2 test=TCP_STREAM ca=cubic dur=3 exp=COUNTER
    WAIT_FLOWS
    PROCESS_EXP
DONE
SHOW_LINK host=s1 to=s2
STRESS_LINK host=s1 to=s2 frames=10K expName=stress
SET_LINK host=s1 to=s2 dir=to protect=off
DO_SERVER host=h2 exp=COUNTER
DO_TCPDUMP host=h1 server=h2 packets=20000 snap=96
DO_TCPDUMP host=h2 server=h1 packets=20000 snap=96
DO_CLIENT host=h1 server=h2 test=TCP_FLOWS ca=cubic size=24387 count={FLOWS}
WAIT_FLOWS
PROCESS_EXP
"""


@pytest.fixture(scope="module", params=[LAB, UML])
def carried(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, lab_obstacle: str
) -> Outcome:
    _need(lab_obstacle, request.param)
    folder = tmp_path_factory.mktemp("carried")
    return run_script(folder, SCRIPT, ["--force", "--ground", request.param])


def _need(lab_obstacle: str, ground: str = "lab") -> None:
    skip_unless_possible(ground, lab_obstacle)
    if not PROGRAM.exists():
        unmet("native", "netesto-link was not compiled: no C compiler")


def whole(outcome: Outcome) -> dict[str, dict[str, str]]:
    """The row of each experiment, by its number."""
    return {row["exp"]: row for row in outcome.rows if row["exp"].endswith(".0")}


def test_what_a_protected_link_loses_it_sends_again(carried: Outcome):
    rows = whole(carried)
    assert [rows[f"{exp}.0"]["status"] for exp in (1, 2, 3, 4)] == ["ok"] * 4
    assert [float(rows[f"{exp}.0"]["linkLost"]) > 0 for exp in (1, 2, 3)] == [True] * 3
    assert [float(rows[f"{exp}.0"]["linkResent"]) > 0 for exp in (1, 2, 3)] == [False, True, True]


def test_a_stress_test_has_no_values_of_flows_queues_and_links_that_it_did_not_use(
    carried: Outcome,
):
    row = whole(carried)["4.0"]
    names = ("ca", "dur", "queueDrops", "queueMarks", "backlog", "maxLinkUtil%")
    assert {name: row[name] for name in names} == dict.fromkeys(names, "")


def test_a_link_shows_the_state_of_both_ends(carried: Outcome):
    assert "s1→s2 nonblocking: rate 20 Mbit/s, loss 2.000e-02 set" in carried.stdout
    assert "s2→s1 not protected: rate 20 Mbit/s, loss 0.000e+00 set" in carried.stdout


def test_lost_frames_are_listed_with_what_was_in_them(carried: Outcome):
    lines = (carried.out / "1/raw/s1/losses.s2.csv").read_text().splitlines()
    assert lines[0] == (
        "time_s,number,copy,bytes,protocol,source,sport,destination,dport,tcp_seq,payload"
    )
    lost = [line.split(",") for line in lines[1:]]
    assert len(lost) == float(whole(carried)["1.0"]["linkLost"])
    with_data = [each for each in lost if each[4] == "tcp" and each[10] != "0"]
    # Counted from the SYN, and no longer than what one flow sent.
    assert all(0 < int(each[9]) < 10**8 for each in with_data)


def test_transfers_are_affected_that_lack_a_segment_where_they_arrive(carried: Outcome):
    folder = carried.out / "5"
    sent, arrived = (
        bytes_by_port(folder / f"raw/{host}/capture.1.pcap", transfers(folder))
        for host in ("h1", "h2")
    )
    losses = lostframes.read_losses(folder / "raw/s1/losses.s2.csv")
    lost = {port for _, port in losses} & transfers(folder)
    assert len(transfers(folder)) == FLOWS
    assert {port for port in sent if sent[port] > arrived[port]} == lost != set()


def transfers(folder: Path) -> set[int]:
    """The client's ports of the transfers of an experiment."""
    found, _ = completions.read_transfers(folder / "raw/h1/completions.1.1.csv")
    return {each.port for each in found}


def bytes_by_port(path: Path, ports: set[int]) -> dict[int, int]:
    """The data from each of these ports in a capture, what was sent again included."""
    found = dict.fromkeys(ports, 0)
    for piece in PacketReader(path).pieces():
        packets = decode(piece).packets
        for port, size in zip(packets.source_port.tolist(), packets.payload.tolist(), strict=True):
            if port in found:
                found[port] += size
    return found


def test_nothing_is_left_of_the_lab(carried: Outcome):
    assert carried.status == 0
    assert left_of_labs(carried.out) == []


ALIKE = """\
LAB pair rate=100gbit delay=0.0075 emulator={}
DO_SERVER host=b exp=COUNTER start=1
DO_CLIENT host=a server=b test=TCP_FLOWS ca=cubic size=24387 count=20
WAIT_FLOWS
PROCESS_EXP
"""


@pytest.mark.sim
def test_in_simulated_time_transfers_over_links_of_the_program_take_the_nanoseconds_of_the_kernels(
    tmp_path: Path, lab_obstacle: str
):
    _need(lab_obstacle, "sim")
    times_us = {}
    for emulator in ("kernel", "program"):
        folder = tmp_path / emulator
        folder.mkdir()
        run = run_script(
            folder, ALIKE.format(emulator), ["--force", "--ground", "sim", "--seed", "1"]
        )
        found, _ = completions.read_transfers(run.out / "1/raw/a/completions.1.1.csv")
        times_us[emulator] = [each.us for each in found]
    assert times_us["program"] == times_us["kernel"]
    assert len(times_us["kernel"]) == 20


LATE = """\
LAB corrupting emulator=program rate=1gbit
DO_CLIENT host=h1 server=h2 test=UDP_STREAM len=58 bitrate=20mbit dur=6 exp=COUNTER
WAIT_FLOWS
PROCESS_EXP
"""

KILLED = """\
LAB corrupting emulator=program rate=20mbit rtt=10
FOR name IN first,second DO
    DO_CLIENT host=h1 server=h2 test=TCP_STREAM ca=cubic dur=3 exp=COUNTER expName=$name
    WAIT_FLOWS
    PROCESS_EXP
DONE
"""


@dataclass(frozen=True, slots=True)
class Running:
    """A run in a lab of this machine, whose first flow has begun. `carrier`: the process id of the
    program that carries the link from s1 to s2."""

    out: Path
    said: Path
    process: process.Child
    carrier: int

    def end(self) -> tuple[int, list[str], list[dict[str, str]]]:
        """Its status, the reasons and the rows of its experiments."""
        status = self.process.wait(PATIENCE_S)
        rows = [each for each in csvfile.read(self.out / "exp.csv") if each["exp"].endswith(".0")]
        known = [manifest.read(self.out / each["expNumber"] / manifest.NAME) for each in rows]
        return status, ["; ".join(each.reasons) for each in known], rows


def carrier_of(run: process.Child) -> int:
    [lab] = [each for each in records.read_all(records.STATE_FOLDER) if each.owner == run.pid]
    [found] = [
        each.pid
        for each in psutil.process_iter(["cmdline"])
        if {"ends=s1,s2", f"control={lab.sockets}"}
        <= {word.rpartition("/.tap")[0] or word for word in each.info["cmdline"] or ()}
    ]
    return found


@contextlib.contextmanager
def running(folder: Path, script: str) -> Iterator[Running]:
    path, out, said = (folder / name for name in ("script.nts", "out", "said"))
    path.write_text(script)
    said.touch()
    words = command("run", "--plain", "--force", "--no-pages", "--ground", "lab", "--out", str(out))
    words += ["--on-failure", "continue", str(path)]
    # Before the flow: to look for a process takes long on a busy machine.
    is_up = lambda: "seed " in said.read_text()  # noqa: E731
    with process.background(words, stdout=said, ready=is_up, timeout=PATIENCE_S) as run:
        carrier = carrier_of(run)
        began = lambda: "flow " in said.read_text()  # noqa: E731
        assert process.wait_until(began, timeout=PATIENCE_S), said.read_text()
        yield Running(out, said, run, carrier)


@pytest.mark.lab
def test_no_experiment_of_a_link_is_ok_after_its_program_was_killed(
    tmp_path: Path, lab_obstacle: str
):
    _need(lab_obstacle)
    with running(tmp_path, KILLED) as run:
        os.kill(run.carrier, signal.SIGKILL)
        status, reasons, rows = run.end()
    assert (status, "ok" in {row["status"] for row in rows}) == (1, False), run.said.read_text()
    assert ["the program that carries it has ended" in each for each in reasons] == [True, True]
    assert left_of_labs(run.out) == []


@pytest.mark.lab
def test_an_experiment_is_partial_whose_frames_its_program_was_too_late_to_take(
    tmp_path: Path, lab_obstacle: str
):
    _need(lab_obstacle)
    with running(tmp_path, LATE) as run:
        carrier = run.carrier
        # The flow's frames pass: its tool has been told to send them by a link that is alive.
        assert process.wait_until(lambda: of_taps(carrier, SENT) > FRAMES, timeout=PATIENCE_S)
        os.kill(carrier, signal.SIGSTOP)
        try:
            assert process.wait_until(lambda: of_taps(carrier, DROPPED) > 0, timeout=PATIENCE_S)
        finally:
            os.kill(carrier, signal.SIGCONT)
        status, [reason], [row] = run.end()
    [late] = re.findall(
        r"link s1 - s2: (\d+) frames were lost because its program was late", reason
    )
    # They are no losses of the link.
    assert (status, row["status"]) == (1, "partial")
    assert (float(row["linkLost"]), int(late) > 0) == (0, True)


# The columns of /proc/net/dev that count what a TAP gave its program, and for what that was late.
SENT, DROPPED = 10, 12

# More frames than those by which a lab measures its paths.
FRAMES = 10_000


def of_taps(carrier: int, column: int) -> int:
    """The sum of one column over the devices of a program."""
    lines = Path(f"/proc/{carrier}/net/dev").read_text().splitlines()
    return sum(int(line.split()[column]) for line in lines if line.strip().startswith("tap"))


FAIRNESS = paths.data_folder() / "scripts" / "rtt-fairness.nts"


@pytest.mark.lab
def test_a_kernel_without_netem_compares_round_trip_times_by_links_of_the_program(
    tmp_path: Path, lab_obstacle: str
):
    _need(lab_obstacle)
    given = {"emulator": "program", "rate": "10mbit", "cas": "cubic", "delays": "60", "dur": "3"}
    words = [word for name, value in given.items() for word in ("-D", f"{name}={value}")]
    options = ("--plain", "--force", "--no-pages", "--ground", "lab", "--out", "out")
    done = netesto(tmp_path, "run", *options, *words, str(FAIRNESS))
    rows = csvfile.read(tmp_path / "out" / "exp.csv")
    assert (done.status, [row["status"] for row in rows]) == (0, ["ok"] * 3), done.stderr
    near, far = (float(row["rtt"]) for row in rows[1:])
    assert (near >= 20, far >= 60) == (True, True)
