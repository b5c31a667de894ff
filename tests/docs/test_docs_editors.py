"""editors/: Vim and Visual Studio Code know every command, and their files are sound."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typed import found

from netesto.flowspec import TESTS, TRACE_TESTS
from netesto.language.commands import ALL_NAMES, REMOTE
from netesto.language.expressions import ARITHMETIC, COMPARISONS, FUNCTIONS
from netesto.system import process

# Words in capital letters that are no commands, but belong to some.
PARTICLES = ("DO", "IN")

EDITORS = Path(__file__).parents[2] / "editors"
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


def test_vim_knows_all_commands_and_no_others():
    groups = "nts(?:Command|TextCommand|Remote|Control|Comment)"
    assert words(vim_statements(groups)) == {*ALL_NAMES, *PARTICLES}


def test_visual_studio_code_knows_all_commands_and_no_others():
    rules = ("comment-block", "text", "expression", "macro", "control", "command")
    texts = [text for rule in rules for text in patterns(GRAMMAR["repository"][rule])]
    assert {word for text in texts for word in words(text)} == {*ALL_NAMES, *PARTICLES}


def test_both_know_all_functions_and_no_others():
    vim = found(r"ntsFunction /.*?%\((.*?)\\\)", VIM)[1].split("\\|")
    code = found(r"\?:(.*?)\)", GRAMMAR["repository"]["function"]["match"])[1].split("|")
    assert (set(vim), set(code)) == (set(FUNCTIONS), set(FUNCTIONS))


@pytest.mark.parametrize("operator", [*ARITHMETIC, *COMPARISONS])
def test_visual_studio_code_knows_the_operator(operator):
    rules = ("operator", "arithmetic")
    texts = [text for rule in rules for text in patterns(GRAMMAR["repository"][rule])]
    assert any(re.fullmatch(text, operator) for text in texts)


@pytest.mark.parametrize("operator", ["AND", "OR", "NOT"])
def test_visual_studio_code_knows_the_word_between_conditions(operator):
    logical = GRAMMAR["repository"]["operator"]["patterns"][1]["match"]
    assert found(logical, f"IF $a {operator} $b: ECHO")[0] == operator


# A line, and the group that Vim puts each of its parts in.
COLOURED = [
    (
        "SET_EXP a=max($b, 2)**2 // 3",
        (
            "SET_EXP:Command a:Argument max:Function $b:Variable 2:Number **:Operator 2:Number"
            " //:Operator 3:Number"
        ),
    ),
    (
        "IF NOT $a >= 10: RUN Test,2 ca=x  # why",
        (
            "IF:Control NOT:Operator $a:Variable >=:Operator 10:Number RUN:Command"
            " Test:Macro 2:Number ca:Argument #why:Comment"
        ),
    ),
    ("FOR i IN 1..3 DO", "FOR:Control IN:Control 1..3:Range DO:Control"),
    ('ECHO "a # b" c', 'ECHO:TextCommand "a#b":String c:Text'),
    ("SOURCE lib/a-b", "SOURCE:Command"),
    (
        "DO_CLIENT host=a exp=COUNTER \\",
        ("DO_CLIENT:Remote host:Argument exp:Argument COUNTER:Constant \\:Continuation"),
    ),
]

DUMP = """
set nocompatible
set runtimepath^={folder}
syntax on
edit {script}
set filetype=nts
let parts = []
for column in range(1, len(getline(1)))
  let group = substitute(synIDattr(synID(1, column, 1), 'name'), 'nts', '', '')
  let character = getline(1)[column - 1]
  if character !~ '\\s' && group != ''
    if !empty(parts) && parts[-1][1] ==# group && last == column - 1
      let parts[-1][0] .= character
    else
      call add(parts, [character, group])
    endif
  endif
  if group != ''
    let last = column
  endif
endfor
call writefile([join(map(parts, 'v:val[0] .. ":" .. v:val[1]'))], '{out}')
quitall!
"""


@pytest.mark.skipif(shutil.which("vim") is None, reason="there is no vim here")
@pytest.mark.parametrize(("line", "groups"), COLOURED, ids=[line for line, _ in COLOURED])
def test_vim_colours_a_line(line, groups, tmp_path):
    script, out, dump = (tmp_path / name for name in ("a.nts", "out", "dump.vim"))
    script.write_text(f"{line}\n")
    dump.write_text(DUMP.format(folder=EDITORS / "vim", script=script, out=out))
    process.run(
        ["vim", "-u", "NONE", "-i", "NONE", "-n", "-es", "-S", str(dump)], timeout=60, check=False
    )
    assert out.read_text().strip() == groups


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
    tests = TESTS - TRACE_TESTS
    assert (tests - words(vim), tests - words(code)) == (frozenset(), frozenset())


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
    assert found(r"BufRead (\S+)", detection)[1].split(",") == patterns_of_code
