"""The agents of a lab: started by a nursery, each in the namespace of its host."""

import contextlib
import errno
import os
import selectors
import shutil
import socket
from collections.abc import Collection
from pathlib import Path

from netesto.errors import LabError
from netesto.lab import nursery as nurseries
from netesto.lab.nursery import Nursery
from netesto.lab.plan import Plan
from netesto.lab.records import NAMESPACE_FOLDER, Record

# Between two agents that become ready. They import their libraries, many at once on a small
# machine.
AGENT_TIMEOUT_S = 60.0


def start_again(record: Record, host: str, nursery: Nursery, plan: Plan) -> bool:
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


def start_agents(
    record: Record, nursery: Nursery | None, plan: Plan, allowed: Path | None = None
) -> None:
    """Start all agents, and wait until each is ready."""
    for folder in (Path(record.sockets), Path(record.files)):
        try:
            folder.mkdir(mode=0o700, parents=True)
        except OSError as error:
            raise LabError(f"{folder}: {error.strerror}") from error
    if allowed is not None:
        try:
            shutil.copyfile(allowed, _config(record))
        except OSError as error:
            raise LabError(f"{allowed}: {error.strerror}") from error
    with contextlib.ExitStack() as stack:
        if nursery is None:
            log = Path(record.files) / "nursery.log"
            nursery = stack.enter_context(nurseries.spawned(log))
        _start(record, record.hosts, nursery, plan)


def _start(record: Record, hosts: Collection[str], nursery: Nursery, plan: Plan) -> None:
    """Start the agents of these hosts, and wait until each is ready."""
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        for host in hosts:
            reader = _start_agent(record, host, nursery, plan)
            stack.callback(os.close, reader)
            selector.register(reader, selectors.EVENT_READ, host)
        _wait_for(record, selector, set(hosts))


def _start_agent(record: Record, host: str, nursery: Nursery, plan: Plan) -> int:
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
            ],
            namespace=NAMESPACE_FOLDER / own.namespace,
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
