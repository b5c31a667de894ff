import subprocess
import sys
from dataclasses import replace

import pytest

from netesto.errors import ResultsError
from netesto.hostsettings import Command, Sysctl
from netesto.measured import TransferResult
from netesto.model import TimeSync
from netesto.report import page
from netesto.results import severity
from netesto.results.manifest import SamplingRecord, SettingRecord
from results import samples

PLOTS = [
    "acked_rate", "cpu", "cwnd", "minrtt", "ping", "rates", "retrans", "rtt", "unacked"
]  # fmt: skip
EVIL = "<script>alert('$a$ & \"b\"')</script>"


def test_page_has_number_name_description_status_and_date(two, read):
    text = read(two).text
    wanted = [
        "Experiment 1 1s2c1fs",
        "cubic all the time, bbr from 8 s",
        "ok both flows succeeded",
        "20 November 2026, 12:15:00 UTC",
    ]
    assert [each for each in wanted if each not in text] == []


def test_graphs_are_drawn_into_files_and_into_the_page(two, read):
    files = sorted(path.stem for path in (two / "plots").iterdir())
    inside = sorted(each[6:] for each in read(two).ids if each.startswith("graph-"))
    assert (files, inside) == (PLOTS, PLOTS)


def test_what_flows_got_together_comes_before_the_graphs(two, read):
    text = read(two).text
    places = [text.index(each) for each in ("While both flows ran together", "Over time")]
    assert places == sorted(places)


def test_a_group_of_one_flow_has_no_slowest_one(publish, read):
    asked = [samples.request(group=number, duration_s=3.0) for number in range(1, 10)]
    found = [samples.group(samples.lively(1, each, rate_bps=1e6), asked=each) for each in asked]
    text = read(publish(samples.experiment(*found))).text
    assert ("While 9 flows ran together" in text, "slowest" in text) == (True, False)


def test_single_flow_ran_with_no_other(publish, read):
    assert "ran together" not in read(publish(samples.request_reply())).text


def test_page_needs_nothing_from_the_network(two, read):
    links = read(two).links
    assert [link for link in links if ":" in link or link.startswith("//")] == []


def test_links_that_do_not_leave_the_experiment_lead_to_files(two, read):
    local = [link for link in read(two).links if not link.startswith(("../", "#"))]
    assert [link for link in local if not (two / link).is_file()] == []


def test_raw_files_are_linked_by_their_path(publish, read):
    folder = publish(samples.all_failed(), files={"raw/client1/flow 1#.out": "0" * 64})
    (folder / "raw/client1").mkdir()
    (folder / "raw/client1/flow 1#.out").touch()
    page.write(folder)
    assert "raw/client1/flow%201%23.out" in read(folder).links


def test_a_raw_file_that_was_lost_has_no_link(publish, read):
    folder = publish(samples.all_failed(), files={"raw/client1/flow.1.1.out": "0" * 64})
    assert "raw/client1/flow.1.1.out" not in read(folder).links


@pytest.mark.parametrize(
    "evidence",
    [
        samples.request_reply(), samples.partial(), samples.all_failed(), samples.experiment(),
    ],
    ids=["rr", "partial", "failed", "no flow"],
)  # fmt: skip
def test_every_tag_is_closed_and_every_id_is_there_once(publish, read, evidence):
    found = read(publish(evidence))
    assert (found.unclosed, len(found.ids) - len(set(found.ids))) == ([], 0)


def test_rendering_again_gives_the_same_bytes(publish):
    folder = publish(samples.request_reply())
    first = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    page.write(folder)
    assert {
        path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    } == first


def test_failed_flows_are_reported_with_reason_and_last_lines(publish, read):
    text = read(publish(samples.partial())).text
    wanted = [
        "2 flows failed",
        "cubic client1→server1 #3 : netperf exited 1: could not establish the control connection",
        "listening on <server1> at port 12868? Connection refused",
    ]
    assert [each for each in wanted if each not in text] == []


def test_experiment_without_a_good_flow_has_no_graph_and_says_so(publish, read):
    folder = publish(samples.all_failed())
    text = read(folder).text
    assert (list((folder / "plots").iterdir()), "so there is nothing to draw" in text) == ([], True)


def test_whatever_a_host_or_script_says_is_escaped(publish, read):
    evidence = samples.partial()
    broken = replace(
        evidence.groups[1].instances[0], status=f"exited {EVIL}", last_lines=EVIL
    )  # fmt: skip
    groups = (evidence.groups[0], replace(evidence.groups[1], instances=(broken,)))
    folder = publish(
        replace(evidence, exp_name=EVIL, groups=groups),
        description=EVIL,
        warnings=(EVIL,),
        columns={"bw": EVIL},
        topology=EVIL,
    )
    source = read(folder).source
    assert (source.count("<script>"), source.count("alert(")) == (
        1,
        source.count("&lt;script&gt;alert("),
    )


def test_other_congestion_control_than_asked_is_marked(publish, read):
    found = read(publish(samples.with_other_control(samples.two_flows(), "reno")))
    assert found.source.count('<td class="marked">reno (requested: ') == 2


def test_warnings_and_reasons_are_reported(publish, read):
    folder = publish(samples.all_failed(), warnings=("a CPU was 97 % busy",), reasons=("h2: lost",))
    text = read(folder).text
    assert "Not as requested h2: lost a CPU was 97 % busy" in text


