"""The systemd unit lets an agent do its work, and little else."""

import os
import re
import shutil
from pathlib import Path

import pytest
from agent_daemons import StartDaemon
from agent_values import request

from netesto.hostsettings import Qdisc, Sysctl
from netesto.limits import allowed
from netesto.model import CaptureRequest
from netesto.system import process

UNIT = Path(__file__).resolve().parents[2] / "remote" / "netesto-agent.service"

TIMEOUT_S = 60

# The folders of /proc/sys with sysctls that scripts may set.
SYSCTLS = [name.partition(".")[0] for name in allowed.SYSCTLS]


def of_unit(key: str) -> list[str]:
    (value,) = re.findall(rf"^{key}=(.*)$", UNIT.read_text(), re.MULTILINE)
    return str(value).split()


def directives() -> str:
    lines = UNIT.read_text().splitlines()
    return "\n".join(line for line in lines if not line.startswith("#"))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_exposure_of_the_unit_is_low():
    argv = ["systemd-analyze", "security", "--offline=yes", "--threshold=40", str(UNIT)]
    finished = process.run(argv, timeout=TIMEOUT_S, check=False)
    assert finished.status == 0, finished.stdout


def test_the_unit_lets_the_agent_write_no_sysctls_but_those_of_the_network():
    """Who can write kernel.core_pattern can run a program as root."""
    assert (of_unit("ReadOnlyPaths"), of_unit("ReadWritePaths"), set(SYSCTLS)) == (
        ["/proc/sys"],
        ["/proc/sys/net"],
        {"net"},
    )


def test_stopping_the_unit_leaves_the_records_of_labs():
    assert of_unit("RuntimeDirectoryPreserve") == ["yes"]


def test_the_unit_lets_the_agent_ask_whether_the_clock_is_synchronized():
    allowed = {"adjtimex", "clock_adjtime"} & {*of_unit("SystemCallFilter")}
    # It refuses both, whatever the filter says.
    assert (len(allowed), "ProtectClock=" in directives()) == (2, False)


def test_the_unit_allows_the_sampler_to_come_first(start_daemon: StartDaemon):
    limits = [
        f"--rtprio={of_unit('LimitRTPRIO')[0]}",
        f"--nice={20 - int(of_unit('LimitNICE')[0])}",
    ]
    if process.run(["prlimit", *limits, "true"], timeout=TIMEOUT_S, check=False).status:
        pytest.skip("needs CAP_SYS_RESOURCE: it raises limits")
    confined = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
    daemon = start_daemon("a", prefix=("prlimit", *limits, *confined))
    children = Path(f"/proc/{daemon.child.pid}/task/{daemon.child.pid}/children").read_text()
    [sampler] = map(int, children.split())
    # The agent may be ready before its sampler has had a processor.
    comes_first = process.wait_until(
        lambda: os.sched_getscheduler(sampler) == os.SCHED_RR, timeout=TIMEOUT_S
    )
    name = Path(f"/proc/{sampler}/comm").read_text()
    assert (name, comes_first) == ("netesto-sampler\n", True)


@pytest.mark.lab
@pytest.mark.usefixtures("netperf")
async def test_agent_works_with_the_capabilities_of_the_unit(start_daemon: StartDaemon):
    names = [name.removeprefix("CAP_").lower() for name in of_unit("CapabilityBoundingSet")]
    bounds = ",".join(["-all", *(f"+{name}" for name in names)])
    confined = ["setpriv", f"--bounding-set={bounds}", "--inh-caps=-all", "--no-new-privs"]
    # With nothing but 127.0.0.1, netperf's getaddrinfo finds no address (AI_ADDRCONFIG).
    up = ["sh", "-c", 'ip link set lo up && ip addr add 10.9.9.9/32 dev lo && exec "$@"', "sh"]
    daemon = start_daemon("a", prefix=("unshare", "--net", *up, *confined))
    async with daemon.held() as a:
        await a.configure(Sysctl("net.ipv4.tcp_ecn", "1"))
        await a.configure(Qdisc("pfifo", ("limit", "1000"), "", "lo"))
        asked = request(stats=True, congestion_control="cubic")
        await a.start_capture(CaptureRequest(exp=1, host="a", peer=None, packets=5, snap_bytes=99))
        ports = await a.expect(asked)
        await a.start(asked, ports, 0.0)
        events = []
        async for event in a.events:
            events.append((event.kind, event.text))
            if event.kind == "complete":
                break
        await a.forget(1, 1)
        await a.finish(1)
        sizes = {entry.path: entry.size for entry in (await a.finish(1)).files}
        left = await a.put_back()
    told = [text.partition(";")[0] for kind, text in events if kind in {"warning", "failed"}]
    # How many packets pass while tcpdump ends depends on how soon it has a processor.
    told = [each for each in told if "the kernel dropped" not in each]
    assert told == ["capture.1.pcap: the capture ended at its limit of 5 packets"]
    assert (left, min(sizes["capture.1.pcap"], sizes["ping.1.out"]) > 100) == ([], True)
