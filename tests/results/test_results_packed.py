"""An experiment as one file."""

import pytest

from netesto.errors import ResultsError
from netesto.results import keyvalue, packed, store
from netesto.results.store import Store


@pytest.fixture
def folder(tmp_path):
    """An experiment's folder, with a folder in it that is empty."""
    made = tmp_path / "7"
    (made / "raw" / "a").mkdir(parents=True)
    (made / "plots").mkdir()
    (made / "raw" / "a" / "flow.1.1.out").write_bytes(b"\x00data" * 1000)
    (made / "all.exp.out").write_text("rate:9\n")
    return made


def content(folder):
    return {
        path.relative_to(folder).as_posix(): path.is_file() and path.read_bytes()
        for path in folder.rglob("*")
    }


def test_a_packed_experiment_is_one_file_from_which_its_folder_comes_back(folder):
    before = content(folder)
    file = packed.pack(folder)
    assert ([*file.parent.iterdir()], file.stat().st_size < 2000) == ([file], True)
    packed.unpack(folder)
    assert (content(folder), file.exists()) == (before, False)


def test_the_same_content_gives_the_same_bytes(folder):
    first = packed.pack(folder).read_bytes()
    packed.unpack(folder)
    (folder / "all.exp.out").touch()
    assert packed.pack(folder).read_bytes() == first


def test_files_of_a_packed_experiment_are_read_as_if_it_had_its_folder(folder):
    packed.pack(folder)
    assert keyvalue.read(folder / "all.exp.out") == {"rate": "9"}
    with packed.opened(folder) as inside:
        assert (inside.name, (inside / "raw/a/flow.1.1.out").stat().st_size) == ("7", 5000)
    assert not inside.exists()


def test_a_file_that_a_packed_experiment_lacks_is_missing(folder):
    packed.pack(folder)
    with pytest.raises(OSError, match=r"7\.zip: .*'manifest.json'"):
        packed.text(folder / "manifest.json")


def test_a_damaged_file_is_reported_with_its_path(folder):
    file = packed.pack(folder)
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(ResultsError, match=rf"{file}: cannot be read"), packed.opened(folder):
        pass


def test_a_packed_experiment_counts_as_one_of_its_results_folder(folder):
    packed.pack(folder)
    results = folder.parent
    assert (store.experiments(results), store.counter(results)) == ([7], 7)
    with Store(results) as opened, pytest.raises(ResultsError, match="exists already"):
        opened.begin(7)


def test_packed_experiments_are_adopted(folder, tmp_path):
    packed.pack(folder)
    with Store(tmp_path / "out") as opened:
        opened.adopt([tmp_path])
        assert (opened.experiments(), opened.whole(7).exists()) == ([7], False)
