"""What a traffic tool must tell of itself. Commands and `parse` are pure; nothing runs here."""

from typing import Protocol, Self

from netesto.model import GroupRequest, Ports, TransferResult


class Tool(Protocol):
    """A program that makes traffic."""

    @property
    def name(self) -> str:
        """As scripts and the registry call it."""

    @property
    def tests(self) -> frozenset[str]:
        """Those of model.TESTS that it can run."""

    @property
    def lasting_server(self) -> bool:
        """True where one server serves all flows (netserver), false where every instance has a
        server process of its own, on the instance's data port, that ends with it (iperf3 -1)."""

    def for_version(self, version: str) -> Self:
        """The tool as its installed version wants to be started; `parse` knows all versions."""

    def version_command(self) -> list[str]:
        """What prints the version."""

    def parse_version(self, output: str) -> str:
        """The version in what it printed. OutputError if there is none."""

    def server_command(self, port: int) -> list[str]:
        """The server, in the foreground, listening on `port`."""

    def client_command(self, request: GroupRequest, ports: Ports, instance: int) -> list[str]:
        """The client of one instance (from 1)."""

    def client_port(self, request: GroupRequest, ports: Ports, instance: int) -> int | None:
        """The client's end of the data connection, where the tool lets us choose it."""

    def deadline_s(self, request: GroupRequest) -> float:
        """Seconds after its start by which a client has ended, unless it is stuck."""

    def progress(self, line: str, request: GroupRequest) -> float | None:
        """Goodput in bit/s that a line of output tells while the flow runs, if it tells one."""

    def failure(self, output: str) -> str:
        """Why a client failed, in what it printed; "" if it does not say, or did not fail.

        Worth asking after exit status 0 too: iperf3 3.12 with JSON exits so when it is refused.
        """

    def parse(self, output: str, request: GroupRequest, *, started_s: float) -> TransferResult:
        """The result in what a client printed that exited with status 0.

        `started_s` is when it was started, for tools whose times are relative. OutputError says
        what is missing, or what the tool itself says went wrong. The congestion control under
        test belongs to the sender of the data: in TCP_MAERTS that is the remote one.
        """
