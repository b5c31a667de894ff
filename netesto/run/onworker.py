"""A worker of a cluster: a worker of Dask on another machine, which carries out parts of runs.

It knows nothing of the run but the job of a part, and has no folder in common with the controller.
It carries out the job as a process of its own, as a run side by side does on its own machine, and
returns the results folder of the part as one file.
"""

import asyncio
import contextlib
import functools
import hashlib
import logging
import lzma
import os
import platform
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
from distributed import Security, Worker
from distributed.comm import connect

import netesto
from netesto.agent import tools
from netesto.errors import WorldError
from netesto.files import atomic, paths
from netesto.lab import kernels, netns
from netesto.lab.kernels import Kernel
from netesto.results import durable, packed
from netesto.run import job
from netesto.run.workers import LocalWorkers
from netesto.schema import registered
from netesto.system import interrupts, owned, process
from netesto.traffic import TOOLS
from netesto.units import counted

# What a worker tells its scheduler of, as resources: places for parts, memory for their guests, and
# as many as it has places of each traffic tool and each installed kernel. A task needs one of each.
MEMORY = "netesto MiB"

# What begins so is why it has no places.
FAULT = "unusable: "

# What starts a guest, and what every guest needs, with Debian's packages.
PROGRAMS = {**netns.TOOLS, "setpriv": "util-linux", "taskset": "util-linux"}

# As a guest does with its processes: PTRACE_TRACEME (ptrace.h). Exits 0 if that is permitted.
_TRACED = "import ctypes, sys; sys.exit(ctypes.CDLL(None).ptrace(0, 0, None, None) != 0)"

# A guest, and the process that starts it, need so much more than the memory of the guest.
OVERHEAD_MB = 100

# A scheduler that has not answered by then is not there; one that answers may be busy with others.
CONNECT_S = 4.0
_REGISTER_S = 60.0

# What Dask raises if none answers, or something else does: it takes the first bytes, of whatever it
# is, for a number of frames.
NO_SCHEDULER = (OSError, MemoryError, OverflowError, ValueError)

# How often the last lines of a part are told to the scheduler, for the case that this worker ends.
_TELL_S = 1.0
_LAST_LINES = 8

_RESULTS = "part"


@functools.cache
def places_name() -> str:
    """The name of a worker's places. Only equal versions, also of Python, for equal processors have
    the same: their results are the same bytes."""
    digest = hashlib.sha256()
    package = Path(netesto.__file__).parent
    for path in sorted(package.rglob("*")):
        if path.suffix in {".py", ".c", ".h", ".lark", ".desc"}:
            digest.update(path.read_bytes())
    return (
        f"netesto {netesto.__version__}, {digest.hexdigest()[:8]}, {platform.machine()},"
        f" Python {platform.python_version()}"
    )


def tool_name(name: str, version: str) -> str:
    """The name of a resource: a version of a traffic tool."""
    return f"{tool_prefix(name)}{version}"


def tool_prefix(name: str) -> str:
    """How the names of all versions of a traffic tool begin."""
    return f"tool {name} "


def kernel_name(sha256: str) -> str:
    """The name of a resource: a kernel that is installed there, with its modules."""
    return f"kernel {sha256}"


def _resources(places: int) -> dict[str, float]:
    """What this machine has for parts."""
    faults = [*_faults()]
    memory_mb = psutil.virtual_memory().available // 2**20
    if faults:
        return {places_name(): 0, MEMORY: memory_mb, **{f"{FAULT}{each}": 1 for each in faults}}
    names = [tool_name(name, version) for name, version in tools.versions(TOOLS).items()]
    names += [kernel_name(each.sha256()) for each in kernels.installed()]
    return {places_name(): places, MEMORY: memory_mb, **dict.fromkeys(names, places)}


def _faults() -> Iterator[str]:
    """Why no guest can run on this machine, each with its remedy."""
    if platform.machine() != "x86_64":
        yield f"user-mode Linux is for x86_64, and it is {platform.machine()}. Take another machine"
    lacks = {name: package for name, package in PROGRAMS.items() if shutil.which(name) is None}
    if lacks:
        packages = " ".join(sorted({*lacks.values()}))
        yield f"missing programs: {', '.join(lacks)}. sudo apt-get install {packages}"
    traced = process.run([sys.executable, "-I", "-S", "-c", _TRACED], timeout=10, check=False)
    if traced.status != 0:
        yield (
            "processes may not trace others (ptrace), as user-mode Linux does. In a container:"
            " --cap-add SYS_PTRACE; else sysctl kernel.yama.ptrace_scope=1"
        )


@dataclass(frozen=True, slots=True)
class PartResult:
    """The end of a part, and its results folder as a zip file with its SHA-256. `reason`: as in
    workers.TaskEnd."""

    status: int
    reason: str
    content: bytes
    sha256: str

    @property
    def is_damaged(self) -> bool:
        """Whether the content is not what the worker has sent."""
        return hashlib.sha256(self.content).hexdigest() != self.sha256


@dataclass(frozen=True, slots=True)
class LacksKernel:
    """A worker, by its address, that needs the kernel first (`keep_kernel`)."""

    worker: str


@dataclass(slots=True)
class _Here:
    """The worker in this process, its folder, and what carries out parts. `closing` is its end."""

    worker: Worker
    folder: Path
    processors: LocalWorkers
    say: Callable[[str], None]
    closing: asyncio.Future[Any] | None = None


_here: _Here | None = None


