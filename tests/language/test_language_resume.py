"""Claims about SWEEP cells that are passed over, judged by what an earlier run measured."""

from language_asked import run

from netesto.language.resume import PassedCell, PassedOver

SWEEP = """\
SWEEP ca=reno,bbr DO
    DO_CLIENT host=a server=b exp=COUNTER ca=$ca
    PROCESS_EXP
    ASSERT rate > 90: $ca is slow
DONE
"""

RENO = {"ca": "reno", "rep": "1"}
BBR = {"ca": "bbr", "rep": "1"}
SLOW = "rate > 90, but rate is 80 Mbit/s"


def passed_over(text, earlier):
    port = PassedOver(lambda cell: earlier.get(tuple(cell.values())))
    run(text, port)
    return port.cells


def test_a_claim_that_is_false_of_an_earlier_run_stays_false():
    earlier = {("reno", "1"): [{"exp": "7.0", "rate": "80"}], ("bbr", "1"): [{"rate": "95"}]}
    assert passed_over(SWEEP, earlier) == [
        PassedCell(
            RENO, ["test.nts:4: experiment 7: reno is slow: rate > 90, but rate is 80 Mbit/s"]
        ),
        PassedCell(BBR),
    ]


def test_a_cell_that_is_still_to_be_run_is_not_judged():
    assert passed_over(SWEEP, {("bbr", "1"): [{"rate": "80"}]}) == [
        PassedCell(BBR, [f"test.nts:4: experiment 2: bbr is slow: {SLOW}"])
    ]


def test_every_experiment_of_a_cell_has_its_own_columns():
    text = "SWEEP ca=reno DO\n" + 2 * (
        "DO_CLIENT host=a server=b exp=COUNTER\nPROCESS_EXP\nASSERT rate > 90\n"
    )
    earlier = {("reno", "1"): [{"rate": "95"}, {"rate": "80"}]}
    assert passed_over(f"{text}DONE\n", earlier) == [
        PassedCell(RENO, [f"test.nts:7: experiment 2: {SLOW}"])
    ]


def test_a_cell_within_one_that_is_passed_over_belongs_to_it():
    text = f"SWEEP a=1 DO\n{SWEEP}DONE\n"
    earlier = {("1", "1"): [{"rate": "95"}, {"rate": "80"}]}
    assert passed_over(text, earlier) == [
        PassedCell(
            {"a": "1", "rep": "1"},
            [f"test.nts:5: experiment 2: bbr is slow: {SLOW}"],
        )
    ]


def test_a_claim_behind_a_sweep_is_about_its_last_cell():
    earlier = {("reno", "1"): [{"rate": "80"}], ("bbr", "1"): [{"rate": "95"}]}
    text = SWEEP.replace("ASSERT rate > 90", "ASSERT rate > 1") + "ASSERT rate > 99\n"
    assert passed_over(text, earlier) == [
        PassedCell(RENO),
        PassedCell(BBR, ["test.nts:6: experiment 2: rate > 99, but rate is 95 Mbit/s"]),
    ]


def test_a_claim_behind_a_sweep_is_not_judged_if_its_last_cell_is_still_to_be_run():
    text = SWEEP.replace("ASSERT rate > 90", "ASSERT rate > 1") + "ASSERT rate > 99\n"
    assert passed_over(text, {("reno", "1"): [{"rate": "80"}]}) == [PassedCell(RENO)]
