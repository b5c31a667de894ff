import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from netesto.errors import AgentError, ResultsError
from netesto.hostsettings import Command, Qdisc
from netesto.results import durable, fields, manifest, runs, tablerows
from netesto.results.manifest import SettingRecord
from netesto.results.runs import RunRecord, name_at
from netesto.results.store import FinishedCell, Store
from results import samples

# Holds the folder, says so, and lives until it is killed.
HOLDER = """
import sys
from pathlib import Path
from netesto.results.store import FinishedCell, Store
store = Store(Path(sys.argv[1]))
store.take(1)
store.begin(1)
print("held", flush=True)
sys.stdin.read()
"""

RUN = RunRecord(
    name="2026-11-20T121500.250Z",
    argv=("netesto", "run", "a.nts"),
    script_path="a.nts",
    script="END\n",
    seed=7,
    started="2026-11-20T12:15:00.250+00:00",
)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "results" / "two-flows"


@pytest.fixture
def store(folder):
    with Store(folder) as opened:
        yield opened


def test_folder_is_made(store, folder):
    assert folder.is_dir()


def test_second_run_is_refused_while_the_first_holds_the_folder(store, folder):
    with pytest.raises(ResultsError, match="another run is writing to this folder"):
        Store(folder)


def fail(folder, write):
    """Write into a results folder until an error ends it."""
    with Store(folder) as opened:
        write(opened)
        raise RuntimeError


def test_folder_into_which_an_error_let_nothing_come_is_removed(folder):
    with pytest.raises(RuntimeError):
        fail(folder, lambda opened: opened.take_fields(OWN))
    assert not folder.exists()


def test_folders_that_were_made_for_it_are_removed_too(tmp_path):
    with pytest.raises(RuntimeError):
        fail(tmp_path / "one" / "two", lambda opened: opened.take_fields(OWN))
    assert list(tmp_path.iterdir()) == []


def test_folder_that_holds_anything_stays_after_an_error(folder):
    with pytest.raises(RuntimeError):
        fail(folder, lambda opened: opened.take(1))
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "counter"]


def test_folder_that_was_there_stays_after_an_error(folder):
    folder.mkdir(parents=True)
    with pytest.raises(RuntimeError):
        fail(folder, lambda opened: opened.take_fields(OWN))
    assert folder.exists()


def test_folder_is_free_when_the_first_run_has_closed_it(folder):
    Store(folder).close()
    with Store(folder) as again:
        assert again.counter() == 0


def test_folder_is_free_and_the_number_taken_when_a_run_was_killed(folder):
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None
        told = child.stdout.readline()
        child.send_signal(signal.SIGKILL)
    with Store(folder) as store:
        found = (told, store.counter(), store.partial(1).is_dir(), store.experiments())
    assert found == ("held\n", 1, True, [])


