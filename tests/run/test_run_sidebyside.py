"""Parts side by side: the processes are small programs that write what a guest would."""

import io
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from netesto.cli.display import Display
from netesto.errors import ResultsError, UsageError
from netesto.grounds import SIM
from netesto.language.plan import Part, Plan, SourceFile
from netesto.results import csvfile, fields
from netesto.results.runs import RunRecord
from netesto.results.store import Store
from netesto.run import partfolders
from netesto.run.request import CONTINUE, OnFailure, RunRequest
from netesto.run.rounds import Rounds
from netesto.run.session import RunEnd, RunSession
from netesto.run.settings import RunSettings
from netesto.run.sidebyside import SideBySide
from netesto.run.workers import LocalWorkers, Task
from netesto.system import process

RUN = "2026-11-20T121500.250Z"
RECORD = RunRecord(name=RUN, argv=(), script_path="a.nts", script="", seed=1, started="")
SETTINGS = RunSettings(libraries=(), definitions={}, max_iterations=1000, seed=1)
FIELDS = fields.parse("exp:one\nstatus:one\nrate:sum\n", source="fields.txt")

# Arguments: the part's folder, its experiment's number, its status, its exit status, a file to wait
# for, "-" for none, and the rate.
PART = """
import json, os, sys, time
from pathlib import Path
folder, number, status, code, awaited, rate = Path(sys.argv[1]), *sys.argv[2:]
deadline = time.monotonic() + 60
while awaited != "-" and not Path(awaited).exists() and time.monotonic() < deadline:
    time.sleep(0.01)
(folder / number).mkdir()
rows = "".join(f"{number}.{group},{status},{rate}\\n" for group in (0, 1))
(folder / "exp.csv").write_text(f"exp,status,rate\\n{rows}")
(folder / "runs").mkdir()
failures = [] if status == "ok" else [f"experiment {number}: {status}"]
record = {"failures": failures, "ground": "sim", "hosts": {"a": "unix:a"}}
record |= {"name": "RUN", "argv": [], "script_path": "", "script": "", "seed": 1, "started": ""}
(folder / "runs" / "RUN.json").write_text(json.dumps(record))
print(f"part {number}")
print(f"warning: slow {number}", file=sys.stderr)
if int(code) < 0:
    print("ground sim", file=sys.stderr, flush=True)
    (folder / "runs" / "RUN.json").unlink()
    os.kill(os.getpid(), -int(code))
if code == "3":
    print("netesto: no kernel\\nBuild one.", file=sys.stderr)
sys.exit(int(code))
""".replace("RUN", RUN)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "out") as opened:
        yield opened


def make_part(index: int) -> Part:
    return Part(
        index=index,
        name=f"ca={index}",
        before=index,
        numbers=1,
        ranges=(),
        hash="",
        seconds=10.0,
        simulated_s=10.0,
    )


