"""The ports of traffic: fixed ranges, so that rules of firewalls and captures can name them.

    12865          netserver's control connection, the port registered for netperf
    12866          the same of netesto-flow
    12900 … 13899  the server's end of data connections, one for every instance
    13900          nobody listens: packets that try a path are refused there, which proves that
                   they arrived
    14000 … 29999  the client's end: below 32768, the first of Linux's own ephemeral ports

netserver and iperf3 can listen again on a port with connections in TIME_WAIT: both set SO_REUSEADDR
(tried with the same ports at both ends). The least recently used port is nevertheless taken first,
so that late packets of a flow, and samples of its last socket, are not mistaken for another's.
"""

from collections import deque
from collections.abc import Iterable

from netesto.errors import WorldError
from netesto.model import GroupRequest, Ports

NETSERVER_PORT = 12865
FLOW_SERVER_PORT = 12866

FIRST_DATA_PORT = 12900
# More flows to one server at the same time than the cores of a test bed can drive.
DATA_PORTS = 1000

REFUSED_PORT = 13900

FIRST_CLIENT_PORT = 14000
# Two servers may reserve equal ports for flows of one client; their groups differ.
CLIENT_BLOCKS = 16


class PortRange:
    """Ports to reserve, the least recently used first; the first `used` were used before."""

    def __init__(
        self, first: int = FIRST_DATA_PORT, count: int = DATA_PORTS, *, used: int = 0
    ) -> None:
        self._free = deque(range(first, first + count))
        self._free.rotate(-used)
        self._taken: set[int] = set()

    def take(self, count: int) -> tuple[int, ...]:
        """Reserve `count` free ports. WorldError if too few are free; then none is taken."""
        if count > len(self._free):
            total = len(self._free) + len(self._taken)
            raise WorldError(
                f"{count} ports are needed, and {len(self._free)} of {total} are free",
                remedy="Run fewer instances at the same time.",
            )
        ports = tuple(self._free.popleft() for _ in range(count))
        self._taken.update(ports)
        return ports

    def give_back(self, ports: Iterable[int]) -> None:
        """Free ports. One that is free already is ignored."""
        for port in ports:
            if port in self._taken:
                self._taken.remove(port)
                self._free.append(port)


def client_port(request: GroupRequest, ports: Ports, instance: int) -> int | None:
    """The client's end for an instance; no other instance of the client has it at the same time.

    Both ends derive it from the group and the server's port. None, for a port that the kernel
    chooses, if the server's port is outside the range.
    """
    offset = ports.data[instance - 1] - FIRST_DATA_PORT
    if not 0 <= offset < DATA_PORTS:
        return None
    return FIRST_CLIENT_PORT + request.group % CLIENT_BLOCKS * DATA_PORTS + offset
