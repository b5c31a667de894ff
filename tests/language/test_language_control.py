"""Macros, loops, SOURCE, END, SWEEP, the budget of loops, and the chain in errors."""

import pytest
from language_asked import Asked, run

from netesto.language.draft import rounded_counter


def test_macro_runs_as_often_as_asked(asked):
    """
    SET n=2
    BEGIN m
    ECHO $x
    END m
    RUN m,3 x=a
    RUN m,$n x=b
    RUN m,0 x=c
    """
    assert asked.echoed == ["a", "a", "a", "b", "b"]


def test_list_of_ca_runs_once_for_each_within_each_repetition(asked):
    """
    BEGIN m
    ECHO $ca
    END m
    RUN m,2 ca=bbr,cubic
    """
    assert asked.echoed == ["bbr", "cubic", "bbr", "cubic"]


def test_other_lists_are_passed_whole(asked):
    """
    BEGIN m
    ECHO $reqs
    END m
    RUN m reqs=1K,2K
    """
    assert asked.echoed == ["1K,2K"]


def test_repetitions_must_be_a_number(asked):
    """
    BEGIN m
    END m
    RUN m,many
    """
    assert asked.message == "3:6: invalid number of repetitions 'many'"


def test_words_of_run_that_are_no_arguments_are_left_out_with_a_warning(asked):
    """
    SET none=
    BEGIN m
    ECHO $x $y
    END m
    FOR i IN 1..2 DO
    RUN m x=1 \\ 3 $none y=2
    DONE
    """
    assert asked.echoed == ["1 2", "1 2"]
    assert asked.warned == [
        "6: '\\\\' is not name=value: RUN ignores it",
        "6: '3' is not name=value: RUN ignores it",
    ]


def test_value_with_blanks_is_passed_on_in_quotes_only(run_with):
    text = """
        BEGIN inner
        ECHO $x
        END inner
        BEGIN outer
        RUN inner x={}
        END outer
        RUN outer x="a b"
        """
    quoted, split = run_with(text.format('"$x"')), run_with(text.format("$x"))
    assert quoted.echoed == ["a b"]
    assert split.message == "5:1: 'b' is not name=value"
    assert split.error.remedy.endswith('name="$variable".')


def test_undefined_variable_among_the_arguments_of_run_is_an_error(asked):
    """
    BEGIN m
    END m
    RUN m $options
    """
    assert asked.message == "3:7: undefined variable $options"


def test_argument_of_run_needs_a_name(asked):
    """
    BEGIN m
    END m
    RUN m x = 1
    """
    assert asked.message == "3:10: '=' is an argument without a name"


def test_unknown_macro_suggests_the_nearest(asked):
    """
    BEGIN TwoFlowBaseStream
    END TwoFlowBaseStream
    RUN TwoFlowBasStream
    """
    assert asked.message == "3:5: unknown macro TwoFlowBasStream"
    assert asked.error.remedy == "Did you mean TwoFlowBaseStream?"


def test_other_letter_case_of_a_macro_works_and_warns_once(asked):
    """
    BEGIN TwoFlowBaseStream
    ECHO ran
    END TwoFlowBaseStream
    RUN twoFlowBaseStream,2
    RUN twoFlowBaseStream
    """
    assert asked.echoed == ["ran", "ran", "ran"]
    assert asked.warned == ["4: macro twoFlowBaseStream is spelled TwoFlowBaseStream"]


def test_macro_may_be_defined_again_with_a_warning(asked):
    """
    BEGIN m
    ECHO a
    END m
    BEGIN m
    ECHO b
    END m
    RUN m
    """
    assert asked.echoed == ["b"]
    assert asked.warned == ["4: macro m is defined again (first at test.nts:1)"]


def test_macro_may_not_take_a_commands_name(asked):
    """
    BEGIN WAIT
    END WAIT
    """
    assert asked.message == "1:7: macro name WAIT is the name of a command"


def test_end_of_another_macro_names_both(asked):
    """
    BEGIN one
    END two
    """
    assert asked.message == "2:5: END two inside macro one"


