"""Local and remote commands: the calls of the port."""

from dataclasses import replace
from typing import Any

import pytest
from language_asked import Asked, run
from language_plans import planned

from netesto.errors import Place
from netesto.flowspec import FlowSpec
from netesto.hostsettings import (
    LinkAttribute,
    LinkLimits,
    ModuleParameter,
    Netem,
    Qdisc,
    RouteMetrics,
    Sysctl,
)
from netesto.language import steps
from netesto.language.draft import Draft
from netesto.language.interpreter import SourceFile


def client(**changes):
    given: dict[str, Any] = {
        "name": "DO_CLIENT", "host": "a", "exp": 1, "exp_name": "Exp", "place": Place("", 0),
        "group": 1, "server": "b", "flow": FlowSpec(),
    }  # fmt: skip
    texts = {
        "host": "a", "exp": "1", "expName": "Exp", "server": "b", "ca": "reno", "dur": "20",
        "delay": "0", "instances": "1", "req": "1M", "reply": "1", "test": "TCP_RR", "stats": "0",
        "group": "1", "localBuffer": "0", "remoteBuffer": "0", "tool": "auto", "hold": "0",
        "interval": "0.2", "parallel": "1", "omit": "0", "zerocopy": "0",
    }  # fmt: skip
    return steps.DoClient(**given | {"arguments": texts | changes.pop("arguments", {})} | changes)


def test_do_client_has_the_classic_defaults(asked):
    """
    DO_CLIENT host=a server=b
    """
    assert asked.commands == [client()]


def test_do_client_takes_all_arguments(asked):
    """
    DO_CLIENT host=a server=b exp=7 expName=x ca=bbr dur=1m delay=500ms instances=2 req=64K \\
        reply=10 test=TCP_RR stats=1 group=3 localBuffer=1Ki remoteBuffer=2K tool=netperf \\
        hold=1 interval=10ms parallel=4 omit=2 zerocopy=msg pace=10mbit len=128K mss=1000 \\
        dscp=46 ecn=1 cpu=0,1
    """
    command = asked.commands[0]
    assert command == client(
        exp=7,
        exp_name="x",
        group=3,
        hold=True,
        flow=FlowSpec(
            congestion_control="bbr",
            duration_s=60.0,
            delay_s=0.5,
            instances=2,
            request_bytes=64000,
            reply_bytes=10,
            stats=True,
            local_buffer_bytes=1024,
            remote_buffer_bytes=2000,
            tool="netperf",
            interval_s=0.01,
            parallel=4,
            omit_s=2.0,
            zerocopy="msg",
            bitrate_bps=1e7,
            length_bytes=128000,
            mss_bytes=1000,
            dscp=46,
            ecn=True,
            client_cpus=(0,),
            server_cpus=(1,),
        ),
        arguments=dict(command.arguments),
    )
    assert command.arguments["bitrate"] == "10mbit"


def test_cubic_runs_in_the_reverse_direction_but_for_dctcp_and_nv(asked):
    """
    DO_CLIENT host=a server=b ca=bbr
    DO_CLIENT host=a server=b ca=dctcp
    DO_CLIENT host=a server=b ca=nv
    DO_CLIENT host=a server=b ca=dctcp test=UDP_STREAM
    """
    assert [each.flow.reverse_congestion_control for each in asked.commands] == [
        "cubic",
        "dctcp",
        "nv",
        "cubic",
    ]


def test_request_size_s_is_a_stream(asked):
    """
    DO_CLIENT host=a server=b req=S
    DO_CLIENT host=a server=b test=TCP_MAERTS req=stream
    """
    assert [(each.flow.test, each.flow.request_bytes) for each in asked.commands] == [
        ("TCP_STREAM", 1_000_000),
        ("TCP_MAERTS", 1_000_000),
    ]


def test_groups_count_from_one_in_each_experiment(asked):
    """
    DO_CLIENT host=a server=b exp=COUNTER
    DO_CLIENT host=a server=b
    DO_CLIENT host=a server=b exp=COUNTER
    PROCESS_EXP
    DO_CLIENT host=a server=b
    """
    assert [(each.exp, each.group) for each in asked.commands] == [(1, 1), (1, 2), (2, 1), (2, 1)]


def test_group_may_be_taken_once(asked):
    """
    DO_CLIENT host=a server=b group=2
    DO_CLIENT host=a server=b
    DO_CLIENT host=a server=b group=2
    """
    assert asked.commands[1].group == 3
    assert asked.message == "3:33: group 2 of experiment 1 is taken by an earlier DO_CLIENT"


