"""Workloads: the events that they make, and what is refused."""

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from netesto.errors import NetestoError, ScriptError
from netesto.traces import distributions, shown, workload
from netesto.traces import format as trace_format
from netesto.traces.addresses import Addresses
from netesto.traces.distributions import Empirical, Exponential, Uniform
from netesto.traces.format import Flow, Trace

CONSTANT = {"type": "constant", "value": 100}


def group(**changed: Any) -> dict[str, Any]:
    return {
        "start_time": 0,
        "length": 1000,
        "src_host_list": ["h1", "h2"],
        "dst_host_list": ["h2", "h3"],
        "flow_size_distribution": CONSTANT,
        "flow_gap_distribution": CONSTANT,
        "flowlet_size_distribution": {"type": "constant", "value": 0},
        "flowlet_gap_distribution": {"type": "constant", "value": 0},
    } | changed


def asked(**changed: Any) -> dict[str, Any]:
    return {
        "flow_groups": [],
        "mc_host_list": ["h5", "h6"],
        "mc_gap_distribution": CONSTANT,
        "length": 1000,
    } | changed


def read(document: object) -> workload.Workload:
    return workload.read(Path("w.json"), text=json.dumps(document))


def made(document: object, seed: int = 1) -> Trace:
    return workload.generate(read(document), seed)


def test_a_group_has_a_flow_after_each_gap_and_no_flow_to_its_own_host() -> None:
    trace = made({"flow_groups": [group(start_time=50)]})
    assert [flow.time_us for flow in trace.flows] == [50 + 100 * i for i in range(10)]
    pairs = {(flow.host, flow.destination) for flow in trace.flows}
    assert pairs <= {("h1", "h2"), ("h1", "h3"), ("h2", "h3")}
    assert {flow[3:] for flow in trace.flows} == {(100, 0.0, 0.0, 0)}
    assert trace.stores == ()


def test_events_of_all_groups_and_requests_are_in_order_of_time() -> None:
    groups = [group(flow_gap_distribution={"type": "exponential", "mean": 7}) for _ in range(3)]
    times = [event.time_us for event in made(asked(flow_groups=groups)).events]
    assert times == sorted(times)


def test_requests_begin_with_a_set_and_a_get_asks_for_a_key_that_was_set() -> None:
    trace = made(asked(length=1_000_000))
    known: set[str] = set()
    for request in trace.requests:
        assert request.value is not None or request.key in known
        known.add(request.key)
    words = [*known, *(request.value for request in trace.requests if request.value)]
    assert {len(word) for word in words} == {5, 6, 7, 8}
    assert all(word.isascii() and word.isalnum() for word in words)
    kinds = Counter(request.kind for request in trace.requests)
    # Of 10,000 binomial events with ½: within five standard deviations of 50.
    assert kinds["set"] + kinds["get"] == 10_000
    assert abs(kinds["set"] - 5000) < 250
    # Half of the sets have a key of their own.
    assert abs(len(known) - kinds["set"] / 2) < 180
    assert trace.hosts == trace.stores == ("h5", "h6")


def test_the_same_seed_makes_the_same_trace_and_another_one_another() -> None:
    document = asked(flow_groups=[group(flow_size_distribution={"min": 1, "max": 9})])
    assert made(document) == made(document)
    assert made(document) != made(document, seed=2)


def test_another_group_does_not_change_the_flows_of_the_first() -> None:
    alone = made({"flow_groups": [group(length=500)]})
    both = made({"flow_groups": [group(length=500), group(start_time=5000)]})
    assert both.events[:5] == alone.events


@pytest.mark.parametrize(
    ("text", "distribution"),
    [
        ('{"type": "uniform", "min": 1, "max": 3}', Uniform(1, 3)),
        ('{"distribution": "uniform", "min": 1, "max": 3}', Uniform(1, 3)),
        ('{"uniform": {"min": 1, "max": 3}}', Uniform(1, 3)),
        ('{"min": 1, "max": 3}', Uniform(1, 3)),
        ('{"mean": 2.5}', Exponential(2.5)),
    ],
)
def test_a_distribution_may_be_written_in_several_ways(
    text: str, distribution: distributions.Distribution
) -> None:
    document = {"flow_groups": [group(flow_gap_distribution=json.loads(text))]}
    assert read(document).groups[0].gap == distribution


