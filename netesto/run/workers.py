"""What carries out the parts of a run: the processors of this machine, with a guest on each. Those
of other machines are in run.cluster."""

import asyncio
import contextlib
import importlib.util
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from netesto.errors import MissingError
from netesto.language.plan import Part
from netesto.run import inguest, status
from netesto.system import process


def need_dask() -> None:
    """MissingError if this installation has no cluster."""
    if importlib.util.find_spec("distributed") is None:
        raise MissingError(
            "Python package distributed: not found",
            remedy=f"{sys.executable} -m pip install 'netesto[cluster]'",
        )


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A part that is to run, and its own folder."""

    part: Part
    folder: Path


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """The end of a task: the exit status of what carried it out, or why it has none."""

    status: int
    reason: str = ""


class Workers(Protocol):
    """Carry out tasks, as many at a time as there are `places`."""

    @property
    def places(self) -> int:
        """How many tasks they carry out at a time."""

    def connected(self) -> AbstractAsyncContextManager[None]:
        """Within this, in one event loop, they carry out tasks."""

    async def more(self) -> int:
        """Wait until there are more places; how many more."""

    async def carry_out(self, task: Task, job: Path, lock: int) -> TaskEnd:
        """Carry out a task, whose folder has this job, as a process that holds `lock`."""

    def interrupt(self, number: signal.Signals) -> None:
        """A request to end, for what runs and for what begins later."""


class LocalWorkers:
    """`places` processes on this machine, each on its own processor as long as there are enough: a
    guest uses only one. `command` makes the command that carries out a job."""

    def __init__(
        self, places: int, command: Callable[[Path], Sequence[str]] = inguest.command
    ) -> None:
        self._command = command
        self._places = places
        cpus = sorted(os.sched_getaffinity(0))
        self._free = deque(cpus[place % len(cpus)] for place in range(places))
        # The run of each process, and what runs were requested to do; one of ours has no name.
        self._running: dict[process.BackgroundCommand, str] = {}
        self._requested: dict[str, signal.Signals] = {}

    @property
    def places(self) -> int:
        return self._places

    def connected(self) -> AbstractAsyncContextManager[None]:
        return contextlib.nullcontext()

    async def more(self) -> int:
        """There are never more processors."""
        await asyncio.Event().wait()
        return 0

    async def carry_out(self, task: Task, job: Path, lock: int) -> TaskEnd:
        del task
        return await self.run(job, lock)

    async def run(self, job: Path, lock: int, *, run: str = "") -> TaskEnd:
        """Carry out a job of a run, whose output goes to files in its folder."""
        cpu = self._free.popleft()
        command = ["taskset", "--cpu-list", str(cpu), *self._command(job)]
        try:
            child = await process.start(
                process.tethered(command),
                stdout=job.with_name("stdout"),
                stderr=job.with_name("stderr"),
                pass_fds=[lock],
            )
            self._running[child] = run
            try:
                if (number := self._requested.get(run)) is not None:
                    # While it was being started.
                    child.send(number)
                code = await child.wait()
            finally:
                del self._running[child]
                await child.end()
        finally:
            self._free.append(cpu)
        if code >= 0:
            return TaskEnd(code)
        return TaskEnd(status.FAILED, f"it was ended by {signal.Signals(-code).name}")

    def interrupt(self, number: signal.Signals, *, run: str = "") -> None:
        self._requested[run] = number
        for child, of in self._running.items():
            # The same signal, because parts inherit our ignored signals (`netesto run … &`).
            if of == run:
                child.send(number)

    def end(self, number: signal.Signals) -> None:
        """A request to end, for everything that runs."""
        for child in self._running:
            child.send(number)
