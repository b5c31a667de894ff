"""Queues of a real namespace, compared with tc."""

import contextlib
import json
import os
import struct
import sys
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from netesto.collectors import links, queues
from netesto.collectors.clock import Clock
from netesto.collectors.links import LinkRecording
from netesto.collectors.netlink import attribute
from netesto.collectors.queues import Queues
from netesto.errors import OutputError
from netesto.measured import CounterSamples, InstalledQdisc, LinkSamples
from netesto.model import ClockOffset
from netesto.system import process

# So slow that the queue stays full: the bucket lets two frames through, and then one in 80 seconds.
RATE_BPS, LIMIT_BYTES, FRAME_BYTES = 104, 20000, 1042
FLOOD = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(100):
    s.sendto(bytes(1000), ("192.0.2.2", 9))
"""
TBF = InstalledQdisc("a", "tbf", "1:", "root", float(RATE_BPS))


@pytest.fixture(scope="module")
def full() -> Iterator[str]:
    """A namespace in which 100 datagrams were sent into a tbf that holds 19 of them."""
    if os.geteuid() != 0:
        pytest.skip("root: it makes a network namespace")
    name = f"netesto-links-{os.getpid()}"

    def run(*argv: str) -> None:
        process.run(argv, timeout=20)

    run("ip", "netns", "add", name)
    try:
        run("ip", "-n", name, "link", "add", "name", "a", "type", "veth", "peer", "name", "b")
        # Its packets would come between ours, and between two looks.
        run("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
        for device in ("a", "b"):
            run("ip", "-n", name, "link", "set", "dev", device, "up")
        run("ip", "-n", name, "address", "add", "192.0.2.1/24", "dev", "a")
        peer = ("lladdr", "02:00:00:00:00:02", "dev", "a")
        run("ip", "-n", name, "neighbour", "add", "192.0.2.2", *peer)
        tbf = ("rate", f"{RATE_BPS}bit", "burst", "2084", "limit", str(LIMIT_BYTES))
        run("tc", "-n", name, "qdisc", "add", "dev", "a", "root", "handle", "1:", "tbf", *tbf)
        run("ip", "netns", "exec", name, sys.executable, "-c", FLOOD)
        yield name
    finally:
        run("ip", "netns", "delete", name)


def told_by_tc(namespace: str) -> dict[str, Any]:
    argv = ("tc", "-n", namespace, "-s", "-j", "qdisc", "show", "dev", "a")
    found: dict[str, Any] = json.loads(process.run(argv, timeout=20).stdout)[0]
    return found


def counts(reading: queues.QueueReading) -> dict[str, int | None]:
    return dict(zip(queues.QDISC_COUNTS, reading.qdiscs[TBF], strict=True))


def read_once(namespace: str) -> queues.QueueReading:
    asked = Queues(namespace)
    try:
        return asked.read(lambda name: name == "a")
    finally:
        asked.close()


def test_only_interfaces_that_carry_packets_are_up(full):
    with contextlib.closing(Queues(full)) as asked:
        assert asked.up() == {"a", "b"}


def test_a_full_tbf_has_its_limit_as_its_backlog(full):
    backlog = counts(read_once(full))["backlog_bytes"]
    assert backlog is not None
    assert LIMIT_BYTES - 3 * FRAME_BYTES < backlog <= LIMIT_BYTES


def test_drops_are_those_of_tc(full):
    found, told = counts(read_once(full)), told_by_tc(full)
    assert (found["drops"], found["requeues"]) == (told["drops"], told["requeues"])
    assert told["drops"] >= 100 - LIMIT_BYTES // FRAME_BYTES - 3


def test_only_wanted_interfaces_are_read(full):
    found = read_once(full)
    assert (list(found.qdiscs), list(found.interfaces)) == ([TBF], ["a"])


def recorded(path: Path, *watched: Mapping[str, object]) -> list[str]:
    """The warnings of a recording of these."""
    said: list[str] = []
    recording = LinkRecording(path, Clock(), said.append)
    for each in watched:
        recording.watch(each)
    recording.sample()
    recording.close()
    return said


def test_a_recording_has_what_it_sampled(full, tmp_path):
    path = tmp_path / "links.jsonl.gz"
    assert recorded(path, {"node": "router", "namespace": full}) == []
    found = links.read(path)["router"]
    assert {qdisc.device for qdisc in found.qdiscs} == {"a"}
    assert set(found.interfaces) == {"a", "b"}
    assert found.qdiscs[TBF].counts["drops"][-1] == told_by_tc(full)["drops"]


def test_the_interface_of_a_group_is_the_one_that_leads_to_its_peer(tmp_path):
    path = tmp_path / "links.jsonl.gz"
    recorded(path, {"group": 3, "peer": "127.0.0.1"})
    found = links.read(path)[links.OWN]
    assert (found.devices, set(found.interfaces)) == ({3: "lo"}, {"lo"})


def test_an_interface_is_sampled_when_it_is_watched_at_each_tick_and_at_the_end(tmp_path):
    path = tmp_path / "links.jsonl.gz"
    recorded(path, *({"group": group, "peer": "127.0.0.1"} for group in (1, 2)))
    assert len(links.read(path)[links.OWN].interfaces["lo"].time_s) == 3


def test_a_recording_that_is_held_samples_from_its_first_tick_on(tmp_path):
    path = tmp_path / "links.jsonl.gz"
    recording = LinkRecording(path, Clock(), pytest.fail)
    recording.is_held = True
    recording.watch({"group": 1, "peer": "127.0.0.1"})
    recording.is_held = False
    recording.sample()
    recording.close()
    assert len(links.read(path)[links.OWN].interfaces["lo"].time_s) == 2


def test_a_namespace_that_is_not_there_is_a_warning(tmp_path):
    none = {"node": "router", "namespace": "netesto-none"}
    assert recorded(tmp_path / "l", none) == [
        "samples of queues of router are missing: No such file or directory"
    ]


def test_samples_of_several_files_follow_each_other():
    first = LinkSamples(interfaces={"a": CounterSamples((1.0,), {"n": (5,)})}, devices={1: "a"})
    second = LinkSamples(
        interfaces={"a": CounterSamples((3.0, 4.0), {"n": (7, 9)})}, devices={2: "a"}
    )
    assert links.joined([{"": second}, {"": first}, {"r": first}]) == {
        "": LinkSamples(
            interfaces={"a": CounterSamples((1.0, 3.0, 4.0), {"n": (5, 7, 9)})},
            devices={1: "a", 2: "a"},
        ),
        "r": first,
    }


# ---- marks: the statistics of a qdisc as the kernel lays them out


@pytest.mark.parametrize(
    ("kind", "statistics", "marks"),
    [
        ("codel", struct.pack("=9I", 1, 2, 3, 4, 5, 6, 70, 8, 900), 970),
        ("fq_codel", struct.pack("=10I", 0, 1, 2, 30, 4, 5, 6, 700, 8, 9), 730),
        ("red", struct.pack("=4I", 1, 2, 3, 4), 4),
        ("choke", struct.pack("=5I", 1, 2, 3, 4, 5), 4),
        ("pie", struct.pack("=Q8I", 0, 1, 2, 3, 4, 5, 6, 7, 8), 8),
        ("fq_pie", struct.pack("=9I", 1, 2, 3, 4, 5, 6, 7, 8, 9), 5),
        ("sfb", struct.pack("=9I", 1, 2, 3, 4, 5, 6, 7, 8, 9), 6),
        ("fq", struct.pack("=7Qq4I3Q", *range(1, 13), 77, 1, 1), 77),
        ("pfifo", b"", None),
        ("codel", b"short", None),
    ],
)
def test_marks_are_found_where_the_kernel_has_them(kind, statistics, marks):
    assert queues._marks(kind, statistics) == marks


# ---- files


@pytest.mark.parametrize(
    ("kind", "options", "is_lossless"),
    [
        ("netem", struct.pack("=IIIIII", 1, 2, 0, 0, 0, 0), True),
        ("netem", struct.pack("=IIIIII", 1, 2, 3, 0, 0, 0), False),
        # Its model of losses is an attribute.
        ("netem", struct.pack("=IIIIII", 1, 2, 0, 0, 0, 0) + attribute(5, bytes(4)), False),
        ("pfifo", struct.pack("=I", 1000), False),
    ],
)
def test_a_delay_line_without_random_losses_is_known(kind, options, is_lossless):
    counts = attribute(1, bytes(12)) + attribute(3, bytes(20))
    message = struct.pack("=BxxxiIII", 0, 7, 0x10000, 0xFFFFFFFF, 0) + b"".join(
        (attribute(1, kind.encode().ljust(8, b"\0")), attribute(2, options), attribute(7, counts))
    )
    found = queues._qdisc(message, "a")
    assert found is not None
    assert found[0] == InstalledQdisc("a", kind, "1:", "root", None, is_lossless)


def file(tmp_path, *lines, end=True):
    path = tmp_path / "links.jsonl.gz"
    header = {"format": links.FORMAT, "qdisc": ["drops"], "interface": ["rx_bytes"]}
    packer = zlib.compressobj(wbits=31)
    text = "".join(json.dumps(line) + "\n" for line in (header, *lines))
    packed = packer.compress(text.encode()) + packer.flush(zlib.Z_SYNC_FLUSH)
    path.write_bytes(packed + (packer.flush() if end else b""))
    return path


SAMPLED = {
    "node": "",
    "qdiscs": [
        {"device": "a", "kind": "tbf", "handle": "1:", "parent": "root", "rate_bps": RATE_BPS}
    ],
    "interfaces": ["a"],
}


@pytest.mark.parametrize("end", [True, False])
def test_samples_are_read_also_of_a_collector_that_was_killed(tmp_path, end):
    path = file(
        tmp_path, SAMPLED, [1.0, "", [[5]], [[10]]], {"group": 1, "device": "a"},
        [2.0, "", [[7]], [[20]]],
        end=end,
    )  # fmt: skip
    assert links.read(path, offset=ClockOffset(0.5, 0.0))[links.OWN] == LinkSamples(
        qdiscs={TBF: CounterSamples((0.5, 1.5), {"drops": (5, 7)})},
        interfaces={"a": CounterSamples((0.5, 1.5), {"rx_bytes": (10, 20)})},
        devices={1: "a"},
    )


def test_a_qdisc_that_comes_later_has_the_samples_since_then(tmp_path):
    nothing = {"node": "", "qdiscs": [], "interfaces": ["a"]}
    path = file(tmp_path, nothing, [1.0, "", [], [[10]]], SAMPLED, [2.0, "", [[7]], [[20]]])
    found = links.read(path)[links.OWN]
    assert found.qdiscs == {TBF: CounterSamples((2.0,), {"drops": (7,)})}
    assert found.interfaces["a"].time_s == (1.0, 2.0)


@pytest.mark.parametrize(
    "line",
    [
        [1.0, "", [[5, 6]], [[1]]],
        [1.0, "", [[-5]], [[1]]],
        [1.0, "", [["5"]], [[1]]],
        [-1.0, "", [[5]], [[1]]],
        [1.0, "", [[5]]],
        [1.0],
        {"qdiscs": [{"device": "a"}], "interfaces": []},
        {"group": "one", "device": "a"},
        7,
    ],
)
def test_a_file_that_is_not_ours_is_named(tmp_path, line):
    path = file(tmp_path, SAMPLED, line)
    with pytest.raises(OutputError, match=r"links\.jsonl\.gz: not a file of link samples"):
        links.read(path)
