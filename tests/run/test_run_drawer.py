import math
import os
import signal
import time
from pathlib import Path

import pytest

from netesto.report import index, page
from netesto.run import drawer
from netesto.system import interrupts


@pytest.fixture
def drawn(monkeypatch):
    """The moments at which an index was drawn, which takes a second of a clock that stands still
    otherwise."""
    moments = []
    now = [100.0]

    def write(_, *, is_final=True):
        del is_final
        moments.append(now[0])
        now[0] += 1

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(index, "write", write)
    return now, moments


def test_index_takes_a_tenth_of_a_run_at_most(drawn, tmp_path):
    now, moments = drawn
    one = drawer.Index()
    for second in range(100, 130):
        now[0] = max(now[0], second)
        one.update(tmp_path)
    assert moments == [100, 111, 122]


def aged(folder, *, index_s, table_s):
    for name, when in (("exp.html", index_s), ("exp.csv", table_s)):
        if when is not None:
            (folder / name).touch()
            os.utime(folder / name, (when, when))


@pytest.mark.parametrize(
    ("index_s", "table_s", "is_changed", "count"),
    [
        pytest.param(1, 2, False, 1, id="an experiment was added since"),
        pytest.param(2, 2, False, 1, id="perhaps"),
        pytest.param(3, 2, False, 0, id="complete"),
        pytest.param(3, 2, True, 1, id="hosts are not as before"),
        pytest.param(None, 2, True, 0, id="pages were not drawn"),
        pytest.param(None, None, True, 0, id="no experiment"),
    ],
)
def test_index_is_complete_after_a_run(drawn, tmp_path, index_s, table_s, is_changed, count):
    aged(tmp_path, index_s=index_s, table_s=table_s)
    drawer.finish_index(tmp_path, is_changed=is_changed)
    assert len(drawn[1]) == count


@pytest.fixture
def pages(handlers, monkeypatch):
    """The experiments whose pages were begun; in the middle of each somebody presses Ctrl-C."""
    drawn = []

    def write(folder):
        drawn.append(folder.name)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(page, "write", write)
    return drawn


def with_experiments(folder, *, drawn, missing):
    for exp in (*drawn, *missing):
        (folder / exp).mkdir()
    for exp in drawn:
        (folder / exp / "exp.html").touch()
    return folder


def test_a_second_ctrl_c_ends_the_drawing(pages, tmp_path):
    folder = with_experiments(tmp_path, drawn=[], missing=["1", "2"])
    with interrupts.handled():
        interrupts.begin_shutdown()
        assert not drawer.Drawer(folder).finish(within_s=60)
    assert pages == ["1"]


def test_a_first_ctrl_c_ends_the_drawing_and_is_reported(pages, tmp_path):
    folder = with_experiments(tmp_path, drawn=[], missing=["1", "2"])
    with pytest.raises(KeyboardInterrupt), interrupts.handled():
        drawer.Drawer(folder).finish(within_s=60)
    assert pages == ["1"]


def test_without_time_no_page_is_drawn(pages, tmp_path):
    folder = with_experiments(tmp_path, drawn=["1"], missing=["2"])
    assert not drawer.Drawer(folder).finish(within_s=0)
    assert pages == []


def test_where_all_pages_are_drawn_no_time_is_needed(pages, tmp_path):
    folder = with_experiments(tmp_path, drawn=["1", "2"], missing=[])
    assert drawer.Drawer(folder).finish(within_s=0)
    assert pages == []


@pytest.mark.parametrize("has_index", [True, False])
def test_a_part_of_a_run_has_pages_and_no_index(monkeypatch, tmp_path, has_index):
    (tmp_path / "1").mkdir()
    (tmp_path / "exp.csv").write_text("exp,status\n1.0,ok\n")
    drawn: list[Path] = []
    monkeypatch.setattr(page, "write", drawn.append)
    monkeypatch.setattr(index, "write", lambda folder, **_: drawn.append(folder))
    drawer.Drawer(tmp_path, has_index=has_index).finish(within_s=math.inf)
    assert drawn == [tmp_path / "1", *([tmp_path] if has_index else [])]


def test_of_a_large_table_a_finished_run_has_pages_with_all_rows(monkeypatch, tmp_path):
    monkeypatch.setattr(index, "ENTIRE_MAX", 1)
    folder = with_experiments(tmp_path, drawn=["1"], missing=[])
    (folder / "exp.csv").write_text("exp,status\n1.0,ok\n1.1,ok\n")
    drawer.Drawer(folder).finish(within_s=math.inf)
    assert (folder / "rows" / "1.html").exists()
