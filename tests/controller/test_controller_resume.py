"""What cells that are passed over were measured with."""

import hashlib
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from scripted_agent import do_client

from netesto.controller import resume
from netesto.language import ports
from netesto.results import fields, manifest
from netesto.results.store import Store
from results import samples

CELL = {"ca": "bbr", "rep": "1"}
RAW = "raw/h1/ping.1.out"
FIELDS = fields.parse("exp:one\nrate:sum\n", source="fields.txt")


@pytest.fixture
def store(tmp_path: Path):
    with Store(tmp_path / "out") as opened:
        opened.take_fields(FIELDS)
        folder = opened.begin(1)
        (folder / RAW).parent.mkdir()
        (folder / RAW).write_text("[]")
        digest = hashlib.sha256(b"[]").hexdigest()
        told = samples.manifest(samples.experiment(), exp=1, files={RAW: digest})
        manifest.write(told, folder / manifest.NAME)
        opened.complete(1)
        opened.append([{"exp": "1.0", "rate": "94.1"}, {"exp": "1.1", "rate": "94.1"}])
        opened.note_cell("a", CELL, [1])
        yield opened


def asked_otherwise(store: Store, *flows: ports.DoClient) -> str:
    """Of a cell that was measured with one flow of cubic, for 24 s."""
    evidence = samples.experiment(samples.lively_group(samples.request()))
    folder = store.begin(2)
    manifest.write(samples.manifest(evidence, exp=2, files={}), folder / manifest.NAME)
    store.complete(2)
    store.note_cell("a", CELL, [2])
    return resume.otherwise(store, "a", CELL, flows)


def test_a_cell_whose_flows_are_asked_for_as_before_was_not_measured_otherwise(store):
    assert asked_otherwise(store, do_client(duration_s=24.0, delay_s=3.0)) == ""


def test_a_cell_whose_flows_are_asked_for_otherwise_now_was_measured_otherwise(store):
    flows = [
        do_client(duration_s=60.0),
        do_client(group=2, congestion_control="bbr", bitrate_bps=1e6),
    ]
    assert asked_otherwise(store, *flows) == (
        "ca=cubic and not bbr/cubic, bitrate=default and not 1000000.0/default,"
        " groups=1 and not 2, dur=24 and not 60"
    )


def measured(
    store: Store, script: str, text: str, warn: Callable[[str], None] = print
) -> list[Mapping[str, str]] | None:
    claimable = fields.parse(text, source="fields.txt")
    found = resume.earlier(store, script, claimable, warn=warn)(CELL)
    return None if found is None else [dict(columns) for columns in found]


def test_a_finished_cell_has_the_first_row_of_its_experiment(store):
    assert measured(store, "a", "exp:one\nrate:sum\n") == [{"exp": "1.0", "rate": "94.1"}]


def test_a_cell_that_was_not_finished_has_nothing(store):
    assert measured(store, "b", "exp:one\n") is None


def test_a_column_that_the_table_lacks_comes_from_the_experiments_own_files(store):
    assert measured(store, "a", "exp:one\nflowsFailed:sum\n") == [{"exp": "1.0", "flowsFailed": ""}]


def test_a_cell_whose_raw_data_are_damaged_is_run_again_and_told(store):
    warnings: list[str] = []
    path = store.whole(1) / RAW
    path.write_text("[")
    assert measured(store, "a", "exp:one\n", warnings.append) is None
    fault = f"{path}: is damaged (its SHA-256 differs)"
    assert warnings == [f"ca=bbr rep=1 is run again: experiment 1 is damaged ({fault})"]


def test_a_cell_whose_manifest_is_gone_is_run_again_and_told(store):
    warnings: list[str] = []
    (store.whole(1) / manifest.NAME).unlink()
    assert measured(store, "a", "exp:one\n", warnings.append) is None
    assert warnings[0].startswith("ca=bbr rep=1 is run again: experiment 1 is damaged (")


def test_a_cell_whose_experiment_is_gone_is_run_again_and_told(store):
    warnings: list[str] = []
    shutil.rmtree(store.whole(1))
    assert measured(store, "a", "exp:one\n", warnings.append) is None
    assert warnings == ["ca=bbr rep=1 is run again: experiment 1 is missing"]
