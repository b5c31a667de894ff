"""A lab by hand: `netesto lab up`, `path`, `down`; stores in a lab."""

import csv
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from whole_runs import netesto, run_script

pytestmark = pytest.mark.lab

WAYS = {
    "h1 ─ e1 ─ a1 ─ c1 ─ a7 ─ e8 ─ h16",
    "h1 ─ e1 ─ a1 ─ c2 ─ a7 ─ e8 ─ h16",
    "h1 ─ e1 ─ a2 ─ c3 ─ a8 ─ e8 ─ h16",
    "h1 ─ e1 ─ a2 ─ c4 ─ a8 ─ e8 ─ h16",
}


@pytest.fixture(scope="module")
def fat_tree(tmp_path_factory: pytest.TempPathFactory, lab_obstacle: str) -> Iterator[str]:
    """The name of a fat tree that is up."""
    if lab_obstacle:
        pytest.skip(f"lab: {lab_obstacle}")
    folder = tmp_path_factory.mktemp("by-hand")
    name = netesto(folder, "lab", "up", "fattree").stdout.split()[1]
    yield name
    netesto(folder, "lab", "down", "--name", name)


def test_the_paths_between_two_hosts_and_their_shares(fat_tree: str, tmp_path: Path):
    done = netesto(tmp_path, "lab", "path", "--name", fat_tree, "h1", "h16")
    lines = [line.split("  ") for line in done.stdout.splitlines()]
    assert (done.status, {way for way, _ in lines}) == (0, WAYS)


def test_the_path_of_one_flow(fat_tree: str, tmp_path: Path):
    words = ("lab", "path", "--name", fat_tree, "h1", "h16", "--sport", "40000")
    done = netesto(tmp_path, *words)
    assert (done.status, done.stdout.strip() in WAYS) == (0, True)


def test_a_path_from_an_unknown_host(fat_tree: str, tmp_path: Path):
    done = netesto(tmp_path, "lab", "path", "--name", fat_tree, "h1", "h99")
    said = done.stderr.splitlines()[0]
    assert (done.status, said) == (2, f"netesto: lab {fat_tree}: no host h99")


def test_the_status_of_one_lab(fat_tree: str, tmp_path: Path):
    done = netesto(tmp_path, "lab", "status", "--name", fat_tree)
    first, *hosts = done.stdout.splitlines()
    assert (done.status, first, len(hosts)) == (0, f"lab {fat_tree} (fattree): up", 16)


STORES = """\
LAB star hosts=3
FOR store IN native,memcached DO
    FOR repetition IN 1,2 DO
        DO_TRACE file=requests.txt kv=$store drain=1 exp=COUNTER expName=$store
        WAIT_FLOWS
        PROCESS_EXP
    DONE
DONE
"""

# The first request finds nothing in any experiment. On a busy machine a host is late, but hardly by
# half a second.
REQUESTS = """\
h1 10.0.0.1 h2 10.0.0.2
h1 0 1 key
h1 500000 0 key value
h3 1000000 1 key
h1 1000000 1 other
h3 1500000 0 key changed
h1 2000000 1 key
"""


def test_memcached_replies_to_the_requests_of_a_trace_as_our_store_does(
    tmp_path: Path, lab_obstacle: str
):
    if lab_obstacle:
        pytest.skip(f"lab: {lab_obstacle}")
    if shutil.which("memcached") is None:
        pytest.skip("memcached is not installed")
    (tmp_path / "requests.txt").write_text(REQUESTS)
    run = run_script(tmp_path, STORES)
    assert run.status == 0, run.stderr
    found = [
        [
            (row["kind"], row["status"], row["bytes_received"])
            for host in ("h1", "h3")
            for row in csv.DictReader(
                (run.out / exp / "raw" / host / "trace.csv").read_text().splitlines()
            )
        ]
        for exp in "1234"
    ]
    of_h1 = [("get", "miss", "5"), ("set", "ok", "8"), ("get", "miss", "5"), ("get", "ok", "29")]
    assert found == 4 * [[*of_h1, ("get", "ok", "27"), ("set", "ok", "8")]]


CROWD = """\
LAB file=crowd.toml
DO_COMMAND host=a name=ports
DO_TRACE file=crowd.txt bitrate=1mbit drain=1 interval=1 exp=COUNTER expName=crowd
WAIT_FLOWS
PROCESS_EXP
"""
FEW_PORTS = """\
[commands.ports]
run = ["sysctl", "-w", "net.ipv4.ip_local_port_range=50000 50319"]
"""


def test_two_flows_of_a_trace_with_one_source_port_are_told_apart(
    tmp_path: Path, lab_obstacle: str
):
    """Those beyond 256 at a time go to another port of the receiver."""
    if lab_obstacle:
        pytest.skip(f"lab: {lab_obstacle}")
    (tmp_path / "crowd.toml").write_text(
        '[nodes]\na = "host"\nb = "host"\n[[links]]\nbetween = ["a", "b"]\n'
        '[aliases]\n"10.0.0.2" = "b"\n'
    )
    (tmp_path / "crowd.txt").write_text("\n" + "a 0 3 10.0.0.2 1400\n" * 300)
    (tmp_path / "commands.toml").write_text(FEW_PORTS)
    run = run_script(tmp_path, CROWD, ["--commands", "commands.toml"])
    assert run.status == 0, run.stderr
    lines = (run.out / "1" / "raw" / "a" / "trace.csv").read_text().splitlines()
    rows = list(csv.DictReader(lines))
    assert [(row["status"], row["bytes_received"]) for row in rows] == 300 * [("ok", "1400")]
    assert len({row["sport"] for row in rows}) < 300
