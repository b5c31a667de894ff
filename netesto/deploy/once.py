"""Agents for one run, through ssh: nothing is installed.

The agent runs below `onhost.once`, whose standard input is a pipe from this process: the end of
this process closes it, and then the agent puts its host back, and its folder is removed. The same
ssh process carries the calls, to a socket in that folder. If it is lost, another one replaces it
(`onhost.rejoin`), or starts another agent after the lease of a hold or a reboot. The agent's
packages stay on the host, in ~/.cache/netesto, in folders that are named by their content.
"""

import asyncio
import contextlib
import functools
import itertools
import json
import os
import queue
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from netesto.deploy import onhost, payload, plan, remote
from netesto.deploy.facts import Facts
from netesto.deploy.plan import WantedHost
from netesto.deploy.supply import Supply
from netesto.deploy.target import Target
from netesto.errors import AgentBusyError, AgentError, NoAnswerError
from netesto.model import Address, Endpoint
from netesto.system import interrupts, owned, process
from netesto.system.process import Child
from netesto.transport import ssh
from netesto.transport.client import connect

Result = TypeVar("Result")

# For unpacking, or pip, and the agent's start.
_READY_S = 300.0
# The timeout for asking an installed agent for its holder.
_ASK_S = 5.0
_BUSY = "Wait until that run has ended; with --ssh, --wait does."
# By what the host says.
_REMEDIES = {
    "in use by": _BUSY,
    "no space left": "Free some space there: the agent's packages go to ~/.cache/netesto, its"
    " measurements to /tmp.",
    **dict.fromkeys(
        ("Read-only file system", "Not a directory", "Permission denied"),
        "Let the ssh user write there, or log in as another user.",
    ),
}
# What the pip of a host says that reaches no package index.
_NO_INDEX = "No matching distribution found"
# The host hears so often that there is a controller, and waits for it as for a hold
# (onhost.LEASE_S).
_BEAT_S, _BEAT = 5.0, b"\n"

# The time for an agent to put its host back, and a little more.
_END_S = 40.0
# After Ctrl-C, which is to end a run within 5 s.
_HASTE_S = 1.5


@contextlib.contextmanager
def agents(
    hosts: Sequence[Target],
    *,
    holder: str,
    bundle: Path | None,
    wait_s: float | None,
    say: Callable[[str], None],
    warn: Callable[[str], None],
) -> Iterator[dict[str, "Brought"]]:
    """An agent on each host, by its name, which ends with the body. A `bundle` has packages for
    hosts of other kinds than this machine.
    AgentError names every host that cannot have one, or one that is in use; others are told
    `holder`. `wait_s` is how long to wait for another run by ssh (None: do not wait), which is
    reported to `say`. `warn` is told of installed agents that do not answer."""
    facts = asyncio.run(_all(_look(host, warn) for host in hosts))
    supply = Supply(
        WantedHost(
            code=functools.cache(payload.code),
            packages=[payload.own(), *(payload.read_bundle(bundle) if bundle else [])],
            requirements=payload.locked(),
            offline=bundle is not None,
        ),
        say,
    )
    supplied = (_supplied(host, each, supply) for host, each in zip(hosts, facts, strict=True))
    wanted = asyncio.run(_all(supplied))
    started: list[Brought] = []
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(owned.folder_for_sockets())
        stack.callback(end, started)
        for number, (host, each, its) in enumerate(zip(hosts, facts, wanted, strict=True), start=1):
            made = Brought(host, folder / f"{number}.sock", each, its, holder=holder)
            made.start(each)
            started.append(made)
        asyncio.run(_wait_until_ready(started, wait_s, say))
        yield {each.host.name: each for each in started}


async def _wait_until_ready(
    started: "Sequence[Brought]", wait_s: float | None, say: Callable[[str], None]
) -> None:
    """Returns when all agents are ready. AgentError names every one that will not be."""
    await _all(each.reached("brought") for each in started)
    await take_turns(started, wait_s, say)
    await _all(each.reached("ready") for each in started)


async def take_turns(
    hosts: "Sequence[Brought]", wait_s: float | None, say: Callable[[str], None]
) -> None:
    """Start each host when the previous ones are ours. Every run takes hosts in the order of their
    locks, so that no two wait for each other, and one of several gets all. `wait_s` is for all."""
    deadline_s = time.monotonic() + (wait_s or 0.0)
    for each in sorted(hosts, key=lambda host: host.lock()):
        left_s = None if wait_s is None else max(deadline_s - time.monotonic(), 0.0)
        each.begin(left_s)
        await each.reached("alone", left_s, say)


def end(started: "Sequence[Brought]") -> None:
    """End all at once. They put their hosts back even if nobody waits for it, as after a second
    Ctrl-C or during a cut."""
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
                # Otherwise each frozen one would delay the end separately.
                process.kill_group(each.child.pid)
            process.end(each.child)


