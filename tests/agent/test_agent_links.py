"""A run changes interfaces, routes and links of a lab; they are put back when it ends."""

import json
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from agent_daemons import Daemon, StartDaemon

from netesto.agent import interfaces, metrics, middles
from netesto.agent.middles import Middle
from netesto.agent.steps import Run
from netesto.errors import AgentError, MissingError, NotAllowedError
from netesto.hostsettings import LinkAttribute, LinkLimits, RouteMetrics, Setting
from netesto.lab import netns, plan, records, topology
from netesto.lab.netns import Lab
from netesto.links.given import link_settings
from netesto.links.made import Maker
from netesto.system import process

TIMEOUT_S = 60


def middle(**settings: str) -> Middle:
    return Middle("n-links", "a-b", link_settings(settings, what=""))


def steps(before: Middle, *, wire: bool = False, **given: str) -> tuple[list[str], list[str]]:
    """What is run when a link changes, and when that is undone, without `ip|tc -netns n-links`."""
    there, back = middles.plan(before, before.after(given), Maker(has_wires=wire))
    first, second = (
        [" ".join((each.argv[0], *each.argv[3:])) for each in made if isinstance(each, Run)]
        for made in (there, back)
    )
    return first, second


# Everything that a script can set on a link of a lab, in turns that depend on each other.
ALL: tuple[Setting, ...] = (
    LinkAttribute("mtu", "9000", to="b"),
    LinkAttribute("tso", "off"),
    LinkAttribute("gro", "on"),
    LinkAttribute("gso_max_size", "32768"),
    LinkAttribute("gro_max_size", "150000"),
    LinkLimits(("rate=5mbit", "limit=50K"), to="b"),
    LinkAttribute("mtu", "4000", to="b"),
    LinkAttribute("gso_max_size", "150000"),
    LinkLimits(("rate=8mbit",), to="b", direction="to"),
    RouteMetrics("b", "10.0.1.2", rto_min_ms=50, initcwnd=20),
    RouteMetrics("b", "10.0.1.2", initcwnd=30, initrwnd=40),
)


@dataclass(frozen=True)
class Linked:
    """A lab `a — b` at 20 Mbit/s, and the agent of a."""

    lab: Lab
    links: str
    start: Callable[[], Daemon]

    def state(self) -> list[str]:
        """All that may change: interfaces, offloads, routes, and the middle of the link."""
        own = self.lab.record.hosts["a"].namespace
        commands = [
            ["ip", "-n", own, "-d", "link", "show", "dev", "b"],
            ["ip", "netns", "exec", own, "ethtool", "-k", "b"],
            ["ip", "-n", own, "route", "show"],
            ["tc", "-n", self.links, "-raw", "qdisc", "show"],
        ]
        return [process.run(argv, timeout=TIMEOUT_S).stdout for argv in commands]


@pytest.fixture
def linked(start_daemon: StartDaemon, tmp_path: Path) -> Iterator[Linked]:
    state = tmp_path / "labs"
    made = plan.plan(topology.build("pair", {"rate": "20mbit"}), prefix=records.fresh_id(state))
    with netns.up(made, state=state, agents=False) as lab:
        namespace = lab.record.hosts["a"].namespace

        def start() -> Daemon:
            prefix = ("ip", "netns", "exec", namespace)
            return start_daemon("a", "--device", "b", "--links", made.links, prefix=prefix)

        yield Linked(lab, made.links, start)


# ---- as data -------------------------------------------------------------------------------------


def test_attributes_are_read_from_ip_and_ethtool():
    link = json.dumps([{"mtu": 1500, "gso_max_size": 65536, "qdisc": "fq"}])
    offloads = "Features for x:\ntcp-segmentation-offload: on\nrx-gro-hw: off [fixed]\n"
    assert interfaces.parse(link, offloads) == {
        "mtu": "1500", "gso_max_size": "65536", "tso": "on", "gro_hw": "off [fixed]",
    }  # fmt: skip


