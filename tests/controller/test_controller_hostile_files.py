"""Whatever is in the files that hosts send: the experiment becomes results, and each file that
cannot be read is named. Real files of every kind are cut off, mutated, and replaced by noise."""

import contextlib
import dataclasses
import gzip
import json
import math
import random
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netesto.collectors import cpu, hostfacts, links, ping, queues, socketfile
from netesto.controller import digest, rawfiles, record
from netesto.errors import OutputError, ResultsError
from netesto.files import compressed
from netesto.model import ClockOffset, HostInfo, Ports
from netesto.results import derive, fields, manifest, sockets
from netesto.results.evidence import ExperimentEvidence
from netesto.results.manifest import GroupRecord, HostRecord, InstanceRecord, Manifest
from netesto.traffic import TOOLS
from results.samples import PLAIN

TESTS = Path(__file__).parents[1]
TRAFFIC, COLLECTED = TESTS / "traffic" / "fixtures", TESTS / "collectors" / "fixtures"
FIELDS = fields.load(TESTS.parent / "fields.txt")

# Some thousands in all, in seconds; each is drawn by a fixed seed.
fuzzed = settings(max_examples=150, derandomize=True, deadline=None)

# What a mutation puts in the place of something.
EVIL = [
    *(b"NaN", b"Infinity", b"-1", b"1e999", b"9" * 5000, b"18446744073709551616", b"null", b'""'),
    *(b"[" * 100_000, b'{"a":' * 50_000, b"\0", b"\xff\xfe", b"\x1b[2J", b"\n", b"{}", b"[]", b""),
    *("\N{ARABIC-INDIC DIGIT THREE}".encode(), b"-0.0", b"1e17", b"true"),
]

REQUEST = replace(PLAIN, tool="iperf3")

CPU = b"".join(
    json.dumps({"time_s": 1000.0 + second, "ticks": {"0": [second, *[0] * 9]}}).encode() + b"\n"
    for second in range(4)
)
COUNTERS = json.dumps(
    {
        "counters_before": {"rx_packets": 1, "tx_packets": 2, "rx_bytes": 3, "tx_bytes": 4},
        "counters_after": {"rx_packets": 5, "tx_packets": 6, "rx_bytes": 7, "tx_bytes": 8},
    }
).encode()
TCP = b"".join(
    json.dumps({"time_s": 1000.0 + second, "counters": {"OutSegs": second}}).encode() + b"\n"
    for second in range(4)
)
# A header, the interface of a group, what is sampled, and two samples.
LINKS = b"".join(
    json.dumps(line).encode() + b"\n"
    for line in (
        {
            "format": links.FORMAT,
            "qdisc": queues.QDISC_COUNTS,
            "interface": queues.INTERFACE_COUNTS,
        },
        {"group": 1, "device": "eth0"},
        {
            "node": "",
            "qdiscs": [
                {"device": "eth0", "kind": "tbf", "handle": "1:", "parent": "root", "rate_bps": 1e6}
            ],
            "interfaces": ["eth0"],
        },
        [1000.0, "", [list(range(8))], [list(range(8))]],
        [1003.0, "", [list(range(8, 16))], [list(range(8, 16))]],
    )
)
LAUNCH = json.dumps({"argv": ["iperf3", "-c", "10.0.0.2"], "version": "3.12"}).encode()

SOCKETS = (COLLECTED / "sockets-linux-6.18.bin.gz").read_bytes()
RECORDS = gzip.decompress(SOCKETS)

# Every file of an experiment that something is read from.
FILES = {
    "raw/a/flow.1.1.out": (TRAFFIC / "iperf3-3.12-tcp-stream.json").read_bytes(),
    "raw/a/flow.1.1.json": LAUNCH,
    "raw/a/group.1.json": COUNTERS,
    "raw/a/ping.1.out": (COLLECTED / "ping-20221126-loss.txt").read_bytes(),
    "raw/a/cpu.jsonl": CPU,
    "raw/b/cpu.jsonl": CPU,
    "raw/a/tcp.jsonl": TCP,
    "raw/a/links.jsonl.gz": gzip.compress(LINKS),
    "raw/a/sockets.bin.gz": SOCKETS,
    "raw/b/sockets.bin.gz": SOCKETS,
    "0/a.sysctl": b"net.ipv4.tcp_rmem = 4096\t131072\t6291456\n",
    "0/a.ethtool-k": (COLLECTED / "ethtool-6.1-k-veth.txt").read_bytes(),
    "0/a.ethtool-c": (COLLECTED / "ethtool-6.1-c-virtio.txt").read_bytes(),
}


