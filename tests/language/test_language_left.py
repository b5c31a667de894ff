"""Unfinished scripts: experiments without PROCESS_EXP, captures before an experiment, no cell."""

from language_plans import planned


def numbers(asked):
    return [exp for exp, _ in asked.processed]


def captures(asked):
    return [f"{each.name} {each.host} exp={each.exp} {each.exp_name}" for each in asked.commands]


def test_an_experiment_without_process_exp_is_finished_where_the_script_ends(asked):
    """
    DESC two flows
    OTHER bw=10
    DO_CLIENT host=a server=b exp=COUNTER expName=left
    DESC what comes after
    DO_SERVER host=b order=1
    """
    [(exp, notes)] = asked.processed
    assert (exp, notes.exp_name, notes.description, notes.columns, asked.flows, asked.warned) == (
        1,
        "left",
        "two flows",
        {"bw": "10"},
        [("wait 1", None)],
        ["3: experiment 1 has no PROCESS_EXP: it is finished where the script ends"],
    )


def test_an_experiment_without_process_exp_is_finished_where_end_stands(asked):
    """
    BEGIN m
    DO_CLIENT host=a server=b
    END
    END m
    RUN m
    """
    assert (numbers(asked), asked.counter) == ([1], 9)


def test_flows_that_were_waited_for_are_not_waited_for_again(asked):
    """
    DO_CLIENT host=a server=b
    WAIT_FLOWS timeout=5
    """
    assert (asked.flows, numbers(asked)) == ([("wait 1", 5.0)], [1])


def test_experiments_that_were_left_are_finished_in_the_order_they_began(asked):
    """
    FOR ca IN reno,cubic DO
    DO_CLIENT host=a server=b exp=COUNTER ca=$ca
    DONE
    DO_CLIENT host=a server=b exp=1
    """
    assert numbers(asked) == [1, 2]


def test_a_loop_is_warned_of_once(asked):
    """
    FOR ca IN reno,cubic DO
    DO_CLIENT host=a server=b exp=COUNTER ca=$ca
    DONE
    """
    assert asked.warned == [
        "2: experiment 1 has no PROCESS_EXP: it is finished where the script ends"
    ]


def test_experiments_that_overlap_are_processed_where_the_script_says_so(asked):
    """
    DO_CLIENT host=a server=b exp=COUNTER
    DO_CLIENT host=a server=b exp=COUNTER
    PROCESS_EXP exp=1
    PROCESS_EXP exp=2
    """
    assert (numbers(asked), asked.warned) == ([1, 2], [])


def test_an_experiment_without_flows_is_left(asked):
    """
    DO_SERVER host=a exp=COUNTER
    """
    assert (numbers(asked), asked.warned) == ([], [])


def test_a_cell_of_a_sweep_finishes_what_began_in_it(asked):
    """
    SWEEP ca=reno,cubic DO
    DO_CLIENT host=a server=b exp=COUNTER ca=$ca
    DONE
    ECHO behind
    """
    assert [(exp, notes.cell) for exp, notes in asked.processed] == [
        (1, {"ca": "reno", "rep": "1"}),
        (2, {"ca": "cubic", "rep": "1"}),
    ]


def test_a_cell_of_a_sweep_leaves_what_began_before_it(asked):
    """
    DO_SERVER host=b exp=COUNTER
    SWEEP ca=reno,cubic DO
    DO_CLIENT host=a server=b ca=$ca
    DONE
    PROCESS_EXP
    """
    assert (numbers(asked), asked.warned) == ([1], [])


def test_a_cell_that_ends_the_script_is_finished_first(asked):
    """
    SWEEP ca=reno,cubic DO
    DO_CLIENT host=a server=b exp=COUNTER ca=$ca
    END
    DONE
    """
    assert [notes.cell for _, notes in asked.processed] == [{"ca": "reno", "rep": "1"}]


def test_claims_speak_of_an_experiment_that_was_left(run_with):
    script = """
        SWEEP ca=reno DO
        DO_CLIENT host=a server=b exp=COUNTER
        DONE
        ASSERT rate > 90
        """
    assert run_with(script, columns={"rate": "80"}).failed == [
        "4: experiment 1: rate > 90, but rate is 80 Mbit/s"
    ]


def test_a_claim_while_an_experiment_runs_is_a_warning(run_with):
    script = """
        DO_CLIENT host=a server=b exp=COUNTER
        PROCESS_EXP
        DO_CLIENT host=a server=b exp=COUNTER
        ASSERT rate > 90
        PROCESS_EXP
        """
    assert run_with(script, columns={"rate": "99"}).warned == [
        "4: ASSERT is about the experiment processed last, not about the running one"
    ]


