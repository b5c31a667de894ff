"""The table of completions, compared with hand-computed figures."""

import math
from dataclasses import replace
from ipaddress import ip_address

import numpy as np
import pytest

from netesto.errors import OutputError, UsageError
from netesto.results import affected, cases, completions, integrity, lostframes, manifest
from results import samples

TIMES = np.arange(1.0, 102.0)  # 1 … 101 µs


def test_the_table_has_the_rows_of_a_case():
    assert completions.table({"x": TIMES}) == [
        ("min", "1.000"),
        ("mean", "51.000"),
        ("50%", "51.000"),
        ("90%", "91.000"),
        ("95%", "96.000"),
        ("99%", "100.000"),
        ("99.9%", "100.900"),
        ("99.99%", "100.990"),
        ("99.999%", "100.999"),
        ("max", "101.000"),
        ("std", f"{math.sqrt(101 * 102 / 12):.3f}"),
        ("count", "101"),
    ]


def test_quantiles_of_few_slower_values_are_marked():
    rows = {name: cells for name, *cells in completions.table({"x": TIMES}, marks=True)}
    assert [rows[name] for name in ("90%", "95%", "max")] == [["91.000"], ["~96.000"], ["101.000"]]


def test_a_case_without_times_has_no_figures():
    rows = completions.table({"none": np.empty(0)})
    assert {cell for name, cell in rows if name != "count"} == {""}


def test_the_table_as_csv_has_a_column_for_each_case():
    text = completions.to_csv({"a": np.array([1.0]), "loss=0.1, b": np.array([2.0])})
    assert text.splitlines()[:2] == ['row,a,"loss=0.1, b"', "min,1.000,2.000"]


def test_what_was_not_completed_is_in_no_figure(tmp_path):
    path = tmp_path / "completions.1.1.csv"
    path.write_text(
        "number,start_s,us,bytes,retransmits,status\n1,1.0,5.5,10,0,ok\n2,1.1,,10,3,unfinished\n"
    )
    times, failed = completions.read_all(path)
    assert (times.tolist(), failed) == ([5.5], 1)


def test_a_last_row_has_the_number_of_what_was_not_completed_where_something_was_not():
    *_, last = completions.table({"a": TIMES, "b": TIMES}, {"b": 3})
    assert last == ("failed", "0", "3")


def test_times_of_transactions_are_read(tmp_path):
    path = tmp_path / "times.1.1"
    path.write_bytes(b"netesto times 1 2\n" + bytes([0, 0xE8, 0x07, 5, 0x80, 0x01]))
    assert completions.read(path).tolist() == [1.0, 0.128]


@pytest.mark.parametrize("content", [b"netesto times 2 1\n\0\0", b"number,us\n1,2\n", b"\xff"])
def test_what_is_no_file_of_times_is_reported(content, tmp_path):
    path = tmp_path / "times.1.1"
    path.write_bytes(content)
    with pytest.raises(OutputError, match="no times"):
        completions.read(path)


CLOCK = "raw/client1/clock.json"


@pytest.fixture
def stepped(tmp_path):
    """An experiment with the times of two flows, during which somebody set the client's clock."""
    folder = tmp_path / "12"
    raw = folder / "raw" / "client1"
    raw.mkdir(parents=True)
    files = {}
    for instance, end_us in ((1, 5.5), (2, 3.6e9)):
        path = raw / f"completions.1.{instance}.csv"
        path.write_text(f"number,start_s,us,bytes,retransmits,status\n1,1.0,{end_us},10,0,ok\n")
        files[f"raw/client1/{path.name}"] = integrity.sha256_of(path)
    files[CLOCK] = samples.set_clock(tmp_path / "12" / CLOCK)
    asked = samples.request(test="TCP_FLOWS", tool="native", size_bytes=10, instances=2)
    evidence = samples.experiment(
        samples.group(samples.instance(1), samples.instance(2), asked=asked)
    )
    known = replace(samples.manifest(evidence, files=files), description="x")
    manifest.write(known, folder / manifest.NAME)
    (tmp_path / "exp.csv").write_text("exp,status\n12.1,ok\n12.0,ok\n")
    return tmp_path


