from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto.agent.making import SettingPlan, plan_file, plan_netem, plan_qdisc
from netesto.agent.qdiscs import RootQdisc
from netesto.agent.steps import Run, Write
from netesto.agent.things import KernelFile, Root
from netesto.errors import AgentError
from netesto.hostsettings import (
    Command,
    LinkAttribute,
    LinkLimits,
    ModuleParameter,
    Netem,
    Qdisc,
    RouteMetrics,
    Setting,
    Sysctl,
)
from netesto.limits import allowed

PFIFO = RootQdisc("pfifo", "8001:", {"limit": 50})
HTB = RootQdisc("htb", "1:", {"default": "0x10"})
NETEM = RootQdisc(
    "netem", "8002:", {"limit": 9, "delay": {"delay": 0.02, "jitter": 0, "correlation": 0}}
)

ROOT = ("dev", "eth0", "root")
DELETE = Run(("tc", "qdisc", "del", *ROOT))


def added(*words: str, action: str = "add") -> Run:
    return Run(("tc", "qdisc", action, *ROOT, *words))


def test_sysctl_is_written_and_put_back():
    setting = Sysctl("net.ipv4.tcp_wmem", "10000 262144  33554432")
    path = "/proc/sys/net/ipv4/tcp_wmem"
    assert plan_file(setting, Path(path), "4096 16384 9") == SettingPlan(
        setting,
        KernelFile(path),
        "4096 16384 9",
        (Write(path, "10000 262144 33554432"),),
        (Write(path, "4096 16384 9"),),
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("net.core.rmem_max", "2621440"),
        ("net.core.wmem_max", "2147483647"),
        ("net.core.default_qdisc", "fq_codel"),
        ("net.ipv4.tcp_rmem", "4096 4096 4096"),
        ("net.ipv4.tcp_allowed_congestion_control", "reno cubic"),
        ("net.ipv4.tcp_congestion_control", "bbr"),
        ("net.ipv4.tcp_ecn", "2"),
    ],
)
def test_value_within_its_range_is_allowed(name: str, value: str):
    Sysctl(name, value).check()


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("net.core.rmem_max", "4095", "It takes from 4096 to 2147483647."),
        ("net.core.wmem_max", "2147483648", "It takes from 4096 to 2147483647."),
        ("net.core.wmem_max", "1M", "It takes a whole number."),
        ("net.core.default_qdisc", "../x", "It takes one name, such as cubic or fq."),
        ("net.ipv4.tcp_rmem", "4096 8192", "It takes 3 whole numbers."),
        (
            "net.ipv4.tcp_rmem",
            "8192 4096 8192",
            "It takes minimum, default and maximum, none smaller than the one before.",
        ),
        (
            "net.ipv4.tcp_allowed_congestion_control",
            "reno,cubic",
            "It takes names, such as reno,cubic.",
        ),
        ("net.ipv4.tcp_ecn", "3", "It takes from 0 to 2."),
        ("net.ipv4.tcp_ecn", "", "It takes a whole number."),
        ("net.ipv4.tcp_ecn", "٢", "It takes a whole number."),
    ],
)
def test_value_outside_its_range_is_refused(name: str, value: str, text: str):
    with pytest.raises(AgentError) as caught:
        Sysctl(name, value).check()
    assert str(caught.value) == f"sysctl {name}={value}: not allowed\n{text}"


