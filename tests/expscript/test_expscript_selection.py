import pytest

from netesto.errors import ScriptError
from netesto.report.expscript import selection
from netesto.report.expscript.selection import Clause, Joined

ALL = ["1.0", "1.1", "2.0", "3.0", "4.0"]


@pytest.mark.parametrize(
    ("clause", "ids"),
    [
        ("ca==cubic", ["1.0", "1.1", "3.0"]),
        ("ca!=cubic", ["2.0", "4.0"]),
        ("ca == cubic", ["1.0", "1.1", "3.0"]),
        ("rate==90.0", ["2.0"]),
        ("rate==9e1", ["2.0"]),
        ("rate>90", ["1.0"]),
        ("rate>=90", ["1.0", "2.0"]),
        ("rate<50", ["1.1"]),
        ("rate<=50", ["1.1", "3.0"]),
        ("rate<>50:90", ["4.0"]),
        ("exp[has].0", ["1.0", "2.0", "3.0", "4.0"]),
        ("exp[has]^1", ["1.0", "1.1"]),
        ("exp[hasnot].0", ["1.1"]),
        ("exp[hasnot]^1", ["2.0", "3.0", "4.0"]),
        ("note==", ["1.1", "3.0"]),
        ("note>1;rate==50", ["3.0"]),
        ("note[has]", ALL),
        ("", ALL),
        ("exp[has].0,ca==bbr", ["2.0", "4.0"]),
        ("ca==bbr;rate<50", ["1.1", "2.0", "4.0"]),
        ("ca==bbr,rate>85;instances==10,ca==cubic", ["2.0", "3.0"]),
        ("ca in {bbr, reno}", ["2.0", "4.0"]),
        ("ca not in {bbr}", ["1.0", "1.1", "3.0"]),
        ("instances in {10.0}", ["3.0", "4.0"]),
        ("expName=~/^1s3c$/", ["3.0", "4.0"]),
        ("expName!~ 3", ["1.0", "1.1", "2.0"]),
        ("note=~/a,b|^x/", ["2.0"]),
        ("(ca==bbr;rate<50),instances==1", ["1.1", "2.0"]),
        ('ca=="bbr"', ["2.0", "4.0"]),
    ],
)
def test_select_keeps(shown, clause, ids):
    assert shown(f"Select={clause}") == ids


def test_nothing_equals_an_empty_cell_and_not_a_blank_one(shown):
    csv = "exp,a,b\n1.0,,x\n2.0, ,x\n3.0,0,x\n"
    assert (shown("Select=a==", csv=csv), shown("Select=a!=", csv=csv)) == (
        ["1.0"], ["2.0", "3.0"],
    )  # fmt: skip


def test_select_narrows_what_is_selected(shown):
    assert shown("Select=ca==bbr\nSelect=rate>85") == ["2.0"]


def test_select_all_brings_every_row_back_in_file_order(shown):
    csv = "exp\n3.0\n1.0\n2.0\n"
    assert shown("Select=exp==1\nSelect=ALL", csv=csv) == ["3.0", "1.0", "2.0"]


def test_select_orders_by_numeric_exp(shown):
    assert shown("Select=", csv="exp\n10.0\n9.0\nx\n") == ["9.0", "10.0", "x"]


def test_a_single_equals_sign_is_no_operator_and_is_reported(run):
    outcome = run("File=exp\nSelect=ca=bbr\nCols=exp\ndoTable")
    assert outcome.column("exp") == ALL
    assert outcome.warnings == [
        (
            "my.exp:2: Select: 'ca=bbr' has no operator and is always true; "
            "write column==value, or one of != > >= < <= <> [has] [hasnot] =~ in"
        )
    ]


def test_an_unknown_column_is_always_true_and_is_reported(run):
    outcome = run("File=exp\nSelect=CA==bbr\nCols=exp\ndoTable")
    assert outcome.column("exp") == ALL
    assert outcome.warnings == [
        "my.exp:2: Select: no column 'CA', its condition is always true; did you mean 'ca'?"
    ]


def test_a_quoted_value_may_hold_a_comma(shown):
    assert shown('Select=d=="a,b"', csv='exp,d\n1.0,"a,b"\n2.0,a\n') == ["1.0"]


def test_the_first_operator_of_the_list_found_anywhere_counts():
    assert selection.parse("a>b==c") == Clause("a>b", "==", ("c",))


def test_commas_bind_tighter_than_semicolons():
    a, b, c = (Clause(name, "==", ("1",)) for name in "abc")
    assert selection.parse("a==1,b==1;c==1") == Joined(";", (Joined(",", (a, b)), c))


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("rate<>5", "is not a range"),
        ("rate<>1:2:3", "is not a range"),
        ("rate>fast", "'fast', which is not a number"),
        ("ca=~/(/", "is not a regular expression"),
        ("(ca==bbr", r"a '\(' is not closed"),
        ("(ca==bbr))", r"'\)' without"),
    ],
)
def test_what_cannot_be_a_condition_is_an_error(clause, message):
    with pytest.raises(ScriptError, match=message):
        selection.parse(clause)


def test_rows_come_as_listed_from_all_rows(shown):
    assert shown("Select=ca==bbr\nRows=3.0, 1.0") == ["3.0", "1.0"]


def test_a_span_of_rows_takes_whole_experiments(shown):
    assert shown("selectRows=1..2") == ["1.0", "1.1", "2.0"]


def test_ids_match_as_written_and_a_missing_one_is_reported(run):
    outcome = run("File=exp\nselectExp=1,2.0\nCols=exp\ndoTable")
    assert outcome.column("exp") == ["2.0"]
    assert outcome.warnings == [
        "my.exp:2: Rows: no row has exp 1; ids match as written: 12.0, not 12"
    ]


def test_rows_all_is_every_row(shown):
    assert shown("Rows=1.0\nRows=All") == ALL


@pytest.mark.parametrize(
    ("keys", "ids"),
    [
        ("rate", ["1.1", "3.0", "4.0", "2.0", "1.0"]),
        ("-rate", ["1.0", "2.0", "4.0", "3.0", "1.1"]),
        ("ca,-rate", ["2.0", "4.0", "1.0", "3.0", "1.1"]),
        ("-ca", ["1.0", "1.1", "3.0", "2.0", "4.0"]),
        ("note", ["1.0", "4.0", "2.0", "1.1", "3.0"]),
        ("-note", ["2.0", "4.0", "1.0", "1.1", "3.0"]),
    ],
)
def test_sort(shown, keys, ids):
    assert shown(f"Sort={keys}") == ids


def test_sort_by_an_unknown_column_is_an_error(run):
    with pytest.raises(ScriptError, match="Sort: no column 'speed'"):
        run("File=exp\nSort=speed")
