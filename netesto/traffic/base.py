"""What a traffic tool provides. Commands and `parse` are pure; nothing runs here."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, Self

from netesto.measured import TransferResult
from netesto.model import REAL_TIME, GroupRequest, Ports, SystemTime
from netesto.units import format_processors

# No rate in bit/s, time or count of a flow is this large. Hosts are not trusted, and sums of larger
# numbers could be infinite.
LARGEST = 1e18


def pinned(cpus: tuple[int, ...]) -> list[str]:
    """The prefix of a command that runs it only on these processors; empty without any."""
    return ["taskset", "-c", format_processors(cpus)] if cpus else []


class Tool(Protocol):
    """A program that makes traffic. `choice.OPTIONS` says which options it can do."""

    @property
    def name(self) -> str:
        """Its name in scripts and in `choice.TOOLS`."""

    @property
    def tests(self) -> frozenset[str]:
        """Those of model.TESTS that it can run."""

    @property
    def lasting_server(self) -> bool:
        """True if one server serves all flows (netserver), False if each instance has its own,
        which listens on the data port and ends with the instance (iperf3 -1)."""

    @property
    def connects_early(self) -> bool:
        """True if a client connects before its start instant."""

    @property
    def extras(self) -> Mapping[str, re.Pattern[str]]:
        """The options (their names in `choice.OPTIONS`) that only some versions support, with the
        words for them in the help."""

    @property
    def server_port(self) -> int:
        """The port of a lasting server, unless it is in use."""

    def for_version(self, version: str) -> Self:
        """The tool that starts this installed version; `parse` reads the output of all versions."""

    def version_command(self) -> list[str]:
        """The command that prints the version."""

    def parse_version(self, output: str) -> str:
        """The version in that output. OutputError if there is none."""

    def help_command(self) -> list[str]:
        """The command that prints the help, in which `extras` are found; empty without extras."""

    def server_command(self, port: int) -> list[str]:
        """The server, in the foreground, listening on `port`."""

    def client_command(
        self,
        request: GroupRequest,
        ports: Ports,
        instance: int,
        *,
        folder: Path | None = None,
    ) -> list[str]:
        """The client of one instance (from 1). In `folder` it may leave files that begin with
        `times.` or `completions.`."""

    def client_port(self, request: GroupRequest, ports: Ports, instance: int) -> int | None:
        """The client's end of the data connection; None if the tool has no option for it."""

    def deadline_s(self, request: GroupRequest) -> float:
        """Seconds after its start by which a client has ended, unless it hangs."""

    def progress(self, line: str, request: GroupRequest) -> float | None:
        """Goodput in bit/s in a line that a running client printed; None if it has none."""

    def failure(self, output: str) -> str:
        """The reason why a client failed, in what it printed; "" if there is none.

        Also worth reading after exit status 0, with which iperf3 3.12 -J ends when it is refused.
        """

    def parse(
        self,
        output: str,
        request: GroupRequest,
        *,
        started_s: float,
        system: SystemTime = REAL_TIME,
    ) -> TransferResult:
        """The result in the output of a client that exited with status 0.

        `started_s` is when it was started, for tools with relative times, and `system` for those
        that print the system's time, or measure by it. OutputError says what is
        missing, or which error the tool reports. The congestion control under test is that of the
        sender of the data: the remote one in TCP_MAERTS.
        """
