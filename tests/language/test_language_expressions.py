"""SET_EXP, IF conditions, ASSERT claims."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from netesto.language import claims
from netesto.language.claims import verdict
from netesto.language.expressions import Arithmetic, compare, text_of
from netesto.language.scope import MisuseError, Scope
from netesto.language.steps import ColumnKind


def value(expression, **variables):
    scope = Scope()
    scope.variables.update(variables)
    return Arithmetic(expression, scope)({})


def test_paper_example(asked):
    """
    SET dur=60
    SET_EXP dur2=dur/3
    SET_EXP delay2=$dur2+3
    ECHO $dur2 $delay2
    """
    assert asked.echoed == ["20 23"]


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("1+2*3", "7"),
        (" ( 1 + 2 ) * 3 ", "9"),
        ("-7/2", "-4"),
        ("7/-2", "-4"),
        ("2--3", "5"),
        ("10-2-3", "5"),
        ("-2**2", "-4"),
        ("2**3**2", "512"),
        ("2**-1", "0.5"),
        ("7//2", "3"),
        ("-7%3", "2"),
        ("1.5*2", "3.0"),
        ("7.0/2", "3.5"),
        ("-7.5//2", "-4.0"),
        ("-7.5%2", "0.5"),
        ("0.1+0.2", "0.3"),
        (".5+1", "1.5"),
        ("1/3.0", "0.333333333333333"),
        ("min(3,1.5,2)", "1.5"),
        ("max(3,1)", "3"),
        ("abs(-3)", "3"),
        ("round(2.5)", "3"),
        ("round(-2.5)", "-3"),
        ("round(1.2345, 2)", "1.23"),
        ("floor(-1.5)", "-2"),
        ("ceil(1.2)", "2"),
        ("log2(8)", "3.0"),
        ("sqrt(2)", "1.4142135623731"),
    ],
)
def test_value_of(expression, result):
    assert value(expression) == result


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("1/0", "division by zero"),
        ("1.5//0", "division by zero"),
        ("1%0", "division by zero"),
        ("$x+1", "undefined variable $x"),
        ("x+1", "undefined variable x"),
        ("9**9**9", "the result has too many digits"),
        ("sqrt(0-1)", "sqrt of a negative number"),
        ("log2(0)", "log2 of a number that is not positive"),
        ("round(9**30,2)", "the function has no value here"),
        ("10.0**-5000", "the result has too many digits"),
        ("0**-1", "0 ** -1 has no value"),
        ("cos(1)", "unknown function cos"),
        ("abs(1,2)", "abs takes a different number of arguments"),
    ],
)
def test_has_no_value(expression, message):
    with pytest.raises(MisuseError) as caught:
        value(expression)
    assert caught.value.message == message


def test_variable_that_holds_an_expression_is_put_in_as_text():
    assert value("$a*2", a="1+2") == "5"


def test_variable_that_holds_a_negative_number_is_that_number():
    assert value("10-$a**2", a="-3") == "1"


def test_digits_may_be_put_together():
    assert value("1$a+$a$a", a="2") == "34"


def test_result_may_have_a_computed_name_and_see_arguments(asked):
    """
    BEGIN m
    SET_EXP double$n=2*x
    END m
    RUN m x=4 n=1
    ECHO $double1
    """
    assert asked.echoed == ["8"]


def test_bare_name_that_is_no_number_is_named():
    with pytest.raises(MisuseError) as caught:
        value("a+1", a="x y")
    assert caught.value.message == "a is 'x y', which is not a number"


def test_misplaced_operator_is_pointed_at(asked):
    """
    SET_EXP x=1 + / 2
    """
    assert asked.message == "1:15: invalid arithmetic '1 + / 2': '/' is unexpected here"


numbers = st.integers(-(10**9), 10**9)


@given(numbers, numbers, st.sampled_from(["+", "-", "*", "/", "//", "%"]))
def test_whole_numbers_compute_as_python_does(left, right, operator):
    scope = Scope()
    values = {"a": left, "b": right or 1}
    scope.variables.update({name: str(number) for name, number in values.items()})
    expected = eval(f"a {'//' if operator == '/' else operator} b", {}, values)
    assert Arithmetic(f"$a {operator} b", scope)({}) == str(expected)


trees = st.recursive(
    st.integers(0, 99).map(str),
    lambda inner: st.one_of(
        st.builds("{} {} {}".format, inner, st.sampled_from("+-*/%"), inner),
        st.builds("({})".format, inner),
        st.builds("-{}".format, inner),
    ),
    max_leaves=12,
)


def by_python(text):
    """The value of whole-number arithmetic, a division rounding down; None without one."""
    try:
        return str(eval(text.replace("/", "//")))
    except ZeroDivisionError:
        return None


def by_netesto(text):
    try:
        return value(text)
    except MisuseError as error:
        if error.message != "division by zero":
            raise
        return None


@given(trees)
@example("8 / 4 / 2")
@example("7 * 3 / 2")
@example("7 / 2 * 3")
@example("9 / -2 % 4")
def test_precedence_is_pythons(text):
    assert by_netesto(text) == by_python(text)


@given(st.decimals(-(10**6), 10**6, places=4))
def test_decimal_is_shown_as_one_and_reads_back(number):
    assert text_of(number) == value(text_of(number))


# ---- IF --------------------------------------------------------------------------------------


def test_number_that_is_not_zero_is_true(asked):
    """
    SET zero=0
    SET empty=
    IF 1: ECHO one
    IF 0: ECHO nought
    IF 0.0: ECHO nought
    IF 0ms: ECHO nought
    IF $zero: ECHO nought
    IF $empty: ECHO nothing
    IF $undefined: ECHO undefined
    IF ${undefined}: ECHO undefined
    IF text: ECHO text
    IF -1: ECHO less
    """
    assert asked.echoed == ["one", "text", "less"]


def test_one_line_ifs_chain(asked):
    """
    BEGIN m
    ECHO ran $x
    END m
    SET a=1
    IF $a: IF_DEF m: RUN m x=1
    IF $a: IF_DEF n: RUN n x=2
    IF $b: IF_DEF m: RUN m x=3
    """
    assert asked.echoed == ["ran 1"]


def test_numbers_compare_with_their_units(asked):
    """
    SET rate=100mbit
    IF $rate == 0.1gbit: ECHO same
    IF 10ms < 0.1s AND 0 < 10ms: ECHO less
    IF 1K == 1000: ECHO K
    IF 1Ki == 1024: ECHO Ki
    IF 1m == 60s: ECHO minute
    IF 1M == 1000000: ECHO million
    IF 9 < 10: ECHO number
    """
    assert asked.echoed == ["same", "less", "K", "Ki", "minute", "million", "number"]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("20 > 100ms", "1:4: 20 has no unit, but 100ms is a time"),
        ("100ms == 0.1", "1:13: 0.1 has no unit, but 100ms is a time"),
        ("10mbit >= 10", "1:14: 10 has no unit, but 10mbit is a rate"),
    ],
)
def test_a_number_without_a_unit_beside_a_time_or_a_rate_is_an_error(run_with, condition, message):
    assert run_with(f"IF {condition}: ECHO never").message == message


def test_a_number_beside_a_size_is_bytes(asked):
    """
    IF 65536 == 64Ki AND 64001 > 64KB: ECHO bytes
    """
    assert asked.echoed == ["bytes"]


@pytest.mark.parametrize("written", ["$n+1", "2*$n", "$n-$n", "${n}/1", "$n%2", "$dur*2"])
def test_arithmetic_that_is_compared_is_an_error(run_with, written):
    asked = run_with(f"SET n=3\nSET dur=5ms\nIF {written} == 4: ECHO never")
    sum_ = written.replace("$n", "3").replace("${n}", "3").replace("$dur", "5ms")
    assert asked.message == f"3:4: {written} is not computed: it is the text {sum_!r}"


def test_text_that_is_like_arithmetic_is_text(asked):
    """
    SET n=3
    SET cpu=2+4
    SET host=rack
    IF $cpu == 2+4: ECHO processors
    IF "$n+1" == 3+1: ECHO quoted
    IF $host-$n == rack-3: ECHO host
    """
    assert (asked.echoed, asked.warned) == (["processors", "quoted", "host"], [])


def test_what_looks_right_in_a_condition_and_is_not_is_a_warning(asked):
    """
    SET n=3
    FOR i IN 1..2 DO
    IF $n-3: ECHO true, as it is a text
    IF $undefined > 1: ECHO never
    IF NOT $undefined: ECHO zero
    IF a-$undefined == x: ECHO never
    IF $rate > 10mbps: ECHO never
    DONE
    IF 80mbit == 10mbps: ECHO bytes
    """
    assert asked.error is None
    assert asked.warned == [
        "3: IF: $n-3 is not computed: it is the text '3-3'",
        "4: IF: undefined variable $undefined counts as 0",
        "5: IF: undefined variable $undefined counts as 0",
        "6: IF: undefined variable $undefined stays in the text",
        "7: IF: undefined variable $rate counts as 0",
        "7: IF: 10mbps is 80 Mbit/s: as in tc, bps is bytes per second; 10mbit is in bits",
        "9: IF: 10mbps is 80 Mbit/s: as in tc, bps is bytes per second; 10mbit is in bits",
    ]


def test_other_values_compare_as_text(asked):
    """
    SET ca=bbr
    SET none=
    IF $ca == bbr: ECHO same
    IF $ca != "cubic": ECHO other
    IF $none == "": ECHO empty
    IF a9 > a10: ECHO text
    IF $undefined == 0: ECHO undefined
    """
    assert asked.echoed == ["same", "other", "empty", "text", "undefined"]


def test_and_or_not_and_parentheses(asked):
    """
    IF 1 OR 0 AND 0: ECHO a
    IF (1 OR 0) AND 0: ECHO b
    IF NOT 0 AND 1: ECHO c
    IF NOT (1 == 2 OR 0): ECHO d
    IF ANDROID == ANDROID AND NOTHING: ECHO e
    """
    assert asked.echoed == ["a", "c", "d", "e"]


def test_colon_in_quotes_does_not_end_the_condition(asked):
    """
    SET host=fe80::1
    IF $host == "fe80::1": ECHO a
    """
    assert asked.echoed == ["a"]


def test_block_form(asked):
    """
    FOR x IN 1..3 DO
    IF $x == 1 DO
        ECHO one
    ELSE IF $x == 2 DO
        ECHO two
    ELSE
        ECHO many
    DONE
    DONE
    """
    assert asked.echoed == ["one", "two", "many"]


def test_if_def_of_a_variable_sees_arguments(asked):
    """
    BEGIN m
    IF_DEF $x: ECHO $x
    IF_DEF ${y}: ECHO $y
    END m
    RUN m x=1
    RUN m y=2
    """
    assert asked.echoed == ["1", "2"]


def test_single_equals_suggests_two(asked):
    """
    IF $a = 1: ECHO a
    """
    assert asked.message == "1:7: invalid condition: '=' is unexpected here"
    assert asked.error.remedy == "Compare with ==."


def test_if_def_without_its_underscore_is_suggested(asked):
    """
    IF DEF preServer: RUN preServer
    """
    assert asked.error.remedy == "Did you mean IF_DEF?"


def test_block_cannot_stand_in_a_one_line_if(asked):
    """
    IF 1: FOR x IN a,b DO
    """
    assert asked.message == "1:7: FOR is not allowed in a one-line IF"


def test_if_without_a_colon_is_an_error(asked):
    """
    IF 1 ECHO a
    """
    assert asked.message == "1:1: this IF has neither a `:` with a command nor a DO at its end"


@given(st.integers(-(10**12), 10**12), st.integers(-(10**12), 10**12))
def test_whole_numbers_compare_as_numbers(left, right):
    assert compare("<", str(left), str(right)) is (left < right)


def test_conditions_know_the_units_of_commands(asked):
    """
    SET rate=1gbps
    IF $rate > 500mbit: ECHO gbps
    IF 64KB > 9K: ECHO KB
    IF 10ms < 1s: ECHO ms
    IF 1MiB > 1MB: ECHO MiB
    IF 10Mbit/s == 10M: ECHO M
    IF 1e3 == 1K: ECHO 1e3
    """
    assert asked.echoed == ["gbps", "KB", "ms", "MiB", "M", "1e3"]


def test_a_rate_and_a_time_do_not_compare(asked):
    """
    SET rate=10mbit
    IF $rate > 5s: ECHO never
    """
    assert asked.message == "2:12: 10mbit is a rate and 5s is a time: not comparable"


def test_minutes_are_no_millions(asked):
    """
    IF 10m > 9M: ECHO never
    """
    assert asked.error.remedy == "Write M for millions; m are minutes."


def test_a_number_and_a_text_have_no_order(asked):
    """
    IF 500mbits > 9: ECHO never
    """
    assert asked.message == "1:4: cannot compare the text '500mbits' with a number"


def test_a_claim_does_not_compare_a_rate_with_a_time(findings):
    """
    BEGIN never
    ASSERT rate - 1ms > 5
    ASSERT 2 * rtt < 9mbit
    ASSERT min(minLatency, 5) < 1K
    END never
    """
    assert findings == [
        "2:8: error: rate is a rate and 1ms is a time: not comparable",
        "3:12: error: rtt is a time and 9mbit is a rate: not comparable",
        "4:12: error: minLatency is a time and 1K is a size or a rate: not comparable",
    ]


# ---- ASSERT ----------------------------------------------------------------------------------

COLUMNS = {
    "rate": "94.1",
    "rateMin": "40",
    "rateMax": "54",
    "ca": "cubic/bbr",
    "p99Latency": "4200",
    "dur": "60+...",
    "retransPkts%": "0.5",
    "client-tx-packets": "1000",
    "rtt": "",
    "status": "ok",
}


@pytest.mark.parametrize(
    ("claim", "failed"),
    [
        ("rate > 90mbit", []),
        ("rate > 0.1gbit", ["rate > 0.1gbit, but rate is 94.1 Mbit/s"]),
        ("rate > 90", []),
        (
            "rateMin > 0.8 * rateMax",
            ["rateMin > 0.8 * rateMax, but rateMin is 40 Mbit/s, rateMax is 54 Mbit/s"],
        ),
        ("2 * rateMin > 70mbit", []),
        ("p99Latency < 5ms", []),
        ("p99Latency < 5000", []),
        ("retransPkts% < 1", []),
        ("client-tx-packets >= 1000", []),
        ('ca == "cubic/bbr"', []),
        ("dur != 60", []),
        ("status == ok AND rate > 1", []),
        (
            "status != ok OR NOT rate",
            ["status != ok OR NOT rate, but status is ok, rate is 94.1 Mbit/s"],
        ),
        ("rtt < 100: no rtt at all", ["no rtt at all: rtt < 100, but rtt is empty"]),
        ("abs(rateMax - rateMin) < 15", []),
        ("rate > $least", []),
        ("rate < $least: below $least", ["below 90: rate < 90, but rate is 94.1 Mbit/s"]),
        ("(rate > 90mbit)", []),
    ],
)
def test_claim(run_with, claim, failed):
    text = f"SET least=90\nDO_SERVER host=a\nPROCESS_EXP\nASSERT {claim}"
    asked = run_with(text, columns=COLUMNS)
    assert (asked.failed, asked.error) == ([f"4: experiment 1: {each}" for each in failed], None)


FACTORS = {"rate": "18.9", "rtt": "30000", "delay": "10ms", "cwnd": "20", "bw": "20mbit", "n": "1K"}


@pytest.mark.parametrize(
    ("claim", "failed"),
    [
        ("rate < bw", []),
        ("rate > bw * 0.9", []),
        ("rate > bw", ["rate > bw, but rate is 18.9 Mbit/s, bw is 20mbit"]),
        ("rtt > 2 * delay", []),
        ("rtt < delay", ["rtt < delay, but rtt is 30000 µs, delay is 10ms"]),
        ("cwnd < n", []),
        ("rate < n", ["rate < n, but rate is 18.9 Mbit/s, n is 1K"]),
    ],
)
def test_the_value_of_a_factor_is_compared_with_its_unit(run_with, claim, failed):
    text = f"OTHER bw=20mbit,n=1K\nDO_SERVER host=a\nPROCESS_EXP\nASSERT {claim}"
    asked = run_with(text, columns=FACTORS)
    assert (asked.failed, asked.error) == ([f"4: experiment 1: {each}" for each in failed], None)


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ("rtt < bw", "4:8: rtt is a time and bw is a rate: not comparable"),
        ("rtt < 2 * n", "4:8: rtt is a time and n is a size or a rate: not comparable"),
    ],
)
def test_a_factor_that_counts_something_else_is_not_compared(run_with, claim, message):
    text = f"OTHER bw=20mbit,n=1K\nDO_SERVER host=a\nPROCESS_EXP\nASSERT {claim}"
    assert run_with(text, columns=FACTORS).message == message


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ("rate > bw - 2", "4:20: 2 has no unit, but bw is a rate"),
        ("abs(rate - bw) > 2", "4:25: 2 has no unit, but rate is a rate"),
        ("rate > 20mbit + 0.5 OR ca", "4:24: 0.5 has no unit, but 20mbit is a rate"),
        ("max(rate, 10) > 5mbit", "4:18: 10 has no unit, but rate is a rate"),
        ("rtt < 5 + 1ms", "4:14: 5 has no unit, but 1ms is a time"),
        ("max(1, 5ms, rate) > 1mbit", "4:15: 5ms is a time and rate is a rate: not comparable"),
    ],
)
def test_numbers_with_and_without_a_unit_are_not_added(run_with, claim, message):
    text = f"OTHER bw=20mbit\nDO_SERVER host=a\nPROCESS_EXP\nASSERT {claim}"
    assert run_with(text, columns=COLUMNS | FACTORS).message == message


@pytest.mark.parametrize(
    "claim",
    [
        "rate - 10mbit > 0",
        "rate / bw > 0.9",
        "dur < 10s + 5",
        "bw > 10mbit + 5",
        "min(rate, 9) > 5",
        "(rate > 9) == (bw > 10mbit)",
    ],
)
def test_numbers_without_a_unit_that_mean_the_same_with_one_are_added(run_with, claim):
    text = f"OTHER bw=20mbit\nDO_SERVER host=a\nPROCESS_EXP\nASSERT {claim}"
    asked = run_with(text, columns=FACTORS | {"dur": "9"})
    assert (asked.failed, asked.error) == ([], None)


def test_unknown_column_is_an_error(run_with):
    asked = run_with("DO_SERVER host=a\nPROCESS_EXP\nASSERT raet > 1", columns=COLUMNS)
    assert asked.message == "3:8: unknown column raet"
    assert asked.error.remedy == "Did you mean rate?"


def test_column_that_is_no_number_has_no_order(run_with):
    asked = run_with("DO_SERVER host=a\nPROCESS_EXP\nASSERT dur > 5", columns=COLUMNS)
    assert asked.message == "3:12: cannot compare the text '60+...' with a number"


def test_assert_needs_an_experiment(asked):
    """
    ASSERT rate > 1
    """
    assert asked.message == "1:1: ASSERT before any PROCESS_EXP"


def test_assert_is_not_judged_without_columns(asked):
    """
    DO_SERVER host=a
    PROCESS_EXP
    ASSERT rate > 1
    """
    assert (asked.failed, asked.error) == ([], None)


@pytest.mark.parametrize(
    ("claim", "decided"),
    [
        ("rate >= 0", True),
        ("rate > -1 OR rate == 5", None),  # only numbers are compared, and -1 is computed
        ("0 > rate", False),
        ("rate > 0", None),
        ("rate > 90 AND rate < 80", False),
        ("rate > 90mbit AND rate < 80", False),
        ("rate > 80mbit AND rate < 90mbit", None),
        ("rate > 80 OR rate <= 90", True),
        ("NOT rate >= 0", False),
        ("rate > 5 AND rtt > 5", None),
        ("rate >= 0 AND rtt >= 0ms", True),
        ("udpLost% <= 100", True),
        ("udpLost% > 99.9", None),
        ("fairness > 1", False),
        ("fairness == 1", None),
        ("oneWayMin >= 0", None),
        ("startSkew >= 0", None),
        ("bw >= 0", None),
        ("rateMax / rateMin < 2", None),
        ("rate == rate", None),
        ("status == 0", False),
        ("status == ok", None),
        ("status", True),
        ("1 < 2", True),
        ("1 > 2", False),
    ],
)
def test_a_claim_that_no_measurement_can_change_is_known(claim, decided):
    numbers = (
        "rate", "rtt", "fairness", "oneWayMin", "startSkew", "rateMax", "rateMin", "udpLost%",
    )  # fmt: skip
    kinds: dict[str, ColumnKind] = dict.fromkeys(numbers, "number")
    kinds |= {"status": "text", "bw": "any"}
    assert verdict(claims.claim(claim, {}), kinds) is decided


def test_a_claim_that_no_measurement_can_change_is_a_warning(asked):
    """
    DO_CLIENT host=a server=b exp=COUNTER
    PROCESS_EXP
    FOR n IN 1..2 DO
    ASSERT udpLost% > 100: never
    ASSERT $n > 0
    DONE
    """
    assert asked.warned == [
        "4: ASSERT udpLost% > 100: this cannot hold",
        "5: ASSERT 1 > 0: this holds for any measurement",
    ]
