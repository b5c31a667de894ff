"""docs/language.md: each script in it runs with the output shown, and the reference is complete."""

import re
from pathlib import Path

import pytest
from documented import examples
from typed import found

from netesto import cli
from netesto.files import paths
from netesto.language import ast
from netesto.language.check import check
from netesto.language.commands import ALL_NAMES, DO_CLIENT_ARGUMENTS, REMOTE
from netesto.language.expressions import FUNCTIONS
from netesto.language.parser import parse
from netesto.limits.allowed import MODULE_PARAMETERS, SYSCTLS
from netesto.run.status import OK, WRONG

PAGE = Path(__file__).parents[2] / "docs" / "language.md"
TEXT = PAGE.read_text(encoding="utf-8")
EXAMPLES = list(examples(PAGE))
SHOWN = [(example, shown) for example in EXAMPLES for shown in example.shown]
SOUND = [each for each in EXAMPLES if not any(shown.is_error for shown in each.shown)]
COMMON = {"host", "exp", "expName"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of its own to run in, as a reader has one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def without_lines(text):
    """`text` without the numbers of lines in libraries, which change whenever those do."""
    return re.sub(r"(…/lib/[\w.]+):\d+", r"\1", text)


@pytest.mark.parametrize(
    ("example", "shown"), SHOWN, ids=[f"line {each.line}: {shown.words}" for each, shown in SHOWN]
)
def test_what_is_shown_is_what_is_printed(example, shown, folder, capsys):
    (folder / "my.nts").write_text(example.script)
    status = cli.main(shown.words)
    printed = "".join(capsys.readouterr()).replace(f"{paths.data_folder()}/", "…/")
    expected = (without_lines(shown.output), WRONG if shown.is_error else OK)
    assert (without_lines(printed), status) == expected


@pytest.mark.parametrize("example", SOUND, ids=[f"line {each.line}" for each in SOUND])
def test_a_script_without_an_announced_error_has_none(example, folder, capsys):
    (folder / "my.nts").write_text(example.script)
    status = cli.main(["run", "-n", "my.nts"])
    assert (capsys.readouterr().err, status) == ("", OK)


@pytest.mark.parametrize("example", SOUND, ids=[f"line {each.line}" for each in SOUND])
def test_check_finds_no_error_where_none_is_announced(example, folder):
    (folder / "my.nts").write_text(example.script)
    found = check([folder / "my.nts"], library_path=[paths.library_folder()], definitions={})
    assert [str(each) for each in found] == []


def table(title):
    """The rows of the first table under a heading, as lists of cells."""
    section = found(rf"^###? {title}\n(.*?)(?=^##|\Z)", TEXT, re.MULTILINE | re.DOTALL)[1]
    rows = re.search(r"^\|---.*\n((?:\|.*\n?)+)", section, re.MULTILINE)
    lines = rows[1].splitlines() if rows else []
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


@pytest.mark.parametrize("name", REMOTE)
def test_arguments_and_defaults_are_those_of_the_command(name):
    documented = [(row[0].strip("`"), row[1]) for row in table(name)]
    assert documented == [
        (each.name, "required" if each.required else each.default or "")
        for each in REMOTE[name].arguments
        if each.name not in COMMON
    ]


def test_every_local_command_is_in_the_table():
    text = "\n".join(row[0] for row in table("Local commands"))
    assert {name for name in ALL_NAMES if name not in REMOTE} - set(
        re.findall(r"[A-Z_]+", text)
    ) == set()


def test_every_test_is_listed():
    section = TEXT.partition("\n### DO_CLIENT\n")[2].partition("\n### ")[0]
    listed = re.findall(r"^\| `([A-Z_]+)` \|", section, re.MULTILINE)
    [test] = [each for each in DO_CLIENT_ARGUMENTS if each.name == "test"]
    assert sorted(listed) == sorted(test.choices)


def test_another_name_of_an_argument_is_reported():
    section = TEXT.partition("\n### DO_CLIENT\n")[2].partition("\n### ")[0]
    aliases = {each.alias for each in DO_CLIENT_ARGUMENTS if each.alias}
    assert aliases == {alias for alias in aliases if f"`{alias}`" in section}


def test_every_sysctl_is_listed():
    section = TEXT.partition("\n### SET_SYSCTL\n")[2].partition("\n### ")[0]
    assert re.findall(r"`(net\.[a-z0-9_.]+)`", section) == sorted(SYSCTLS)


def test_every_module_parameter_is_listed():
    section = TEXT.partition("\n### SET_MODULE_PARAMS\n")[2].partition("\n### ")[0]
    rows = re.findall(r"^\| `(tcp_\w+)` \| (.*) \|$", section, re.MULTILINE)
    assert {module: sorted(re.findall(r"\w+", names)) for module, names in rows} == {
        module: sorted(names) for module, names in MODULE_PARAMETERS.items()
    }


def test_every_function_is_named():
    section = TEXT.partition("\n## Expressions\n")[2].partition("\n## ")[0]
    assert set(FUNCTIONS) - set(re.findall(r"\w+", section)) == set()


def test_every_macro_for_scripts_is_named():
    text = (paths.library_folder() / "inlib").read_text()
    macros = {
        each.name
        for each in parse(text, file="inlib").body
        if isinstance(each, ast.Macro) and not each.name.startswith("inlib")
    }
    section = TEXT.partition("\n## Libraries\n")[2].partition("\n## ")[0]
    assert macros - set(re.findall(r"\w+", section)) == set()


def test_links_within_the_page_lead_somewhere():
    headings = re.findall(
        r"^#+ (.*)$",
        re.sub(r"^```.*?^```$", "", TEXT, flags=re.MULTILINE | re.DOTALL),
        re.MULTILINE,
    )
    anchors = {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}
    assert set(re.findall(r"\]\(#([\w-]+)\)", TEXT)) - anchors == set()


def test_pages_that_are_linked_exist():
    linked = re.findall(r"\]\((?!#)([\w./-]+)\)", TEXT)
    assert [name for name in linked if not (PAGE.parent / name).is_file()] == []
