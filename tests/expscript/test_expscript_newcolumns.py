import pytest

from netesto.errors import ScriptError
from netesto.report.expscript import newcolumns

CSV = "exp,rateMax,rateMin,p99Latency,retransPkts%,client-rx,ca\n1.0,20,10,5,1,2,cubic\n"


@pytest.fixture
def computed(run):
    """The cell that an expression gives in the one row of CSV."""

    def cell(expression: str, csv: str = CSV) -> str:
        (row,) = run(f"File=exp\nNewCol = x = {expression}\nCols=x\ndoTable", csv=csv).table
        return row[0]

    return cell


@pytest.mark.parametrize(
    ("expression", "cell"),
    [
        ("rateMax/rateMin", "2.0"),
        ("rateMax-rateMin", "10.0"),
        ("(rateMax+rateMin)/2", "15.0"),
        ("rateMax/rateMin-1", "1.0"),
        ("1-rateMax/rateMin", "-1.0"),
        ("100", "100.0"),
        ("20/3", "6.66666666667"),
        ("rateMax*rateMin", "200.0"),
        ("1+2*3", "7.0"),
        ("8/4/2", "1.0"),
        ("-rateMax", "-20.0"),
        ("3-(-rateMax)", "23.0"),
        ("rateMax/(rateMin+10)", "1.0"),
        ("(rateMax)", "20.0"),
        ("rateMax/(rateMin-10)", "**"),
        ("1+rateMax/0", "**"),
        ("ca", "*"),
        ("ca*2", "*"),
        ("ca & rateMax", "cubic20"),
        ("p99Latency+1", "6.0"),
        ("retransPkts%*2", "2.0"),
        ("client-rx/2", "1.0"),
        ("`rateMax`-1", "19.0"),
        ("min(rateMax, rateMin, 7)", "7.0"),
        ("max(rateMax, 7)", "20.0"),
        ("mean(1, 2) + sum(1, 2)", "4.5"),
        ("round(20/3, 1)", "6.7"),
        ("round(2.4) + floor(2.7) + ceil(2.1) + abs(-1)", "8.0"),
        ("sqrt(16) + log(exp(1)) + log2(8) + log10(100)", "10.0"),
        ("log(0-1)", "*"),
        ('if(ca == "cubic", "loss", "model")', "loss"),
        ("if(rateMax > 10 and not rateMin == 10, 1, 2)", "2.0"),
        ("if(rateMax != 20 or rateMin <= 10, 1, 2)", "1.0"),
        ('upper(ca) & lower("X")', "CUBICx"),
        ('number("100mbit") + 1', "101.0"),
        ('contains(ca, "ub") + startswith(ca, "x") + matches(ca, "^c.*c$")', "2.0"),
        ("1e3", "1000.0"),
        (".5", "0.5"),
    ],
)
def test_an_expression_gives(computed, expression, cell):
    assert computed(expression) == cell


def test_a_missing_operand_makes_every_cell_a_star_and_is_reported(run):
    outcome = run("File=exp\nNewCol = x = rateMax - -1\nCols=x\ndoTable", csv=CSV)
    assert outcome.table == [["*"]]
    assert outcome.warnings == [
        (
            "my.exp:2: NewCol x: missing operand before '-' in 'rateMax - -1'; every cell is '*'; "
            "write a negative number as (-1)"
        )
    ]


def test_an_operator_at_the_end_is_left_out_and_reported(run):
    outcome = run("File=exp\nNewCol = x = rateMax +\nCols=x\ndoTable", csv=CSV)
    assert outcome.table == [["20.0"]]
    assert outcome.warnings == ["my.exp:2: NewCol x: '+' at the end is left out"]


def test_an_empty_expression_is_0_everywhere_and_is_reported(run):
    outcome = run("File=exp\nNewCol = x =\nCols=x\ndoTable", csv=CSV)
    assert outcome.table == [["0.0"]]
    assert outcome.warnings == ["my.exp:2: NewCol x: empty expression; every cell is 0.0"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("x", "'x' has no expression"),
        ("ca = 1", "column 'ca' exists already"),
        ("x = speed + 1", "no column 'speed' for the expression 'speed [+] 1'"),
        ("x = rateMax rateMin", "missing operator before 'rateMin'"),
        ("x = 1.2.3", "malformed number '1.2.3'"),
        ("x = rateMax ^ 2", r"unexpected '\^'"),
        ("x = (rateMax", r"a '\(' is not closed"),
        ("x = rateMax)", r"unexpected '\)'"),
        ("x = log(1, 2)", r"log\(\) takes 1 value, not 2"),
        ("x = if(1)", r"if\(\) takes 3 values, not 1"),
        ('x = matches(ca, "(")', "not a regular expression"),
        ("x = `a`", "no column 'a'"),
        ("x = ()", "an operand|unexpected"),
    ],
)
def test_what_is_no_expression_is_an_error(run, value, message):
    with pytest.raises(ScriptError, match=message):
        run(f"File=exp\nNewCol = {value}", csv=CSV)


OURS = "exp,fairness,rateMax,rateMin,status\n1.0,0.9,20,10,ok\n"