def test_a_reason_that_invalidates_is_reported_once(publish, read):
    changed = severity.invalidates("h2: changed")
    folder = publish(samples.all_failed(), warnings=(changed,), reasons=("h2: changed", "h2: lost"))
    assert "Not as requested h2: lost invalidates: h2: changed" in read(folder).text


def test_simulated_time_is_reported_with_its_speed(publish, read):
    folder = publish(
        samples.two_flows(), ground="sim", simulated_time=True, wall_s=2.0, speed_up=12.5
    )
    assert "25.0 s of simulated time took about 2 s of wall time" in read(folder).text


def test_many_warnings_are_folded(publish, read):
    folder = publish(samples.all_failed(), warnings=tuple(f"warning {n}" for n in range(20)))
    assert "<details><summary>12 more</summary>" in read(folder).source


def test_settings_are_reported_before_and_during(publish, read):
    evidence = samples.all_failed()
    hosts = dict(samples.manifest(evidence).hosts)
    applied = SettingRecord(Sysctl("net.ipv4.tcp_ecn", "1"), "2", "1", evidence.started_s - 1.5)
    again = SettingRecord(Command("tell"), "", "done", evidence.started_s + 2.5, why="agent lost")
    hosts["client1"] = replace(hosts["client1"], settings=(applied, again))
    text = read(publish(evidence, hosts=hosts)).text
    assert (
        "client1 sysctl net.ipv4.tcp_ecn=1 2 1 -1.500 1 client1 command tell — done 2.500,"
        " again: agent lost"
    ) in text


def test_what_keeps_clocks_at_utc_is_in_the_table_of_hosts_where_it_is_known(publish, read):
    evidence = samples.all_failed()
    hosts = dict(samples.manifest(evidence).hosts)
    assert "kept at UTC by" not in read(publish(evidence, hosts=hosts)).text
    hosts["client1"] = replace(hosts["client1"], time_sync=TimeSync(True, 0.0008, "chronyd"))
    text = read(publish(evidence, hosts=hosts)).text
    assert "controller's kept at UTC by client1" in text
    assert "+12 ± 80 µs chronyd, ± 0.8 ms" in text


def test_how_queues_were_sampled_is_in_the_table_of_hosts_where_it_is_known(publish, read):
    evidence = samples.all_failed()
    hosts = dict(samples.manifest(evidence).hosts)
    assert "queues and interfaces sampled" not in read(publish(evidence, hosts=hosts)).text
    sampling = SamplingRecord(
        asked_interval_ms=200.0,
        achieved_interval_ms=200.04,
        achieved_interval_p99_ms=201.5,
        achieved_interval_worst_ms=230.0,
    )
    hosts["client1"] = replace(hosts["client1"], queue_sampling=sampling)
    assert "200.0 (requested: 200) 201.5 230.0" in read(publish(evidence, hosts=hosts)).text


def test_a_missed_sampling_interval_is_marked_by_what_the_group_requested(publish, read):
    evidence = samples.all_failed()
    first, *others = samples.manifest(evidence).groups
    asked_ms = first.request.interval_s * 1000
    sampled = replace(
        first.instances[0],
        asked_interval_ms=None,
        achieved_interval_ms=asked_ms * 1.05,
        achieved_interval_p99_ms=asked_ms * 1.05,
        achieved_interval_worst_ms=asked_ms * 1.2,
    )
    instances = (sampled, *first.instances[1:])
    groups = (replace(first, instances=instances), *others)
    html = (publish(evidence, groups=groups) / "exp.html").read_text()
    assert f'<td class="number">{asked_ms * 1.05:.1f}</td>' in html
    assert f'<td class="number marked">{asked_ms * 1.2:.1f}</td>' in html


def test_goodput_from_acknowledgements_is_reported_as_such(publish, read):
    evidence = samples.two_flows()
    flow = evidence.groups[1].instances[0]
    silent = replace(flow, result=TransferResult(rate_bps=4e7, elapsed_s=8.0))
    groups = (evidence.groups[0], replace(evidence.groups[1], instances=(silent,)))
    text = read(publish(replace(evidence, groups=groups))).text
    assert "bbr client2→server1 #1: what was acknowledged to the sender." in text


def test_page_of_an_experiment_that_failed_tells_of_no_other_flows(publish, read):
    text = read(publish(samples.all_failed())).text
    assert ("They have no measurements." in text, "over the other flows" in text) == (True, False)


def test_page_of_an_experiment_still_partial_can_be_made(store, publish, read):
    folder = publish(samples.all_failed())
    partial = folder.rename(store.partial(1))
    page.write(partial)
    assert "Experiment 1" in read(partial).text


def test_missing_file_is_named(publish):
    folder = publish(samples.all_failed())
    (folder / "series.json").unlink()
    with pytest.raises(ResultsError, match=r"series\.json"):
        page.write(folder)


def test_importing_the_page_loads_no_matplotlib():
    program = (
        "import sys, netesto.report.page, netesto.report.index; print('matplotlib' in sys.modules)"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert told.stdout == "False\n"


def test_warming_up_loads_matplotlib():
    program = "import sys, netesto.report as r; r.warm_up(); print('matplotlib' in sys.modules)"
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert told.stdout == "True\n"


def test_a_request_to_end_takes_effect_between_two_imports_of_warming_up():
    program = """
import os, signal, sys
from netesto import report
from netesto.system import interrupts

class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == "numpy":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
with interrupts.handled():
    try:
        report.warm_up()
    except KeyboardInterrupt:
        interrupts.begin_shutdown()
        print("numpy" in sys.modules, "matplotlib.colors" in sys.modules)
"""
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert told.stdout == "True False\n"
