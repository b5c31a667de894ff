"""exp is a pair of whole numbers: 1.10 is group 10 of experiment 1, and not its group 1."""

import re
import tracemalloc

import numpy as np
import pytest

from netesto.report.expscript import ids as ids_
from netesto.report.expscript.ids import Ids

# Twelve groups, and an experiment behind.
NUMBERS = ["1.0", *(f"1.{group}" for group in range(1, 13)), "2.0", "2.1"]
CSV = "exp,rate\n" + "".join(f"{exp},{100 + place}\n" for place, exp in enumerate(NUMBERS))
# As other programs have it: a number.
FLOATS = "exp,rate\n0.5,1\n0.25,2\n1.1,3\n1.50,4\n"


@pytest.fixture
def chosen(run):
    """The ids that a script selects, in their order."""

    def ids(script: str, csv: str = CSV) -> list[str]:
        return run(f"File=exp\n{script}\nCols=exp\ndoTable", csv=csv).column("exp")

    return ids


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("exp==1.10", ["1.10"]),
        ("exp==1.1", ["1.1"]),
        ("exp==1", ["1.0"]),
        ("exp==2.10", []),
        ("exp!=1.1,exp<1.3", ["1.0", "1.2"]),
        ("exp in {1.1, 1.12}", ["1.1", "1.12"]),
        ("exp>1.9", ["1.10", "1.11", "1.12", "2.0", "2.1"]),
        ("exp>=1.12,exp<=2", ["1.12", "2.0"]),
        ("exp>1.20", ["2.0", "2.1"]),
        ("exp<>1.8:1.11", ["1.9", "1.10"]),
        ("exp[has].1", ["1.1", "2.1"]),
        ("exp[has].0", ["1.0", "2.0"]),
        ("exp[hasnot].0,exp>1.11", ["1.12", "2.1"]),
        ("exp=='1.10'", ["1.10"]),
    ],
)
def test_conditions_compare_ids_as_pairs(chosen, condition, ids):
    assert (chosen(f"Select={condition}") if ids else []) == ids


@pytest.mark.parametrize(
    ("expression", "ids"),
    [
        ("exp == 1.10", ["1.10"]),
        ("1.1 == exp", ["1.1"]),
        ('exp == "1.10"', ["1.10"]),
        ("exp != 1.10 and exp > 1.8 and exp <= 1.12", ["1.9", "1.11", "1.12"]),
        ("1.11 < exp and exp < 2.0", ["1.12"]),
        ("exp == 2", ["2.0"]),
        ("exp >= 2", ["2.0", "2.1"]),
    ],
)
def test_new_columns_compare_ids_as_pairs(chosen, expression, ids):
    assert chosen(f"NewCol = is = {expression}\nSelect=is==1") == ids


def test_new_columns_compare_other_numbers_called_exp_as_numbers(chosen):
    assert chosen("NewCol = is = exp == 1.5 or exp < 0.3\nSelect=is==1", FLOATS) == ["0.25", "1.50"]


@pytest.mark.parametrize("condition", ["$e == 1.10", "1.10 == ${e}"])
def test_if_compares_ids_of_a_loop_as_pairs(chosen, condition):
    script = "Set = found=none\nFor = e in distinct(exp)\nIf = {}\nSet = found=$found/$e\nEndIf\n"
    assert chosen(
        f"{script.format(condition)}EndFor\nSelect=exp=='1.0'\nNewCol = x = \"$found\"\n"
        "Select=x=='none/1.10'"
    ) == ["1.0"]


def test_if_compares_numbers_of_another_loop_as_numbers(chosen):
    script = (
        "Set = found=none\nFor = e in 1.1, 1.10\nIf = $e == 1.10\nSet = found=$found/$e\nEndIf\n"
    )
    assert chosen(
        f"{script}EndFor\nSelect=exp=='1.0'\nNewCol = x = \"$found\"\nSelect=x=='none/1.1/1.10'"
    ) == ["1.0"]


def test_a_selection_and_a_sort_are_in_the_order_of_groups(chosen):
    csv = "exp,rate\n" + "".join(f"{exp},1\n" for exp in reversed(NUMBERS))
    assert chosen("Select=rate>0", csv) == NUMBERS
    assert chosen("Sort=exp", csv) == NUMBERS
    assert chosen("Sort=-exp", csv) == NUMBERS[::-1]


def test_rows_of_a_span_are_those_of_its_experiments(chosen):
    assert chosen("Rows=1.10, 2..2") == ["1.10", "2.0", "2.1"]