class Ground:
    """Runs parts; by experiment number, `codes` are exit statuses, `awaited` files to wait for, and
    `rates` those of others than 9 Mbit/s."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.tasks: dict[Path, Task] = {}
        self.codes: dict[int, int] = {}
        self.awaited: dict[int, Path] = {}
        self.rates: dict[int, str] = {}
        self.numbers_again = 1
        self.said = io.StringIO()
        self.display = Display(quiet=False, stream=self.said)

    def job(self, task: Task) -> Path:
        self.tasks[task.folder] = task
        return task.folder / "job"

    def command(self, job: Path) -> Sequence[str]:
        task = self.tasks[job.parent]
        number = task.part.before + 1
        code = self.codes.get(number, 0)
        outcome = ("ok", "failed")[code == 1]
        awaited = str(self.awaited.get(number, "-"))
        rate = self.rates.get(number, "9")
        words = [str(task.folder), str(number), outcome, str(code), awaited, rate]
        # Without site-packages: what coverage starts there takes Ctrl-C for a failed import.
        return [sys.executable, "-S", "-c", PART, *words]

    def again(self, part: Part, *, before: int) -> Part:
        numbers = self.numbers_again
        return replace(part, before=before, numbers=numbers, attempt=part.attempt + 1)

    def run(self, count: int, *, jobs: int = 2, on_failure: OnFailure = CONTINUE) -> RunEnd:
        self.store.reserve(0, count)
        parts = [make_part(index) for index in range(count)]
        with SETTINGS.plan(SourceFile("a.nts", ""), FIELDS) as plan:
            return self._run(plan, parts, jobs, on_failure)

    def sweep(
        self,
        text: str,
        *,
        jobs: int,
        on_failure: OnFailure = CONTINUE,
        budget_s: float | None = None,
    ) -> RunEnd:
        with SETTINGS.plan(SourceFile("a.nts", text), FIELDS) as plan:
            self.store.reserve(0, plan.head.last_number)
            return self._run(plan, plan.outer, jobs, on_failure, budget_s)

    def _run(
        self,
        plan: Plan,
        parts: Sequence[Part],
        jobs: int,
        on_failure: OnFailure,
        budget_s: float | None = None,
    ) -> RunEnd:
        session = RunSession(
            request=RunRequest(
                script="a.nts", settings=SETTINGS, on_failure=on_failure, budget_s=budget_s
            ),
            plan=plan,
            record=RECORD,
            fields=FIELDS,
            ground=SIM,
            out=self.store.folder,
            watcher=self.display,
        )
        rounds = Rounds(plan, is_simulated=True)
        workers = LocalWorkers(jobs, self.command)
        end = SideBySide(session, parts, self, self.store, workers=workers, rounds=rounds).run()
        self.store.order()
        return end

    @property
    def rows(self) -> list[str]:
        return [row["exp"] for row in csvfile.read(self.store.folder / "exp.csv")]


@pytest.fixture
def ground(store):
    return Ground(store)


def test_all_experiments_become_the_runs(ground, store):
    end = ground.run(3)
    assert (end, ground.rows, store.experiments()) == (
        RunEnd(0, ground="sim", hosts={"a": "unix:a"}),
        ["1.0", "1.1", "2.0", "2.1", "3.0", "3.1"],
        [1, 2, 3],
    )


def test_rows_are_in_the_scripts_order_whoever_ends_first(ground, store):
    ground.awaited[1] = partfolders.of_run(store.folder, RUN) / "1" / "2"
    ground.run(2)
    assert ground.rows == ["1.0", "1.1", "2.0", "2.1"]


def test_what_parts_print_is_passed_on(ground, capfd):
    ground.run(2)
    assert capfd.readouterr().out == "part 1\npart 2\n"


# With 5, 9 and 13 Mbit/s it is not certain; of cubic, which has the even numbers.
UNTIL = """\
SWEEP ca=reno,cubic reps=3..5 until=rate:2% DO
    DO_CLIENT host=a server=b exp=COUNTER ca=$ca
    PROCESS_EXP