def test_macros_do_not_nest(asked):
    """
    BEGIN one
    BEGIN two
    """
    assert asked.message == "2:1: a macro cannot be defined inside macro one"


def test_macro_must_be_ended(asked):
    """
    BEGIN one
    END
    """
    assert asked.message == "1:1: unterminated BEGIN"


def test_loop_must_be_done_before_its_macro_ends(asked):
    """
    BEGIN one
    FOR x IN a DO
    END one
    """
    assert asked.message == "2:1: unterminated FOR"


def test_stray_done_is_an_error(asked):
    """
    DONE
    """
    assert asked.message == "1:1: DONE without a FOR, SWEEP or IF … DO"


def test_what_stands_behind_the_end_of_a_script_is_not_read(asked):
    """
    ECHO a
    END  # of it
    DONE
    he said "no
    BEGIN m
    """
    assert asked.error is None
    assert asked.echoed == ["a"]


def test_for_takes_lists_variables_and_ranges(asked):
    """
    SET list=c,d
    FOR x in a,b DO
    ECHO $x
    DONE
    FOR x IN $list,e DO
    ECHO $x
    DONE
    FOR x IN 1..3 DO
    ECHO $x
    DONE
    FOR x IN 10..1,-4 DO
    ECHO $x
    DONE
    """
    assert asked.echoed == ["a", "b", "c", "d", "e", "1", "2", "3", "10", "6", "2"]


def test_list_is_evaluated_each_time_the_loop_starts(asked):
    """
    SET list=a
    FOR n IN 1..2 DO
    FOR x IN $list DO
    SET list=b,c
    ECHO $x
    DONE
    DONE
    """
    assert asked.echoed == ["a", "b", "c"]


def test_loop_variable_keeps_its_last_value(asked):
    """
    FOR x IN a,b DO
    DONE
    ECHO $x
    """
    assert asked.echoed == ["b"]


def test_empty_list_runs_nothing(asked):
    """
    SET list=
    FOR x IN $list DO
    ECHO $x
    DONE
    """
    assert asked.echoed == []


def test_impossible_range_is_an_error(asked):
    """
    FOR x IN 3..1 DO
    ECHO $x
    DONE
    """
    assert asked.message == "1:10: range 3..1 never ends"
    assert asked.error.remedy == "From 3 to 1 the step must be negative: 3..1,-1"


def test_impossible_range_is_an_error_without_a_body_too(asked):
    """
    FOR x IN 1..3,0 DO
    DONE
    """
    assert asked.message == "1:10: range 1..3,0 never ends"


def test_ranges_in_a_list_are_an_error(asked):
    """
    FOR x IN 1..3,5..7 DO
    ECHO $x
    DONE
    """
    assert asked.message == "1:10: 1..3,5..7 is neither a list nor a range"


def test_range_to_a_name_is_an_error(asked):
    """
    SET n=3
    FOR x IN 1..n DO
    ECHO $x
    DONE
    """
    assert asked.message == "2:10: 1..n is neither a list nor a range"


def test_undefined_list_is_an_error(asked):
    """
    FOR x IN $clients DO
    ECHO $x
    DONE
    """
    assert asked.message == "1:10: undefined variable $clients"


def test_list_with_blanks_is_an_error(asked):
    """
    FOR x IN a b DO
    ECHO $x
    DONE
    """
    assert asked.message == "1:10: the list 'a b' contains spaces"


def test_loops_have_a_budget(run_with):
    asked = run_with("FOR x IN 1..100 DO\nSET a=1\nDONE", max_iterations=99)
    assert asked.message == "1:1: more than 99 iterations of loops in this script"


def test_empty_loops_have_a_budget_too(run_with):
    asked = run_with("FOR x IN 1..1000000000 DO\nDONE", max_iterations=99)
    assert asked.message == "1:1: more than 99 iterations of loops in this script"


def test_repetitions_of_a_macro_count_as_passes_of_a_loop(run_with):
    asked = run_with("BEGIN m\nEND m\nRUN m,999999999", max_iterations=99)
    assert asked.message == "3:1: more than 99 iterations of loops in this script"


