"""Agents for one run, through ssh: nothing is installed.

The agent runs below `onhost.once`, whose standard input is a pipe from here: whatever ends this
process closes it, and then the agent puts its host back, and its folder is removed. The same ssh
process carries the calls, to a socket in that folder. What the agent imports stays on the host, in
~/.cache/netesto, in folders that are named by their content.
"""

import asyncio
import contextlib
import os
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any, BinaryIO

from netesto import process
from netesto.deploy import payload, plan, remote
from netesto.deploy.facts import Facts
from netesto.deploy.payload import Archive, Packages
from netesto.deploy.target import Target
from netesto.errors import AgentBusyError, AgentError
from netesto.model import Address, Endpoint
from netesto.process import Child
from netesto.transport import ssh
from netesto.transport.client import connect
from netesto.transport.privatefolder import private_folder

# For unpacking, or pip, and the agent's start.
_READY_S = 300.0
# To ask an installed agent who holds it.
_ASK_S = 5.0
_BUSY = "It is free when that run has ended."
# By what the host says.
_REMEDIES = {
    "in use by": _BUSY,
    "no space left": "Make room there: the agent's packages go to ~/.cache/netesto, and what it"
    " measures to /tmp.",
}
# The agent ends with this ssh process, which therefore bears cuts as long as the lease of a hold: 8
# pings, 4 s apart (transport.ssh).
_PATIENT = ("-o", "ServerAliveCountMax=8")

# What an agent may take to put its host back, and a moment.
_END_S = 40.0


@contextlib.contextmanager
def agents(hosts: Sequence[Target], *, holder: str) -> Iterator[dict[str, "Brought"]]:
    """An agent on each host, by its name, which ends with the body.
    AgentError names every host that cannot have one, or is in use; others are told `holder`."""
    facts = asyncio.run(_looked(hosts))
    code, own = payload.code(), payload.own()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(private_folder())
        sockets = {
            host.name: folder / f"{number}.sock" for number, host in enumerate(hosts, start=1)
        }
        started = [
            stack.enter_context(
                _started(host, each, _request(host, each, code, [own], holder), sockets[host.name])
            )
            for host, each in zip(hosts, facts, strict=True)
        ]
        _raise([error for each in started if (error := each.error()) is not None])
        yield {each.host.name: each for each in started}


async def _looked(hosts: Sequence[Target]) -> list[Facts]:
    """The facts of all hosts. AgentError names every one that no agent can be on."""
    found = await asyncio.gather(*(_look(host) for host in hosts), return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException) and not isinstance(each, AgentError):
            raise each
    _raise([each for each in found if isinstance(each, AgentError)])
    return [each for each in found if isinstance(each, Facts)]


async def _look(host: Target) -> Facts:
    facts = await remote.look(host)
    try:
        plan.check(facts)
        plan.check_libraries(facts, facts.cache)
    except AgentError as error:
        raise AgentError(error.message, host=host.name, remedy=error.remedy) from None
    if facts.installed is not None and facts.installed.runs:
        await _check_free(host, facts)
    return facts


async def _check_free(host: Target, facts: Facts) -> None:
    """AgentBusyError if another run uses the agent that is installed on the host: two would measure
    each other."""
    address = replace(host.address, path=Path(facts.places.socket))
    try:
        async with await connect(str(address), host=host.name, timeout=_ASK_S) as agent:
            holder = (await agent.info()).holder
    except AgentError:
        # An agent that cannot be asked has no run on it that could go well.
        return
    if holder:
        raise AgentBusyError(holder, host=host.name, remedy=_BUSY)


def _raise(errors: Sequence[AgentError]) -> None:
    if errors:
        raise AgentError("\n".join(each.message for each in errors), remedy=errors[0].remedy)


@dataclass(frozen=True, slots=True)
class Brought:
    """An ssh process with an agent at its other end, to which the `socket` here leads."""

    host: Target
    child: Child
    socket: Path
    log: Path
    said: remote.Spoken
    endpoint: Endpoint

    @property
    def is_gone(self) -> bool:
        """Whether ssh has ended, and the agent with it."""
        return self.child.poll() is not None

    def refusal(self) -> AgentError | None:
        """Why the agent, which is ready, is not reached; None if ssh does not tell."""
        if "open failed" not in self.log.read_text(encoding="utf-8", errors="replace"):
            return None
        cause, remedy = ssh.NO_FORWARDING
        return AgentError(cause, host=self.host.name, remedy=remedy)

    def error(self) -> AgentError | None:
        """Why the agent is not ready, None when it is."""
        name = self.host.name
        is_told = process.wait_until(
            lambda: bool(self._replies()) or self.child.poll() is not None, timeout=_READY_S
        )
        replies = self._replies()
        if replies and "error" not in replies[0]:
            return None
        if replies:
            said = replies[0]["error"]
            remedies = (remedy for words, remedy in _REMEDIES.items() if words in said)
            return AgentError(said, host=name, remedy=next(remedies, ""))
        if not is_told:
            return AgentError(f"no agent after {_READY_S:g} s", host=name)
        said = self.log.read_text(encoding="utf-8", errors="replace")
        return remote.ended(self.host, self.child.returncode, said)

    def _replies(self) -> Sequence[Mapping[str, Any]]:
        return self.said.replies(self.log.read_text(encoding="utf-8", errors="replace"))


@contextlib.contextmanager
def _started(
    host: Target, facts: Facts, asked: tuple[dict[str, Any], list[bytes]], local: Path
) -> Iterator[Brought]:
    request, archives = asked
    said = remote.spoken(request, archives)
    forward = f"{local}:{request['socket']}"
    argv = host.ssh(*_PATIENT, "-o", "ExitOnForwardFailure=yes", "-L", forward)
    addresses: dict[int, Address] = {
        address.version: address for address in map(ip_address, facts.addresses)
    }
    endpoint = Endpoint(host=host.name, agent=str(host.address), addresses=addresses)
    log = local.with_suffix(".log")
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb", buffering=0) as pipe:
        try:
            child = process.launch(
                [*argv, remote.command(sudo=facts.sudo)], stdin=reader, stdout=log
            )
        finally:
            os.close(reader)
        sending = threading.Thread(target=_send, args=(pipe, said.data), daemon=True)
        sending.start()
        try:
            yield Brought(host, child, local, log, said, endpoint)
        finally:
            if sending.is_alive():
                # It ends with the other end of the pipe.
                process.end(child)
                sending.join()
            pipe.close()
            process.wait_until(lambda: child.poll() is not None, timeout=_END_S)
            process.end(child)


def _send(pipe: BinaryIO, data: bytes) -> None:
    """Write all of it, unless the other end goes away."""
    view = memoryview(data)
    with contextlib.suppress(BrokenPipeError):
        while view:
            view = view[pipe.write(view) :]


def _request(
    host: Target, facts: Facts, code: Archive, packages: Sequence[Packages], holder: str
) -> tuple[dict[str, Any], list[bytes]]:
    """What `onhost.once` is asked for, and the archives that go with it."""
    steps, folders = plan.brought(facts, code, packages, payload.requirements())
    place = f"/tmp/netesto-{secrets.token_hex(8)}"  # noqa: S108 - made anew, for this user alone
    socket = f"{place}/agent.sock"
    words = ["--listen", f"unix:{socket}", "--state", f"{place}/state", "--host", host.name]
    request = {
        "do": "once",
        "steps": remote.sent(steps),
        "packages": folders,
        "python": facts.python,
        "folder": place,
        "socket": socket,
        "words": words,
        "holder": holder,
        "cache": facts.cache,
    }
    return request, remote.archives(steps)