def mutated(content: bytes) -> st.SearchStrategy[bytes]:
    """The content cut off, with some of it replaced or repeated, or noise."""

    def change(seed: int) -> bytes:
        chance = random.Random(seed)
        changed = content
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(changed) + 1)
            until = min(len(changed), at + chance.choice([0, 1, 4, 30]))
            changed = changed[:at] + chance.choice([*EVIL, chance.randbytes(8)]) + changed[until:]
        return changed if chance.random() < 0.8 else changed[: chance.randrange(len(changed) + 1)]

    return st.one_of(
        st.integers(0, 2**32).map(change),
        st.integers(0, len(content)).map(lambda size: content[:size]),
        st.binary(max_size=200),
        st.sampled_from(EVIL),
    )


def written(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("experiment")
    for name, content in FILES.items():
        written(found, name, content)
    return found


# ---- each reader -------------------------------------------------------------------------------


def read_or_told(read: Callable[[Path], object], path: Path) -> bool:
    """Whether what is wrong with a file is told as an OutputError that names it, if anything is."""
    try:
        read(path)
    except OutputError as error:
        return str(path) in error.message
    return True


@fuzzed
@given(mutated(CPU))
def test_samples_of_cpus_are_read_or_reported(tmp_path_factory, content):
    path = written(tmp_path_factory.getbasetemp(), "cpu.jsonl", content)
    assert read_or_told(cpu.read, path)


@fuzzed
@given(mutated(FILES["raw/a/ping.1.out"]))
def test_echoes_are_read_or_reported(tmp_path_factory, content):
    path = written(tmp_path_factory.getbasetemp(), "ping.out", content)
    assert read_or_told(ping.read, path)


@fuzzed
@given(mutated(SOCKETS) | mutated(RECORDS[:20_000]).map(gzip.compress))
def test_samples_of_sockets_are_read_or_reported(tmp_path_factory, content):
    path = written(tmp_path_factory.getbasetemp(), "sockets.bin.gz", content)
    assert read_or_told(socketfile.read, path)


@fuzzed
@given(mutated(gzip.compress(LINKS)) | mutated(LINKS).map(gzip.compress))
def test_samples_of_links_are_read_or_reported(tmp_path_factory, content):
    path = written(tmp_path_factory.getbasetemp(), "links.jsonl.gz", content)
    assert read_or_told(links.read, path)


def dtypes() -> st.SearchStrategy[object]:
    """Invalid descriptions of records."""
    texts = st.sampled_from(["<u4", "<f8", "V0", "V99999999999", "x", "", "<", "S-4", ">u2"])
    formats = st.lists(texts | st.none() | st.integers(), max_size=5)
    names = st.lists(st.sampled_from(["before_s", "tcpi_rtt", "x"]) | st.none(), max_size=5)
    form = st.fixed_dictionaries({"names": names, "formats": formats})
    return form | st.none() | st.integers() | st.text() | st.lists(st.integers())


@fuzzed
@given(dtypes(), st.binary(max_size=300))
def test_records_that_no_agent_of_ours_describes_are_reported(tmp_path_factory, dtype, records):
    header = json.dumps({"dtype": dtype}).encode() + b"\n"
    content = gzip.compress(header + records)
    path = written(tmp_path_factory.getbasetemp(), "sockets.bin.gz", content)
    assert read_or_told(socketfile.read, path)


@fuzzed
@given(mutated(COUNTERS))
def test_counters_are_counts_or_unknown(tmp_path_factory, content):
    path = written(tmp_path_factory.getbasetemp(), "group.json", content)
    found = digest._counters(digest._client_record(path))
    assert found is None or all(0 <= count < 2**64 for each in found for count in each.values())


def numbers_in(value: object) -> Iterator[float]:
    """Those of a value of the model."""
    if is_dataclass(value):
        value = [getattr(value, each.name) for each in dataclasses.fields(value)]
    if isinstance(value, list | tuple):
        for each in value:
            yield from numbers_in(each)
    elif isinstance(value, int | float):
        yield value


OUTPUTS = sorted(
    path for path in TRAFFIC.iterdir() if path.suffix != ".md" and "version" not in path.name
)


@pytest.mark.parametrize("output", OUTPUTS, ids=lambda path: path.name)
@settings(max_examples=40, derandomize=True, deadline=None)
@given(data=st.data())
def test_what_tools_print_is_understood_or_reported(output, data):
    text = data.draw(mutated(output.read_bytes())).decode(errors="replace")
    tests = {"udp": "UDP_STREAM", "-rr": "TCP_RR", "crr": "TCP_CRR", "maerts": "TCP_MAERTS"}
    name = next((tests[word] for word in tests if word in output.name), "TCP_STREAM")
    request = replace(REQUEST, test=name)
    tool = TOOLS[output.name.partition("-")[0]]
    tool.failure(text)
    told: list[object] = [tool.progress(line, request) for line in text.splitlines()]
    with contextlib.suppress(OutputError):
        told.append(tool.parse(text, request, started_s=1000.0))
    assert [number for number in numbers_in(told) if not math.isfinite(number)] == []


@fuzzed
@given(mutated(FILES["0/a.ethtool-k"] + FILES["0/a.ethtool-c"] + FILES["0/a.sysctl"]))
def test_statistics_of_hosts_have_features_or_not(content):
    text = content.decode(errors="replace")
    found = hostfacts.features(dict.fromkeys(("ethtool-k", "ethtool-c", "sysctl"), text))
    states = {found.pop(name, "on") for name in ("tso", "lro", "gro", "gso")}
    assert states <= {"on", "off"}
    names = {"rx-frames", "tx-frames", "adaptive-rx", "tcpRmem", "tcpWmem"}
    assert (found.keys() <= names, all(map(str.isdecimal, found.values()))) == (True, True)


# ---- the experiment ----------------------------------------------------------------------------


def asked() -> Manifest:
    info = HostInfo(
        host="a",
        version="0.1.0",
        kernel="6.1",
        cpus=2,
        memory_bytes=1 << 30,
        device="eth0",
        addresses=(),
        tools={"iperf3": "3.12"},
        congestion_controls=("cubic",),
        qdiscs=(),
    )
    host = HostRecord(info=info, clock=ClockOffset(0.0, 0.0))
    instance = InstanceRecord(
        instance=1, status="ok", asked_start_s=1000.0, started_s=1000.0, ended_s=1003.0
    )
    group = GroupRecord(
        request=REQUEST,
        ports=Ports(control=(12900,), data=(12900,)),
        full_host="a",
        full_server="b",
        instances=(instance,),
    )
    return Manifest(
        exp=1,
        exp_name="Exp",
        description="",
        status="ok",
        run="run",
        started="",
        ended="",
        started_s=1000.0,
        ended_s=1004.0,
        started_monotonic_s=0.0,
        ended_monotonic_s=4.0,
        ground="hosts",
        groups=(group,),
        hosts={"a": host, "b": host},
        files=dict.fromkeys(FILES, ""),
    )


def results_of(folder: Path) -> Manifest:
    """What the controller makes of an experiment's files; its manifest is readable again."""
    evidence = digest.evidence(folder, asked())
    found = record.with_evidence(asked(), evidence)
    manifest.write(found, folder / manifest.NAME)
    derive.derive(folder, evidence, found, FIELDS)
    return manifest.read(folder / manifest.NAME)


def test_unharmed_files_make_an_experiment_that_is_whole(folder: Path):
    found = results_of(folder)
    assert (found.status, found.reasons) == ("ok", ())


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=40, derandomize=True, deadline=None)
@given(data=st.data())
def test_any_file_makes_results(name: str, data: st.DataObject, folder: Path):
    content = mutated(FILES[name])
    if name == "raw/a/links.jsonl.gz":
        content |= mutated(LINKS).map(gzip.compress)
    path = written(folder, name, data.draw(content))
    try:
        found = results_of(folder)
    finally:
        path.write_bytes(FILES[name])
    assert {reason.partition(":")[0] for reason in found.reasons} <= {name}


