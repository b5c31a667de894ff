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
import signal
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
from distributed import Security, Worker, WorkerPlugin

import netesto
from netesto.errors import GuestError
from netesto.files import atomic, paths
from netesto.lab import kernels
from netesto.lab.kernels import Kernel
from netesto.results import durable, packed
from netesto.run import job, status
from netesto.run.workers import Processors
from netesto.schema import registered
from netesto.system import interrupts

# What a worker tells its scheduler of: places for parts, and memory for their guests.
MEMORY = "netesto MiB"

# A guest, and the process that starts it, need so much more than the memory of the guest.
OVERHEAD_MB = 100

# How often the last lines of a part are told to the scheduler, for the case that this worker ends.
_TELL_S = 1.0
_LAST_LINES = 8

_RESULTS = "part"


@functools.cache
def places_name() -> str:
    """The name of a worker's places. Only equal versions for equal processors have the same: their
    results are the same bytes."""
    digest = hashlib.sha256()
    package = Path(netesto.__file__).parent
    for path in sorted(package.rglob("*")):
        if path.suffix in {".py", ".c", ".h", ".lark", ".desc"}:
            digest.update(path.read_bytes())
    return f"netesto {netesto.__version__}, {digest.hexdigest()[:8]}, {platform.machine()}"


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


@dataclass(slots=True)
class _Here:
    """The worker in this process, and what carries out parts. `closing` is its end."""

    worker: Worker
    processors: Processors
    say: Callable[[str], None]
    closing: asyncio.Future[Any] | None = None


_here: _Here | None = None


async def serve(
    address: str,
    processors: Processors,
    *,
    host: str | None,
    port: int,
    security: Security | None,
    say: Callable[[str], None],
) -> None:
    """Carry out parts for the scheduler at an address, until it or a signal ends this. OSError if
    there is no scheduler."""
    global _here  # noqa: PLW0603 - Dask calls functions, which find their worker here
    logging.getLogger("distributed").setLevel(logging.WARNING)
    memory_mb = psutil.virtual_memory().available // 2**20
    with tempfile.TemporaryDirectory(prefix="netesto-worker-") as folder:
        async with Worker(
            address,
            nthreads=processors.places,
            resources={places_name(): processors.places, MEMORY: memory_mb},
            host=host,
            port=port,
            security=security,
            # Guests, which take the memory, are other processes.
            memory_limit=0,
            local_directory=folder,
            dashboard=False,
        ) as worker:
            _here = _Here(worker, processors, say)
            loop = asyncio.get_running_loop()
            for number in interrupts.not_ignored():
                loop.add_signal_handler(number, _end, number)
            say(f"{processors.places} places, {memory_mb} MiB, for {address}: {places_name()}")
            await worker.finished()


def _end(number: signal.Signals) -> None:
    """End this worker; other workers carry out what runs here."""
    if _here is not None:
        _here.processors.end(number)
        _here.closing = asyncio.ensure_future(_here.worker.close())


# ---- what Dask calls -------------------------------------------------------------------------


class KernelPlugin(WorkerPlugin):  # type: ignore[misc]  # its type is not known
    """The kernel of guests, for workers that do not have it; kept in the user's cache."""

    idempotent = True

    def __init__(self, path: Path, sha256: str) -> None:
        self.name = f"netesto kernel {sha256}"
        self._sha256 = sha256
        self._content = lzma.compress(path.read_bytes(), preset=1)

    def setup(self, worker: Worker) -> None:
        """Keep it, if this machine does not have it yet."""
        del worker
        path = _received(self._sha256)
        if _own_kernel(self._sha256) is None and not path.exists():
            durable.make_folder(path.parent)
            with durable.writing(path), atomic.replaced(path) as file:
                file.write(lzma.decompress(self._content))
                os.fchmod(file.fileno(), 0o755)


def _received(sha256: str) -> Path:
    return paths.cache_folder() / "received" / sha256 / "linux"


@functools.cache
def _own_kernel(sha256: str) -> Kernel | None:
    """A kernel that was installed or built on this machine."""
    return next((each for each in kernels.installed() if each.sha256() == sha256), None)


def _kernel(wanted: Kernel, sha256: str) -> Kernel:
    """The kernel of a job on this machine."""
    if (own := _own_kernel(sha256)) is not None:
        return replace(wanted, path=own.path, modules=own.modules)
    if wanted.modules is not None:
        raise GuestError(
            f"kernel {wanted.name}: not installed on worker {platform.node()}",
            remedy="Install the same version there: sudo apt-get install user-mode-linux",
        )
    return replace(wanted, path=_received(sha256))


def topic(run: str, name: str) -> str:
    """Under which a worker tells the last lines of a part."""
    return f"netesto {run} {name}"


async def carry_out(run: str, name: str, content: bytes) -> PartResult:
    """Carry out the part `name` of a run, whose job has this content."""
    assert _here is not None, "only workers of netesto have its places"
    with tempfile.TemporaryDirectory(prefix="netesto-part-") as temporary:
        folder = Path(temporary, _RESULTS)
        durable.make_folder(folder)
        path = folder / job.NAME
        _here.say(f"{name}: begins")
        try:
            _adapt(path, content)
            telling = asyncio.create_task(_tell_last_lines(topic(run, name), folder / "stderr"))
            with _locked(folder.parent) as lock:
                end = await _here.processors.run(path, lock, run=run)
            telling.cancel()
        except GuestError as error:
            durable.replace(folder / "stderr", f"netesto: {error}\n", lasting=False)
            end = None
        path.unlink()
        _here.say(f"{name}: ended")
        piece = packed.pack(folder).read_bytes()
    return PartResult(
        status=status.NOT_READY if end is None else end.status,
        reason="" if end is None else end.reason,
        content=piece,
        sha256=hashlib.sha256(piece).hexdigest(),
    )


def _adapt(path: Path, content: bytes) -> None:
    """Write the job of a part as it is to be carried out in the folder of `path` on this
    machine."""
    path.write_bytes(content)
    made, plan = job.read(path)
    with plan:
        guest = replace(
            made.guest,
            kernel=_kernel(made.guest.kernel, made.guest.kernel_hash),
            out=path.parent,
            added=registered.points(),
        )
        request = replace(made.request, out=path.parent)
        replace(made, guest=guest, request=request).write(path, plan)


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
