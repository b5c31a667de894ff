"""Paths through a router, in namespaces: `a` ── 1500 ── `r` ── 1400 ── `b`."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict

import pytest

from netesto.model import PathState
from netesto.system import process

pytestmark = pytest.mark.lab

MEASURE = """
import asyncio, dataclasses, json, sys
from ipaddress import ip_address
from netesto.collectors import pathmtu

async def measure():
    paths = (pathmtu.measure(ip_address(each), port=13900, device="a0") for each in sys.argv[1:])
    return await asyncio.gather(*paths)

print(json.dumps(list(map(dataclasses.asdict, asyncio.run(measure())))))
"""

PREFIX = "netesto-mtu"

LAYOUT = f"""
link add a0 mtu 1500 netns {PREFIX}-a type veth peer name r0 mtu 1500 netns {PREFIX}-r
link add b0 mtu 1400 netns {PREFIX}-b type veth peer name r1 mtu 1400 netns {PREFIX}-r
link add c0 mtu 1400 netns {PREFIX}-c type veth peer name r2 mtu 1500 netns {PREFIX}-r
"""


def state(peer: str, answer: str, mtu_bytes: int, reason: str = "") -> PathState:
    return PathState(
        peer=peer,
        device="a0",
        mtu_bytes=mtu_bytes,
        answer=answer,  # type: ignore[arg-type]
        reason=reason,
    )


def ip(*words: str) -> None:
    process.run(["ip", *words], timeout=60)


@pytest.fixture(scope="module")
def paths() -> Iterator[dict[str, PathState]]:
    """What `a` finds, by peer. `c` is behind a link whose ends have different MTUs; nobody is at
    10.77.1.9, and to 10.78.0.1 there is no route."""
    names = [f"{PREFIX}-{each}" for each in "arbc"]
    try:
        for name in names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        for line in LAYOUT.split("\n"):
            if line:
                ip(*line.split())
        for number, host in enumerate("abc"):
            ip(
                "-n",
                f"{PREFIX}-{host}",
                "address",
                "add",
                f"10.77.{number}.2/24",
                "dev",
                f"{host}0",
            )
            ip("-n", f"{PREFIX}-{host}", "link", "set", f"{host}0", "up")
            ip("-n", f"{PREFIX}-r", "address", "add", f"10.77.{number}.1/24", "dev", f"r{number}")
            ip("-n", f"{PREFIX}-r", "link", "set", f"r{number}", "up")
            ip("-n", f"{PREFIX}-{host}", "route", "add", "10.77.0.0/16", "via", f"10.77.{number}.1")
        forward = ["sysctl", "-qw", "net.ipv4.ip_forward=1"]
        process.run(["ip", "netns", "exec", f"{PREFIX}-r", *forward], timeout=60)
        peers = ["10.77.0.1", "10.77.1.2", "10.77.2.2", "10.77.1.9", "10.78.0.1"]
        argv = ["ip", "netns", "exec", f"{PREFIX}-a", sys.executable, "-c", MEASURE, *peers]
        found = json.loads(process.run(argv, timeout=60).stdout)
        yield {each["peer"]: PathState(**each) for each in found}
    finally:
        for name in names:
            process.run(["ip", "netns", "delete", name], timeout=60, check=False)


def test_a_path_has_the_mtu_of_its_interface(paths):
    assert paths["10.77.0.1"] == state("10.77.0.1", "whole", 1500)


def test_a_path_has_the_mtu_that_a_router_names(paths):
    assert paths["10.77.1.2"] == state("10.77.1.2", "whole", 1400)


def test_a_link_that_loses_large_packets_silently_is_found(paths):
    assert paths["10.77.2.2"] == state("10.77.2.2", "cut", 1500)


def test_an_address_at_which_nobody_is_does_not_answer(paths):
    assert paths["10.77.1.9"].answer in ("silent", "unreachable")


def test_the_kernel_says_that_there_is_no_route(paths):
    expected = state("10.78.0.1", "unreachable", 0, "Network is unreachable")
    assert asdict(paths["10.78.0.1"]) == asdict(expected)
