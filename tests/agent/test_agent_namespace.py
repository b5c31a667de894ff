"""Settings on a real kernel, in a network namespace of the test's own."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from pathlib import Path

import pytest
from agent_daemons import READY_TIMEOUT_S, Daemon, StartDaemon

from netesto.errors import AgentError, MissingError
from netesto.files import atomic
from netesto.hostsettings import (
    Command,
    LinkAttribute,
    ModuleParameter,
    Netem,
    Qdisc,
    Setting,
    Sysctl,
)
from netesto.model import AgentStatus
from netesto.system import process
from netesto.transport.client import AgentClient, connect

pytestmark = pytest.mark.lab

TIMEOUT_S = 60

ECN = Sysctl("net.ipv4.tcp_ecn", "1")
ECN_SET = "sysctl net.ipv4.tcp_ecn=1"
ALTERED = "another program has changed it"
TBF = Qdisc("tbf", ("rate", "10mbit", "burst", "15000", "latency", "50ms"), "", "v0")


GROUND = """
import dataclasses, json
from netesto.agent.journal import ChangeScope
print(json.dumps(dataclasses.asdict(ChangeScope.here())))
"""


@pytest.fixture
def namespace() -> Iterator[str]:
    """Its interfaces: v0 — v1."""
    name = f"netesto-test-{os.getpid()}"
    process.run(["ip", "netns", "add", name], timeout=TIMEOUT_S)
    try:
        link = ["ip", "-n", name, "link", "add", "v0", "type", "veth", "peer", "name", "v1"]
        process.run(link, timeout=TIMEOUT_S)
        yield name
    finally:
        process.run(["ip", "netns", "del", name], timeout=TIMEOUT_S)


@pytest.fixture
def agent(namespace: str, start_daemon: StartDaemon) -> Daemon:
    return start_daemon("a", "--device", "v0", prefix=("ip", "netns", "exec", namespace))


def inside(namespace: str, *argv: str) -> str:
    command = ["ip", "netns", "exec", namespace, *argv]
    return process.run(command, timeout=TIMEOUT_S).stdout.strip()


def ecn(namespace: str) -> str:
    return inside(namespace, "cat", "/proc/sys/net/ipv4/tcp_ecn")


def qdiscs(namespace: str) -> list[tuple[str, str, dict]]:
    """Root qdiscs that were added: interface, kind, options."""
    found = json.loads(inside(namespace, "tc", "-j", "qdisc", "show") or "[]")
    return [
        (entry["dev"], entry["kind"], entry.get("options", {}))
        for entry in found
        if entry["handle"] != "0:"
    ]


PFIFO = Qdisc("pfifo", ("limit", "100"))


@pytest.fixture
def separate(namespace: str, start_daemon: StartDaemon) -> Daemon:
    """An agent for which no interface was named. The host's default route is by v0, its networks
    for tests are at w0 and x0."""
    for line in (
        "link add w0 type veth peer name w1", "link add x0 type veth peer name x1",
        "address add 192.0.2.1/24 dev v0", "address add 10.9.0.1/24 dev w0",
        "address add 10.8.0.1/24 dev x0", *(f"link set {a}{b} up" for a in "vwx" for b in "01"),
        "route add default via 192.0.2.9",
    ):  # fmt: skip
        process.run(["ip", "-n", namespace, *line.split()], timeout=TIMEOUT_S)
    return start_daemon("a", "--device", "", prefix=("ip", "netns", "exec", namespace))


async def test_an_agent_tests_through_the_interface_that_leads_to_the_peers_of_a_run(
    namespace: str, separate: Daemon
):
    async with separate.held() as a:
        before = (await a.info()).device
        state = await a.examine([ip_address("10.9.0.2"), ip_address("10.9.0.3")], for_run=True)
        await a.configure(PFIFO)
        during = ((await a.info()).device, qdiscs(namespace))
    async with separate.held() as a:
        after = (await a.info()).device
    assert (before, state.device, during, after) == (
        "v0",
        "w0",
        ("w0", [("w0", "pfifo", {"limit": 100})]),
        "v0",
    )


async def test_an_examination_by_somebody_else_changes_no_test_interface(separate: Daemon):
    async with separate.held() as a:
        state = await a.examine([ip_address("10.9.0.2")])
        assert (state.device, (await a.info()).device) == ("w0", "v0")


async def test_peers_at_several_interfaces_leave_the_test_interface_open(separate: Daemon):
    async with separate.held() as a:
        peers = [ip_address("10.9.0.2"), ip_address("10.8.0.2")]
        state = await a.examine(peers, for_run=True)
        assert (state.device, (await a.info()).device) == ("", "v0")


async def test_a_route_to_where_no_flow_may_go_finds_no_test_interface(separate: Daemon):
    async with separate.held() as a:
        state = await a.examine([ip_address("192.88.99.1")], for_run=True)
        assert state.device == "v0"


async def test_management_is_not_set_though_the_peers_are_behind_it(separate: Daemon):
    async with separate.held() as a:
        await a.examine([ip_address("192.0.2.7")], for_run=True)
        with pytest.raises(AgentError, match="the interface v0 carries management of this host"):
            await a.configure(PFIFO)


async def test_a_changed_agent_toml_applies_from_the_next_hold_on(
    namespace: str, start_daemon: StartDaemon, tmp_path: Path
):
    config = tmp_path / "agent.toml"
    config.write_text('device = "v0"')
    options = ("--device", "", "--config", str(config))
    daemon = start_daemon("a", *options, prefix=("ip", "netns", "exec", namespace))
    devices = []
    for text in ('device = "v1"\ngroup = "root"', "device = ", 'device = "v9"'):
        async with daemon.held() as a:
            atomic.replace(config, text)
            devices.append((await a.info()).device)
    async with daemon.held() as a:
        devices.append((await a.info()).device)
    log = daemon.log.read_text()
    assert devices == ["v0", "v1", "v1", "v9"]
    assert [
        "applies at the next start of the agent key=group" in log,
        "agent.toml not read again" in log,
        "no such interface interface=v9 key=device" in log,
    ] == [True, True, True]


async def test_a_run_waits_for_an_interface_that_was_set_up_a_moment_ago(
    namespace: str, start_daemon: StartDaemon
):
    daemon = start_daemon("a", "--device", "v0", prefix=("ip", "netns", "exec", namespace))

    def set_up(device: str) -> None:
        process.run(["ip", "-n", namespace, "link", "set", device, "up"], timeout=TIMEOUT_S)

    set_up("v0")
    async with daemon.held() as a:
        [before] = [each for each in (await a.examine([])).interfaces if each.name == "v0"]
        waiting = asyncio.create_task(a.examine([], for_run=True))
        # The agent has the request when it answers a later one.
        await a.probe_clock()
        set_up("v1")
        [after] = [each for each in (await waiting).interfaces if each.name == "v0"]
    assert [(each.is_up, each.lacks_carrier) for each in (before, after)] == [
        (False, True),
        (True, False),
    ]


CONNECT = """
import socket
from netesto.agent import routes
with (
    socket.create_server(("127.0.0.1", 0)) as server,
    socket.create_connection(server.getsockname()) as client,
    server.accept()[0] as accepted,
):
    client.send(b"x" * 10_000)
    accepted.recv(10_000)
