"""How often a cell is repeated until it is certain enough, and how often that is right."""

import random
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pytest

from netesto.language.plan import Plan, SourceFile
from netesto.results import fields
from netesto.results.certainty import CellEnd, ColumnMean, sentences
from netesto.run import rounds
from netesto.run.rounds import Rounds, Row, is_narrow, mean_of
from netesto.run.settings import RunSettings

FIELDS = fields.parse("exp:one\nrate:sum\nrtt:avg\nca:all\n", source="fields.txt")
SETTINGS = RunSettings(libraries=(), definitions={}, max_iterations=100_000, seed=1)
ONE = "DO_CLIENT host=a server=b exp=COUNTER ca=$ca\nPROCESS_EXP\n"
SWEEP = f"SWEEP ca=reno reps=3..5 until=rate:2% DO\n{ONE}DONE\n"

# Narrow, and too wide for 2 %.
NARROW, WIDE = ["100", "100.1", "99.9"], ["100", "101", "99"]


@pytest.fixture
def plan() -> Iterator[Plan]:
    with SETTINGS.plan(SourceFile("a.nts", SWEEP), FIELDS) as made:
        yield made


def rows(values: Iterable[str], column: str = "rate") -> list[Row]:
    return [("ok", {column: value}) for value in values]


def ended(plan: Plan, found: Sequence[Row], *, is_simulated: bool = False) -> CellEnd:
    """The end of the only cell, whose repetitions have these rows."""
    made = Rounds(plan, is_simulated=is_simulated)
    for part, row in zip(plan.outer, found, strict=False):
        if made.needs(part):
            made.add(part, [row])
    [end] = made.ends()
    return end


def outcome(plan: Plan, found: Sequence[Row], *, is_simulated: bool = False) -> tuple[str, int]:
    end = ended(plan, found, is_simulated=is_simulated)
    return end.ended, end.repetitions


# ---- the rule ------------------------------------------------------------------------------------


def test_a_narrow_interval_is_certain_after_the_least_repetitions(plan):
    assert outcome(plan, rows([*NARROW, "0", "0"])) == ("certain", 3)


def test_the_interval_is_students_with_the_confidence_of_a_look(plan):
    [mean] = ended(plan, rows(NARROW)).means
    # t(0.99, 2) is 6.9646 (tables of Student's t), the standard deviation is 0.1.
    assert mean.half_percent == pytest.approx(6.9646 * 0.1 / 3**0.5, rel=1e-4)


def test_a_cell_is_repeated_until_it_is_certain(plan):
    assert outcome(plan, rows([*WIDE, "100", "0"])) == ("certain", 4)


def test_a_cell_that_stays_uncertain_ends_at_the_bound(plan):
    assert outcome(plan, rows(["100", "90", "110", "80", "120"])) == ("bound", 5)


def test_a_cell_that_has_not_ended_is_unfinished(plan):
    assert outcome(plan, rows(WIDE)) == ("unfinished", 3)


def test_values_without_a_spread_are_no_certainty_in_simulated_time(plan):
    assert outcome(plan, rows(["100"] * 5), is_simulated=True) == ("constant", 3)


def test_zeros_without_a_spread_are_constant_in_simulated_time(plan):
    assert outcome(plan, rows(["0"] * 5), is_simulated=True) == ("constant", 3)


def test_a_mean_of_zero_has_no_share_in_real_time(plan):
    assert outcome(plan, rows(["0"] * 5)) == ("bound", 5)


def test_a_column_without_a_value_is_never_certain(plan):
    assert outcome(plan, rows([""] * 5)) == ("bound", 5)


def test_a_missing_value_does_not_count(plan):
    assert outcome(plan, rows(["100", "", "100.1", "99.9", "0"])) == ("certain", 4)


@pytest.mark.parametrize("status", ["failed", "partial", "invalidated"])
def test_a_repetition_that_is_not_ok_does_not_count(status, plan):
    found = [("ok", {"rate": "100"}), (status, {"rate": "1"}), *rows(["100.1", "99.9", "0"])]
    end = ended(plan, found)
    assert (end.ended, end.repetitions, end.failed) == ("certain", 4, 1)


def test_a_repetition_without_all_of_its_experiments_does_not_count(plan):
    made = Rounds(plan, is_simulated=False)
    made.add(plan.outer[0], [])
    [end] = made.ends()
    assert (end.repetitions, end.failed) == (1, 1)


def test_every_column_must_be_certain():
    text = SWEEP.replace("rate:2%", "rate:2%,rtt:2%")
    with SETTINGS.plan(SourceFile("a.nts", text), FIELDS) as plan:
        found = [("ok", {"rate": "100", "rtt": value}) for value in [*WIDE, "100", "0"]]
        assert outcome(plan, found) == ("certain", 4)


