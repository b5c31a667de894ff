"""Whatever a script says, only a ScriptError comes out of running, printing or checking it."""

from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from language_asked import LIBRARY, Asked, run

from netesto.errors import ScriptError
from netesto.language.check import check

# Pieces of sound scripts, which the tests cut and mix.
SEEDS = Path(__file__).with_name("fuzz_seeds.nts").read_text().split("# ----\n")
SNIPPETS = [
    "$", "${", "}", '"', "\\", "\\\n", "\n", "#", "=", ",", ":", "..", "(", ")", " ", "-", "*",
    "**", "DO\n", "DONE\n", "END\n", "END m\n", "BEGIN m\n", "IF ", "IF 1: ", "ELSE\n", "FOR x IN ",
    "RUN m ", "$a", "${b}", "9" * 40, "//0", "\0", "é", "\t", "\r", "\ue000", "999999999999999",
    "1..2", "SET a=$a$b\n", "AND", "NOT ", "%", "1e9", "COUNTER", "exp=0", "\u0663", "\u00b2",
]  # fmt: skip


@st.composite
def mutated(draw):
    text = "".join(draw(st.lists(st.sampled_from(SEEDS), min_size=1, max_size=3)))
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(text)))
        cut = draw(st.integers(0, 5))
        text = text[:at] + draw(st.sampled_from(SNIPPETS)) + text[at + cut :]
    return text


COLUMNS = {"rate": "90", "ca": "cubic/bbr", "rtt": ""}


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(mutated())
@example("SET a=" + "(" * 5000 + "\nSET_EXP b=$a\n")
@example("SET_EXP b=" + "-" * 5000 + "1\n")
@example("IF " + "NOT " * 5000 + "1: ECHO a\n")
@example("IF 1: " * 5000 + "ECHO a\n")
@example("FOR x IN 1 DO\n" * 5000 + "DONE\n" * 5000)
@example("SET_EXP a=" + "9" * 5000 + "\n")
@example("SET a=" + "9" * 5000 + "\nSET_EXP b=$a+1\n")
@example("WAIT 1e999\nWAIT nan\n")
@example("DO_CLIENT host=a server=b dur=inf\n")
@example("DO_CLIENT host=a server=b req=1e400\n")
@example("SOURCE \0\n")
@example("SOURCE /\n")
@example("SOURCE " + "a" * 5000)
@example("SET_EXP a=\u0663+\u00b2\nFOR x IN \u0661..\u0663 DO\nDONE\n")
@example("SET a=\u00b2\nSET_EXP b=$a+1\n")
@example("SET a=\u0663\nIF $a > 2: ECHO a\n")
@example("BEGIN m\nRUN m,999999999\nEND m\nRUN m,999999999\n")
@example("SWEEP a=1..999999999 b=1..999999999 DO\nDONE\n")
@example("SET_EXP a=10.0**300\nSET_EXP b=$a*$a\nSET_EXP c=1.5**99999999999\n")
def test_only_script_errors_come_out(text):
    port = Asked(COLUMNS)
    run(text, port, max_iterations=300)
    assert port.error is None or isinstance(port.error, ScriptError)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(mutated())
def test_check_finds_and_never_fails(tmp_path_factory, text):
    path = Path(tmp_path_factory.getbasetemp()) / "fuzz.nts"
    path.write_text(text)
    found = check([path], library_path=[LIBRARY], definitions={})
    assert all(each.message for each in found)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_a_script_or_a_script_error(text):
    port = Asked()
    run(text, port)
    assert port.error is None or isinstance(port.error, ScriptError)


@settings(deadline=None)
@given(mutated())
def test_every_error_has_a_place_within_its_line(text):
    port = Asked()
    run(text, port, max_iterations=300)
    place = port.error.place if port.error else None
    assert place is None or 1 <= place.column <= len(place.text) + 1