"""


@pytest.mark.parametrize(("forget", "known"), [("", ["127.0.0.1"]), ("routes.forget()", [])])
def test_what_tcp_has_learnt_of_a_path_is_forgotten(namespace: str, forget: str, known: list[str]):
    inside(namespace, "ip", "link", "set", "lo", "up")
    inside(namespace, sys.executable, "-c", CONNECT + forget)
    shown = inside(namespace, "ip", "tcp_metrics", "show").splitlines()
    assert [line.split()[0] for line in shown] == known


@pytest.mark.parametrize(("address", "device"), [("127.0.0.1", "lo"), ("192.0.2.1", "unknown")])
def test_the_interface_that_leads_to_an_address(namespace: str, address: str, device: str):
    inside(namespace, "ip", "link", "set", "lo", "up")
    ask = f"""
from ipaddress import ip_address
from netesto.agent import routes
print(routes.device_to(ip_address("{address}"), default="unknown"))
"""
    assert inside(namespace, sys.executable, "-c", ask) == device


@pytest.mark.parametrize(
    ("routes", "devices"),
    [
        ((), ()),
        (("-4 default dev m4 metric 50", "-4 default dev m6 table 77"), ("m4",)),
        (("-4 default nexthop dev m6 nexthop dev m4",), ("m6",)),
        (("-4 default dev m4", "-6 default dev m6"), ("m4", "m6")),
        (("-6 unreachable default",), ()),
    ],
)
def test_interfaces_of_default_routes_are_those_that_manage_the_host(
    namespace: str, routes: Sequence[str], devices: Sequence[str]
):
    inside(namespace, "ip", "link", "add", "m4", "type", "veth", "peer", "name", "m6")
    for device in ("m4", "m6"):
        inside(namespace, "ip", "link", "set", device, "up")
    for family, _, route in (each.partition(" ") for each in routes):
        inside(namespace, "ip", family, "route", "add", *route.split())
    ask = "from netesto.agent import routes; print(*routes.managing())"
    assert inside(namespace, sys.executable, "-c", ask).split() == list(devices)


async def test_sysctl_is_set_while_held_and_put_back(agent: Daemon, namespace: str):
    before = ecn(namespace)
    async with agent.held() as a:
        applied = await a.configure(ECN)
        during = ecn(namespace)
    assert ((applied.words, applied.before, applied.after), during, ecn(namespace)) == (
        ("sysctl net.ipv4.tcp_ecn=1", before, "1"),
        "1",
        before,
    )


async def test_sysctl_set_twice_goes_back_to_the_first(agent: Daemon, namespace: str):
    before = ecn(namespace)
    async with agent.held() as a:
        await a.configure(ECN)
        await a.configure(Sysctl("net.ipv4.tcp_ecn", "0"))
    assert ecn(namespace) == before


async def test_three_values_are_set(agent: Daemon):
    async with agent.held() as a:
        applied = await a.configure(Sysctl("net.ipv4.tcp_wmem", "10000 262144 33554432"))
    assert applied.after == "10000 262144 33554432"


async def test_sysctl_that_is_not_in_the_namespace_is_reported(agent: Daemon):
    async with agent.held() as a:
        with pytest.raises(MissingError, match=r"^a: sysctl net.core.netdev_budget: not here"):
            await a.configure(Sysctl("net.core.netdev_budget", "300"))


async def test_congestion_control_that_is_not_in_the_kernel_is_reported(agent: Daemon):
    async with agent.held() as a:
        with pytest.raises(MissingError, match=r"^a: congestion control nosuch: not in this ker"):
            await a.configure(Sysctl("net.ipv4.tcp_congestion_control", "nosuch"))


async def test_setting_that_failed_leaves_nothing_to_undo(agent: Daemon):
    async with agent.held() as a:
        with pytest.raises(MissingError):
            await a.configure(Sysctl("net.ipv4.tcp_congestion_control", "nosuch"))
    changes = [json.loads(line) for line in (agent.state / "journal").read_text().splitlines()]
    assert [sorted(change) for change in changes[1:]] == [
        ["boot", "change", "interface", "namespace", "setting", "thing", "undo"],
        ["undone"],
    ]


async def test_qdisc_is_set_while_held_and_taken_away(agent: Daemon, namespace: str):
    async with agent.held() as a:
        applied = await a.configure(TBF)
        during = qdiscs(namespace)
    options = {"rate": 1250000, "burst": 15000, "lat": 50000}
    assert (during, qdiscs(namespace), applied.words, applied.before) == (
        [("v0", "tbf", options)],
        [],
        "qdisc v0: tbf rate 10mbit burst 15000 latency 50ms",
        "",
    )
    assert applied.after.startswith("qdisc tbf ")


async def test_an_interface_that_got_the_default_route_after_the_agent_began_is_refused(
    namespace: str, start_daemon: StartDaemon
):
    inside(namespace, "ip", "address", "add", "192.0.2.1/24", "dev", "v0")
    for name in ("v0", "v1"):
        inside(namespace, "ip", "link", "set", name, "up")
    # No device is named: the one that is the agent's by default is that of no route yet.
    agent = start_daemon("a", "--device", "", prefix=("ip", "netns", "exec", namespace))
    async with agent.held() as a:
        device = (await a.info()).device
        inside(namespace, "ip", "route", "add", "default", "via", "192.0.2.9", "dev", "v0")
        inside(namespace, "ip", "route", "change", "default", "dev", device)
        with pytest.raises(AgentError, match="carries management of this host"):
            await a.configure(Qdisc(TBF.kind, TBF.options, "", device))
    assert qdiscs(namespace) == []


async def test_old_qdisc_is_made_again(agent: Daemon, namespace: str):
    old = ("rate", "10mbit", "burst", "15000", "latency", "50ms")
    inside(namespace, "tc", "qdisc", "add", "dev", "v0", "root", "handle", "7:", "tbf", *old)
    before = inside(namespace, "tc", "qdisc", "show", "dev", "v0")
    async with agent.held() as a:
        await a.configure(Qdisc("pfifo", ("limit", "50"), "", "v0"))
        during = qdiscs(namespace)
    assert (during, inside(namespace, "tc", "qdisc", "show", "dev", "v0")) == (
        [("v0", "pfifo", {"limit": 50})],
        before,
    )


async def test_qdiscs_in_a_row_go_back_to_none(agent: Daemon, namespace: str):
    async with agent.held() as a:
        await a.configure(TBF)
        await a.configure(Qdisc("pfifo", ("limit", "50"), "replace", "v0"))
        await a.configure(Qdisc("", (), "delete", "v0"))
        await a.configure(Qdisc("bfifo", ("limit", "9000"), "", "v0"))
    assert qdiscs(namespace) == []


async def test_refused_options_leave_the_old_qdisc(agent: Daemon, namespace: str):
    async with agent.held() as a:
        await a.configure(Qdisc("pfifo", ("limit", "50"), "", "v0"))
        with pytest.raises(AgentError, match=r"^a: qdisc v0: bfifo limits 9: exit status"):
            await a.configure(Qdisc("bfifo", ("limits", "9"), "", "v0"))
        assert qdiscs(namespace) == [("v0", "pfifo", {"limit": 50})]


async def test_qdisc_that_is_not_in_the_kernel_is_reported(agent: Daemon):
    async with agent.held() as a:
        with pytest.raises(MissingError, match=r"^a: qdisc v0: nosuch: this qdisc is not in"):
            await a.configure(Qdisc("nosuch", (), "", "v0"))


async def test_interface_that_is_not_there_is_reported(agent: Daemon, namespace: str):
    inside(namespace, "ip", "link", "del", "v0")
    async with agent.held() as a:
        with pytest.raises(AgentError, match=r'Cannot find device "v0"$'):
            await a.configure(Qdisc("pfifo", (), "", "v0"))


async def test_netem_that_is_not_in_the_kernel_is_reported(agent: Daemon):
    async with agent.held() as a:
        if "netem" in (await a.info()).qdiscs:
            pytest.skip("this kernel has netem")
        with pytest.raises(MissingError, match=r"^a: qdisc v0: netem limit 1000 delay 20ms: this"):
            await a.configure(Netem(20, device="v0"))


async def test_netem_arrives_with_its_decimals(agent: Daemon, namespace: str):
    async with agent.held() as a:
        if "netem" not in (await a.info()).qdiscs:
            pytest.skip("this kernel has no netem")
        await a.configure(Netem(20.5, 1000, 0.01, "v0"))
        shown = inside(namespace, "tc", "qdisc", "show", "dev", "v0")
    assert shown.partition("limit ")[2] == "1000 delay 20.5ms loss 0.01%"


async def test_parameter_of_a_module_that_is_not_there_is_reported(agent: Daemon):
    async with agent.held() as a:
        with pytest.raises(MissingError, match=r"^a: module parameter tcp_cubic hystart_ack_del"):
            await a.configure(ModuleParameter("tcp_cubic", "hystart_ack_delta", "2"))


async def test_settings_of_a_killed_agent_are_put_back_by_recover(agent: Daemon, namespace: str):
    before = ecn(namespace)
    with pytest.raises(AgentError, match="connection lost"):
        await configure_and_kill(agent)
    during = (ecn(namespace), [kind for _, kind, _ in qdiscs(namespace)])
    recover = [sys.executable, "-m", "netesto.agent.daemon", "--recover", "--state"]
    inside(namespace, *recover, str(agent.state))
    assert (during, ecn(namespace), qdiscs(namespace)) == (("1", ["tbf"]), before, [])


async def test_settings_of_a_killed_agent_are_put_back_by_the_next(
    agent: Daemon, namespace: str, start_daemon: StartDaemon
):
    before = ecn(namespace)
    with pytest.raises(AgentError, match="connection lost"):
        await configure_and_kill(agent)
    start_daemon("a", "--device", "v0", prefix=("ip", "netns", "exec", namespace))
    assert (ecn(namespace), qdiscs(namespace)) == (before, [])


async def configure_and_kill(agent: Daemon) -> None:
    async with agent.held() as a:
        await a.configure(ECN)
        await a.configure(TBF)
        agent.child.send_signal(signal.SIGKILL)
        agent.child.wait(TIMEOUT_S)
        await anext(a.events)


def test_what_is_laid_over_the_processor_s_folder_stays(namespace: str):
    script = f"""
