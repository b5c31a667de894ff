"""Which ports traffic uses: a declared range, so that firewalls and captures can name it.

    12865          netserver's control connection, the port registered for netperf
    12900 … 13899  the server's end of data connections, one for every instance
    14000 … 29999  the client's end: below 32768, where Linux begins to hand out ports itself

Linux lets netserver and iperf3 listen again on a port whose last connections are in TIME_WAIT
(both set SO_REUSEADDR; tried back to back with equal ports at both ends). Ports are nevertheless
handed out least recently used first: then late packets of one flow, and samples of its dying
socket, cannot be taken for another's.
"""

from collections import deque
from collections.abc import Iterable

from netesto.errors import WorldError
from netesto.model import GroupRequest, Ports

NETSERVER_PORT = 12865

FIRST_DATA_PORT = 12900
# A thousand flows to one server at the same time: more than the cores of any test bed feed.
DATA_PORTS = 1000

FIRST_CLIENT_PORT = 14000
# Two servers may hand out equal ports for flows of one client; their groups differ.
CLIENT_BLOCKS = 16


class PortRange:
    """Ports that are handed out, least recently used first, and taken back."""

    def __init__(self, first: int = FIRST_DATA_PORT, count: int = DATA_PORTS) -> None:
        self._free = deque(range(first, first + count))
        self._taken: set[int] = set()

    def take(self, count: int) -> tuple[int, ...]:
        """`count` ports that nobody has. WorldError, none taken, if there are not so many."""
        if count > len(self._free):
            total = len(self._free) + len(self._taken)
            raise WorldError(
                f"{count} ports are needed and {len(self._free)} of {total} are free",
                remedy="Run fewer instances at the same time.",
            )
        ports = tuple(self._free.popleft() for _ in range(count))
        self._taken.update(ports)
        return ports

    def give_back(self, ports: Iterable[int]) -> None:
        """These are free again. One that was not taken is ignored, so twice does no harm."""
        for port in ports:
            if port in self._taken:
                self._taken.remove(port)
                self._free.append(port)


def client_port(request: GroupRequest, ports: Ports, instance: int) -> int | None:
    """The client's end for an instance, unlike any other's of the same client at the same time.

    It follows from the group and the server's port, so both ends know it unasked. None if the
    server's port is outside our range: then the kernel chooses.
    """
    offset = ports.data[instance - 1] - FIRST_DATA_PORT
    if not 0 <= offset < DATA_PORTS:
        return None
    return FIRST_CLIENT_PORT + request.group % CLIENT_BLOCKS * DATA_PORTS + offset
