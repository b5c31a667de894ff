"""Requests for flows over loopback, and a tool whose client is any command."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self

from netesto.errors import OutputError
from netesto.flowspec import TESTS
from netesto.measured import TransferResult
from netesto.model import GroupRequest, Ports
from netesto.traffic.base import Condition
from results.samples import PLAIN

LOOPBACK = ip_address("127.0.0.1")

REQUEST = replace(
    PLAIN,
    client_address=LOOPBACK,
    server_address=LOOPBACK,
    duration_s=1,
    # What everybody may use, whatever others the machine allows.
    congestion_control="reno",
    reverse_congestion_control="reno",
)


def request(**changes: Any) -> GroupRequest:
    return replace(REQUEST, **changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellTool:
    """Runs `script` as its client. A line `rate N` is progress; `result N` is the result."""

    script: str = "echo result 5"
    limit_s: float = 20
    argv: Sequence[str] = ()
    name: str = "shelltool"
    tests: frozenset[str] = TESTS
    honours: Mapping[str, Condition] = field(default_factory=dict)
    lasting_server: bool = False
    server_port: int = 0
    connects_early: bool = False
    paces_datagrams: bool = False
    extras: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    asked: Sequence[str] = ("echo", "shelltool 1.0")

    def for_version(self, version: str) -> Self:
        return self

    def cannot(self, test: str, version: str) -> str:
        return ""

    def version_command(self) -> list[str]:
        return list(self.asked)

    def parse_version(self, output: str) -> str:
        return output.split()[1]

    def help_command(self) -> list[str]:
        return ["echo", "--skip nothing"]

    def server_command(self, port: int) -> list[str]:
        return ["iperf3", "-s", "-1", "-p", str(port)]

    def client_command(
        self,
        request: GroupRequest,
        ports: Ports,
        instance: int,
        *,
        folder: Path | None = None,
    ) -> list[str]:
        return list(self.argv) or ["sh", "-c", self.script]

    def client_port(self, request: GroupRequest, ports: Ports, instance: int) -> int | None:
        return None

    def deadline_s(self, request: GroupRequest) -> float:
        return self.limit_s

    def progress(self, line: str, request: GroupRequest) -> float | None:
        return float(line.split()[1]) if line.startswith("rate ") else None

    def failure(self, output: str) -> str:
        lines = [line for line in output.splitlines() if line.startswith("error: ")]
        return lines[0].removeprefix("error: ") if lines else ""

    def parse(
        self,
        output: str,
        request: GroupRequest,
        *,
        started_s: float,
        system_ahead_s: float | None = 0.0,
    ) -> TransferResult:
        words = output.split()
        if "result" not in words:
            raise OutputError("shelltool told no result")
        return TransferResult(rate_bps=float(words[words.index("result") + 1]), elapsed_s=1)