@pytest.mark.parametrize(
    "name", ["raw/a/cpu.jsonl", "raw/a/links.jsonl.gz", "raw/a/sockets.bin.gz"]
)
def test_a_file_that_cannot_be_read_makes_the_experiment_partial_and_is_named(
    name: str, folder: Path
):
    path = written(folder, name, b"@@@\n@@@\n")
    try:
        found = results_of(folder)
    finally:
        path.write_bytes(FILES[name])
    assert (found.status, [reason.partition(":")[0] for reason in found.reasons]) == (
        "partial",
        [name],
    )


@pytest.mark.parametrize("opening", [b"[", b'{"a":'], ids=["lists", "objects"])
@pytest.mark.parametrize("name", FILES)
def test_values_of_any_depth_make_results(name: str, opening: bytes, folder: Path):
    path = written(folder, name, opening * 100_000 + b"\n")
    try:
        found = results_of(folder)
    finally:
        path.write_bytes(FILES[name])
    assert {reason.partition(":")[0] for reason in found.reasons} <= {name}


def with_clock(
    folder: Path, host: str, content: bytes, of: Manifest | None = None, **other: bytes
) -> ExperimentEvidence:
    """The evidence if a host says this of its system time, with `other` files of it."""
    added = {f"raw/{host}/{name.replace('_', '.')}": each for name, each in other.items()}
    added[f"raw/{host}/clock.json"] = content
    for name, each in added.items():
        written(folder, name, each)
    known = replace(of or asked(), files=dict.fromkeys([*FILES, *added], ""))
    try:
        return digest.evidence(folder, known)
    finally:
        for name in added:
            (folder / name).unlink()


