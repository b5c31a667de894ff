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
import logging
import os
import secrets
import signal
import socket
import zipfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from distributed import Client, Future, KilledWorker, Security
from distributed.comm import CommClosedError

from netesto.agent import tools
from netesto.errors import MissingError, UsageError, WorldError
from netesto.flowspec import FlowSpec
from netesto.lab.kernels import Kernel
from netesto.language.steps import DoClient, RemoteCommand
from netesto.run import onworker, status
from netesto.run.onworker import LacksKernel
from netesto.run.workers import Task, TaskEnd
from netesto.traffic import TOOLS
from netesto.traffic.choice import installation

# Between two looks for new workers.
_LOOK_S = 1.0

# Between two looks whether a worker may come at all.
_WAIT_S = 2.0

_PORT = 8786

# What the scheduler knows of a worker, and of all by their addresses.
WorkerFacts: TypeAlias = Mapping[str, Any]
Known: TypeAlias = Mapping[str, WorkerFacts]


@dataclass(frozen=True, slots=True)
class Address:
    """Where a scheduler listens, as Dask writes it, and how connections to it are secured: None on
    this machine, and where that is not required."""

    text: str
    security: Security | None

    @property
    def host(self) -> str:
        return urlsplit(self.text).hostname or ""

    @property
    def port(self) -> int:
        return urlsplit(self.text).port or 0

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
        return Address(address, _tls())
    if not (insecure or _is_loopback(host)):
        raise UsageError(
            f"{address}: without TLS, whoever reaches a scheduler or a worker can run programs on"
            " all of them",
            remedy=f"Use tls://{shown}:{port}, or an ssh tunnel and 127.0.0.1 (docs/scale.md); or"
            " --insecure in a network of your own.",
        )
    return Address(address, None)


def no_scheduler(address: Address, error: Exception) -> MissingError:
    """The error of an address where no scheduler answers."""
    return MissingError(
        f"no scheduler at {address.text}: {_reason(error)}",
        remedy="Start one there: dask scheduler. Or correct the address. See docs/scale.md.",
    )


def _reason(error: Exception) -> str:
    match error:
        case socket.gaierror(strerror=str(reason)):
            return reason
        case OSError(errno=int(number)):
            return os.strerror(number)
        case OSError():
            return str(error) or f"no answer within {onworker.CONNECT_S:g} s"
        case _:
            return "another program listens there"


