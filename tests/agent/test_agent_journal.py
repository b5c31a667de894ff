from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto.agent.journal import Change, ChangeScope, Journal, Remains, replay
from netesto.agent.steps import Run, Write
from netesto.agent.things import KernelFile, Root
from netesto.errors import AgentError
from netesto.hostsettings import Qdisc, Sysctl

HERE = ChangeScope("boot-1", 40)

PLACE = '"boot": "boot-1", "namespace": 40'
FILE = '{"type": "KernelFile", "path": "/p"}'
ECN = (
    '{"change": 1, "setting": {"type": "Sysctl", "name": "ecn", "value": "1"}, "thing": '
    f'{FILE}, "undo": [{{"type": "Write", "path": "/p", "text": "2"}}], "interface": 0, {PLACE}}}'
)
QDISC = (
    '{"change": 2, "setting": {"type": "Qdisc", "kind": "fq"}, "thing": {"type": "Root", "device":'
    f' "v"}}, "undo": [{{"type": "Run", "argv": ["tc", "x"]}}], "interface": 7, {PLACE}}}'
)
SETTING, THING = Sysctl("ecn", "1"), KernelFile("/p")
ECN_CHANGE = Change(1, SETTING, THING, (Write("/p", "2"),))
QDISC_CHANGE = Change(2, Qdisc("fq"), Root("v"), (Run(("tc", "x")),), interface=7)


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


# A line that a kill cut short is an object without its end.
@given(st.lists(st.text().map(lambda text: f'{{"change": "{text}')))
def test_lines_that_a_kill_cut_short_are_nothing(lines: list[str]):
    assert replay(lines, HERE).remains() == Remains()


def test_change_is_on_disk_when_begin_returns(tmp_path: Path):
    journal = Journal(tmp_path / "journal")
    journal.begin(SETTING, THING, [Write("/p", "2"), Run(("tc", "x"))])
    remains = replay((tmp_path / "journal").read_text().splitlines(), ChangeScope.here()).remains()
    assert remains == Remains(
        (Change(1, SETTING, THING, (Write("/p", "2"), Run(("tc", "x")))),), (), 1
    )


def test_journal_goes_on_where_a_killed_agent_stopped(tmp_path: Path):
    Journal(tmp_path / "journal").begin(SETTING, THING, [])
    assert Journal(tmp_path / "journal").begin(SETTING, THING, []) == 2


def test_journal_is_readable_after_a_line_cut_short(tmp_path: Path):
    path = tmp_path / "journal"
    path.write_text('{"change": 7, "se')
    journal = Journal(path)
    journal.begin(SETTING, THING, [])
    assert journal.remains() == Remains((Change(1, SETTING, THING, ()),), (), 1)


def test_journal_with_nothing_to_undo_is_emptied(tmp_path: Path):
    journal = Journal(tmp_path / "journal")
    journal.undone(journal.begin(SETTING, THING, []))
    journal.close()
    assert (tmp_path / "journal").read_text() == ""


def test_journal_with_something_to_undo_is_kept(tmp_path: Path):
    journal = Journal(tmp_path / "journal")
    journal.begin(SETTING, THING, [])
    journal.close()
    assert Journal(tmp_path / "journal").remains() == Remains(
        (Change(1, SETTING, THING, ()),), (), 1
    )


# As versions before wrote it.
OLD = (
    f'{{"change": 1, "what": "e", {PLACE}, "undo": [["run", "x"]], "thing": "/p", "interface": 0}}'
)


@pytest.mark.parametrize(
    "line",
    [
        ECN.replace("Write", "Later"),
        ECN.replace("Sysctl", "Later"),
        ECN.replace("KernelFile", "Later"),
        ECN.replace('"path": "/p"', '"path": 1', 1),
        ECN.replace('"path": "/p"', '"place": "/p"', 1),
        ECN.replace(', "interface": 0', ""),
        OLD,
        '{"later": 1}',
        "[]",
    ],
)
def test_entry_that_only_another_version_understands_is_kept_and_not_undone(line: str):
    remains = replay([QDISC, line], HERE).remains()
    assert (remains.changes, remains.unread) == ((QDISC_CHANGE,), (2,))


def test_change_of_another_version_is_gone_with_its_boot():
    assert replay([OLD], replace(HERE, boot="boot-2")).remains() == Remains((), (), 1)


def test_change_is_kept_with_what_the_kernel_showed_after_it():
    made = replace(ECN_CHANGE, shows="1")
    assert replay([ECN, '{"made": 1, "shows": "1"}'], HERE).remains() == Remains((made,), (), 1)


def test_what_the_kernel_shows_of_a_change_is_unknown_once_it_is_being_undone():
    lines = [ECN, '{"made": 1, "shows": "1"}', '{"undoing": 1}']
    assert replay(lines, HERE).remains() == Remains((ECN_CHANGE,), (), 1)


KEPT = f'{{"kept": {FILE}, {PLACE}}}'


def test_kept_thing_has_no_change_left_of_before():
    lines = [ECN, ECN.replace("1", "3", 1), QDISC, KEPT]
    assert replay(lines, HERE).remains() == Remains((QDISC_CHANGE,), (), 3)


def test_change_after_keeping_remains():
    assert replay([KEPT, ECN], HERE).remains() == Remains((ECN_CHANGE,), (), 1)


def test_what_is_kept_in_another_namespace_is_not_kept_here():
    elsewhere = replace(HERE, namespace=41)
    lines = [ECN.replace("40", "41"), KEPT]
    assert replay(lines, elsewhere).remains() == Remains((ECN_CHANGE,), (), 1)


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
    journal.begin(SETTING, THING, [Write("/p", "2")])
    lose(path)
    assert journal.remains() == Remains((ECN_CHANGE,), (), 1)


def test_no_change_begins_that_the_next_agent_would_not_find(tmp_path: Path):
    journal = Journal(path := tmp_path / "journal")
    path.unlink()
    with pytest.raises(AgentError) as caught:
        journal.begin(SETTING, THING, [])
    assert (caught.value.message, journal.remains()) == (
        f"{path}: another program has deleted or replaced it",
        Remains(),
    )
