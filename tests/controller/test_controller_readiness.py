from dataclasses import replace
from ipaddress import ip_address

import pytest
from scripted_agent import HERE, do_client

import netesto
from netesto.controller import readiness
from netesto.controller.inventory import Inventory
from netesto.controller.readiness import Placement, Problem, Visited
from netesto.errors import AgentError, MissingError, WorldError
from netesto.hostsettings import Command, Qdisc, Setting, Sysctl
from netesto.language import steps
from netesto.model import ClockOffset, Endpoint, HostInfo, HostState, InterfaceState, PathState

A = Endpoint(host="a", agent="unix:/a", addresses={4: ip_address("10.0.0.1")})
B = Endpoint(host="b", agent="unix:/b", addresses={4: ip_address("10.0.0.2")})
HOSTS = Inventory([A, B])

INFO = HostInfo(
    host="a",
    version=netesto.__version__,
    kernel="6.18.44",
    cpus=2,
    memory_bytes=1 << 30,
    device="eth1",
    addresses=("10.0.0.1", "2001:db8::1"),
    tools={"netperf": "2.7.0"},
    congestion_controls=("cubic",),
    qdiscs=("tbf",),
)

STATE = HostState(
    is_synchronized=True,
    clock_error_s=0.001,
    clock_source="chronyd",
    disk_free_bytes=10**12,
    missing_commands=(),
    management=("eth0",),
    interfaces=(
        InterfaceState(name="eth0", mtu_bytes=1500, is_up=True),
        InterfaceState(name="eth1", mtu_bytes=9000, is_up=True),
    ),
    paths=(),
)

CLOCK = ClockOffset(0.001, 0.0005)


def visited(
    endpoint: Endpoint = A,
    info: HostInfo = INFO,
    clock: ClockOffset = CLOCK,
    state: HostState = STATE,
) -> Visited:
    return Visited(endpoint=endpoint, info=info, clock=clock, state=state)


def found(
    host: Visited, *commands: steps.RemoteCommand, family: int = 4
) -> list[tuple[str, str, str]]:
    wrong = readiness.problems([host], HOSTS, commands, family=family)
    return [(each.severity, each.host, each.message) for each in wrong]


def test_nothing_is_wrong_with_a_host_that_is_ready():
    assert found(visited()) == []


OLD_IPERF3 = (
    "iperf3 cannot run UDP_STREAM: version 3.7 does not report which datagrams arrived; versions "
    "since 3.10 do"
)


@pytest.mark.parametrize(
    ("info", "problem"),
    [
        ({"holder": "ann@desk pid 7"}, ("error", "a", "in use by ann@desk pid 7")),
        ({"version": "0"}, ("warning", "a", f"netesto 0; this is {netesto.__version__}")),
        ({"tools": {}}, ("error", "a", "no traffic tool")),
        (
            {"tools": {"iperf3": "3.7"}},
            (
                "warning",
                "a",
                OLD_IPERF3,
            ),
        ),
        (
            {"unusable_tools": {"netperf": "netperf: still running after 2 s, ended"}},
            (
                "warning",
                "a",
                "netperf is installed, and not used: netperf: still running after 2 s, ended",
            ),
        ),
        ({"qdiscs": ()}, ("warning", "a", "cannot find out which qdiscs its kernel has")),
        (
            {"addresses": ("10.0.0.9",)},
            ("warning", "a", "address 10.0.0.1 is not on this host, which has 10.0.0.9"),
        ),
        (
            {"device": "eth7"},
            ("error", "a", "no interface eth7, through which its agent tests; it has eth0 eth1"),
        ),
    ],
)
def test_what_an_agent_says_of_its_host_may_be_wrong(info, problem):
    assert found(visited(info=replace(INFO, **info))) == [problem]


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        (
            {"is_synchronized": False, "clock_source": ""},
            ("warning", "a", "clock not synchronized: it drifts during a run"),
        ),
        (
            {"is_synchronized": False},
            ("warning", "a", "clock not synchronized by chronyd: it drifts during a run"),
        ),
        ({"refusals": ("the disk is full\nFree some.",)}, ("error", "a", "the disk is full")),
        ({"missing_commands": ("tc",)}, ("error", "a", "tc is not installed")),
        ({"missing_commands": ("ethtool",)}, ("warning", "a", "ethtool is not installed")),
        (
            {"absent_interfaces": ("eth8",)},
            ("warning", "a", "no interface eth8, which the limits of its agent name"),
        ),
        (
            {
                "interfaces": (
                    InterfaceState(name="eth1", mtu_bytes=9000, is_up=False, lacks_carrier=True),
                )
            },
            ("error", "a", "interface eth1, through which its agent tests, is not connected"),
        ),
        (
            {"interfaces": (InterfaceState(name="eth1", mtu_bytes=9000, is_up=False),)},
            ("error", "a", "interface eth1, through which its agent tests, is down"),
        ),
    ],
)
def test_the_state_of_a_host_may_be_wrong(state, problem):
    assert found(visited(state=replace(STATE, **state))) == [problem]


