import json
import os
from pathlib import Path

import pytest

from netesto.errors import MissingError, OutputError
from netesto.grounds import SIM
from netesto.lab import kernelconfig, kernels
from netesto.lab.kernels import Kernel


def built(
    folder: Path,
    *,
    recipe: str,
    version: str = "6.1.0",
    source: str = "/usr/src/linux-source-6.1.tar.xz",
) -> Path:
    """A folder as a build leaves it."""
    folder.mkdir(parents=True)
    record = {
        "name": f"sim-{version}",
        "kind": "sim",
        "version": version,
        "config_hash": "c",
        "recipe": recipe,
        "source": source,
    }
    (folder / "kernel.json").write_text(json.dumps(record))
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "netesto" / "kernels"


def test_the_recipe_is_that_of_kernels_already_built():
    assert kernelconfig.recipe() == "b58164d568a8"


def test_no_option_is_set_twice():
    names = [
        line.partition("=")[0]
        for line in kernelconfig.fragment().splitlines()
        if line.startswith("CONFIG_")
    ]
    assert len(set(names)) == len(names)


def test_essential_options_are_wanted():
    assert set(kernelconfig.ESSENTIAL) <= set(kernelconfig.missing(""))


def test_a_configuration_with_all_options_misses_none():
    assert kernelconfig.missing(kernelconfig.fragment()) == []


def test_a_module_does_not_count_as_built_in():
    config = kernelconfig.fragment().replace("CONFIG_VETH=y", "CONFIG_VETH=m")
    assert kernelconfig.missing(config) == ["VETH"]


def test_an_option_with_another_value_is_missing():
    config = kernelconfig.fragment().replace("CONFIG_HZ=1000", "CONFIG_HZ=100")
    assert kernelconfig.missing(config) == ["HZ"]


def test_kernels_are_kept_where_the_user_keeps_caches(cache):
    assert kernels.cache_folder() == cache


def test_a_relative_cache_folder_is_not_used(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "somewhere")
    assert kernels.cache_folder() == Path.home() / ".cache" / "netesto" / "kernels"


def test_a_kernel_of_this_recipe_is_found(cache):
    folder = built(cache / "key", recipe=kernelconfig.recipe())
    assert kernels.find(SIM) == Kernel(
        name="sim-6.1.0",
        kind="sim",
        path=folder / "linux",
        modules=None,
        version="6.1.0",
        config_hash="c",
        recipe=kernelconfig.recipe(),
        source="/usr/src/linux-source-6.1.tar.xz",
    )


def test_a_kernel_of_another_recipe_is_not_used(cache):
    built(cache / "key", recipe="of-last-year")
    assert kernels.find(SIM) is None


def test_a_kernel_of_ones_own_tree_is_not_used_by_itself(cache):
    usual = built(cache / "a", recipe=kernelconfig.recipe())
    built(cache / "b", recipe=kernelconfig.recipe(), version="6.1.0-mine", source="/home/me/linux")
    os.utime(usual / "kernel.json", (1, 1))
    assert kernels.need(SIM).path == usual / "linux"


def test_where_all_kernels_are_of_ones_own_the_error_names_the_newest(cache):
    built(cache / "b", recipe=kernelconfig.recipe(), version="6.1.0-mine", source="/home/me/linux")
    with pytest.raises(MissingError) as caught:
        kernels.need(SIM)
    assert caught.value.remedy == (
        "netesto kernel build (or, of your own tree: --kernel sim-6.1.0-mine)"
    )


def test_newest_kernel_is_listed_first(cache):
    os.utime(built(cache / "a", recipe="x", version="6.1.0") / "kernel.json", (1, 1))
    os.utime(built(cache / "b", recipe="x", version="6.12.0") / "kernel.json", (2, 2))
    simulated = [kernel for kernel in kernels.installed() if kernel.kind == "sim"]
    assert [kernel.version for kernel in simulated] == ["6.12.0", "6.1.0"]


def test_without_a_kernel_the_error_says_how_to_get_one(cache):
    with pytest.raises(MissingError) as caught:
        kernels.need(SIM)
    assert caught.value.remedy == "netesto kernel build"


def test_a_record_that_is_none_is_named(tmp_path):
    (tmp_path / "kernel.json").write_text('{"colour": "green"}')
    with pytest.raises(OutputError, match="not a record of a kernel"):
        kernels.read_record(tmp_path / "kernel.json")
