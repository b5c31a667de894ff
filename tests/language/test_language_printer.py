"""The printer: a stable form, from which the same tree is read."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from language_asked import LIBRARY, Asked, run

from netesto.errors import ScriptError
from netesto.language.parser import parse
from netesto.language.printer import print_script

SCRIPTS = sorted([*LIBRARY.iterdir(), *LIBRARY.with_name("scripts").glob("*.nts")])


def test_form(tree):
    """
    # head


    BEGIN   m   # the macro
    FOR c in $clients DO
       # inside
    IF $x == "a  b": ECHO hi
    DO_CLIENT host=$c server=b \\ # who
       dur=3   # how long
    DONE
    END m
    BEGIN_COMMENT
      as it is
      END_COMMENT
    IF a DO
    ELSE IF b DO
    ELSE
    WAIT 1
    DONE
    """
    assert print_script(tree) == (
        "# head\n"
        "\n"
        "BEGIN m  # the macro\n"
        "    FOR c in $clients DO\n"
        "        # inside\n"
        '        IF $x == "a  b": ECHO hi\n'
        "        DO_CLIENT host=$c server=b \\  # who\n"
        "            dur=3  # how long\n"
        "    DONE\n"
        "END m\n"
        "BEGIN_COMMENT\n"
        "  as it is\n"
        "END_COMMENT\n"
        "IF a DO\n"
        "ELSE IF b DO\n"
        "ELSE\n"
        "    WAIT 1\n"
        "DONE\n"
    )


def test_what_stands_behind_the_end_stays_as_it_is(tree):
    """
    ECHO  a
    END
      some  "notes

    DONE
    """
    assert print_script(tree) == 'ECHO a\nEND\n  some  "notes\n\nDONE\n'


words = st.one_of(
    st.sampled_from(
        ["host=a", "$x", '"a # b"', 'x="q \\" r"', "a\\b", "\\", "k=v,w", "1..3", '5"']
    ),
    st.text(st.characters(codec="ascii", exclude_characters='\n"#'), max_size=6),
)
comments = st.one_of(
    st.just(""),
    st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=8).map("#{}".format),
)
line_ends = st.sampled_from(["\n", "\n", "\n", " \\\n", " \\ # c\n", "\\\\\n", "\n\n\n", "\r\n"])
plain_lines = st.builds(
    lambda head, tail, comment, end: " ".join([head, *tail]) + " " + comment + end,
    st.sampled_from(["ECHO", "SET a=1", "DO_CLIENT", "RUN m", "END", "IF $a: ECHO", ""]),
    st.lists(words, max_size=4),
    comments,
    line_ends,
)
blocks = st.recursive(
    st.lists(plain_lines, max_size=3).map("".join),
    lambda inner: st.one_of(
        inner.map("FOR x IN a,b DO # f\n{}\n\nDONE\n".format),
        inner.map("SWEEP x=a,b DO\n{}\n\nDONE # d\n".format),
        st.builds("IF $a > 1 DO\n{}\n\nELSE IF_DEF b DO\n{}\n\nELSE\nDONE\n".format, inner, inner),
        inner.map("BEGIN_COMMENT\n{}\nEND_COMMENT\n".format),
        st.builds("{}\n{}".format, inner, inner),
    ),
    max_leaves=5,
)


def tree_of(text):
    try:
        return parse(text, file="x")
    except ScriptError:
        return None


@given(blocks)
def test_printed_script_reads_as_the_same_tree(text):
    tree = tree_of(text)
    assert tree is None or parse(print_script(tree), file="x") == tree


@given(blocks)
def test_printing_again_changes_nothing(text):
    tree = tree_of(text)
    printed = "" if tree is None else print_script(tree)
    assert print_script(parse(printed, file="x")) == printed


# Pieces that meet where nobody expects them: continuations of nothing, blanks that are not ASCII,
# quotes across lines, comments behind backslashes.
pieces = st.lists(
    st.sampled_from(
        [
            "ECHO", "a", "$a", "${a}", "$$", "é", "5\"", "=", ": ", "ASSERT", '"c d"', '"# q"', '"',
            'x="y \\" z"',
            '"a\\\n b"', "# note", "#n", "\\", "\\\n", "\\ # k\n", "\n", "\r\n", " ", "\t",
            "\f", "\x85", "\u2028", "\xa0", "FOR i IN 1,2 DO\n", "SWEEP a=1,2 DO\n", "DONE\n",
            "IF $a: ", "IF $a DO\n", "ELSE\n", "ELSE IF b DO\n", "BEGIN m\n", "END m\n", "END\n",
            "BEGIN_COMMENT\n", "END_COMMENT\n",
        ]
    ),
    max_size=14,
).map("".join)  # fmt: skip


def letters(text):
    """What is left of a text without blanks, `\\` and `#`. A comment may move, so in no order."""
    return sorted(re.sub(r"[\s\\#]", "", text))


def asked_by(text):
    """What running a text asks of the port."""
    port = Asked()
    run(text, port, max_iterations=100)
    return port.commands, port.echoed, port.waited, port.error and port.error.message


@given(pieces)
def test_odd_text_printed_reads_as_the_same_tree(text):
    tree = tree_of(text)
    assert tree is None or parse(print_script(tree), file="x") == tree


@given(pieces)
def test_printing_loses_no_letter(text):
    tree = tree_of(text)
    assert tree is None or letters(print_script(tree)) == letters(text)


@given(st.one_of(pieces, blocks))
def test_a_printed_script_asks_the_same(text):
    tree = tree_of(text)
    assert tree is None or asked_by(print_script(tree)) == asked_by(text)


def test_comments_that_come_to_stand_in_one_line_stay_apart(tree):
    """
    ECHO a \\ #one
    \\ #two
    b \\ # three
    # four
    """
    assert print_script(tree) == "ECHO a \\  #one two\n    b  # three four\n"


@pytest.mark.parametrize("path", SCRIPTS, ids=[path.name for path in SCRIPTS])
def test_our_own_scripts_are_in_the_printers_form(path):
    text = path.read_text()
    assert print_script(parse(text, file=path.name)) == text
