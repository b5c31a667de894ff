"""Variables: substitution, scope, SET and DEFAULT."""


def test_longest_name_wins(asked):
    """
    SET a=1
    SET ab=2
    ECHO $ab $a.b ${a}b
    """
    assert asked.echoed == ["2 1.b 1b"]


def test_value_is_scanned_again(asked):
    """
    SET a=<$b>
    SET b=1
    ECHO $a
    SET b=2
    ECHO $a
    """
    assert asked.echoed == ["<1>", "<2>"]


def test_variable_that_refers_to_itself_is_an_error(asked):
    """
    SET a=$b
    SET b=x$a
    ECHO $a
    """
    assert asked.message == "3:6: variable $b refers to itself"


def test_circle_of_variables_is_shown(run_with):
    asked = run_with("ECHO ${a}", definitions={"a": "$b", "b": "x$c", "c": "$a"})
    assert asked.message == "1:6: variable $a refers to itself: $a → $b → $c → $a"


def test_command_word_may_come_from_a_variable(asked):
    """
    SET say=ECHO
    SET both="ECHO hi"
    $say a
    $both there
    """
    assert asked.echoed == ["a", "hi there"]


def test_structure_may_not_come_from_a_variable(asked):
    """
    SET loop=FOR
    $loop x
    """
    assert asked.message == "2:1: FOR cannot come from a variable"


def test_line_is_filled_in_before_it_is_cut_into_words(asked):
    """
    SET more="dur=5 ca=bbr"
    DO_CLIENT host=a server=b $more
    """
    assert asked.commands[0].arguments["dur"] == "5"
    assert asked.commands[0].arguments["ca"] == "bbr"


def test_quoted_variable_stays_one_word(asked):
    """
    BEGIN m
    ECHO <$x>
    END m
    SET text="a  b"
    RUN m x="$text"
    """
    assert asked.echoed == ["<a b>"]


def test_empty_variable_makes_no_word(asked):
    """
    SET none=
    DO_CLIENT host=a server=b $none dur=3
    """
    assert asked.commands[0].flow.duration_s == 3


def test_quotes_and_hashes_in_a_value_mean_nothing(asked):
    r"""
    SET a="\"x # y"
    ECHO $a
    """
    assert asked.echoed == ['"x # y']


def test_undefined_variable_is_left_in_a_text(asked):
    """
    ECHO $nothing
    """
    assert asked.echoed == ["$nothing"]


def test_undefined_variable_is_reported_by_the_command_that_needs_it(asked):
    """
    WAIT $nothing
    """
    assert asked.message == "1:6: undefined variable $nothing"


def test_undefined_variable_is_found_behind_another(asked):
    """
    SET a=$nothing
    DO_SERVER host=$a
    """
    assert asked.message == "2:16: undefined variable $nothing"


def test_set_without_equals_is_an_error(asked):
    """
    SET a
    """
    assert asked.message == "1:5: SET: missing ="


def test_set_of_nothing_is_the_empty_text(asked):
    """
    SET a=
    ECHO <$a>
    """
    assert asked.echoed == ["<>"]


def test_value_is_everything_after_the_first_equals(asked):
    """
    SET a=b=c=d
    ECHO $a
    """
    assert asked.echoed == ["b=c=d"]


def test_set_of_two_words_asks_for_quotes(asked):
    """
    SET a=b c
    """
    assert asked.message == "1:9: SET: unexpected argument 'c'"
    assert "quote a value" in asked.error.remedy


def test_set_keeps_the_blanks_that_a_variable_brings(asked):
    """
    SET a="x y"
    SET b=$a
    ECHO "$b"
    """
    assert asked.echoed == ["x y"]


def test_name_of_a_variable_may_be_computed(asked):
    """
    SET n=2
    SET client$n=h
    ECHO $client2
    """
    assert asked.echoed == ["h"]


def test_default_sets_only_what_is_undefined(asked):
    """
    SET a=1
    DEFAULT a=2
    DEFAULT b=3
    ECHO $a $b
    """
    assert asked.echoed == ["1 3"]


def test_definitions_come_before_the_script(run_with):
    asked = run_with(
        """
        DEFAULT a=1
        DEFAULT b=$a
        ECHO $a $b
        """,
        definitions={"a": "7"},
    )
    assert asked.echoed == ["7 7"]


def test_macro_arguments_hide_globals(asked):
    """
    BEGIN m
    SET x=global
    ECHO $x
    END m
    SET x=before
    RUN m x=own
    ECHO $x
    """
    assert asked.echoed == ["own", "global"]


def test_set_in_a_macro_is_global(asked):
    """
    BEGIN m
    SET y=1
    ECHO $y
    END m
    RUN m
    ECHO $y
    """
    assert asked.echoed == ["1", "1"]


def test_macro_does_not_see_its_callers_arguments(asked):
    """
    BEGIN inner
    ECHO $x
    END inner
    BEGIN outer
    RUN inner
    RUN inner x=$x
    END outer
    RUN outer x=1
    """
    assert asked.echoed == ["$x", "1"]


def test_argument_that_is_undefined_is_not_passed(asked):
    """
    BEGIN m
    WAIT $t
    END m
    RUN m t=$t
    """
    assert asked.message == "4:9: undefined variable $t"


