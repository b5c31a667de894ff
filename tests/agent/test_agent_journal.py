from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto.agent.journal import Change, Ground, Journal, Remains, Run, Write, replay
from netesto.errors import AgentError

HERE = Ground("boot-1", 40)

PLACE = '"boot": "boot-1", "namespace": 40'
NOTHING = '"thing": "", "interface": 0'
ECN = f'{{"change": 1, "what": "ecn", {PLACE}, "undo": [["write", "/p", "2"]], {NOTHING}}}'
QDISC = f'{{"change": 2, "what": "q", {PLACE}, "undo": [["run", "tc", "x"]], {NOTHING}}}'
ECN_CHANGE = Change(1, "ecn", (Write("/p", "2"),))
QDISC_CHANGE = Change(2, "q", (Run(("tc", "x")),))


def test_last_change_is_undone_first():
    assert replay([ECN, QDISC], HERE).remains() == Remains((QDISC_CHANGE, ECN_CHANGE), (), 2)


def test_undone_change_remains_no_more():
    assert replay([ECN, QDISC, '{"undone": 1}'], HERE).remains() == Remains((QDISC_CHANGE,), (), 2)


def test_change_of_another_boot_is_gone_with_it():
    assert replay([ECN], replace(HERE, boot="boot-2")).remains() == Remains((), (), 1)


def test_change_in_another_namespace_is_left_alone():
    assert replay([ECN], replace(HERE, namespace=41)).remains() == Remains((), (), 1)


def test_line_cut_short_by_a_kill_was_no_change():
    assert replay([ECN, QDISC[:-10]], HERE).remains() == Remains((ECN_CHANGE,), (), 1)


def test_life_remains_until_it_is_ended():
    lines = ['{"life": "a", "boot": "boot-1"}', '{"life": "b", "boot": "boot-1"}', '{"ended": "a"}']
    assert replay(lines, HERE).remains() == Remains((), ("b",), 0)


def test_life_of_another_boot_is_over():
    assert replay(['{"life": "a", "boot": "boot-0"}'], HERE).remains() == Remains()


@given(st.lists(st.text()))
def test_any_other_lines_are_nothing(lines: list[str]):
    assert replay(lines, HERE).remains() == Remains()


def test_change_is_on_disk_when_begin_returns(tmp_path: Path):
    journal = Journal(tmp_path / "journal")
    journal.begin("ecn", [Write("/p", "2"), Run(("tc", "x"))])
    remains = replay((tmp_path / "journal").read_text().splitlines(), Ground.here()).remains()
    assert remains == Remains((Change(1, "ecn", (Write("/p", "2"), Run(("tc", "x")))),), (), 1)


def test_journal_goes_on_where_a_killed_agent_stopped(tmp_path: Path):
    Journal(tmp_path / "journal").begin("first", [])
    assert Journal(tmp_path / "journal").begin("second", []) == 2


def test_journal_is_readable_after_a_line_cut_short(tmp_path: Path):
    path = tmp_path / "journal"
    path.write_text('{"change": 7, "wh')
    journal = Journal(path)
    journal.begin("ecn", [])
    assert journal.remains() == Remains((Change(1, "ecn", ()),), (), 1)


def test_journal_with_nothing_to_undo_is_emptied(tmp_path: Path):
    journal = Journal(tmp_path / "journal")
    journal.undone(journal.begin("ecn", []))
    journal.close()
    assert (tmp_path / "journal").read_text() == ""


def test_journal_with_something_to_undo_is_kept(tmp_path: Path):
    journal = Journal(tmp_path / "journal")
    journal.begin("ecn", [])
    journal.close()
    assert Journal(tmp_path / "journal").remains() == Remains((Change(1, "ecn", ()),), (), 1)


@pytest.mark.parametrize(
    ("old", "new"), [('"write"', '"later"'), (f", {NOTHING}", ""), ('"thing": ""', '"thing": 1')]
)
def test_change_that_another_version_noted_stays(old: str, new: str):
    line = ECN.replace(old, new)
    assert replay([line, QDISC], HERE).remains() == Remains(
        (QDISC_CHANGE, Change(1, "ecn", None)), (), 2
    )


def test_change_is_kept_with_what_the_kernel_showed_after_it():
    line = ECN.replace('"thing": ""', '"thing": "/p"')
    made = Change(1, "ecn", (Write("/p", "2"),), "/p", "1")
    assert replay([line, '{"made": 1, "shows": "1"}'], HERE).remains() == Remains((made,), (), 1)


def test_what_the_kernel_shows_of_a_change_is_unknown_once_it_is_being_undone():
    line = ECN.replace('"thing": ""', '"thing": "/p"')
    half = Change(1, "ecn", (Write("/p", "2"),), "/p", None)
    lines = [line, '{"made": 1, "shows": "1"}', '{"undoing": 1}']
    assert replay(lines, HERE).remains() == Remains((half,), (), 1)


KEPT = f'{{"kept": "/p", {PLACE}}}'
ECN_OF_THING = f'{{"change": 1, "what": "ecn", {PLACE}, "undo": [], "thing": "/p", "interface": 0}}'


def test_kept_thing_has_no_change_left_of_before():
    lines = [ECN_OF_THING, ECN_OF_THING.replace("1", "3", 1), QDISC, KEPT]
    assert replay(lines, HERE).remains() == Remains((QDISC_CHANGE,), (), 3)


def test_change_after_keeping_remains():
    assert replay([KEPT, ECN_OF_THING], HERE).remains() == Remains(
        (Change(1, "ecn", (), "/p"),), (), 1
    )


def test_what_is_kept_in_another_namespace_is_not_kept_here():
    elsewhere = replace(HERE, namespace=41)
    lines = [ECN_OF_THING.replace("40", "41"), KEPT]
    assert replay(lines, elsewhere).remains() == Remains((Change(1, "ecn", (), "/p"),), (), 1)


def test_what_is_left_remains_until_it_is_told():
    lines = ['{"left": "a"}', '{"left": "b"}', '{"told": 1}', '{"left": "c"}']
    assert replay(lines, HERE).remains() == Remains(left=("b", "c"))


@pytest.mark.parametrize(
    "lose", [Path.unlink, lambda path: path.write_text(""), lambda path: path.rename(f"{path}.x")]
)
def test_a_journal_that_another_program_deletes_or_empties_still_tells_what_to_undo(
    tmp_path: Path, lose: Callable[[Path], object]
):
    journal = Journal(path := tmp_path / "journal")
    journal.begin("ecn", [Write("/p", "2")])
    lose(path)
    assert journal.remains() == Remains((Change(1, "ecn", (Write("/p", "2"),)),), (), 1)


def test_no_change_begins_that_the_next_agent_would_not_find(tmp_path: Path):
    journal = Journal(path := tmp_path / "journal")
    path.unlink()
    with pytest.raises(AgentError) as caught:
        journal.begin("ecn", [])
    assert (caught.value.message, journal.remains()) == (
        f"{path}: another program has deleted or replaced it",
        Remains(),
    )
