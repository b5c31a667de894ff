import fcntl
import json
import os
import threading
from pathlib import Path

import pytest

from netesto.errors import LabError, MissingError, UsageError
from netesto.lab import kernelbuild, kernelconfig
from netesto.lab.kernels import Kernel
from netesto.system import process


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "netesto" / "kernels"


# What kbuild's own Makefile does, as far as a build asks for it: targets defconfig, olddefconfig
# and linux, results in O=. The "kernel" tells its release when asked, as a user-mode kernel does.
MAKEFILE = """\
RELEASE := 6.1.0$(LOCALVERSION)
defconfig: ; @touch $(O)/.config
olddefconfig: ; @true
linux: ; @printf 'int main(void) { __builtin_puts("%s"); }' $(RELEASE) > $(O)/main.c
\t@echo "  CC      main.o"; gcc -o $(O)/linux $(O)/main.c
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The smallest thing that is built like a kernel."""
    tree = tmp_path / "tree"
    (tree / "arch" / "um").mkdir(parents=True)
    (tree / "arch" / "um" / "Kconfig").write_text("config UML_TIME_TRAVEL_SUPPORT\n")
    (tree / "Kconfig").write_text('mainmenu "Linux"\n\nsource "arch/um/Kconfig"\n')
    (tree / "Makefile").write_text(MAKEFILE)
    (tree / "tcp.c").write_text("/* one */")
    os.utime(tree / "tcp.c", (1, 1))
    return tree


def silent(_: str) -> None:
    return


# ---- what is built -------------------------------------------------------------------------------


def test_key_changes_with_the_source():
    recipe = "recipe"
    assert kernelbuild.cache_key("6.1", recipe) != kernelbuild.cache_key("6.12", recipe)


def test_key_changes_with_the_recipe():
    assert kernelbuild.cache_key("6.1", "recipe") != kernelbuild.cache_key("6.1", "other")


def test_an_edit_anywhere_in_a_tree_is_another_source(tree):
    before = kernelbuild.key_of(tree)
    (tree / "tcp.c").write_text("/* two */")
    assert kernelbuild.key_of(tree) != before


def test_what_git_writes_is_no_edit(tree):
    before = kernelbuild.key_of(tree)
    (tree / ".git").mkdir()
    (tree / ".git" / "index").touch()
    assert kernelbuild.key_of(tree) == before


def test_a_folder_without_a_kernel_source_is_refused(tmp_path):
    with pytest.raises(UsageError, match="not the top folder of a kernel source"):
        kernelbuild.build(tmp_path, progress=silent)


def test_a_kernel_older_than_simulated_time_is_refused(tree):
    (tree / "arch" / "um" / "Kconfig").write_text("config UML\n")
    with pytest.raises(UsageError, match="this kernel is too old for simulated time"):
        kernelbuild.build(tree, progress=silent)


def test_a_tree_that_was_built_within_is_refused(tree):
    (tree / ".config").touch()
    (tree / "include" / "config").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"built within it \(\.config, include/config\)"):
        kernelbuild.build(tree, progress=silent)


def test_make_leaves_the_source_alone():
    make = kernelbuild.make_command(Path("/source"), Path("/objects"), key="0123456789", jobs=2)
    expected = [
        "nice",
        "make",
        "--directory",
        "/source",
        "O=/objects",
        "ARCH=um",
        "--jobs=2",
        "LOCALVERSION=-012345",
        "KBUILD_KCONFIG=/objects/netesto-Kconfig",
        "KCPPFLAGS=-include /objects/netesto-seed.h",
        *kernelconfig.SEED_FLAGS,
        "KBUILD_BUILD_TIMESTAMP=Thu Jan  1 00:00:00 UTC 1970",
        "KBUILD_BUILD_VERSION=1",
        "KBUILD_BUILD_USER=netesto",
        "KBUILD_BUILD_HOST=netesto",
    ]
    assert make == process.tethered(expected)


def test_what_the_architecture_sets_by_itself_has_a_prompt():
    assert kernelconfig.menu('mainmenu "Linux"\n\nsource "init/Kconfig"\nsource "mm"\n') == (
        'mainmenu "Linux"\n\nconfig HZ\n\tint "Ticks in a second"\n\n'
        'source "init/Kconfig"\nsource "mm"\n'
    )


def test_a_source_file_takes_its_random_numbers_from_one_sequence():
    named = [file for files in kernelconfig.SEQUENCES.values() for file in files]
    assert sorted(named) == sorted(set(named))


def test_a_build_without_compiler_names_the_packages(cache, tree, tmp_path, monkeypatch):
    (tmp_path / "tools").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "tools"))
    with pytest.raises(MissingError) as caught:
        kernelbuild.build(tree, progress=silent)
    assert caught.value.remedy.startswith("sudo apt-get install bc binutils bison flex gcc make")


# ---- a build -------------------------------------------------------------------------------------


@pytest.fixture
def tools() -> None:
    try:
        kernelbuild.check_tools()
    except MissingError as error:
        pytest.skip(f"{error.message}: {error.remedy}")


@pytest.mark.usefixtures("tools")
def test_a_build_is_kept_under_its_key(cache, tree):
    key = kernelbuild.key_of(tree)
    kernel = kernelbuild.build(tree, progress=silent)
    record = json.loads((cache / key / "kernel.json").read_text())
    assert (kernel.path, kernel.version, record["source"]) == (
        cache / key / "linux",
        f"6.1.0-{key[:6]}",
        str(tree),
    )


