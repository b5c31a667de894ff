"""What a run hands to another process, which carries out the run or a part of it in a guest: a file
with all that decides it. Its first line is the guest, the second one the request, the rest is the
plan."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import cattrs

from netesto.files import jsontext, typed
from netesto.grounds import GROUNDS, Ground
from netesto.language import plan as planning
from netesto.language.plan import Plan
from netesto.results.fields import Fields
from netesto.run.inguest import GuestRequest
from netesto.run.request import RunRequest, Watcher
from netesto.run.session import RunSession, record_of

# The name of a file with a job.
NAME = "job"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A plan, or a part of one, as it is to be carried out.

    guest        that carries it out
    request      of the run, with its name, and with the results folder of the part
    fields       the columns of exp.csv
    """

    guest: GuestRequest
    request: RunRequest
    fields: Fields

    def write(self, path: Path, plan: Plan) -> None:
        """Write the job to a file."""
        with path.open("wb") as file:
            file.write(self.guest.line())
            rest = {"request": self.request, "fields": self.fields}
            file.write(json.dumps(_converter().unstructure(rest)).encode() + b"\n")
            plan.write(file)


def read(path: Path) -> tuple[Job, Plan]:
    """The job in a file, and its plan. UsageError if the plan was modified."""
    with path.open("rb") as file:
        guest, rest = GuestRequest.parse(file.readline()), jsontext.parse(file.readline())
        job = Job(
            guest=guest,
            request=_converter().structure(rest["request"], RunRequest),
            fields=_converter().structure(rest["fields"], Fields),
        )
        return job, planning.read_opened(path, file)


def session_of(job: Job, plan: Plan, watcher: Watcher) -> RunSession:
    """The session that a job continues."""
    request = job.request
    assert request.out is not None, "a job has a results folder"
    return RunSession(
        request=request,
        plan=plan,
        record=record_of(request, plan, request.out),
        fields=job.fields,
        ground=job.guest.kernel.ground,
        out=request.out,
        watcher=watcher,
        kernel_hash=job.guest.kernel_hash,
    )


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
