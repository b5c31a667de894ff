"""Agents for one run, through ssh: nothing is installed.

The agent runs below `onhost.once`, whose standard input is a pipe from here: whatever ends this
process closes it, and then the agent puts its host back, and its folder is removed. The same ssh
process carries the calls, to a socket in that folder. What the agent imports stays on the host, in
~/.cache/netesto, in folders that are named by their content.
"""

import asyncio
import contextlib
import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from netesto import interrupts, process
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
_BUSY = "It is free when that run has ended; --wait waits for other runs with --ssh."
# By what the host says.
_REMEDIES = {
    "in use by": _BUSY,
    "no space left": "Make room there: the agent's packages go to ~/.cache/netesto, and what it"
    " measures to /tmp.",
    **dict.fromkeys(
        ("Read-only file system", "Not a directory", "Permission denied"),
        "The user as whom ssh logs in must be able to write there.",
    ),
}
# The agent ends with this ssh process, which therefore bears cuts as long as the lease of a hold: 8
# pings, 4 s apart (transport.ssh).
_PATIENT = ("-o", "ServerAliveCountMax=8")

# What an agent may take to put its host back, and a moment.
_END_S = 40.0
# After Ctrl-C, which is to end a run within 5 s.
_HASTE_S = 1.5


@contextlib.contextmanager
def agents(
    hosts: Sequence[Target], *, holder: str, wait_s: float | None, say: Callable[[str], None]
) -> Iterator[dict[str, "Brought"]]:
    """An agent on each host, by its name, which ends with the body.
    AgentError names every host that cannot have one, or one that is in use; others are told
    `holder`. Another run by ssh is waited for `wait_s` (None: not at all), and told to `say`."""
    facts = asyncio.run(_looked(hosts))
    code, own = payload.code(), payload.own()
    started: list[Brought] = []
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(private_folder())
        stack.callback(end, started)
        for number, (host, each) in enumerate(zip(hosts, facts, strict=True), start=1):
            asked = _request(host, each, code, [own], holder)
            started.append(_start(host, each, asked, folder / f"{number}.sock"))
        _raise([error for each in started if (error := each.error("brought")) is not None])
        take_turns(started, wait_s, say)
        _raise([error for each in started if (error := each.error("ready")) is not None])
        yield {each.host.name: each for each in started}


class Shared(Protocol):
    """A host that another run may have (Brought)."""

    def lock(self) -> str: ...

    def begin(self, wait_s: float | None) -> None: ...

    def error(
        self, stage: str, wait_s: float | None = None, say: Callable[[str], None] | None = None
    ) -> AgentError | None: ...


def take_turns(hosts: Sequence[Shared], wait_s: float | None, say: Callable[[str], None]) -> None:
    """Let each begin when those before it are ours. Every run takes hosts in the order of their
    locks, so that no two wait for each other, and one of several has all. `wait_s` is for all."""
    deadline_s = time.monotonic() + (wait_s or 0.0)
    for each in sorted(hosts, key=lambda host: host.lock()):
        left_s = None if wait_s is None else max(deadline_s - time.monotonic(), 0.0)
        each.begin(left_s)
        if (error := each.error("alone", left_s, say)) is not None:
            raise error


class Ending(Protocol):
    """An ssh process that ends some time after `let_go`, as far as runs end it."""

    @property
    def child(self) -> Child: ...

    @property
    def is_gone(self) -> bool: ...

    def let_go(self) -> None: ...


def end(started: Sequence[Ending]) -> None:
    """End all at once. They put their hosts back also if nobody waits for that, as after a second
    Ctrl-C, or where the network is cut."""
    is_interrupted = interrupts.is_ending()
    for each in started:
        each.let_go()
    try:
        with interrupts.hurried():
            process.wait_until(
                lambda: all(each.is_gone for each in started),
                timeout=_HASTE_S if is_interrupted else _END_S,
            )
    except KeyboardInterrupt:
        if not is_interrupted:
            raise
    finally:
        for each in started:
            if is_interrupted and not each.is_gone:
                # One that is frozen would be waited for, and each for itself.
                process.kill_group(each.child.pid)
            process.end(each.child)


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
    pipe: BinaryIO
    sending: threading.Thread

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

    def lock(self) -> str:
        """The name of what a run must have to be alone on the host, when all has been brought."""
        return str(self._ends("brought")[0].get("lock"))

    def begin(self, wait_s: float | None) -> None:
        """Let the host begin: what it needs has been brought."""
        self.sending.join()
        _send(self.pipe, json.dumps({"wait_s": wait_s}).encode() + b"\n")

    def let_go(self) -> None:
        """Have the agent end, and its host put back."""
        if self.sending.is_alive():
            # It ends with the other end of the pipe.
            process.end(self.child)
            self.sending.join()
        self.pipe.close()

    def error(
        self, stage: str, wait_s: float | None = None, say: Callable[[str], None] | None = None
    ) -> AgentError | None:
        """Why the agent does not come to this stage, None when it does. `say` is told who is waited
        for."""
        name, told = self.host.name, 0

        def is_told() -> bool:
            nonlocal told
            waits = [each["waits"] for each in self._replies() if "waits" in each]
            for other in waits[told:]:
                if say is not None:
                    say(f"waiting: {name}: in use by {other}")
            told = len(waits)
            return bool(self._ends(stage)) or self.is_gone

        in_time = process.wait_until(is_told, timeout=_READY_S + (wait_s or 0.0))
        if ends := self._ends(stage):
            if "error" not in ends[0]:
                return None
            said = ends[0]["error"]
            remedies = (remedy for words, remedy in _REMEDIES.items() if words in said)
            return AgentError(said, host=name, remedy=next(remedies, ""))
        if not in_time:
            return AgentError(f"no agent after {_READY_S:g} s", host=name)
        said = self.log.read_text(encoding="utf-8", errors="replace")
        return remote.ended(self.host, self.child.returncode, said)

    def _ends(self, stage: str) -> list[Mapping[str, Any]]:
        return [each for each in self._replies() if each.get("stage") == stage or "error" in each]

    def _replies(self) -> Sequence[Mapping[str, Any]]:
        return self.said.replies(self.log.read_text(encoding="utf-8", errors="replace"))


def _start(
    host: Target, facts: Facts, asked: tuple[dict[str, Any], list[bytes]], local: Path
) -> Brought:
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
    pipe = os.fdopen(writer, "wb", buffering=0)
    try:
        child = process.launch([*argv, remote.command(sudo=facts.sudo)], stdin=reader, stdout=log)
    except BaseException:
        pipe.close()
        raise
    finally:
        os.close(reader)
    sending = threading.Thread(target=_send, args=(pipe, said.data), daemon=True)
    sending.start()
    return Brought(host, child, local, log, said, endpoint, pipe, sending)


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