@pytest.mark.parametrize(
    ("answer", "mtu_bytes", "problem"),
    [
        ("whole", 9000, None),
        ("whole", 1500, "MTU 1500, that of the interface is 9000"),
        ("cut", 9000, "packets of 9000 bytes are lost, small ones arrive"),
        ("silent", 9000, "no answer"),
        ("unreachable", 0, "No route to host"),
    ],
)
def test_a_path_may_be_wrong(answer, mtu_bytes, problem):
    path = PathState(
        peer="10.0.0.2",
        device="eth1",
        mtu_bytes=mtu_bytes,
        answer=answer,
        reason="No route to host" if answer == "unreachable" else "",
    )
    expected = problem and [("warning", "a", f"path to b (10.0.0.2, by eth1): {problem}")]
    assert found(visited(state=replace(STATE, paths=(path,)))) == (expected or [])


@pytest.mark.parametrize(("commands", "severity"), [((), "warning"), ((do_client(),), "error")])
def test_a_path_on_which_an_agent_lets_no_flow_is_an_error_of_a_script(commands, severity):
    reason = "no flows with 10.0.0.2\nWrite it."
    path = PathState(
        peer="10.0.0.2", device="eth1", mtu_bytes=0, answer="unreachable", reason=reason
    )
    here = visited(state=replace(STATE, paths=(path,)))
    wrong = readiness.problems([here], HOSTS, commands, family=4)
    text = "path to b (10.0.0.2, by eth1): no flows with 10.0.0.2"
    assert wrong == [Problem("a", text, "Write it.", severity=severity)]


@pytest.mark.parametrize(
    ("clock", "problem"),
    [
        (
            ClockOffset(0.0, 0.02),
            "clock offset not known to within ± 5 ms: the path to the agent is slow",
        ),
        (ClockOffset(3600.0, 0.001), "clock 3600 s ahead"),
        (ClockOffset(-2.0, 0.001), "clock 2 s behind"),
    ],
)
def test_a_clock_may_be_wrong(clock, problem):
    assert found(visited(clock=clock)) == [("warning", "a", problem)]


def test_a_host_without_an_address_of_the_traffic_is_reported_with_one_that_it_has():
    [problem] = readiness.problems([visited()], HOSTS, family=6)
    remedy = 'Add it to the hosts file: addresses = ["2001:db8::1"]'
    assert problem == Problem("a", "no IPv6 address for traffic", remedy, "warning")


def test_the_reason_of_a_host_that_is_not_reached_is_a_problem():
    error = AgentError("agent unreachable at unix:/a", host="a", remedy="Is it running?")
    [problem] = readiness.problems([Visited(endpoint=A, error=error)], HOSTS, family=4)
    assert problem == Problem("a", "agent unreachable at unix:/a", "Is it running?")


def test_what_a_macro_of_a_library_needs_is_reported_at_its_run():
    command = replace(configure("SET_QDISC", Qdisc("fq")), chain=("my.nts:3: RUN m (ca=bbr)",))
    (wrong,) = readiness.problems([visited()], HOSTS, [command], family=4)
    assert wrong.message.endswith(" (needed at my.nts:3, by a.nts:1:1)")


def test_what_a_script_lacks_is_reported_beside_hosts_that_are_not_reached():
    lost = Visited(endpoint=B, error=AgentError("gone", host="b"))
    command = configure("SET_QDISC", Qdisc("fq"))
    wrong = readiness.problems([visited(), lost], HOSTS, [command], family=4)
    assert [each.message for each in wrong] == [
        "gone",
        "a: qdisc fq: not in this kernel (6.18.44), which has tbf (needed at a.nts:1:1)",
    ]


# ---- where settings go -----------------------------------------------------------------------


def configure(name: str, setting: Setting) -> steps.Configure:
    return steps.Configure(
        name=name, host="a", exp=0, exp_name="", arguments={}, place=HERE, settings=(setting,)
    )


def test_a_setting_without_an_interface_goes_to_the_one_of_the_agent():
    commands = [
        configure("SET_QDISC", Qdisc("tbf")),
        configure("SET_QDISC", Qdisc("tbf", device="eth5")),
        configure("SET_SYSCTL", Sysctl("net.ipv4.tcp_sack", "1")),
    ]
    assert readiness.placements(commands, HOSTS, {"a": INFO}) == [
        Placement("a", "SET_QDISC", "eth1", "a.nts:1:1"),
        Placement("a", "SET_QDISC", "eth5", "a.nts:1:1"),
    ]


