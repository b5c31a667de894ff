"""check: all errors at once, with place and remedy."""

from pathlib import Path

import pytest
from language_asked import LIBRARY

from netesto.errors import LabError
from netesto.language.check import check


def test_sound_script_has_no_findings(findings):
    """
    SOURCE inlib
    SET ca=bbr
    RUN OneFlowStream server=a client=b
    """
    assert findings == []


def test_all_errors_are_found_in_one_go(findings):
    """
    SOURCE inlib
    RUN Nothing
    DO CLIENT host=a
    DO_CLIENT host=a server=b durr=10 instances=0
    WAIT soon
    SET_EXP x=1+*2
    ASSERT rate >
    IF_DEF $maybe: ECHO $x
    WAIT $never
    """
    assert findings == [
        "2:5: error: unknown macro Nothing",
        "3:1: error: unknown command DO CLIENT",
        "4:27: error: DO_CLIENT: unknown argument durr",
        "4:45: error: instances=0 is out of range",
        "5:6: error: 'soon' is not a time (examples: 20, 1.5, 200ms, 2m)",
        "6:13: error: invalid arithmetic '1+*2': '*2' is unexpected here",
        "7:13: error: invalid claim 'rate >': unexpected end",
        "9:6: error: undefined variable $never: nothing sets it",
    ]


def test_names_that_are_like_those_of_kernels_are_warnings(findings):
    """
    DO_CLIENT host=a server=b exp=COUNTER ca=cubik remoteCa=rno
    SET_QDISC host=a qdisc=fqcodel
    SET_SYSCTL host=a net.core.default_qdisc=fq_codl
    REQUIRE hosts=2 ca=cubik
    """
    assert findings[-5:] == [
        "1:42: warning: unknown congestion control cubik: did you mean cubic?",
        "1:57: warning: unknown congestion control rno: did you mean reno?",
        "2:24: warning: unknown qdisc fqcodel: did you mean fq_codel?",
        "3:42: warning: unknown qdisc fq_codl: did you mean fq_codel?",
        "4:20: warning: unknown congestion control cubik: did you mean cubic?",
    ]


def test_a_queue_that_holds_no_full_packet_is_a_warning(findings):
    """
    FOR bytes IN 625,1514 DO
        SET_QDISC host=a qdisc=tbf rate=1mbit burst=3028 limit=$bytes
        SET_QDISC host=b qdisc=pfifo limit=$bytes
    DONE
    """
    assert findings == [
        "2:60: warning: limit=625: less than a full packet (1514 bytes); all are dropped",
    ]


def test_an_interval_longer_than_its_flow_is_a_warning(findings):
    """
    DO_CLIENT host=a server=b exp=COUNTER dur=2 interval=2
    DO_CLIENT host=a server=b dur=2 interval=3
    PROCESS_EXP
    """
    text = "longer than the flow; its sockets and queues may not be sampled: RTT, congestion window"
    assert findings == [f"2:42: warning: interval=3 s: {text} and backlog are then unknown"]


def test_names_of_modules_that_are_like_no_other_are_not_warned_of(findings):
    """
    DO_CLIENT host=a server=b exp=COUNTER ca=mine remoteCa=bbr2
    SET_QDISC host=a qdisc=ours
    PROCESS_EXP
    """
    assert findings == []


def test_misspelt_name_that_a_macro_of_a_library_got_is_reported_at_its_run():
    script = "SOURCE inlib\nRUN OneFlowStream server=a client=b ca=cubik\n"
    (found,) = check([Path("-")], library_path=[LIBRARY], definitions={}, read=lambda _: script)
    assert str(found).splitlines()[:2] == [
        "<standard input>:2: warning: unknown congestion control cubik: did you mean cubic?",
        "    RUN OneFlowStream (server=a, client=b, ca=cubik)",
    ]


def test_unknown_host_is_reported_once_for_a_run():
    script = "SOURCE inlib\nRUN OneFlowStream server=a client=c ca=cubic\n"
    found = check(
        [Path("-")], library_path=[LIBRARY], definitions={}, read=lambda _: script, hosts=["a", "b"]
    )
    assert [each.message for each in found] == ["unknown host c"]


