"""What carries out the parts of a run; and the processors of this machine, with a guest on each."""

import os
import signal
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from netesto.language.plan import Part
from netesto.run import inguest, status
from netesto.system import process


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

    async def carry_out(self, task: Task, job: Path, lock: int) -> TaskEnd:
        """Carry out a task, whose folder has this job, as a process that holds `lock`."""

    def interrupt(self, number: signal.Signals) -> None:
        """A request to end, for what runs and for what begins later."""


class Processors:
    """`places` processes on this machine, each on its own processor as long as there are enough: a
    guest uses only one. `command` makes the command that carries out a job."""

    def __init__(
        self, places: int, command: Callable[[Path], Sequence[str]] = inguest.command
    ) -> None:
        self._command = command
        self._places = places
        cpus = sorted(os.sched_getaffinity(0))
        self._free = deque(cpus[place % len(cpus)] for place in range(places))
        self._running = set[process.Job]()
        self._requested: signal.Signals | None = None

    @property
    def places(self) -> int:
        return self._places

    async def carry_out(self, task: Task, job: Path, lock: int) -> TaskEnd:
        cpu = self._free.popleft()
        command = ["taskset", "--cpu-list", str(cpu), *self._command(job)]
        child = await process.start(
            process.tethered(command),
            stdout=task.folder / "stdout",
            stderr=task.folder / "stderr",
            pass_fds=[lock],
        )
        self._running.add(child)
        if self._requested is not None:
            # While it was being started.
            child.send(self._requested)
        try:
            code = await child.wait()
        finally:
            self._running.remove(child)
            self._free.append(cpu)
            await child.end()
        if code >= 0:
            return TaskEnd(code)
        return TaskEnd(status.FAILED, f"it was ended by {signal.Signals(-code).name}")

    def interrupt(self, number: signal.Signals) -> None:
        self._requested = number
        for child in self._running:
            # The same signal, because parts inherit our ignored signals (`netesto run … &`).
            child.send(number)
