import asyncio
import os
import sys
from pathlib import Path

import pytest

from netesto.collectors import hostfacts
from netesto.system import process

FILES = {
    "h1.ethtool-k", "h1.hardware", "h1.info", "h1.ip-link",
    "h1.netstat", "h1.snmp", "h1.snmp6", "h1.sysctl", "h1.tc",
}  # fmt: skip


def test_offloads_of_a_veth(fixtures):
    text = (fixtures / "ethtool-6.1-k-veth.txt").read_text()
    assert hostfacts.offloads(text) == {"tso": "on", "lro": "off", "gro": "off", "gso": "on"}


def test_coalescing_of_a_virtio_interface(fixtures):
    text = (fixtures / "ethtool-6.1-c-virtio.txt").read_text()
    assert hostfacts.coalescing(text) == {"rx-frames": "1", "tx-frames": "1", "adaptive-rx": "0"}


def test_an_interface_without_coalescing_has_no_such_features(fixtures):
    text = (fixtures / "ethtool-6.1-c-veth.txt").read_text()
    assert hostfacts.coalescing(text) == {}


def test_a_buffer_is_the_third_value_of_its_sysctl():
    text = (
        "net.ipv4.tcp_rmem = 4096\t131072\t33554432\nnet.ipv4.tcp_rmem_more = 1 2 3\n"
        "net.ipv4.tcp_wmem = 4096 16384 4194304\n"
    )
    assert hostfacts.buffers(text) == {"tcpRmem": "33554432", "tcpWmem": "4194304"}


def test_an_interface_that_is_not_there_has_no_counters():
    assert hostfacts.interface_counters("nothing0") == {}


def test_loopback_has_counters():
    assert set(hostfacts.interface_counters("lo")) == {
        "rx_packets", "tx_packets", "rx_bytes", "tx_bytes",
    }  # fmt: skip


def test_all_sources_are_kept(tmp_path):
    asyncio.run(hostfacts.take(tmp_path / "0", "h1", "lo"))
    assert {path.name for path in (tmp_path / "0").iterdir()} == FILES


def test_counters_rings_coalescing_and_pause_frames_are_those_of_hardware():
    hardware = {"ethtool-S", "ethtool-a", "ethtool-c", "ethtool-g"}
    asked = {
        path.name: hardware & hostfacts.commands(path.name).keys()
        for path in Path("/sys/class/net").iterdir()
    }
    assert asked == {
        name: hardware if Path(f"/sys/class/net/{name}/device").exists() else set()
        for name in asked
    }


def test_the_queues_of_a_labs_links_are_kept_beside(tmp_path):
    asyncio.run(hostfacts.take(tmp_path, "h1", "lo", links="no-such-namespace"))
    assert {path.name for path in tmp_path.iterdir()} == {*FILES, "h1.links"}
    asked = "tc -netns no-such-namespace -s -d qdisc: exit status"
    assert asked in (tmp_path / "h1.links").read_text()


def test_facts_that_were_taken_stay(tmp_path):
    (tmp_path / "h1.info").write_text("kept")
    asyncio.run(hostfacts.take(tmp_path, "h1", "lo"))
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"h1.info": "kept"}


def test_the_facts_taken_give_the_features(tmp_path):
    asyncio.run(hostfacts.take(tmp_path, "h1", "lo"))
    texts = {kind: (tmp_path / f"h1.{kind}").read_text() for kind in ("ethtool-k", "sysctl")}
    found = set(hostfacts.features(texts))
    assert {"tso", "gro", "gso", "tcpRmem", "tcpWmem"} <= found


def test_no_facts_give_no_features():
    assert hostfacts.features({}) == {}


def test_a_device_that_is_not_there_is_reported_in_the_file(tmp_path):
    asyncio.run(hostfacts.take(tmp_path, "h1", "nothing0"))
    text = (tmp_path / "h1.ethtool-k").read_text()
    assert "ethtool -k nothing0: exit status" in text


@pytest.mark.usefixtures("no_tools")
def test_a_missing_tool_is_reported_in_the_file(tmp_path):
    asyncio.run(hostfacts.take(tmp_path, "h1", "lo"))
    text = (tmp_path / "h1.tc").read_text()
    assert text == "tc: cannot start: No such file or directory\n"


@pytest.fixture
def hanging(tmp_path, monkeypatch):
    """tc and ethtool do not end; `started` has a line for each start."""
    # On a busy machine each takes a while to start, and so does `ip`, which ends.
    monkeypatch.setattr(hostfacts, "NEXT_TIMEOUT_S", hostfacts.COMMANDS_TIMEOUT_S)
    for name in ("tc", "ethtool"):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho {name} >>{tmp_path}/started\nexec sleep 60\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


@pytest.mark.usefixtures("hanging")
def test_programs_that_hang_are_waited_for_once_in_a_run(tmp_path):
    hung = set[str]()
    found = [asyncio.run(hostfacts.take(tmp_path / order, "h1", "lo", hung=hung)) for order in "01"]
    last = (tmp_path / "1" / "h1.ethtool-k").read_text()
    started = (tmp_path / "started").read_text().split()
    assert (found, hung, last, started) == (
        [["tc -s -d qdisc", "ethtool -k lo"], []],
        {"tc", "ethtool"},
        "not run: ethtool did not end before\n",
        ["tc", "ethtool"],
    )


def test_sysctls_of_other_interfaces_are_left_out():
    names = {name for name, _ in hostfacts.sysctls("lo")}
    kinds = {name.split(".")[3] for name in names if name.startswith("net.ipv4.conf.")}
    assert kinds == {"all", "lo"}


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a network namespace")
def test_a_sysctl_that_is_longer_than_one_read_is_whole():
    reserved = ",".join(str(port) for port in range(20_000, 21_200, 2))
    read = "from netesto.collectors import hostfacts; print(*hostfacts.sysctls('lo'), sep='\\n')"
    word = f"net.ipv4.ip_local_reserved_ports={reserved}"
    script = f'sysctl -qw {word} && exec "$0" -c "$1"'
    argv = ["unshare", "--net", "sh", "-c", script, sys.executable, read]
    lines = process.run(argv, timeout=60).stdout.splitlines()
    assert f"('net.ipv4.ip_local_reserved_ports', '{reserved}')" in lines
