"""The agents of a lab, each in the namespace of its host: started by a nursery, a process that
imports their common modules once (netesto.agent.nursery)."""

import contextlib
import errno
import json
import os
import selectors
import shutil
import socket
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from netesto.collectors.clock import Clock
from netesto.collectors.counters import COUNTERS
from netesto.errors import LabError, ProcessError
from netesto.lab import carrying
from netesto.lab.plan import LabPlan
from netesto.lab.records import NAMESPACE_FOLDER, Record, names_of, write_names
from netesto.system import process
from netesto.traffic import TOOLS

# Between two agents that become ready. They import their libraries, many at once on a small
# machine.
AGENT_TIMEOUT_S = 60.0

# Agents are commands: importing them would tie the lab to them.
NURSERY = "netesto.agent.nursery"

# netesto.agent.nursery.STAY
_STAY = b"stay"

_ANSWER_BYTES = 64


class Nursery:
    """Orders agents from the process at the other end of `orders`, a socket of whole messages. All
    of them have one clock."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self.clock = Clock()

    def start(
        self, argv: Sequence[str], *, namespace: Path, names: Path, log: Path, ready: int
    ) -> int:
        """Start an agent in a network namespace, with `names` as its /etc/hosts; its process id.
        Its output is appended to `log`; when ready it writes to the descriptor `ready`. LabError if
        it cannot be started."""
        argv = [*argv, "--clock", str(self.clock.anchor_ns)]
        order = json.dumps(
            {"namespace": str(namespace), "names": str(names), "argv": argv}
        ).encode()
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

    def let_stay(self) -> None:
        """Let its agents outlive this process. LabError if it has ended, and they with it."""
        try:
            self._orders.send(_STAY)
        except OSError as error:
            raise LabError(f"the agents have ended: {error.strerror}") from error


@contextlib.contextmanager
def spawned(log: Path) -> Iterator[Nursery]:
    """A new nursery while the body runs; its agents end with the body, unless they are to stay. Its
    output is appended to `log`. WorldError if it cannot be started, or would find that an installed
    tool or collector is broken."""
    TOOLS.load()
    COUNTERS.load()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        argv = process.python(NURSERY, str(theirs.fileno()))
        try:
            process.launch(argv, stdout=log, pass_fds=[theirs.fileno()])
        except ProcessError as error:
            raise LabError(f"agents cannot be started: {error}") from error
        finally:
            theirs.close()
        yield Nursery(ours)


def start_again(record: Record, host: str, nursery: Nursery, plan: LabPlan) -> bool:
    """Start the agent of a host if it was killed; return whether it was. Returns when it is ready.
    LabError if it cannot be started."""
    with socket.socket(socket.AF_UNIX) as probe:
        # A stopped or busy agent still exists.
        probe.setblocking(False)
        if probe.connect_ex(record.hosts[host].socket) not in {
            errno.ECONNREFUSED,
            errno.ENOENT,
        }:
            return False
    _start(record, [host], nursery, plan)
    return True


@contextlib.contextmanager
def started(
    record: Record, nursery: Nursery | None, plan: LabPlan, allowed: Path | None = None
) -> Iterator[Nursery]:
    """All agents, each of which is ready, while the body runs, and their nursery (default: a new
    one)."""
    # Without this machine's own, names do not resolve.
    with contextlib.suppress(OSError):
        write_names(record)
    if allowed is not None:
        try:
            shutil.copyfile(allowed, _config(record))
        except OSError as error:
            raise LabError(f"{allowed}: {error.strerror}") from error
    with contextlib.ExitStack() as stack:
        if nursery is None:
            log = Path(record.files) / "nursery.log"
            nursery = stack.enter_context(spawned(log))
        _start(record, record.hosts, nursery, plan)
        yield nursery


def _start(record: Record, hosts: Collection[str], nursery: Nursery, plan: LabPlan) -> None:
    """Start the agents of these hosts, and wait until each is ready."""
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        for host in hosts:
            reader = _start_agent(record, host, nursery, plan)
            stack.callback(os.close, reader)
            selector.register(reader, selectors.EVENT_READ, host)
        _wait_for(record, selector, set(hosts))


def _start_agent(record: Record, host: str, nursery: Nursery, plan: LabPlan) -> int:
    """Start an agent; a descriptor to read, to which it writes when it is ready."""
    own = record.hosts[host]
    folder = Path(record.files) / host
    try:
        folder.mkdir(exist_ok=True)
        reader, writer = os.pipe()
    except OSError as error:
        raise LabError(f"{folder}: {error.strerror}") from error
    try:
        nursery.start(
            [
                *("--listen", f"unix:{own.socket}"),
                *("--state", str(folder)),
                *("--host", host),
                *("--device", own.device),
                *(("--config", str(_config(record))) if _config(record).exists() else ()),
                *("--links", plan.links),
                *("--nodes", ",".join(f"{node}={name}" for node, name in plan.between.items())),
                *("--machine-hosts", str(len(record.hosts))),
                *(("--carried", words) if (words := carrying.words(plan, record)) else ()),
            ],
            namespace=NAMESPACE_FOLDER / own.namespace,
            names=names_of(record),
            log=_log(record, host),
            ready=writer,
        )
    except BaseException:
        os.close(reader)
        raise
    finally:
        os.close(writer)
    return reader


def _config(record: Record) -> Path:
    """An agent.toml for all agents of the lab, if there is one."""
    return Path(record.files) / "agent.toml"


def _log(record: Record, host: str) -> Path:
    return Path(record.files) / f"{host}.log"


def _wait_for(record: Record, selector: selectors.BaseSelector, waiting: set[str]) -> None:
    """Wait until each agent has written to its pipe. LabError if one ends, or if none becomes ready
    in time."""
    while waiting:
        events = selector.select(AGENT_TIMEOUT_S)
        if not events:
            names = ", ".join(sorted(waiting))
            raise LabError(f"agents not ready after another {AGENT_TIMEOUT_S:g} s: {names}")
        for key, _ in events:
            if not os.read(key.fd, 1):
                log = _log(record, key.data)
                tail = log.read_text(errors="replace")[-500:].strip() if log.exists() else ""
                raise LabError(f"the agent of {key.data} ended before it was ready: {tail}")
            selector.unregister(key.fd)
            waiting.discard(key.data)