def test_file_in_the_place_of_the_folder_is_reported_with_a_remedy(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(ResultsError) as caught:
        Store(tmp_path / "taken")
    assert "--out" in caught.value.remedy


def test_folder_that_cannot_be_written_is_reported_with_a_remedy():
    with pytest.raises(ResultsError) as caught:
        Store(durable.Path("/proc/netesto"))
    assert caught.value.message.startswith("/proc/netesto: cannot write")


@pytest.mark.parametrize(
    ("code", "hint"),
    [(errno.ENOSPC, "Make room"), (errno.EROFS, "read-only"), (errno.EACCES, "may write to")],
)
def test_what_the_system_says_becomes_words_with_a_remedy(tmp_path, code, hint):
    with pytest.raises(ResultsError) as caught, durable.writing(tmp_path):
        raise OSError(code, os.strerror(code))
    assert hint in caught.value.remedy


# ---- numbers ---------------------------------------------------------------------------------


def test_the_number_taken_last_is_remembered(store, folder):
    first = store.counter()
    store.take(2)
    assert (first, store.counter(), (folder / "counter").read_text()) == (0, 2, "2\n")


def test_numbers_of_folders_that_are_there_are_not_free(store):
    store.begin(3)
    with pytest.raises(ResultsError, match="experiment 3 exists already"):
        store.check_free(0, 4)


def test_numbers_that_another_run_has_taken_are_not_free(store):
    store.take(2)
    with pytest.raises(ResultsError, match="experiment 2 exists already"):
        store.check_free(0, 4)


def test_counter_that_is_no_number_is_reported(store, folder):
    (folder / "counter").write_text("twelve")
    with pytest.raises(ResultsError, match="'twelve' is not the number of an experiment"):
        store.counter()


def test_counter_that_no_agent_could_be_told_is_refused(store, folder):
    (folder / "counter").write_text("99999999999999999999\n")
    with pytest.raises(ResultsError, match="is not the number of an experiment"):
        store.counter()


# ---- experiments -----------------------------------------------------------------------------


def test_experiment_begins_as_partial_with_its_parts(store, folder):
    begun = store.begin(12)
    parts = sorted(path.name for path in begun.iterdir())
    assert (begun, parts) == (folder / "12.partial", ["0", "1", "plots", "raw"])


def test_complete_experiment_loses_its_suffix(store, folder):
    store.begin(12)
    assert (store.complete(12), store.experiments()) == (folder / "12", [12])


def test_experiment_that_exists_is_not_begun_again(store):
    store.begin(12)
    store.complete(12)
    with pytest.raises(ResultsError, match="experiment 12 exists already"):
        store.begin(12)


def test_partial_experiment_of_a_killed_run_is_not_begun_again(store):
    store.begin(12)
    with pytest.raises(ResultsError, match="not overwritten"):
        store.begin(12)


def test_complete_never_replaces_a_whole_experiment(store, folder):
    store.begin(12)
    (folder / "12").mkdir()
    with pytest.raises(ResultsError, match=r"12\.partial"):
        store.complete(12)


def test_experiments_are_in_the_order_of_numbers(store, folder):
    for name in ("10", "9", "runs", "11.partial", "007"):
        (folder / name).mkdir()
    assert store.experiments() == [9, 10]


def test_statistics_of_hosts_and_raw_data_have_their_places(store, folder):
    store.begin(12)
    places = [store.place(12, "h1", path) for path in ("0/h1.snmp", "sockets.bin.gz", "a/b.out")]
    base = folder / "12.partial"
    assert places == [base / "0/h1.snmp", base / "raw/h1/sockets.bin.gz", base / "raw/h1/a/b.out"]


def test_statistics_have_the_name_of_the_host_in_the_script(store, folder):
    """Its agent may have another: a host's own name, with dots or without."""
    store.begin(12)
    places = [store.place(12, "h1", path) for path in ("0/debian.snmp", "1/a.example.net.tc")]
    assert places == [folder / "12.partial/0/h1.snmp", folder / "12.partial/1/h1.tc"]


def test_what_an_agent_records_of_another_node_is_among_the_raw_data_of_that_node(store, folder):
    store.begin(12)
    paths = ("nodes/s1/link.s2.jsonl", "nodes/s1/losses.s2.csv")
    assert [store.place(12, "h1", path) for path in paths] == [
        folder / "12.partial/raw/s1/link.s2.jsonl",
        folder / "12.partial/raw/s1/losses.s2.csv",
    ]


@pytest.mark.parametrize("path", ["nodes/h2/sockets.bin.gz", "nodes/link.s2.jsonl", "nodes"])
def test_an_agent_adds_nothing_else_to_the_data_of_others(store, path):
    store.begin(12)
    with pytest.raises(AgentError, match="is not a file of another node"):
        store.place(12, "h1", path)


@pytest.mark.parametrize(
    "path", ["../x", "a/../../x", "/etc/passwd", "", ".", "0/h1", "0/h1.", "1/h1.d/x", "0", "a\0b"]
)
def test_path_that_leads_elsewhere_is_refused(store, path):
    store.begin(12)
    with pytest.raises(AgentError, match="is not a"):
        store.place(12, "h1", path)


@pytest.mark.parametrize("host", ["..", "a/b", "", "."])
def test_name_that_is_no_host_is_refused(store, host):
    store.begin(12)
    with pytest.raises(ResultsError, match="is not"):
        store.place(12, host, "sockets.bin.gz")


# ---- tables and runs -------------------------------------------------------------------------


OWN = fields.parse("exp:one\nrate:sum\n", source="f")


def test_columns_of_a_folder_are_those_of_its_first_run(store):
    store.take_fields(OWN.with_names(["bw"]))
    assert store.fields().names == ("exp", "rate", "bw")


def test_folder_without_a_table_takes_other_columns(store):
    store.take_fields(OWN.with_names(["bw"]))
    assert store.take_fields(OWN).names == ("exp", "rate")


def test_later_run_has_the_columns_of_the_folder_though_it_fills_fewer_of_them(store):
    store.take_fields(OWN.with_names(["bw", "size"]))
    store.append([{"exp": "1.0", "rate": "5", "bw": "1", "size": "2"}])
    assert store.take_fields(OWN.with_names(["size"])).names == ("exp", "rate", "bw", "size")


def test_rows_are_in_the_order_of_numbers_in_whichever_order_parts_end(store, folder):
    for exps in (["1", "4"], ["2"], ["3"]):
        store.append([{"exp": f"{exp}.{group}", "rate": "5"} for exp in exps for group in "01"])
    store.order()
    with (folder / "exp.csv").open() as table:
        assert [line.partition(",")[0] for line in table] == [
            "exp", "1.0", "1.1", "2.0", "2.1", "3.0", "3.1", "4.0", "4.1",
        ]  # fmt: skip


def test_rows_of_an_earlier_experiment_are_added_to_a_damaged_table(store, folder):
    store.append([{"exp": "5.0", "rate": "5"}])
    with (folder / "exp.csv").open("a") as table:
        table.write("6.0\n")
    store.append([{"exp": "3.0", "rate": "4"}])
    store.order()
    assert (folder / "exp.csv").read_text() == "exp,rate\n5.0,5\n6.0\n3.0,4\n"


def test_column_that_a_folder_lacks_stops_a_run_before_it_starts_and_says_how_to_add_it(store):
    store.take_fields(OWN)
    store.append([{"exp": "1.0", "rate": "5"}])
    with pytest.raises(ResultsError, match="was begun without a column size") as caught:
        store.take_fields(OWN.with_names(["size"]))
    assert caught.value.remedy.startswith(
        f"Add `size:one` to {store.folder}/fields.txt, and run `netesto report {store.folder}`"
    )


def test_other_operations_stop_a_run_before_it_starts(store):
    store.take_fields(OWN)
    store.append([{"exp": "1.0", "rate": "5"}])
    with pytest.raises(ResultsError, match="rate is max now, and was sum"):
        store.take_fields(fields.parse("exp:one\nrate:max\n", source="g"))


def test_columns_that_differ_from_a_table_without_fields_stop_a_run_before_it_starts(store):
    store.append([{"exp": "1.0", "rate": "5"}])
    with pytest.raises(ResultsError, match="new: bw"):
        store.take_fields(OWN.with_names(["bw"]))


def test_table_that_is_not_of_the_folders_columns_stops_a_run_before_it_starts(store):
    store.take_fields(OWN)
    store.append([{"exp": "1.0", "rate": "5"}])
    store.write_fields(OWN.with_names(["bw"]))
    with pytest.raises(ResultsError, match="new: bw"):
        store.take_fields(OWN)


def test_run_is_written_and_written_again_when_it_has_ended(store, folder):
    store.write_run(RUN)
    path = store.write_run(ended_run())
    told = json.loads(path.read_text())
    assert (path, told["exit_status"], told["script"]) == (
        folder / "runs" / "2026-11-20T121500.250Z.json",
        0,
        "END\n",
    )


def ended_run() -> RunRecord:
    return RunRecord(
        name=RUN.name,
        argv=RUN.argv,
        script_path=RUN.script_path,
        script=RUN.script,
        seed=7,
        started=RUN.started,
        exit_status=0,
    )


def test_settings_behind_the_last_experiment_are_in_the_record_of_the_run(store, folder):
    made = SettingRecord(Qdisc("fq", ("limit", "9"), device="eth0"), "", "fq", 1.5, "undo")
    record = replace(RUN, settings={"a": (made, SettingRecord(Command("tell"), "", "done"))})
    store.write_run(record)
    assert runs.read(folder, RUN.name) == record


def test_name_of_a_run_sorts_by_its_time():
    assert name_at(1795176900.25) == "2026-11-20T121500.250Z"


def test_the_folder_of_an_experiment_takes_no_results(tmp_path):
    (tmp_path / "manifest.json").touch()
    with pytest.raises(ResultsError, match="this is the folder of an experiment"):
        Store(tmp_path)


# ---- SWEEP cells -------------------------------------------------------------------------------


CELL = {"ca": "bbr", "rep": "1"}
OLD = '{"cell": {"ca": "bbr", "rep": "1"}, "experiments": [1], "script": "a"}\n'


def measure(store, *experiments: int) -> None:
    for exp in experiments:
        told = samples.manifest(samples.experiment(), exp=exp, files={})
        manifest.write(told, store.begin(exp) / manifest.NAME)
        store.complete(exp)


def test_a_finished_cell_has_the_experiments_that_it_was_last_finished_with(store):
    measure(store, 1, 2)
    store.note_cell("a", CELL, [1], part_hash="h1")
    store.note_cell("a", CELL, [2], part_hash="h1")
    assert store.finished_cell("h1") == FinishedCell((2,))


def test_a_cell_with_another_hash_is_not_finished(store):
    store.note_cell("a", CELL, [], part_hash="h1")
    assert store.finished_cell("h2") is None


def test_a_cell_that_was_changed_and_changed_back_is_finished(store):
    measure(store, 1, 2)
    store.note_cell("a", CELL, [1], part_hash="h1")
    store.note_cell("a", CELL, [2], part_hash="h2")
    assert store.finished_cell("h1") == FinishedCell((1,))


def test_a_cell_that_was_noted_without_a_hash_is_known_and_not_finished(store, folder):
    (folder / "cells.jsonl").write_text(OLD)
    known = [store.knows_other(script, CELL, {"h1"}) for script in ("a", "b")]
    assert (store.finished_cell(""), known) == (None, [True, False])


@pytest.mark.parametrize(("hashes", "is_known"), [({"h1"}, True), ({"h1", "h2"}, False)])
def test_a_cell_that_has_changed_is_known_by_another_hash(store, hashes, is_known):
    store.note_cell("a", CELL, [], part_hash="h1")
    store.note_cell("a", CELL, [], part_hash="h2")
    assert store.knows_other("a", CELL, hashes) == is_known


def test_a_cell_whose_experiment_is_gone_says_so(store):
    store.note_cell("a", CELL, [7], part_hash="h1")
    assert store.finished_cell("h1") == FinishedCell((7,), {7: "is missing"})


def test_a_cell_whose_experiment_was_replaced_by_that_of_another_run_says_so(store):
    folder = store.begin(12)
    manifest.write(samples.manifest(samples.all_failed()), folder / manifest.NAME)
    store.complete(12)
    store.note_cell("a", CELL, [12], part_hash="h1", run="2026-11-21T000000.000Z")
    fault = "is another one, of run 2026-11-20T121459.100Z"
    cell = FinishedCell((12,), {12: fault}, run="2026-11-21T000000.000Z")
    assert store.finished_cell("h1") == cell


@pytest.mark.parametrize(
    "line",
    [b'{"cell": "\xff"}', b"[]", b"null", b'{"cell": {}, "script": "a", "experiments": [[1]]}'],
)
def test_a_line_about_cells_that_is_none_of_ours_counts_for_nothing(store, folder, line):
    store.note_cell("a", CELL, [], part_hash="h1")
    path = folder / "cells.jsonl"
    path.write_bytes(line + b"\n" + path.read_bytes())
    found = [store.finished_cell("h1"), store.finished_cell("")]
    assert found == [FinishedCell(()), None]


def test_a_cell_of_which_half_a_line_was_written_is_not_finished(store, folder):
    (folder / "cells.jsonl").write_text('{"cell": {"ca": "bbr"}, "exp')
    assert store.finished_cell("h1") is None


def test_a_lost_counter_is_the_highest_number_that_an_experiment_bears(store):
    store.begin(12)
    store.complete(12)
    store.begin(14)
    assert store.counter() == 14


def test_rows_of_some_experiments_are_in_their_order(store):
    for exp in (3, 1, 2):
        store.append([{"exp": f"{exp}.0", "rate": "5"}])
    assert [row["exp"] for row in tablerows.of(store.folder, [3, 1])] == ["1.0", "3.0"]


def test_rows_of_a_damaged_table_are_those_that_are_complete(store):
    store.append([{"exp": "1.0", "rate": "5"}])
    with (store.folder / "exp.csv").open("a") as table:
        table.write("2.0")
    assert [row["exp"] for row in tablerows.of(store.folder, [1, 2])] == ["1.0"]


MOVED = "another program has moved, deleted or replaced it"


def replaced(folder):
    folder.rename(folder.with_name("old"))
    folder.mkdir()


def other_run(folder):
    (folder / ".lock").unlink()
    Store(folder).close()


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda folder: folder.rename(folder.with_name("other")), "other"),
        (replaced, "old"),
        (shutil.rmtree, ""),
        (other_run, ""),
    ],
    ids=["moved", "replaced", "deleted", "locked by another"],
)
@pytest.mark.parametrize(
    "write",
    [
        lambda store: store.begin(1),
        lambda store: store.take(1),
        lambda store: store.append([]),
        lambda store: store.write_run(RUN),
        lambda store: store.check_untouched(),
    ],
    ids=["begin", "take", "append", "record", "end"],
)
def test_a_folder_that_is_no_longer_the_one_of_the_run_is_an_error(
    store, folder, change, where, write
):
    change(folder)
    with pytest.raises(ResultsError) as caught:
        write(store)
    to = f", to {folder.with_name(where)}" if where else ""
    assert (caught.value.message, folder.exists()) == (
        f"{folder}: {MOVED}{to}",
        change in (replaced, other_run),
    )


