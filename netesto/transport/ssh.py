"""Tunnels to the Unix sockets of agents: one process of the user's own ssh for each host.

    tunnel = Tunnel(SshAddress("h1"), host="h1")
    await tunnel.open(timeout=5)     # AgentError with cause and remedy
    connect to tunnel.local …        # a socket that this user alone can open
    tunnel.last_words()              # why ssh has ended, if it has
    await tunnel.close()

ssh_config, keys, ssh-agent, jump hosts and known_hosts are the user's, and mean what they mean to
ssh. Only questions are not asked: nobody may be there to answer. When ssh ends, connections through
the tunnel end, so that whoever uses one notices; ssh itself gives up on a silent host. A tunnel
ends with the thread that opened it, also after kill -9.
"""

import asyncio
import contextlib
import os
import random
import re
import shutil
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

from netesto import owned, process
from netesto.errors import AgentError, ProcessError, UsageError
from netesto.process import Job
from netesto.transport import addresses
from netesto.transport.addresses import AGENT_SOCKET, USER_SOCKET, SshAddress, UnixAddress

# gRPC's own pings find a silent peer after 3.5 s (transport.channel); ssh goes soon after.
_OPTIONS = (
    *("-T", "-a", "-x"),
    *("-o", "BatchMode=yes", "-o", "LogLevel=INFO"),
    # A shared connection of the user would outlive the run, or end within it.
    *("-o", "ControlMaster=no", "-o", "ControlPath=none"),
    # ssh runs either that, or what it is told.
    *("-o", "RemoteCommand=none"),
    *("-o", "ServerAliveInterval=4", "-o", "ServerAliveCountMax=2"),
)

# Runs when the socket is listened on; what it prints comes out of ssh.
_READY = "ready"
_FORWARDING = (
    *("-o", "ExitOnForwardFailure=yes", "-o", "StreamLocalBindMask=0177"),
    # ssh leaves its socket behind when the host ends its session.
    *("-o", "StreamLocalBindUnlink=yes"),
    *("-o", "PermitLocalCommand=yes", "-o", f"LocalCommand=echo {_READY}"),
)

# Runs on the host until its standard input ends, that is, with ssh. Without a session sshd keeps
# small packets back until those before are acknowledged, which takes up to 40 ms (RFC 896). Who may
# have none (nologin) has a slower tunnel; a command that is forced upon a user may say nothing.
_STARTED = "session"
_SESSION = f"echo; cat /dev/null && echo {_STARTED} && exec cat"
_SESSION_S = 0.5

_SOCKET, _LOG = "agent", "log"

# What ssh says of a key of its user.
_OPEN_KEY = re.compile(r"Permissions \d+ for '(.+)' are too open")

# What ssh says where sshd, or that of a jump host, hangs up before anybody has logged in; later it
# says "Connection to".
_CROWDED = re.compile(r"^(?:kex_exchange_id|Connection (?:closed|reset) by )", re.MULTILINE)
# Through a jump host it says so, too, where that has another reason.
_OTHERWISE = re.compile(r"^(?:ssh: |channel |Host key verif|.*Permission denied)", re.MULTILINE)
# Until the next attempt; not all at once again.
_PAUSE_S = (0.05, 0.4)

# To ask the host why its agent cannot be reached.
_INQUIRY_S = 5.0

# Cause and remedy where sshd refuses what a tunnel is made of.
NO_FORWARDING = (
    "its sshd forwards no Unix sockets",
    (
        "In its sshd_config AllowStreamLocalForwarding and AllowTcpForwarding must be yes and"
        " DisableForwarding no; in authorized_keys the key must have no restrict (without"
        " port-forwarding), no-port-forwarding or permitopen."
    ),
)

# The exit status of ssh when it fails itself.
FAILED = 255

# Prints what is wrong with the socket $1 of an agent; and where its user has one of their own, $2
# below the home folder, that.
_INQUIRY = (
    'echo; if ! test -e "$1" && test -S "$HOME/$2"; then echo "$HOME/$2";'
    ' elif test -w "$1"; then'
    ' if grep -qF " $1" /proc/net/unix; then echo closed; else echo deaf; fi;'
    ' elif test -e "$1"; then echo denied;'
    ' elif test -e "${1%/*}" && ! test -x "${1%/*}"; then echo denied; else echo missing; fi'
)


