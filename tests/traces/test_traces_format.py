"""Trace files: what is read is what was written, and every error has its place."""

from pathlib import Path

import pytest

from netesto.errors import ScriptError
from netesto.traces import addresses
from netesto.traces import format as trace_format
from netesto.traces.addresses import Addresses
from netesto.traces.format import Flow, Request, Trace

TRACE = Trace(
    ("h5", "h300"),
    (
        Request(0.0, "h5", "abcde", "xyzzy"),
        Request(10.5, "h300", "abcde"),
        Flow(11.0, "h1", "h9", 1e6, 10_000.0, 50_000.0),
        Flow(11.0, "h9", "h300", 0.0, size_bytes=1460),
    ),
)
TEXT = """h5 10.0.0.5 h300 10.0.1.44
h5 0 0 abcde xyzzy
h300 10.5 1 abcde
h1 11 2 10.0.0.9 1000000 10000 50000
h9 11 3 10.0.1.44 1460
"""


def test_a_written_trace_reads_as_the_same_value(tmp_path: Path) -> None:
    file = tmp_path / "trace.txt"
    trace_format.write(TRACE, file)
    assert file.read_text() == TEXT
    assert trace_format.read(file) == trace_format.read(file, Addresses()) == TRACE


def test_tabs_returns_blank_lines_and_no_final_newline_are_read() -> None:
    text = TEXT.replace(" ", "\t").replace("\n", "\r\n\r\n").rstrip()
    assert trace_format.read(Path("t"), text=text) == TRACE


def test_an_address_means_the_host_that_its_lab_gives_it() -> None:
    hosts = Addresses({"10.4.2.2": "h2", "10.4.1.2": "h1"})
    text = "\nh1 0 2 10.4.2.2 5 0 0\n"
    flow = Flow(0.0, "h1", "h2", 5.0)
    assert trace_format.read(Path("t"), hosts, text=text) == Trace((), (flow,))
    # Nobody says here which host it is.
    assert trace_format.read(Path("t"), text=text).flows[0].destination == "10.4.2.2"
    # Line 1 does.
    named = trace_format.read(Path("t"), text=f"h2 10.4.2.2{text}")
    assert named == Trace(("h2",), (flow,))


def test_line_1_shows_the_way_in_which_the_course_assigned_addresses() -> None:
    def destinations(first: str) -> list[str]:
        lines = "h1 0 2 10.3.5.2 5 0 0\nh1 0 2 10.3.7.2 5 0 0\nh1 0 2 10.3.2.2 5 0 0\n"
        return [flow.destination for flow in trace_format.read(Path("t"), text=first + lines).flows]

    assert destinations("h9 10.4.9.2\n") == ["h5", "h7", "h2"]
    assert destinations("h9 10.0.4.9\n") == ["h2", "h2", "h2"]
    # Both of these are possible, and agree about some.
    assert destinations("h2 10.4.2.2\n") == ["10.3.5.2", "10.3.7.2", "h2"]
    assert destinations("\n") == ["10.3.5.2", "10.3.7.2", "10.3.2.2"]
    assert destinations("h9 10.9.9.9 h8 10.9.1.2\n") == ["10.3.5.2", "10.3.7.2", "10.3.2.2"]


def test_the_aliases_of_a_topology_file_decide_and_other_hosts_are_known() -> None:
    aliases = addresses.of_file('[aliases]\n"10.0.0.5" = "h2"\n')
    read = trace_format.read(Path("t"), aliases, text="\nr1 0 2 10.0.0.5 5 0 0\n")
    assert read.flows == (Flow(0.0, "r1", "h2", 5.0),)
    with pytest.raises(ScriptError, match=r"t:2:8: no host has the address 10\.0\.0\.2"):
        trace_format.read(Path("t"), aliases, text="\nr1 0 2 10.0.0.2 5 0 0\n")
    assert [addresses.of_file(text) for text in ("", "[aliases]", "aliases = 1", "[")] == [None] * 4