def test_error_in_a_macro_that_never_runs_is_found(findings):
    """
    BEGIN m
    DO_SERVER host=$x ordr=1
    END m
    """
    assert findings == ["2:19: error: DO_SERVER: unknown argument ordr"]


def test_required_arguments_of_a_macro_come_from_its_body(findings):
    """
    BEGIN inner
    WAIT $t
    IF $x: WAIT $x
    IF_DEF $y: WAIT $y
    END inner
    BEGIN outer
    RUN inner t=$s x=$unused
    END outer
    RUN outer
    """
    assert findings == [
        "3:4: warning: IF: undefined variable $unused counts as 0",
        "9:5: error: macro outer needs s, which is neither passed nor set",
    ]


def test_argument_that_a_macro_does_not_use_is_a_warning(findings):
    """
    BEGIN m
    WAIT $seconds
    END m
    RUN m seconds=1 secnds=2
    """
    assert findings == ["4:24: warning: macro m does not use secnds"]


def test_bare_names_of_arithmetic_count_as_used(findings):
    """
    BEGIN m
    SET_EXP half=max(dur, $least)/2
    ECHO $half
    END m
    RUN m dur=4 least=1
    SET_EXP half=nothing+1
    """
    assert findings == ["6:14: error: undefined variable $nothing: nothing sets it"]


def test_undefined_argument_is_reported_at_the_run(findings):
    """
    BEGIN m
    WAIT $t
    END m
    RUN m t=$u
    """
    assert findings == ["4:9: error: undefined variable $u: nothing sets it"]


def test_undefined_argument_is_reported_though_a_global_has_its_name(findings):
    """
    BEGIN m
    WAIT $t
    END m
    SET t=1
    RUN m t=$u
    """
    assert findings == ["5:9: error: undefined variable $u: nothing sets it"]


def test_slip_in_an_argument_is_not_blamed_on_the_library(findings):
    """
    SOURCE inlib
    SET length=5
    RUN OneFlowStream server=b client=a ca=cubic dur=$lenght
    """
    assert findings == [
        "2:5: warning: nothing reads the variable length",
        "3:50: error: undefined variable $lenght: nothing sets it",
    ]


def test_slips_in_arguments_are_found_beside_other_errors(findings):
    """
    SOURCE inlib.rateTest
    SET rate1=1
    RUN ExpRate servers1=s clients1=c ca=cubic dur=$lenght
    RUN OneFlowStream server=b client=a ca=cubic instances=$many
    WAIT soon
    """
    assert findings == [
        "3:48: error: undefined variable $lenght: nothing sets it",
        "4:56: error: undefined variable $many: nothing sets it",
        "5:6: error: 'soon' is not a time (examples: 20, 1.5, 200ms, 2m)",
    ]


def test_argument_that_only_some_runs_need_may_be_left_out(findings):
    """
    BEGIN wait
    WAIT $t
    END wait
    BEGIN m
    IF $mode == 1 DO
    WAIT $one
    ELSE
    RUN wait t=$other
    DONE
    END m
    RUN m mode=1 one=2
    """
    assert findings == []


def test_argument_that_is_tested_before_it_is_copied_may_be_undefined(findings):
    """
    BEGIN m
    SET seconds=1
    IF $t: SET seconds=$t
    WAIT $seconds
    END m
    RUN m t=$maybe
    """
    assert findings == ["3:4: warning: IF: undefined variable $maybe counts as 0"]


def test_argument_that_is_only_printed_may_be_undefined(findings):
    """
    BEGIN m
    SET label=$x
    ECHO $label
    END m
    RUN m x=$maybe
    """
    assert findings == []


def test_definitions_count_as_set(findings):
    """
    WAIT $given
    """
    assert findings == []


def test_variable_set_in_any_path_counts_as_set(findings):
    """
    BEGIN m
    SET t=1
    END m
    IF $x: RUN m
    IF $t: WAIT $t
    FOR i IN 1..2 DO
    DONE
    WAIT $i
    """
    assert findings == [
        "4:4: warning: IF: undefined variable $x counts as 0",
        "5:4: warning: IF: undefined variable $t counts as 0",
    ]


def test_macro_is_not_missed_behind_if_def(findings):
    """
    IF_DEF preServer: RUN preServer host=a
    """
    assert findings == []