def test_size_of_super_packets_takes_that_of_ipv4_with_it():
    values = {"gso_max_size": "65536", "gso_ipv4_max_size": "150000"}
    words = ("gso_max_size", "65536", "gso_ipv4_max_size", "150000")
    assert interfaces.steps("x", "gso_max_size", values) == (
        Run(("ip", "link", "set", "dev", "x", *words)),
    )


def test_receive_offload_that_excludes_another_is_set_last():
    values = {"lro": "on", "gro_hw": "off"}
    assert interfaces.steps("x", "lro", values) == (
        Run(("ethtool", "-K", "x", "rx-gro-hw", "off", "lro", "on")),
    )


def test_offload_that_a_driver_has_fixed_is_missing():
    with pytest.raises(MissingError, match="its driver cannot switch lro on"):
        interfaces.check_there("x", "lro", "on", {"lro": "off [fixed]"})


def test_size_that_ip_does_not_show_needs_a_newer_one():
    with pytest.raises(MissingError, match="no gso_ipv4_max_size here") as caught:
        interfaces.check_there("x", "gso_ipv4_max_size", "150000", {"mtu": "1500"})
    assert caught.value.remedy == "ip(8) of iproute2 6.3 and later knows it"


def test_route_is_taken_back_without_what_ip_only_shows():
    assert metrics.words("10.0.1.2 dev b initcwnd 9 rto_min lock 5ms linkdown\n") == (
        *("10.0.1.2", "dev", "b", "initcwnd", "9", "rto_min", "5ms"),
    )


def test_metric_of_a_route_replaces_that_metric_alone():
    own = ("10.0.1.2", "dev", "b", "initcwnd", "9", "rto_min", "5ms")
    route = metrics.RouteInUse("10.0.1.2", "b", own, ())
    steps, undo = metrics.plan(RouteMetrics("b", initcwnd=20), route)
    replace = ("ip", "-4", "route", "replace", "10.0.1.2", "dev", "b")
    assert (steps, undo) == (
        (Run((*replace, "rto_min", "5ms", "initcwnd", "20")),),
        (Run(("ip", "-4", "route", "replace", *own)),),
    )


def test_rate_of_a_link_changes_in_place():
    change = "tc qdisc change dev a-b root handle 1: tbf rate {} burst {} limit 125000"
    alias = "ip link set dev a-b alias rate={} limit=125000"
    assert steps(middle(rate="10mbit", limit="125K"), rate="1gbit") == (
        [change.format("1000000000bit", 125000), alias.format("1000000000bit")],
        [change.format("10000000bit", 3028), alias.format("10000000bit")],
    )


def test_wire_changes_in_place():
    (change, queue, _), _ = steps(middle(rate="10mbit", limit="50K"), wire=True, delay="20")
    assert (change, queue) == (
        (
            "tc qdisc change dev a-b root handle 1: netem limit 4294967295 delay 20000us "
            "rate 10000000bit"
        ),
        "tc qdisc change dev a-b parent 1:1 handle 2: bfifo limit 50000",
    )


def test_what_stays_as_it_is_needs_no_step():
    assert steps(middle(rate="10mbit", limit="50K"), rate="10mbit") == ([], [])


def test_first_delay_of_a_shaped_link_makes_it_anew():
    there, back = steps(middle(rate="10mbit", limit="99K"), delay="20")
    assert (there[:-1], back[:-1]) == (
        [
            "tc qdisc del dev a-b root",
            "tc qdisc add dev a-b root handle 1: netem limit 10782 delay 20000us",
            "tc qdisc add dev a-b parent 1:1 handle 2: tbf rate 10000000bit burst 3028 limit 99000",
        ],
        [
            "tc qdisc del dev a-b root",
            "tc qdisc add dev a-b root handle 1: tbf rate 10000000bit burst 3028 limit 99000",
        ],
    )