def test_host_experiment_and_name_stick(asked):
    """
    DO_SERVER host=a exp=COUNTER expName=x
    DO_CLIENT server=b
    GET_DATA
    """
    assert [(each.host, each.exp, each.exp_name) for each in asked.commands] == [("a", 1, "x")] * 3


def test_first_server_takes_a_number_by_itself(asked):
    """
    DO_SERVER host=a
    DO_SERVER host=b
    """
    assert asked.sent == ["DO_SERVER a exp=1", "DO_SERVER b exp=1"]


def test_settings_take_no_number(asked):
    """
    SET exp=COUNTER
    SET_NETEM host=a netem_delay=10 exp=$exp
    SET_SYSCTL host=a net.ipv4.tcp_ecn=1
    DO_SERVER host=a exp=$exp
    SET_QDISC host=a qdisc=fq exp=$exp
    CLOSE host=a
    """
    assert [each.exp for each in asked.commands] == [0, 0, 1, 1, 1]


def test_previous_experiment_is_the_last_one_used(run_with):
    asked = run_with(
        "DO_SERVER host=a exp=PREV\nDO_SERVER host=a exp=30\nDO_SERVER exp=PREV", counter=12
    )
    assert [each.exp for each in asked.commands] == [12, 30, 30]


def test_there_must_be_a_previous_experiment(asked):
    """
    DO_SERVER host=a exp=PREV
    """
    assert asked.message == "1:22: exp=PREV, but no experiment has run"


def test_suffix_is_given_to_short_names_only(asked):
    """
    HOST_SUFFIX=net.example
    DO_CLIENT host=a server=b.org
    DO_CLIENT host=10.0.0.1 server=b
    DO_TCPDUMP host=fe80::1 server=X packets=3
    """
    assert [(each.host, each.server) for each in asked.commands] == [
        ("a.net.example", "b.org"),
        ("10.0.0.1", "b.net.example"),
        ("fe80::1", "X"),
    ]
    assert asked.commands[1].arguments["server"] == "b.net.example"


def test_second_get_data_since_the_last_flow_does_nothing(asked):
    """
    DO_SERVER host=a
    GET_DATA host=a
    GET_DATA host=a
    GET_DATA host=b
    DO_CLIENT host=b server=a
    GET_DATA host=a
    """
    assert asked.sent == [
        "DO_SERVER a exp=1",
        "GET_DATA a exp=1",
        "GET_DATA b exp=1",
        "DO_CLIENT b exp=1",
        "GET_DATA a exp=1",
    ]


def test_get_data_is_asked_again_after_the_statistics_of_any_server(asked):
    """
    DO_SERVER host=a
    GET_DATA host=a
    DO_SERVER host=b order=1
    GET_DATA host=a
    """
    assert asked.sent[-2:] == ["DO_SERVER b exp=1", "GET_DATA a exp=1"]


def test_get_data_stays_done_after_processing(asked):
    """
    DO_SERVER host=a
    GET_DATA host=a
    PROCESS_EXP
    GET_DATA host=a
    """
    assert asked.sent == ["DO_SERVER a exp=1", "GET_DATA a exp=1"]


def test_number_beyond_all_bounds_is_an_error(asked):
    """
    DO_CLIENT host=a server=b req=1e400
    """
    assert asked.message == "1:31: req=1e400 is not a size"


def test_server_statistics(asked):
    """
    DO_SERVER host=a order=1 start=1
    """
    command = asked.commands[0]
    assert isinstance(command, steps.DoServer)
    assert (command.order, command.start) == (1, True)


def test_netem_is_read_in_milliseconds_and_percent(asked):
    """
    SET_NETEM host=a netem_delay=0.5 loss=0.01
    SET_NETEM host=a netem_delay=200us limit=20000
    """
    assert [each.settings for each in asked.commands] == [
        # What 20 Gbit/s of the smallest frames carry in 0.5 ms, twice, beside 10,000.
        (Netem(0.5, 49_063, 0.01),),
        (Netem(0.2, 20000, 0.0),),
    ]


def test_qdisc_options_keep_tc_order(asked):
    """
    SET_QDISC host=r qdisc=tbf limit=100kb rate=10mbit burst=15k other="peakrate 20mbit",mtu,1500
    SET_QDISC host=r qdisc=fq action=replace
    """
    words = "rate 10mbit burst 15k limit 100kb peakrate 20mbit mtu 1500"
    assert [each.settings for each in asked.commands] == [
        (Qdisc("tbf", tuple(words.split())),),
        (Qdisc("fq", (), "replace"),),
    ]


