"""What a kernel must have for a script, by which a run chooses its ground."""

import pytest

from netesto.collectors.capabilities import Capabilities
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