DONE
"""
UNCERTAIN = {2: "5", 4: "9", 6: "13"}


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_cells_that_are_certain_are_not_repeated_whatever_the_number_of_jobs(ground, jobs):
    ground.rates = UNCERTAIN
    ground.sweep(UNTIL, jobs=jobs)
    assert ground.rows[::2] == [f"{exp}.0" for exp in (1, 2, 3, 4, 5, 6, 8, 10)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_without_a_budget_only_the_fewest_repetitions_run(ground, jobs):
    ground.rates = UNCERTAIN
    ground.sweep(UNTIL, jobs=jobs, budget_s=0.0)
    assert ground.rows[::2] == [f"{exp}.0" for exp in range(1, 7)]


@pytest.mark.parametrize(
    ("budget_s", "order"), [(None, [7, 8, 9, 10]), (1000.0, [8, 10, 7, 9])], ids=["none", "some"]
)
def test_with_a_budget_the_widest_interval_is_next(ground, budget_s, order):
    # Of reno, 8, 9 and 10 Mbit/s; of cubic with a wider interval, also with a fourth value.
    ground.rates = UNCERTAIN | {1: "8", 3: "9", 5: "10"}
    ground.sweep(UNTIL, jobs=1, budget_s=budget_s)
    assert [task.part.before + 1 for task in ground.tasks.values()] == [*range(1, 7), *order]


def test_a_repetition_waits_for_earlier_ones_of_its_cell_alone(ground, store):
    ground.rates = UNCERTAIN
    # The last repetition of the one cell waits for the last one of the other.
    ground.awaited[5] = partfolders.of_run(store.folder, RUN) / "9" / "10"
    ground.sweep(UNTIL, jobs=2)
    assert ground.rows[-2:] == ["10.0", "10.1"]


def test_of_a_part_that_is_run_again_the_last_attempt_counts(ground):
    ground.codes[3] = 1
    ground.sweep(UNTIL, jobs=2, on_failure=OnFailure(retries=1))
    assert ground.rows[::2] == ["1.0", "2.0", "3.0", "4.0", "5.0", "6.0", "11.0"]


def test_a_failed_part_is_followed_by_another_repetition(ground):
    ground.codes[3] = 1
    end = ground.sweep(UNTIL, jobs=2)
    assert (end.status, ground.rows[::2]) == (1, [f"{exp}.0" for exp in range(1, 8)])


def test_warnings_tell_their_part(ground):
    ground.run(1)
    assert "warning: ca=0: slow 1" in ground.said.getvalue()


def test_nothing_is_left_of_the_parts(ground, store):
    ground.run(2)
    assert not partfolders.of_run(store.folder, RUN).exists()


def test_a_failure_is_the_runs_and_the_others_go_on(ground):
    ground.codes[1] = 1
    end = ground.run(3)
    assert (end.status, end.failures, len(ground.rows)) == (
        1,
        ("ca=0: experiment 1: failed",),
        6,
    )


def test_on_failure_stop_begins_no_other_part(ground):
    ground.codes[1] = 1
    end = ground.run(3, jobs=1, on_failure=OnFailure(stops=True))
    assert (end.status, ground.rows) == (1, ["1.0", "1.1"])


def test_on_failure_retry_runs_the_part_again_under_a_new_number(ground):
    ground.codes[1] = 1
    end = ground.run(2, on_failure=OnFailure(retries=1))
    assert (end.status, end.failures, ground.rows) == (
        0,
        (),
        ["1.0", "1.1", "2.0", "2.1", "3.0", "3.1"],
    )


def test_retries_have_an_end(ground):
    ground.codes |= {1: 1, 2: 1, 3: 1, 4: 1}
    end = ground.run(1, on_failure=OnFailure(retries=2))
    assert (end.status, end.failures, ground.store.experiments()) == (
        1,
        ("ca=0: experiment 3: failed",),
        [1, 2, 3],
    )


def test_a_repetition_takes_as_many_numbers_as_it_needs(ground, store):
    ground.codes[1] = 1
    ground.numbers_again = 7
    ground.run(2, on_failure=OnFailure(retries=1))
    assert store.counter() == 9


def test_a_world_that_is_not_ready_ends_the_run_and_keeps_what_there_is(ground):
    ground.codes[1] = 3
    end = ground.run(3, jobs=1)
    assert (end.status, end.failures, ground.rows) == (
        3,
        ("ca=0: no kernel\nBuild one.",),
        ["1.0", "1.1"],
    )


def test_a_part_that_is_killed_is_reported_with_its_signal(ground):
    ground.codes[1] = -signal.SIGKILL
    end = ground.run(2, jobs=1)
    assert (end.status, end.failures) == (1, ("ca=0: it was ended by SIGKILL",))


def test_a_part_that_is_killed_is_run_again_if_that_is_asked(ground):
    ground.codes[1] = -signal.SIGKILL
    end = ground.run(1, on_failure=OnFailure(retries=1))
    said = "warning: ca=0: it was ended by SIGKILL; it was run again"
    assert (end.status, said in ground.said.getvalue()) == (0, True)


def test_an_interrupted_run_keeps_what_parts_had(ground, store):
    ground.awaited |= dict.fromkeys((2, 3), store.folder / "never")
    threading.Thread(target=interrupt_after, args=(store.folder / "1",)).start()
    end = ground.run(3)
    assert (end.status, end.failures, ground.rows) == (130, (), ["1.0", "1.1"])


@pytest.fixture
def in_background() -> Iterator[None]:
    """As a shell starts a command with `&`: Ctrl-C is for others."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("in_background")