def test_sysctl_fields_are_separated_by_blanks(asked):
    """
    SET_SYSCTL host=a net.ipv4.tcp_wmem=10000,262144,33554432 net.ipv4.tcp_ecn=1
    """
    assert asked.commands[0].settings == (
        Sysctl("net.ipv4.tcp_wmem", "10000 262144 33554432"),
        Sysctl("net.ipv4.tcp_ecn", "1"),
    )


def test_module_parameters(asked):
    """
    SET_MODULE_PARAMS host=a module=tcp_cubic hystart=0 tcp_friendliness=1
    """
    assert asked.commands[0].settings == (
        ModuleParameter("tcp_cubic", "hystart", "0"),
        ModuleParameter("tcp_cubic", "tcp_friendliness", "1"),
    )


def test_unknown_argument_is_an_error(asked):
    """
    DO_CLIENT host=a server=b durr=10
    """
    assert asked.message == "1:27: DO_CLIENT: unknown argument durr"
    assert asked.error.remedy == "Did you mean dur?"


def test_missing_argument_is_an_error(asked):
    """
    DO_CLIENT host=a
    """
    assert asked.message == "1:1: DO_CLIENT: missing server="


def test_host_must_be_known_by_the_first_command(asked):
    """
    DO_SERVER order=1
    """
    assert asked.message == "1:1: missing host=, and no earlier command names one"


def test_value_out_of_range_is_an_error(asked):
    """
    DO_CLIENT host=a server=b instances=0
    """
    assert asked.message == "1:37: instances=0 is out of range"
    assert asked.error.remedy == "It must be at least 1 and at most 1,000."


def test_list_of_ca_is_explained(asked):
    """
    DO_CLIENT host=a server=b ca=bbr,cubic
    """
    assert asked.message == "1:30: ca=bbr,cubic is not one word"
    assert asked.error.remedy.startswith("A list of ca belongs to RUN")


def test_choices_suggest_the_nearest(asked):
    """
    DO_CLIENT host=a server=b test=TCP_STREEM
    """
    assert asked.message == "1:32: test=TCP_STREEM is unknown"
    assert asked.error.remedy == "Did you mean TCP_STREAM?"


def test_command_carries_its_place_and_chain(asked):
    """
    BEGIN m
    DO_SERVER host=$h
    END m
    RUN m h=a
    """
    command = asked.commands[0]
    assert (command.place.file, command.place.line) == ("test.nts", 2)
    assert command.chain == ("test.nts:4: RUN m (h=a)",)


# ---- local -----------------------------------------------------------------------------------


def test_waits_take_decimals_and_units(asked):
    """
    WAIT 1.5
    WAIT 200ms
    """
    assert asked.waited == [1.5, 0.2]


def test_random_wait_is_drawn_from_the_seed(run_with):
    asked = run_with("RAND_WAIT 2\nRAND_WAIT 2 4", seed=3)
    again = run_with("RAND_WAIT 2\nRAND_WAIT 2 4", seed=3)
    (first, first_mean), (second, second_mean) = asked.waited
    assert asked.waited == again.waited
    assert 0 <= first < 2 <= second < 4
    assert (first_mean, second_mean) == (1.0, 3.0)


def test_negative_wait_is_an_error(asked):
    """
    WAIT -1
    """
    assert asked.message == "1:6: waiting time -1 is out of range"


def test_notes_stick_until_they_are_replaced(asked):
    """
    DESC two flows, $x # first
    OTHER testType=a,reqs=1K,2K
    DO_SERVER host=a expName=n
    PROCESS_EXP
    OTHER bw=10
    DO_SERVER host=a exp=9
    PROCESS_EXP exp=9
    """
    assert asked.processed == [
        (1, steps.ExperimentNotes(exp_name="n", description="two flows, $x",
                                  columns={"testType": "a", "reqs": "1K,2K"})),
        (9, steps.ExperimentNotes(exp_name="n", description="two flows, $x",
                                  columns={"bw": "10"})),
    ]  # fmt: skip


def test_experiment_keeps_its_name_while_another_goes_on(asked):
    """
    DO_SERVER host=a exp=7 expName=seven
    DO_SERVER host=a exp=8 expName=eight
    PROCESS_EXP exp=7
    PROCESS_EXP
    """
    assert [(exp, notes.exp_name) for exp, notes in asked.processed] == [
        (7, "seven"),
        (8, "eight"),
    ]