def test_an_exponential_distribution_has_the_mean_asked_for() -> None:
    draw = Exponential(10).drawn_by(Random(1))
    # The standard deviation of a mean of 10,000 is 0.1.
    assert sum(draw() for _ in range(10_000)) / 10_000 == pytest.approx(10, abs=0.5)


def test_an_empirical_distribution_of_bytes_makes_flows_of_a_size(tmp_path: Path) -> None:
    (tmp_path / "cdf.txt").write_text("# bytes, percent\n1000 50\n\n3000 100  # all\r\n")
    assert distributions.empirical(tmp_path / "cdf.txt") == Empirical((1000, 3000), (0.5, 1.0))
    size = {"type": "empirical", "file": "cdf.txt"}
    text = json.dumps({"flow_groups": [group(flow_size_distribution=size, length=1_000_000)]})
    flows = workload.generate(workload.read(tmp_path / "w.json", text=text), 1).flows
    assert {flow.duration_us for flow in flows} == {0.0}
    sizes = [flow.size_bytes for flow in flows]
    # Half have exactly the first size, the others are uniform up to the last: mean 1500.
    assert abs(sizes.count(1000) - 5000) < 250
    assert (min(sizes), max(sizes) <= 3000) == (1000, True)
    assert sum(sizes) / len(sizes) == pytest.approx(
        Empirical((1000, 3000), (0.5, 1)).mean, rel=0.03
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 x\n2 1\n", "c:1:1: two numbers are required"),
        ("5 0.5\n  4 1\n", "c:2:3: less than in the line above"),
        ("5 0.5\n6 0.9\n", "c:2:1: the last share is 1, or 100"),
        ("", "c:1:1: the last share is 1, or 100"),
        ("-5 1\n", "c:1:1: bytes are from 0 on"),
    ],
)
def test_an_empirical_file_that_is_no_distribution_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c").write_text(text)
    with pytest.raises(ScriptError) as error:
        distributions.empirical(Path("c"))
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "no flow_groups and no mc_host_list"),
        ([], "a workload: an object {…} is required"),
        ({"flow_groups": 5}, "flow_groups: an array […] is required"),
        ({"flow_groups": [group(length="5")]}, "length: a number is required"),
        ({"flow_groups": [group(length=True)]}, "length: a number is required"),
        ({"flow_groups": [group(start_time=-1)]}, "start_time: -1 is negative"),
        ({"flow_groups": [group(start_time=1e99)]}, "start_time: 1e+99 µs: at most 1e+13"),
        ({"flow_groups": [group(src_host_list=[])]}, "group 1: src_host_list is empty"),
        ({"flow_groups": [group(src_host_list=["a b"])]}, "src_host_list: 'a b' is not the name"),
        ({"flow_groups": [group(src_host_list=["\ud800"])]}, "src_host_list: a host: a text in"),
        ({"flow_groups": [group(src_host_list=["h1", "h1"])]}, "src_host_list: host h1 twice"),
        (
            {"flow_groups": [group(src_host_list=["h2"], dst_host_list=["h2"])]},
            "group 1: its only destination is its only source",
        ),
        (
            {"flow_groups": [group(flow_gap_distribution={"type": "constant", "value": 0})]},
            "flow_gap_distribution: a gap that stays 0",
        ),
        (
            {"flow_groups": [group(flow_gap_distribution={"min": 3, "max": 3})]},
            "min 3 is not below max 3",
        ),
        ({"flow_groups": [group(flow_gap_distribution={"mean": 0})]}, "mean: 0: a number above 0"),
        (
            {"flow_groups": [group(flow_gap_distribution={"type": "zipf", "s": 1})]},
            "unknown distribution zipf",
        ),
        (
            {"flow_groups": [group(flow_gap_distribution={"type": "uniform", "min": 1})]},
            "a distribution uniform: max is missing",
        ),
        (
            {"flow_groups": [group(flow_gap_distribution={"mean": 1e-5})]},
            "flow_gap_distribution: more than 10,000,000 events",
        ),
        (
            {"flow_groups": [group(flow_gap_distribution={"file": "x"})]},
            "an empirical distribution has bytes",
        ),
        (asked(mc_gap_distribution={"value": 0}), "mc_gap_distribution: a gap that stays 0"),
        (
            {"mc_host_list": ["h1"], "length": 5},
            "a workload with mc_host_list: mc_gap_distribution is missing",
        ),
    ],
)
def test_a_workload_that_cannot_be_made_is_refused_at_its_place(
    document: object, message: str
) -> None:
    with pytest.raises(ScriptError) as error:
        read(document)
    assert error.value.message.startswith(message)
    assert str(error.value.place).startswith("w.json:1:")


