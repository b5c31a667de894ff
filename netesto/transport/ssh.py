"""Tunnels to the Unix sockets of agents: one process of the user's own ssh for each host.

    tunnel = Tunnel(SshAddress("h1"), host="h1")
    await tunnel.open(timeout=5)     # AgentError with cause and remedy
    connect to tunnel.local …        # a socket that this user alone can open
    tunnel.last_words()              # why ssh has ended, if it has
    await tunnel.close()

ssh_config, keys, ssh-agent, jump hosts and known_hosts of the user apply. But ssh does not prompt,
because nobody may be there to answer. When ssh ends, connections through the tunnel end, so that
their users notice; ssh itself gives up on a silent host. A tunnel ends with the thread that opened
it, also after kill -9.
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

from netesto.errors import AgentError, NoAnswerError, ProcessError, UsageError
from netesto.system import owned, process
from netesto.system.process import BackgroundCommand
from netesto.transport import addresses
from netesto.transport.addresses import AGENT_SOCKET, USER_SOCKET, SshAddress, UnixAddress

# gRPC's own pings detect a silent peer after 3.5 s (transport.channel); ssh ends soon after.
_OPTIONS = (
    *("-T", "-a", "-x"),
    *("-o", "BatchMode=yes", "-o", "LogLevel=INFO"),
    # A shared connection of the user would outlive the run, or end within it.
    *("-o", "ControlMaster=no", "-o", "ControlPath=none"),
    # ssh runs either RemoteCommand or the given command.
    *("-o", "RemoteCommand=none"),
    *("-o", "ServerAliveInterval=4", "-o", "ServerAliveCountMax=2"),
)

# Runs when ssh listens on the socket; ssh prints its output.
_READY = "ready"
_FORWARDING = (
    *("-o", "ExitOnForwardFailure=yes", "-o", "StreamLocalBindMask=0177"),
    # ssh leaves its socket behind when the host ends its session.
    *("-o", "StreamLocalBindUnlink=yes"),
    *("-o", "PermitLocalCommand=yes", "-o", f"LocalCommand=echo {_READY}"),
)

# Runs on the host until its standard input ends, that is, with ssh. Without a session sshd keeps
# small packets back until those before are acknowledged, which takes up to 40 ms (RFC 896). A user
# without a session (nologin) has a slower tunnel; a forced command may print nothing.
_STARTED = "session"
_SESSION = f"echo; cat /dev/null && echo {_STARTED} && exec cat"
_SESSION_S = 0.5

_SOCKET, _LOG = "agent", "log"

# ssh's message about a key of its user.
_OPEN_KEY = re.compile(r"Permissions \d+ for '(.+)' are too open")

# ssh's message if the sshd of the host or a jump host hangs up before the login; afterwards it
# prints "Connection to".
_CROWDED = re.compile(r"^(?:kex_exchange_id|Connection (?:closed|reset) by )", re.MULTILINE)
# Through a jump host it prints this for other reasons, too.
_OTHERWISE = re.compile(r"^(?:ssh: |channel |Host key verif|.*Permission denied)", re.MULTILINE)
# Until the next attempt; randomised, so that hosts do not collide again.
_PAUSE_S = (0.05, 0.4)

# The timeout for asking the host why its agent cannot be reached.
_INQUIRY_S = 5.0

# Cause and remedy if sshd refuses what a tunnel needs.
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

# How long a connection through the tunnel that sshd refuses may seem open.
_REFUSAL_S = 1.0

# Prints what is wrong with the socket $1 of an agent, or the path of the user's own socket, $2
# below the home folder, if there is one.
_INQUIRY = (
    'echo; if ! test -e "$1" && test -S "$HOME/$2"; then echo "$HOME/$2";'
    ' elif test -w "$1"; then'
    ' if grep -qF " $1" /proc/net/unix; then echo closed; else echo deaf; fi;'
    ' elif test -e "$1"; then echo denied;'
    ' elif test -e "${1%/*}" && ! test -x "${1%/*}"; then echo denied; else echo missing; fi'
)


def argv(address: SshAddress, *words: str) -> list[str]:
    """The command that runs the command line `words` on a host, which it reaches like a tunnel."""
    return [*_ssh(address), "--", address.host, *words]


def _ssh(address: SshAddress) -> list[str]:
    port = ["-p", str(address.port)] if address.port is not None else []
    user = ["-l", address.user] if address.user else []
    return ["ssh", *_OPTIONS, *port, *user]


class Tunnel:
    """A tunnel to the agent of `host` at `address`, for one connection after another."""

    def __init__(self, address: SshAddress, *, host: str) -> None:
        self.address = address
        self.host = host
        # The address of the user's own agent, if there is none at the usual one.
        self.elsewhere = ""
        self._job: BackgroundCommand | None = None
        self._stack = contextlib.ExitStack()
        self._folder = Path()
        # The length of ssh's output from before the tunnel, such as the banner of the host.
        self._greeting = 0

    @property
    def local(self) -> UnixAddress:
        """The local socket that leads to the agent's, once the tunnel is open."""
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
                while not await self._start_session(session, reader):
                    if is_crowded(self._error_text()):
                        await pause()
                    else:
                        session = [*words, "-N", "--", self.address.host]
        except TimeoutError:
            said = self._error_text()
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

    async def _start_session(self, words: Sequence[str], stdin: int) -> bool:
        """Start ssh; return whether it still runs when its session, if any, has begun. AgentError
        if it cannot connect and another attempt is useless."""
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
                            # With `SessionType none` it continues without output.
                            await self._job.wait()
                except TimeoutError:
                    goes_on = True
        if not is_ready:
            await self._job.wait()
            if is_crowded(self._error_text()):
                return False
            raise self._failure(*explained(self._error_text(), self.address))
        self._greeting = len(self._error_text())
        return goes_on

    async def close(self) -> None:
        """End ssh and remove its socket."""
        if self._job is not None:
            await self._job.end()
            self._job = None
        self._stack.close()

    def last_words(self) -> str:
        """Why ssh has ended; "" if it runs."""
        # It also reports connections that the agent refused.
        lines = self._error_text().splitlines()
        said = "\n".join(line for line in lines if not line.startswith("channel "))
        if self._job is None or (self._job.status is None and not said):
            return ""
        return explained(said, self.address)[0]

    async def unreachable(self) -> AgentError:
        """Why nothing responds behind an open tunnel."""
        if not self._error_text() and self._job is not None and self._job.status is None:
            return self._failure(
                "its agent listens, but does not respond",
                "Is it stopped, or its host overloaded? Run there: ps -e -o stat,args",
                kind=NoAnswerError,
            )
        cause, remedy = explained(self._error_text(), self.address)
        if "open failed" in cause:
            cause, remedy = await self._inquire()
        return self._failure(cause, remedy)

    async def _inquire(self) -> tuple[str, str]:
        """Examine the agent's socket on the host: sshd does not report what is wrong with it."""
        path = self.address.path
        try:
            # Only an address without a path may be replaced.
            other = USER_SOCKET if path == AGENT_SOCKET else path
            words = f"exec sh -c '{_INQUIRY}' sh {path} {other}"
            found = await process.run_async(
                argv(self.address, words), timeout=_INQUIRY_S, check=False
            )
            # The output of the login shell precedes it.
            answer = found.stdout.strip().rpartition("\n")[2]
        except ProcessError:
            answer = ""
        if answer.startswith("/"):
            with contextlib.suppress(UsageError):
                own = addresses.parse(str(replace(self.address, path=Path(answer))))
                self.elsewhere = str(own)
        start = f"Start it there: netesto-agent --listen unix:{path}"
        if path == AGENT_SOCKET:
            # Or it was never installed.
            user = f"{self.address.user}@" if self.address.user else ""
            start = f"Install one: netesto hosts install {user}{self.address.host}"
        match answer:
            case "missing":
                return f"no agent runs there: no socket {path}", start
            case "deaf":
                return f"no agent runs there: nothing listens on {path}", start
            case "closed" if await self._forwards():
                return f"its agent had not yet started: nothing listened on {path}", "Try again."
            case "closed":
                return NO_FORWARDING
            case "denied":
                return f"no permission to open {path} there", (
                    "Name the user of the agent, such as ssh://root@HOST, or admit a group:"
                    " `group` in its agent.toml."
                )
        return f"its sshd cannot connect to {path}", start

    async def _forwards(self) -> bool:
        """Whether a connection through the tunnel now stays open, or has an answer."""
        try:
            async with asyncio.timeout(_REFUSAL_S):
                reader, writer = await asyncio.open_unix_connection(self.local.path)
                with contextlib.closing(writer):
                    return bool(await reader.read(1))
        except TimeoutError:
            return True
        except OSError:
            return False

    def _error_text(self) -> str:
        """Standard error of ssh since the tunnel is open; all of it before."""
        with contextlib.suppress(OSError):
            text = (self._folder / _LOG).read_text(encoding="utf-8", errors="replace")
            return text[self._greeting :]
        return ""

    def _failure(
        self, cause: str, remedy: str = "", *, kind: type[AgentError] = AgentError
    ) -> AgentError:
        remedy = remedy or usual_remedy(self.address)
        return kind(f"agent unreachable at {self.address}: {cause}", host=self.host, remedy=remedy)


