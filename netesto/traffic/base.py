"""What a traffic tool provides. Commands and `parse` are pure; nothing runs here."""

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, Self, TypeAlias, runtime_checkable

from netesto.errors import OutputError
from netesto.flowspec import FlowSpec
from netesto.measured import TransferResult
from netesto.model import GroupRequest, Ports
from netesto.units import format_processors

# No rate in bit/s, time or count of a flow is this large. Hosts are not trusted, and sums of larger
# numbers could be infinite.
LARGEST = 1e18


def pinned(cpus: tuple[int, ...]) -> list[str]:
    """The prefix of a command that runs it only on these processors; empty without any."""
    return ["taskset", "-c", format_processors(cpus)] if cpus else []


def version_in(output: str, pattern: re.Pattern[str], command: str) -> str:
    """The version that a command printed. OutputError if there is none."""
    if match := pattern.search(output):
        return match[1]
    raise OutputError(f"{command} prints no version: {output.strip()[:80]!r}")


class Printed:
    """A value that `tool` printed as JSON, at this `place` of the whole; OutputError names the
    dotted path of what is missing."""

    def __init__(self, value: object, tool: str, place: str = "") -> None:
        self._value = value
        self._tool = tool
        self._place = place

    def find(self, path: str) -> object:
        """The value at `path`; None if there is none."""
        value = self._value
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def node(self, path: str) -> "Printed":
        value = self.find(path)
        if not isinstance(value, dict):
            raise OutputError(f"{self._tool} printed no {self._place}{path}")
        return Printed(value, self._tool, f"{self._place}{path}.")

    def nodes(self, path: str) -> "list[Printed]":
        values = self.find(path)
        if not isinstance(values, list):
            raise OutputError(f"{self._tool} printed no {self._place}{path}")
        return [Printed(value, self._tool, f"{self._place}{path}.") for value in values]

    def number(self, path: str) -> float:
        return self._number(self.find(path), path)

    def number_or_none(self, path: str) -> float | None:
        """The number at `path`; None if there is nothing."""
        value = self.find(path)
        return None if value is None else self._number(value, path)

    def whole(self, path: str) -> int | None:
        value = self.number_or_none(path)
        return None if value is None else int(value)

    def numbers(self, path: str) -> list[float]:
        values = self.find(path)
        if not isinstance(values, list):
            raise OutputError(f"{self._tool} printed no numbers for {self._place}{path}")
        return [self._number(value, path) for value in values]

    def text(self, path: str) -> str:
        value = self.find(path)
        return value if isinstance(value, str) else ""

    def _number(self, value: object, path: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise OutputError(f"{self._tool} printed no number for {self._place}{path}")
        # Also of NaN and Infinity, which Python reads as JSON.
        if not abs(value) < LARGEST:
            raise OutputError(f"{self._tool} printed an impossible {self._place}{path}")
        return float(value)


# What a tool cannot do of the value that a flow has for an option, in words; "" if it can.
Condition: TypeAlias = Callable[[FlowSpec], str]


def honouring(*names: str, **conditions: Condition) -> Mapping[str, Condition]:
    """The fields of FlowSpec that a tool honours: whatever their value, or as far as a condition
    says."""
    return dict.fromkeys(names, lambda _: "") | conditions


# What the number and the time in each datagram of native and iperf3 need.
NUMBERED_DATAGRAM = 16


def numbered(flow: FlowSpec) -> str:
    """The condition of `length_bytes` for a tool that numbers its datagrams."""
    is_short = flow.test == "UDP_STREAM" and (flow.length_bytes or 0) < NUMBERED_DATAGRAM
    return f"datagrams below {NUMBERED_DATAGRAM} bytes" if is_short else ""


@runtime_checkable
class Tool(Protocol):
    """A program that makes traffic."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name in scripts and in `choice.TOOLS`."""

    @property
    @abstractmethod
    def tests(self) -> frozenset[str]:
        """Those of flowspec.TESTS that it can run."""

    @property
    @abstractmethod
    def honours(self) -> Mapping[str, Condition]:
        """The options that every version honours, by the names of their fields in FlowSpec. A flow
        with another value than the default of any other option is not given to it."""

    @property
    @abstractmethod
    def lasting_server(self) -> bool:
        """True if one server serves all flows (netserver), False if each instance has its own,
        which listens on the data port and ends with the instance (iperf3 -1)."""

    @property
    def connects_early(self) -> bool:
        """True if a client connects before its start instant, and begins at it."""
        return False

    @property
    def paces_datagrams(self) -> bool:
        """True if a UDP_STREAM has a bitrate also in simulated time, where computing takes none and
        others send endlessly, or everything at once; without `bitrate`, one above that of its path.
        """
        return False

    @property
    def extras(self) -> Mapping[str, re.Pattern[str]]:
        """What only some versions support, with the words for it in the help: an option (its
        argument of DO_CLIENT), or what a condition of `honours` says."""
        return {}

    @property
    def server_port(self) -> int:
        """The port of a lasting server, unless it is in use."""
        return 0

    def for_version(self, version: str) -> Self:  # noqa: ARG002 - most have only one
        """The tool that starts this installed version; `parse` reads the output of all versions."""
        return self

    def cannot(self, test: str, version: str) -> str:  # noqa: ARG002 - most versions are alike
        """Why an installed version cannot run one of its `tests`; "" if it can."""
        return ""

    @abstractmethod
    def version_command(self) -> list[str]:
        """The command that prints the version."""

    @abstractmethod
    def parse_version(self, output: str) -> str:
        """The version in that output. OutputError if there is none."""

    def help_command(self) -> list[str]:
        """The command that prints the help, in which `extras` are found; empty without extras."""
        return []

    @abstractmethod
    def server_command(self, port: int) -> list[str]:
        """The server, in the foreground, listening on `port`."""

    @abstractmethod
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

    def client_port(
        self,
        request: GroupRequest,  # noqa: ARG002
        ports: Ports,  # noqa: ARG002
        instance: int,  # noqa: ARG002
    ) -> int | None:
        """The client's end of the data connection; None if the tool has no option for it."""
        return None

    @abstractmethod
    def deadline_s(self, request: GroupRequest) -> float:
        """Seconds after its start by which a client has ended, unless it hangs."""

    def progress(self, line: str, request: GroupRequest) -> float | None:  # noqa: ARG002
        """Goodput in bit/s in a line that a running client printed; None if it has none."""
        return None

    def failure(self, output: str) -> str:  # noqa: ARG002
        """The reason why a client failed, in what it printed; "" if there is none.

        Also worth reading after exit status 0, with which iperf3 3.12 -J ends when it is refused.
        """
        return ""

    @abstractmethod
    def parse(
        self,
        output: str,
        request: GroupRequest,
        *,
        started_s: float,
        system_ahead_s: float | None = 0.0,
    ) -> TransferResult:
        """The result in the output of a client that exited with status 0.

        `started_s` is when it was started, for tools with relative times. For those that print the
        system's time, or measure by it, `system_ahead_s` is how far the client's was ahead of the
        clock of `started_s`; None if somebody set it meanwhile: what depends on it is then unknown.
        OutputError says what is missing, or which error the tool reports. The congestion control
        under test is that of the sender of the data: the remote one in TCP_MAERTS.
        """
