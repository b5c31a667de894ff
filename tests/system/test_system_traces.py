"""Traces in simulated time, where what becomes of each frame is known exactly."""

import csv
from dataclasses import dataclass
from ipaddress import IPv4Address
from itertools import pairwise
from pathlib import Path

import pytest
from captured_frames import frames
from needs import kernel_or_reason
from whole_runs import Outcome, netesto, run_script

pytestmark = [pytest.mark.sim, pytest.mark.timeout(600)]

# h1 and h2 at one end of a link, h3 and h4 at the other.
TOPOLOGY = "\n".join(
    [
        "[nodes]",
        *(f'h{number} = "host"' for number in range(1, 5)),
        'r1 = "router"\nr2 = "router"',
        *(
            f'[[links]]\nbetween = ["{a}", "{b}"]\nrate = "1mbit"\nlimit = "1000p"'
            for a, b in (("h1", "r1"), ("h2", "r1"), ("r1", "r2"), ("r2", "h3"), ("r2", "h4"))
        ),
    ]
)

SCRIPT = """\
LAB file=lab.toml
DO_TCPDUMP host=h1 server=X packets=1000
DO_TRACE file=requests.txt protocol=udp exp=COUNTER expName=requests drain=2
WAIT_FLOWS
PROCESS_EXP
DO_TCPDUMP host=h3 server=X packets=10000
DO_TRACE file=flows.txt protocol=udp exp=COUNTER expName=flows drain=2
WAIT_FLOWS
PROCESS_EXP
DO_TRACE file=windows.txt protocol=udp bitrate=100kbit exp=COUNTER expName=windows drain=2
WAIT_FLOWS
PROCESS_EXP
"""

# The store of all keys is h3. One datagram of h2 is under way between the routers when the last
# request arrives there.
REQUESTS = """\
h3 10.0.0.3
h1 0 0 first value
h1 500000 1 first
h1 700000 1 other
h2 1000000 2 10.0.0.4 1000 0 0
h1 1011200 1 first
"""

# Bursts of 1 s and silences of 50 ms; and a flow without any, in the other direction.
FLOWS = """\

h1 0 2 10.0.0.3 21000000 1000000 50000
h4 0 2 10.0.0.2 21000000 0 0
"""

# Silence from 1 s on; a datagram sent at 12 s and one at 13 s. That of h2 arrives at 5 s: it takes
# 11,536 µs on each of three links.
WINDOWS = """\

h1 0 2 10.0.0.3 1000000 0 0
h2 4965392 2 10.0.0.4 1000 0 0
h1 12000000 2 10.0.0.3 1000 0 0
h1 13000000 2 10.0.0.3 1000 0 0
"""

# A byte takes so many µs on each link.
BYTE_US = 8
# Ethernet, IPv4 and UDP add 42 bytes to a payload of 1400.
DATAGRAM_BYTES = 1442


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    kernel_or_reason("sim")
    folder = tmp_path_factory.mktemp("traces")
    for name, text in (
        ("lab.toml", TOPOLOGY),
        ("requests.txt", REQUESTS),
        ("flows.txt", FLOWS),
        ("windows.txt", WINDOWS),
    ):
        (folder / name).write_text(text)
    outcome = run_script(folder, SCRIPT, ["--ground", "sim", "--seed", "1"])
    assert outcome.status == 0, outcome.stderr
    return outcome


# Between r1 and r4 two equal ways, over r2 and over r3. Each router captures at the link of its
# test interface, and the ends of flows at theirs.
DIAMOND = "\n".join(
    [
        '[nodes]\nh1 = "host"\nh2 = "host"',
        *(
            f'{router} = {{ kind = "router", agent = true, device = "{beside}" }}'
            for router, beside in (("r1", "r2"), ("r2", "r1"), ("r3", "r4"), ("r4", "r3"))
        ),
        *(
            f'[[links]]\nbetween = ["{a}", "{b}"]\nrate = "1mbit"\nlimit = "1000p"'
            for a, b in (
                ("h1", "r1"), ("r1", "r2"), ("r1", "r3"), ("r2", "r4"), ("r3", "r4"), ("r4", "h2")
            )
        ),
        "[aliases]",
        *(f'"10.0.0.{at}" = "{name}"' for at, name in enumerate(("h1", "h2", "r2", "r4"), 1)),
    ]
)  # fmt: skip
CAPTURED = {"h1": "r1", "r1": "r2", "r2": "r1", "r3": "r4", "r4": "r3", "h2": "r4"}

PLACES = {"h1": 0, "r1": 1, "r2": 2, "r3": 2, "r4": 3, "h2": 4}

DIAMOND_SCRIPT = "\n".join(
    [
        "LAB file=diamond.toml",
        *(f"DO_TCPDUMP host={node} server=X packets=5000 snap=1514" for node in CAPTURED),
        "DO_TRACE file=ways.txt protocol=udp bitrate=200kbit exp=COUNTER expName=ways drain=1",
        "WAIT_FLOWS\nPROCESS_EXP\n",
    ]
)
# Together the six flows of h1 offer more than its link carries. Captures begin where flows run.
DIAMOND_TRACE = "\n".join(
    [
        "",
        "r1 0 2 10.0.0.3 20000 0 0",
        "r3 0 2 10.0.0.4 20000 0 0",
        *("h1 100000 2 10.0.0.2 3000000 0 0" for _ in range(6)),
        *("h2 200000 2 10.0.0.1 2500000 0 0" for _ in range(3)),
    ]
)


