"""A run changes interfaces, routes and links of a lab; they are put back when it ends."""

import json
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from agent_daemons import Daemon, StartDaemon

from netesto import process
from netesto.agent import interfaces, metrics, middles
from netesto.agent.journal import Run
from netesto.agent.middles import Middle, Stage
from netesto.errors import AgentError, MissingError, NotAllowedError
from netesto.hostsettings import LinkAttribute, LinkLimits, RouteMetrics, Setting
from netesto.lab import links, netns, plan, queueing, records, topology
from netesto.lab.netns import Lab

TIMEOUT_S = 30

TBF = Stage("tbf", {"rate": 1_250_000, "burst": 3027, "burst_raw": "93da", "limit": 125_000})
SHAPED = Middle("n-links", "a-b", (TBF,))

# Everything that a script can set on a link of a lab, in turns that depend on each other.
ALL: tuple[Setting, ...] = (
    LinkAttribute("mtu", "9000", to="b"),
    LinkAttribute("tso", "off"),
    LinkAttribute("gro", "on"),
    LinkAttribute("gso_max_size", "32768"),
    LinkAttribute("gro_max_size", "150000"),
    LinkLimits(rate_bps=5e6, limit="50K", to="b", both=True),
    LinkAttribute("mtu", "4000", to="b"),
    LinkAttribute("gso_max_size", "150000"),
    LinkLimits(rate_bps=8e6, to="b"),
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
    route = metrics.Route("10.0.1.2", "b", own, ())
    steps, undo = metrics.plan(RouteMetrics("b", initcwnd=20), route)
    replace = ("ip", "-4", "route", "replace", "10.0.1.2", "dev", "b")
    assert (steps, undo) == (
        (Run((*replace, "rto_min", "5ms", "initcwnd", "20")),),
        (Run(("ip", "-4", "route", "replace", *own)),),
    )


def test_rate_of_a_link_changes_in_place():
    wanted = middles.changed([TBF], LinkLimits(rate_bps=1e9), mtu=1500, burst_s=0.001)
    change = "tc -netns n-links qdisc change dev a-b root handle 1:"
    tbf = "tbf rate {} burst {} limit 125000"
    assert [
        [" ".join(step.argv) for step in steps if isinstance(step, Run)]
        for steps in middles.plan(SHAPED, wanted)
    ] == [
        [f"{change} {tbf.format('1000000000bit', 125000)}"],
        [f"{change} {tbf.format('10000000bit', 3028)}"],
    ]


def test_shaper_depends_on_nothing_that_was_before():
    once = middles.changed([TBF], LinkLimits(rate_bps=1e7), mtu=1500, burst_s=0.001)
    large = middles.changed([TBF], LinkLimits(rate_bps=1e9), mtu=9000, burst_s=0.001)
    assert middles.changed(large, LinkLimits(rate_bps=1e7), mtu=1500, burst_s=0.001) == once


def test_first_delay_of_a_link_makes_it_anew():
    wanted = middles.changed([TBF], LinkLimits(delay_ms=20), mtu=1500, burst_s=0.001)
    steps, undo = middles.plan(SHAPED, wanted)
    assert [" ".join(step.argv[4:]) for step in (*steps, *undo) if isinstance(step, Run)] == [
        "del dev a-b root",
        "add dev a-b root handle 1: netem limit 10782 delay 0.02s 0s 0%",
        "add dev a-b parent 1:1 handle 2: tbf rate 10000000bit burst 3028 limit 125000",
        "del dev a-b root",
        "add dev a-b root handle 1: tbf rate 10000000bit burst 3028 limit 125000",
    ]


@pytest.mark.parametrize(
    ("queue", "limit", "words"),
    [
        (Stage("bfifo", {"limit": 9}), "50K", "bfifo limit 50000"),
        (Stage("cake", {"memlimit": 9, "rtt": 100000}), "50K", "cake memlimit 50000"),
        (Stage("codel", {"limit": 9, "target": 4999}), "50p", "codel limit 50"),
        (Stage("fq_codel", {"limit": 9, "flows": 7, "quantum": 5}), "50p", "fq_codel limit 50"),
        (
            Stage("red", {"limit": 9, "min": 1, "max": 2}),
            "50K",
            "red limit 50000 avpkt 1000 bandwidth 10000000bit",
        ),
    ],
)
def test_limit_of_every_queue_changes_in_place(queue, limit, words):
    middle = Middle("n-links", "a-b", (TBF, queue))
    wanted = middles.changed(middle.stages, LinkLimits(limit=limit), mtu=1500, burst_s=0.001)
    (_, changed), (_, back) = middles.plan(middle, wanted)
    assert isinstance(changed, Run)
    assert isinstance(back, Run)
    assert (" ".join(changed.argv[11:]), back.argv[:11]) == (words, changed.argv[:11])


def test_queue_without_another_limit_stays_as_it_is_beside_another_rate():
    middle = Middle("n-links", "a-b", (TBF, Stage("fq_codel", {"limit": 9, "flows": 7})))
    wanted = middles.changed(middle.stages, LinkLimits(rate_bps=1e9), mtu=1500, burst_s=0.001)
    steps, undo = middles.plan(middle, wanted)
    assert [step.argv[10] for step in (*steps, *undo) if isinstance(step, Run)] == ["tbf", "tbf"]


def test_limit_that_the_kernel_cannot_change_is_refused():
    middle = Middle("n-links", "a-b", (TBF, Stage("sfq", {"limit": 127})))
    wanted = middles.changed(middle.stages, LinkLimits(limit="50p"), mtu=1500, burst_s=0.001)
    with pytest.raises(AgentError, match="the limit of sfq cannot change"):
        middles.plan(middle, wanted)


def test_queue_of_a_first_rate_is_that_of_a_lab():
    delay = {"delay": {"delay": 0.1, "jitter": 0.0, "correlation": 0.0}, "limit": 1000}
    wanted = middles.changed([Stage("netem", delay)], LinkLimits(rate_bps=1e7), mtu=1280, burst_s=0)
    lab = links.link_settings({"rate": "10mbit", "delay": "100", "mtu": "1280"}, what="")
    (_, *netem), (_, *tbf) = (words[2:] for words in queueing.qdiscs(lab, burst_s=0))
    assert [str(wanted[0].options["limit"]), str(wanted[1].options["limit"])] == [
        netem[netem.index("limit") + 1],
        tbf[tbf.index("limit") + 1],
    ]


@pytest.mark.parametrize(
    ("limits", "queue", "said"),
    [
        (LinkLimits(limit="50p"), None, "counts bytes"),
        (LinkLimits(limit="50K"), Stage("pfifo", {"limit": 100}), "pfifo counts packets"),
    ],
)
def test_limit_in_what_the_queue_does_not_count_is_refused(limits, queue, said):
    stages = [TBF, *([queue] if queue else [])]
    with pytest.raises(AgentError, match=said):
        middles.changed(stages, limits, mtu=1500, burst_s=0.001)


# ---- on a real kernel ----------------------------------------------------------------------------


@pytest.mark.lab
async def test_everything_is_set_while_held_and_put_back(linked: Linked):
    before = linked.state()
    async with linked.start().held() as a:
        achieved = [(await a.configure(each)).after for each in ALL]
    assert (achieved[:6], achieved[-1], linked.state()) == (
        ["9000", "off", "on", "32768", "150000", "tbf rate 5000000bit burst 18028 limit 50000"],
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
async def test_mtu_that_somebody_else_changed_is_left_and_told(linked: Linked):
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
async def test_interface_that_leads_nowhere_is_told(linked: Linked):
    async with linked.start().held() as a:
        with pytest.raises(AgentError, match="no interface leads to nobody"):
            await a.configure(LinkAttribute("mtu", "9000", to="nobody"))


@pytest.mark.lab
async def test_limits_are_those_of_links_of_labs(linked: Linked):
    async with linked.start().held() as a:
        with pytest.raises(AgentError, match="the link of lo has no limits to change"):
            await a.configure(LinkLimits(rate_bps=1e6, to="lo"))


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
    assert applied.setting == "link lo: mtu=1500"