def test_loops_that_cannot_end(findings):
    """
    BEGIN m
    FOR i IN 10..1 DO
    DONE
    FOR i IN 1..2000000 DO
    DONE
    END m
    """
    assert findings == [
        "2:10: error: range 10..1 never ends",
        "4:10: error: 2,000,000 iterations: a script may make 1,000,000",
    ]


def test_dead_code_after_end(findings):
    """
    ECHO a
    END

    # still nothing
    ECHO b
    ECHO c
    """
    assert findings == ["5:1: warning: unreachable: END stops the script before this line"]


def test_notes_after_end_are_no_errors(findings):
    """
    ECHO a
    END
    RUN nothing; these are notes, "and no script
    """
    assert findings == ["3:1: warning: unreachable: END stops the script before this line"]


def test_comments_after_end_are_no_dead_code(findings):
    """
    ECHO a
    END

    # notes
    """
    assert findings == []


def test_what_only_a_run_shows_is_found_too(findings):
    """
    SET dur=0
    DO_CLIENT host=a server=b dur=$dur
    """
    assert findings == ["2:31: error: dur=0 is out of range"]


def test_a_rate_of_a_flow_without_its_unit(findings):
    """
    DO_CLIENT host=a server=b bitrate=10
    DO_CLIENT host=a server=b pacing=10
    """
    assert findings == [
        "1:35: error: bitrate=10 is out of range",
        "2:34: error: pacing=10 is out of range",
    ]


def test_words_of_local_commands_are_looked_at(findings):
    """
    BEGIN m
    OTHER a,b
    REQUIRE cb=bbr qdisc=$q
    DEBUG maybe
    RUN m,x
    LAB pair rate
    WAIT -1
    HOST_SUFFIX
    END m
    """
    assert findings == [
        "2:7: error: 'a' is not column=value",
        "3:9: error: REQUIRE does not know cb",
        "4:7: error: DEBUG: invalid value 'maybe'",
        "5:6: error: invalid number of repetitions 'x'",
        "6:10: error: 'rate' is not name=value",
        "7:6: error: waiting time -1 is out of range",
        "8:1: error: HOST_SUFFIX: not enough arguments",
    ]


def test_factor_that_nothing_uses_is_a_warning(findings):
    """
    BEGIN m
    DO_CLIENT host=a server=b exp=COUNTER ca=$ca
    PROCESS_EXP
    END m
    SWEEP ca=reno,cubic req=10K,1M reps=2 DO
    RUN m
    DONE
    """
    assert findings == ["5:25: warning: SWEEP: nothing uses the factor req"]


def test_factor_with_a_name_that_is_put_together_is_used(findings):
    """
    SWEEP flow1=reno,cubic flow2=bbr,cubic flaw=1,2 DO
    FOR i IN 1..2 DO
    SET ca=$flow$i
    DO_CLIENT host=a server=b exp=COUNTER ca=$ca
    PROCESS_EXP
    DONE
    DONE
    """
    assert findings == ["1:45: warning: SWEEP: nothing uses the factor flaw"]


def test_words_of_a_sweep_are_looked_at(findings):
    """
    BEGIN m
    SWEEP ca=cubic size=3..1 reps=x order=$order DO
    DONE
    SWEEP ca order=sorted DO
    DONE
    SWEEP reps=2 DO
    DONE
    END m
    """
    assert findings == [
        "2:21: error: range 3..1 never ends",
        "2:31: error: invalid number of repetitions 'x'",
        "4:7: error: 'ca' is not factor=values",
        "4:16: error: invalid order=sorted",
        "6:1: error: SWEEP without a factor",
    ]


def test_argument_under_a_wrong_name_is_not_missing_too(findings):
    """
    DO_CLIENT host=a sever=b
    """
    assert findings == ["1:18: error: DO_CLIENT: unknown argument sever"]


def test_a_dry_run_goes_on_behind_mistakes(findings):
    """
    SET dur=x
    SET n=0
    IF $n == 0 DO
    DO_CLIENT host=a server=b exp=1 dur=$dur
    SET_EXP share=1/n
    WAIT $share
    DONE
    FOR i IN 3..$n DO
    DONE
    """
    assert findings == [
        "4:37: error: dur=x is not a time",
        "5:15: error: division by zero",
        "8:10: error: range 3..0 never ends",
    ]


