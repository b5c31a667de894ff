"""`netesto run --on ADDRESS`: the parts of a script on workers of a cluster, which Dask's scheduler
at this address distributes.

    this process ── scheduler ─┬─ netesto worker ADDRESS ── netesto job … ── guest
                               └─ netesto worker ADDRESS ── …

The scheduler decides which worker carries out a part, and another one does if that ends. A task is
the job of a part (run.job), which has its slice of the plan; its result is the part's results
folder in one file, which is released when it has arrived: of those that are held, the scheduler
would repeat the task if their worker ended.
"""

import asyncio
import contextlib
import ipaddress
import secrets
import signal
import zipfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from distributed import Client, Future, KilledWorker, Security

from netesto.errors import MissingError, UsageError
from netesto.lab.kernels import Kernel
from netesto.run import onworker, status
from netesto.run.workers import Task, TaskEnd

# A scheduler that has not answered by then is not there.
CONNECT_S = 4.0

# Between two looks for new workers.
_LOOK_S = 1.0

_PORT = 8786


@dataclass(frozen=True, slots=True)
class Address:
    """Where a scheduler listens, as Dask writes it, and how connections to it are secured: None on
    this machine, and where that is not required."""

    text: str
    host: str
    security: Security | None

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        return _is_loopback(self.host)


def address_of(text: str, *, insecure: bool) -> Address:
    """The address of a scheduler. UsageError if it is invalid, or whoever reaches it could run
    programs on the workers, which `insecure` permits."""
    try:
        parts = urlsplit(text if "://" in text else f"tcp://{text}")
        host, port = parts.hostname or "", parts.port or _PORT
    except ValueError:
        host, port = "", 0
    if not host or parts.scheme not in {"tcp", "tls"} or parts.path.strip("/"):
        raise UsageError(
            f"{text!r}: not the address of a scheduler",
            remedy="Write HOST, HOST:PORT, tcp://HOST:PORT or tls://HOST:PORT.",
        )
    shown = f"[{host}]" if ":" in host else host
    address = f"{parts.scheme}://{shown}:{port}"
    if parts.scheme == "tls":
        return Address(address, host, _tls())
    if not (insecure or _is_loopback(host)):
        raise UsageError(
            f"{address}: without TLS, whoever reaches a scheduler or a worker can run programs on"
            " all of them",
            remedy=f"Use tls://{shown}:{port}, or an ssh tunnel and 127.0.0.1 (docs/scale.md); or"
            " --insecure in a network of your own.",
        )
    return Address(address, host, None)


def no_scheduler(address: Address, error: OSError) -> MissingError:
    """The error of an address where no scheduler answers."""
    return MissingError(
        f"no scheduler at {address.text}: {error}",
        remedy="Start one there: dask scheduler. See docs/scale.md.",
    )


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _tls() -> Security:
    """TLS with the certificates of Dask's configuration. UsageError without them."""
    security = Security(require_encryption=True)
    if not security.tls_ca_file or not security.tls_client_cert:
        raise UsageError(
            "TLS needs certificates",
            remedy="Name them in Dask's configuration (distributed.comm.tls): see docs/scale.md.",
        )
    return security


