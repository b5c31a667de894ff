"""The agent of a lab, with a thread in the namespaces of each host: started by a nursery, a process
that has imported its modules (netesto.agent.nursery)."""

import contextlib
import errno
import json
import os
import selectors
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from netesto.collectors.clock import Clock
from netesto.collectors.counters import COUNTERS
from netesto.errors import LabError, ProcessError
from netesto.lab import carrying
from netesto.lab.plan import LabPlan
from netesto.lab.records import NAMESPACE_FOLDER, Record, log_of, names_of, write_names
from netesto.system import process
from netesto.traffic import TOOLS

# Between two hosts that become ready, on a busy machine.
AGENT_TIMEOUT_S = 60.0

# Agents are commands: importing them would tie the lab to them.
NURSERY = "netesto.agent.nursery"

# netesto.agent.nursery.START and STAY
_START, _STAY = b"start", b"stay"

_ANSWER_BYTES, _PIECE_BYTES = 64, 4096


class Nursery:
    """Orders agents from the process at the other end of `orders`, a socket of whole messages. All
    of them have one clock."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self.clock = Clock()

    def start(
        self, hosts: Mapping[Path, Sequence[str]], *, names: Path, log: Path, ready: int
    ) -> int:
        """Start an agent of hosts, by their network namespaces with their options, and with `names`
        as their /etc/hosts; its process id. Its output is appended to `log`; it writes a line to
        the descriptor `ready` for each host that is ready. LabError if it cannot be started."""
        clock = ["--clock", str(self.clock.anchor_ns)]
        order = {
            "names": str(names),
            "hosts": [
                {"namespace": str(namespace), "argv": [*argv, *clock]}
                for namespace, argv in hosts.items()
            ],
        }
        try:
            # An agent creates no file before it is in its namespaces: until then, a teardown of the
            # lab does not find it. An order of 500 hosts is too long for a message.
            with log.open("ab", buffering=0) as output, tempfile.TemporaryFile() as text:
                text.write(json.dumps(order).encode())
                text.seek(0)
                descriptors = [text.fileno(), ready, output.fileno()]
                socket.send_fds(self._orders, [_START], descriptors)
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
    """Start the agent of the lab again if it was killed, by the socket of a host; return whether it
    was. Returns when all hosts are ready. LabError if it cannot be started."""
    with socket.socket(socket.AF_UNIX) as probe:
        # A stopped or busy agent still exists.
        probe.setblocking(False)
        if probe.connect_ex(record.hosts[host].socket) not in {
            errno.ECONNREFUSED,
            errno.ENOENT,
        }:
            return False
    _start(record, nursery, plan)
    return True


@contextlib.contextmanager
def started(
    record: Record, nursery: Nursery | None, plan: LabPlan, allowed: Path | None = None
) -> Iterator[Nursery]:
    """The agent, all hosts of which are ready, while the body runs, and its nursery (default: a new
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
        _start(record, nursery, plan)
        yield nursery


def _start(record: Record, nursery: Nursery, plan: LabPlan) -> None:
    """Start the agent of all hosts, and wait until each is ready."""
    reader, writer = os.pipe()
    try:
        try:
            for host in record.hosts:
                (Path(record.files) / host).mkdir(exist_ok=True)
            hosts = {
                NAMESPACE_FOLDER / own.namespace: _options(record, host, plan)
                for host, own in record.hosts.items()
            }
            nursery.start(hosts, names=names_of(record), log=log_of(record), ready=writer)
        except OSError as error:
            raise LabError(f"{record.files}: {error.strerror}") from error
        finally:
            os.close(writer)
        _wait_for(record, reader)
    finally:
        os.close(reader)


def _options(record: Record, host: str, plan: LabPlan) -> list[str]:
    """The options of an agent for one of its hosts."""
    own = record.hosts[host]
    return [
        *("--listen", f"unix:{own.socket}"),
        *("--state", str(Path(record.files) / host)),
        *("--host", host),
        *("--device", own.device),
        *(("--config", str(_config(record))) if _config(record).exists() else ()),
        *("--links", plan.links),
        *("--nodes", ",".join(f"{node}={name}" for node, name in plan.between.items())),
        *("--machine-hosts", str(len(record.hosts))),
        *(("--carried", words) if (words := carrying.words(plan, record)) else ()),
    ]


def _config(record: Record) -> Path:
    """An agent.toml for all agents of the lab, if there is one."""
    return Path(record.files) / "agent.toml"


def _wait_for(record: Record, reader: int) -> None:
    """Read a line for each host that is ready. LabError if the agent ends, or if none becomes ready
    in time."""
    waiting = {f"ready unix:{own.socket}": host for host, own in record.hosts.items()}
    rest = ""
    with selectors.DefaultSelector() as selector:
        selector.register(reader, selectors.EVENT_READ)
        while waiting:
            if not selector.select(AGENT_TIMEOUT_S):
                names = ", ".join(sorted(waiting.values()))
                raise LabError(f"agents not ready after another {AGENT_TIMEOUT_S:g} s: {names}")
            piece = os.read(reader, _PIECE_BYTES).decode()
            if not piece:
                log = log_of(record)
                tail = log.read_text(errors="replace")[-500:].strip() if log.exists() else ""
                raise LabError(f"the agent of the lab ended before it was ready: {tail}")
            *lines, rest = (rest + piece).split("\n")
            for line in lines:
                waiting.pop(line, None)