def test_what_follows_from_a_mistake_is_not_another(findings):
    """
    SET number=0
    DO_SERVER host=a exp=$number
    PROCESS_EXP
    SET_EXP share=1/number
    WAIT $share
    """
    assert findings == [
        "2:22: error: exp=0 is not the number of an experiment",
        "4:15: error: division by zero",
    ]


def test_an_experiment_has_nine_digits_at_most(findings):
    """
    DO_SERVER host=a exp=999999999
    PROCESS_EXP exp=999999999
    DO_SERVER host=a exp=5000000000
    """
    assert findings == ["3:22: error: exp=5000000000 is out of range"]


def test_a_macro_that_runs_itself_twice_ends_the_dry_run(findings):
    """
    BEGIN m
    RUN m
    RUN m
    END m
    RUN m
    """
    assert findings == ["2:1: error: more than 100 nested macros, loops and files"]


def test_mistakes_in_every_definition_of_a_macro_are_found(findings):
    """
    BEGIN m
    WAIT one
    END m
    BEGIN m
    WAIT two
    END m
    """
    assert findings == [
        "2:6: error: 'one' is not a time (examples: 20, 1.5, 200ms, 2m)",
        "4:7: warning: macro m is defined again (first at test.nts:1)",
        "5:6: error: 'two' is not a time (examples: 20, 1.5, 200ms, 2m)",
    ]


def test_a_macro_may_be_defined_in_one_way_or_another(findings):
    """
    DEFAULT mode=1
    IF $mode DO
    BEGIN m
    WAIT $a
    END m
    ELSE
    BEGIN m
    WAIT $b
    END m
    DONE
    RUN m a=1
    """
    assert findings == []


def test_a_variable_may_name_a_library(findings):
    """
    SET library=inlib
    SOURCE $library
    RUN OneFlowStream server=a client=b ca=cubic
    """
    assert findings == []


def test_a_variable_may_name_a_variable(findings):
    """
    FOR i IN 1..2 DO
    SET flow$i=$i
    DONE
    WAIT $flow2
    WAIT $flaw2
    """
    assert findings == ["5:6: error: undefined variable $flaw2: nothing sets it"]


def test_a_slip_in_the_name_of_a_library_is_one_mistake(findings):
    """
    SOURCE inlb
    RUN OneFlowStream server=a client=b ca=cubic
    """
    assert findings == ["1:8: error: SOURCE inlb: no such file"]


def test_a_library_that_is_missing_may_have_defined_the_rest(findings):
    """
    SOURCE macros-of-our-own
    RUN Ours host=$here
    """
    assert findings == ["1:8: error: SOURCE macros-of-our-own: no such file"]


def test_what_may_never_run_is_a_warning(findings):
    """
    BEGIN unused
    RUN nothing
    END unused
    IF $fast: WAIT $pause
    IF $fast: RUN nothing
    """
    assert findings == [
        "2:5: warning: unknown macro nothing",
        "4:4: warning: IF: undefined variable $fast counts as 0",
        "4:16: warning: undefined variable $pause: nothing sets it",
        "5:4: warning: IF: undefined variable $fast counts as 0",
        "5:15: warning: unknown macro nothing",
    ]


def test_what_does_run_is_an_error(findings):
    """
    SET fast=1
    IF $fast: WAIT $pause
    IF $fast: RUN nothing
    """
    assert findings == [
        "2:16: error: undefined variable $pause",
        "3:15: error: unknown macro nothing",
    ]


def test_warnings_of_a_run_are_findings(findings):
    """
    BEGIN m
    ECHO $a
    END m
    RUN m a=1 b
    """
    assert findings == ["4:11: warning: 'b' is not name=value: RUN ignores it"]


def test_all_syntax_errors_are_found_and_what_stands_between(findings):
    """
    FOR i on a,b DO
    WAIT $i
    DONE
    DONE
    IF $a = 1 DO
    WAIT soon
    ELSE
    ECHO $a
    DONE
    SET name="open
    BEGIN m
    FOR i IN 1..3
    WAIT $t
    END m
    RUN m
    """
    assert findings == [
        "1:1: error: FOR needs a variable and IN",
        "4:1: error: DONE without a FOR, SWEEP or IF … DO",
        "5:7: error: invalid condition: '=' is unexpected here",
        "6:6: error: 'soon' is not a time (examples: 20, 1.5, 200ms, 2m)",
        "10:10: error: unterminated quote",
        "12:1: error: unterminated FOR",
        "12:10: error: FOR without DO at its end",
        "15:5: error: macro m needs t, which is neither passed nor set",
    ]