def test_undefined_variable_is_reported_where_a_run_passed_it(asked):
    """
    BEGIN inner
    SET seconds=$t
    WAIT $seconds
    END inner
    BEGIN outer
    FOR i IN 1 DO
    RUN inner t=$dur
    DONE
    END outer
    SET length=5
    RUN outer dur=$lenght
    """
    assert str(asked.error) == (
        "test.nts:11:15: undefined variable $lenght\n"
        "    RUN outer dur=$lenght\n"
        "                  ^^^^^^^\n"
        "Did you mean length?\n"
        "The macro outer needs its value at test.nts:3."
    )


def test_undefined_variable_is_traced_through_macros_that_hand_it_on(asked):
    """
    BEGIN inner
    WAIT $t
    END inner
    BEGIN outer
    RUN inner t=${t}
    END outer
    FOR i IN 1 DO
    RUN outer t="$t"
    DONE
    """
    assert asked.message == "8:14: undefined variable $t"
    assert asked.error.chain == ("test.nts:7: FOR i (i=1)",)
    assert asked.error.remedy == (
        "Set it before: SET t=value.\nThe macro outer needs its value at test.nts:2."
    )


def test_undefined_variable_that_no_run_passed_is_reported_where_it_stands(asked):
    """
    BEGIN inner
    WAIT $t
    END inner
    BEGIN outer
    RUN inner x=$t
    END outer
    RUN outer
    """
    assert asked.message == "2:6: undefined variable $t"
    assert asked.error.chain == ("test.nts:7: RUN outer", "test.nts:5: RUN inner (x=$t)")


def test_undefined_variable_of_a_macro_is_not_blamed_on_another_of_its_name(asked):
    """
    BEGIN inner
    WAIT $t
    END inner
    BEGIN outer
    RUN inner t=$x
    END outer
    RUN outer y=$x
    """
    assert asked.message == "5:13: undefined variable $x"


def test_undefined_variable_in_a_global_is_reported_where_it_is_needed(asked):
    """
    BEGIN m
    WAIT $late
    END m
    SET late=$never
    RUN m x=1
    """
    assert asked.message == "2:6: undefined variable $never"


def test_body_is_filled_in_each_time_it_runs(asked):
    """
    FOR i IN 1..2 DO
    ECHO $i $j
    SET j=$i
    DONE
    """
    assert asked.echoed == ["1 $j", "2 1"]


def test_doubling_value_ends_in_an_error(asked):
    """
    SET a=xxxxxxxxxxxxxxxx
    FOR i IN 1..100 DO
    SET a=$a$a
    DONE
    """
    assert asked.message == "3:5: the value of a would be longer than 1,000,000 characters"


def test_variables_that_multiply_end_in_an_error(run_with):
    lines = [f"SET a{n}=$a{n + 1}$a{n + 1}" for n in range(60)]
    asked = run_with("\n".join([*lines, "SET a60=", "ECHO $a0"]))
    assert asked.error.message == "$a0 refers to more than 100,000 other variables"


def test_a_default_in_a_macro_is_that_of_its_run(asked):
    """
    BEGIN Short
    DEFAULT dur=5
    ECHO short $dur
    END Short
    BEGIN Long
    DEFAULT dur=60
    ECHO long $dur
    RUN Inner
    END Long
    BEGIN Inner
    ECHO inner $dur
    END Inner
    RUN Short,2
    RUN Long
    RUN Long dur=7
    DEFAULT dur=20
    RUN Short
    """
    assert asked.echoed == [
        *("short 5", "short 5", "long 60", "inner $dur", "long 7", "inner $dur", "short 20"),
    ]


def test_a_default_in_a_file_that_a_macro_sources_is_global(run_with, tmp_path):
    (tmp_path / "settings").write_text("DEFAULT dur=5\n")
    asked = run_with("BEGIN m\nSOURCE settings\nEND m\nRUN m\nECHO $dur\n", library_path=[tmp_path])
    assert asked.echoed == ["5"]


def test_a_default_of_a_macro_makes_way_for_what_is_set_after_it(asked):
    """
    BEGIN m
    DEFAULT n=1
    SET_EXP n=n+1
    ECHO $n
    DEFAULT i=0
    FOR i IN 8..9 DO
    ECHO $i
    DONE
    END m
    RUN m
    ECHO $n $i
    """
    assert (asked.echoed, asked.warned) == (["2", "8", "9", "2 9"], [])


def test_setting_an_argument_of_the_running_macro_is_a_warning(asked):
    """
    BEGIN m
    SET dur=5
    SET_EXP n=2+3
    ECHO $dur $n
    END m
    RUN m dur=1 n=2
    RUN m n=2
    """
    hidden = "an argument of the macro has this name and hides it"
    assert (asked.echoed, asked.warned) == (
        ["1 2", "5 2"],
        [f"2: SET dur: {hidden}", f"3: SET_EXP n: {hidden}"],
    )


def test_the_classic_default_of_the_argument_exp_is_no_mistake(asked):
    """
    BEGIN m
    SET exp=COUNTER
    DO_SERVER host=a exp=$exp
    SET exp=PREV
    DO_SERVER host=b exp=$exp
    END m
    RUN m exp=7
    RUN m exp=COUNTER
    """
    assert (asked.sent, asked.warned) == (
        ["DO_SERVER a exp=7", "DO_SERVER b exp=7", "DO_SERVER a exp=1", "DO_SERVER b exp=2"],
        ["4: SET exp: an argument of the macro has this name and hides it"],
    )