def test_addresses_of_more_than_255_hosts_carry_only_where_the_host_is_there() -> None:
    flow = "h1 0 2 10.0.1.4 5 0 0\n"
    assert trace_format.read(Path("t"), text=f"\n{flow}").flows[0].destination == "10.0.1.4"
    with_host = trace_format.read(Path("t"), text=f"\n{flow}h260 7 2 10.0.0.1 5 0 0\n")
    assert with_host.flows[0].destination == "h260"


def test_a_trace_ends_with_its_last_event_and_knows_its_hosts() -> None:
    assert (TRACE.end_us, TRACE.hosts) == (1_000_011.0, ("h5", "h300", "h1", "h9"))
    assert [event.kind for event in TRACE.events] == ["set", "get", "flow", "flow"]
    assert Trace((), ()).end_us == 0


def test_a_key_belongs_to_the_store_of_its_crc32() -> None:
    # crc32(b"123456789") is 0xCBF43926, the check value of the catalogues.
    assert trace_format.store_of("123456789", ["a", "b", "c", "d", "e"]) == "abcde"[0xCBF43926 % 5]


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("h5", "1:1", "h5 without its partner"),
        ("h5 10.0.0.5 h5 10.0.0.6", "1:13", "memcached host h5 twice"),
        ("h5 10.0.0.6", "1:4", "10.0.0.6 is the address of h6, not of h5"),
        ("x1 10.0.0.6", "1:1", "unknown host x1"),
        ("\nh1 0", "2:5", "missing field: HOST TIME KIND …"),
        ("\nh1 x 2 10.0.0.2 5 0 0", "2:4", "time x: not a number"),
        ("\nh1 nan 2 10.0.0.2 5 0 0", "2:4", "time nan: not a number"),
        ("\nh1 1e400 2 10.0.0.2 5 0 0", "2:4", "time 1e400: not a number"),
        ("\nh1 -1 2 10.0.0.2 5 0 0", "2:4", "time -1 is negative"),
        ("\nh1 0 2 10.0.0.2 5 0", "2:20", "missing field: HOST TIME 2 ADDRESS DURATION"),
        ("\nh1 0 2 10.0.0.2 5 0 0 7", "2:23", "unexpected field"),
        ("\nh1 0 2 10.0.0.1 5 0 0", "2:8", "a flow from h1 to itself"),
        ("\nh1 0 2 10.1.0.0.1 5 0 0", "2:8", "10.1.0.0.1 is not an IPv4 address"),
        ("\nh1 0 2 11.0.0.1 5 0 0", "2:8", "no host has the address 11.0.0.1"),
        ("\nh1 0 2 10.0.0.2 -5 0 0", "2:17", "duration -5 is negative"),
        ("\nh1 0 3 10.0.0.2 0.5", "2:17", "bytes 0.5: not a whole number above 0"),
        ("\nh1 0 7 10.0.0.2", "2:6", "kind 7: 0 (set), 1 (get), 2 or 3 (flow)"),
        ("\nh1 0 1 a", "2:6", "a request, but line 1 names no memcached host"),
        ("h5 10.0.0.5\nh1 0 0 a", "2:9", "missing field: HOST TIME 0 KEY VALUE"),
        ("h5 10.0.0.5\nh1 5 1 a\n\th1 4.9 1 a\r\n", "3:5", "time 4.9 is before that of the line"),
        (f"h5 10.0.0.5\nh1 5 1 {'k' * 251}", "2:8", "a key has at most 250 bytes"),
    ],
)
def test_an_error_has_line_and_column(text: str, place: str, message: str) -> None:
    with pytest.raises(ScriptError) as error:
        trace_format.read(Path("t"), Addresses(), text=text)
    assert f"{error.value.place}: {error.value.message}".startswith(f"t:{place}: {message}")


def test_more_than_ten_million_events_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_format, "MOST_EVENTS", 2)
    with pytest.raises(ScriptError, match="t:6:1: more than 2 events"):
        trace_format.read(Path("t"), text="\n" + "h1 0 2 10.0.0.2 5 0 0\n\n" * 3)
