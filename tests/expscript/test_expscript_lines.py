import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto.errors import Place, ScriptError
from netesto.report.expscript import lines

HERE = Place("my.exp", 1)


def texts(script: str) -> list[str]:
    return [line.text for line in lines.split(script, "my.exp")]


def test_blank_lines_and_comments_are_skipped():
    assert texts("\n  # no\n\tdoTable \r\n\n") == ["doTable"]


def test_a_hash_later_in_a_line_is_part_of_the_value():
    assert texts("plotTitle=a # b") == ["plotTitle=a # b"]


def test_a_backslash_joins_lines_and_keeps_the_blanks_before_it():
    assert texts("Cols=a, \\\n   b") == ["Cols=a, b"]


def test_a_comment_after_a_continuation_is_glued_on():
    assert texts("Cols=a,\\\n# b") == ["Cols=a,# b"]


def test_a_blank_line_ends_a_continuation():
    assert texts("Cols=a\\\n\ndoTable") == ["Cols=a", "doTable"]


def test_a_continuation_at_the_end_of_the_file_drops_its_line():
    assert texts("doTable\nCols=a\\\n") == ["doTable"]
    assert texts("doTable\nCols=a\\") == ["doTable"]


def test_a_joined_line_knows_where_it_began():
    (line,) = lines.split("\nCols=a\\\nb", "my.exp")
    assert (line.place.line, line.place.text) == (2, "Cols=a\\")


def test_the_first_equals_sign_splits():
    assert lines.command("Select = a==1 ", HERE) == ("Select", "a==1")


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("'retransPkts%'", "retransPkts%"),
        ('"a"', "a"),
        ("'a\"", "'a\""),
        ("''a''", "'a'"),
        ("'", "'"),
    ],
)
def test_one_pair_of_equal_quotes_is_removed(written, value):
    assert lines.unquoted(written) == value


def test_dotable_stands_alone():
    assert lines.command("DoTable", HERE) == ("DoTable", "")


def test_other_lines_without_an_equals_sign_are_wrong():
    with pytest.raises(ScriptError, match="'doTable foo' has no value"):
        lines.command("doTable foo", HERE)


def test_a_line_that_variables_made_a_comment_is_skipped():
    assert lines.command(lines.replace_variables("$a", {"a": "# x"}), HERE) is None


def test_variables_are_replaced_everywhere():
    replaced = lines.replace_variables("$k=${v}x $v_1", {"k": "Cols", "v": "a", "v_1": "b"})
    assert replaced == "Cols=ax b"


def test_two_dollars_are_one():
    assert lines.replace_variables("$$a", {"a": "no"}) == "$a"


def test_an_unknown_variable_stays_and_is_reported():
    told: list[str] = []
    assert lines.replace_variables("$a ${b}", {}, unknown=told.append) == "$a ${b}"
    assert told == ["a", "b"]


def test_an_assignment_without_an_equals_sign_is_wrong():
    with pytest.raises(ScriptError, match="'foo' is not of the form name=value"):
        lines.assignments(["a=1", "foo"])


@given(st.text(alphabet="ab=#\\ \n$'\"", max_size=60))
def test_any_text_splits_into_lines_that_are_neither_blank_nor_comments(text):
    found = lines.split(text, "my.exp")
    assert [line for line in found if not line.text.strip() or line.text.startswith("#")] == []