def test_debug_traces_commands(asked):
    """
    SET x=1
    DEBUG 1
    WAIT $x
    DEBUG_DISABLE
    WAIT 2
    DEBUG_RESTORE
    DEBUG F
    WAIT 3
    """
    assert asked.echoed == [
        "test.nts:3: WAIT 1",
        "test.nts:4: DEBUG_DISABLE",
        "test.nts:7: DEBUG F",
    ]


def test_flows_are_waited_for_and_started_together(asked):
    """
    DO_CLIENT host=a server=b hold=1
    START_FLOWS
    START_FLOWS lead=1
    WAIT_FLOWS
    WAIT_FLOWS timeout=1m
    """
    assert asked.flows == [("start", 0.2), ("start", 1.0), ("wait 1", None), ("wait 1", 60.0)]


def test_requirements(asked):
    """
    REQUIRE ca=bbr kernel>=6.1 hosts=4
    """
    assert asked.required == [("ca", "=", "bbr"), ("kernel", ">=", "6.1"), ("hosts", "=", "4")]


def test_unknown_requirement_is_an_error(asked):
    """
    REQUIRE kernal>=6.1
    """
    assert asked.error.remedy == "Did you mean kernel?"


def test_a_requirement_that_must_not_be_met(asked):
    """
    REQUIRE ca!=cubic,reno
    """
    assert asked.required == [("ca", "!=", "cubic,reno")]


def test_requirements_that_make_no_sense_are_found_before_a_run(findings):
    """
    BEGIN never
    REQUIRE hosts=four kernel>=foo tool=netpref
    REQUIRE qdisc=nosuch
    REQUIRE qdisc=fqcodel
    REQUIRE ca>cubic
    REQUIRE ca=
    END never
    """
    assert findings == [
        "2:9: error: REQUIRE hosts=four: 'four' is not a number of hosts: 4",
        "2:20: error: REQUIRE kernel>=foo: 'foo' is not the number of a kernel: 6.1",
        "2:32: error: REQUIRE tool=netpref: there is no tool netpref",
        "3:9: error: REQUIRE qdisc=nosuch: there is no qdisc nosuch",
        "4:9: error: REQUIRE qdisc=fqcodel: there is no qdisc fqcodel",
        "5:9: error: REQUIRE ca>cubic: a host has several cas, and none is greater than another",
        "6:12: error: REQUIRE ca=: '' is not the name of a ca",
    ]


def test_a_tool_that_is_required_must_be_one_that_there_is(asked):
    """
    REQUIRE tool=netpref
    """
    assert (asked.message, asked.error.remedy) == (
        "1:9: REQUIRE tool=netpref: there is no tool netpref",
        "Did you mean netperf?",
    )


def test_a_requirement_in_a_loop_is_looked_at_once():
    head = planned("FOR i IN 1..3 DO\nREQUIRE ca=bbr\nDONE\n").head
    assert [each.value for each in head.requirements] == ["bbr"]


def test_lab(asked):
    """
    LAB dumbbell clients=2 rate=100mbit
    """
    assert [(each.topology, each.settings) for each in asked.labs] == [
        ("dumbbell", {"clients": "2", "rate": "100mbit"})
    ]


def test_lab_comes_once(asked):
    """
    LAB file=x.toml
    LAB pair
    """
    assert asked.message == "2:1: LAB given twice"


def test_lab_comes_before_remote_commands(asked):
    """
    DO_SERVER host=a
    LAB pair
    """
    assert asked.message == "2:1: LAB after a remote command"


def test_with_a_lab_a_flow_names_its_test_and_is_of_cubic(asked):
    """
    LAB pair
    DO_CLIENT host=a server=b exp=COUNTER test=TCP_RR
    DO_CLIENT host=a server=b req=S
    DO_CLIENT host=a server=b test=TCP_MAERTS ca=reno
    DO_CLIENT host=a server=b ca=bbr
    """
    flows = [(each.flow.test, each.flow.congestion_control) for each in asked.commands]
    assert flows == [("TCP_RR", "cubic"), ("TCP_STREAM", "cubic"), ("TCP_MAERTS", "reno")]
    assert [each.arguments["ca"] for each in asked.commands] == ["cubic", "cubic", "reno"]
    assert asked.message == "5:1: DO_CLIENT: missing test="


