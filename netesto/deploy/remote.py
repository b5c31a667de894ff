"""Hosts through ssh: runs `onhost` there, with a request, and leaves nothing behind."""

import itertools
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from netesto.deploy import facts
from netesto.deploy.facts import Facts
from netesto.deploy.plan import HostPlan, Step, bundle
from netesto.deploy.target import Target
from netesto.errors import SHOWN_TEXT, AgentError, ProcessError, shortened
from netesto.files import jsontext
from netesto.system import process
from netesto.transport import ssh

# The timeouts for a host that does not respond, and for one that is slow.
LOOK_S = 60.0
ACT_S = 1200.0
# Until a host, or a jump host, to which many connect at once lets us log in.
CROWDED_S = 20.0

# What a login shell may print besides, and a reply.
_PRINTED_MAX = 8_000_000

# Means the same to every login shell, because there is nothing to expand.
_PYTHON = 'python3 -c "import sys;i=sys.stdin.buffer;exec(i.read(int(i.readline())).decode())"'
# The exit status of a shell, and of sudo, for an unknown command.
_NOT_FOUND = 127


async def look(host: Target) -> Facts:
    """The facts of a host. AgentError if it cannot be reached."""
    return facts.parse(await _ask(host, facts.request(), (), timeout=LOOK_S))


async def check_unused(host: Target, known: Facts) -> None:
    """AgentError if somebody uses the agent of a host, which cannot be asked for its holder: it may
    be of an older protocol."""
    request = {"do": "users", "socket": known.places.socket}
    reply = await _ask(host, request, (), sudo=known.sudo, timeout=LOOK_S)
    if reply["users"]:
        raise AgentError(
            "its agent, which does not say who holds it, is used by "
            + ", ".join(map(str, reply["users"])),
            host=host.name,
            remedy="Wait until that run has ended, or end these processes.",
        )


async def act(host: Target, plan: HostPlan) -> None:
    """Execute a plan. AgentError names the step that failed."""
    request = {
        "do": "act",
        "lock": plan.facts.places.lock,
        # It has this text if somebody else was faster.
        "goal": {"path": plan.facts.places.record, "text": plan.record},
        "steps": messages(plan.steps),
    }
    following = archives(plan.steps)
    reply = await _ask(host, request, following, sudo=plan.facts.sudo, timeout=ACT_S)
    if "error" in reply:
        step = plan.steps[reply["done"]]
        raise AgentError(
            f"{step.words}: {reply['error']}" if step.words else reply["error"],
            host=host.name,
            remedy=_remedy(step, plan),
        )


def _remedy(step: Step, plan: HostPlan) -> str:
    match step.kind:
        case "pip":
            return bundle(plan.facts)
        case "spare":
            return "'netesto hosts fetch' fetches them; 'hosts remove --force' removes them, too."
        case _:
            return "Repair it and repeat the command: it continues where it stopped."


def archives(steps: Sequence[Step]) -> list[bytes]:
    """The archives that follow a request, in the order of its steps."""
    return [step.archive.data() for step in steps if step.archive is not None]


def messages(steps: Sequence[Step]) -> list[tuple[str, Mapping[str, Any]]]:
    """The steps as `onhost` takes them."""
    return [
        (step.kind, {**step.values, "size": len(step.archive.data())})
        if step.archive is not None
        else (step.kind, step.values)
        for step in steps
    ]


def command(*, sudo: bool) -> str:
    """The command for the host, which runs the program on its standard input."""
    return f"sudo -n {_PYTHON}" if sudo else _PYTHON


@dataclass(frozen=True, slots=True)
class Spoken:
    """The input of the host, and the token that marks its replies."""

    data: bytes
    token: str

    def replies(self, printed: str) -> list[dict[str, Any]]:
        """The replies in the output so far."""
        lines = printed.split("\n")
        return [
            jsontext.parse(after)
            for line, after in itertools.pairwise(lines[:-1])
            if line == self.token
        ]


def spoken(request: Mapping[str, Any], following: Sequence[bytes]) -> Spoken:
    """A request for `onhost`, with the program itself and the archives."""
    program, token = _program(), secrets.token_hex(16)
    line = json.dumps({**request, "token": token}).encode()
    return Spoken(b"".join([b"%d\n" % len(program), program, line, b"\n", *following]), token)


@cache
def _program() -> bytes:
    return Path(__file__).with_name("onhost.py").read_bytes()


async def _ask(
    host: Target,
    request: Mapping[str, Any],
    following: Sequence[bytes],
    *,
    sudo: bool = False,
    timeout: float,
) -> dict[str, Any]:
    """The reply of a host. AgentError if there is none."""
    said = spoken(request, following)
    argv = [*host.ssh(), command(sudo=sudo)]
    begun_s = time.monotonic()
    try:
        while True:
            done = await process.run_async(
                argv, stdin=said.data, timeout=timeout, check=False, most_bytes=_PRINTED_MAX
            )
            if not ssh.is_crowded(done.stderr) or time.monotonic() > begun_s + CROWDED_S:
                break
            await ssh.pause()
    except ProcessError as error:
        # ssh itself gives up on a host that is not reached, or has gone.
        raise AgentError(
            f"no reply of python3 there: {error.message}",
            host=host.name,
            remedy=f"This must print a word at once, and nothing without end: {_echo(host)}\nIf it"
            " does not, check the files that its login shell reads, such as ~/.bashrc.",
        ) from None
    replies = said.replies(done.stdout)
    if not replies:
        raise ended(host, done.status, done.stderr or done.stdout)
    if "error" in replies[0] and "done" not in replies[0]:
        raise AgentError(replies[0]["error"], host=host.name)
    return replies[0]


def _echo(host: Target) -> str:
    """A command for the user to try."""
    return f"{ssh.typed(host.address)} echo word"


def ended(host: Target, status: int | None, said: str) -> AgentError:
    """The error of an ssh process that ended, having `said` this, before a host replied."""
    # A C shell ends with 1, after these words.
    if status == _NOT_FOUND or "python3: Command not found" in said:
        return AgentError(
            "has no python3; an agent needs 3.11 or later",
            host=host.name,
            remedy="Install it there, such as by: apt install python3",
        )
    cause, remedy = ssh.explained(said.strip(), host.address)
    if status == ssh.FAILED:
        remedy = remedy or ssh.usual_remedy(host.address)
        return AgentError(f"not reached by ssh: {cause}", host=host.name, remedy=remedy)
    # Such as /bin/false, a shell that knows no -c, or a command that sshd runs in place of ours.
    what = f"no reply of python3 there, but exit status {status}"
    return AgentError(
        f"{what}: {shortened(cause, SHOWN_TEXT)}" if said.strip() else what,
        host=host.name,
        remedy=f"This must print a word: {_echo(host)}\nIf it does not, check"
        " the login shell, ForceCommand in sshd_config, and command= in authorized_keys.",
    )
