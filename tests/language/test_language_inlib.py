"""lib/inlib: the flows that each macro starts, and the conventions of all macros."""

import re

import pytest
from language_asked import LIBRARY, Asked, run
from typed import found

from netesto.language import ast, steps
from netesto.language.check import check
from netesto.language.parser import parse

HEAD = "SOURCE inlib\nSET dur=9\n"


def flows(call, head=""):
    """The flows that a call starts, short: `client>server test size ca dur delay xinstances`."""
    port = Asked()
    run(f"{HEAD}{head}RUN {call}\n", port)
    assert port.error is None, port.error
    return [
        f"{each.host}>{each.server} {each.flow.test[4:]} {each.flow.request_bytes} "
        f"{each.flow.congestion_control} {each.flow.duration_s:g} {each.flow.delay_s:g} "
        f"x{each.flow.instances}"
        for each in port.commands
        if isinstance(each, steps.DoClient)
    ]


# Each macro, called with small lists, and the flows that it starts.
CALLS = [
    ("OneFlowRR server=s client=c ca=bbr req=5", ["c>s RR 5 bbr 9 0 x1"]),
    (
        "OneFlowStream server=s client=c ca=bbr instances=3",
        ["c>s STREAM 1000000 bbr 9 0 x3"],
    ),
    (
        "MServerRR servers=s,t clients=c,d ca=bbr reqs=5,S",
        [
            "c>s RR 5 bbr 9 0 x1", "c>s STREAM 1000000 bbr 9 0 x1",
            "c>t RR 5 bbr 9 0 x1", "c>t STREAM 1000000 bbr 9 0 x1",
            "d>s RR 5 bbr 9 0 x1", "d>s STREAM 1000000 bbr 9 0 x1",
            "d>t RR 5 bbr 9 0 x1", "d>t STREAM 1000000 bbr 9 0 x1",
        ],
    ),
    (
        "MServerRR_1 servers=s clients=c,d ca=bbr reqs=5 client1=e req1=6,7",
        [
            "c>s RR 5 bbr 9 0 x1", "d>s RR 5 bbr 9 0 x1",
            "e>s RR 6 bbr 9 0 x1", "e>s RR 7 bbr 9 0 x1",
        ],
    ),
    (
        ("MServerRR_client3_req3 servers=s clients1=c clients2=d clients3=e ca=bbr "
        "reqs1=5 reqs2=6 reqs3=7"),
        ["c>s RR 5 bbr 9 0 x1", "d>s RR 6 bbr 9 0 x1", "e>s RR 7 bbr 9 0 x1"],
    ),
    (
        "MServerRR2 servers1=s servers2=t clients1=c clients2=d ca1=bbr ca2=reno reqs=5",
        ["c>s RR 5 bbr 9 0 x1", "d>t RR 5 reno 9 0 x1"],
    ),
    (
        ("MServerRR2r servers1=s servers2=t clients1=c clients2=d ca1=bbr ca2=reno "
        "req1=5 req2=6"),
        ["c>s RR 5 bbr 9 0 x1", "d>t RR 6 reno 9 0 x1"],
    ),
    (
        ("MServerRR3 servers1=s servers2=t servers3=u clients1=c clients2=d clients3=e "
        "ca1=bbr ca2=reno ca3=cubic reqs=5"),
        ["c>s RR 5 bbr 9 0 x1", "d>t RR 5 reno 9 0 x1", "e>u RR 5 cubic 9 0 x1"],
    ),
    (
        "MServerRRvs servers=s clients1=c clients2=d ca1=bbr ca2=reno reqs=5",
        ["c>s RR 5 bbr 9 0 x1", "d>s RR 5 reno 9 0 x1"],
    ),
    (
        "MServerStream servers=s,t clients=c ca=bbr",
        ["c>s STREAM 1000000 bbr 9 0 x1", "c>t STREAM 1000000 bbr 9 0 x1"],
    ),
    (
        "MServerStreamVs servers=s clients1=c clients2=d ca1=bbr ca2=reno",
        ["c>s STREAM 1000000 bbr 9 0 x1", "d>s STREAM 1000000 reno 9 0 x1"],
    ),
    (
        "MServerStreamRR servers=s clients=c ca=bbr reqs=5,6",
        ["c>s STREAM 1000000 bbr 9 0 x1", "c>s RR 5 bbr 9 0 x1", "c>s RR 6 bbr 9 0 x1"],
    ),
    (
        ("TwoFlowBaseRR server=s client1=c client2=d ca1=bbr ca2=reno "
         "dur1=9 dur2=3 delay2=4 req=5"),
        ["c>s RR 5 bbr 9 0 x1", "d>s RR 5 reno 3 4 x1"],
    ),
    (
        ("TwoFlowBaseStream server=s client1=c client2=d ca1=bbr ca2=reno "
         "dur1=9 dur2=3 delay2=4"),
        ["c>s STREAM 1000000 bbr 9 0 x1", "d>s STREAM 1000000 reno 3 4 x1"],
    ),
    (
        ("ThreeFlowBaseRR server=s client1=c client2=d client3=e ca1=bbr ca2=reno ca3=cubic "
        "dur1=9 dur2=6 delay2=2 dur3=3 delay3=4 req=5"),
        ["c>s RR 5 bbr 9 0 x1", "d>s RR 5 reno 6 2 x1", "e>s RR 5 cubic 3 4 x1"],
    ),
    (
        ("ThreeFlowBaseStream server=s client1=c client2=d client3=e ca1=bbr ca2=reno "
        "ca3=cubic dur1=9 dur2=6 delay2=2 dur3=3 delay3=4"),
        [
            "c>s STREAM 1000000 bbr 9 0 x1", "d>s STREAM 1000000 reno 6 2 x1",
            "e>s STREAM 1000000 cubic 3 4 x1",
        ],
    ),
    (
        "FourFlowStreamOne server=s client1=c client2=d client3=e client4=f ca=bbr instances=8",
        [
            "c>s STREAM 1000000 bbr 9 0 x8", "d>s STREAM 1000000 bbr 9 0 x1",
            "e>s STREAM 1000000 bbr 9 0 x1", "f>s STREAM 1000000 bbr 9 0 x1",
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "expected"), CALLS)
def test_flows_of(call, expected):
    assert flows(call) == expected


def test_an_experiment_goes_through_all_its_steps():
    port = Asked()
    run(f"{HEAD}RUN MServerRR servers=s,t clients=c,s ca=bbr reqs=5 expName=x\n", port)
    assert port.sent == [
        "DO_SERVER s exp=1",
        "DO_SERVER t exp=1",
        "DO_CLIENT c exp=1",
        "DO_CLIENT c exp=1",
        "DO_CLIENT s exp=1",
        "DO_CLIENT s exp=1",
        "DO_SERVER s exp=1",
        "DO_SERVER t exp=1",
        "GET_DATA s exp=1",
        "GET_DATA t exp=1",
        "GET_DATA c exp=1",
    ]
    assert [each.order for each in port.commands if isinstance(each, steps.DoServer)] == [
        0,
        0,
        1,
        1,
    ]
    assert all(each.flow.stats for each in port.commands if isinstance(each, steps.DoClient))
    assert [(exp, notes.exp_name) for exp, notes in port.processed] == [(1, "x")]
    assert [mean for _, mean in port.waited] == [0.05] * 4
    assert port.flows == [("wait 1", None)]


def test_number_of_the_experiment_may_be_given():
    port = Asked()
    run(f"{HEAD}RUN MServerStream servers=s,t clients=c ca=bbr exp=100\n", port)
    assert {each.exp for each in port.commands} == {100}


def test_number_taken_from_the_counter_is_taken_once():
    port = Asked()
    run(f"{HEAD}RUN MServerStream servers=s,t clients=c ca=bbr exp=COUNTER\n", port)
    assert {each.exp for each in port.commands} == {1}


def test_list_of_ca_makes_an_experiment_for_each():
    port = Asked()
    run(f"{HEAD}RUN MServerStream,2 servers=s clients=c ca=bbr,reno\n", port)
    controls = [
        each.flow.congestion_control for each in port.commands if isinstance(each, steps.DoClient)
    ]
    assert (controls, len(port.processed)) == (["bbr", "reno", "bbr", "reno"], 4)


def test_user_macros_run_before_servers_and_clients():
    port = Asked()
    run(
        "BEGIN preServer\nECHO server $host\nEND preServer\n"
        "BEGIN preClient\nECHO client $host\nEND preClient\n"
        f"{HEAD}RUN MServerStream servers=s,t clients=c ca=bbr\n",
        port,
    )
    assert port.echoed == ["server s", "server t", "client c"]


def test_packets_are_captured_at_both_ends():
    port = Asked()
    run(f"{HEAD}SET tcpDump=500\nRUN OneFlowStream server=s client=c ca=bbr\n", port)
    captures = [each for each in port.commands if isinstance(each, steps.DoTcpdump)]
    assert [(each.host, each.server, each.packets) for each in captures] == [
        ("s", "c", 500),
        ("c", "s", 500),
    ]


def test_capture_and_random_delay_may_be_passed_as_in_the_classic_macros():
    port = Asked()
    run(f"{HEAD}RUN OneFlowStream server=s client=c ca=bbr tcpDump=500 randDelay=3\n", port)
    captures = [each for each in port.commands if isinstance(each, steps.DoTcpdump)]
    assert [(each.host, each.server, each.packets) for each in captures] == [
        ("s", "c", 500),
        ("c", "s", 500),
    ]
    assert [mean for _, mean in port.waited] == [1.5]


@pytest.mark.parametrize("call", [call for call, _ in CALLS])
def test_every_macro_captures_as_many_packets_as_its_run_says(call):
    port = Asked()
    run(f"{HEAD}RUN {call} tcpDump=7 randDelay=0\n", port)
    captures = [each.packets for each in port.commands if isinstance(each, steps.DoTcpdump)]
    pairs = {(each.host, each.server) for each in port.commands if isinstance(each, steps.DoClient)}
    assert captures == [7] * 2 * len(pairs)


def test_scripts_own_defaults_win_over_the_librarys():
    port = Asked()
    run("SOURCE inlib\nDEFAULT dur=7\nRUN OneFlowStream server=s client=c ca=bbr\n", port)
    assert [each.flow.duration_s for each in port.commands if isinstance(each, steps.DoClient)] == [
        7
    ]


def test_scripts_own_default_holds_after_a_macro_has_run():
    port = Asked()
    run(
        "SOURCE inlib\nRUN OneFlowStream server=s client=c ca=bbr dur=3\nDEFAULT dur=60\n"
        "DEFAULT instances=2\nRUN OneFlowStream server=s client=c ca=bbr\n",
        port,
    )
    started = [each for each in port.commands if isinstance(each, steps.DoClient)]
    assert [(each.flow.duration_s, each.flow.instances) for each in started] == [(3, 1), (60, 2)]


def test_what_is_neither_passed_nor_set_has_its_default():
    port = Asked()
    run("SOURCE inlib\nRUN OneFlowRR server=s client=c ca=bbr req=5\n", port)
    flow = next(each for each in port.commands if isinstance(each, steps.DoClient))
    assert (flow.exp_name, flow.flow.duration_s, flow.flow.instances, flow.flow.reply_bytes) == (
        "Exp",
        20,
        1,
        1,
    )
    assert [mean for _, mean in port.waited] == [0.05]


def test_defaults_of_the_macros_are_no_globals():
    port = Asked()
    run(
        "SOURCE inlib\nRUN OneFlowRR server=s client=c ca=bbr req=5\n"
        "ECHO $expName $dur $instances $reply $randDelay\n",
        port,
    )
    assert port.echoed == ["$expName $dur $instances $reply $randDelay"]


def test_library_itself_is_sound():
    assert check([LIBRARY / "inlib"], library_path=[LIBRARY], definitions={}) == []


def examples():
    """The example calls in the comments of the library, as scripts."""
    text = (LIBRARY / "inlib").read_text()
    calls = re.findall(r"# Example:   (RUN (?:.*\\\n# +)*.*)", text)
    return [re.sub(r"\\\n# +", " ", call) for call in calls]


@pytest.mark.parametrize("call", examples())
def test_example_runs(call, tmp_path):
    path = tmp_path / "example.nts"
    path.write_text(f"SOURCE inlib\n{call}\n")
    found = check([path], library_path=[LIBRARY], definitions={})
    # One has a host among its servers and its clients.
    assert [each for each in found if "both ends are one host" not in each.message] == []


def test_every_test_macro_has_an_example():
    macros = [
        each.name
        for each in parse((LIBRARY / "inlib").read_text(), file="inlib").body
        if isinstance(each, ast.Macro) and not each.name.startswith("inlib")
    ]
    assert [found(r"^RUN (\w+)", call)[1] for call in examples()] == macros