SET = b'{"system_ahead_s": null}'


def test_of_a_client_whose_time_was_set_only_its_own_clock_counts(folder: Path):
    plain = digest.evidence(folder, asked())
    [group] = plain.groups
    [flow] = group.instances
    assert flow.result is not None
    without = replace(flow, result=replace(flow.result, intervals=()))
    assert with_clock(folder, "a", SET, capture_1_pcap=b"two times") == replace(
        plain, groups=(replace(group, instances=(without,), pings=()),)
    )


def test_of_a_server_whose_time_was_set_arrivals_have_no_times(folder: Path):
    request = replace(REQUEST, test="UDP_STREAM")
    known = asked()
    known = replace(known, groups=tuple(replace(each, request=request) for each in known.groups))
    output = (TRAFFIC / "iperf3-3.12-udp-stream.json").read_bytes()
    path = written(folder, "raw/a/flow.1.1.out", output)
    try:
        plain = digest.evidence(folder, known)
        found = with_clock(folder, "b", SET, known)
    finally:
        path.write_bytes(FILES["raw/a/flow.1.1.out"])
    [flow], [timed] = found.groups[0].instances, plain.groups[0].instances
    assert timed.result is not None
    assert timed.result.datagrams is not None
    assert timed.result.datagrams.jitter_ms is not None
    intervals = [replace(each, jitter_ms=None) for each in timed.result.datagrams.intervals]
    datagrams = replace(timed.result.datagrams, jitter_ms=None, intervals=tuple(intervals))
    assert flow == replace(timed, result=replace(timed.result, datagrams=datagrams))


def test_times_of_pings_are_those_of_the_agent(folder: Path):
    [group] = digest.evidence(folder, asked()).groups
    [found] = with_clock(folder, "a", b'{"system_ahead_s": 64}').groups
    moved = [replace(each, time_s=each.time_s - 64) for each in group.pings]
    assert list(found.pings) == moved != []


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b'{"system_ahead_s": NaN}', b'{"system_ahead_s": 1e300}',
     b'{"system_ahead_s": "x"}'],
)  # fmt: skip
def test_what_is_no_state_of_a_clock_is_a_reason(content: bytes, folder: Path):
    [reason] = with_clock(folder, "a", content).unreadable
    assert reason.startswith("raw/a/clock.json: ")


def test_a_file_that_is_too_large_is_not_read(folder: Path):
    path = folder / "raw/a/cpu.jsonl"
    with path.open("wb") as file:
        file.truncate(rawfiles.READ_BYTES_MAX + 1)
    try:
        reasons = results_of(folder).reasons
    finally:
        path.write_bytes(CPU)
    assert reasons == (f"raw/a/cpu.jsonl: too large: {rawfiles.READ_BYTES_MAX + 1} bytes",)


def test_a_small_file_that_would_fill_the_memory_is_not_unpacked(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(compressed, "CONTENT_BYTES_MAX", 10**6)
    path = written(tmp_path, "sockets.bin.gz", gzip.compress(bytes(10**8)))
    tracemalloc.start()
    with pytest.raises(OutputError, match="more than 1000000 bytes"):
        socketfile.read(path)
    with pytest.raises(ResultsError, match="more than 1000000 bytes"):
        sockets.read(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 10**7
