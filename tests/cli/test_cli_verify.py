"""`netesto lab verify` and `hosts verify`: what each host has, one item per line."""

from dataclasses import replace

import pytest

from netesto import cli
from netesto.cli import verifying
from netesto.controller.readiness import Problem, Visited
from netesto.model import Endpoint, HostInfo, HostState, InterfaceState, PathState

INFO = HostInfo(
    host="a",
    version="1",
    kernel="6.1.0",
    cpus=2,
    memory_bytes=1 << 30,
    device="eth1",
    addresses=("10.0.0.1",),
    tools={"iperf3": "3.12"},
    congestion_controls=("cubic", "bbr"),
    qdiscs=("fq", "netem", "tbf"),
)
STATE = HostState(
    is_synchronized=True,
    clock_error_s=0.0,
    clock_source="chrony",
    disk_free_bytes=1 << 40,
    missing_commands=(),
    management=(),
    interfaces=(
        InterfaceState(name="eth0", mtu_bytes=1500, is_up=True),
        InterfaceState(name="eth1", mtu_bytes=9000, is_up=True, offloads=("tso", "gro")),
    ),
    paths=(PathState(peer="10.0.0.2", device="eth1", mtu_bytes=9000, answer="whole"),),
)
HOST = Visited(endpoint=Endpoint(host="a", agent="unix:x"), info=INFO, state=STATE)


def lines_of(host: Visited, *problems: Problem) -> list[str]:
    return [str(line) for line in verifying.lines(host, problems, {"10.0.0.2": "b (eth0)"})]


def test_each_thing_of_a_host_has_a_line():
    assert lines_of(HOST) == [
        "ok a            kernel              6.1.0",
        "ok a            tools               iperf3 3.12",
        "ok a            congestion control  cubic bbr",
        "ok a            qdisc               fq netem tbf",
        "ok a            addresses           10.0.0.1",
        "ok a            interface eth1      MTU 9000, tso gro",
        "ok a            path                b (eth0) by eth1, 9000 bytes",
    ]


def test_what_is_missing_has_a_remedy():
    bare = replace(HOST, info=replace(INFO, tools={}, qdiscs=("fq", "tbf")), state=None)
    assert lines_of(bare)[1:4:2] == [
        "X  a            tools               none: In Debian: apt install iperf3 netperf",
        "!  a            qdisc               fq tbf: scripts that use netem need another kernel",
    ]


def test_path_that_is_cut_is_not_ok():
    path = PathState(peer="10.0.0.2", device="eth1", mtu_bytes=9000, answer="cut")
    assert lines_of(replace(HOST, state=replace(STATE, paths=(path,))))[-1] == (
        "X  a            path                b (eth0) cut"
    )


def test_an_address_that_is_no_hosts_own_stands_for_itself():
    path = PathState(peer="10.0.0.9", device="eth1", mtu_bytes=9000, answer="whole")
    assert lines_of(replace(HOST, state=replace(STATE, paths=(path,))))[-1] == (
        "ok a            path                10.0.0.9 by eth1, 9000 bytes"
    )


def test_what_is_wrong_with_a_host_is_reported_with_it():
    late = Problem("a", "the clock is not synchronized", "start chrony", "warning")
    other = Problem("b", "does not answer")
    assert lines_of(HOST, late, other)[-1] == (
        "!  a                                the clock is not synchronized: start chrony"
    )


@pytest.mark.lab
def test_lab_of_a_kind_is_verified_and_gone(capsys: pytest.CaptureFixture[str]):
    status = cli.main(["lab", "verify", "pair"])
    lines = capsys.readouterr().out.splitlines()
    assert (status, {line[:2] for line in lines} <= {"ok", "! "}) == (0, True)
    paths = [line.split(maxsplit=3)[3] for line in lines if " path " in line]
    assert paths == ["b (a) by b, 1500 bytes", "a (b) by a, 1500 bytes"]
