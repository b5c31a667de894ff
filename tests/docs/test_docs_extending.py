"""docs/extending.md: each of its examples, carried out in a copy of the package, takes effect."""

import csv
import filecmp
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from needs import kernel_or_reason
from tables import WRITTEN

from netesto.run.status import NOT_READY, OK, WRONG
from netesto.system import process

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "extending.md"
# What the package needs, and what is derived from it.
COPIED = ("netesto", "lib", "docs", "editors", "tests/docs/tables.py", "fields.txt")
TABLES = "tests/docs/tables.py"
# What makes files a package of its own.
PROJECT = "pyproject.toml"
# Longer than any working command takes, even on a busy machine.
PATIENCE_S = 500

_SECTION = re.compile(r"^## (.*?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```(\w+)(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
_MOST = re.compile(r"at most (\d+) files?")
_GROUND = re.compile(r"--ground (\w+)")
_INFO = re.compile(r'(\w+)=(?:"(.*?)"(?= |$)|(\S+))')


@dataclass(frozen=True)
class Example:
    """A section: how many files it may touch, and its blocks with what their first lines say."""

    title: str
    most: int
    blocks: tuple[tuple[dict[str, str], str], ...]
    script: str
    check: str
    ground: str

    @property
    def is_package(self) -> bool:
        return any(info["file"] == PROJECT for info, _ in self.blocks)

    def carry_out(self, copy: Path) -> None:
        for info, content in self.blocks:
            path = copy / info["file"]
            if "after" not in info and "before" not in info:
                assert not path.exists(), f"{path} is no new file"
                path.write_text(content)
                continue
            text = info.get("after") or info["before"]
            lines = path.read_text().splitlines(keepends=True)
            (place,) = [number for number, line in enumerate(lines) if text in line]
            lines.insert(place + ("after" in info), content)
            path.write_text("".join(lines))


def examples() -> Iterator[Example]:
    for section in _SECTION.finditer(PAGE.read_text(encoding="utf-8")):
        blocks = [(each[1], each[2], each[3]) for each in _BLOCK.finditer(section[2])]
        most = _MOST.search(" ".join(section[2].split()))
        assert most, f"{section[1]}: how many files?"
        yield Example(
            title=section[1],
            most=int(most[1]),
            blocks=tuple(
                ({name: quoted or bare for name, quoted, bare in _INFO.findall(info)}, content)
                for _, info, content in blocks
                if "file=" in info
            ),
            script="".join(content for kind, _, content in blocks if kind == "nts"),
            check="".join(content for _, info, content in blocks if info.strip() == "run"),
            ground=(_GROUND.search(section[2]) or ["", "sim"])[1],
        )


EXAMPLES = {each.title: each for each in examples()}


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder with each example carried out: a copy of the package, or where a package of its own
    is installed."""
    return {
        each.title: (installed if each.is_package else changed)(
            each, tmp_path_factory.mktemp("copy")
        )
        for each in EXAMPLES.values()
    }


def installed(example: Example, goal: Path) -> Path:
    project = goal / "project"
    project.mkdir()
    example.carry_out(project)
    # What it needs to be built is installed; nothing is fetched.
    options = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--no-cache-dir")
    target = ("--target", str(goal / "installed"), str(project))
    python([ROOT], "-m", "pip", "install", "--disable-pip-version-check", *options, *target)
    shutil.rmtree(project)
    return goal / "installed"


def changed(example: Example, copy: Path) -> Path:
    copy_package(copy)
    example.carry_out(copy)
    python([copy], TABLES)
    return copy


def copy_package(copy: Path) -> None:
    for name in COPIED:
        source, goal = ROOT / name, copy / name
        goal.parent.mkdir(parents=True, exist_ok=True)
        # With what is compiled: a guest forgets what it compiles.
        shutil.copytree(source, goal) if source.is_dir() else shutil.copy2(source, goal)


def python(packages: Sequence[Path], *words: str, check: bool = True) -> process.CompletedCommand:
    """Run Python in the first of these folders, with the packages of them."""
    return process.run(
        [process.python("netesto")[0], *words],
        timeout=PATIENCE_S,
        check=check,
        cwd=packages[0],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, packages)),
            "PYTHONDONTWRITEBYTECODE": "",
        },
    )


def netesto(packages: Sequence[Path], *words: str) -> process.CompletedCommand:
    return python(packages, "-m", "netesto", *words, check=False)


def touched(copy: Path) -> list[str]:
    """The files of a copy that differ from those of the package, or are new."""
    names = (
        path.relative_to(copy)
        for path in copy.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    )
    return sorted(
        str(name)
        for name in names
        if not (ROOT / name).is_file() or not filecmp.cmp(copy / name, ROOT / name, shallow=False)
    )


@pytest.mark.parametrize("title", EXAMPLES)
def test_an_example_touches_no_more_files_than_it_says(title, copies):
    example = EXAMPLES[title]
    files = (
        [info["file"] for info, _ in example.blocks if info["file"] != PROJECT]
        if example.is_package
        else [name for name in touched(copies[title]) if ROOT / name not in WRITTEN]
    )
    assert 0 < len(files) <= example.most, files


# The script of a collector needs none.
@pytest.mark.parametrize("title", [each for each in EXAMPLES if not EXAMPLES[each].check])
def test_without_an_example_its_script_is_refused(title, tmp_path):
    path = tmp_path / "script.nts"
    path.write_text(EXAMPLES[title].script)
    assert netesto([ROOT], "check", str(path)).status == WRONG


# ---- their claims hold ---------------------------------------------------------------------------


LAB = "LAB pair rate=10mbit delay=10\n"


def run_and_check(examples: Sequence[Example], places: Sequence[Path], folder: Path) -> None:
    """Run the scripts of examples, as one, with the packages of these places, and check what they
    claim."""
    assert [each.script.partition(LAB)[:2] for each in examples] == [("", LAB)] * len(examples)
    path, out = folder / "script.nts", folder / "out"
    path.write_text(LAB + "".join(each.script.removeprefix(LAB) for each in examples))
    [ground] = {each.ground for each in examples} - {"sim"} or {"sim"}
    # A guest forgets what it compiles.
    python(places[:1], "-m", "compileall", "-q", "netesto")
    options = ("--ground", ground, "--plain", "--no-pages", "--out", str(out))
    done = netesto(places, "run", *options, str(path))
    assert done.status == OK, done.stdout + done.stderr
    checked = {experiment_of(each, out): each for each in examples if each.check}
    if checked:
        done = netesto(places, "report", str(out), *checked)
        assert done.status == OK, done.stdout + done.stderr
    for number, example in checked.items():
        # In its check it is the first experiment.
        alone = folder / f"alone-{number}"
        alone.mkdir()
        (alone / "1").symlink_to(out / number)
        python([alone], "-c", example.check)


def experiment_of(example: Example, out: Path) -> str:
    """The number of the last experiment of an example's script."""
    [name] = set(re.findall(r"expName=(\w+)", example.script))
    with (out / "exp.csv").open(newline="") as file:
        return [row["expNumber"] for row in csv.DictReader(file) if row["expName"] == name][-1]


@pytest.mark.sim
def test_with_all_examples_the_claims_of_their_scripts_hold(copies, tmp_path):
    kernel_or_reason("sim")
    copy = tmp_path / "copy"
    copy_package(copy)
    for each in EXAMPLES.values():
        if not each.is_package:
            each.carry_out(copy)
    python([copy], TABLES)
    packages = [copies[each.title] for each in EXAMPLES.values() if each.is_package]
    run_and_check([*EXAMPLES.values()], [copy, *packages], tmp_path)


@pytest.mark.sim
@pytest.mark.thorough
@pytest.mark.parametrize("title", EXAMPLES)
def test_with_one_example_alone_the_claims_of_its_script_hold(title, copies, tmp_path):
    kernel_or_reason("sim")
    example = EXAMPLES[title]
    places = [copies[title], ROOT] if example.is_package else [copies[title]]
    run_and_check([example], places, tmp_path)


@pytest.mark.sim
def test_a_tool_and_a_collector_in_other_packages_need_no_copy(copies, tmp_path):
    kernel_or_reason("sim")
    tool, collector = EXAMPLES["A traffic tool"], EXAMPLES["A collector"]
    [(_, module)] = collector.blocks
    project = PROJECT_OF.format(name="udp", group="netesto.collectors", value="COUNTERS")
    blocks = (({"file": "netesto_udp.py"}, module), ({"file": PROJECT}, project))
    place = installed(replace(collector, blocks=blocks), tmp_path)
    run_and_check([tool, collector], [ROOT, place, copies[tool.title]], tmp_path)


PROJECT_OF = """\
[project]
name = "netesto-{name}"
version = "1"

[project.entry-points."{group}"]
{name} = "netesto_{name}:{value}"
"""


def test_a_package_that_is_broken_is_an_error_that_names_it(tmp_path):
    project = PROJECT_OF.format(name="broken", group="netesto.tools", value="TOOL")
    blocks = (({"file": "netesto_broken.py"}, "import nothing\n"), ({"file": PROJECT}, project))
    example = Example("", 1, blocks, "", "", "sim")
    path = tmp_path / "script.nts"
    path.write_text(SWEEP.replace("test=", "tool=netperf test="))
    done = netesto([installed(example, tmp_path), ROOT], "check", str(path))
    assert done.status == NOT_READY
    assert done.stderr == (
        "netesto: Python package netesto-broken: the entry point broken of netesto.tools"
        " (netesto_broken:TOOL) cannot be loaded: ModuleNotFoundError: No module named 'nothing'\n"
        "Repair it, or uninstall the package.\n"
    )


SWEEP = """\
SWEEP ca=reno,cubic len=100,1K DO
    DO_CLIENT host=a server=b ca=$ca test=TCP_STREAM len=$len
    WAIT_FLOWS
    PROCESS_EXP
DONE
"""


def test_an_option_that_is_added_changes_no_hash_of_cells_without_it(copies, tmp_path):
    path = tmp_path / "script.nts"
    path.write_text(SWEEP)
    found: list[list[str]] = []
    for package in (ROOT, copies["A flow's option"]):
        goal = tmp_path / f"{len(found)}.json"
        assert netesto([package], "plan", "--seed", "1", str(path), "-o", str(goal)).status == OK
        found.append([part["hash"] for part in json.loads(goal.read_text())["head"]["parts"]])
    assert (len(found[0]), found[1]) == (4, found[0])