def test_an_end_that_is_missing_is_one_mistake(findings):
    """
    BEGIN one
    ECHO $a
    BEGIN two
    WAIT $b
    END two
    RUN two a=1
    """
    assert findings == [
        "3:1: error: a macro cannot be defined inside macro one",
        "6:5: error: macro two needs b, which is neither passed nor set",
        "6:11: warning: macro two does not use a",
    ]


def test_a_comment_that_is_never_closed_is_a_finding(findings):
    """
    WAIT soon
    BEGIN_COMMENT
    WAIT later
    """
    assert findings == [
        "1:6: error: 'soon' is not a time (examples: 20, 1.5, 200ms, 2m)",
        "2:1: error: unterminated comment block",
    ]


def test_blocks_nested_too_deep_are_one_finding(tmp_path):
    path = tmp_path / "deep.nts"
    path.write_text("IF 1 DO\n" * 5000)
    found = check([path], library_path=[], definitions={})
    assert [(each.place.line, each.message) for each in found] == [
        (51, "more than 50 nested blocks")
    ]


def test_passes_of_loops_are_limited_as_asked(tmp_path):
    path = tmp_path / "x.nts"
    path.write_text("FOR i IN 1..20 DO\nDONE\n")
    found = check([path], library_path=[], definitions={}, max_iterations=10)
    assert [each.message for each in found] == ["20 iterations: a script may make 10"]


def test_syntax_error_is_a_finding(findings):
    """
    ECHO a
    DONE
    """
    assert findings == ["2:1: error: DONE without a FOR, SWEEP or IF … DO"]