def argv(address: SshAddress, *words: str) -> list[str]:
    """The command that runs the command line `words` on a host, as a tunnel would reach it."""
    return [*_ssh(address), "--", address.host, *words]


def _ssh(address: SshAddress) -> list[str]:
    port = ["-p", str(address.port)] if address.port is not None else []
    user = ["-l", address.user] if address.user else []
    return ["ssh", *_OPTIONS, *port, *user]


class Tunnel:
    """A way to the agent at `address`, the agent of `host`, for one connection after another."""

    def __init__(self, address: SshAddress, *, host: str) -> None:
        self.address = address
        self.host = host
        # The address of an agent of the user's own, if there is none at the usual one.
        self.elsewhere = ""
        self._job: Job | None = None
        self._stack = contextlib.ExitStack()
        self._folder = Path()
        # How much of what ssh has said is older than the tunnel, such as the greeting of the host.
        self._greeting = 0

    @property
    def local(self) -> UnixAddress:
        """The socket here that leads to the agent's, once the tunnel is open."""
        return UnixAddress(self._folder / _SOCKET)

    async def open(self, *, timeout: float) -> None:
        """Returns when connections to `local` arrive at the host. AgentError says why they do not,
        at the latest after `timeout` seconds."""
        if shutil.which("ssh") is None:
            raise self._failure(
                "ssh is not installed here", "Install it: apt install openssh-client"
            )
        self._folder, self._greeting = self._stack.enter_context(owned.folder_for_sockets()), 0
        forward = f"{self.local.path}:{self.address.path}"
        words = [*_ssh(self.address), *_FORWARDING, "-L", forward]
        reader, writer = os.pipe()
        self._stack.callback(os.close, writer)
        try:
            async with asyncio.timeout(timeout):
                session = [*words, "--", self.address.host, _SESSION]
                while not await self._begun(session, reader):
                    if is_crowded(self._said()):
                        await pause()
                    else:
                        session = [*words, "-N", "--", self.address.host]
        except TimeoutError:
            said = self._said()
            await self.close()
            if is_crowded(said):
                raise self._failure(*explained(said, self.address)) from None
            raise self._failure(f"no answer within {timeout:g} s") from None
        except ProcessError as error:
            await self.close()
            raise self._failure(str(error)) from None
        except BaseException:
            await self.close()
            raise
        finally:
            os.close(reader)

    async def _begun(self, words: Sequence[str], stdin: int) -> bool:
        """Start ssh; whether it goes on when its session, if it has one, has begun. AgentError if
        it cannot connect, and it makes no sense to try again."""
        log = self._folder / _LOG
        log.unlink(missing_ok=True)
        self._greeting = 0
        self._job = await process.start(process.tethered(words), stdin=stdin, stderr=log)
        async with contextlib.aclosing(self._job.lines()) as lines:
            is_ready = await _said_word(lines, _READY)
            goes_on = "-N" in words
            if is_ready and not goes_on:
                try:
                    async with asyncio.timeout(_SESSION_S):
                        goes_on = await _said_word(lines, _STARTED)
                        if not goes_on:
                            # With `SessionType none` it goes on without an output.
                            await self._job.wait()
                except TimeoutError:
                    goes_on = True
        if not is_ready:
            await self._job.wait()
            if is_crowded(self._said()):
                return False
            raise self._failure(*explained(self._said(), self.address))
        self._greeting = len(self._said())
        return goes_on

    async def close(self) -> None:
        """End ssh and remove its socket."""
        if self._job is not None:
            await self._job.end()
            self._job = None
        self._stack.close()

    def last_words(self) -> str:
        """Why ssh has ended; "" if it goes on."""
        # It also says which connections the agent refused.
        lines = self._said().splitlines()
        said = "\n".join(line for line in lines if not line.startswith("channel "))
        if self._job is None or (self._job.status is None and not said):
            return ""
        return explained(said, self.address)[0]

    async def unreachable(self) -> AgentError:
        """Why nothing answers behind an open tunnel."""
        if not self._said() and self._job is not None and self._job.status is None:
            return self._failure(
                "its agent listens, and does not answer",
                "Is it stopped, or its host overloaded? See there: ps -e -o stat,args",
            )
        cause, remedy = explained(self._said(), self.address)
        if "open failed" in cause:
            cause, remedy = await self._inquire()
        return self._failure(cause, remedy)

    async def _inquire(self) -> tuple[str, str]:
        """Look at the agent's socket on the host: sshd does not tell what is wrong with it."""
        path = self.address.path
        try:
            # Only an address without a path may mean another.
            other = USER_SOCKET if path == AGENT_SOCKET else path
            words = f"exec sh -c '{_INQUIRY}' sh {path} {other}"
            found = await process.run_async(
                argv(self.address, words), timeout=_INQUIRY_S, check=False
            )
            # Before it, there is what the login shell says.
            answer = found.stdout.strip().rpartition("\n")[2]
        except ProcessError:
            answer = ""
        if answer.startswith("/"):
            with contextlib.suppress(UsageError):
                own = addresses.parse(str(replace(self.address, path=Path(answer))))
                self.elsewhere = str(own)
        start = f"Start it there: netesto-agent --listen unix:{path}"
        if path == AGENT_SOCKET:
            # Or it was never there.
            user = f"{self.address.user}@" if self.address.user else ""
            start = f"Install one: netesto hosts install {user}{self.address.host}"
        match answer:
            case "missing":
                return f"no agent runs there: no socket {path}", start
            case "deaf":
                return f"no agent runs there: nobody listens on {path}", start
            case "closed":
                return NO_FORWARDING
            case "denied":
                return f"no permission to open {path} there", (
                    "Name the user of the agent, such as ssh://root@HOST, or let a group in:"
                    " `group` in its agent.toml."
                )
        return f"its sshd cannot connect to {path}", start

    def _said(self) -> str:
        """Standard error of ssh: since the tunnel is open, or if it is not yet, all of it."""
        with contextlib.suppress(OSError):
            text = (self._folder / _LOG).read_text(encoding="utf-8", errors="replace")
            return text[self._greeting :]
        return ""

    def _failure(self, cause: str, remedy: str = "") -> AgentError:
        remedy = remedy or f"This must work, and ask nothing: {typed(self.address)} true"
        return AgentError(
            f"agent unreachable at {self.address}: {cause}", host=self.host, remedy=remedy
        )