def test_first_rate_of_a_plain_link_makes_its_qdiscs():
    there, back = steps(middle(), wire=True, rate="10mbit")
    assert (there, back) == (
        [
            "tc qdisc add dev a-b root handle 1: netem limit 4294967295 rate 10000000bit",
            "tc qdisc add dev a-b parent 1:1 handle 2: bfifo limit 62500",
            "ip link set dev a-b alias rate=10000000bit",
        ],
        ["tc qdisc del dev a-b root", "ip link set dev a-b alias "],
    )


@pytest.mark.parametrize(
    ("qdisc", "limit", "words"),
    [
        ("bfifo", "50K", "bfifo limit 50000"),
        ("cake", "50K", "cake memlimit 50000"),
        ("codel", "50p", "codel limit 50"),
        ("fq_codel", "50p", "fq_codel limit 50"),
        ("red", "50K", "red limit 50000 avpkt 1000 bandwidth 10000000bit"),
    ],
)
def test_limit_of_every_queue_changes_in_place(qdisc, limit, words):
    (_, queue, _), _ = steps(middle(rate="10mbit", qdisc=qdisc), wire=True, limit=limit)
    assert queue == f"tc qdisc change dev a-b parent 1:1 handle 2: {words}"


def test_queue_that_cannot_change_is_made_anew():
    (remove, *_), _ = steps(middle(rate="10mbit", qdisc="sfq"), wire=True, limit="50p")
    assert remove == "tc qdisc del dev a-b root"


def test_option_that_only_a_new_qdisc_forgets_makes_it_anew():
    (remove, *_), _ = steps(middle(delay="10", corrupt="1"), corrupt="0")
    assert remove == "tc qdisc del dev a-b root"


def test_option_that_netem_forgets_changes_in_place():
    (change, _), _ = steps(middle(delay="10", loss="1"), loss="0")
    assert change == "tc qdisc change dev a-b root handle 1: netem limit 791250 delay 10000us"


def test_queue_that_derives_values_from_the_mtu_is_made_anew_with_it():
    (mtu, remove, *_), _ = steps(middle(rate="10mbit", qdisc="codel"), wire=True, mtu="9000")
    assert (mtu, remove) == (
        "ip link set dev a-b mtu 9000",
        "tc qdisc del dev a-b root",
    )


def test_policing_begins_where_packets_enter():
    (filtered, *_), _ = steps(middle(rate="10mbit"), police="30K")
    assert filtered == (
        "tc filter add dev a-b egress protocol all pref 1 handle 1 matchall "
        "action police rate 10000000bit burst 30000 mtu 64kb conform-exceed drop/ok"
    )


def test_policer_that_changes_is_removed_first():
    there, _ = steps(middle(rate="10mbit", police="30K"), police="40K")
    assert there == [
        "tc filter del dev a-b egress protocol all pref 1 handle 1 matchall",
        (
            "tc filter add dev a-b egress protocol all pref 1 handle 1 matchall "
            "action police rate 10000000bit burst 40000 mtu 64kb conform-exceed drop/ok"
        ),
        "ip link set dev a-b alias rate=10000000bit police=40000",
    ]


def test_policing_ends_with_its_filter():
    (filtered, *_), _ = steps(middle(rate="10mbit", police="30K"), rate="none")
    assert filtered == "tc filter del dev a-b egress protocol all pref 1 handle 1 matchall"


def test_limit_in_what_the_queue_does_not_count_is_refused():
    with pytest.raises(AgentError, match="limit=50K: pfifo counts packets"):
        middle(rate="10mbit", limit="50p", qdisc="pfifo").after({"limit": "50K"})


# ---- on a real kernel ----------------------------------------------------------------------------