async def _reach(address: Address) -> None:
    """OSError with the reason, at once, if nothing listens there: Dask would try again and again,
    and say only for how long."""
    async with asyncio.timeout(onworker.CONNECT_S):
        _, writer = await asyncio.open_connection(address.host, address.port)
    writer.close()


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
        self,
        address: Address,
        *,
        run: str,
        kernel: Kernel,
        sha256: str,
        memory_mb: int,
        limit: int | None,
        commands: Sequence[RemoteCommand] = (),
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._address = address
        # Runs of several controllers may have the same name.
        self._run = f"{run}-{secrets.token_hex(4)}"
        self.kernel = kernel
        self._sha256 = sha256
        needs = {onworker.places_name(): 1, onworker.MEMORY: memory_mb + onworker.OVERHEAD_MB}
        if kernel.modules is not None:
            needs[onworker.kernel_name(sha256)] = 1
        # With the tools, which depend on the workers, and without.
        self._needs = self._fixed_needs = needs
        self._commands = commands
        # The versions of the tools of this machine.
        self._installed: Mapping[str, str] = {}
        self._limit = limit
        self._warn = warn
        # Workers that were warned about, by their addresses; and those that were sent the kernel.
        self._unusable = set[str]()
        self._kernels = dict[str, asyncio.Task[str]]()
        self._compressing: asyncio.Task[bytes] | None = None
        self._client: Client | None = None
        self._places = 0
        self._calls = set[asyncio.Future[Any]]()

    def examine(
        self, *, may_get_more: Callable[[int], bool] = lambda _: False, remedy: str = ""
    ) -> None:
        """Find the workers, and warn of those that cannot be used. Waits for one that can as long
        as there may be more than so many workers. MissingError, with the `remedy`, if there is no
        scheduler, or no usable worker."""
        self._installed = tools.versions(TOOLS)
        asyncio.run(self._examine(may_get_more, remedy))

    async def _examine(self, may_get_more: Callable[[int], bool], remedy: str) -> None:
        async with self._connection() as client:
            while not self._look_at(workers := await _workers(client)):
                # A worker that comes between both looks is seen by the next.
                if not await asyncio.to_thread(may_get_more, len(workers)):
                    break
                await asyncio.sleep(_WAIT_S)
            workers = await _workers(client)
        if self._look_at(workers):
            self._warn_of(workers)
            return
        lines = sorted(f"{_name(*each)}: {self._fault(each[1])}" for each in workers.items())
        table = "\n  ".join(["", *lines]) if lines else " there is none"
        raise MissingError(
            f"no usable worker at {self._address.text}:{table}",
            remedy=remedy
            or f"Start workers with this netesto: netesto worker {self._address.text}",
        )

    def _look_at(self, workers: Known) -> int:
        """How many places can be used now."""
        needed = dict.fromkeys(self._tools(workers), 1)
        self._needs = {**self._fixed_needs, **needed}
        self._places = self._counted(workers)
        return self._places

    def _tools(self, workers: Known) -> list[str]:
        """The resources that the flows need: of each tool that may make them, the version that is
        installed here; else the one that most workers have. All workers have the same, because
        results depend on it."""
        found = []
        for name in TOOLS:
            flows = [each.flow for each in self._commands if isinstance(each, DoClient)]
            if not any(_may_make(name, flow) for flow in flows):
                continue
            prefix = onworker.tool_prefix(name)
            common = Counter(
                resource
                for worker in workers.values()
                for resource in worker["resources"]
                if resource.startswith(prefix)
            ).most_common(1)
            if name in self._installed:
                found.append(onworker.tool_name(name, self._installed[name]))
            elif common:
                found.append(common[0][0])
            elif any(flow.tool == name for flow in flows):
                found.append(prefix)
        return found

    def _warn_of(self, workers: Known) -> None:
        """Warn, once, of workers that cannot be used."""
        for address, worker in workers.items():
            if address not in self._unusable and (fault := self._fault(worker)):
                self._unusable.add(address)
                self._warn(f"a worker is not used: {_name(address, worker)}: {fault}")

    def _fault(self, worker: WorkerFacts) -> str:
        """Why a worker cannot be used, with what to do; "" if it can."""
        has: Mapping[str, float] = worker["resources"]
        own = onworker.places_name()
        if own not in has:
            others = [
                each for each in has if each.startswith("netesto ") and each != onworker.MEMORY
            ]
            if others:
                return f"{others[0]} differs from {own} here. Install the same version on both"
            return "not a worker of netesto. Start it by: netesto worker"
        found = [
            each.removeprefix(onworker.FAULT) for each in has if each.startswith(onworker.FAULT)
        ]
        return "; ".join(found or self._lacks(has))

    def _lacks(self, has: Mapping[str, float]) -> Iterator[str]:
        """What a worker lacks for this run."""
        for name, need in self._needs.items():
            if has.get(name, 0) >= need:
                continue
            if name == onworker.MEMORY:
                yield (
                    f"too little memory: a guest needs {need} MiB, and it has {has[name]:.0f} MiB."
                    " Take another machine, or --memory"
                )
            elif name == onworker.kernel_name(self._sha256):
                yield (
                    f"kernel {self.kernel.name}: not installed, or another build. Install the same"
                    " version on both: sudo apt-get install user-mode-linux"
                )
            else:
                _, tool, version = name.split(" ", 2)
                prefix = onworker.tool_prefix(tool)
                other = [each.removeprefix(prefix) for each in has if each.startswith(prefix)]
                yield (
                    f"{tool} {other[0]} differs from {version}. Install the same version on all"
                    if other
                    else f"{tool} {version}".rstrip() + f": not installed. {installation(tool)}"
                )

    def _counted(self, workers: Known) -> int:
        found = sum(
            int(min(each["resources"][name] // need for name, need in self._needs.items()))
            for each in workers.values()
            if not self._fault(each)
        )
        return found if self._limit is None else min(found, self._limit)

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[Client]:
        try:
            await _reach(self._address)
        except OSError as error:
            raise no_scheduler(self._address, error) from error
        # What happens to the connection is in this class's errors; Dask would add its stacks.
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        client = Client(
            self._address.text,
            security=self._address.security,
            timeout=onworker.CONNECT_S,
            asynchronous=True,
            set_as_default=False,
        )
        try:
            try:
                await client
            except onworker.NO_SCHEDULER as error:
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
            try:
                yield
            except (CommClosedError, futures.CancelledError) as error:
                raise self._scheduler_gone() from error
            await asyncio.gather(*self._calls, return_exceptions=True)

    def _scheduler_gone(self) -> WorldError:
        """The error of a scheduler that ends during a run, or that is no longer reached."""
        return WorldError(
            f"the scheduler at {self._address.text} has gone, and the cells that ran are lost",
            remedy="Start it and its workers again, and continue with --resume.",
        )

    async def more(self) -> int:
        while True:
            await asyncio.sleep(_LOOK_S)
            assert self._client is not None, "it is connected"
            workers = await _workers(self._client)
            self._warn_of(workers)
            before, self._places = self._places, self._counted(workers)
            if self._places > before:
                return self._places - before

    async def carry_out(self, task: Task, job: Path, lock: int) -> TaskEnd:
        del lock
        attempt, fault = 1, ""
        while not fault:
            found = await self._attempt(task, job, attempt)
            if not isinstance(found, onworker.LacksKernel):
                return found
            attempt, fault = attempt + 1, await self._send_kernel(found.worker)
        return TaskEnd(status.FAILED, fault)

    async def _attempt(self, task: Task, job: Path, number: int) -> TaskEnd | LacksKernel:
        assert self._client is not None, "it is connected"
        future = self._submitted(task, job, number)
        try:
            found = await future
            if isinstance(found, LacksKernel):
                return found
            if found.is_damaged:
                [found] = await self._client.gather([future])
        except KilledWorker:
            return TaskEnd(status.FAILED, await self._last_words(task.part.name))
        except asyncio.CancelledError:
            if (current := asyncio.current_task()) is not None and current.cancelling():
                raise
            raise self._scheduler_gone() from None
        finally:
            future.release()
        if found.is_damaged:
            return TaskEnd(status.FAILED, "its results arrived damaged, twice")
        _unpack(found.content, task.folder)
        return TaskEnd(found.status, found.reason)

    def _submitted(
        self, task: Task, job: Path, attempt: int
    ) -> Future[onworker.PartResult | LacksKernel]:
        assert self._client is not None, "it is connected"
        return self._client.submit(
            onworker.carry_out,
            self._run,
            task.part.name,
            job.read_bytes(),
            key=f"netesto-{self._run}-{task.folder.name}-{attempt}",
            pure=False,
            resources=self._needs,
        )

    async def _send_kernel(self, worker: str) -> str:
        """Send the kernel to a worker, once; why that cannot keep it, "" if it has it or ended."""
        if worker not in self._kernels:
            self._kernels[worker] = asyncio.create_task(self._keep_kernel(worker))
        return await asyncio.shield(self._kernels[worker])

    async def _keep_kernel(self, worker: str) -> str:
        assert self._client is not None, "it is connected"
        if self._compressing is None:
            self._compressing = asyncio.create_task(
                asyncio.to_thread(onworker.compressed, self.kernel.path)
            )
        content = await asyncio.shield(self._compressing)
        found = await self._client.run(
            onworker.keep_kernel, self._sha256, content, workers=[worker], on_error="return"
        )
        error = found.get(worker)
        if error is None or worker not in await _workers(self._client):
            return ""
        return f"worker {worker} cannot keep the kernel: {error}"

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


async def _workers(client: Client) -> Known:
    """What the scheduler knows of its workers, by their addresses."""
    found = await client.scheduler.identity(n_workers=-1)
    workers: Known = found["workers"]
    return workers


def _name(address: str, worker: WorkerFacts) -> str:
    """A worker in messages."""
    return f"{worker['host']} ({address})"


def _may_make(tool: str, flow: FlowSpec) -> bool:
    """Whether a tool may make a flow, if it is installed."""
    return flow.tool == tool or (flow.tool == "auto" and flow.test in TOOLS[tool].tests)


def _unpack(content: bytes, folder: Path) -> None:
    """The results of a part into its folder."""
    path = folder.with_name(f"{folder.name}.zip")
    path.write_bytes(content)
    with zipfile.ZipFile(path) as file:
        file.extractall(folder)
    path.unlink()
