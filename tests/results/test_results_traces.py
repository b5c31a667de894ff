"""What became of a trace, from lines written by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from netesto.errors import OutputError
from netesto.results import traces, tracetable
from netesto.results.traces import PlayedEvent
from netesto.results.tracetable import Played, PlayedFlow, Shared

HEADER = (
    "number,kind,start_s,destination,sport,bytes_sent,bytes_received,us,status,bytes_in_time,"
    "group,dport"
)


def line(**other: object) -> PlayedEvent:
    values: dict[str, object] = {
        "group": 1,
        "number": 1,
        "kind": "flow",
        "start_s": 0.0,
        "destination": "h2",
        "port": 40000,
        "peer_port": 13000,
        "sent_bytes": 1_250_000,
        "received_bytes": 1_000_000,
        "us": 11e6,
        "status": "ok",
        "in_time_bytes": 500_000,
    }
    return PlayedEvent(**(values | other))  # type: ignore[arg-type]


def flow(*, is_udp: bool = False, **other: object) -> PlayedFlow:
    return PlayedFlow(
        source="h1", asked_start_s=0.0, asked_s=10.0, line=line(**other), is_udp=is_udp
    )


def request(us: float, status: str = "ok") -> PlayedEvent:
    return line(kind="get", us=us, status=status, in_time_bytes=0)


def test_a_line_is_read_as_netesto_flow_wrote_it(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(
        f"{HEADER}\n1,flow,0.000000,h2,40000,1250000,1000000,11000000.000,ok,500000,1,13000\n"
        "2,get,,h3,40001,0,0,,failed: no reply,0,2,13001\n",
        encoding="utf-8",
    )
    first, second = traces.read(path)
    assert first == line()
    assert (second.start_s, second.us, second.reason) == (None, None, "no reply")


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(f"{HEADER}\n1,flow,0,h2,many\n", encoding="utf-8")
    with pytest.raises(OutputError, match="line 2 is not one of a trace"):
        traces.read(path)


def test_goodput_is_what_arrived_in_time_and_the_course_counts_what_was_sent() -> None:
    assert flow().kbps == 400
    assert flow().course_kbps == 1000


def test_a_flow_of_a_size_lasts_until_its_last_byte() -> None:
    sized = PlayedFlow(
        source="h1", asked_start_s=0.0, asked_s=0.0, line=line(us=4e6, in_time_bytes=500_000)
    )
    assert (sized.seconds, sized.kbps) == (4.0, 1000)


def test_a_failed_flow_is_in_no_mean() -> None:
    failed = flow(status="failed: nothing arrived", in_time_bytes=0)
    assert failed.kbps is None
    assert tracetable.course_kbps([Played(flows=(flow(), failed), requests={})]) == 1000
    assert Played(flows=(failed,), requests={}).kbps is None


def test_a_window_has_whole_kilobits_divided_by_five_and_rounded_down() -> None:
    # 606,390 B in 5 s: 4851.12 kbit, of which 4851 count; a fifth of them is 970.2.
    assert tracetable.window_kbps(606_390) == 970
    assert tracetable.window_kbps(1400) == 2
    assert tracetable.window_kbps(624) == 0


def test_the_course_takes_the_mean_of_all_closed_windows_of_datagrams() -> None:
    # A silent window closes with the first datagram behind it alone.
    played = Played(flows=(flow(is_udp=True),), requests={}, windows_bytes=(606_390, 1400, 606_390))
    assert tracetable.course_kbps([played]) == (970 + 2 + 970) / 3


def test_misses_count_with_their_latency_and_failed_requests_without() -> None:
    played = Played(
        flows=(),
        requests={"h1": (request(1000), request(3000, "miss"), request(9, "failed: no reply"))},
    )
    of_host, total = tracetable.rows({"tree": [played]})
    assert of_host == dict.fromkeys(tracetable.COLUMNS, "") | {
        "case": "tree",
        "kind": "requests",
        "src": "h1",
        "requests": "3",
        "misses": "1",
        "mean_us": "2000.000",
        "p50_us": "2000.000",
        "p90_us": "2800.000",
        "p99_us": "2980.000",
    }
    assert total == of_host | {"kind": "total", "src": ""}


def test_the_sum_of_a_case_is_the_mean_of_its_repetitions() -> None:
    once = Played(flows=(flow(), flow(number=2)), requests={}, cut_bps=2e6)
    again = Played(flows=(flow(),), requests={}, cut_bps=2e6)
    *_, total = tracetable.rows({"tree": [once, again]})
    assert (total["kbps"], total["course_kbps"], total["cut_kbps"]) == (
        "600.000",
        "1000.000",
        "2000.000",
    )


def test_the_text_of_a_large_trace_has_a_part_of_the_flows_and_of_those_that_share_a_link() -> None:
    names = {f"h{number}→h2": 2 for number in range(1, 13)}
    each = replace(flow(), way=("h1", "s", "h2"), shared=Shared("s-h2", None, names))
    said = tracetable.text({"tree": [Played(flows=(each,) * 120, requests={})]}).splitlines()
    others = ", ".join(["h1→h2", *(f"h{number}→h2 (2)" for number in range(2, 9))])
    shares = f"shares s-h2 with {others}, 8 further flows"
    assert said[3:] == [
        *[f"    h1→h2, 10 s from 0 s: 400.0 kbit/s (course: 1000.0); {shares}"] * 100,
        "    and 20 further flows: -f csv lists all",
    ]


def test_the_text_says_which_flows_share_the_busiest_link() -> None:
    shared = PlayedFlow(
        source="h1",
        asked_start_s=0.0,
        asked_s=10.0,
        line=line(),
        way=("h1", "s", "h2"),
        shared=Shared("s-h2", 0.994, {"h1→h2": 1, "h3→h2": 1}),
    )
    assert tracetable.text({"tree": [Played(flows=(shared,), requests={}, cut_bps=1e6)]}) == (
        "tree\n"
        "  throughput as the course computes it: 1000.000 kbit/s\n"
        "  goodput: 400.000 kbit/s in sum, of a cut of 1000.000 kbit/s\n"
        "    h1→h2, 10 s from 0 s: 400.0 kbit/s (course: 1000.0); shares s-h2 (99 %) with h3→h2\n"
    )