@pytest.mark.usefixtures("tools")
def test_a_second_build_has_nothing_to_do(cache, tree):
    first = kernelbuild.build(tree, progress=silent)
    told: list[str] = []
    second = kernelbuild.build(tree, progress=told.append)
    assert (second, told) == (first, [f"already built: {first.path.parent}"])


@pytest.mark.usefixtures("tools")
def test_an_edited_tree_is_built_anew(cache, tree):
    first = kernelbuild.build(tree, progress=silent)
    (tree / "tcp.c").write_text("/* two */")
    second = kernelbuild.build(tree, progress=silent)
    assert (second.path != first.path, second.path.is_file(), first.path.is_file()) == (
        True,
        True,
        True,
    )


@pytest.mark.usefixtures("tools")
def test_what_the_compiler_complains_of_is_reported(cache, tree):
    (tree / "Makefile").write_text(MAKEFILE.replace("int main", "int @main"))
    with pytest.raises(LabError, match=r"make exited 2\n.*main\.c:1:5: error: stray"):
        kernelbuild.build(tree, progress=silent)


@pytest.mark.usefixtures("tools")
def test_a_build_that_fails_leaves_no_kernel(cache, tree):
    (tree / "Makefile").write_text(MAKEFILE.replace("int main", "int @main"))
    with pytest.raises(LabError):
        kernelbuild.build(tree, progress=silent)
    assert list(cache.glob("*/kernel.json")) == list(cache.glob("netesto-running-*")) == []


@pytest.mark.usefixtures("tools")
def test_a_tree_that_changes_while_it_is_built_makes_no_kernel(cache, tree):
    (tree / "Makefile").write_text(MAKEFILE + "\t@echo /* two */ > tcp.c\n")
    with pytest.raises(LabError, match="changed during the build"):
        kernelbuild.build(tree, progress=silent)
    assert list(cache.glob("*/kernel.json")) == []


@pytest.mark.usefixtures("tools")
def test_what_a_killed_make_left_is_not_used(cache, tree):
    first = kernelbuild.build(tree, progress=silent)
    [objects] = cache.glob("objects-*")
    (objects / "half-written.o").touch()
    (objects / "netesto-unfinished").touch()
    (tree / "tcp.c").write_text("/* two */")
    second = kernelbuild.build(tree, progress=silent)
    assert (first != second, (objects / "half-written.o").exists()) == (True, False)


@pytest.mark.usefixtures("tools")
def test_a_source_without_what_a_simulation_needs_is_named(cache, tree):
    (tree / "Makefile").write_text(
        MAKEFILE.replace("olddefconfig: ; @true", "olddefconfig: ; @echo > $(O)/.config")
    )
    with pytest.raises(LabError, match="this source cannot set UML_TIME_TRAVEL_SUPPORT, HIGH_RES"):
        kernelbuild.build(tree, progress=silent)


@pytest.mark.usefixtures("tools")
def test_a_second_build_at_once_waits_for_the_first(cache, tree):
    cache.mkdir(parents=True)
    waiting = threading.Event()
    built: list[Kernel] = []

    def note(text: str) -> None:
        if text.startswith("another build is in progress"):
            waiting.set()

    with (cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = threading.Thread(
            target=lambda: built.append(kernelbuild.build(tree, progress=note)), daemon=True
        )
        second.start()
        has_waited, while_locked = waiting.wait(timeout=60), list(built)
    second.join(timeout=60)
    assert (has_waited, while_locked, len(built)) == (True, [], 1)


@pytest.mark.usefixtures("tools")
def test_a_cache_that_cannot_be_written_is_named(tmp_path, tree, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(LabError, match="file/netesto/kernels: cannot write: Not a directory"):
        kernelbuild.build(tree, progress=silent)


# ---- which one is used ---------------------------------------------------------------------------


def kept(cache: Path, key: str, tree: Path) -> Path:
    """A kernel of a tree, as a build leaves it."""
    (cache / key).mkdir(parents=True)
    record = {
        "name": "sim-6.1.0-mine",
        "kind": "sim",
        "version": "6.1.0-mine",
        "config_hash": "c",
        "recipe": kernelconfig.recipe(),
        "source": str(tree),
    }
    (cache / key / "kernel.json").write_text(json.dumps(record))
    return cache / key / "linux"


def test_a_kernel_is_chosen_by_its_name(cache, tree):
    path = kept(cache, "key", tree)
    assert kernelbuild.choose("sim-6.1.0-mine").path == path


def test_a_kernel_is_chosen_by_its_tree(cache, tree):
    path = kept(cache, kernelbuild.key_of(tree), tree)
    assert kernelbuild.choose(str(tree)).path == path


def test_a_tree_without_a_kernel_is_named(cache, tree):
    with pytest.raises(MissingError, match="has no kernel yet") as caught:
        kernelbuild.choose(str(tree))
    assert caught.value.remedy == f"netesto kernel build --source {tree}"


def test_a_tree_that_was_edited_since_is_not_taken_for_its_kernel(cache, tree):
    kept(cache, kernelbuild.key_of(tree), tree)
    (tree / "tcp.c").write_text("/* two */")
    with pytest.raises(MissingError, match="was changed since its kernel was built"):
        kernelbuild.choose(str(tree))


def test_a_name_that_no_kernel_has_is_answered_with_those_there(cache, tree):
    kept(cache, "key", tree)
    with pytest.raises(UsageError) as caught:
        kernelbuild.choose("sim-6.1.0-yours")
    assert (caught.value.message, caught.value.remedy.endswith("sim-6.1.0-mine")) == (
        "--kernel sim-6.1.0-yours: neither a kernel's name nor a kernel source",
        True,
    )