class Cluster:
    """The workers of a scheduler, for the parts of one run. `limit` is how many of their places are
    used."""

    def __init__(
        self, address: Address, *, run: str, kernel: Kernel, sha256: str, memory_mb: int,
        limit: int | None,
    ) -> None:  # fmt: skip
        self._address = address
        # Runs of several controllers may have the same name.
        self._run = f"{run}-{secrets.token_hex(4)}"
        self.kernel = kernel
        self._sha256 = sha256
        self._needs = {onworker.places_name(): 1, onworker.MEMORY: memory_mb + onworker.OVERHEAD_MB}
        self._limit = limit
        self._client: Client | None = None
        self._places = 0
        self._calls = set[asyncio.Future[Any]]()

    def examine(self) -> list[str]:
        """Find the workers: those that cannot be used, in words, if others can. MissingError if
        there is no scheduler, or no usable worker."""
        return asyncio.run(self._examined())

    async def _examined(self) -> list[str]:
        async with self._connection() as client:
            workers = await _workers(client)
        faults = {
            f"{each['host']} ({address})": self._fault(each) for address, each in workers.items()
        }
        lines = [f"{worker}: {fault}" for worker, fault in sorted(faults.items()) if fault]
        self._places = self._counted(workers)
        if not self._places:
            table = "\n  ".join(["", *lines]) if lines else " there is none"
            raise MissingError(
                f"no usable worker at {self._address.text}:{table}",
                remedy=f"Start workers with this netesto: netesto worker {self._address.text}",
            )
        return lines

    def _fault(self, worker: Mapping[str, Any]) -> str:
        """Why a worker cannot be used; "" if it can."""
        has: Mapping[str, float] = worker["resources"]
        own = onworker.places_name()
        if own in has:
            need = self._needs[onworker.MEMORY]
            if has[onworker.MEMORY] >= need:
                return ""
            return (
                f"too little memory: a guest needs {need} MiB, and it has"
                f" {has[onworker.MEMORY]:.0f} MiB. Take another machine, or --memory"
            )
        others = [name for name in has if name.startswith("netesto ") and name != onworker.MEMORY]
        if others:
            return f"{others[0]} differs from {own} here. Install the same version on both"
        return "not a worker of netesto. Start it by: netesto worker"

    def _counted(self, workers: Mapping[str, Mapping[str, Any]]) -> int:
        found = sum(
            int(min(each["resources"][name] // need for name, need in self._needs.items()))
            for each in workers.values()
            if not self._fault(each)
        )
        return found if self._limit is None else min(found, self._limit)

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[Client]:
        client = Client(
            self._address.text,
            security=self._address.security,
            timeout=CONNECT_S,
            asynchronous=True,
            set_as_default=False,
        )
        try:
            try:
                await client
            except OSError as error:
                raise no_scheduler(self._address, error) from error
            yield client
        finally:
            await client.close()

    # ---- workers.Workers ---------------------------------------------------------------------

    @property
    def places(self) -> int:
        return self._places

    def connected(self) -> AbstractAsyncContextManager[None]:
        return self._connected()

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[None]:
        async with self._connection() as client:
            self._client = client
            if self.kernel.modules is None:
                await client.register_plugin(onworker.KernelPlugin(self.kernel.path, self._sha256))
            yield
            await asyncio.gather(*self._calls, return_exceptions=True)

    async def more(self) -> int:
        while True:
            await asyncio.sleep(_LOOK_S)
            assert self._client is not None, "it is connected"
            before, self._places = self._places, self._counted(await _workers(self._client))
            if self._places > before:
                return self._places - before

    async def carry_out(self, task: Task, job: Path, lock: int) -> TaskEnd:
        del lock
        assert self._client is not None, "it is connected"
        name = task.part.name
        future = self._submitted(task, job)
        try:
            found: onworker.PartResult = await future
            if found.is_damaged:
                [found] = await self._client.gather([future])
        except KilledWorker:
            return TaskEnd(status.FAILED, await self._last_words(name))
        except asyncio.CancelledError:
            if (current := asyncio.current_task()) is not None and current.cancelling():
                raise
            return TaskEnd(status.FAILED, f"the scheduler at {self._address.text} has gone")
        finally:
            future.release()
        if found.is_damaged:
            return TaskEnd(status.FAILED, "its results arrived damaged, twice")
        _unpack(found.content, task.folder)
        return TaskEnd(found.status, found.reason)

    def _submitted(self, task: Task, job: Path) -> Future[onworker.PartResult]:
        assert self._client is not None, "it is connected"
        return self._client.submit(
            onworker.carry_out,
            self._run,
            task.part.name,
            job.read_bytes(),
            key=f"netesto-{self._run}-{task.folder.name}",
            pure=False,
            resources=self._needs,
        )

    async def _last_words(self, name: str) -> str:
        """What is known of a part that ended its workers."""
        assert self._client is not None, "it is connected"
        told = [
            event for _, event in await self._client.get_events(onworker.topic(self._run, name))
        ]
        where = ", ".join(dict.fromkeys(event["host"] for event in told))
        lines = told[-1]["lines"] if told else []
        return "\n".join([f"it ended the workers that carried it out: {where}", *lines])

    def interrupt(self, number: signal.Signals) -> None:
        if self._client is not None:
            call = self._client.run(onworker.interrupt, self._run, int(number), on_error="ignore")
            self._calls.add(asyncio.ensure_future(call))


async def _workers(client: Client) -> Mapping[str, Mapping[str, Any]]:
    """What the scheduler knows of its workers, by their addresses."""
    found = await client.scheduler.identity(n_workers=-1)
    workers: Mapping[str, Mapping[str, Any]] = found["workers"]
    return workers


def _unpack(content: bytes, folder: Path) -> None:
    """The results of a part into its folder."""
    path = folder.with_name(f"{folder.name}.zip")
    path.write_bytes(content)
    with zipfile.ZipFile(path) as file:
        file.extractall(folder)
    path.unlink()