import ctypes
from pathlib import Path
from netesto.agent import namespaces
libc = ctypes.CDLL(None)
assert libc.unshare(namespaces.CLONE_NEWNS) == 0
assert libc.mount(b"", b"/", b"none", namespaces.MS_SLAVE | namespaces.MS_REC, None) == 0
assert libc.mount(b"none", bytes(namespaces.CPU_FOLDER), b"tmpfs", 0, None) == 0
(namespaces.CPU_FOLDER / "fact").touch()
namespaces.make(Path("/run/netns/{namespace}"), "/etc/hosts")
print([path.name for path in namespaces.CPU_FOLDER.iterdir()], Path("/sys/class/net/v0").exists())
"""
    said = process.run([sys.executable, "-c", script], timeout=TIMEOUT_S).stdout
    assert said == "['fact'] True\n"


def set_ecn(namespace: str, value: str) -> None:
    inside(namespace, "sysctl", "-qw", f"net.ipv4.tcp_ecn={value}")


async def test_sysctl_that_somebody_else_changed_is_left_and_reported(
    agent: Daemon, namespace: str
):
    async with agent.held() as a:
        await a.configure(Sysctl("net.ipv4.tcp_ecn", "1"))
        set_ecn(namespace, "0")
        left = await a.put_back()
    assert (left, ecn(namespace)) == (
        [f"{ECN_SET}: another program changed it since, to 0, which is left as it is"],
        "0",
    )


async def changed(agent: AgentClient) -> tuple[str, ...]:
    return (await agent.finish(1)).changed


@pytest.mark.parametrize(
    ("setting", "other", "said"),
    [
        (ECN, ("sysctl", "-w", "net.ipv4.tcp_ecn=0"), f"{ECN_SET}: {ALTERED}, to 0"),
        (
            Qdisc("pfifo", ("limit", "5"), "", "v0"),
            ("tc", "qdisc", "del", "dev", "v0", "root"),
            f"qdisc v0: pfifo limit 5: {ALTERED}, to the default",
        ),
        (
            Qdisc("pfifo", ("limit", "5"), "", "v0"),
            ("tc", "qdisc", "replace", "dev", "v0", "root", "handle", "7:", "pfifo", "limit", "9"),
            f"qdisc v0: pfifo limit 5: {ALTERED}, to qdisc pfifo 7: limit 9p",
        ),
        (
            LinkAttribute("mtu", "1400", device="v0"),
            ("ip", "link", "set", "v0", "mtu", "1300"),
            f"link v0: mtu=1400: {ALTERED}, to 1300",
        ),
        (
            LinkAttribute("mtu", "1400", device="v0"),
            ("ip", "link", "del", "v0"),
            "link v0: mtu=1400: cannot be read any more, and may have changed",
        ),
    ],
    ids=["sysctl", "qdisc", "another", "attribute", "gone"],
)
async def test_what_another_program_changed_is_found_with_the_experiment(
    agent: Daemon, namespace: str, setting: Setting, other: Sequence[str], said: str
):
    async with agent.held() as a:
        await a.configure(setting)
        before = await changed(a)
        inside(namespace, *other)
        # The number depends on the interface's queues.
        after = [re.sub(r" root refcnt \d+", "", text) for text in await changed(a)]
        assert (before, after) == ((), [said])


async def test_what_another_program_changed_is_found_with_the_statistics(
    agent: Daemon, namespace: str
):
    async with agent.held() as a:
        await a.configure(ECN)
        set_ecn(namespace, "0")
        await a.take_stats(1, 0)
        event = await anext(a.events)
    assert (event.kind, event.exp, event.text) == ("changed", 1, f"{ECN_SET}: {ALTERED}, to 0")


async def test_a_kept_setting_is_compared_too(keeping: Daemon, namespace: str):
    async with keeping.held() as a:
        await a.configure(KEPT_ECN)
        set_ecn(namespace, "0")
        assert await changed(a) == (f"{ECN_SET}: {ALTERED}, to 0",)


async def test_what_a_command_of_the_script_changes_is_no_change_of_another_program(
    namespace: str, start_daemon: StartDaemon, tmp_path: Path
):
    (tmp_path / "agent.toml").write_text(
        '[commands.ecn]\nrun = ["sysctl", "-w", "net.ipv4.tcp_ecn=0"]\n'
    )
    options = ("--device", "v0", "--config", str(tmp_path / "agent.toml"))
    agent = start_daemon("a", *options, prefix=("ip", "netns", "exec", namespace))
    async with agent.held() as a:
        await a.configure(ECN)
        await a.configure(Command("ecn"))
        by_command = await changed(a)
        set_ecn(namespace, "2")
        await a.configure(Command("ecn"))
        assert (by_command, await changed(a)) == ((), (f"{ECN_SET}: {ALTERED}, to 2",))


async def test_a_setting_is_recorded_with_its_instant_and_how_to_undo_it(
    agent: Daemon, namespace: str
):
    set_ecn(namespace, "2")
    async with agent.held() as a:
        before_s = (await a.probe_clock()).received_s
        ecn, tbf = [await a.configure(each) for each in (ECN, TBF)]
        after_s = (await a.probe_clock()).received_s
    times = [before_s, ecn.made_s or 0.0, tbf.made_s or 0.0, after_s]
    assert (ecn.setting, ecn.undo, tbf.setting, tbf.undo, times == sorted(times)) == (
        ECN,
        "sysctl -w net.ipv4.tcp_ecn=2",
        TBF,
        "tc qdisc del dev v0 root",
        True,
    )


async def test_status_tells_what_is_to_be_put_back_and_what_was_left(agent: Daemon, namespace: str):
    async with agent.held("2026-11-19T1") as a:
        await a.configure(Sysctl("net.ipv4.tcp_ecn", "1"))
        while_held = await a.status()
        set_ecn(namespace, "0")
    async with await connect(agent.address, host=agent.host, timeout=READY_TIMEOUT_S) as client:
        after = await client.status()
    said = f"{ECN_SET}: another program changed it since, to 0, which is left as it is"
    assert (while_held.holder, while_held.run, while_held.settings, while_held.left) == (
        "the test",
        "2026-11-19T1",
        (ECN_SET,),
        (),
    )
    assert after == AgentStatus(left=(said,))


async def test_change_of_somebody_else_between_two_settings_is_what_is_put_back(
    agent: Daemon, namespace: str
):
    async with agent.held() as a:
        await a.configure(Sysctl("net.ipv4.tcp_ecn", "1"))
        set_ecn(namespace, "2")
        await a.configure(Sysctl("net.ipv4.tcp_ecn", "0"))
        warning = await anext(a.events)
    assert (warning.text, ecn(namespace)) == (
        f"{ECN_SET}: another program changed it since, to 2, which is put back at the end",
        "2",
    )


async def test_qdisc_that_somebody_else_replaced_is_left_and_reported(
    agent: Daemon, namespace: str
):
    async with agent.held() as a:
        await a.configure(Qdisc("pfifo", ("limit", "5"), "", "v0"))
        await a.configure(TBF)
        inside(namespace, "tc", "qdisc", "replace", "dev", "v0", "root", "pfifo", "limit", "7")
        left = await a.put_back()
    what = "qdisc v0: tbf rate 10mbit burst 15000 latency 50ms"
    assert left == [f"{what}: another program changed it since, to pfifo, which is left as it is"]
    assert qdiscs(namespace) == [("v0", "pfifo", {"limit": 7})]


async def test_the_same_qdisc_made_by_somebody_else_is_not_ours(agent: Daemon, namespace: str):
    async with agent.held() as a:
        await a.configure(Qdisc("pfifo", ("limit", "9"), "", "v0"))
        inside(namespace, "tc", "qdisc", "del", "dev", "v0", "root")
        add = ("tc", "qdisc", "add", "dev", "v0", "root", "handle", "9:", "pfifo", "limit", "9")
        inside(namespace, *add)
    assert qdiscs(namespace) == [("v0", "pfifo", {"limit": 9})]


async def test_nothing_is_left_of_what_nobody_else_changed(agent: Daemon, namespace: str):
    async with agent.held() as a:
        for setting in (
            ECN,
            Qdisc("pfifo", ("limit", "5"), "", "v0"),
            TBF,
            Sysctl("net.ipv4.tcp_ecn", "0"),
        ):
            await a.configure(setting)
        assert await a.put_back() == []
        assert qdiscs(namespace) == []


async def test_next_agent_leaves_what_somebody_else_changed_after_the_kill(
    agent: Daemon, namespace: str, start_daemon: StartDaemon
):
    async with agent.held() as a:
        await a.configure(ECN)
        agent.child.kill()
        await asyncio.to_thread(agent.child.wait, TIMEOUT_S)
    set_ecn(namespace, "0")
    again = start_daemon("a", "--device", "v0", prefix=("ip", "netns", "exec", namespace))
    assert (ecn(namespace), "setting left" in again.log.read_text()) == ("0", True)


def test_change_of_another_version_keeps_no_agent_from_starting(
    namespace: str, start_daemon: StartDaemon, tmp_path: Path
):
    here = json.loads(inside(namespace, sys.executable, "-c", GROUND))
    change = {"change": 1, "what": "later", **here, "undo": [["later", "x"]]}
    (tmp_path / "a").mkdir()
    journal = tmp_path / "a" / "journal"
    journal.write_text(json.dumps(change) + "\n")
    agent = start_daemon("a", "--device", "v0", prefix=("ip", "netns", "exec", namespace))
    assert "journal not read line=1" in agent.log.read_text()
    agent.child.terminate()
    agent.child.wait(TIMEOUT_S)
    assert json.loads(journal.read_text().splitlines()[0]) == change


KEPT_ECN = Sysctl("net.ipv4.tcp_ecn", "1", keep=True)


@pytest.fixture
def keeping(namespace: str, start_daemon: StartDaemon, tmp_path: Path) -> Daemon:
    """An agent whose owner lets it keep settings."""
    (tmp_path / "agent.toml").write_text("limits.keep = true\n")
    options = ("--device", "v0", "--config", str(tmp_path / "agent.toml"))
    return start_daemon("a", *options, prefix=("ip", "netns", "exec", namespace))


async def test_kept_settings_stay_after_the_hold(keeping: Daemon, namespace: str):
    set_ecn(namespace, "2")
    pfifo = Qdisc("pfifo", ("limit", "7"), "", "v0", keep=True)
    async with keeping.held() as a:
        applied = [(await a.configure(each)).words for each in (KEPT_ECN, pfifo)]
    assert (applied, ecn(namespace), qdiscs(namespace)) == (
        [f"{ECN_SET} (kept)", "qdisc v0: pfifo limit 7 (kept)"],
        "1",
        [("v0", "pfifo", {"limit": 7})],
    )


async def test_keeping_keeps_what_the_run_has_changed_before(keeping: Daemon, namespace: str):
    set_ecn(namespace, "2")
    async with keeping.held() as a:
        await a.configure(Sysctl("net.ipv4.tcp_ecn", "0"))
        await a.configure(TBF)
        await a.configure(KEPT_ECN)
        await a.configure(Qdisc("tbf", (), "delete", "v0", keep=True))
    assert (ecn(namespace), qdiscs(namespace)) == ("1", [])


async def test_later_change_goes_back_to_what_is_kept(keeping: Daemon, namespace: str):
    set_ecn(namespace, "2")
    async with keeping.held() as a:
        await a.configure(KEPT_ECN)
        await a.configure(Qdisc("pfifo", ("limit", "7"), "", "v0", keep=True))
        await a.configure(Sysctl("net.ipv4.tcp_ecn", "0"))
        await a.configure(TBF)
        assert await a.put_back() == []
    assert (ecn(namespace), qdiscs(namespace)) == ("1", [("v0", "pfifo", {"limit": 7})])


async def test_kept_setting_outlives_a_killed_agent(
    keeping: Daemon, namespace: str, start_daemon: StartDaemon
):
    set_ecn(namespace, "2")
    async with keeping.held() as a:
        await a.configure(Sysctl("net.ipv4.tcp_ecn", "0"))
        await a.configure(KEPT_ECN)
        keeping.child.kill()
        await asyncio.to_thread(keeping.child.wait, TIMEOUT_S)
    start_daemon("a", "--device", "v0", prefix=("ip", "netns", "exec", namespace))
    assert ecn(namespace) == "1"


async def test_a_change_that_the_kernel_did_not_make_is_not_to_be_put_back(
    namespace: str, start_daemon: StartDaemon
):
    without_rights = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    prefix = ("ip", "netns", "exec", namespace, *without_rights)
    daemon = start_daemon("a", "--device", "v0", prefix=prefix)
    async with daemon.held() as agent:
        with pytest.raises(AgentError, match="Operation not permitted"):
            await agent.configure(TBF)
        status, left = await agent.status(), await agent.put_back()
    assert (status.settings, left) == ((), [])


async def test_host_keeps_nothing_unless_its_owner_allows_it(agent: Daemon, namespace: str):
    before = ecn(namespace)
    async with agent.held() as a:
        with pytest.raises(AgentError) as caught:
            await a.configure(KEPT_ECN)
        during = ecn(namespace)
    assert (caught.value.message, caught.value.remedy, during) == (
        "a: keep=1: this host keeps no setting of a run",
        "To allow it, write in the agent.toml of an installed agent: [limits] keep = true",
        before,
    )


async def test_agent_of_a_lab_keeps_nothing(namespace: str, start_daemon: StartDaemon):
    set_ecn(namespace, "2")
    options = ("--device", "v0", "--links", "no-such-namespace")
    agent = start_daemon("a", *options, prefix=("ip", "netns", "exec", namespace))
    async with agent.held() as a:
        assert (await a.configure(KEPT_ECN)).words == ECN_SET
    assert ecn(namespace) == "2"


async def test_what_a_broken_hold_left_is_reported_until_a_hold_ends_well(
    agent: Daemon, namespace: str
):
    async with agent.held() as a:
        await a.configure(ECN)
        set_ecn(namespace, "0")
    said = []
    for _ in range(2):
        async with agent.held() as a:
            event = await anext(a.events)
            said.append((event.kind, event.text))
    async with agent.held() as a:
        await a.put_back()
    left = f"in an earlier run: {ECN_SET}: another program changed it since, to 0"
    assert said == [("left", f"{left}, which is left as it is")] * 2
    assert json.loads((agent.state / "journal").read_text().splitlines()[-1]) == {"told": 1}


async def test_qdisc_of_an_interface_that_got_another_name_is_put_back(
    agent: Daemon, namespace: str
):
    async with agent.held() as a:
        await a.configure(TBF)
        inside(namespace, "ip", "link", "set", "v0", "name", "v9")
        inside(namespace, "ip", "link", "set", "v1", "name", "v0")
        inside(namespace, "tc", "qdisc", "add", "dev", "v0", "root", "pfifo", "limit", "3")
        assert await a.put_back() == []
    assert qdiscs(namespace) == [("v0", "pfifo", {"limit": 3})]


async def test_interface_that_was_made_again_is_left_alone(agent: Daemon, namespace: str):
    async with agent.held() as a:
        await a.configure(Qdisc("pfifo", ("limit", "5"), "", "v0"))
        await a.configure(TBF)
        inside(namespace, "ip", "link", "del", "v0")
        inside(namespace, "ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1")
        inside(namespace, "tc", "qdisc", "add", "dev", "v0", "root", "pfifo", "limit", "3")
        assert await a.put_back() == []
    assert qdiscs(namespace) == [("v0", "pfifo", {"limit": 3})]