def test_every_experiment_of_the_cell_must_be_certain():
    with SETTINGS.plan(SourceFile("a.nts", SWEEP.replace(ONE, ONE + ONE)), FIELDS) as plan:
        made = Rounds(plan, is_simulated=False)
        for part, narrow, wide in zip(plan.outer, NARROW, WIDE, strict=False):
            made.add(part, rows([narrow, wide]))
        [end] = made.ends()
    names = ["Exp (experiment 1 of the cell)", "Exp (experiment 2 of the cell)"]
    assert (end.ended, [mean.experiment for mean in end.means]) == ("unfinished", names)


def test_the_order_in_which_repetitions_end_changes_nothing():
    text = SWEEP.replace("reno", "reno,cubic").replace("3..5", "3..30")
    draw = random.Random(1)
    with SETTINGS.plan(SourceFile("a.nts", text), FIELDS) as plan:
        values = {part.index: f"{draw.gauss(100, 3):.3f}" for part in plan.outer}
        ends = set()
        for seed in range(20):
            made, left = Rounds(plan, is_simulated=False), [*plan.outer]
            shuffled = random.Random(seed)
            while can_run := [part for part in left if made.needs(part)]:
                part = shuffled.choice(can_run)
                left.remove(part)
                made.add(part, rows([values[part.index]]))
            assert all(made.needs(part) is False for part in left)
            ends.add(tuple((end.ended, end.repetitions) for end in made.ends()))
    assert len(ends) == 1


def test_whether_a_repetition_is_needed_is_unknown_until_earlier_ones_have_ended(plan):
    made = Rounds(plan, is_simulated=False)
    assert [made.needs(part) for part in plan.outer] == [True, True, True, None, None]


# ---- how often it is right -----------------------------------------------------------------------

LEAST, MOST, SHARE_PERCENT, CELLS = 3, 30, 2.0, 3000


def coverage(deviations: Iterable[Sequence[float]]) -> float:
    """The share of cells whose interval contains the mean, 100, where they end."""
    right = 0
    for values in deviations:
        for count in range(LEAST, MOST + 1):
            mean = mean_of(values[:count], SHARE_PERCENT)
            if is_narrow(mean, LEAST):
                break
        assert mean.mean is not None
        assert mean.half_percent is not None
        right += abs(mean.mean - 100) <= mean.half_percent * mean.mean / 100
    return right / CELLS


def normal(sd: float) -> Iterator[Sequence[float]]:
    drawn = np.random.default_rng(1).standard_normal((CELLS, MOST))
    yield from (100 + sd * drawn).tolist()


# Between them are cells that end after 5 repetitions in the mean, and at the bound.
@pytest.mark.parametrize("sd", [1.0, 2.0, 3.0, 4.0, 6.0])
def test_intervals_of_normal_values_contain_the_mean_in_93_percent_of_cells_and_more(sd):
    assert coverage(normal(sd)) >= 0.93


def test_intervals_of_95_percent_at_each_look_would_contain_it_too_seldom(monkeypatch):
    monkeypatch.setattr(rounds, "LOOK", 0.95)
    assert coverage(normal(4.0)) < 0.92


def test_intervals_of_skewed_values_contain_the_mean_more_seldom():
    drawn = np.random.default_rng(1).standard_exponential((CELLS, MOST))
    assert 0.83 < coverage((100 + 4 * (drawn - 1)).tolist()) < 0.89


# ---- in words ------------------------------------------------------------------------------------


def end_of(ended_: str, **given: object) -> CellEnd:
    mean = ColumnMean(
        experiment="", column="rate", share_percent=2, count=3, mean=94.12, half_percent=1.31
    )
    known: dict[str, object] = {"sweep": 1, "cell": {"ca": "reno"}, "ended": ended_}
    known |= {"repetitions": 7, "failed": 0, "means": (mean,)}
    return CellEnd(**(known | given))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (end_of("certain"), "ca=reno: certain after 7 repetitions: rate 94.12 ± 1.3 %"),
        (
            end_of("constant"),
            (
                "ca=reno: nothing random in this cell: the same values in 7 repetitions:"
                " rate 94.12 ± 1.3 %"
            ),
        ),
        (
            end_of("bound", failed=2),
            (
                "ca=reno: NOT certain after 7 repetitions, the bound, 2 of them not ok:"
                " rate 94.12 ± 1.3 %"
            ),
        ),
        (end_of("unfinished"), "ca=reno: not certain yet after 7 repetitions: rate 94.12 ± 1.3 %"),
    ],
)
def test_a_cell_says_how_it_ended(end, words):
    assert str(end) == words


def test_of_many_cells_those_that_are_not_certain_are_listed():
    ends = [end_of("certain", repetitions=count) for count in range(3, 33)] + [end_of("bound")]
    assert sentences(ends) == [
        "30 of 31 cells are certain after 3 to 32 repetitions",
        "ca=reno: NOT certain after 7 repetitions, the bound: rate 94.12 ± 1.3 %",
    ]


def test_a_mean_of_zero_is_said():
    mean = mean_of([0.0, 0.0, 0.0], 2, column="rate")
    assert str(mean) == "rate 0, of which there is no share"