def test_times_are_left_out_with_the_reason_if_the_clock_was_set_meanwhile(stepped):
    found, failed, faults = cases.times(stepped)
    raw = stepped / "12/raw/client1"
    assert (found, failed, faults) == (
        {},
        {},
        [
            f"{raw}/completions.1.{flow}.csv: not used: the client's system time was set meanwhile"
            for flow in (1, 2)
        ],
    )


def test_times_are_left_out_if_the_record_of_the_clock_is_damaged(stepped):
    (stepped / "12" / CLOCK).write_text("{}")
    raw = stepped / "12/raw/client1"
    assert cases.times(stepped)[2] == [
        f"{raw}/completions.1.{flow}.csv: not used: clock.json is damaged" for flow in (1, 2)
    ]


def test_times_of_a_flow_that_failed_are_in_no_case(stepped):
    path = stepped / "12" / manifest.NAME
    known = manifest.read(path)
    (group,) = known.groups
    flows = (replace(group.instances[0], status="killed"), group.instances[1])
    files = {"raw/client1/completions.1.1.csv": known.files["raw/client1/completions.1.1.csv"]}
    manifest.write(replace(known, groups=(replace(group, instances=flows),), files=files), path)
    assert cases.times(stepped) == ({}, {}, ["x: flow 12.1.1 failed: killed"])


def test_times_of_transactions_without_a_rate_are_a_case_of_their_own(stepped):
    path = stepped / "12" / manifest.NAME
    known = manifest.read(path)
    (group,) = known.groups
    asked = replace(group.request, group=2, test="TCP_RR", instances=1)
    beside = replace(group, request=asked, instances=group.instances[:1])
    times = stepped / "12/raw/client1/times.2.1"
    times.write_bytes(b"netesto times 1 1\n" + bytes([0, 0xE8, 0x07]))
    files = {"raw/client1/completions.1.1.csv": known.files["raw/client1/completions.1.1.csv"]}
    files["raw/client1/times.2.1"] = integrity.sha256_of(times)
    manifest.write(replace(known, groups=(group, beside), files=files), path)
    found = cases.times(stepped)[0]
    assert {case: own.tolist() for case, own in found.items()} == {
        "x test=TCP_FLOWS": [5.5],
        "x test=TCP_RR": [1.0],
    }


# Three flows of 3000 bytes, in segments of 1000, and one that was not completed.
FLOWS = """\
number,start_s,us,bytes,retransmits,status,port
1,100.000000000,50.000,3000,0,ok,4001
2,100.000100000,90.000,3000,0,ok,4002
3,100.000200000,70.000,3000,2,ok,4001
4,100.000300000,,3000,1,unfinished,4003
"""
LOSSES = """\
time_s,number,copy,bytes,protocol,source,sport,destination,dport,tcp_seq,payload
100.000050500,7,0,66,TCP,10.0.0.1,4001,10.0.0.2,12900,0,0
100.000150000,9,0,1066,TCP,10.0.0.1,4002,10.0.0.2,12900,1,1000
100.000150001,10,0,1066,TCP,10.0.0.9,4001,10.0.0.2,12900,1,1000
100.000250000,11,0,60,ARP,,,,,,
"""


@pytest.fixture
def protected(tmp_path):
    """An experiment with flows, and what the link that they passed lost."""
    folder = tmp_path / "12"
    files = {}
    for path, content in (
        ("raw/client1/completions.1.1.csv", FLOWS),
        ("raw/s1/losses.s2.csv", LOSSES),
    ):
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(content)
        files[path] = integrity.sha256_of(folder / path)
    asked = samples.request(
        test="TCP_FLOWS", tool="native", size_bytes=3000, client_address=ip_address("10.0.0.1")
    )
    evidence = samples.experiment(samples.group(samples.instance(1), asked=asked))
    known = replace(samples.manifest(evidence, files=files), description="off")
    manifest.write(known, folder / manifest.NAME)
    (tmp_path / "exp.csv").write_text("exp,status\n12.1,ok\n12.0,ok\n")
    return tmp_path