async def _all(work: Iterable[Awaitable[Result]]) -> list[Result]:
    """The results for all hosts. AgentError names every host that has none."""
    done = await asyncio.gather(*work, return_exceptions=True)
    errors = [each for each in done if isinstance(each, BaseException)]
    refusals = [each for each in errors if isinstance(each, AgentError)]
    if len(refusals) < len(errors):
        raise next(each for each in errors if not isinstance(each, AgentError))
    if refusals:
        message = "\n".join(each.message for each in refusals)
        raise AgentError(message, remedy=refusals[0].remedy)
    return [each for each in done if not isinstance(each, BaseException)]


@contextlib.contextmanager
def _naming(host: Target) -> Iterator[None]:
    """Errors of the body name the host."""
    try:
        yield
    except AgentError as error:
        raise AgentError(error.message, host=host.name, remedy=error.remedy) from None


async def _supplied(host: Target, facts: Facts, supply: Supply) -> WantedHost:
    """What a host is to have. AgentError if no packages fit it."""
    with _naming(host):
        wanted = await supply.to(facts)
        plan.fitting(facts, wanted)
    return wanted


async def _look(host: Target, warn: Callable[[str], None] = lambda _: None) -> Facts:
    """The facts of a host. AgentError if it cannot have an agent."""
    facts = await remote.look(host)
    with _naming(host):
        plan.check(facts, facts.cache)
    if facts.installed is not None and facts.installed.runs:
        await _check_free(host, facts, warn)
    return facts


async def _check_free(host: Target, facts: Facts, warn: Callable[[str], None]) -> None:
    """AgentError if another run uses the agent that is installed on the host: the runs would
    disturb each other."""
    address = replace(host.address, path=Path(facts.places.socket))
    holder = ""
    try:
        async with await connect(str(address), host=host.name, timeout=_ASK_S) as agent:
            holder = (await agent.info()).holder
    except AgentError as error:
        await remote.check_unused(host, facts)
        if isinstance(error, NoAnswerError):
            warn(
                f"{host.name}: its installed agent does not answer (stopped, or hung). This run"
                " uses another one, and what an earlier run has set on the host may still be set"
            )
    if holder:
        raise AgentBusyError(holder, host=host.name, remedy=_BUSY)