def test_budget_is_of_the_whole_run(run_with):
    text = "BEGIN m\nFOR x IN 1..10 DO\nDONE\nEND m\nRUN m,9"
    enough, short = run_with(text, max_iterations=99), run_with(text, max_iterations=98)
    assert enough.error is None
    assert short.message == "2:1: more than 98 iterations of loops in this script"


def test_macro_that_runs_itself_is_stopped(asked):
    """
    BEGIN m
    IF 1: RUN m
    END m
    RUN m
    """
    assert asked.message == "2:1: more than 100 nested macros, loops and files"


def test_end_stops_the_script_within_macros_and_starts_a_new_ten(run_with):
    asked = run_with(
        """
        BEGIN m
        FOR x IN a,b DO
        IF 1: END
        DONE
        END m
        RUN m
        ECHO never
        """,
        counter=13,
    )
    assert (asked.echoed, asked.counter) == ([], 19)


def test_file_may_end_without_end(run_with):
    asked = run_with("ECHO a", counter=13)
    assert asked.counter == 13


def test_next_counter_begins_a_new_ten(run_with):
    asked = run_with("NEXT_COUNTER\nDO_SERVER host=a exp=COUNTER", counter=13)
    assert asked.commands[0].exp == 20


def test_rounding_always_skips_a_number():
    assert [rounded_counter(number) + 1 for number in (0, 13, 19)] == [10, 20, 30]


def test_source_looks_beside_the_file_first(tmp_path, run_with):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "one").write_text("SOURCE two\n")
    (tmp_path / "sub" / "two").write_text("ECHO beside\n")
    (tmp_path / "two").write_text("ECHO library\n")
    asked = run_with(f"SOURCE {tmp_path}/sub/one", library_path=[tmp_path])
    assert asked.echoed == ["beside"]


def test_source_reads_each_file_once(tmp_path, run_with):
    (tmp_path / "one").write_text("ECHO one\nSOURCE two\n")
    (tmp_path / "two").write_text("ECHO two\nSOURCE one\n")
    asked = run_with("SOURCE one\nSOURCE two\nSOURCE one", library_path=[tmp_path])
    assert asked.echoed == ["one", "two"]


def test_end_in_a_sourced_file_stops_the_script(tmp_path, run_with):
    (tmp_path / "one").write_text("ECHO one\nEND\n")
    asked = run_with("SOURCE one\nECHO two", library_path=[tmp_path])
    assert asked.echoed == ["one"]


def test_source_in_a_macro_does_not_see_its_arguments(tmp_path, run_with):
    (tmp_path / "one").write_text("ECHO $x\n")
    asked = run_with("BEGIN m\nSOURCE one\nEND m\nRUN m x=1", library_path=[tmp_path])
    assert asked.echoed == ["$x"]


def test_missing_source_suggests_the_nearest(asked):
    """
    SOURCE inlb
    """
    assert asked.message == "1:8: SOURCE inlb: no such file"
    assert asked.error.remedy == "Did you mean inlib?"


def test_missing_source_suggests_no_folder(tmp_path, run_with):
    (tmp_path / "macro").mkdir()
    asked = run_with("SOURCE macros", library_path=[tmp_path])
    assert asked.error.remedy == f"Looked in ., {tmp_path}."


def test_source_that_is_no_text_is_a_script_error(tmp_path, run_with):
    (tmp_path / "one").write_bytes(b"ECHO \xff\n")
    asked = run_with("SOURCE one", library_path=[tmp_path])
    assert asked.message == "1:8: SOURCE one: not a script: not UTF-8 text, line 1"


def test_error_shows_the_chain_that_led_to_it(tmp_path, run_with):
    library = tmp_path / "macros"
    library.write_text("BEGIN m\nFOR s IN a,b DO\nWAIT $x\nSET x=soon\nDONE\nEND m\n")
    asked = run_with("SET x=0\nSOURCE macros\nRUN m y=1", library_path=[tmp_path])
    assert str(asked.error) == (
        "test.nts:3: 'soon' is not a time (examples: 20, 1.5, 200ms, 2m)\n"
        "    RUN m (y=1)\n"
        f"  at {library}:3:6\n"
        "    WAIT $x\n"
        "         ^^\n"
        f"  in {library}:2: FOR s (s=b)"
    )