def test_other_sysctl_is_refused_with_the_list_of_those_allowed():
    with pytest.raises(AgentError) as caught:
        Sysctl("kernel.core_pattern", "|/bin/sh").check()
    assert str(caught.value) == (
        "sysctl kernel.core_pattern is not allowed\nAllowed are: "
        + ", ".join(allowed.SYSCTLS)
        + "."
    )


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        (
            ModuleParameter("kvm", "x", "1"),
            """parameters of module kvm are not allowed
Allowed are those of: tcp_cubic, tcp_dctcp, tcp_nv.""",
        ),
        (
            ModuleParameter("tcp_nv", "x", "1"),
            """module parameter tcp_nv x is not allowed
Allowed for tcp_nv are: nv_min_cwnd, nv_pad, nv_reset_period.""",
        ),
        (
            ModuleParameter("tcp_nv", "nv_pad", "-1"),
            "module parameter tcp_nv nv_pad=-1: not allowed\nIt takes from 0 to 1000000.",
        ),
        (
            ModuleParameter("tcp_cubic", "hystart", "2"),
            "module parameter tcp_cubic hystart=2: not allowed\nIt takes 0 or 1.",
        ),
    ],
)
def test_other_module_parameter_is_refused(setting: ModuleParameter, text: str):
    with pytest.raises(AgentError) as caught:
        setting.check()
    assert str(caught.value) == text


def test_first_qdisc_covers_the_kernels_own():
    setting = Qdisc("tbf", ("rate", "10mbit", "burst", "15000", "limit", "9000"), "", "eth0")
    assert plan_qdisc(setting, None) == SettingPlan(
        setting,
        Root("eth0"),
        "",
        (added("tbf", "rate", "10mbit", "burst", "15000", "limit", "9000"),),
        (DELETE,),
    )


def test_qdisc_without_action_deletes_the_old_one_first():
    setting = Qdisc("fq", (), "", "eth0")
    assert plan_qdisc(setting, PFIFO) == SettingPlan(
        setting,
        Root("eth0"),
        'pfifo 8001: {"limit": 50}',
        (DELETE, added("fq")),
        (added("handle", "8001:", "pfifo", "limit", "50", action="replace"),),
    )


def test_action_is_passed_on():
    setting = Qdisc("fq", ("limit", "9"), "replace", "eth0")
    assert plan_qdisc(setting, PFIFO) == SettingPlan(
        setting,
        Root("eth0"),
        'pfifo 8001: {"limit": 50}',
        (added("fq", "limit", "9", action="replace"),),
        (added("handle", "8001:", "pfifo", "limit", "50", action="replace"),),
    )


@pytest.mark.parametrize("action", ["change", "replace"])
def test_qdisc_that_is_changed_in_place_is_deleted_before_it_is_put_back(action: str):
    old = added("handle", "8001:", "pfifo", "limit", "50", action="replace")
    plan = plan_qdisc(Qdisc("pfifo", ("limit", "9"), action, "eth0"), PFIFO)
    assert plan.undo == (DELETE, old)


def test_deleting_the_kernels_own_qdisc_is_nothing():
    setting = Qdisc("", (), "delete", "eth0")
    assert plan_qdisc(setting, None) == SettingPlan(setting, Root("eth0"), "", (), ())


def test_qdisc_that_cannot_be_made_again_is_reported():
    plan = plan_qdisc(Qdisc("fq", (), "", "eth0"), HTB)
    assert (plan.undo, plan.warning) == (
        (DELETE,),
        "the qdisc htb of eth0 cannot be put back as it was; the kernel's own will take its place",
    )


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        (Qdisc("../lib", (), "", "eth0"), "invalid qdisc name '../lib'"),
        (
            Qdisc("fq", (), "show", "eth0"),
            "qdisc action 'show' is not allowed\nActions are: add, replace, change, delete.",
        ),
        (
            Qdisc("netem", ("distribution", "../../x"), "", "eth0"),
            "qdisc netem: the word '../../x' is not allowed",
        ),
        (Qdisc("fq", ("a b",), "", "eth0"), "qdisc fq: the word 'a b' is not allowed"),
    ],
)
def test_words_that_could_mean_anything_else_are_refused(setting: Qdisc, text: str):
    with pytest.raises(AgentError) as caught:
        setting.check()
    assert str(caught.value) == text


def test_netem_that_duplicates_is_deleted_before_the_old_one_is_put_back():
    plan = plan_qdisc(Qdisc("netem", ("duplicate", "10%"), "", "eth0"), NETEM)
    old = ("handle", "8002:", "netem", "limit", "9", "delay", "0.02s", "0s", "0%")
    assert plan.undo == (DELETE, added(*old, action="replace"))