def test_a_setting_that_an_agent_would_refuse_is_an_error():
    refused = InterfaceState(name="eth0", mtu_bytes=1500, is_up=True, refusal="ours\nWrite it.")
    state = replace(STATE, interfaces=(refused, *STATE.interfaces[1:]))
    command = configure("SET_QDISC", Qdisc("tbf", device="eth0"))
    wrong = readiness.problems([visited(state=state)], HOSTS, [command], family=4)
    assert wrong == [Problem("a", "SET_QDISC eth0 (a.nts:1:1): ours", "Write it.")]


def test_a_setting_of_an_interface_that_is_not_there_is_an_error():
    command = configure("SET_QDISC", Qdisc("tbf", device="eth5"))
    text = "SET_QDISC eth5 (a.nts:1:1): no such interface; the host has eth0 eth1"
    assert found(visited(), command) == [("error", "a", text)]


def through(*devices: str) -> tuple[PathState, ...]:
    """A path to a peer by each of these interfaces."""
    return tuple(
        PathState(peer=f"10.0.0.{number}", device=device, mtu_bytes=9000, answer="whole")
        for number, device in enumerate(devices, start=2)
    )


def test_a_setting_without_an_interface_needs_one_name_if_peers_are_at_several():
    state = replace(STATE, paths=through("eth1", "eth0"))
    named = configure("SET_QDISC", Qdisc("tbf", device="eth1"))
    wrong = readiness.problems(
        [visited(state=state)], HOSTS, [configure("SET_QDISC", Qdisc("tbf")), named], family=4
    )
    assert wrong == [
        Problem(
            "a",
            "SET_QDISC (a.nts:1:1): paths to its peers leave by several interfaces, eth0 and eth1",
            'Name one: netesto hosts install --device eth0, or device = "eth0" in its agent.toml.',
        )
    ]


@pytest.mark.parametrize(("device", "ways"), [("eth1", ("eth0", "eth1")), ("", ("eth1", "eth1"))])
def test_a_setting_without_an_interface_needs_none_if_one_is_named_or_leads_to_all_peers(
    device, ways
):
    state = replace(STATE, device=device, paths=through(*ways))
    command = configure("SET_QDISC", Qdisc("tbf"))
    assert readiness.problems([visited(state=state)], HOSTS, [command], family=4) == []


def test_the_size_of_a_capture_follows_from_the_mtu_of_the_interface():
    capture = steps.DoTcpdump(
        name="DO_TCPDUMP", host="a", exp=1, exp_name="", arguments={}, place=HERE,
        server="b", packets=1000, snap_bytes=0,
    )  # fmt: skip
    sizes = []
    for device in ("eth0", "eth1"):
        state = replace(STATE, device=device, largest_capture_bytes=1e6)
        [problem] = readiness.problems([visited(state=state)], HOSTS, [capture], family=4)
        sizes.append(problem.message.partition("about ")[2].partition(";")[0])
    assert sizes == ["1.56 MB", "9.06 MB"]


# ---- peers -----------------------------------------------------------------------------------

SIX = Inventory(
    [
        Endpoint(host=f"h{n}", agent=f"unix:/{n}", addresses={4: ip_address(f"10.0.0.{n}")})
        for n in range(1, 7)
    ]
)


def test_hosts_with_the_same_agent_are_an_error():
    info = replace(INFO, identity="1")
    wrong = readiness.problems([visited(A, info), visited(B, info)], HOSTS, family=4)
    assert [problem for problem in wrong if problem.severity == "error"] == [
        Problem(
            name,
            "have the same agent",
            "Each host has its own agent; --map gives a host a second name.",
        )
        for name in ("a", "b")
    ]


def test_agents_that_tell_no_identity_are_not_the_same():
    wrong = readiness.problems([visited(A), visited(B)], HOSTS, family=4)
    assert [problem for problem in wrong if problem.severity == "error"] == []


def test_without_a_script_each_host_tries_the_paths_to_the_next_ones():
    tried = readiness.peers(SIX, family=4)
    assert [str(address) for address in tried["h4"]] == [
        "10.0.0.5", "10.0.0.6", "10.0.0.1", "10.0.0.2",
    ]  # fmt: skip


def test_with_a_script_the_ends_of_flows_try_their_paths():
    assert readiness.peers(HOSTS, [do_client()], family=4) == {
        "a": [ip_address("10.0.0.2")],
        "b": [ip_address("10.0.0.1")],
    }


def test_a_host_without_an_address_is_tried_by_nobody():
    assert readiness.peers(HOSTS, family=6) == {"a": [], "b": []}


# ---- telling it ------------------------------------------------------------------------------


def test_hosts_with_the_same_problem_are_reported_together():
    wrong = [Problem("a", "tired", "Rest."), Problem("b", "old"), Problem("c", "tired", "Rest.")]
    assert readiness.texts(wrong) == ["a, c: tired\n    Rest.", "b: old"]