def test_hosts_that_a_topology_lacks_are_named_with_a_similar_one() -> None:
    with pytest.raises(
        ScriptError, match=r"w\.json:1:\d+: src_host_list: unknown host h1"
    ) as error:
        workload.read(
            Path("w.json"),
            Addresses({"10.1.1.2": "h11", "10.1.2.2": "h2", "10.1.3.2": "h3"}),
            text=json.dumps({"flow_groups": [group()]}),
        )
    assert "Did you mean h11?" in str(error.value)


def test_names_that_mean_nothing_are_warned_about() -> None:
    warnings: list[str] = []
    text = json.dumps({"flow_groups": [group()], "lenght": 5, "output": "x"})
    workload.read(Path("w.json"), text=text, warn=warnings.append)
    assert [warning.partition(": ")[2] for warning in warnings] == [
        "'lenght' means nothing here. Did you mean length?"
    ]


TWICE = """{"flow_groups": [
  {"start_time": 0, "length": 10, "src_host_list": ["h1"], "dst_host_list": ["h9"],
   "flow_size_distribution": {"value": 5}, "flow_gap_distribution": {"value": 10}}],
 "flow_groups": [
  {"start_time": 5, "length": 10, "src_host_list": ["h4"], "dst_host_list": ["h12"],
   "flow_size_distribution": {"value": 5}, "flow_gap_distribution": {"value": 10}}]
}"""


def test_the_same_key_twice_is_an_error_that_names_both_lines() -> None:
    with pytest.raises(ScriptError) as error:
        workload.read(Path("w.json"), text=TWICE)
    assert str(error.value.place) == "w.json:4:2"
    assert error.value.message == "key 'flow_groups' twice in one object: also in line 1"


def test_merge_joins_the_lists_of_the_same_key() -> None:
    merged = workload.read(Path("w.json"), text=TWICE, duplicates="merge")
    assert workload.generate(merged, 1).events == (
        Flow(0.0, "h1", "h9", 5.0),
        Flow(5.0, "h4", "h12", 5.0),
    )


def test_merge_joins_nothing_but_lists() -> None:
    text = '{"length": 5,\n "length": 5}'
    with pytest.raises(ScriptError, match="key 'length' twice in one object: also in line 1"):
        workload.read(Path("w.json"), text=text, duplicates="merge")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" ", "w.json:1:2: the text ends before the value does"),
        ('{"a": 1', "w.json:1:1: '{' is never closed"),
        ('{"a": 1,}', "w.json:1:9: ',' before '}'"),
        ('{"a" 1}', "w.json:1:6: ':' is required behind 'a'"),
        ('{"a": NaN}', "w.json:1:7: 'NaN' is not a value of JSON"),
        ('{"a": 01}', "w.json:1:7: '01' is not a value of JSON"),
        ('{"a": 1e999}', "w.json:1:7: the number is too large"),
        ('{"a": 1} {', "w.json:1:10: unexpected text behind the value"),
        ("[" * 60, "w.json:1:52: nested more than 50 levels deep"),
        ('{"a\tb": 1}', "w.json:1:2: "),
        ("{a: 1}", "w.json:1:2: 'a' is not a value of JSON"),
        ("[1 2]", "w.json:1:4: ',' or ']' is required here"),
    ],
)
def test_text_that_is_not_strict_json_is_refused_at_its_place(text: str, message: str) -> None:
    with pytest.raises(ScriptError) as error:
        workload.read(Path("w.json"), text=text)
    assert str(error.value).startswith(message)


def test_more_than_ten_million_events_in_all_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "MOST_EVENTS", 15)
    with pytest.raises(NetestoError, match="more than 15 events"):
        made({"flow_groups": [group(), group()]})


def test_what_a_trace_has_is_counted() -> None:
    trace = trace_format.read(
        Path("t"),
        text="h10 10.0.0.10 h2 10.0.0.2\nh2 0 0 k v\nh10 5 1 k\nh10 10 2 10.0.0.2 1000000 5 5\n"
        "h2 20 2 10.0.0.10 1 0 0\nh2 21 2 10.0.0.10 1 0 0\n",
    )
    assert shown.facts(trace) == shown.TraceFacts(
        hosts=("h2", "h10"),
        sets=1,
        gets=1,
        flows=3,
        end_s=1.00001,
        pairs={"h2-h10": 2, "h10-h2": 1},
        flowlets=1,
    )
