"""editors/: Vim and Visual Studio Code know every command, and their files are sound."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from netesto import paths
from netesto.language.commands import ALL_NAMES, REMOTE
from netesto.model import TESTS

EDITORS = paths.data_folder() / "editors"
VIM = (EDITORS / "vim" / "syntax" / "nts.vim").read_text()
GRAMMAR = json.loads((EDITORS / "vscode" / "syntaxes" / "nts.tmLanguage.json").read_text())
MANIFEST = json.loads((EDITORS / "vscode" / "package.json").read_text())
CONFIGURATION = json.loads((EDITORS / "vscode" / "language-configuration.json").read_text())


def words(text: str) -> set[str]:
    """The words in capital letters of a pattern."""
    return set(re.findall(r"(?<![A-Za-z_\\])[A-Z][A-Z_]+(?![A-Za-z_])", text))


def patterns(rule: dict[str, Any]) -> Iterator[str]:
    """All regular expressions in a part of the grammar."""
    for key, value in rule.items():
        if key in {"match", "begin", "end"}:
            yield value
        elif key == "patterns":
            for each in value:
                yield from patterns(each)


def vim_statements(prefix: str) -> str:
    """The `syntax` statements of one group or more, their continuation lines joined."""
    joined = re.sub(r"\n\s+\\", "", VIM)
    return "\n".join(re.findall(rf"^syntax \w+ {prefix}.*$", joined, re.MULTILINE))


@pytest.mark.parametrize("name", ALL_NAMES)
def test_vim_knows_the_command(name):
    groups = "nts(?:Command|TextCommand|Remote|Control|Comment)"
    assert name in words(vim_statements(groups))


@pytest.mark.parametrize("name", ALL_NAMES)
def test_visual_studio_code_knows_the_command(name):
    rules = ("comment-block", "text", "macro", "control", "command")
    known = [
        word
        for rule in rules
        for text in patterns(GRAMMAR["repository"][rule])
        for word in words(text)
    ]
    assert name in known


def test_vim_sets_remote_commands_apart():
    assert words(vim_statements("ntsRemote")) == set(REMOTE)


def test_visual_studio_code_sets_remote_commands_apart():
    remote = GRAMMAR["repository"]["command"]["patterns"][1]
    assert (remote["captures"]["1"]["name"], words(remote["match"])) == (
        "support.function.nts",
        set(REMOTE),
    )


def test_both_know_all_kinds_of_tests():
    vim, code = vim_statements("ntsConstant"), GRAMMAR["repository"]["constant"]["match"]
    assert (TESTS - words(vim), TESTS - words(code)) == (set(), set())


def test_every_rule_that_is_included_exists():
    included = set(re.findall(r'"include": "#([\w-]+)"', json.dumps(GRAMMAR)))
    assert included == set(GRAMMAR["repository"])


@pytest.mark.parametrize(
    "pattern", [text for rule in GRAMMAR["repository"].values() for text in patterns(rule)]
)
def test_a_pattern_can_be_read(pattern):
    assert re.compile(pattern).pattern == pattern


@pytest.mark.parametrize(
    ("text", "number", "unit"),
    [
        ("rate=100mbit", "100", "mbit"),
        ("delay=0.5", "0.5", None),
        ("req=64Ki", "64", "Ki"),
        ("WAIT 200ms", "200", "ms"),
        ("limit=50p", "50", "p"),
        ("SET_EXP a=b-3", None, None),
        ("host=server1", None, None),
        ("SET a=10.0.0.1", None, None),
    ],
)
def test_a_number_is_one_with_its_unit(text, number, unit):
    found = re.search(GRAMMAR["repository"]["number"]["match"], text)
    assert (found and found[1], found and found[2]) == (number, unit)


@pytest.mark.parametrize(
    ("line", "is_more"),
    [
        ("BEGIN Test", True),
        ("FOR a IN 1..3 DO   # three", True),
        ("IF $a > 2 DO", True),
        ("ELSE", True),
        ("IF $a: ECHO DO", False),
        ("DONE", False),
        ("END Test", False),
        ("BEGIN_COMMENT", False),
    ],
)
def test_what_opens_a_block_is_indented_after(line, is_more):
    rule = CONFIGURATION["indentationRules"]["increaseIndentPattern"]
    assert bool(re.search(rule, line)) is is_more


@pytest.mark.parametrize(
    ("line", "is_less"),
    [
        ("DONE", True),
        ("ELSE IF $a DO", True),
        ("END Test", True),
        ("END", False),
        ("SET a=1", False),
    ],
)
def test_what_closes_a_block_is_indented_less(line, is_less):
    rule = CONFIGURATION["indentationRules"]["decreaseIndentPattern"]
    assert bool(re.search(rule, line)) is is_less


def test_files_that_visual_studio_code_needs_exist():
    contributed = MANIFEST["contributes"]
    named = [contributed["grammars"][0]["path"], contributed["languages"][0]["configuration"]]
    assert [name for name in named if not (EDITORS / "vscode" / name).is_file()] == []


def test_both_recognise_scripts_and_libraries():
    detection = (EDITORS / "vim" / "ftdetect" / "nts.vim").read_text()
    language = MANIFEST["contributes"]["languages"][0]
    patterns_of_code = [
        *[f"*{each}" for each in language["extensions"]],
        *language["filenames"],
        *language["filenamePatterns"],
    ]
    assert re.search(r"BufRead (\S+)", detection)[1].split(",") == patterns_of_code