async def _said_word(lines: AsyncIterator[str], word: str) -> bool:
    """Whether one of the lines that follow is `word`."""
    async for line in lines:
        if line == word:
            return True
    return False


def is_crowded(said: str) -> bool:
    """Whether sshd hung up before anybody had logged in: too many do at once (MaxStartups)."""
    return _CROWDED.search(said) is not None and _OTHERWISE.search(said) is None


async def pause() -> None:
    """Give way to others that log in."""
    await asyncio.sleep(random.uniform(*_PAUSE_S))


def explained(said: str, address: SshAddress) -> tuple[str, str]:
    """The cause and the remedy in what ssh said; "" where the usual remedy is right."""
    if "HOST IDENTIFICATION HAS CHANGED" in said:
        name = address.host if address.port is None else f"'[{address.host}]:{address.port}'"
        return "its host key has changed", (
            "Somebody else may answer there. If the change is known and right, forget the old key:"
            f" ssh-keygen -R {name}"
        )
    if "Host key verification failed" in said:
        return "its host key is unknown", (
            f"Connect once by hand, and compare the key before you accept it: {typed(address)}"
        )
    if is_crowded(said):
        return "its sshd, or that of a jump host, hangs up before anybody logs in", (
            "It may let fewer log in at once than there are hosts (MaxStartups in its sshd_config),"
            f" or have closed to us. This must work: {typed(address)} true"
        )
    batch = "-o BatchMode=yes "
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    for line in lines:
        if "Permission denied (" in line:
            if ignored := _OPEN_KEY.search(said):
                key = ignored[1]
                return f"ssh ignores the key {key}, which others can read", f"chmod 600 {key}"
            return line, (
                "Nobody can type a password during a run: use a key (ssh-copy-id) and, if it has a"
                f" passphrase, ssh-agent (ssh-add). This must work: {typed(address, batch)} true"
            )
    # A jump host that fails says why first; what follows is about the connection through it.
    causes = [line for line in lines if line.startswith(("ssh: ", "channel "))]
    cause = (causes or lines[-1:] or ["ssh ended"])[0]
    return cause.removeprefix("ssh: "), ""


def typed(address: SshAddress, options: str = "") -> str:
    """What a person types to reach the host."""
    port = f"-p {address.port} " if address.port is not None else ""
    user = f"{address.user}@" if address.user else ""
    return f"ssh {options}{port}{user}{address.host}"
