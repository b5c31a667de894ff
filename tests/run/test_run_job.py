"""The file by which a guest, or a process that starts one, is told what to carry out."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from netesto.errors import UsageError
from netesto.grounds import SIM
from netesto.lab.kernels import Kernel
from netesto.language.plan import Plan, SourceFile
from netesto.results import fields
from netesto.run import job, labs
from netesto.run.inguest import GuestRequest
from netesto.run.job import Job
from netesto.run.request import OnFailure, RunRequest, Shown
from netesto.run.settings import RunSettings
from netesto.schema.registered import AddedPoint
from netesto.system import process

SETTINGS = RunSettings(
    libraries=(Path("lib"),), definitions={"x": "1"}, max_iterations=7, seed=1, memory_mb=500
)
FIELDS = fields.parse("exp:one\nrate:sum\n", source="fields.txt").with_names(["bw"])
SCRIPT = """\
LAB pair
SWEEP ca=reno,cubic DO
    DO_CLIENT host=a server=b ca=$ca test=TCP_STREAM
    PROCESS_EXP
DONE
"""
# Everything but real hosts, which have no guests.
REQUEST = RunRequest(
    script="a.nts",
    settings=SETTINGS,
    out=Path("out"),
    fields=Path("own.txt"),
    ground=SIM,
    kernel="sim-6.12",
    lab=labs.parse_spec("pair,rate=1mbit"),
    aliases={"c": "a"},
    family=6,
    jobs=2,
    run="r",
    resume=True,
    on_failure=OnFailure(retries=2),
    agreed=True,
    force=True,
    wait_s=1.5,
    max_wall_s=60,
    commands=Path("/c.toml"),
    max_stall_s=3.5,
    shown=Shown(plain=True, quiet=True, debug=True, verbosity=2),
    pages=False,
    packs=True,
    on="127.0.0.1",
    insecure=True,
    budget_s=7200.0,
    warnings=("odd",),
)


def kernel(folder: Path) -> Kernel:
    path = folder / "linux"
    path.write_text("a kernel")
    return Kernel(
        name="sim-6.12", kind="sim", path=path, modules=None, version="6.12", config_hash="c"
    )


def write(folder: Path, request: RunRequest = REQUEST) -> tuple[Job, Plan, Path]:
    """A job with a part of a plan, and its file."""
    own = kernel(folder)
    guest = GuestRequest(
        kernel=own,
        kernel_hash=own.sha256(),
        out=Path("out"),
        memory_mb=500,
        seed=2,
        max_wall_s=60,
        max_stall_s=None,
        pages=False,
        added=(AddedPoint("netesto.tools", "drip", "drips:TOOL", "drip-tools"),),
    )
    made = Job(guest=guest, request=request, fields=FIELDS)
    with SETTINGS.plan(SourceFile("a.nts", SCRIPT), FIELDS) as whole:
        part = whole.slice(whole.part(1))
    path = folder / job.NAME
    made.write(path, part)
    return made, part, path


def test_a_job_has_the_whole_request_and_its_slice_of_the_plan(tmp_path: Path):
    made, part, path = write(tmp_path)
    found, plan = job.read(path)
    assert (found, plan.head, list(plan.steps())) == (made, part.head, list(part.steps()))


def test_a_request_for_the_least_is_a_job_too(tmp_path: Path):
    least = RunRequest(script="-", settings=replace(SETTINGS, seed=None, memory_mb=None))
    made, _, path = write(tmp_path, least)
    assert job.read(path)[0] == made


def test_a_job_whose_plan_was_modified_is_refused(tmp_path: Path):
    _, _, path = write(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"cubic"', b'"vegas"'))
    with pytest.raises(UsageError, match="modified after it was written"):
        job.read(path)


def test_a_part_does_not_run_on_another_kernel_than_the_others(tmp_path: Path):
    made, _, path = write(tmp_path)
    made.guest.kernel.path.write_text("another kernel")
    # Hashes are kept for as long as a process lives.
    program = (
        "import sys; from pathlib import Path; from netesto.run import inguest\n"
        f"inguest.run_part(Path({str(path)!r}), print, print)"
    )
    done = process.run([sys.executable, "-c", program], timeout=60)
    assert "this kernel has changed since the run began" in done.stdout


@pytest.mark.parametrize(
    ("wanted", "unneeded"),
    [
        (
            "netesto.cli.job",
            ["cattrs", "grpc", "rich", "netesto.language.plan", "netesto.results.store"],
        ),
        (
            "netesto.cli.job, netesto.cli.displayed, netesto.run.whole, netesto.agent.nursery",
            ["numpy", "matplotlib", "jinja2", "lark", "netesto.language.interpreter"],
        ),
    ],
    ids=["outside", "inside"],
)
def test_what_carries_out_a_job_imports_no_more_than_it_needs(wanted: str, unneeded: list[str]):
    program = f"import sys, {wanted}; print(*sorted(set({unneeded}) & sys.modules.keys()))"
    assert process.run([sys.executable, "-c", program], timeout=60).stdout == "\n"
