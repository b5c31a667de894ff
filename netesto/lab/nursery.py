"""Where a lab has its agents started: a process that imports once what all of them need.

This is the lab's half; the other one is the agents' own (`netesto.agent.nursery`), a command to us.
"""

import contextlib
import json
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from netesto import process
from netesto.errors import LabError, ProcessError
from netesto.lab import teardown

# Agents are commands: importing them would tie the lab to them.
COMMAND = "netesto.agent.nursery"

# Agents have ended when their lab has been taken down; this is for their parent to notice.
END_S = 5.0

_ANSWER_BYTES = 64


class Starter(Protocol):
    """Starts the agents of a lab."""

    def start(self, argv: Sequence[str], *, namespace: Path, log: Path, ready: int) -> int:
        """Start an agent in a network namespace; its process id. What it says is appended to `log`;
        it writes to the descriptor `ready`. LabError if it cannot be started."""


class Separate:
    """Starts every agent as a command of its own. Slower, but for simulated time: there, forked
    agents answer some microseconds earlier or later from run to run; why is not known. `wait` when
    they have ended."""

    def __init__(self) -> None:
        self._agents: list[process.Child] = []

    def start(self, argv: Sequence[str], *, namespace: Path, log: Path, ready: int) -> int:
        command = [sys.executable, "-m", teardown.AGENT, *argv, "--ready-fd", str(ready)]
        entered = ["ip", "netns", "exec", namespace.name, *command]
        try:
            agent = process.launch(entered, stdout=log, pass_fds=[ready])
        except ProcessError as error:
            raise LabError(f"agents cannot be started: {error}") from error
        self._agents.append(agent)
        return agent.pid

    def wait(self) -> None:
        """Take notice of the end of all agents; one that will not end is not waited for."""
        process.wait_until(
            lambda: all(agent.poll() is not None for agent in self._agents), timeout=END_S
        )


class Nursery:
    """Orders agents from the process at the other end of `orders`, a socket of whole messages."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders

    def start(self, argv: Sequence[str], *, namespace: Path, log: Path, ready: int) -> int:
        order = {"namespace": str(namespace), "argv": list(argv), "log": str(log)}
        try:
            socket.send_fds(self._orders, [json.dumps(order).encode()], [ready])
            answer = self._orders.recv(_ANSWER_BYTES)
        except OSError as error:
            raise LabError(f"agents cannot be started: {error.strerror}") from error
        if not answer:
            raise LabError("agents cannot be started: the process that should do it has ended")
        return int(answer)


@contextlib.contextmanager
def spawned(log: Path) -> Iterator[Nursery]:
    """A nursery of one's own, for as long as orders may come; its agents live on. What it has to
    say is appended to `log`. LabError if it cannot be started."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        argv = [sys.executable, "-m", COMMAND, "--orders", str(theirs.fileno())]
        try:
            process.launch(argv, stdout=log, pass_fds=[theirs.fileno()])
        except ProcessError as error:
            raise LabError(f"agents cannot be started: {error}") from error
        finally:
            theirs.close()
        yield Nursery(ours)