def test_an_average_by_exp_does_not_merge_the_first_and_the_tenth(run):
    outcome = run("File=exp\nAverage=exp\nCols=exp,avgCnt\ndoTable", csv=CSV)
    assert outcome.table == [[exp, "1"] for exp in NUMBERS]


def test_a_whole_experiment_is_still_told_by_its_part_before_the_point(run):
    outcome = run("File=exp\nAverage=exp[int]\nCols=exp,avgCnt\ndoTable", csv=CSV)
    assert outcome.table == [["1.0", "13"], ["2.0", "2"]]


def test_the_order_stays_when_rows_are_left_out_and_added(chosen):
    script = "append=exp.csv\nSelect=exp[hasnot].0,exp>1.8"
    assert chosen(script) == [
        *("1.9", "1.10", "1.11", "1.12", "2.1"),
        *(f"101.{group}" for group in range(1, 13)), "102.1",
    ]  # fmt: skip


def test_decimals_do_not_turn_the_first_group_into_the_tenth(run):
    outcome = run("format=2\nFile=exp\nSelect=rate<102\nCols=exp,rate\ndoTable", csv=CSV)
    assert outcome.table == [["1.0", "100.00"], ["1.1", "101.00"]]


def test_ids_along_x_are_categories_in_their_order(run):
    outcome = run("File=exp\nplotX=exp\nplotY1=rate\ndoPlot", csv=CSV)
    svg = outcome.plots[0].svg
    places = [svg.index(f">{exp}<") for exp in NUMBERS]
    assert places == sorted(places)


def test_a_series_of_the_first_group_has_not_the_tenth(run):
    csv = "exp,note,rate\n" + "".join(f"{exp},at {exp},5\n" for exp in NUMBERS)
    script = "File=exp\nplotX=note\nplotY1=rate\nplotSeries=exp;1.1=first,1.12\ndoPlot"
    svg = run(script, csv=csv).plots[0].svg
    assert re.findall(r">at ([^<]+)</text>", svg) == ["1.1", "1.12"]


def test_small_multiples_are_in_the_order_of_groups(run):
    script = "File=exp\nplotX=rate\nplotY1=rate\nplotFacet=exp\nSelect=exp>1.8,exp<2\ndoPlot"
    svg = run(script, csv=CSV).plots[0].svg
    assert re.findall(r">(?:exp *[=:] *)?(1\.\d+)</text>", svg) == ["1.9", "1.10", "1.11", "1.12"]


def test_the_page_sorts_ids_as_pairs(run):
    html = run("File=exp\nCols=exp,rate\ndoTable", csv=CSV).html
    assert 'data-name="exp" data-order="pairs">exp</th>' in html


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("exp==1.10", ["1.1"]),
        ("exp<1.2", ["0.25", "0.5", "1.1"]),
        ("exp==1.5", ["1.50"]),
        ("exp[has].5", ["0.5", "1.50"]),
    ],
)
def test_ids_that_are_numbers_are_compared_as_numbers(chosen, condition, ids):
    assert chosen(f"Select={condition}", FLOATS) == ids


def test_whole_numbers_and_texts_are_ids_as_ever(chosen):
    assert chosen("Select=exp<11", "exp,rate\n11,1\n10,2\n9,3\n") == ["9", "10"]
    assert chosen("Select=exp==a.1", "exp,rate\na.1,1\nb,2\n") == ["a.1"]


class File:
    def __init__(self, *texts: str) -> None:
        self.texts = texts
        self.numbers = np.array([float(text) for text in texts])


@pytest.mark.parametrize(
    ("texts", "names", "are_pairs"),
    [
        (("1.0", "1.1", "1.2"), (), True),
        (("1.1", "1.2"), (), True),
        (("1.0", "7.0"), (), True),
        (("1.0", "1.10"), (), False),
        (("1.0", "1.10"), ("exp", "expNumber"), True),
        (("1.05", "1.5"), ("exp", "expNumber"), False),
        (("1", "2"), (), False),
        (("0.25", "0.5"), (), False),
    ],
)
def test_ids_are_pairs_where_groups_are_counted_or_the_file_is_ours(texts, names, are_pairs):
    assert Ids.of(File(*texts), names).are_pairs is are_pairs


def test_a_million_ids_of_one_digit_are_not_read_as_texts():
    class Unread(File):
        @property
        def texts(self):
            pytest.fail("the texts are read")

        @texts.setter
        def texts(self, texts):
            pass

    assert Ids.of(Unread("1.0", "1.1", "2.0"), ()).mislead is False


def test_the_pattern_of_many_ids_takes_no_memory_for_each():
    written = "1.10\0" * 100_000
    tracemalloc.start()
    try:
        assert ids_._PAIRS.fullmatch(written) is not None
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
