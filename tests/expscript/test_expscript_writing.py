"""A file of a report is written completely or not at all, and a failure is reported."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from netesto.errors import ResultsError
from netesto.report.expscript import Report


def write(path: Path) -> None:
    Report("", {path: b"<p>page</p>"}).write_files()


def test_a_folder_that_is_missing_is_made(tmp_path):
    write(tmp_path / "a/b/report.html")
    assert (tmp_path / "a/b/report.html").read_text() == "<p>page</p>"


def test_a_full_disk_leaves_the_old_page_and_nothing_else(tmp_path):
    (tmp_path / "report.html").write_text("old")
    # What is written first stands on a device that is full.
    (tmp_path / ".report.html.new").symlink_to("/dev/full")
    with pytest.raises(ResultsError, match=r"report\.html: cannot write: No space left on device"):
        write(tmp_path / "report.html")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"report.html": "old"}


def test_a_folder_is_not_overwritten(tmp_path):
    (tmp_path / "report.html").mkdir()
    with pytest.raises(ResultsError, match="cannot write: Is a directory"):
        write(tmp_path / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match="-o FILE writes the page to another place"):
        write(tmp_path / "file/report.html")


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path):
    (tmp_path / "link.html").symlink_to("real.html")
    write(tmp_path / "link.html")
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "real.html").read_text() == "<p>page</p>"


def test_a_pipe_stays_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_text)
        write(pipe)
        assert read.result(timeout=60) == "<p>page</p>"
    assert pipe.is_fifo()