class Brought:
    """An agent on a host, and the ssh process to it: `socket` here leads to the agent."""

    def __init__(
        self, host: Target, socket: Path, facts: Facts, wanted: WantedHost, *, holder: str
    ) -> None:
        self.host = host
        self.socket = socket
        self.child: Child
        addresses: dict[int, Address] = {
            address.version: address for address in map(ip_address, facts.addresses)
        }
        self.endpoint = Endpoint(host=host.name, agent=str(host.address), addresses=addresses)
        self._holder = holder
        self._wanted = wanted
        self._facts = facts
        # Made by the host, for its user alone. An agent that is brought later has the same.
        self._place = f"/tmp/netesto-{secrets.token_hex(8)}"  # noqa: S108
        self._logs = (socket.with_suffix(f".{number}.log") for number in itertools.count(1))
        self._log: Path
        self._message: remote.Spoken
        self._voice: _Voice
        self._is_let_go = False

    def start(self, facts: Facts) -> None:
        """Begin to start an agent on the host."""
        steps, folders = plan.cache_steps(facts, self._wanted)
        listen = f"unix:{self._agent_socket}"
        words = ["--listen", listen, "--state", f"{self._place}/state", "--host", self.host.name]
        request = {
            "do": "once",
            "steps": remote.messages(steps),
            "packages": folders,
            "python": facts.python,
            "folder": self._place,
            "socket": self._agent_socket,
            "words": words,
            "holder": self._holder,
            "cache": facts.cache,
        }
        self._ask(request, remote.archives(steps))

    @property
    def _agent_socket(self) -> str:
        return f"{self._place}/agent.sock"

    def _ask(self, request: Mapping[str, Any], archives: Sequence[bytes]) -> None:
        self._last_request = request, archives
        self._message = remote.spoken(request, archives)
        forward = f"{self.socket}:{self._agent_socket}"
        # An ssh that was killed leaves its socket behind.
        options = ("-o", "ExitOnForwardFailure=yes", "-o", "StreamLocalBindUnlink=yes")
        argv = [*self.host.ssh(*options, "-L", forward), remote.command(sudo=self._facts.sudo)]
        self._log = next(self._logs)
        reader, writer = os.pipe()
        pipe = os.fdopen(writer, "wb", buffering=0)
        try:
            self.child = process.launch(argv, stdin=reader, stdout=self._log)
        except BaseException:
            pipe.close()
            raise
        finally:
            os.close(reader)
        self._voice = _Voice(pipe, self._message.data)

    @property
    def is_gone(self) -> bool:
        """Whether ssh has ended."""
        return self.child.poll() is not None

    async def come_back(self) -> None:
        """If ssh has ended, connect to the agent again, or start another one. AgentError if
        that fails."""
        if not self.is_gone or self._is_let_go:
            return
        self._close()
        try:
            self._ask({"do": "rejoin", "folder": self._place}, ())
            await self.reached("ready", or_stage="gone")
            if self._ends("ready"):
                return
            self._close()
            self.start(await _look(self.host))
            await self.reached("brought")
            self.begin(None)
            await self.reached("alone")
            await self.reached("ready")
        except BaseException:
            self._close()
            raise

    def _close(self) -> None:
        process.end(self.child)
        self._voice.end()

    def refusal(self) -> AgentError | None:
        """Why the agent, which is ready, cannot be reached; None if ssh does not report it."""
        if "open failed" not in self._printed():
            return None
        cause, remedy = ssh.NO_FORWARDING
        return AgentError(cause, host=self.host.name, remedy=remedy)

    def lock(self) -> str:
        """The name of the lock that a run needs on the host, after all packages have arrived."""
        return str(self._ends("brought")[0].get("lock"))

    def begin(self, wait_s: float | None) -> None:
        """Let the host begin: all packages have arrived."""
        self._voice.say(json.dumps({"wait_s": wait_s}).encode() + b"\n")

    def let_go(self) -> None:
        """End the agent, which puts its host back."""
        self._is_let_go = True
        if not self._voice.is_heard:
            # It ends with the other end of the pipe.
            process.end(self.child)
        self._voice.end()

    async def reached(
        self,
        stage: str,
        wait_s: float | None = None,
        say: Callable[[str], None] = lambda _: None,
        *,
        or_stage: str = "",
    ) -> None:
        """Wait for this stage of the agent. AgentError with the reason if it fails. `say` is told
        the name of another run."""
        name, reported = self.host.name, 0

        def is_told() -> bool:
            nonlocal reported
            waits = [each["waits"] for each in self._replies() if "waits" in each]
            for other in waits[reported:]:
                say(f"waiting: {name}: in use by {other}")
            reported = len(waits)
            return bool(self._ends(stage, or_stage)) or self.is_gone

        begun_s, timeout = time.monotonic(), _READY_S + (wait_s or 0.0)
        in_time = await process.wait_until_async(is_told, timeout=timeout)
        while (
            self.is_gone
            and ssh.is_crowded(self._printed())
            and time.monotonic() < begun_s + remote.CROWDED_S
            and not self._is_let_go
        ):
            self._close()
            await ssh.pause()
            self._ask(*self._last_request)
            in_time = await process.wait_until_async(is_told, timeout=timeout)
        if ends := self._ends(stage, or_stage):
            if "error" not in ends[0]:
                if ends[0]["stage"] == "ready":
                    self._voice.beat()
                return
            said = ends[0]["error"]
            known = {**_REMEDIES, _NO_INDEX: plan.bundle(self._facts)}
            remedies = (remedy for words, remedy in known.items() if words in said)
            raise AgentError(said, host=name, remedy=next(remedies, ""))
        if not in_time:
            raise AgentError(f"no agent after {_READY_S:g} s", host=name)
        raise remote.ended(self.host, self.child.returncode, self._printed())

    def _ends(self, *stages: str) -> list[Mapping[str, Any]]:
        return [each for each in self._replies() if each.get("stage") in stages or "error" in each]

    def _replies(self) -> Sequence[Mapping[str, Any]]:
        return self._message.replies(self._printed())

    def _printed(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")


class _Voice:
    """The pipe to a host: `data` first, then keepalives."""

    def __init__(self, pipe: BinaryIO, data: bytes) -> None:
        # Whether the host reads keepalives promptly.
        self.is_heard = False
        self._beats = False
        self._words = queue.SimpleQueue[bytes]()
        threading.Thread(target=self._speak, args=(pipe, data), daemon=True).start()

    def say(self, word: bytes) -> None:
        self._words.put(word)

    def beat(self) -> None:
        """Send keepalives to the host from now on."""
        self._beats = True
        self.say(_BEAT)

    def end(self) -> None:
        """Send the end, if keepalives are read, and close the pipe."""
        if self._beats:
            self.say(onhost.END)
        self.say(b"")

    def _speak(self, pipe: BinaryIO, data: bytes) -> None:
        # Unless the other end goes away.
        with pipe, contextlib.suppress(BrokenPipeError):
            view = memoryview(data)
            while view:
                view = view[pipe.write(view) :]
            self.is_heard = True
            while word := self._next():
                pipe.write(word)

    def _next(self) -> bytes:
        try:
            return self._words.get(timeout=_BEAT_S if self._beats else None)
        except queue.Empty:
            return _BEAT