@pytest.mark.parametrize(
    "lines",
    [
        "NewCol = fairness = rateMax / rateMin\n",
        "NewColField1=rateMax\nNewColOp=NewColDiv\nNewColField2=rateMin\nNewColName=fairness\n",
    ],
)
def test_the_fairness_of_our_results_gives_way_to_the_one_of_classic_scripts(run, lines):
    outcome = run(f"File=exp\n{lines}doTable", csv=OURS)
    assert (outcome.headings, outcome.table) == (
        ["exp", "rateMax (Mbit/s)", "rateMin (Mbit/s)", "status", "fairness"],
        [["1.0", "20", "10", "ok", "2.0"]],
    )  # fmt: skip
    assert outcome.warnings == []


@pytest.mark.parametrize(
    ("csv", "lines"),
    [
        (OURS, "NewCol = fairness = 1\nNewCol = fairness = 2"),
        (OURS.replace("status", "note"), "NewCol = fairness = 1"),
    ],
)
def test_any_other_column_of_that_name_stays(run, csv, lines):
    with pytest.raises(ScriptError, match="column 'fairness' exists already"):
        run(f"File=exp\n{lines}", csv=csv)


def test_the_longest_name_that_exists_is_meant(computed):
    csv = "exp,a,b,a-b\n1.0,5,3,7\n"
    assert (computed("a-b", csv), computed("a - b", csv)) == ("7.0", "2.0")


def test_several_columns_from_one_line(run):
    outcome = run("File=exp\nNewCol = x = rateMax+1; y = x*2\nCols=x,y\ndoTable", csv=CSV)
    assert outcome.table == [["21.0", "42.0"]]


def test_columns_are_computed_for_rows_that_are_not_selected(run):
    outcome = run("File=exp\nSelect=ca==bbr\nNewCol = x = rate/2\nSelect=all\nCols=exp,x\ndoTable")
    assert outcome.column("x") == ["47.25", "20.25", "45.0", "25.0", "40.25"]


def test_with_formatting_a_quotient_has_two_decimals_at_least(run):
    outcome = run("format=0\nFile=exp\nNewCol = q = 20/3; s = 20.4+0.2\nCols=q,s\ndoTable", csv=CSV)
    assert outcome.table == [["6.67", "21"]]


def test_format_after_the_file_sets_decimals_of_later_columns_only(run):
    script = "format=1\nFile=exp\nformat=3\nNewCol = x = 20/3\nCols=rateMax,x\ndoTable"
    assert run(script, csv=CSV).table == [["20.0", "6.667"]]


# ---- the older spelling ------------------------------------------------------------------


def older(first: str, operator: str, second: str, name: str = "x") -> str:
    return f"NewColField1={first}\nNewColOp={operator}\nNewColField2={second}\nNewColName={name}\n"


@pytest.mark.parametrize(
    ("first", "operator", "second", "cells"),
    [
        ("rateMax", "NewColDiv", "rateMin", ["1.24", "1.02", "4.0", "1.0", "**"]),
        ("rateMax", "NewColMult", "100", ["2490.0", "2050.0", "4000.0", "500.0", "3000.0"]),
        ("rateMax", "+", "rateMin", ["44.9", "40.5", "50.0", "10.0", "30.0"]),
        ("rateMax", "NewColSub", "rateMin", ["4.89", "0.5", "30.0", "0.0", "30.0"]),
        ("ca", "NewColConcat", "group", ["cubic_0", "cubic_1", "bbr_0", "cubic_0", "bbr_0"]),
        ("ca", "/", "2", ["*", "*", "*", "*", "*"]),
    ],
)
def test_the_older_spelling_gives(run, first, operator, second, cells):
    script = f"File=exp\n{older(first, operator, second)}Cols=x\ndoTable"
    assert run(script).column("x") == cells


def test_the_older_spelling_cuts_by_size(run):
    csv = "exp,a\n1.0,99.999\n1.5,9.2\n2.0,999.99\n3.0,1234.567\n4.0,-1.999\n"
    script = f"File=exp\n{older('a', '+', '0')}Cols=x\ndoTable"
    assert run(script, csv=csv).column("x") == ["99.99", "9.2", "999.9", "1234.0", "-1.99"]


def test_the_older_spelling_with_formatting_rounds(run):
    script = f"format=0\nFile=exp\n{older('rateMax', '/', 'rateMin')}Cols=x\ndoTable"
    assert run(script).column("x") == ["1.24", "1.02", "4.00", "1.00", "**"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (older("speed", "/", "1"), "'speed' is neither a column nor a number"),
        (older("", "/", "1"), "NewColField1 is not set"),
        (older("rate", "NewColPow", "1"), "unknown operation 'NewColPow'"),
        (older("rate", "/", "1", "ca"), "column 'ca' exists already"),
        (older("rate", "/", "1", ""), "has no name"),
    ],
)
def test_what_the_older_spelling_cannot_do_is_an_error(run, lines, message):
    with pytest.raises(ScriptError, match=message):
        run(f"File=exp\n{lines}")


def test_every_function_is_described_by_its_least_and_most_arguments():
    assert [name for name, f in newcolumns.FUNCTIONS.items() if not 1 <= f.least <= f.most] == []
