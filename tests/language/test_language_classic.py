"""Whole scripts in the classic style: every command to the hosts, in order.

The scripts are in classic/. Below, `k010~` is kerneltest010.dc1.mynetwork.com, and `1.2` the second
group of experiment 1. A flow is `client > server test ca dur +delay xinstances req/reply`.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from netesto import cli

CLASSIC = Path(__file__).with_name("classic")
COMMON = {"host", "exp", "expName"}
FLOW = "> {server} {test} {ca} {dur} +{delay} x{instances} {req}/{reply} stats={stats}"


def short_line(command: dict[str, Any]) -> str:
    """A line of the dry run, short."""
    if "summary" in command:
        return "experiments={experiments} flows={flows}".format(**command["summary"])
    given = command["args"]
    match command["command"]:
        case "DO_CLIENT":
            what = f"{given['expName']} {FLOW.format(**given)}"
        case "DO_SERVER":
            what = f"{given['expName']} order={given['order']} start={given['start']}"
        case "PROCESS_EXP":
            what = " ".join(str(each) for key, each in given.items() if key != "exp")
        case _:
            what = " ".join(f"{key}={each}" for key, each in given.items() if key not in COMMON)
    group = f".{command['group']}" if command["group"] else ""
    words = [command["command"], command["host"], f"{command['exp']}{group}", what]
    line = " ".join(word for word in words if word)
    return line.replace("kerneltest", "k").replace(".dc1.mynetwork.com", "~")


def dry_run(path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert cli.main(["run", "-n=json", str(path)]) == 0
    return [short_line(json.loads(line)) for line in capsys.readouterr().out.splitlines()]


RMEM = "net.ipv4.tcp_rmem=10000 262144 33554432 net.core.rmem_max=67108864"
WMEM = "net.ipv4.tcp_wmem=10000 262144 33554432"
TWO_FLOWS = [
    f"SET_SYSCTL k010~ 0 {RMEM}",
    "DO_SERVER k010~ 1 1s2cmid order=0 start=1",
    f"SET_SYSCTL k011~ 1 {WMEM}",
    "DO_CLIENT k011~ 1.1 1s2cmid > k010~ TCP_STREAM cubic 60 +0 x1 1M/1 stats=1",
    f"SET_SYSCTL k012~ 1 {WMEM}",
    "DO_CLIENT k012~ 1.2 1s2cmid > k010~ TCP_STREAM cubic 20 +23 x1 1M/1 stats=1",
    "DO_SERVER k010~ 1 1s2cmid order=1 start=0",
    "GET_DATA k011~ 1",
    "GET_DATA k012~ 1",
    "GET_DATA k010~ 1",
    "PROCESS_EXP 1 1s2cmid near 10gbit 7",
    # NEXT_COUNTER
    "SET_NETEM k010~ 1 netem_delay=10 limit=20000 loss=0.01",
    f"SET_SYSCTL k010~ 1 {RMEM}",
    "DO_SERVER k010~ 10 1s2cmid order=0 start=1",
    f"SET_SYSCTL k011~ 10 {WMEM}",
    "DO_TCPDUMP k011~ 10 server=k010~ packets=5000 snap=0",
    "DO_CLIENT k011~ 10.1 1s2cmid > k010~ TCP_STREAM cubic 60 +0 x1 1M/1 stats=1",
    f"SET_SYSCTL k012~ 10 {WMEM}",
    "DO_TCPDUMP k012~ 10 server=k010~ packets=5000 snap=0",
    "DO_CLIENT k012~ 10.2 1s2cmid > k010~ TCP_STREAM nv 20 +23 x1 1M/1 stats=1",
    "DO_SERVER k010~ 10 1s2cmid order=1 start=0",
    "GET_DATA k011~ 10",
    "GET_DATA k012~ 10",
    "GET_DATA k010~ 10",
    "PROCESS_EXP 10 1s2cmid far, with loss 10gbit 7",
    "SET_NETEM k010~ 10 netem_delay=0 loss=0",
    "experiments=2 flows=4",
]


def small_buffers(exp: int, ca: str) -> list[str]:
    flow = f"1s2c2fr.small > k010~ {{}} {ca} 30 +0 x1 {{}}/1 stats=1"
    stream, requests = flow.format("TCP_STREAM", "1M"), flow.format("TCP_RR", "10K")
    return [
        f"SET_SYSCTL k010~ {exp - 1} net.ipv4.tcp_rmem=10000 87380 262144",
        f"DO_SERVER k010~ {exp} 1s2c2fr.small order=0 start=1",
        f"DO_CLIENT k011~ {exp}.1 {stream}",
        f"DO_CLIENT k011~ {exp}.2 {requests}",
        f"DO_CLIENT gen3.lab2.mynetwork.com {exp}.3 {stream}",
        f"DO_CLIENT gen3.lab2.mynetwork.com {exp}.4 {requests}",
        f"DO_SERVER k010~ {exp} 1s2c2fr.small order=1 start=0",
        f"GET_DATA k010~ {exp}",
        f"GET_DATA k011~ {exp}",
        f"GET_DATA gen3.lab2.mynetwork.com {exp}",
        f"PROCESS_EXP {exp} 1s2c2fr.small",
    ]


def large_buffers(exp: int, name: str) -> list[str]:
    return [
        f"SET_SYSCTL k010~ {exp - 1} net.ipv4.tcp_rmem=10000 87380 33554432",
        f"DO_SERVER k010~ {exp} {name} order=0 start=1",
        f"DO_CLIENT k012~ {exp}.1 {name} > k010~ TCP_RR reno 1m +0 x1 1M/1 stats=1",
        f"DO_SERVER k010~ {exp} {name} order=1 start=0",
        f"GET_DATA k010~ {exp}",
        f"GET_DATA k012~ {exp}",
        f"PROCESS_EXP {exp} {name}",
    ]


BUFFERS = [
    *small_buffers(1, "cubic"),
    *small_buffers(2, "bbr"),
    *small_buffers(3, "cubic"),
    *small_buffers(4, "bbr"),
    *large_buffers(5, "1s1c1fr.large1"),
    *large_buffers(6, "1s1c1fr.large2"),
    *large_buffers(7, "1s1c1fr.large2"),
    *large_buffers(8, "1s1c1fr.large3"),
    *large_buffers(9, "1s1c1fr.large3"),
    *large_buffers(10, "1s1c1fr.large3"),
    "experiments=10 flows=22",
]


def routed(exp: int, before: int, rate: str) -> list[str]:
    return [
        f"SET_QDISC k020~ {before} qdisc=tbf action= rate={rate} burst=15k limit=300k",
        f"SET_MODULE_PARAMS k011~ {before} module=tcp_cubic hystart=0",
        f"DO_SERVER k010~ {exp} 1f1hr order=0 start=1",
        f"DO_CLIENT k011~ {exp}.1 1f1hr > k010~ TCP_RR cubic 20 +0 x1 1M/1 stats=1",
        f"DO_SERVER k010~ {exp} 1f1hr order=1 start=0",
        f"GET_DATA k010~ {exp}",
        f"GET_DATA k011~ {exp}",
        f"PROCESS_EXP {exp} 1f1hr",
    ]


ROUTER = [
    *routed(100, 0, "100mbit"),
    *routed(101, 100, "1gbit"),
    "DO_SERVER k010~ 1 byHand order=0 start=1",
    "DO_TCPDUMP k010~ 1 server=X packets=200 snap=0",
    "DO_CLIENT k011~ 1.1 byHand > k010~ TCP_STREAM nv 20 +0 x1 1M/1 stats=1",
    "DO_CLIENT k011~ 1.7 byHand > k010~ TCP_RR dctcp 20 +500ms x1 10K/1M stats=0",
    "DO_CLIENT k011~ 1.8 byHand > k010~ TCP_RR reno 20 +0 x3 1M/1 stats=0",
    "GET_DATA k011~ 1",
    "DO_SERVER k010~ 1 byHand order=1 start=0",
    "GET_DATA k010~ 1",
    "PROCESS_EXP 1 byHand",
    "DO_CLIENT k012~ 1.1 byHand > k010~ TCP_STREAM reno 20 +0 x1 1M/1 stats=0",
    "PROCESS_EXP 1 byHand",
    "CLOSE k011~ 1",
    "EXIT k012~ 1",
    "experiments=4 flows=8",
]

QUIRKS = [
    "DO_SERVER k010~ 1 n order=0 start=0",
    "DO_SERVER k012~ 2 n order=0 start=0",
    # s is what Each left in it
    "DO_SERVER k012~ 2 n order=1 start=0",
    "DO_SERVER k010~ 2 n order=0 start=0",
    "DO_SERVER k012~ 2 n order=0 start=0",
    "DO_SERVER k012~ 2 n order=1 start=0",
    # s is an argument, which hides what the loops set
    "DO_SERVER k010~ 3 n order=0 start=0",
    "DO_SERVER k012~ 4 n order=0 start=0",
    "DO_SERVER mine~ 4 n order=1 start=0",
    "DO_SERVER k010~ 4 n order=0 start=0",
    "DO_SERVER k012~ 4 n order=0 start=0",
    "DO_SERVER mine~ 4 n order=1 start=0",
    # 7 / -2 is -4
    "DO_CLIENT k011~ 7.1 n > k010~ TCP_STREAM reno 30 +6 x1 1M/1 stats=0",
    "DO_CLIENT k011~ 7.2 n > k012~ TCP_STREAM reno 30 +0 x2 1M/1 stats=0",
    "PROCESS_EXP 7 n",
    "DO_CLIENT k011~ 7.1 n > k012~ TCP_RR reno 30 +0 x1 1M/1 stats=0",
    "GET_DATA k011~ 7",
    "GET_DATA k012~ 7",
    "DO_SERVER k010~ 10 a=b order=0 start=0",
    "PROCESS_EXP 7 n",
    "SET_NETEM k010~ 10 netem_delay=0.5 loss=0.01",
    "DO_CLIENT k011~ 10.1 a=b > k010~ TCP_RR reno 20 +0 x1 1M/1 stats=0",
    "DO_SERVER k011~ 10 a=b order=1 start=0",
    # the script leaves it with a flow
    "PROCESS_EXP 10 a=b",
    "experiments=3 flows=5",
]

SCRIPTS = [
    ("two-flows.nts", TWO_FLOWS),
    ("buffers-of-the-rack.nts", BUFFERS),
    ("through-a-router.nts", ROUTER),
    ("quirks.nts", QUIRKS),
]


@pytest.mark.parametrize(("name", "expected"), SCRIPTS, ids=[name for name, _ in SCRIPTS])
def test_hosts_are_sent_what_the_script_says(name, expected, capsys):
    assert dry_run(CLASSIC / name, capsys) == expected


def test_line_ends_of_other_systems_change_nothing(tmp_path, capsys):
    text = (CLASSIC / "two-flows.nts").read_text()
    path = tmp_path / "two-flows.nts"
    path.write_bytes(text.replace("\n", "\r\n").encode())
    assert dry_run(path, capsys) == TWO_FLOWS
