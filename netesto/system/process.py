"""The only module that starts processes: an argument list, a deadline, a process group each."""

import asyncio
import contextlib
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, Self, TypeAlias

from netesto.errors import ProcessError

# A started command, as `launch` and `background` give it.
Child: TypeAlias = subprocess.Popen[bytes]

# Between SIGTERM and SIGKILL; a tool that has not ended by then will not.
TERM_GRACE_S = 2.0

# Between two checks of a condition that sends no event.
POLL_INTERVAL_S = 0.01
_SHORTEST_POLL_S = 0.001

_SYSTEM = frozenset({"/usr/local/bin", "/usr/bin", "/bin"})

# One read of the output of a job.
_PIECE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class CompletedCommand:
    """A command that ended: its exit status (negative: the signal that ended it) and its output."""

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str

    def last_lines(self, count: int = 5) -> str:
        """The last lines of standard error; of standard output if it is empty."""
        text = self.stderr.strip() or self.stdout.strip()
        return "\n".join(text.splitlines()[-count:])

    def checked(self) -> Self:
        """This command. ProcessError if it exited other than 0."""
        if self.status == 0:
            return self
        message = f"exit status {self.status}: {self.last_lines()}".rstrip(": ")
        raise ProcessError(self.argv, message)


@contextlib.contextmanager
def _starting(argv: Sequence[str]) -> Iterator[None]:
    """The system's reason why a command cannot start becomes a ProcessError."""
    try:
        yield
    except OSError as error:
        raise ProcessError(argv, f"cannot start: {error.strerror}") from error


def _late(argv: Sequence[str], timeout: float) -> ProcessError:
    return ProcessError(argv, f"still running after {timeout:g} s, ended")


def reach_system_programs() -> None:
    """Have `ip`, `tc` and others found where Debian keeps them, in folders that are not on the PATH
    of its ordinary users: beside a folder `bin` of the system there is one named `sbin`."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    beside = [f"{folder.removesuffix('bin')}sbin" for folder in folders if folder in _SYSTEM]
    os.environ["PATH"] = os.pathsep.join(dict.fromkeys([*folders, *beside]))


def program(name: str, env: Mapping[str, str] | None = None) -> str:
    """The file of a program on the PATH of `env` (None: ours); `name` itself if it is a path, or is
    not found.

    Usually the kernel is asked to start it in one folder after the other. A user-mode kernel makes
    a process for each attempt, which takes longer than to run the program.
    """
    if "/" in name:
        return name
    path = (os.environ if env is None else env).get("PATH")
    found = shutil.which(name, path=path)
    return found if found is not None and Path(found).is_absolute() else name


def python(module: str, *words: str) -> list[str]:
    """The command that runs a module with this interpreter, which imports nothing from the working
    folder: a `json.py` there is not ours."""
    return [sys.executable, "-P", "-m", module, *words]


def tethered(argv: Sequence[str]) -> list[str]:
    """The command `argv`, which gets SIGTERM when the thread of this process that starts it ends,
    however it does: nothing of it stays after kill -9."""
    # Whoever has ended before setpriv has asked for the signal is no longer the parent.
    is_parent = ["sh", "-c", 'test "$PPID" = "$0" && exec "$@"', str(os.getpid())]
    return ["setpriv", "--pdeathsig", "TERM", "--", *is_parent, *argv]


def run(
    argv: Sequence[str],
    *,
    timeout: float,
    check: bool = True,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> CompletedCommand:
    """Run a command to its end.

    Raises ProcessError if it cannot be started, outlives `timeout` seconds (it is killed, with its
    group), or, with `check`, exits other than 0.
    """
    with _starting(argv):
        child = subprocess.Popen(
            list(argv),
            executable=program(argv[0], env),
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env=None if env is None else dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    try:
        stdout, stderr = child.communicate(stdin, timeout=timeout)
    except BaseException as error:
        kill_group(child.pid)
        child.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise _late(argv, timeout) from None
        raise
    finished = CompletedCommand(tuple(argv), child.returncode, stdout, stderr)
    return finished.checked() if check else finished


def become(argv: Sequence[str]) -> NoReturn:
    """Replace this process by a command, which gets its terminal. ProcessError if it cannot
    start."""
    with _starting(argv):
        os.execvp(argv[0], list(argv))  # noqa: S606 - there is no shell between
    raise AssertionError("execvp returns only with an error")


def manner(status: int) -> str:
    """How a command ended, by its exit status: "exited 1", "was ended by SIGTERM"."""
    if status >= 0:
        return f"exited {status}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-status).name}"
    return f"was ended by signal {-status}"


def kill_group(group: int, sign: signal.Signals = signal.SIGKILL) -> None:
    """Signal a process group that `run` or `start` made, if it still exists."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, sign)


