"""What exceeds a limit of scripts is reported with the limit, before it takes time or memory."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto.errors import ScriptError
from netesto.language import ast, interpreter, lines
from netesto.language.check import check
from netesto.language.finding import MAX_FINDINGS
from netesto.language.parser import parse
from netesto.language.walk import MAX_DEPTH

LONG_LINE = "line longer than 100,000 characters, continuations included"


def error_of(text):
    with pytest.raises(ScriptError) as caught:
        parse(text, file="a.nts")
    return str(caught.value.place), caught.value.message


def found(tmp_path, text):
    path = tmp_path / "a.nts"
    path.write_text(text)
    findings = check([path], library_path=[], definitions={})
    return [f"{each.place.line}: {each.message}" for each in findings]


# ---- lines and files -------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["x", "$a", "IF 1: ", "(", '"a" ', "k=v,", "\0"])
def test_a_line_that_is_too_long_is_refused(word):
    text = f"WAIT 1\nECHO {word * lines.MAX_LINE}x\n"
    assert error_of(text) == ("a.nts:2:1", LONG_LINE)


def test_a_line_as_long_as_may_be_is_read():
    text = "ECHO " + "x" * (lines.MAX_LINE - 5)
    [command] = parse(text, file="a.nts").body
    assert isinstance(command, ast.CommandLine)
    assert [word.text for word in command.row.words] == ["ECHO", text[5:]]


@pytest.mark.parametrize("end", [" \\", " \\ # more", ' "x" \\'])
def test_a_line_that_its_continuations_make_too_long_is_refused(end):
    assert error_of(f"ECHO a{end}\n" * 60_000) == ("a.nts:1:1", LONG_LINE)


@pytest.mark.parametrize("end", [" \\", " \\ # more"])
def test_of_a_line_that_is_too_long_check_tells_once(tmp_path, end):
    text = f"ECHO a{end}\n" * 60_000 + "b\nFOO\n"
    assert found(tmp_path, text) == [f"1: {LONG_LINE}", "60002: unknown command FOO"]


def test_more_lines_than_a_script_may_have_are_refused():
    assert error_of("WAIT 1\n" * (lines.MAX_LINES + 1)) == (
        "a.nts:100001:1",
        "more than 100,000 lines",
    )


def test_as_many_lines_as_a_script_may_have_are_read():
    assert len(parse("WAIT 1\n" * lines.MAX_LINES, file="a.nts").body) == lines.MAX_LINES


def test_a_file_that_has_no_end_is_refused():
    with pytest.raises(ScriptError) as caught:
        interpreter.read_script(Path("/dev/zero"))
    assert str(caught.value) == "/dev/zero:1:1: longer than 10 MB\nIs this a script?"


def test_of_a_long_line_the_error_shows_a_part(tmp_path):
    path = tmp_path / "a.nts"
    path.write_text("WAIT " + "y" * 90_000)
    [finding] = check([path], library_path=[], definitions={})
    assert len(str(finding)) < 1000 + len(str(path))


# ---- nesting ---------------------------------------------------------------------------------


def test_ifs_in_one_line_are_counted():
    place, message = error_of("IF 1: " * 10_000 + "WAIT 1\n")
    assert (place, message) == ("a.nts:1:301", "more than 50 IFs in one line")


@pytest.mark.parametrize("text", ["IF {}: WAIT 1", "SET_EXP a={}", "ASSERT {}"])
def test_parentheses_in_an_expression_are_counted(run_with, text):
    asked = run_with(text.format("(" * 10_000 + "1" + ")" * 10_000))
    assert "more than 10,000 characters" in asked.error.message


@pytest.mark.parametrize("text", ["IF {}: WAIT 1", "SET_EXP a={}", "ASSERT {}"])
def test_operators_of_an_expression_are_counted(run_with, text):
    asked = run_with(text.format("(" * 101 + "1" + ")" * 101))
    assert "more than 100 operators and parentheses" in asked.error.message


def test_macros_that_run_each_other_in_a_long_chain_are_checked(tmp_path):
    chain = "".join(f"BEGIN m{n}\nRUN m{n + 1} a=$a\nEND m{n}\n" for n in range(2000))
    text = f"BEGIN first\nWAIT 1\nEND first\n{chain}BEGIN m2000\nWAIT $a\nEND m2000\nRUN m0\n"
    assert found(tmp_path, text)[-1] == ("6007: macro m0 needs a, which is neither passed nor set")


def test_files_that_source_each_other_in_a_long_chain_are_checked(tmp_path):
    for number in range(500):
        (tmp_path / f"s{number}").write_text(f"SOURCE s{number + 1}\n")
    deep = f"1: more than {MAX_DEPTH} nested macros, loops and files"
    assert found(tmp_path, "SOURCE s0\n") == [deep]


# ---- loops -----------------------------------------------------------------------------------

LOOPS = (
    "FOR i IN 1..1000000000000 DO\nWAIT 1\nDONE",
    "SWEEP a=1..1000 b=1..1000 c=1..1000 DO\nWAIT 1\nDONE",
    "SWEEP a=1..1000 reps=1000000 DO\nWAIT 1\nDONE",
    "BEGIN m\nWAIT 1\nEND m\nRUN m,999999999",
    "BEGIN m\nWAIT 1\nEND m\nRUN m,1000 ca=1..1000000000",
)


@pytest.mark.parametrize("text", LOOPS)
def test_a_loop_that_is_too_long_does_not_begin(run_with, text):
    asked = run_with(text)
    assert (asked.error.message, asked.waited) == (
        "more than 1,000,000 iterations of loops in this script",
        [],
    )


def test_the_cells_of_a_sweep_are_made_when_it_is_their_turn(run_with):
    asked = run_with("SWEEP a=1..1000 b=1..1000 DO\nEND\nDONE")
    assert asked.error is None


# ---- values ----------------------------------------------------------------------------------

BIG = "SET a=x\nFOR i IN 1..19 DO\nSET a=$a$a\nDONE\n"


@pytest.mark.parametrize(
    "line",
    ["ECHO " + "$a " * 30_000, "SET b=" + "$a" * 30_000, "FOR i IN " + "$a, " * 9000 + "DO"],
    ids=["ECHO", "SET", "FOR"],
)
def test_a_short_line_of_long_values_is_not_put_together(run_with, line):
    end = "\nDONE" if line.startswith("FOR") else ""
    asked = run_with(f"{BIG}{line}{end}")
    assert asked.error.message == "a text here would be longer than 1,000,000 characters"


def test_lookups_of_a_line_are_counted_together(run_with):
    doubling = "".join(f"SET a{n}=$a{n + 1}$a{n + 1}\n" for n in range(15))
    asked = run_with(f"{doubling}SET a15=\nECHO {'$a0 ' * 9000}")
    assert asked.error.message == "$a0 refers to more than 100,000 other variables"


def test_words_that_a_line_becomes_are_counted(run_with):
    asked = run_with('SET a="x "\nFOR i IN 1..18 DO\nSET a="$a$a"\nDONE\nECHO $a')
    assert asked.error.message == "this line would have more than 100,000 words"


def test_a_value_of_an_argument_has_an_end(run_with):
    asked = run_with(f"{BIG}DO_SERVER host=h expName=$a")
    assert asked.error.message == "expName is longer than 10,000 characters"


def test_arguments_are_counted(run_with):
    asked = run_with("BEGIN m\nWAIT 1\nEND m\nRUN m " + " ".join(f"a{n}=1" for n in range(1001)))
    assert asked.error.message == "RUN: more than 1,000 arguments"


def test_groups_are_numbered_however_many_there_are(run_with):
    asked = run_with(
        "DO_SERVER host=b exp=1\nFOR i IN 1..20000 DO\nDO_CLIENT host=a server=b\nDONE"
    )
    assert asked.commands[-1].group == 20_000


def test_a_tool_that_there_is_none_of_is_reported_by_check(tmp_path):
    path = tmp_path / "a.nts"
    path.write_text("DO_CLIENT host=a server=b exp=1 tool=ttcp\nPROCESS_EXP\n")
    [finding] = check([path], library_path=[], definitions={})
    assert (finding.message, finding.remedy) == (
        "tool=ttcp is unknown",
        "Choose one of: auto, netperf, iperf3, native.",
    )


# ---- check -----------------------------------------------------------------------------------


def test_check_ends_when_it_has_found_enough(tmp_path):
    findings = found(tmp_path, "".join(f"FOO{n} x\n" for n in range(5000)))
    assert (len(findings), findings[-1]) == (
        MAX_FINDINGS + 1,
        "1000: more than 1,000 findings; the rest is not shown",
    )


def test_names_that_only_a_run_knows_are_compared_without_trying_all_ways(tmp_path):
    text = f"SET x=1\nSET {'a${x}' * 20}=1\nWAIT ${'a' * 60}b\n"
    assert found(tmp_path, text) == [f"3: undefined variable ${'a' * 60}b"]


@pytest.mark.parametrize(
    ("raw", "name"),
    [("flow$i", "flow1"), ("$i", "any"), ("a${i}b${j}c", "axbyc"), ("a${i}a", "aa")],
)
def test_a_name_with_a_variable_may_be_another(tmp_path, raw, name):
    assert found(tmp_path, f"IF_DEF $i: ECHO $i\nIF 0: SET {raw}=1\nIF 0: WAIT ${name}\n") == []


@pytest.mark.parametrize(("raw", "name"), [("flow$i", "flo"), ("a${i}a", "a"), ("a${i}b", "acbd")])
def test_a_name_with_a_variable_is_not_every_other(tmp_path, raw, name):
    [finding] = found(tmp_path, f"IF_DEF $i: ECHO $i\nIF 0: SET {raw}=1\nWAIT ${name}\n")
    assert finding == f"3: undefined variable ${name}: nothing sets it"


# What a word is, written to be read; the matcher needs memory for each of its steps.
WORD = re.compile(r'(?:(?<![^\s=,(:])"(?:\\.|[^"\\])*"|\S)+')


@given(st.text('ab" =\\', max_size=30))
def test_words_are_what_their_definition_says(text):
    assert [word.text for word in lines.cut_words(text)] == WORD.findall(text)


# ---- remedies --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place", "remedy"),
    [
        ("SET_EXP a=1/0", "1:11", "If that may happen, test for it first: IF $n > 0: SET_EXP …"),
        (
            "SET_EXP a=sqrt(-1)",
            "1:11",
            "If that may happen, test for it first: IF $n > 0: SET_EXP …",
        ),
        ("SET_EXP a=abs(1,2)", "1:11", "It takes 1."),
        ("IF not 0: WAIT 1", "1:8", "AND, OR and NOT are written in capital letters."),
        ("IF 1 and 2: WAIT 1", "1:6", "AND, OR and NOT are written in capital letters."),
        ("ELSE", "1:1", "The IF of an ELSE has a block: IF condition DO … ELSE … DONE"),
        (
            "SET a=$b\nSET b=$a\nWAIT $a",
            "3:6",
            "A value is expanded when it is used, not when it is set: choose another name.",
        ),
    ],
)
def test_an_error_says_what_would_be_right(run_with, text, place, remedy):
    error = run_with(text).error
    assert (str(error.place).partition(":")[2], error.remedy) == (place, remedy)