@pytest.mark.lab
async def test_everything_is_set_while_held_and_put_back(linked: Linked):
    before = linked.state()
    async with linked.start().held() as a:
        achieved = [(await a.configure(each)).after for each in ALL]
    assert (achieved[:6], achieved[-1], linked.state()) == (
        [
            "9000",
            "off",
            "on",
            "32768",
            "150000",
            (
                "rate=5000000bit limit=50000 mtu=9000"
                " (mtu 9000, qdisc tbf 1: root rate 5Mbit burst 18027b lat 51.2ms);"
                " rate=5000000bit limit=50000"
                " (mtu 1500, qdisc tbf 1: root rate 5Mbit burst 3027b lat 75.2ms)"
            ),
        ],
        "10.0.1.2 dev b scope link src 10.0.1.1 initcwnd 30 rto_min lock 50ms initrwnd 40",
        before,
    )


@pytest.mark.lab
async def test_everything_of_a_killed_agent_is_put_back_by_the_next(linked: Linked):
    before, agent = linked.state(), linked.start()
    with pytest.raises(AgentError, match="connection lost"):
        await configure_and_kill(agent)
    during = linked.state()
    namespace = linked.lab.record.hosts["a"].namespace
    recover = [sys.executable, "-m", "netesto.agent.daemon", "--recover", "--state"]
    argv = ["ip", "netns", "exec", namespace, *recover, str(agent.state)]
    process.run(argv, timeout=TIMEOUT_S)
    assert (during == before, linked.state()) == (False, before)


async def configure_and_kill(agent: Daemon) -> None:
    async with agent.held() as a:
        for each in ALL:
            await a.configure(each)
        agent.child.send_signal(signal.SIGKILL)
        agent.child.wait(TIMEOUT_S)
        await anext(a.events)


@pytest.mark.lab
async def test_mtu_that_somebody_else_changed_is_left_and_reported(linked: Linked):
    namespace = linked.lab.record.hosts["a"].namespace
    async with linked.start().held() as a:
        await a.configure(LinkAttribute("mtu", "9000"))
        process.run(
            ["ip", "-n", namespace, "link", "set", "dev", "b", "mtu", "2000"], timeout=TIMEOUT_S
        )
        left = await a.put_back()
    assert left == [
        "link b: mtu=9000: another program changed it since, to 2000, which is left as it is"
    ]


@pytest.mark.lab
async def test_interface_that_leads_nowhere_is_reported(linked: Linked):
    async with linked.start().held() as a:
        with pytest.raises(AgentError, match="no interface leads to nobody"):
            await a.configure(LinkAttribute("mtu", "9000", to="nobody"))


@pytest.mark.lab
async def test_limits_are_those_of_links_of_labs(linked: Linked):
    async with linked.start().held() as a:
        with pytest.raises(AgentError, match="the link of lo has no limits to change"):
            await a.configure(LinkLimits(("rate=1mbit",), to="lo"))


@pytest.mark.lab
async def test_interface_that_the_owner_of_the_host_does_not_allow_is_refused(
    linked: Linked, start_daemon: StartDaemon
):
    namespace = linked.lab.record.hosts["a"].namespace
    agent = start_daemon("a", "--device", "b", prefix=("ip", "netns", "exec", namespace))
    async with agent.held() as a:
        with pytest.raises((AgentError, NotAllowedError), match="lo is not the test interface"):
            await a.configure(LinkAttribute("mtu", "9000", device="lo"))


@pytest.mark.lab
async def test_lab_without_limits_of_links_allows_what_labs_allow_and_keeps_nothing(
    linked: Linked, start_daemon: StartDaemon
):
    namespace = linked.lab.record.hosts["a"].namespace
    prefix = ("ip", "netns", "exec", namespace)
    agent = start_daemon("a", "--device", "b", "--links", "", prefix=prefix)
    async with agent.held() as a:
        applied = await a.configure(LinkAttribute("mtu", "1500", device="lo", keep=True))
    assert applied.words == "link lo: mtu=1500"