def test_what_was_processed_is_not_processed_again(asked):
    """
    DO_SERVER host=a exp=COUNTER
    PROCESS_EXP
    PROCESS_EXP
    """
    assert asked.message == "3:1: experiment 1 is already processed"


def test_what_has_not_begun_is_not_processed(asked):
    """
    DO_SERVER host=a exp=COUNTER
    PROCESS_EXP exp=9
    """
    assert asked.message == "2:17: no experiment 9 to process"


def test_writing_to_a_processed_experiment_is_a_warning(asked):
    """
    DO_SERVER host=a exp=COUNTER
    PROCESS_EXP
    DO_SERVER host=a
    """
    warning = (
        "3: experiment 1 is already processed: run refuses to write to it again."
        " Take the next number with exp=COUNTER."
    )
    assert asked.warned == [warning]


def test_check_says_what_is_left(findings):
    """
    LAB pair
    DO_CLIENT host=a server=b test=TCP_RR
    """
    assert findings == [
        "2:1: warning: experiment 1 has no PROCESS_EXP: it is finished where the script ends"
    ]


def test_check_blames_a_line_that_is_wrong_and_not_what_it_leaves(findings):
    """
    DO_CLIENT host=a server=b
    PROCES_EXP
    """
    assert findings == ["2:1: error: unknown command PROCES_EXP"]


# ---- captures ----------------------------------------------------------------------------------


def test_a_capture_before_the_first_experiment_belongs_to_it(asked):
    """
    DO_TCPDUMP host=b server=a
    SET_NETEM host=a netem_delay=3
    DO_SERVER host=b exp=COUNTER expName=first
    """
    assert captures(asked) == [
        "SET_NETEM a exp=0 Exp",
        "DO_TCPDUMP b exp=1 first",
        "DO_SERVER b exp=1 first",
    ]


def test_a_capture_between_experiments_belongs_to_the_next_one(asked):
    """
    DO_SERVER host=b exp=COUNTER
    PROCESS_EXP
    DO_TCPDUMP host=b server=a
    DO_SERVER host=b exp=COUNTER
    """
    assert captures(asked)[1:] == ["DO_TCPDUMP b exp=2 Exp", "DO_SERVER b exp=2 Exp"]


def test_a_capture_in_an_experiment_belongs_to_it(asked):
    """
    DO_SERVER host=b exp=COUNTER
    DO_TCPDUMP host=b server=a
    PROCESS_EXP
    """
    assert captures(asked)[1:] == ["DO_TCPDUMP b exp=1 Exp"]


def test_a_capture_waits_for_the_experiment_that_it_names(asked):
    """
    DO_TCPDUMP host=b server=a exp=2
    DO_SERVER host=b exp=1
    DO_SERVER host=b exp=2
    """
    assert captures(asked)[1:] == ["DO_TCPDUMP b exp=2 Exp", "DO_SERVER b exp=2 Exp"]


def test_a_capture_that_no_test_follows_is_a_warning(asked):
    """
    DO_TCPDUMP host=b server=a
    """
    assert (asked.commands, asked.warned) == (
        [],
        ["1: DO_TCPDUMP: no test follows, so nothing is captured"],
    )


# ---- parts -------------------------------------------------------------------------------------


def entangled(text):
    return planned(text).head.entangled


def test_repetitions_that_add_flows_to_one_experiment_cannot_run_apart():
    script = "BEGIN m\nDO_CLIENT host=a server=b\nEND m\nRUN m,2\nPROCESS_EXP\n"
    assert entangled(script) == 1


def test_repetitions_with_an_experiment_each_may_run_apart():
    script = "BEGIN m\nDO_CLIENT host=a server=b exp=COUNTER\nPROCESS_EXP\nEND m\nRUN m,2\n"
    assert entangled(script) == 0


def test_cells_that_leave_their_experiments_may_run_apart():
    script = "SWEEP ca=reno,bbr DO\nDO_CLIENT host=a server=b exp=COUNTER\nDONE\n"
    assert entangled(script) == 0


def test_a_sweep_without_a_cell_is_reported(asked):
    """
    SWEEP ca=cubic reps=0 DO
    DO_CLIENT host=a server=b exp=COUNTER ca=$ca
    PROCESS_EXP
    DONE
    """
    assert (asked.warned, asked.processed) == (
        ["1: SWEEP with reps=0 has no cell: nothing of it is run"],
        [],
    )
