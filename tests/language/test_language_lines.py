"""Lines and words: comments, continuations, comment blocks, quotes."""

import pytest

from netesto.errors import ScriptError
from netesto.language.parser import parse


def test_blanks_around_a_line_are_dropped(asked):
    "\tECHO a\t b  \r"
    assert asked.echoed == ["a b"]


def test_empty_lines_are_skipped(asked):
    """
    ECHO a


    ECHO b
    """
    assert asked.echoed == ["a", "b"]


def test_comment_begins_anywhere_also_inside_a_word(asked):
    """
    # nothing
    ECHO a b# c
    """
    assert asked.echoed == ["a b"]


def test_continued_lines_are_joined_with_one_blank(asked):
    """
    ECHO a   \\
        b
    """
    assert asked.echoed == ["a b"]


def test_comment_is_cut_before_the_continuation_is_looked_for(asked):
    """
    ECHO a \\ # note
       b  # c \\
    ECHO d
    """
    assert asked.echoed == ["a b", "d"]


def test_backslash_in_a_comment_continues_nothing(asked):
    """
    ECHO a # b \\
    ECHO c
    """
    assert asked.echoed == ["a", "c"]


def test_comment_block_is_skipped(asked):
    """
    BEGIN_COMMENT the first
    NO SUCH COMMAND "
    END_COMMENT
    ECHO a
    """
    assert asked.echoed == ["a"]


def test_comment_may_stand_behind_the_brackets_of_a_comment_block(asked):
    """
      BEGIN_COMMENT# the old test
        RUN gone "
        END_COMMENT# of it
    BEGIN_COMMENT: another
    RUN gone
    END_COMMENT, "and on
    ECHO a
    """
    assert asked.echoed == ["a"]


def test_comment_block_must_be_closed(asked):
    """
    ECHO a
    BEGIN_COMMENT
    """
    assert asked.message == "2:1: unterminated comment block"


def test_quotes_keep_blanks_and_hashes(asked):
    """
    ECHO "a   b # c" d # e
    """
    assert asked.echoed == ["a   b # c d"]


def test_backslash_quotes_a_quote(asked):
    r"""
    ECHO "say \"hi\" \\ \n"
    """
    assert asked.echoed == [r'say "hi" \ \n']


def test_quotes_open_only_where_a_word_or_value_begins(asked):
    """
    ECHO 5" disk don"t x="a b"
    """
    assert asked.echoed == ['5" disk don"t x=a b']


def test_quoted_word_may_span_a_continuation(asked):
    """
    ECHO "a \\
       b # c"
    """
    assert asked.echoed == ["a b # c"]


def test_open_quote_is_an_error_at_the_quote(asked):
    """
    ECHO a "b c
    """
    assert asked.message == "1:8: unterminated quote"


def test_dollar_is_written_twice(asked):
    """
    SET price=$$5
    SET b=$$b
    ECHO $price $$x $ a$ $b
    """
    assert asked.echoed == ["$5 $x $ a$ $b"]


def test_file_may_end_within_a_continuation(asked):
    """
    ECHO a \\
    """
    assert asked.echoed == ["a"]


def test_error_in_a_continued_line_points_into_its_own_physical_line(asked):
    """
    DO_CLIENT host=a \\
        server=b \\
        dur=long
    """
    assert asked.message == "3:9: dur=long is not a time"
    assert asked.error.place.text == "    dur=long"


def test_caret_stands_under_the_value(asked):
    """
    WAIT soon
    """
    assert str(asked.error).splitlines()[1:3] == ["    WAIT soon", "         ^^^^"]


def test_fault_of_a_text_that_is_not_closed_names_the_file():
    with pytest.raises(ScriptError, match=r"x\.nts:1:1: unterminated FOR"):
        parse("FOR a IN b DO\n", file="x.nts")


def test_a_blank_that_was_pasted_is_a_blank(asked):
    "\u00a0ECHO\u00a0a\u2003b\u00a0"
    assert asked.echoed == ["a b"]


def test_a_comment_block_does_not_begin_behind_a_backslash():
    with pytest.raises(ScriptError, match="BEGIN_COMMENT on a continued line"):
        parse("\\\nBEGIN_COMMENT\nEND_COMMENT\n", file="x")
