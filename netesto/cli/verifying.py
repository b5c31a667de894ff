"""`netesto hosts verify` and `netesto lab verify`: the facts of each host, one per line."""

import asyncio
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from netesto.cli import printing
from netesto.controller import readiness
from netesto.controller.inventory import Inventory
from netesto.controller.readiness import Problem, Visited
from netesto.controller.visit import visit
from netesto.model import PathState
from netesto.run import agents, status

# What the scripts of netesto use.
_USED_CONTROLS, _USED_QDISCS = ("cubic", "bbr"), ("fq", "netem", "tbf")


@dataclass(frozen=True, slots=True)
class FactLine:
    """A fact of a host, or something that it lacks, with the `remedy`."""

    host: str
    verdict: Literal["ok", "!", "X"]
    what: str
    state: str
    remedy: str = ""

    def __str__(self) -> str:
        text = f"{self.verdict:3}{self.host:12} {self.what:19} {self.state}".rstrip()
        return f"{text}: {self.remedy}" if self.remedy else text


def verify(inventory: Inventory, *, family: int, is_lab: bool = False) -> int:
    """Print a line for each item of each host; the exit status. Hosts of a lab have the clock of
    this machine."""
    peers = functools.partial(readiness.peers, family=family)
    visited = asyncio.run(visit(inventory, peers, connect=agents.connect))
    problems = readiness.problems(visited, inventory, family=family)
    if is_lab:
        problems = [each for each in problems if each.severity == "error"]
    ends = {
        str(address): f"{host.endpoint.host} ({host.info.device})"
        for host in visited
        if host.info is not None
        for address in host.endpoint.addresses.values()
    }
    found = [line for host in visited for line in lines(host, problems, ends)]
    for line in found:
        printing.out(str(line))
    return status.NOT_READY if any(line.verdict == "X" for line in found) else status.OK


def lines(
    host: Visited, problems: Sequence[Problem], ends: Mapping[str, str]
) -> Iterator[FactLine]:
    """What a host has, and what is wrong with it. `ends`: host and interface of each address."""
    name, info, state = host.endpoint.host, host.info, host.state
    if info is not None:
        tools = " ".join(f"{tool} {version}" for tool, version in sorted(info.tools.items()))
        yield FactLine(name, "ok", "kernel", info.kernel)
        yield FactLine(
            name, "ok" if tools else "X", "tools", tools or "none",
            "" if tools else "In Debian: apt install iperf3 netperf",
        )  # fmt: skip
        controls = info.usable_congestion_controls
        yield _having(name, "congestion control", controls, _USED_CONTROLS)
        if info.qdiscs:
            yield _having(name, "qdisc", info.qdiscs, _USED_QDISCS)
        addresses = " ".join(info.addresses)
        yield FactLine(name, "ok" if addresses else "X", "addresses", addresses or "none")
        for device in state.interfaces if state is not None else ():
            if device.name == info.device:
                offloads = " ".join(device.offloads) or "all off"
                found = f"MTU {device.mtu_bytes}, {offloads}"
                yield FactLine(name, "ok", f"interface {device.name}", found)
    for path in state.paths if state is not None else ():
        yield _of_path(name, path, ends)
    for problem in problems:
        if problem.host == name:
            mark: Literal["X", "!"] = "X" if problem.severity == "error" else "!"
            yield FactLine(name, mark, "", problem.message, problem.remedy)


def _having(host: str, what: str, has: Sequence[str], used: Sequence[str]) -> FactLine:
    absent = [each for each in used if each not in has]
    remedy = f"scripts that use {' '.join(absent)} need another kernel" if absent else ""
    return FactLine(host, "!" if absent else "ok", what, " ".join(has), remedy)


def _of_path(host: str, path: PathState, ends: Mapping[str, str]) -> FactLine:
    peer = ends.get(path.peer, path.peer)
    found = f"{peer} by {path.device}, {path.mtu_bytes} bytes"
    if path.answer == "whole":
        return FactLine(host, "ok", "path", found)
    return FactLine(host, "X", "path", f"{peer} {path.reason or path.answer}")