@pytest.fixture(scope="module")
def diamond(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    kernel_or_reason("sim")
    folder = tmp_path_factory.mktemp("ways")
    (folder / "diamond.toml").write_text(DIAMOND)
    (folder / "ways.txt").write_text(DIAMOND_TRACE)
    outcome = run_script(folder, DIAMOND_SCRIPT, ["--ground", "sim", "--seed", "1"])
    assert outcome.status == 0, outcome.stderr
    return outcome


@dataclass(frozen=True, slots=True)
class Datagram:
    """A captured frame with a datagram of a flow."""

    at_s: float
    source: str
    port: int
    payload: int


def datagrams(run: Outcome, node: str) -> list[Datagram]:
    """Those of flows that a node captured."""
    [capture] = (run.out / "1" / "raw" / node).glob("capture.*.pcap")
    names = {IPv4Address(address).packed: name for name, address in addresses(run).items()}
    return [
        Datagram(at_s, names[frame[26:30]], int.from_bytes(frame[34:36], "big"), len(frame) - 42)
        for at_s, frame in frames(capture)
        if len(frame) == DATAGRAM_BYTES and frame[26:30] in names
    ]


def addresses(run: Outcome) -> dict[str, str]:
    hosts = run.manifest(1)["hosts"]
    return {name: hosts[name]["info"]["addresses"][0] for name in ("h1", "h2")}


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def lines(run: Outcome, exp: int, host: str) -> list[dict[str, str]]:
    return table(run.out / str(exp) / "raw" / host / "trace.csv")


def size_of(run: Outcome, text: bytes) -> int:
    """The bytes of the smallest captured frame whose payload ends with this text."""
    [capture] = (run.out / "1" / "raw" / "h1").glob("capture.*.pcap")
    return min(len(frame) for _, frame in frames(capture) if frame.endswith(text))


def test_a_request_takes_the_time_of_its_frames_on_each_of_three_links(run: Outcome):
    sizes = {
        "get": size_of(run, b"get first\r\n")
        + size_of(run, b"VALUE first 0 5\r\nvalue\r\nEND\r\n"),
        "miss": size_of(run, b"get other\r\n") + size_of(run, b"END\r\n"),
    }
    # An acknowledgement of its own precedes the first reply of a connection.
    _, get, miss, _ = lines(run, 1, "h1")
    assert (get["status"], miss["status"]) == ("ok", "miss")
    assert float(get["us"]) == pytest.approx(3 * BYTE_US * sizes["get"], abs=1)
    assert float(miss["us"]) == pytest.approx(3 * BYTE_US * sizes["miss"], abs=1)


def test_a_request_waits_for_the_rest_of_a_datagram(run: Outcome):
    request = size_of(run, b"get first\r\n")
    reply = size_of(run, b"VALUE first 0 5\r\nvalue\r\nEND\r\n")
    between_until_us = 1_000_000 + 2 * DATAGRAM_BYTES * BYTE_US
    arrives_us = 1_011_200 + request * BYTE_US
    *_, last = lines(run, 1, "h1")
    expected_us = 3 * BYTE_US * (request + reply) + between_until_us - arrives_us
    assert float(last["us"]) == pytest.approx(expected_us, abs=1)


def test_flows_start_at_their_time(run: Outcome):
    [flow] = lines(run, 1, "h2")
    assert (flow["start_s"], flow["bytes_sent"], flow["bytes_in_time"]) == (
        "1.000000",
        "1400",
        "0",
    )


def test_flowlets_carry_their_share_of_an_unbroken_flow(run: Outcome):
    [broken], [whole] = lines(run, 2, "h1"), lines(run, 2, "h4")
    share = int(broken["bytes_sent"]) / int(whole["bytes_sent"])
    assert share == pytest.approx(20 / 21, rel=0.01)
    [capture] = (run.out / "2" / "raw" / "h3").glob("capture.*.pcap")
    times_s = [at for at, frame in frames(capture) if len(frame) == DATAGRAM_BYTES]
    # A datagram each 11.8 ms, ± 10 %; a silence is between two of twenty bursts.
    silences_s = [after - before for before, after in pairwise(times_s) if after - before > 0.03]
    assert len(silences_s) == 19
    assert all(0.05 - 0.012 <= each_s <= 0.05 + 0.013 for each_s in silences_s)


def test_links_carry_what_a_capture_behind_them_has(run: Outcome):
    folder = run.out / "2"
    manifest = run.manifest(2)
    [capture] = (folder / "raw" / "h3").glob("capture.*.pcap")
    captured = frames(capture)
    start_s = manifest["groups"][0]["instances"][0]["asked_start_s"]
    there = [
        row
        for row in table(folder / "links-series.csv")
        if (row["from"], row["to"]) == ("r2", "h3")
    ]
    assert len(there) > 100
    for before, row in pairwise(there):
        low_s, high_s = (start_s + float(each["t_s"]) for each in (before, row))
        if high_s - low_s < 0.201:
            arrived = [len(frame) for at, frame in captured if low_s < at <= high_s]
            assert sum(arrived) == int(row["bytes"])


def test_the_ways_of_flows_are_in_a_file(run: Outcome):
    assert [row["way"] for row in table(run.out / "2" / "ways.csv")] == [
        "h1 r1 r2 h3",
        "h4 r2 r1 h2",
    ]


def test_a_window_closes_with_the_first_datagram_behind_its_end(run: Outcome):
    """The first window has what came in its first second and the datagram of 12 s; the silent one
    that follows has that of 13 s alone."""
    output = (run.out / "3" / "raw" / "h1" / "flow.1.1.out").read_text()
    first, *_ = lines(run, 3, "h1")
    sent = int(first["bytes_sent"])
    assert f'"windows":[["h3",0,{sent + 1400}],["h3",1,1400]]' in output


def test_a_datagram_at_the_end_of_a_window_closes_it_and_counts_in_it(run: Outcome):
    output = (run.out / "3" / "raw" / "h2" / "flow.2.1.out").read_text()
    assert '"windows":[["h4",0,1400]]' in output


def test_the_summary_has_the_numbers_of_the_course(run: Outcome):
    done = netesto(run.out.parent, "summary", "out", "--as", "trace", "-f", "csv")
    rows = list(csv.DictReader(done.stdout.splitlines()))
    [total] = [row for row in rows if (row["case"], row["kind"]) == ("windows", "total")]
    sent = int(lines(run, 3, "h1")[0]["bytes_sent"])
    windows = (sent + 1400, 1400, 1400)
    assert float(total["course_kbps"]) == pytest.approx(
        sum(size * 8 // 1000 // 5 for size in windows) / 3, abs=0.001
    )
    assert total["cut_kbps"] == "1000.000"


@pytest.mark.parametrize("node", list(CAPTURED))
def test_a_link_carries_what_its_far_end_captures_to_the_byte(diamond: Outcome, node: str):
    folder, beside = diamond.out / "1", CAPTURED[node]
    [capture] = (folder / "raw" / node).glob("capture.*.pcap")
    source = "h1" if PLACES[beside] < PLACES[node] else "h2"
    sent_by = IPv4Address(addresses(diamond)[source]).packed
    # Where frames with a datagram from there go, all go that come from there.
    [mac] = {
        frame[:6]
        for _, frame in frames(capture)
        if len(frame) == DATAGRAM_BYTES and frame[26:30] == sent_by
    }
    arrived = [(at_s, len(frame)) for at_s, frame in frames(capture) if frame[:6] == mac]
    start_s = diamond.manifest(1)["groups"][0]["instances"][0]["asked_start_s"]
    rows = [
        row
        for row in table(folder / "links-series.csv")
        if (row["from"], row["to"]) == (beside, node)
    ]
    compared = 0
    for before, row in pairwise(rows):
        low_s, high_s = (start_s + float(each["t_s"]) for each in (before, row))
        if high_s - low_s < 0.201:
            assert sum(size for at_s, size in arrived if low_s < at_s <= high_s) == int(
                row["bytes"]
            )
            compared += 1
    assert compared >= 10
    [whole] = [
        row for row in table(folder / "links.csv") if (row["from"], row["to"]) == (beside, node)
    ]
    assert int(whole["bytes"]) == sum(int(row["bytes"]) for row in rows)


def test_the_datagrams_of_a_flow_go_its_way(diamond: Outcome):
    ways = [way for way in table(diamond.out / "1" / "ways.csv") if way["source"] in {"h1", "h2"}]
    captured = {node: datagrams(diamond, node) for node in ("r2", "r3")}
    for way in ways:
        passed = {
            node
            for node, found in captured.items()
            for each in found
            if (each.source, each.port) == (way["source"], int(way["sport"]))
        }
        assert passed == set(way["way"].split()) & {"r2", "r3"}
    assert {way["way"] for way in ways} == {
        "h1 r1 r2 r4 h2", "h1 r1 r3 r4 h2", "h2 r4 r2 r1 h1", "h2 r4 r3 r1 h1",
    }  # fmt: skip


def test_the_goodput_of_a_flow_is_what_its_receiver_captured_in_its_time(diamond: Outcome):
    start_s = diamond.manifest(1)["groups"][0]["instances"][0]["asked_start_s"]
    for source, receiver, first_s, lasts_s in (("h1", "h2", 0.1, 3.0), ("h2", "h1", 0.2, 2.5)):
        found = [each for each in datagrams(diamond, receiver) if each.source == source]
        for line in lines(diamond, 1, source):
            own = [each for each in found if each.port == int(line["sport"])]
            end_s = start_s + first_s + lasts_s
            in_time = sum(each.payload for each in own if each.at_s < end_s)
            assert (int(line["bytes_in_time"]), int(line["bytes_received"])) == (
                in_time,
                sum(each.payload for each in own),
            )
