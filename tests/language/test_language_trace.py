"""DO_TRACE in scripts: a group for each host's flows, and one for its requests."""

import json
from pathlib import Path
from typing import cast

import pytest
from language_asked import Asked, run
from language_plans import in_words, planned

from netesto.language import steps
from netesto.traces import played

LAB = "LAB tree depth=2 rate=1mbit\n"
TRACE = """\
h3 10.0.0.3
h1 0 0 abcde value
h1 0 2 10.0.0.2 2000000 0 0
h4 500000 2 10.0.0.3 1000000 0 0
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.txt").write_text(TRACE)
    return tmp_path


def traces(text: str) -> list[steps.DoTrace]:
    port = Asked()
    run(text, port)
    assert port.error is None
    return [cast("steps.DoTrace", each) for each in port.commands]


def message(text: str) -> str:
    port = Asked()
    run(text, port)
    return port.message


def test_each_host_has_a_group_of_flows_and_one_of_requests(folder: Path):
    del folder
    found = traces(f"{LAB}DO_TRACE file=t.txt exp=COUNTER protocol=udp drain=3\n")
    assert [(each.host, each.group, each.flow.test, each.peers) for each in found] == [
        ("h1", 1, "TRACE_KV", ("h3",)),
        ("h1", 2, "TRACE_UDP", ("h2",)),
        ("h4", 3, "TRACE_UDP", ("h3",)),
    ]
    assert {each.flow.duration_s for each in found} == {2.0 + 3}
    assert found[0].hosts == ("h1", "h3")


def test_addresses_in_a_trace_are_the_aliases_of_the_topology_file(folder: Path):
    """LAB file=t.toml
    DO_TRACE file=t.txt exp=COUNTER
    """
    del folder
    aliases = '[aliases]\n"10.0.0.2" = "h7"\n"10.0.0.3" = "h3"\n'
    text = "LAB file=t.toml\nDO_TRACE file=t.txt exp=COUNTER\n"
    made = planned(text, lab_text=lambda _: aliases)
    commands = [step for step in made.steps() if isinstance(step, steps.DoTrace)]
    assert [each.peers for each in commands] == [("h3",), ("h7",), ("h3",)]


def test_its_groups_start_together_unless_they_are_held(folder: Path):
    del folder
    text = f"{LAB}DO_TRACE file=t.txt exp=COUNTER\nWAIT_FLOWS\nPROCESS_EXP\n"
    started = ["DO_TRACE h1 exp=1", "DO_TRACE h1 exp=1", "DO_TRACE h4 exp=1", "start 0.2"]
    assert in_words(planned(text).steps()) == [*started, "flows 1", "process 1"]
    held = text.replace("COUNTER\n", "COUNTER hold=1\nSTART_FLOWS lead=1\n")
    assert in_words(planned(held).steps()) == [*started[:-1], "start 1", "flows 1", "process 1"]


def test_a_plan_has_the_trace_among_its_sources(folder: Path):
    plan = planned(f"{LAB}DO_TRACE file=t.txt exp=COUNTER\n")
    trace = plan.head.sources[1]
    assert (trace.path, trace.text, trace.is_script) == ("t.txt", TRACE, False)
    before = plan.head.rest
    (folder / "t.txt").write_text(TRACE.replace("2000000", "3000000"))
    after = planned(f"{LAB}DO_TRACE file=t.txt exp=COUNTER\n").head.rest
    assert before is not None
    assert after is not None
    assert before.hash != after.hash


def test_a_workload_gives_all_repetitions_the_same_trace_unless_their_seed_differs(folder: Path):
    workload = {
        "mc_host_list": ["h1", "h2"],
        "mc_gap_distribution": {"type": "constant", "value": 100_000},
        "length": 1_000_000,
    }
    (folder / "w.json").write_text(json.dumps(workload))
    text = f"{LAB}SWEEP ca=cubic,reno reps=2 DO\nDO_TRACE workload=w.json {{}} exp=COUNTER\nDONE\n"

    def made(words: str) -> list[str]:
        experiments: dict[int, list[str]] = {}
        for each in traces(text.format(words)):
            lines = played.read(each.flow.trace).lines
            experiments.setdefault(each.exp, []).append(f"{each.host} {lines}")
        return ["".join(parts) for parts in experiments.values()]

    assert len(set(made("ca=$ca"))) == 1
    assert len(set(made("ca=$ca seed=$rep"))) == 2


def test_the_rate_of_flows_may_be_left_to_tcp_alone(folder: Path):
    del folder
    *_, paced = traces(f"{LAB}DO_TRACE file=t.txt bitrate=500kbit exp=COUNTER\n")
    assert (paced.flow.bitrate_bps, played.read(paced.flow.trace).is_paced) == (500_000, True)
    *_, free = traces(f"{LAB}DO_TRACE file=t.txt bitrate=none exp=COUNTER\n")
    assert (free.flow.bitrate_bps, played.read(free.flow.trace).is_paced) == (None, False)
    text = f"{LAB}DO_TRACE file=t.txt bitrate=none protocol=udp exp=COUNTER\n"
    assert message(text) == "2:29: bitrate=none: datagrams need a rate"


def test_a_trace_needs_a_lab_and_a_file(folder: Path):
    del folder
    assert message("DO_TRACE file=t.txt exp=COUNTER\n") == (
        "1:1: DO_TRACE needs a LAB: its hosts have one clock"
    )
    assert message(f"{LAB}DO_TRACE exp=COUNTER\n") == (
        "2:1: DO_TRACE: one of file= and workload= is required"
    )
    assert message(f"{LAB}DO_TRACE file=u.txt exp=COUNTER\n") == "2:15: u.txt: no such file"


def test_an_error_in_a_trace_has_its_place_there(folder: Path):
    (folder / "t.txt").write_text(TRACE.replace("h1 0 2", "h1 -1 2"))
    port = Asked()
    run(f"{LAB}DO_TRACE file=t.txt exp=COUNTER\n", port)
    assert port.error is not None
    assert port.error.place is not None
    assert (port.error.place.file, port.error.place.line, port.error.place.column) == (
        "t.txt",
        3,
        4,
    )


def test_a_repetition_of_a_sweep_is_a_variable_of_its_body():
    port = Asked()
    run("SWEEP ca=reno reps=2 DO\nECHO $ca $rep\nDONE\n", port)
    assert port.echoed == ["reno 1", "reno 2"]


def test_a_variable_of_the_script_called_rep_keeps_its_value():
    port = Asked()
    run("SET rep=own\nSWEEP ca=reno reps=2 DO\nECHO $rep\nDONE\n", port)
    assert port.echoed == ["own", "own"]
