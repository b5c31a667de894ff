"""Every error of a script has a remedy."""

import pytest
from language_asked import Asked, run


def remedy(script):
    port = Asked({"rate": "90", "ca": "cubic"})
    run(script, port)
    assert port.error is not None
    return port.error.remedy


@pytest.mark.parametrize(
    "expression",
    [
        "1/0", "sqrt(-1)", "log2(0)", "0**-1", "(-8)**0.5", "2**99999", "round(1,99)", "sqrt(1,2)",
        "", "1+", "foo", "10mbit*2", '"1"', "1e9999", "1 2", "(1", "9" * 1300,
    ],
)  # fmt: skip
def test_arithmetic_without_a_value_has_a_remedy(expression):
    assert remedy(f"SET_EXP a={expression}\n")


@pytest.mark.parametrize(
    "script",
    [
        "DONE\n",
        "ELSE\n",
        "IF 1 DO\nELSE\nELSE\nDONE\n",
        "IF 1 DO\nELSE ECHO a\nDONE\n",
        "IF 1 DO\nDONE ECHO a\n",
        "BEGIN\nEND\n",
        "BEGIN RUN\nEND RUN\n",
        "END_COMMENT\n",
        "IF 1 DO\n" * 60,
        "IF 1: " * 60 + "ECHO a\n",
        "SET_EXP a=1\nSET b=FOR\n$b a IN 1 DO\n",
    ],
)
def test_blocks_that_do_not_fit_have_a_remedy(script):
    assert remedy(script)


@pytest.mark.parametrize(
    "script",
    [
        "WAIT_FLOWS\n",
        "DO_SERVER order=0\n",
        "RAND_WAIT 3 1\n",
        "OTHER a=1,a=2\n",
        "SWEEP a= DO\nDONE\n",
        "SWEEP rep=1,2 DO\nDONE\n",
        "FOR i IN 1..9999999999999999999 DO\nDONE\n",
        "IF 5ms > 3mbit: ECHO a\n",
        "DO_CLIENT host=a server=b dur=5 omit=5 exp=COUNTER\n",
        "DO_CLIENT host=a server=b test=TCP_FLOWS\n",
        "DO_CLIENT host=a server=b test=TCP_MESSAGES size=1K arrivals=poisson\n",
        "DO_SERVER host=a\nPROCESS_EXP\nASSERT ca > 5\n",
    ],
)
def test_commands_that_are_wrong_have_a_remedy(script):
    assert remedy(script)


def test_transfers_that_cannot_all_begin_name_the_duration_that_they_need():
    flow = "DO_CLIENT host=a server=b test=TCP_FLOWS tool=native size=1K gap=0.2"
    assert remedy(f"{flow} count=101\n") == "dur=23 leaves time for all."


def test_transfers_of_which_the_last_begins_within_the_duration_are_taken():
    port = Asked({})
    run("DO_CLIENT host=a server=b test=TCP_FLOWS tool=native size=1K gap=0.2 count=100\n", port)
    assert (port.error, [each.name for each in port.commands]) == (None, ["DO_CLIENT"])


def test_what_is_not_one_word_has_a_remedy():
    assert remedy("DO_CLIENT host=a server=b ca=instances=3\n")