def test_error_in_a_macro_of_the_same_file_is_reported_at_its_own_line(asked):
    """
    BEGIN m
    WAIT soon
    END m
    RUN m
    """
    assert asked.message.startswith("2:6: 'soon' is not a time")
    assert str(asked.error).splitlines()[-1] == "  in test.nts:4: RUN m"


def test_error_in_a_library_is_reported_at_the_innermost_run_of_the_script(tmp_path, run_with):
    (tmp_path / "macros").write_text("BEGIN one\nRUN two\nEND one\nBEGIN two\nWAIT soon\nEND two\n")
    script = "SOURCE macros\nBEGIN mine\nRUN one\nEND mine\nRUN mine"
    asked = run_with(script, library_path=[tmp_path])
    told = [line for line in str(asked.error).splitlines() if "test.nts" in line]
    assert told == [
        "test.nts:3: 'soon' is not a time (examples: 20, 1.5, 200ms, 2m)",
        "  in test.nts:5: RUN mine",
    ]


def test_error_in_a_sourced_file_shows_who_sourced_it(tmp_path, run_with):
    (tmp_path / "one").write_text("DONE\n")
    asked = run_with("SOURCE one", library_path=[tmp_path])
    assert asked.error.chain == ("test.nts:1: SOURCE one",)


def test_unknown_command_suggests_what_was_meant(asked):
    """
    DO CLIENT host=a
    """
    assert asked.message == "1:1: unknown command DO CLIENT"
    assert asked.error.remedy == "Did you mean DO_CLIENT?"


def test_command_in_small_letters_is_suggested(asked):
    """
    echo a
    """
    assert asked.error.remedy == "Did you mean ECHO?"


def test_argument_at_the_start_of_a_line_asks_for_a_continuation(asked):
    """
    RUN
    client1=a
    """
    assert asked.message == "1:1: RUN: not enough arguments"


def test_line_that_begins_with_an_argument_asks_for_a_continuation(asked):
    """
    ECHO a
    client1=a client2=b
    """
    assert asked.message == "2:1: unknown command client1=a"
    assert asked.error.remedy == "If it is an argument, end the line above with \\."


def test_wrong_line_that_is_not_reached_does_no_harm(asked):
    """
    IF 0: NO_SUCH_THING
    IF 0: SET_EXP x=(
    ECHO a
    """
    assert asked.echoed == ["a"]


# ---- SWEEP -----------------------------------------------------------------------------------


def test_sweep_runs_the_cross_product_as_often_as_asked(asked):
    """
    SWEEP ca=bbr,cubic n=1..2 reps=2 DO
    ECHO $ca $n
    DONE
    """
    assert asked.echoed == ["bbr 1", "bbr 2", "cubic 1", "cubic 2"] * 2


def test_sweep_factors_are_columns_and_the_cell_has_its_repetition(asked):
    """
    OTHER bw=10
    SWEEP ca=bbr DO
    DO_SERVER host=a
    PROCESS_EXP
    DONE
    DO_SERVER host=a exp=COUNTER
    PROCESS_EXP
    """
    notes = [notes for _, notes in asked.processed]
    assert notes[0].columns == {"bw": "10", "ca": "bbr"}
    assert notes[0].cell == {"ca": "bbr", "rep": "1"}
    assert (notes[1].columns, notes[1].cell) == ({"bw": "10"}, {})


def test_random_order_depends_only_on_the_seed(run_with):
    text = "SWEEP n=1..20 order=random DO\nECHO $n\nDONE"
    drawn_before = run_with("RAND_WAIT 1\n" + text, seed=5)
    again = run_with(text, seed=5)
    other = run_with(text, seed=6)
    assert drawn_before.echoed == again.echoed
    assert again.echoed != other.echoed
    assert sorted(again.echoed, key=int) == [str(n) for n in range(1, 21)]


def test_cells_that_ran_to_their_end_are_finished(run_with):
    port = Asked()
    run("SWEEP n=1,2 DO\nIF $n == 2: END\nDONE\n", port)
    assert (port.parts, port.finished) == (
        ["n=1 rep=1", "whole", "n=2 rep=1", "broken off"],
        [{"n": "1", "rep": "1"}],
    )