def test_a_flow_is_affected_if_the_link_lost_data_of_its_port_while_it_ran(protected):
    found, failed, faults = cases.by_affected(protected)
    parts = {part: found["off"].part(part).tolist() for part in affected.PARTS}
    assert (parts, failed, faults) == (
        {"unaffected": [50.0, 70.0], "affected": [90.0], "all": [50.0, 90.0, 70.0]},
        {"off": 1},
        [],
    )
    assert affected.counts(found) == [("affected", "1"), ("tail", "1"), ("retransmitted", "1")]


@pytest.mark.parametrize(
    ("tcp_seq", "payload", "is_tail"),
    [
        (1, 1448, False),  # the first of 17 segments
        (1 + 13 * 1448, 1448, False),
        (1 + 14 * 1448, 1448, True),
        (1 + 16 * 1448, 1219, True),  # the last
        (1 + 17 * 1448, 1448, False),  # of a connection whose begin nobody saw
        (0, 1448, False),
    ],
)
def test_the_tail_of_a_flow_are_its_last_three_segments(tcp_seq, payload, is_tail):
    loss = lostframes.LostFrame(time_s=1.0, payload=payload, tcp_seq=tcp_seq)
    assert loss.is_tail_of(24_387) == is_tail


def test_without_a_file_of_losses_a_flow_with_retransmissions_is_affected(protected):
    path = protected / "12" / manifest.NAME
    known = manifest.read(path)
    files = {name: each for name, each in known.files.items() if "losses" not in name}
    manifest.write(replace(known, files=files), path)
    found = cases.by_affected(protected)[0]["off"]
    assert (found.part("affected").tolist(), found.tail) == ([70.0], 0)


def test_losses_that_were_altered_make_no_flow_unaffected(protected):
    place = protected / "12" / "raw" / "s1" / "losses.s2.csv"
    place.write_text(LOSSES + "\n")
    assert cases.by_affected(protected) == (
        {},
        {},
        [f"{place}: is damaged (its SHA-256 differs)"],
    )


@pytest.mark.parametrize(
    "content",
    [
        "a,b\n1,2\n",
        LOSSES + "nan,9,0,1066,TCP,10.0.0.1,4002,10.0.0.2,12900,1,1000\n",
        LOSSES + "1.0,9,0,1066,TCP,10.0.0.1,x,10.0.0.2,12900,1,1000\n",
    ],
)
def test_what_is_no_file_of_losses_is_reported(content, tmp_path):
    path = tmp_path / "losses.s2.csv"
    path.write_text(content)
    with pytest.raises(OutputError, match="no lost frames"):
        lostframes.read_losses(path)


def test_parts_are_one_table_in_csv():
    text = completions.parts_to_csv(
        {"affected": {"off": np.array([2.0])}, "all": {"off": np.array([1.0, 2.0])}}
    )
    lines = text.splitlines()
    assert (lines[:2], lines[13:15], len(lines)) == (
        ["part,row,off", "affected,min,2.000"],
        ["all,min,1.000", "all,mean,1.500"],
        25,
    )


def test_cases_have_other_names_and_the_order_of_these():
    found = {"off": 1, "nonblocking": 2, "ordered": 3}
    names = {"lossless": "Lossless", "ordered": "LinkGuardian", "off": "No_Protection"}
    assert list(cases.renamed(found, names).items()) == [
        ("LinkGuardian", 3),
        ("No_Protection", 1),
        ("nonblocking", 2),
    ]


def test_two_cases_do_not_get_one_name():
    with pytest.raises(UsageError, match="two cases have the same name"):
        cases.renamed({"off": 1, "ordered": 2}, {"off": "ordered"})