def has_group(group: int) -> bool:
    """Whether a process is left in a group that `run` or `start` made."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def launch(
    argv: Sequence[str],
    *,
    stdout: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    pass_fds: Sequence[int] = (),
    stdin: int = subprocess.DEVNULL,
) -> Child:
    """Start a command in its own process group, which may outlive this process. Both its streams
    are appended to the file `stdout`; `stdin` is a descriptor. ProcessError if it cannot start.

    The caller ends it, with `end`; `background` does so after a block.
    """
    with stdout.open("ab") as sink, _starting(argv):
        return subprocess.Popen(
            list(argv),
            executable=program(argv[0], env),
            stdin=stdin,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=None if env is None else dict(env),
            cwd=cwd,
            pass_fds=pass_fds,
            start_new_session=True,
        )


@contextlib.contextmanager
def background(
    argv: Sequence[str],
    *,
    stdout: Path,
    ready: Callable[[], bool] | None = None,
    timeout: float = 5.0,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    pass_fds: Sequence[int] = (),
) -> Iterator[Child]:
    """A command that runs during the body of `with`. Both its streams are appended to the file
    `stdout`; `pass_fds` stay open in it, with the same numbers.

    Waits until `ready()` is true: ProcessError after `timeout` seconds, or if the command ends
    before. After the body its process group is ended.
    """
    child = launch(argv, stdout=stdout, env=env, cwd=cwd, pass_fds=pass_fds)
    try:
        if ready is not None and not wait_until(
            lambda: child.poll() is not None or ready(), timeout=timeout
        ):
            raise ProcessError(argv, f"not ready after {timeout:g} s")
        if ready is not None and child.poll() is not None:
            tail = stdout.read_text(encoding="utf-8", errors="replace")[-500:].strip()
            message = f"exit status {child.returncode} before it was ready: {tail}"
            raise ProcessError(argv, message)
        yield child
    finally:
        end(child)


def end(child: Child) -> None:
    """End a child of this module and its process group, with SIGTERM and then with SIGKILL."""
    if child.poll() is None:
        kill_group(child.pid, signal.SIGTERM)
        try:
            child.wait(TERM_GRACE_S)
        except subprocess.TimeoutExpired:
            kill_group(child.pid)
            child.wait()
    # Processes that the child left in its group.
    kill_group(child.pid)


def wait_until(fact: Callable[[], bool], *, timeout: float) -> bool:
    """Wait until `fact()` is true; False if it is not after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not fact():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_INTERVAL_S)
    return True


async def wait_until_async(fact: Callable[[], bool], *, timeout: float) -> bool:
    """`wait_until` for code that runs in an event loop.

    It waits for a moment even before the first look: in simulated time, all that other processes do
    at this instant has then been done, in whatever order they had the processor.
    """
    deadline = time.monotonic() + timeout
    pause_s = _SHORTEST_POLL_S
    while True:
        await asyncio.sleep(pause_s)
        if fact():
            return True
        if time.monotonic() >= deadline:
            return False
        pause_s = min(2 * pause_s, POLL_INTERVAL_S)


class BackgroundCommand:
    """A command that runs in the background of an event loop, in its own process group."""

    def __init__(self, child: asyncio.subprocess.Process) -> None:
        self._child = child

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def status(self) -> int | None:
        """Its exit status (negative: a signal), None while it runs."""
        return self._child.returncode

    async def pieces(self) -> AsyncIterator[bytes]:
        """Standard output as it arrives. Only if `start` piped it."""
        assert self._child.stdout is not None, "standard output was sent to a file"
        while piece := await self._child.stdout.read(_PIECE_BYTES):
            yield piece

    async def lines(self, copy: BinaryIO | None = None) -> AsyncGenerator[str, None]:
        """The lines of standard output as they arrive, without their ends. Only if `start` piped
        it. `copy` gets the same bytes. A line may have any length."""
        rest = b""
        async for piece in self.pieces():
            if copy is not None:
                copy.write(piece)
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield line.decode(errors="replace").rstrip("\r")
        if rest:
            yield rest.decode(errors="replace").rstrip("\r")

    async def wait(self, *, timeout: float | None = None) -> int:
        """Its exit status, when it has ended. TimeoutError after `timeout` seconds; it
        continues."""
        return await asyncio.wait_for(self._child.wait(), timeout)

    def send(self, sign: signal.Signals) -> None:
        """Signal its process group."""
        if self._child.returncode is None:
            kill_group(self.pid, sign)

    async def end(self, sign: signal.Signals = signal.SIGTERM) -> int:
        """End it and its group, with `sign` and then with SIGKILL; its exit status."""
        self.send(sign)
        try:
            status = await self.wait(timeout=TERM_GRACE_S)
        except TimeoutError:
            kill_group(self.pid)
            status = await self.wait()
        kill_group(self.pid)
        return status


