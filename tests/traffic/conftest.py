"""Requests to drive tools with, their stored output, and real tools where there are any."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

import pytest
from needs import unmet
from processes import serving

from netesto.model import GroupRequest, Ports
from netesto.system import process
from netesto.traffic.netperf import Netperf
from results.samples import PLAIN

FIXTURES = Path(__file__).parent / "fixtures"
REAL_TOOLS = ("netperf", "netserver", "iperf3")


@pytest.fixture
def output() -> Callable[[str], str]:
    """What a tool printed, by the name of its file."""
    return lambda name: (FIXTURES / name).read_text()


@pytest.fixture
def ask() -> Callable[..., GroupRequest]:
    """A request; what is not given is plain."""

    def made(**fields: Any) -> GroupRequest:
        return replace(replace(PLAIN, client="h1", server="h2", duration_s=20.0), **fields)

    return made


@pytest.fixture
def ask_ipv6(ask: Callable[..., GroupRequest]) -> Callable[..., GroupRequest]:
    ends = {"client_address": IPv6Address("fd00::1"), "server_address": IPv6Address("fd00::2")}
    return lambda **fields: ask(**ends, **fields)


@pytest.fixture
def ask_loopback(ask: Callable[..., GroupRequest]) -> Callable[..., GroupRequest]:
    """The shortest request that a real tool can run against this machine."""
    here = IPv4Address("127.0.0.1")
    ends = {"client_address": here, "server_address": here, "duration_s": 1.0}
    return lambda **fields: ask(**ends, **fields)


@pytest.fixture
def ports() -> Ports:
    return Ports(control=(12865, 12865), data=(12900, 12901))


@pytest.fixture
def real_tools() -> None:
    """Skip, or fail where it is required, if a tool is not installed."""
    lacks = [tool for tool in REAL_TOOLS if shutil.which(tool) is None]
    # Where all addresses are loopback's, netperf cannot resolve even 127.0.0.1.
    if (
        not lacks
        and not process.run(["ip", "-4", "address", "show", "scope", "global"], timeout=60).stdout
    ):
        lacks = ["an IPv4 address beside the loopback interface's"]
    if lacks:
        unmet("tools", f"this machine needs {', '.join(lacks)}")


@pytest.fixture
def free_ports() -> Ports:
    """Ports of the loopback interface that nobody listens on: no other test has them, and the
    kernel gives them to nobody."""
    return Ports(control=(12_897,), data=(12_898,))


@pytest.fixture
def netserver(real_tools: None, free_ports: Ports, tmp_path: Path) -> Iterator[Ports]:
    """A netserver of our own, and the ports to reach it by."""
    (port,) = free_ports.control
    with serving(Netperf().server_command(port), port, tmp_path / "netserver.log"):
        yield free_ports
