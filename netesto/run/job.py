"""What a run hands to another process, which carries out the run or a part of it in a guest: a file
with all that decides it. Its first line is the request, the rest is the plan."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import cattrs

from netesto.errors import GuestError
from netesto.files import jsontext, typed
from netesto.grounds import GROUNDS, Ground
from netesto.lab.kernels import Kernel
from netesto.language import plan as planning
from netesto.language.plan import Plan
from netesto.results.fields import Fields
from netesto.run.request import RunRequest
from netesto.system import process

# The name of a file with a job.
NAME = "job"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A plan, or a part of one, as it is to be carried out.

    request      of the run, with its name, and with the results folder of the part
    fields       the columns of exp.csv
    kernel       of the guest, and kernel_hash its hash when the run began
    """

    request: RunRequest
    fields: Fields
    kernel: Kernel
    kernel_hash: str

    def write(self, path: Path, plan: Plan) -> None:
        """Write the job to a file."""
        with path.open("wb") as file:
            file.write(json.dumps(_converter().unstructure(self)).encode() + b"\n")
            plan.write(file)


def check_kernel(kernel: Kernel, known_hash: str) -> None:
    """GuestError if a kernel is another one than when the run began."""
    if kernel.sha256() != known_hash:
        raise GuestError(
            f"{kernel.path}: this kernel has changed since the run began",
            remedy="Run the script again, with one kernel for all of its parts.",
        )


def read(path: Path) -> tuple[Job, Plan]:
    """The job in a file, and its plan. UsageError if the plan was modified."""
    with path.open("rb") as file:
        job = _converter().structure(jsontext.parse(file.readline()), Job)
        return job, planning.read_opened(path, file)


def command(path: Path) -> list[str]:
    """The command that carries out the job in a file."""
    return process.python("netesto", "job", str(path))


@cache
def _converter() -> cattrs.Converter:
    converter = typed.converter()
    converter.register_unstructure_hook(Path, str)
    converter.register_structure_hook(Path, lambda text, _: Path(text))
    converter.register_unstructure_hook_func(_is_ground, str)
    converter.register_structure_hook(Ground, lambda name, _: GROUNDS[name])
    return converter


def _is_ground(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Ground)
