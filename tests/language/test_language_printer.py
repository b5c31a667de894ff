"""The printer: a stable form, from which the same tree is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from language_asked import LIBRARY

from netesto.errors import ScriptError
from netesto.language.parser import parse
from netesto.language.printer import print_script


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


@pytest.mark.parametrize("name", ["inlib"])
def test_libraries_are_in_the_printers_form(name):
    text = (LIBRARY / name).read_text()
    assert print_script(parse(text, file=name)) == text
