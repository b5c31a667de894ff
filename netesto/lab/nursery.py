"""Starts a lab's agents through a process that imports their common modules once.

That process is `netesto.agent.nursery`, a command to the lab.
"""

import contextlib
import json
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from netesto import process
from netesto.collectors.clock import Clock
from netesto.errors import LabError, ProcessError

# Agents are commands: importing them would tie the lab to them.
COMMAND = "netesto.agent.nursery"

_ANSWER_BYTES = 64


class Nursery:
    """Orders agents from the process at the other end of `orders`, a socket of whole messages. All
    of them have one clock."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self.clock = Clock()

    def start(self, argv: Sequence[str], *, namespace: Path, log: Path, ready: int) -> int:
        """Start an agent in a network namespace; its process id. Its output is appended to `log`;
        when ready it writes to the descriptor `ready`. LabError if it cannot be started."""
        argv = [*argv, "--clock", str(self.clock.anchor_ns)]
        order = json.dumps({"namespace": str(namespace), "argv": argv}).encode()
        try:
            # An agent creates no file before it is in its namespace: until then, a teardown of the
            # lab does not find it.
            with log.open("ab", buffering=0) as output:
                socket.send_fds(self._orders, [order], [ready, output.fileno()])
            answer = self._orders.recv(_ANSWER_BYTES)
        except OSError as error:
            raise LabError(f"agents cannot be started: {error.strerror}") from error
        if not answer:
            raise LabError("agents cannot be started: the process that starts them has ended")
        return int(answer)


@contextlib.contextmanager
def spawned(log: Path) -> Iterator[Nursery]:
    """A new nursery, which accepts orders while the body runs; its agents outlive it. Its output is
    appended to `log`. LabError if it cannot be started."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        argv = process.python(COMMAND, "--orders", str(theirs.fileno()))
        try:
            process.launch(argv, stdout=log, pass_fds=[theirs.fileno()])
        except ProcessError as error:
            raise LabError(f"agents cannot be started: {error}") from error
        finally:
            theirs.close()
        yield Nursery(ours)
