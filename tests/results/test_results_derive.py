import json
from pathlib import Path

import pytest

from netesto.errors import ResultsError
from netesto.results import derive, fields, keyvalue, manifest, severity
from results import samples

FIELDS = fields.load(Path(__file__).parents[2] / "fields.txt")


def derived(folder, evidence, **values):
    return derive.derive(folder, evidence, samples.manifest(evidence, **values), FIELDS)


def content(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_aggregate_row_comes_first_and_then_the_groups(tmp_path):
    rows = derived(tmp_path, samples.two_flows())
    assert [row["exp"] for row in rows] == ["12.0", "12.1", "12.2"]


def test_rows_have_the_columns_of_fields_in_order(tmp_path):
    rows = derived(tmp_path, samples.partial())
    assert {tuple(row) for row in rows} == {FIELDS.names}


def test_files_are_written_for_the_whole_and_for_each_group(tmp_path):
    derived(tmp_path, samples.two_flows())
    assert list(content(tmp_path)) == [
        "all.exp.out",
        "client1-server1-1.exp.out",
        "client2-server1-2.exp.out",
        "series.json",
    ]


def test_whole_is_written_as_in_its_row(tmp_path):
    rows = derived(tmp_path, samples.two_flows())
    whole = keyvalue.read(tmp_path / "all.exp.out")
    assert [*whole][-2:] == ["groupRows", "formulas"]
    assert {key: whole[key] for key in [*whole][:-2]} == rows[0]


def test_deriving_again_gives_the_same_bytes(tmp_path):
    first = (derived(tmp_path, samples.partial()), content(tmp_path))
    assert (derived(tmp_path, samples.partial()), content(tmp_path)) == first


def test_failed_experiment_has_rows_without_a_single_measurement(tmp_path):
    row = derived(tmp_path, samples.all_failed())[0]
    told = {key: row[key] for key in ("status", "flowsFailed", "rate", "rtt", "localCpu", "tso")}
    assert told == {
        "status": "failed", "flowsFailed": "2.0", "rate": "", "rtt": "", "localCpu": "", "tso": "",
    }  # fmt: skip


def test_experiment_without_flows_has_its_aggregate_row(tmp_path):
    rows = derived(tmp_path, samples.experiment(), columns={"bw": "10mbit"})
    assert [(row["exp"], row["expName"], row["bw"]) for row in rows] == [
        ("12.0", "1s2c1fs", "10mbit")
    ]


def test_columns_of_the_script_are_on_every_row_as_written(tmp_path):
    rows = derived(tmp_path, samples.two_flows(), columns={"netem": "20", "rep": "3"})
    assert {(row["netem"], row["rep"]) for row in rows} == {("20", "3")}


def test_value_with_a_line_end_stays_on_one_line(tmp_path):
    keyvalue.write(tmp_path / "x.exp.out", {"status": "exited 1:\nno  route", "desc": ""})
    assert keyvalue.read(tmp_path / "x.exp.out") == {"status": "exited 1: no route", "desc": ""}


def test_line_that_is_no_key_and_value_is_named(tmp_path):
    (tmp_path / "x.exp.out").write_text("rate:1\nbroken\n")
    with pytest.raises(ResultsError, match=r"x\.exp\.out:2: 'broken' is not key:value"):
        keyvalue.read(tmp_path / "x.exp.out")


def test_manifest_that_is_written_is_read_back(tmp_path):
    told = samples.manifest(samples.partial(), columns={"bw": "10mbit"})
    manifest.write(told, tmp_path / "manifest.json")
    assert manifest.read(tmp_path / "manifest.json") == told


def written(tmp_path):
    path = tmp_path / manifest.NAME
    manifest.write(samples.manifest(samples.two_flows()), path)
    return path, json.loads(path.read_text())


def test_a_manifest_with_another_number_is_refused(tmp_path):
    path, value = written(tmp_path)
    value["groups"][0]["request"]["group"] += 1
    path.write_text(json.dumps(value))
    with pytest.raises(ResultsError, match="was edited: its checksum differs"):
        manifest.read(path)


def test_a_manifest_that_is_written_in_another_form_is_the_same(tmp_path):
    path, value = written(tmp_path)
    told = manifest.read(path)
    path.write_text(json.dumps(dict(reversed(value.items()))))
    assert manifest.read(path) == told


def test_a_manifest_without_its_checksum_is_accepted_as_it_is(tmp_path):
    path, value = written(tmp_path)
    del value["checksum"]
    path.write_text(json.dumps(value))
    assert manifest.read(path).exp == 12


@pytest.mark.parametrize("form", [None, 1, manifest.FORMAT + 1, "x"])
def test_a_manifest_of_another_format_is_refused(tmp_path, form):
    path, value = written(tmp_path)
    del value["checksum"], value["format"]
    path.write_text(json.dumps(value | ({} if form is None else {"format": form})))
    with pytest.raises(ResultsError) as caught:
        manifest.read(path)
    assert caught.value.message == (
        f"{path}: another version of netesto wrote it, not in format {manifest.FORMAT}: read it"
        " with that version, or measure again"
    )


WARNED = (
    "this machine: a CPU was 95 % busy",
    severity.note("group 1: noticed"),
    "group 1, flow 2: the first doubt",
    severity.invalidates("group 2: both ends are a"),
)


def test_rows_have_the_number_of_their_warnings_and_the_first_of_the_worst(tmp_path):
    evidence = samples.two_flows()
    known = samples.manifest(evidence, warnings=WARNED)
    found = derive.derive(tmp_path, evidence, known, FIELDS, with_series=False)
    assert [(row["warnings"], row["severity"], row["warning"]) for row in found] == [
        ("4", "invalidates", "group 2: both ends are a"),
        ("3", "affects", "this machine: a CPU was 95 % busy"),
        ("2", "invalidates", "group 2: both ends are a"),
    ]


def test_rows_without_a_warning_have_none(tmp_path):
    evidence = samples.two_flows()
    known = samples.manifest(evidence, warnings=())
    found = derive.derive(tmp_path, evidence, known, FIELDS, with_series=False)
    assert {(row["warnings"], row["severity"], row["warning"]) for row in found} == {("", "", "")}


def test_a_manifest_keeps_the_severity_of_its_warnings(tmp_path):
    known = samples.manifest(samples.two_flows(), warnings=WARNED)
    manifest.write(known, tmp_path / "manifest.json")
    found = manifest.read(tmp_path / "manifest.json")
    assert [(text, severity.severity(text)) for text in found.warnings] == [
        (text, severity.severity(text)) for text in WARNED
    ]