def test_parts_of_a_run_in_the_background_end_with_it(ground, store):
    ground.awaited[2] = store.folder / "never"
    asking = (store.folder / "1", signal.SIGTERM)
    threading.Thread(target=interrupt_after, args=asking).start()
    end = ground.run(2)
    assert (end.status, ground.rows) == (130, ["1.0", "1.1"])


def interrupt_after(path: Path, number: int = signal.SIGINT) -> None:
    """Ask to end, by Ctrl-C, once `path` is there."""
    process.wait_until(path.exists, timeout=60)
    os.kill(os.getpid(), number)


# ---- what killed runs leave -----------------------------------------------------------------


def leave(store: Store, part: str, number: int) -> Path:
    """What a part had measured when its run was killed."""
    folder = partfolders.of_run(store.folder, RUN) / part
    (folder / str(number)).mkdir(parents=True)
    (folder / "exp.csv").write_text(f"exp,status\n{number}.0,ok\n")
    return folder


def test_a_later_run_takes_over_what_a_killed_one_had(store):
    for part, number in (("10", 11), ("2", 3), ("2-2", 12), ("rest", 1)):
        leave(store, part, number)
    said = list(partfolders.take_over_left(store))
    rows = [row["exp"] for row in csvfile.read(store.folder / "exp.csv")]
    assert (said, rows) == (
        ["took over the measurements of a killed run: experiments 1, 3, 12, 11"],
        ["1.0", "3.0", "11.0", "12.0"],
    )


CELL = '{"cell": {"ca": "reno"}, "experiments": [1], "hash": "ab", "script": "s"}\n'


@pytest.mark.parametrize(
    ("table", "cells"),
    [("", ""), ("exp,status\n1.0,ok\n", ""), ("exp,status\n1.0,ok\n", CELL)],
    ids=["before its rows", "before its cell", "before its folder was removed"],
)
def test_taking_over_that_was_cut_off_is_completed(store, table, cells):
    part = leave(store, "0", 1)
    (part / "cells.jsonl").write_text(CELL)
    (part / "1").rename(store.folder / "1")
    for name, text in (("exp.csv", table), ("cells.jsonl", cells)):
        if text:
            (store.folder / name).write_text(text)
    list(partfolders.take_over_left(store))
    texts = [(store.folder / name).read_text() for name in ("exp.csv", "cells.jsonl")]
    assert (texts, part.exists()) == (["exp,status\n1.0,ok\n", CELL], False)


def test_parts_that_still_write_are_left_alone(store):
    part = leave(store, "0", 1)
    with partfolders.held(part.parent):
        [said] = partfolders.take_over_left(store)
    assert (said.endswith("a later run takes them over"), part.is_dir()) == (True, True)


# ---- small things ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("continue", OnFailure()),
        ("stop", OnFailure(stops=True)),
        ("retry=3", OnFailure(retries=3)),
    ],
)
def test_on_failure_is_one_of_three(text, meaning):
    assert (OnFailure.parse(text), str(meaning)) == (meaning, text)


def test_on_failure_that_is_none_of_them_is_refused():
    with pytest.raises(UsageError, match="--on-failure retry"):
        OnFailure.parse("retry")


def test_numbers_in_use_are_not_reserved(store):
    store.begin(2)
    with pytest.raises(ResultsError, match="experiment 2 exists already"):
        store.reserve(0, 3)
