import os
from pathlib import Path

from netesto.collectors.base import Recording
from netesto.collectors.clock import Clock


class Counter(Recording):
    """Writes a line at every tick, and a last one."""

    looks = 0

    def look(self) -> bytes:
        self.looks += 1
        return b"%d\n" % self.looks

    def last(self) -> bytes:
        return b"end\n"


def recorded(path: Path) -> list[str]:
    """The warnings while two samples are written."""
    said: list[str] = []
    counter = Counter(path, Clock(), said.append)
    counter.sample()
    counter.sample()
    counter.close()
    return list(dict.fromkeys(said))


def test_a_file_has_every_sample_and_its_end(tmp_path):
    assert recorded(tmp_path / "out") == []
    assert (tmp_path / "out").read_text() == "1\n2\nend\n"


def test_a_file_that_another_program_truncates_is_reported(tmp_path):
    said: list[str] = []
    counter = Counter(tmp_path / "out", Clock(), said.append)
    counter.sample()
    os.truncate(tmp_path / "out", 0)
    counter.sample()
    counter.close()
    assert said == ["out: another program has truncated it: samples are missing"]


def test_a_file_that_is_there_goes_on(tmp_path):
    (tmp_path / "out").write_text("before\n")
    recorded(tmp_path / "out")
    assert (tmp_path / "out").read_text() == "before\n1\n2\nend\n"


def test_a_file_that_cannot_be_written_is_a_warning(tmp_path):
    assert recorded(tmp_path / "nowhere" / "out") == ["out: No such file or directory"]


def test_a_full_disk_is_a_warning():
    assert recorded(Path("/dev/full")) == ["full: No space left on device"]