def test_a_plan_names_the_files_of_its_script(tmp_path):
    (tmp_path / "one").write_text("ECHO a\n")
    interpreter = run("SOURCE one\n", Draft(seed=4), library_path=[tmp_path], seed=4)
    files = (SourceFile("test.nts", "SOURCE one\n"), SourceFile(f"{tmp_path}/one", "ECHO a\n"))
    found = (("test.nts", "one", f"{tmp_path}/one"),)
    head = interpreter.plan().head
    assert (head.sources, head.resolved) == (files, found)


def test_macro_in_the_classic_style_with_fixed_waits_runs_unchanged(asked):
    """
    HOST_SUFFIX lab.example.com
    SET randDelay=0.1
    SET instances=1
    BEGIN preClient
    SET_SYSCTL host=$host net.ipv4.tcp_wmem=10000,262144,20971520
    END preClient
    BEGIN Classic
    SET exp=COUNTER
    FOR s in $servers DO
      IF_DEF preServer: RUN preServer host=$s
      DO_SERVER exp=$exp host=$s order=0 \
         expName=$expName start=1
      SET exp=PREV
    DONE
    FOR c in $clients DO
      IF_DEF preClient: RUN preClient host=$c
      FOR s in $servers DO
        IF $tcpDump: DO_TCPDUMP host=$c \
           server=$s packets=$tcpDump
        FOR r in $reqs DO
          DO_CLIENT host=$c server=$s ca=$ca \
             dur=$dur delay=0 test=TCP_RR \
             instances=$instances req=$r \
             reply=$reply stats=1
          RAND_WAIT $randDelay
        DONE
      DONE
    DONE
    WAIT $dur
    WAIT 10
    DO_SERVER host=$servers order=1
    GET_DATA host=$servers
    PROCESS_EXP
    END Classic
    SET_EXP dur=30/2
    RUN Classic,1 servers=s clients=a,b \
       expName=1s2c2fr ca=cubic,nv reqs=10K,1M reply=1 dur=$dur
    END
    """
    assert asked.error is None
    one = [
        "DO_SERVER s.lab.example.com",
        "SET_SYSCTL a.lab.example.com",
        "DO_CLIENT a.lab.example.com",
        "DO_CLIENT a.lab.example.com",
        "SET_SYSCTL b.lab.example.com",
        "DO_CLIENT b.lab.example.com",
        "DO_CLIENT b.lab.example.com",
        "DO_SERVER s.lab.example.com",
        "GET_DATA s.lab.example.com",
    ]
    assert asked.sent == [f"{line} exp={exp}" for exp in (1, 2) for line in one]
    assert [wait for wait in asked.waited if isinstance(wait, float)] == [15.0, 10.0] * 2
    assert asked.counter == 9


def test_an_argument_given_twice_is_an_error(asked):
    """
    DO_CLIENT host=a server=b dur=1 dur=2
    """
    assert asked.message == "1:33: DO_CLIENT: dur is given twice"


def test_an_argument_given_under_both_its_names_is_an_error(asked):
    """
    DO_CLIENT host=a server=b bitrate=1mbit pace=2mbit
    """
    assert asked.message == "1:41: DO_CLIENT: pace, which is bitrate, is given twice"


def test_a_sysctl_given_twice_is_an_error(asked):
    """
    SET_SYSCTL host=a net.ipv4.tcp_ecn=1 net.ipv4.tcp_ecn=2
    """
    assert asked.message == "1:38: SET_SYSCTL: net.ipv4.tcp_ecn is given twice"


def test_a_column_given_twice_is_an_error(asked):
    """
    OTHER bw=1,bw=2
    """
    assert asked.message == "1:12: OTHER: bw is given twice"


def test_a_column_given_twice_in_two_spellings_is_an_error(asked):
    """
    OTHER my_cable=1,my-cable=2
    """
    assert asked.message == "1:18: OTHER: my-cable is given twice"


def test_a_setting_of_lab_given_twice_is_an_error(asked):
    """
    LAB pair rate=1mbit rate=2mbit
    """
    assert asked.message == "1:21: LAB: rate is given twice"


def test_debug_takes_the_words_that_flags_take(asked):
    """
    DEBUG TRUE
    DEBUG FALSE
    """
    assert asked.echoed == ["test.nts:2: DEBUG FALSE"]


def test_argument_that_a_blank_has_torn_is_left_out_with_one_warning(asked):
    """
    FOR i IN 1..2 DO
    DO_CLIENT host=a server=b req=10K t est=TCP_CRR
    DONE
    PROCESS_EXP
    """
    assert (asked.error, asked.warned, [command.flow.test for command in asked.commands]) == (
        None,
        ["2: `t est=TCP_CRR` is test=TCP_CRR with a space in it: DO_CLIENT ignores it"],
        ["TCP_RR", "TCP_RR"],
    )