async def serve(
    address: str,
    processors: LocalWorkers,
    *,
    host: str | None,
    port: int,
    security: Security | None,
    say: Callable[[str], None],
) -> None:
    """Carry out parts for the scheduler at an address, until it or a signal ends this. One of
    NO_SCHEDULER without one; WorldError if the port cannot be listened on."""
    global _here  # noqa: PLW0603 - Dask calls functions, which find their worker here
    logging.getLogger("distributed").setLevel(logging.WARNING)
    resources = _resources(processors.places)
    # A worker of Dask would wait for a scheduler without end.
    options = security.get_connection_args("worker") if security is not None else {}
    await (await connect(address, timeout=CONNECT_S, **options)).close()
    if port:
        _check_port(host or "", port)
    with owned.temporary_folder() as folder:
        async with Worker(
            address,
            nthreads=processors.places,
            resources=resources,
            host=host,
            port=port,
            security=security,
            # Guests, which take the memory, are other processes.
            memory_limit=0,
            death_timeout=_REGISTER_S,
            local_directory=str(folder),
            dashboard=False,
        ) as worker:
            _here = _Here(worker, folder, processors, say)
            loop = asyncio.get_running_loop()
            for number in interrupts.not_ignored():
                loop.add_signal_handler(number, _end, number)
            own = places_name()
            places = counted(processors.places, "place")
            say(f"{places}, {resources[MEMORY]:.0f} MiB, for {address}: {own}")
            for name in resources:
                if name.startswith(FAULT):
                    say(name)
            await worker.finished()
            if _here.closing is None:
                say(f"the scheduler at {address} has gone")


def _check_port(host: str, port: int) -> None:
    """WorldError if no worker can listen there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        raise WorldError(
            f"cannot listen on port {port}: {os.strerror(error.errno or 0)}",
            remedy="Another worker may have it. Choose another one with --port.",
        ) from error


def _end(number: signal.Signals) -> None:
    """End this worker; other workers carry out what runs here."""
    if _here is not None:
        _here.processors.end(number)
        _here.closing = asyncio.ensure_future(_here.worker.close())


# ---- what Dask calls -------------------------------------------------------------------------


def compressed(kernel: Path) -> bytes:
    """A kernel as `keep_kernel` takes it."""
    return lzma.compress(kernel.read_bytes(), preset=1)


def keep_kernel(sha256: str, content: bytes) -> None:
    """Keep a kernel in the user's cache on this machine."""
    path = _received(sha256)
    durable.make_folder(path.parent)
    with durable.writing(path), atomic.replaced(path) as file:
        file.write(lzma.decompress(content))
        os.fchmod(file.fileno(), 0o755)


def _received(sha256: str) -> Path:
    return paths.cache_folder() / "received" / sha256 / "linux"


@functools.cache
def _own_kernel(sha256: str) -> Kernel | None:
    """A kernel that was installed or built on this machine."""
    return next((each for each in kernels.installed() if each.sha256() == sha256), None)


def _kernel(wanted: Kernel, sha256: str) -> Kernel | None:
    """The kernel of a job on this machine; None without it."""
    if (own := _own_kernel(sha256)) is not None:
        return replace(wanted, path=own.path, modules=own.modules)
    path = _received(sha256)
    return replace(wanted, path=path) if path.exists() else None


def topic(run: str, name: str) -> str:
    """Under which a worker tells the last lines of a part."""
    return f"netesto {run} {name}"


async def carry_out(run: str, name: str, content: bytes) -> PartResult | LacksKernel:
    """Carry out the part `name` of a run, whose job has this content."""
    assert _here is not None, "only workers of netesto have its places"
    with tempfile.TemporaryDirectory(prefix="part-", dir=_here.folder) as temporary:
        folder = Path(temporary, _RESULTS)
        durable.make_folder(folder)
        path = folder / job.NAME
        if not _adapt(path, content):
            return LacksKernel(_here.worker.address)
        _here.say(f"{name}: begins")
        telling = asyncio.create_task(_tell_last_lines(topic(run, name), folder / "stderr"))
        try:
            with _locked(folder.parent) as lock:
                end = await _here.processors.run(path, lock, run=run)
        finally:
            telling.cancel()
        path.unlink()
        _here.say(f"{name}: ended")
        piece = packed.pack(folder).read_bytes()
    return PartResult(
        status=end.status,
        reason=end.reason,
        content=piece,
        sha256=hashlib.sha256(piece).hexdigest(),
    )


def _adapt(path: Path, content: bytes) -> bool:
    """Write the job of a part as it is to be carried out in the folder of `path` on this machine;
    False if that lacks its kernel."""
    path.write_bytes(content)
    made, plan = job.read(path)
    with plan:
        kernel = _kernel(made.guest.kernel, made.guest.kernel_hash)
        if kernel is None:
            return False
        guest = replace(made.guest, kernel=kernel, out=path.parent, added=registered.points())
        request = replace(made.request, out=path.parent)
        replace(made, guest=guest, request=request).write(path, plan)
    return True


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[int]:
    lock = durable.lock(folder / ".lock")
    try:
        yield lock
    finally:
        os.close(lock)


async def _tell_last_lines(topic: str, path: Path) -> None:
    """Tell the last lines that a part has printed, whenever there are others: they are all that is
    known of a part that ends its worker."""
    assert _here is not None, "only workers of netesto have its places"
    told = [""]
    while True:
        if (lines := _last_lines(path)) != told:
            told = lines
            _here.worker.log_event(topic, {"host": platform.node(), "lines": told})
        await asyncio.sleep(_TELL_S)


def _last_lines(path: Path) -> list[str]:
    if not path.exists():
        return []
    return path.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]


def interrupt(run: str, number: int) -> None:
    """A request to end for all that runs here of a run, and for what begins later."""
    if _here is not None:
        _here.processors.interrupt(signal.Signals(number), run=run)
