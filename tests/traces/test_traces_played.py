"""What each host does in a trace."""

import zlib

from netesto.traces import played
from netesto.traces.format import Flow, Request, Trace

STORES = ("h5", "h6")


def parts(*events: Flow | Request) -> dict[tuple[str, str], played.HostPart]:
    trace = Trace(STORES, events)
    found = played.parts(trace, drain_s=10, store="native", is_paced=True)
    return {(host, kind): part for host, kind, part in found}


def test_flows_and_requests_of_a_host_are_parts_of_their_own():
    found = parts(
        Request(0, "h1", "abcde", "value"),
        Flow(1.5, "h1", "h2", 1000, 10, 5),
        Flow(2, "h3", "h1", 0, size_bytes=10_000),
    )
    assert list(found) == [("h1", "requests"), ("h1", "flows"), ("h3", "flows")]
    flows = found["h1", "flows"]
    assert (flows.peers, flows.count, flows.end_us) == (("h2",), 1, 1001.5)
    assert flows.lines == "F 1500 1000000 10000 5000 0 0 1\n"
    assert found["h3", "flows"].lines == "F 2000 0 0 0 10000 0 1\n"


def test_a_key_has_the_store_of_its_checksum():
    [part] = parts(Request(0, "h1", "abcde", "value"), Request(2, "h1", "fghij")).values()
    keys = ("abcde", "fghij")
    expected = [STORES[zlib.crc32(key.encode()) % 2] for key in keys]
    assert part.peers == tuple(dict.fromkeys(expected))
    places = [part.peers.index(store) for store in expected]
    assert part.lines == f"S 0 {places[0]} abcde value\nG 2000 {places[1]} fghij\n"


def test_a_text_is_read_as_it_was_written():
    [part] = parts(Flow(0, "h1", "h2", 5)).values()
    placed = part.placed({"h2": ("host2", "192.0.2.2")})
    assert played.read(placed.text) == placed
    assert (placed.peers, placed.addresses) == (("host2",), ("192.0.2.2",))


def test_of_a_head_alone_the_lines_are_missing():
    [part] = parts(Flow(0, "h1", "h2", 5)).values()
    assert played.read(part.head).lines == ""


def test_256_flows_at_a_time_are_sampled():
    many = [Flow(0, "h1", "h2", 1000)] * 1 + [Flow(1, "h1", "h2", 500) for _ in range(256)]
    later = Flow(600, "h1", "h2", 10)
    trace = Trace((), (*many, later))
    assert played.unsampled(trace) == 1
    [(_, _, part)] = played.parts(trace, drain_s=10, store="native", is_paced=True)
    sampled = [line.split()[-1] for line in part.lines.splitlines()]
    assert sampled == ["1"] * 256 + ["0", "1"]
