"""What a part has as its result whose guest has crashed."""

from pathlib import Path

from watched import Watched

from netesto.errors import GuestError
from netesto.grounds import SIM
from netesto.language.plan import SourceFile
from netesto.results import csvfile, fields, manifest, runs
from netesto.results.store import Store
from netesto.run import crashed
from netesto.run.request import RunRequest
from netesto.run.session import RunSession
from netesto.run.settings import RunSettings

SETTINGS = RunSettings(libraries=(), definitions={}, max_iterations=1000, seed=1)
FIELDS = fields.parse("exp:one\nhost:all\nca:all\nrate:sum\nstatus:all\nbw:one\n", source="f")
RUN = runs.RunRecord(name="r", argv=(), script_path="a.nts", script="", seed=1, started="")
SCRIPT = """\
LAB pair
OTHER bw=10
SWEEP ca=cubic DO
    FOR i IN 1,2 DO
        SET exp=COUNTER
        DO_CLIENT host=a server=b exp=$exp expName=crash ca=$ca test=TCP_STREAM dur=2
        PROCESS_EXP
    DONE
DONE
"""
CRASH = GuestError("the guest kernel crashed:\nRIP: 0033:odd\nKernel panic - not syncing: odd")


def crash(out: Path) -> RunSession:
    """The session of a part of two experiments, in the first of which its guest crashed."""
    with SETTINGS.plan(SourceFile("a.nts", SCRIPT), FIELDS) as plan, Store(out) as results:
        results.take_fields(FIELDS)
        part = plan.part(0)
        session = RunSession(
            request=RunRequest(script="a.nts", settings=SETTINGS, pages=False),
            plan=plan.slice(part),
            record=RUN,
            fields=FIELDS,
            ground=SIM,
            out=out,
            watcher=Watched(),
            kernel_hash="a hash",
        )
        crashed.record(session, results, CRASH)
    return session


def test_the_experiment_in_which_a_guest_crashed_has_rows_and_failed(tmp_path: Path):
    crash(tmp_path)
    rows = csvfile.read(tmp_path / "exp.csv")
    told = [{key: row[key] for key in ("exp", "host", "ca", "rate", "bw")} for row in rows]
    common = {"host": "a", "ca": "cubic", "rate": "", "bw": "10"}
    assert told == [{"exp": "1.0", **common}, {"exp": "1.1", **common}]
    assert rows[1]["status"].startswith("the guest kernel crashed")


def test_its_manifest_has_the_last_lines_of_the_kernel_and_what_the_guest_was(tmp_path: Path):
    crash(tmp_path)
    found = manifest.read(tmp_path / "1" / "manifest.json")
    [group] = found.groups
    [flow] = group.instances
    assert (found.status, found.reasons, flow.status, flow.last_lines, found.facts) == (
        "failed",
        (CRASH.message,),
        "the guest kernel crashed",
        "RIP: 0033:odd\nKernel panic - not syncing: odd",
        {"kernel hash": "a hash", "guest memory": "1024 MiB"},
    )


def test_its_run_has_failed_for_that_reason(tmp_path: Path):
    crash(tmp_path)
    record = runs.read(tmp_path, "r")
    assert record is not None
    assert (record.exit_status, record.failures) == (1, (CRASH.message,))
