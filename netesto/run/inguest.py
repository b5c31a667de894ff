"""A guest that carries out a job (run.job): the whole of a run, or a part in a process of its own,
which imports no more than a guest needs."""

import dataclasses
import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from netesto.errors import GuestError
from netesto.files import jsontext
from netesto.lab.kernels import Kernel
from netesto.run import status
from netesto.schema.registered import AddedPoint
from netesto.system import interrupts, process

# The time for pages after a request to end. After a second one there is none.
PAGES_S = 1.0

Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestRequest:
    """What is needed to start the guest of a job: the first line of its file.

    kernel       and kernel_hash, its hash when the run began
    out          the results folder of the job
    seed         of all random numbers of a guest in simulated time
    pages        whether they are drawn while it runs
    packs        whether the experiments are kept as one file each, if all of them are ok
    added        what other distributions add to netesto on this machine
    """

    kernel: Kernel
    kernel_hash: str
    out: Path
    memory_mb: int
    seed: int
    max_wall_s: float | None
    max_stall_s: float | None
    pages: bool
    packs: bool = False
    added: tuple[AddedPoint, ...] = ()

    def line(self) -> bytes:
        """The guest as a line of JSON."""
        return json.dumps(dataclasses.asdict(self), default=str).encode() + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> Self:
        """The guest of a line of JSON."""
        value = jsontext.parse(line)
        kernel = value["kernel"]
        modules = kernel["modules"]
        kernel |= {"path": Path(kernel["path"]), "modules": Path(modules) if modules else None}
        added = tuple(AddedPoint(**each) for each in value["added"])
        made = {"kernel": Kernel(**kernel), "out": Path(value["out"]), "added": added}
        return cls(**{**value, **made})

    def carry_out(self, job: Path, warn: Warn, *, is_part: bool = False) -> int:
        """Carry out the job in a file inside a guest, the whole or a part of a run; the exit
        status. GuestError if it crashes, or if its kernel is another one than when the run
        began."""
        # In the guest its job is read as well, but no other guest is started.
        from netesto.lab import guest
        from netesto.lab.watch import STALL_S

        if self.kernel.sha256() != self.kernel_hash:
            raise GuestError(
                f"{self.kernel.path}: this kernel has changed since the run began",
                remedy="Run the script again, with one kernel for all of its parts.",
            )
        drawer = None
        if self.pages:
            from netesto.run.drawer import Drawer

            drawer = Drawer(self.out, has_index=not is_part)
        # In real time a guest must not share its processor.
        draws_beside = self.kernel.ground.is_simulated or len(os.sched_getaffinity(0)) > 1
        outcome = None
        pages_s = math.inf
        try:
            outcome = guest.run(
                command(job),
                kernel=self.kernel,
                writable=[self.out],
                max_wall_s=self.max_wall_s,
                stall_s=self.max_stall_s or STALL_S,
                memory_mb=self.memory_mb,
                warn=warn,
                seed=self.seed,
                meanwhile=drawer.look if drawer and draws_beside else None,
                defers_interrupts=True,
            )
            if outcome != status.OK and interrupts.is_shutting_down():
                outcome, pages_s = status.INTERRUPTED, PAGES_S
        except KeyboardInterrupt:
            interrupts.begin_shutdown()
            outcome, pages_s = status.INTERRUPTED, 0
        finally:
            if drawer and not drawer.finish(within_s=pages_s):
                # The results of a part move to the folder of the run.
                folder = "" if is_part else f" {self.out}"
                warn(f"no time to draw all pages; netesto report{folder} draws them")
        if self.packs and outcome == status.OK:
            from netesto.results import packed, store

            for exp in store.experiments(self.out):
                packed.pack(self.out / str(exp))
        return outcome


def command(job: Path) -> list[str]:
    """The command that carries out the job in a file: in a guest, or by starting one."""
    return process.python("netesto", "job", str(job))


def request_of(job: Path) -> GuestRequest:
    """The guest of the job in a file."""
    with job.open("rb") as file:
        return GuestRequest.parse(file.readline())


def run_part(job: Path, warn: Warn, on_crash: Callable[[GuestError], None]) -> int:
    """Carry out the job in a file, which is a part of a run, in a guest; the exit status."""
    try:
        return request_of(job).carry_out(job, warn, is_part=True)
    except GuestError as error:
        # The others go on.
        on_crash(error)
        return status.FAILED