def test_sweeps_within_each_other_have_cells_of_their_own(asked):
    """
    SWEEP a=1 reps=2 DO
    SWEEP b=1 DO
    DO_SERVER host=h exp=COUNTER
    PROCESS_EXP
    DONE
    DONE
    """
    assert [notes.cell for _, notes in asked.processed] == [
        {"a": "1", "rep": "1", "b": "1", "rep2": "1"},
        {"a": "1", "rep": "2", "b": "1", "rep2": "1"},
    ]


def test_no_factor_may_be_called_rep(asked):
    """
    SWEEP rep=1..2 DO
    DONE
    """
    assert asked.message == "1:7: factor name rep is reserved for the repetition"


def test_sweep_without_a_factor_is_an_error(asked):
    """
    SWEEP reps=2 DO
    DONE
    """
    assert asked.message == "1:1: SWEEP without a factor"


def test_a_factor_of_sweep_given_twice_is_an_error(asked):
    """
    SWEEP a=1,2 a=3 DO
    ECHO $a
    DONE
    """
    assert asked.message == "1:13: SWEEP: a is given twice"


def test_a_value_of_a_factor_given_twice_is_an_error(asked):
    """
    SWEEP a=1,2,1 DO
    ECHO $a
    DONE
    """
    assert asked.message == "1:9: factor a has the value 1 2 times"


def test_a_factor_without_a_value_is_an_error(asked):
    """
    SWEEP a=, DO
    ECHO $a
    DONE
    """
    assert asked.message == "1:9: factor a has no value"


def test_an_argument_of_run_given_twice_is_an_error(asked):
    """
    BEGIN m
    ECHO $ca
    END m
    RUN m ca=cubic ca=bbr
    """
    assert asked.message == "4:16: RUN: ca is given twice"


def test_an_argument_given_twice_is_found_before_a_run(findings):
    """
    SET x=1
    BEGIN never
    DO_CLIENT host=a server=b dur=$x dur=2
    RUN never y=$x y=2
    END never
    SWEEP a=$x a=2 DO
    DONE
    """
    assert findings == [
        "3:34: error: DO_CLIENT: dur is given twice",
        "4:16: error: RUN: y is given twice",
        "6:12: error: SWEEP: a is given twice",
    ]


def test_set_exp_that_comes_from_a_variable_sees_the_arguments_of_its_macro(asked):
    """
    BEGIN m
    SET command=SET_EXP
    $command y=a+1
    ECHO $y
    END m
    RUN m a=4
    """
    assert asked.echoed == ["5"]


def test_set_exp_that_comes_whole_from_a_variable_sees_the_arguments_of_its_macro(asked):
    """
    BEGIN m
    SET command="SET_EXP y=a+1"
    $command
    ECHO $y
    END m
    RUN m a=4
    """
    assert asked.echoed == ["5"]


def test_elseif_is_an_error_whichever_branch_is_taken(asked):
    """
    IF 0 DO
    ECHO one
    ELSEIF 1 DO
    ECHO other
    DONE
    """
    assert asked.message == "3:1: unknown command ELSEIF"


def test_check_knows_what_a_command_in_a_variable_may_set(findings):
    """
    BEGIN m
    SET command=SET_EXP
    $command y=a+1
    WAIT $y
    END m
    RUN m a=4
    """
    assert findings == []


def test_factor_that_an_argument_hides_is_an_error(asked):
    """
    BEGIN m
    SWEEP dur=1,2 DO
    ECHO $dur
    DONE
    END m
    RUN m dur=3
    """
    assert asked.message == "2:11: factor dur: an argument of the macro has this name and hides it"


def test_factor_of_a_sweep_around_is_an_error(asked):
    """
    SWEEP ca=reno,bbr DO
    SWEEP ca=cubic DO
    ECHO $ca
    DONE
    DONE
    """
    assert asked.message == "2:10: factor ca: an outer SWEEP has it already"