def test_netem_is_a_root_qdisc():
    setting = Netem(20.5, 2000, 0.01, "eth0")
    assert plan_netem(setting, None) == SettingPlan(
        setting,
        Root("eth0"),
        "",
        (added("netem", "limit", "2000", "delay", "20.5ms", "loss", "0.01%"),),
        (DELETE,),
    )


def test_netem_of_nothing_removes_netem():
    plan = plan_netem(Netem(0, device="eth0"), NETEM)
    assert (plan.steps, plan.undo) == (
        (DELETE,),
        (
            added(
                *("handle", "8002:", "netem", "limit", "9", "delay", "0.02s", "0s", "0%"),
                action="replace",
            ),
        ),
    )


@pytest.mark.parametrize("before", [None, PFIFO])
def test_netem_of_nothing_removes_nothing_else(before: RootQdisc | None):
    plan = plan_netem(Netem(0, device="eth0"), before)
    assert (plan.steps, plan.undo) == ((), ())


@given(st.decimals("0.000001", "100", places=6))
def test_loss_arrives_as_it_was_asked_for(loss):
    plan = plan_netem(Netem(0, 1000, float(loss), "eth0"), None)
    step = plan.steps[0]
    assert isinstance(step, Run)
    word = step.argv[-1]
    assert (word[-1], float(word[:-1]), "e" in word) == ("%", float(loss), False)


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        (Netem(-1), "netem: a delay of -1 ms; from 0 to 3600000 are allowed"),
        (Netem(float("nan")), "netem: a delay of nan ms; from 0 to 3600000 are allowed"),
        (Netem(1, 1000, 101), "netem: a loss of 101 %; from 0 to 100 are allowed"),
        (Netem(1, 0), "netem: a limit of 0 packets; at least 1 is needed"),
    ],
)
def test_netem_out_of_range_is_refused(setting: Netem, text: str):
    with pytest.raises(AgentError) as caught:
        setting.check()
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("setting", "needs"),
    [
        (Qdisc("fq"), ["qdisc fq"]),
        (Qdisc("fq", (), "delete"), []),
        (Netem(10.5), ["qdisc netem"]),
        (Netem(0.0), []),
        (Sysctl("net.ipv4.tcp_ecn", "1"), []),
        (Sysctl("net.core.default_qdisc", "fq"), ["qdisc fq"]),
        (
            Sysctl("net.ipv4.tcp_allowed_congestion_control", "reno bbr"),
            ["congestion control reno", "congestion control bbr"],
        ),
        (Command("rings", ("rx=1",)), ["command rings"]),
    ],
)
def test_what_a_host_must_have_for_a_setting(setting: Setting, needs: list[str]):
    assert list(map(str, setting.needs)) == needs


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (Sysctl("net.ipv4.tcp_ecn", "1"), "sysctl net.ipv4.tcp_ecn=1"),
        (ModuleParameter("tcp_cubic", "hystart", "0"), "module parameter tcp_cubic hystart=0"),
        (Qdisc("fq", ("limit", "9"), "replace", "eth0"), "qdisc eth0: replace fq limit 9"),
        (Qdisc("", (), "delete", "eth0"), "qdisc eth0: delete"),
        (
            Netem(20.5, 2000, 0.01, "eth0"),
            "qdisc eth0: netem limit 2000 delay 20.5ms loss 0.01%",
        ),
        (Netem(0, device="eth0"), "qdisc eth0: no netem"),
        (LinkAttribute("mtu", "9000", device="eth0"), "link eth0: mtu=9000"),
        (LinkLimits(("rate=5mbit", "delay=1"), "b", "to"), "link b: rate=5mbit delay=1"),
        (LinkLimits(("rate=5mbit",), "b", "from"), "link from b: rate=5mbit"),
        (RouteMetrics("b", rto_min_ms=50, initcwnd=20), "route to b: rto_min=50 initcwnd=20"),
        (Command("rings", ("rx=1",)), "command rings rx=1"),
    ],
)
def test_setting_in_words(setting: Setting, words: str):
    assert setting.words == words
