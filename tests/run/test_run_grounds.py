"""What a kernel must have for a script, by which a run chooses its ground."""

import pytest

from netesto.collectors.capabilities import Capabilities
from netesto.errors import ScriptError
from netesto.language.draft import Draft
from netesto.language.plan import SourceFile
from netesto.language.planner import make
from netesto.run import grounds

KERNEL = Capabilities(kernel="6.1", congestion_controls=("cubic", "reno"), qdiscs=("fq", "tbf"))


@pytest.mark.parametrize(
    ("line", "lacking"),
    [
        ("DO_CLIENT host=a server=b", []),
        ("DO_CLIENT host=a server=b ca=bbr", ["congestion control bbr"]),
        ("DO_CLIENT host=a server=b ca=cubic remoteCa=dctcp", ["congestion control dctcp"]),
        ("SET_QDISC host=a qdisc=fq", []),
        ("SET_QDISC host=a qdisc=cake", ["qdisc cake"]),
        ("SET_QDISC host=a qdisc=cake action=delete", []),
        ("SET_NETEM host=a netem_delay=1", ["qdisc netem"]),
        ("SET_SYSCTL host=a net.core.default_qdisc=cake", ["qdisc cake"]),
        (
            "SET_SYSCTL host=a net.ipv4.tcp_congestion_control=bbr net.ipv4.tcp_ecn=1",
            ["congestion control bbr"],
        ),
    ],
)
def test_a_kernel_needs_what_commands_name(line: str, lacking: list[str]):
    script = SourceFile("a.nts", line)
    with make(script, Draft(seed=1), library_path=[], definitions={}) as plan:
        assert grounds.lacking(plan.head.commands, KERNEL) == lacking


def test_qdiscs_of_which_nothing_is_known_are_not_lacking():
    kernel = Capabilities(kernel="6.1", congestion_controls=(), qdiscs=None)
    script = SourceFile("a.nts", "SET_QDISC host=a qdisc=cake")
    with make(script, Draft(seed=1), library_path=[], definitions={}) as plan:
        assert grounds.lacking(plan.head.commands, kernel) == []


@pytest.mark.parametrize(
    "setting",
    ["net.core.rmem_max=300000", "net.ipv4.tcp_allowed_congestion_control=reno,cubic"],
)
def test_a_sysctl_of_the_whole_kernel_is_refused_in_a_lab_on_this_kernel(setting: str):
    """SET_SYSCTL host=a net.core.rmem_max=300000"""
    script = SourceFile("a.nts", f"SET_SYSCTL host=a net.ipv4.tcp_ecn=1 {setting}")
    name = setting.partition("=")[0]
    with (
        make(script, Draft(seed=1), library_path=[], definitions={}) as plan,
        pytest.raises(ScriptError) as caught,
    ):
        grounds.check_sysctls(plan.head.commands)
    whole = "belongs to the whole kernel of this machine, and not to a host of a lab in it"
    assert caught.value.message == f"sysctl {name} {whole}"


def test_a_sysctl_of_a_namespace_is_not_refused_in_a_lab():
    script = SourceFile("a.nts", "SET_SYSCTL host=a net.ipv4.tcp_rmem=4096,8192,16384")
    with make(script, Draft(seed=1), library_path=[], definitions={}) as plan:
        grounds.check_sysctls(plan.head.commands)
