"""An error fits the screen: of a long line, message or chain, the relevant part is shown."""

from netesto.errors import Place, ScriptError


def test_the_caret_stands_under_its_word():
    error = ScriptError("wrong", place=Place("a.nts", 3, 6, 4, "WAIT soon"), remedy="Do this.")
    assert str(error) == "a.nts:3:6: wrong\n    WAIT soon\n         ^^^^\nDo this."


def test_a_tab_before_the_caret_keeps_its_width():
    error = ScriptError("wrong", place=Place("a.nts", 1, 7, 1, "\tWAIT x"))
    assert str(error).splitlines()[2] == "    \t     ^"


def test_of_a_long_line_the_part_around_the_caret_is_shown():
    text = "ECHO " + "a" * 5000 + " wrong " + "b" * 5000
    shown = str(ScriptError("m", place=Place("a.nts", 1, 5007, 5, text))).splitlines()
    caret = shown[2].index("^")
    assert (shown[1][caret : caret + 5], shown[2].count("^"), len(shown[1])) == ("wrong", 5, 166)


def test_a_caret_is_no_longer_than_what_is_shown():
    text = "WAIT " + "9" * 5000
    shown = str(ScriptError("m", place=Place("a.nts", 1, 6, 5000, text))).splitlines()
    assert len(shown[2]) == len(shown[1])


def test_of_a_long_message_both_ends_are_shown():
    text = str(ScriptError("begin " + "x" * 5000 + " end"))
    assert (text[:6], text[-4:], len(text)) == ("begin ", " end", 403)


def test_of_a_long_chain_both_ends_are_shown():
    chain = [f"a.nts:{number}: RUN m" for number in range(1, 101)]
    shown = str(ScriptError("deep", chain=chain)).splitlines()
    assert (len(shown), shown[1], shown[11], shown[-1]) == (
        22,
        "  in a.nts:100: RUN m",
        "  … 80 more …",
        "  in a.nts:1: RUN m",
    )