def test_problems_that_differ_by_the_name_of_the_host_are_reported_together():
    wrong = [Problem(name, f"{name} is off", f"ssh {name} true") for name in ("h1", "h1.lan")]
    assert readiness.texts(wrong) == ["h1, h1.lan: HOST is off\n    ssh HOST true"]


def test_a_problem_of_one_host_has_its_name():
    assert readiness.texts([Problem("a", "a is off")]) == ["a: a is off"]


def test_a_word_that_is_the_name_of_a_host_changes_no_problem_of_several():
    wrong = [Problem("a", "no tool a flow needs"), Problem("b", "no tool a flow needs")]
    assert readiness.texts(wrong) == ["a, b: no tool a flow needs"]


def test_of_many_hosts_with_the_same_problem_the_first_are_named():
    wrong = [Problem(f"h{number}", "tired") for number in range(50)]
    assert readiness.texts(wrong) == ["h0, h1, h2, h3, h4, h5, h6, … (50 hosts): tired"]


def test_warnings_refuse_nothing():
    warning = Problem("a", "old", severity="warning")
    readiness.refuse([warning])
    with pytest.raises(WorldError) as caught:
        readiness.refuse([warning, Problem("b", "gone")])
    assert str(caught.value) == "b: gone"


def test_all_errors_are_reported_at_once():
    with pytest.raises(WorldError) as caught:
        readiness.refuse([Problem("a", "tired", "Rest."), Problem("b", "gone")])
    assert str(caught.value) == "a: tired\n    Rest.\nb: gone"


def test_what_only_the_script_lacks_is_missing():
    with pytest.raises(MissingError) as caught:
        readiness.refuse([Problem("", "a: qdisc fq: not in this kernel", "Take another.")])
    assert str(caught.value) == "a: qdisc fq: not in this kernel\nTake another."


def test_a_setting_where_the_agent_is_without_rights_is_an_error_and_a_capture_a_warning():
    state = replace(STATE, setting_refusal="no rights\nBe root.", capture_refusal="no captures")
    setting = configure("SET_SYSCTL", Sysctl("net.ipv4.tcp_sack", "1"))
    command = configure("DO_COMMAND", Command("rings"))
    capture = steps.DoTcpdump(
        name="DO_TCPDUMP", host="a", exp=1, exp_name="", arguments={}, place=HERE,
        server="b", packets=1, snap_bytes=0,
    )  # fmt: skip
    here = visited(info=replace(INFO, commands=("rings",)), state=state)
    wrong = readiness.problems([here], HOSTS, [command, setting, setting, capture], family=4)
    assert wrong == [
        Problem("a", "SET_SYSCTL (a.nts:1:1): no rights", "Be root."),
        Problem("a", "DO_TCPDUMP (a.nts:1:1): no captures", severity="warning"),
    ]


def test_a_host_that_keeps_no_setting_is_an_error_of_a_script_that_keeps_one():
    state = replace(STATE, keep_refusal="keeps none\nWrite it.")
    kept = configure("SET_SYSCTL", Sysctl("net.ipv4.tcp_sack", "1", keep=True))
    other = configure("SET_SYSCTL", Sysctl("net.ipv4.tcp_sack", "1"))
    wrong = readiness.problems([visited(state=state)], HOSTS, [other, kept, kept], family=4)
    assert wrong == [Problem("a", "SET_SYSCTL (a.nts:1:1): keeps none", "Write it.")]


def test_flows_and_captures_beyond_the_limits_of_a_host_are_errors():
    state = replace(STATE, longest_flow_s=60, most_flows=4, largest_capture_bytes=1e6)
    many = do_client(duration_s=58.0, delay_s=3.0, instances=5)
    capture = steps.DoTcpdump(
        name="DO_TCPDUMP", host="a", exp=1, exp_name="", arguments={}, place=HERE,
        server="b", packets=10_000, snap_bytes=128,
    )  # fmt: skip
    wrong = readiness.problems([visited(state=state)], HOSTS, [many, capture], family=4)
    file = "the agent.toml of an installed agent"
    assert wrong == [
        Problem(
            "a", "DO_CLIENT (a.nts:1:1): a flow of 61 s, with its delay; the longest is 60 s",
            f'To allow it, write in {file}: [limits] duration = "61s"',
        ),
        Problem(
            "a", "DO_CLIENT (a.nts:1:1): 5 flows at the same time; 4 are allowed",
            f'To allow it, write in {file}: [limits] flows = 5',
        ),
        Problem(
            "a", "DO_TCPDUMP (a.nts:1:1): a capture of about 1.28 MB; 1 MB are allowed",
            "Capture fewer packets, or less of each (snap=128), or write in"
            f' {file}: [limits] captures = "1G"',
        ),
    ]  # fmt: skip