def test_word_before_an_argument_is_no_torn_one(asked):
    """
    DO_CLIENT host=a server=b t dur=3
    """
    assert asked.message == "1:27: 't' is not name=value"


def test_starting_flows_where_none_waits_is_a_warning(asked):
    """
    DO_CLIENT host=a server=b exp=COUNTER hold=1
    START_FLOWS
    DO_CLIENT host=a server=b
    START_FLOWS
    PROCESS_EXP
    """
    assert asked.warned == ["4: START_FLOWS: no flow is held back; DO_CLIENT hold=1 holds one back"]


def test_every_setting_can_be_kept(asked):
    """
    SET_SYSCTL host=a net.ipv4.tcp_ecn=1 keep=1
    SET_QDISC host=a qdisc=fq keep=1
    SET_NETEM host=a netem_delay=3 keep=1
    SET_MODULE_PARAMS host=a module=tcp_cubic hystart=0 keep=1
    """
    assert [each.settings for each in asked.commands] == [
        (Sysctl("net.ipv4.tcp_ecn", "1", keep=True),),
        (Qdisc("fq", keep=True),),
        (Netem(3, 244_375, keep=True),),
        (ModuleParameter("tcp_cubic", "hystart", "0", keep=True),),
    ]


def test_set_link_sets_in_the_order_that_works(asked):
    """
    SET_LINK host=a to=b limit=100K gso_max_size=150000 tso=off mtu=9000 rate=1gbit delay=5 loss=1
    """
    assert asked.commands[0].settings == (
        LinkAttribute("mtu", "9000", to="b"),
        LinkAttribute("tso", "off", to="b"),
        LinkAttribute("gso_max_size", "150000", to="b"),
        LinkLimits(("rate=1gbit", "delay=5", "loss=1", "limit=100K"), to="b"),
    )


def test_set_link_sets_one_direction(asked):
    """
    SET_LINK host=a to=b dir=from loss=ge(1,10) qdisc=codel target=2 mark=100K down=1
    """
    words = ("loss=ge(1,10)", "qdisc=codel", "target=2", "mark=100K", "down=1")
    assert asked.commands[0].settings == (LinkLimits(words, to="b", direction="from"),)


def test_set_route_sets_metrics(asked):
    """
    SET_ROUTE host=a to=b rto_min=5 initcwnd=20
    """
    command = asked.commands[0]
    assert (command.settings, command.hosts) == (
        (RouteMetrics("b", rto_min_ms=5.0, initcwnd=20),),
        ("a", "b"),
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("SET_LINK host=a", "nothing to set"),
        ("SET_LINK host=a mtu=100", "mtu=100: not allowed"),
        ("SET_LINK host=a tso=yes", "tso=yes is unknown"),
        ("SET_LINK host=a gso_max_size=1M", "gso_max_size=1000000: not allowed"),
        ("SET_LINK host=a limit=many", "limit=many: 'many' is not a size"),
        ("SET_LINK host=a loss=200", "loss=200: not between 0 and 100 percent"),
        ("SET_ROUTE host=a to=b", "no metric given"),
        ("SET_ROUTE host=a initcwnd=10", "SET_ROUTE: missing to="),
        ("SET_ROUTE host=a to=b initcwnd=0", "initcwnd: 0 segments"),
    ],
)
def test_settings_of_links_and_routes_out_of_range_are_refused(line, said):
    port = Asked()
    run(f"{line}\n", port)
    assert said in str(port.error)


def test_stress_link_is_an_experiment_of_its_own(asked):
    """
    STRESS_LINK host=s1 to=s2
    STRESS_LINK host=s1 to=s2 frames=5M size=1000 interval=1ms expName=short
    """
    flow = FlowSpec(test="LINK_STRESS", tool="native", count=100_000_000, size_bytes=1518)
    assert [(each.exp, each.server, each.flow) for each in asked.commands] == [
        (1, "s2", flow),
        (2, "s2", replace(flow, count=5_000_000, size_bytes=1000, gap_s=0.001)),
    ]
    assert [exp for exp, _ in asked.processed] == [1, 2]


def test_a_stress_test_lasts_as_long_as_it_computes():
    lasting = [FlowSpec(test="LINK_STRESS", count=count).whole_s for count in (1000, 50_000_000)]
    assert lasting == [1.0, 25.0]