async def _said_word(lines: AsyncIterator[str], word: str) -> bool:
    """Whether one of the lines that follow is `word`."""
    async for line in lines:
        if line == word:
            return True
    return False


def is_crowded(said: str) -> bool:
    """Whether sshd hung up before the login: too many simultaneous logins (MaxStartups)."""
    return _CROWDED.search(said) is not None and _OTHERWISE.search(said) is None


async def pause() -> None:
    """Wait for other logins."""
    await asyncio.sleep(random.uniform(*_PAUSE_S))


def usual_remedy(address: SshAddress) -> str:
    """The remedy if ssh's output suggests no other."""
    return f"This must work without a prompt: {typed(address)} true"


def explained(said: str, address: SshAddress) -> tuple[str, str]:
    """The cause and the remedy from ssh's output; "" if the usual remedy is right."""
    if "HOST IDENTIFICATION HAS CHANGED" in said:
        name = address.host if address.port is None else f"'[{address.host}]:{address.port}'"
        return "its host key has changed", (
            "This may be another machine. If you know the reason of the change, remove the old key:"
            f" ssh-keygen -R {name}"
        )
    if "Host key verification failed" in said:
        return "its host key is unknown", (
            f"Connect once by hand, and compare the key before you accept it: {typed(address)}"
        )
    if is_crowded(said):
        return "its sshd, or that of a jump host, hangs up before the login", (
            "It may permit fewer simultaneous logins than hosts (MaxStartups in its sshd_config),"
            f" or refuse this machine. This must work: {typed(address)} true"
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
    # A failing jump host reports its reason first; later messages are about the connection through
    # it.
    causes = [line for line in lines if line.startswith(("ssh: ", "channel "))]
    cause = (causes or lines[-1:] or ["ssh ended"])[0]
    return cause.removeprefix("ssh: "), ""


def typed(address: SshAddress, options: str = "") -> str:
    """The command line to reach the host by hand."""
    port = f"-p {address.port} " if address.port is not None else ""
    user = f"{address.user}@" if address.user else ""
    return f"ssh {options}{port}{user}{address.host}"