async def start(
    argv: Sequence[str],
    *,
    stdout: Path | None = None,
    stderr: Path | None = None,
    stdin: int = subprocess.DEVNULL,
    pass_fds: Sequence[int] = (),
) -> BackgroundCommand:
    """Start a command in the background of the running event loop.

    `stdout` and `stderr` are new files. Without `stdout` its lines are read with
    `BackgroundCommand.lines`, without `stderr` standard error goes to standard output; `stdin` is a
    descriptor. `pass_fds` stay open in it, with the same numbers. ProcessError if it cannot start.
    """
    with contextlib.ExitStack() as stack, _starting(argv):
        out = stack.enter_context(stdout.open("xb")) if stdout else asyncio.subprocess.PIPE
        err = stack.enter_context(stderr.open("xb")) if stderr else asyncio.subprocess.STDOUT
        child = await _created(
            argv,
            stdin=stdin,
            stdout=out,
            stderr=err,
            pass_fds=pass_fds,
        )
    return BackgroundCommand(child)


async def _created(argv: Sequence[str], **options: Any) -> asyncio.subprocess.Process:
    """A process in its own group, which is killed if we are cancelled meanwhile.

    asyncio itself kills the process without what it has started, and then waits for the end of its
    pipes, which that keeps open.
    """
    creating = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *argv, executable=program(argv[0]), start_new_session=True, **options
        )
    )
    try:
        return await asyncio.shield(creating)
    except asyncio.CancelledError:
        while not creating.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({creating})
        if not creating.cancelled() and creating.exception() is None:
            kill_group(creating.result().pid)
            await creating.result().wait()
        raise


async def run_async(
    argv: Sequence[str],
    *,
    timeout: float,
    check: bool = True,
    stdin: bytes | None = None,
    most_bytes: float = math.inf,
) -> CompletedCommand:
    """`run` for code that runs in an event loop. Cancelling it kills the command; so does output of
    more than `most_bytes`, which is a ProcessError."""
    with _starting(argv):
        child = await _created(
            argv,
            stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    try:
        async with asyncio.timeout(timeout):
            stdout, stderr, _ = await asyncio.gather(
                _output(child, child.stdout, most_bytes),
                _output(child, child.stderr, most_bytes),
                _fed(child, stdin),
            )
            await child.wait()
        if max(len(stdout), len(stderr)) > most_bytes:
            raise ProcessError(argv, f"printed more than {most_bytes:.0f} bytes")
    except TimeoutError:
        raise _late(argv, timeout) from None
    finally:
        if child.returncode is None:
            kill_group(child.pid)
            # asyncio knows of a process's end only when all that it printed is read.
            await _output(child, child.stdout, 0)
            await _output(child, child.stderr, 0)
            await child.wait()
        if child.stdin is not None:
            child.stdin.close()
            # Otherwise Python reports that nobody has heard of the broken pipe.
            with contextlib.suppress(OSError):
                await child.stdin.wait_closed()
    assert child.returncode is not None, "it was waited for"
    out, err = stdout.decode(errors="replace"), stderr.decode(errors="replace")
    finished = CompletedCommand(tuple(argv), child.returncode, out, err)
    return finished.checked() if check else finished


async def _output(
    child: asyncio.subprocess.Process, stream: asyncio.StreamReader | None, most_bytes: float
) -> bytes:
    """All that a command prints to one of its streams. If it is more than `most_bytes`, the command
    is killed, and this is longer."""
    found = bytearray()
    while stream is not None and (piece := await stream.read(_PIECE_BYTES)):
        if len(found) > most_bytes:
            continue
        found += piece
        if len(found) > most_bytes and child.returncode is None:
            kill_group(child.pid)
    return bytes(found)


async def _fed(child: asyncio.subprocess.Process, stdin: bytes | None) -> None:
    """Write the input of a command, as far as it reads it."""
    if stdin is None or child.stdin is None:
        return
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        child.stdin.write(stdin)
        await child.stdin.drain()
    child.stdin.close()
