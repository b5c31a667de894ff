"""How a run ends: its exit status and its record."""

from pathlib import Path

import pytest
from watched import Watched

from netesto.errors import ResultsError
from netesto.grounds import LAB
from netesto.language.plan import SourceFile
from netesto.results import fields, runs
from netesto.results.fields import Fields
from netesto.results.runs import RunRecord
from netesto.results.store import Store
from netesto.run import status
from netesto.run.request import RunRequest
from netesto.run.session import RunEnd, RunSession
from netesto.run.settings import RunSettings

NAME = "2026-11-20T121500.250Z"
COLUMNS: Fields = fields.load(Path(__file__).parents[2] / "fields.txt")
NOT_PUT_BACK = "h1: sysctl net.ipv4.tcp_ecn=1: not put back; the log of the agent has the reason"


def session(out: Path) -> RunSession:
    settings = RunSettings(libraries=(), definitions={}, max_iterations=1000, seed=1)
    return RunSession(
        request=RunRequest(script="a.nts", settings=settings, pages=False),
        plan=settings.plan(SourceFile("a.nts", "WAIT 1\n"), COLUMNS, counter=0),
        record=RunRecord(
            name=NAME, argv=(), script_path="a.nts", script="WAIT 1\n", seed=1, started=""
        ),
        fields=COLUMNS,
        ground=LAB,
        out=out,
        watcher=Watched(),
    )


@pytest.mark.parametrize(
    ("left", "outcome", "failures"),
    [
        ([], status.OK, ()),
        ([NOT_PUT_BACK], status.FAILED, (NOT_PUT_BACK,)),
        # The earlier run has failed for that reason.
        ([f"h1: in an earlier run: {NOT_PUT_BACK}"], status.OK, ()),
    ],
    ids=["nothing", "left", "earlier"],
)
def test_a_run_that_leaves_a_host_changed_has_failed(
    tmp_path: Path, left: list[str], outcome: int, failures: tuple[str, ...]
):
    own = session(tmp_path / "out")

    def carry_out(_: RunSession, __: Store) -> RunEnd:
        for text in left:
            own.watcher.setting_left(text)
        return RunEnd(status.OK)

    end = own.held(carry_out)
    record = runs.read(own.out, NAME)
    assert record is not None
    assert (end.status, end.failures, record.exit_status, record.left) == (
        outcome,
        failures,
        outcome,
        tuple(left),
    )


def test_a_run_whose_results_folder_is_moved_ends_with_an_error_and_makes_no_other_folder(
    tmp_path: Path,
):
    own = session(tmp_path / "out")

    def carry_out(_: RunSession, __: Store) -> RunEnd:
        own.out.rename(tmp_path / "elsewhere")
        return RunEnd(status.OK)

    with pytest.raises(ResultsError) as caught:
        own.held(carry_out)
    assert (status.of(caught.value), own.out.exists()) == (status.NOT_READY, False)