def test_sources_in_a_circle_are_a_warning(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("SOURCE two\n")
    two.write_text("SOURCE one\n")
    found = check([one], library_path=[], definitions={})
    assert [(each.place.file, each.severity, each.message) for each in found] == [
        (str(two), "warning", "circular SOURCE one")
    ]


def test_a_dollar_that_begins_no_variable_sets_none(findings):
    """
    SET ${a=1
    ECHO x
    WAIT $b
    """
    assert findings[-1] == "3:6: error: undefined variable $b: nothing sets it"


def test_hosts_must_be_in_the_inventory(tmp_path):
    path = tmp_path / "x.nts"
    path.write_text(
        "HOST_SUFFIX net\nSET h=clint1\nDO_CLIENT host=$h.net server=server1\nPROCESS_EXP\n"
    )
    found = check([path], library_path=[], definitions={}, hosts=["client1", "server1"])
    assert [(each.message, each.remedy) for each in found] == [
        ("unknown host clint1.net", "Did you mean client1?")
    ]


def test_hosts_must_be_in_the_lab(tmp_path):
    path = tmp_path / "x.nts"
    path.write_text("LAB pair\nDO_CLIENT host=a server=c test=TCP_RR\nPROCESS_EXP\n")
    found = check([path], library_path=[], definitions={}, lab_hosts=lambda request: [*"ab"])
    assert [each.message for each in found] == ["unknown host c"]


def test_a_router_that_no_command_names_need_not_be_in_the_inventory(tmp_path):
    path = tmp_path / "x.nts"
    path.write_text("LAB pair\nDO_SERVER host=a start=1 order=0\nPROCESS_EXP\n")
    found = check(
        [path], library_path=[], definitions={}, hosts=["a"], lab_hosts=lambda request: [*"ab"]
    )
    assert found == []


def test_lab_that_cannot_be_made_is_a_finding(tmp_path):
    def no_lab(request):
        raise LabError("there is no topology pare", remedy="Did you mean pair?")

    path = tmp_path / "x.nts"
    path.write_text("LAB pare\nDO_CLIENT host=a server=c test=TCP_RR\nPROCESS_EXP\n")
    found = check([path], library_path=[], definitions={}, lab_hosts=no_lab)
    assert [(each.message, each.remedy) for each in found] == [
        ("there is no topology pare", "Did you mean pair?")
    ]


def test_a_wrong_setting_of_a_lab_is_pointed_at(tmp_path):
    def no_lab(request):
        raise LabError("LAB pair: rate=fast: 'fast' is not a rate")

    path = tmp_path / "x.nts"
    path.write_text("LAB pair delay=2 rate=fast\n")
    found = check([path], library_path=[], definitions={}, lab_hosts=no_lab)
    assert [(each.place.column, each.place.length) for each in found] == [(18, len("rate=fast"))]


def test_a_script_on_standard_input_is_called_so():
    found = check([Path("-")], library_path=[], definitions={}, read=lambda path: "WAIT x\n")
    assert [each.place.file for each in found] == ["<standard input>"]


def test_missing_script_is_a_finding(tmp_path):
    found = check([tmp_path / "none.nts"], library_path=[], definitions={})
    assert [each.message for each in found] == ["cannot be read: No such file or directory"]


def test_finding_prints_with_caret_and_remedy(tmp_path):
    path = tmp_path / "x.nts"
    path.write_text("WAIT $given\n")
    found = check([path], library_path=[LIBRARY], definitions={"givn": "1"})
    assert str(found[0]) == (
        f"{path}:1:6: error: undefined variable $given: nothing sets it\n"
        "    WAIT $given\n"
        "         ^^^^^^\n"
        "Did you mean givn?"
    )


LIBRARY_WITH_FAULTS = """\
BEGIN unused
    DO_SERVER host=$host ordr=1
    SOURCE nowhere
    FOR i IN 3..1 DO
    DONE
    END
    ECHO never
END unused
BEGIN used
    WAIT $seconds
    RUN inner
END used
BEGIN inner
    WAIT soon
    SOURCE nowhere
END inner
"""


def told_of(folder: Path, text: str) -> list[str]:
    """The findings of check in a script that sources a library with errors."""
    (folder / "library").write_text(LIBRARY_WITH_FAULTS)
    script = folder / "a.nts"
    script.write_text(text)
    found = check([script], library_path=[], definitions={})
    return [f"{each.place.file}:{each.place.line}".removeprefix(f"{folder}/") for each in found]


def test_what_a_library_says_that_is_not_used_is_nobodys_fault(tmp_path):
    assert told_of(tmp_path, "SOURCE library\nECHO hi\n") == []


def test_what_a_library_says_that_is_used_is_found(tmp_path):
    assert told_of(tmp_path, "SOURCE library\nRUN used seconds=1\n") == [
        "library:14",
        "library:15",
    ]


def test_what_a_library_says_that_a_variable_runs_is_found(tmp_path):
    assert told_of(tmp_path, "SOURCE library\nSET macro=inner\nRUN $macro\n") == [
        "library:14",
        "library:15",
    ]


def test_library_that_is_checked_itself_is_checked_whole(tmp_path):
    (tmp_path / "library").write_text(LIBRARY_WITH_FAULTS)
    found = check([tmp_path / "library"], library_path=[], definitions={})
    assert [each.place.line for each in found] == [2, 3, 4, 7, 14, 15]


def test_argument_that_a_blank_has_torn_is_a_warning(findings):
    """
    DO_CLIENT host=a server=b t est=TCP_RR
    PROCESS_EXP
    """
    assert findings == [
        "1:27: warning: `t est=TCP_RR` is test=TCP_RR with a space in it: DO_CLIENT ignores it"
    ]


def test_quotes_around_a_whole_argument_are_no_mistake(findings):
    """
    BEGIN m
    DO_CLIENT "host=$client" "server=b" "dur=2"
    END m
    DO_SERVER "host=a" "start=1" "exp=COUNTER"
    RUN "m,2" "client=a"
    RUN m,"2" client="a"
    PROCESS_EXP
    """
    assert findings == []


def test_argument_without_a_name_is_reported_once(findings):
    """
    BEGIN m
    ECHO $a
    END m
    RUN m =1
    """
    assert findings == ["4:7: error: '=1' is an argument without a name"]


def test_variable_that_a_macro_can_do_without_is_handed_on_with_a_warning(findings):
    """
    BEGIN m
    IF $slow: WAIT $dur
    END m
    RUN m dur=$dur
    """
    assert findings == [
        "2:4: warning: IF: undefined variable $slow counts as 0",
        "4:11: warning: undefined variable $dur: nothing sets it",
    ]


def test_variable_under_another_name_must_be_there(findings):
    """
    BEGIN m
    IF $slow: WAIT $dur
    END m
    RUN m dur=$time
    """
    assert findings == [
        "2:4: warning: IF: undefined variable $slow counts as 0",
        "4:11: error: undefined variable $time: nothing sets it",
    ]


def test_a_variable_that_nothing_reads_is_a_warning(findings):
    """
    SET duration=5
    SET flow1=a
    SET named=ECHO
    SET_EXP half=4/2
    DEFAULT $named=1
    SET exp=COUNTER
    SOURCE inlib
    BEGIN m
    SET inside=1
    DEFAULT dur=9
    WAIT $dur
    END m
    FOR i IN 1..2 DO
    $named $flow$i
    DONE
    SET_EXP sum=third+1
    SET third=1
    ECHO $sum
    RUN m
    """
    assert findings == [
        "1:5: warning: nothing reads the variable duration",
        "4:9: warning: nothing reads the variable half",
        "9:5: warning: nothing reads the variable inside",
        "16:13: error: undefined variable third",
    ]


def test_what_a_missing_file_may_read_is_not_warned_of(findings):
    """
    SET duration=5
    SOURCE nowhere
    """
    assert findings == ["2:8: error: SOURCE nowhere: no such file"]


def test_a_file_of_a_similar_name_is_not_read(tmp_path):
    (tmp_path / "mylib").write_text("WAIT 5x\n")
    (tmp_path / "a.nts").write_text("SOURCE mylb\n")
    found = check([tmp_path / "a.nts"], library_path=[], definitions={})
    assert [(each.message, each.remedy) for each in found] == [
        ("SOURCE mylb: no such file", "Did you mean mylib?")
    ]


def test_a_default_in_a_macro_sets_nothing_for_others(findings):
    """
    BEGIN m
    DEFAULT dur=9
    WAIT $dur
    RUN inner
    RUN inner t=$dur
    END m
    BEGIN inner
    WAIT $t
    WAIT $dur
    END inner
    RUN m
    WAIT $dur
    """
    assert findings == [
        "4:5: error: macro inner needs t, which is neither passed nor set",
        "4:5: error: macro inner needs dur, which is neither passed nor set",
        "5:5: error: macro inner needs dur, which is neither passed nor set",
        "12:6: error: undefined variable $dur: nothing sets it",
    ]


def test_a_comment_that_cuts_a_word_is_a_warning(findings):
    """
    ECHO http://x#y
    ECHO "http://x#y" # a comment
    ECHO twice## a comment
    ECHO one \\
      name=n#ame
    WAIT 1# a comment
    """
    assert findings == [
        "1:14: warning: `#` begins a comment, also within a word: 'y' is not read",
        "5:9: warning: `#` begins a comment, also within a word: 'ame' is not read",
    ]


def test_a_setting_after_the_last_flow_is_a_warning(findings):
    """
    SET_LINK host=a mtu=9000
    FOR rate IN 1mbit,2mbit DO
    DO_CLIENT host=a server=b exp=COUNTER dur=5
    WAIT 2
    SET_LINK host=a rate=$rate
    WAIT_FLOWS
    PROCESS_EXP
    SET_LINK host=a delay=5
    DONE
    SET_LINK host=a loss=1
    SET_SYSCTL host=a net.ipv4.tcp_ecn=1
    SET_SYSCTL host=a net.ipv4.tcp_ecn=1 keep=1
    SET_NETEM host=a netem_delay=0
    DO_COMMAND host=a name=tell
    """
    assert findings == [
        "10:1: warning: SET_LINK: no flow follows, so it changes no result",
        "11:1: warning: SET_SYSCTL: no flow follows, so it changes no result",
    ]


def test_a_setting_before_an_endless_flow_ends_is_no_mistake(findings):
    """
    DO_CLIENT host=a server=b exp=COUNTER test=TCP_FLOWS size=10K count=9
    SET_LINK host=a rate=1mbit
    WAIT_FLOWS
    SET_LINK host=a rate=2mbit
    PROCESS_EXP
    """
    assert findings == ["4:1: warning: SET_LINK: no flow follows, so it changes no result"]


def test_a_timeout_before_the_end_of_the_flows_is_a_warning(findings):
    """
    DO_CLIENT host=a server=b exp=COUNTER dur=20
    WAIT 5
    WAIT_FLOWS timeout=15
    PROCESS_EXP
    DO_CLIENT host=a server=b exp=COUNTER dur=20 delay=1
    WAIT_FLOWS timeout=20
    WAIT_FLOWS timeout=0
    PROCESS_EXP
    """
    message = "flows of the experiment run for 21 s more; they are ended then, and have failed"
    assert findings == [f"6:20: warning: WAIT_FLOWS timeout=20: {message}"]


def test_a_rate_in_bytes_is_a_warning(findings):
    """
    LAB pair rate=10mbps
    SET_QDISC host=a qdisc=tbf rate=8Kbps burst=9K limit=90K
    SET_QDISC host=b qdisc=netem other="rate 1Gbps"
    SET_LINK host=a rate=1mbps
    DO_CLIENT host=a server=b exp=COUNTER test=TCP_STREAM expName=9mbps pace=2mbps
    PROCESS_EXP
    ASSERT rate > 1mbps
    """
    bytes_ = "as in tc, bps is bytes per second;"
    assert findings == [
        f"1:15: warning: LAB rate=10mbps is 80 Mbit/s: {bytes_} 10mbit is in bits",
        f"2:33: warning: rate=8Kbps is 64 kbit/s: {bytes_} 8Kbit is in bits",
        f"3:36: warning: other=1Gbps is 8 Gbit/s: {bytes_} 1Gbit is in bits",
        f"4:22: warning: rate=1mbps is 8 Mbit/s: {bytes_} 1mbit is in bits",
        f"5:74: warning: bitrate=2mbps is 16 Mbit/s: {bytes_} 2mbit is in bits",
        f"7:15: warning: ASSERT: 1mbps is 8 Mbit/s: {bytes_} 1mbit is in bits",
    ]


def test_options_of_a_qdisc_that_tc_does_not_have_are_errors(findings):
    """
    SET_QDISC host=a qdisc=netem other="dalay 10ms"
    SET_QDISC host=a qdisc=fq other="handle 1:"
    SET_QDISC host=a qdisc=ours other=handle,1:
    SET_QDISC host=a qdisc=netem other="delay 10ms 1ms distribution paretonorml loss 1%"
    SET_QDISC host=a qdisc=cake other="bandwidth 1mbit dual-srchost ingress"
    SET_QDISC host=a qdisc=fq_codel other="target 5ms a_newer_one 3"
    """
    assert findings == [
        "1:36: error: qdisc netem has no option dalay",
        "2:33: error: qdisc fq has no option handle",
        "3:35: error: qdisc ours has no option handle",
    ]


@pytest.mark.parametrize(
    ("settings", "most"), [("", 1460), (" mtu=9000", 8960), (" client1.mtu=9000", None)]
)
def test_an_mss_above_the_mtu_is_a_warning(tmp_path, settings, most):
    path = tmp_path / "a.nts"
    path.write_text(
        f"LAB pair{settings}\n"
        "DO_CLIENT host=a server=b exp=COUNTER test=TCP_STREAM mss=1460\n"
        "DO_CLIENT host=a server=b test=TCP_STREAM mss=8961\n"
        "PROCESS_EXP\n"
    )
    found = [each.message for each in check([path], library_path=[], definitions={})]
    told = f"mss=8961: the MTU is {(most or 0) + 40} bytes, so TCP sends segments of {most} bytes"
    assert found == ([f"{told} at most"] if most else [])


def test_an_mss_above_an_mtu_that_the_script_sets_is_a_warning(findings):
    """
    SET_LINK host=a mtu=1400
    SET_LINK host=c to=a mtu=1300
    DO_CLIENT host=a server=b exp=COUNTER mss=1361
    DO_CLIENT host=c server=a mss=1261
    PROCESS_EXP
    """
    end = "so TCP sends segments of"
    assert findings == [
        f"3:43: warning: mss=1361: the MTU is 1400 bytes, {end} 1360 bytes at most",
        f"4:31: warning: mss=1261: the MTU is 1300 bytes, {end} 1260 bytes at most",
    ]