def test_an_experiment_whose_folder_is_replaced_while_it_is_written_is_an_error(store, folder):
    store.begin(1).rename(folder / "old")
    (folder / "1.partial").mkdir()
    with pytest.raises(ResultsError) as caught:
        store.complete(1)
    assert caught.value.message == f"{folder / '1.partial'}: {MOVED}"


def test_what_another_program_changes_in_a_results_folder_is_an_error_at_the_end(store, folder):
    for exp in (1, 2):
        store.begin(exp)
        store.complete(exp)
        store.append([{"exp": f"{exp}.0"}])
    store.check_untouched()
    (folder / "exp.csv").write_text("exp\n7.0\n")
    shutil.rmtree(folder / "1")
    with pytest.raises(ResultsError) as caught:
        store.check_untouched()
    assert caught.value.message == (
        f"{folder / 'exp.csv'}: another program has written or deleted it; {folder / '1'}: {MOVED}"
    )


def test_rows_that_another_program_adds_between_two_experiments_are_noticed(store, folder):
    store.append([{"exp": "1.0"}])
    with (folder / "exp.csv").open("a") as file:
        file.write("7.0\n")
    store.append([{"exp": "2.0"}])
    with pytest.raises(ResultsError, match="another program has written or deleted it"):
        store.check_untouched()
