"""The table of completions, compared with hand-computed figures."""

import math
from dataclasses import replace

import numpy as np
import pytest

from netesto.errors import OutputError
from netesto.results import cases, completions, integrity, manifest
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
def test_what_is_no_file_of_times_is_told(content, tmp_path):
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