def test_factor_that_its_cell_has_changed_is_an_error(asked):
    """
    SWEEP dur=1,2 DO
    SET dur=7
    DO_CLIENT host=a server=b dur=$dur exp=COUNTER
    PROCESS_EXP
    DONE
    """
    assert asked.message == "4:1: factor dur is 1 in this cell, but was set to 7"


def test_factor_that_its_cell_has_changed_is_an_error_where_it_is_finished(asked):
    """
    SWEEP dur=1,2 DO
    SET_EXP dur=dur*2
    DO_CLIENT host=a server=b dur=$dur exp=COUNTER
    DONE
    """
    assert asked.message == "1:1: factor dur is 1 in this cell, but was set to 2"


def test_loop_variable_that_an_argument_hides_is_a_warning(asked):
    """
    BEGIN m
    FOR i IN 1..2 DO
    ECHO $i
    DONE
    END m
    RUN m i=3
    """
    assert (asked.echoed, asked.warned) == (
        ["3", "3"],
        ["2: FOR i: an argument of the macro has this name and hides it"],
    )


def test_a_loop_within_one_over_the_same_variable_is_a_warning(asked):
    """
    BEGIN m
    FOR i IN 8..9 DO
    ECHO $i
    DONE
    END m
    FOR i IN 1..2 DO
    FOR j IN a DO
    RUN m
    DONE
    ECHO then $i
    DONE
    FOR j IN b DO
    SWEEP j=c DO
    DONE
    DONE
    """
    message = "an outer FOR has the same variable, which then has the last value of this loop"
    assert (asked.echoed, asked.warned) == (
        ["8", "9", "then 9", "8", "9", "then 9"],
        [f"2: FOR i: {message}", f"13: SWEEP j: {message}"],
    )


# ---- SWEEP until something is certain --------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("reps=3", "until= without a range of repetitions"),
        ("", "until= without a range of repetitions"),
        ("reps=2..9", "invalid range of repetitions reps=2..9"),
        ("reps=5..4", "invalid range of repetitions reps=5..4"),
        ("reps=3..", "invalid number of repetitions '3..'"),
    ],
)
def test_until_needs_a_range_of_three_repetitions_or_more(words, message, run_with):
    asked = run_with(f"SWEEP a=1 {words} until=rate:2% DO\nDONE\n")
    assert asked.error.message == message


def test_a_range_of_repetitions_needs_until(run_with):
    asked = run_with("SWEEP a=1 reps=3..30 DO\nDONE\n")
    assert asked.error.message == (
        "reps=3..30 is a range, but until= does not say when they are enough"
    )


@pytest.mark.parametrize("word", ["rate", "rate:2", "rate:0%", "rate:100%", "rate:-1%", "rate:x%"])
def test_until_is_a_column_and_a_share_between_0_and_100_percent(word, run_with):
    asked = run_with(f"SWEEP a=1 reps=3..30 until={word} DO\nDONE\n")
    assert asked.error.message == f"until: {word!r} is not a column and a share of its mean"


def test_until_has_each_column_once(run_with):
    asked = run_with("SWEEP a=1 reps=3..30 until=rate:2%,rate:3% DO\nDONE\n")
    assert asked.error.message == "until has the column rate twice"


@pytest.mark.parametrize("around", ["SWEEP b=1 DO\n{}DONE\n", "BEGIN m\n{}END m\nRUN m,2\n"])
def test_until_is_for_cells_that_run_apart(around, run_with):
    asked = run_with(around.format("SWEEP a=1 reps=3..30 until=rate:2% DO\nDONE\n"))
    assert asked.error.message == (
        "until= in a SWEEP within another SWEEP, or within a repetition of RUN"
    )


def test_random_order_shuffles_each_round_of_repetitions_apart(run_with):
    text = "SWEEP n=1..9 order=random reps=3..4 until=rate:2% DO\nECHO $n\nDONE"
    echoed = run_with(text).echoed
    rounds = [echoed[first : first + 9] for first in range(0, 36, 9)]
    assert [sorted(each) for each in rounds] == [[str(n) for n in range(1, 10)]] * 4
    assert rounds[0] != rounds[1]
