"""The execution of a plan, by hosts that complete everything at once and record their requests."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from watched import Watched

from netesto.controller.controller import Processed
from netesto.errors import StoppedError
from netesto.grounds import GROUNDS
from netesto.language import steps
from netesto.language.plan import Plan, SourceFile
from netesto.results import fields
from netesto.results.runs import RunRecord
from netesto.results.store import Store
from netesto.run.executor import Executor
from netesto.run.request import CONTINUE, OnFailure, RunRequest
from netesto.run.rounds import Rounds
from netesto.run.session import RunSession
from netesto.run.settings import RunSettings

FIELDS = fields.parse("exp:one\nrate:sum\nca:all\n", source="fields.txt")
SETTINGS = RunSettings(libraries=(), definitions={}, max_iterations=1000, seed=1)
RUN = RunRecord(
    name="2026-11-20T121500.250Z",
    argv=(),
    script_path="a.nts",
    script="",
    seed=7,
    started="",
)
ONE = "DO_CLIENT host=a server=b exp=COUNTER ca=$ca\nPROCESS_EXP\n"
SWEEP = f"SWEEP ca=reno,cubic DO\n{ONE}DONE\n"


class Hosts:
    """Records its requests. Experiments of `failing` fail; the rate of others is 9, unless `rates`
    has another one."""

    def __init__(self, *, failing: Sequence[int] = ()) -> None:
        self.rates: dict[int, str] = {}
        self.asked: list[str] = []
        self.failing = failing
        self.open_experiments: list[int] = []
        # Ctrl-C comes while the script waits.
        self.interrupted = False

    def remote(self, command: steps.RemoteCommand) -> None:
        self.asked.append(f"{command.name} {command.exp}")
        if isinstance(command, steps.DoClient):
            self.open_experiments.append(command.exp)

    def wait(self, seconds: float) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        self.asked.append(f"wait {seconds:.3g}")

    def wait_flows(self, exp: int, timeout_s: float | None) -> None:
        self.asked.append(f"flows {exp} {timeout_s}")

    def start_flows(self, lead_s: float) -> None:
        self.asked.append(f"start {lead_s}")

    def process_experiment(self, exp: int, notes: steps.ExperimentNotes) -> Processed:
        self.asked.append(f"process {exp} {notes.exp_name}")
        self.open_experiments.remove(exp)
        status = "failed" if exp in self.failing else "ok"
        return Processed(exp, status, {"exp": f"{exp}.0", "rate": self.rates.get(exp, "9")})

    def interrupt(
        self, reason: str, notes: Mapping[int, steps.ExperimentNotes], *, in_haste: bool
    ) -> Iterator[Processed]:
        del in_haste
        for exp in self.open_experiments:
            name = notes[exp].exp_name
            self.asked.append(f"{reason}: {exp} {name}")
            yield Processed(exp, "partial", {})


@dataclass
class World:
    """A results folder, and what happened in it."""

    results: Store
    hosts: Hosts = field(default_factory=Hosts)
    watched: Watched = field(default_factory=Watched)
    ground: str = "lab"

    def plan(self, text: str) -> Plan:
        script = SourceFile("a.nts", text)
        return SETTINGS.plan(script, FIELDS, counter=self.results.counter())

    def executor(
        self,
        text: str,
        *,
        on_failure: OnFailure = CONTINUE,
        passed: Mapping[int, Sequence[int]] | None = None,
    ) -> Executor:
        session = RunSession(
            request=RunRequest(script="a.nts", settings=SETTINGS, on_failure=on_failure),
            plan=self.plan(text),
            record=RUN,
            fields=FIELDS,
            ground=GROUNDS[self.ground],
            out=self.results.folder,
            watcher=self.watched,
        )
        rounds = Rounds(session.plan, is_simulated=False)
        return Executor(session, self.hosts, self.results, passed=passed or {}, rounds=rounds)

    def run(
        self,
        text: str,
        *,
        on_failure: OnFailure = CONTINUE,
        passed: Mapping[int, Sequence[int]] | None = None,
    ) -> list[str]:
        """What failed."""
        executor = self.executor(text, on_failure=on_failure, passed=passed)
        executor.run()
        return executor.failures


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Store(tmp_path / "out") as opened:
        yield World(opened)


def test_steps_are_carried_out_in_their_order(world):
    failures = world.run("WAIT 2\nSET ca=reno\n" + ONE.replace("\n", "\nWAIT_FLOWS\n", 1))
    assert (failures, world.hosts.asked) == (
        [],
        ["wait 2", "DO_CLIENT 1", "flows 1 None", "process 1 Exp"],
    )


def test_what_the_script_prints_is_printed(world):
    world.run("ECHO one\nECHO two\n")
    assert world.watched.echoed == ["one", "two"]


def test_an_experiment_that_failed_is_a_failure(world):
    world.hosts.failing = [2]
    assert world.run(SWEEP) == ["experiment 2: failed"]


# ---- numbers -------------------------------------------------------------------------------------


def test_numbers_are_taken_when_experiments_begin(world):
    text = SWEEP.replace("PROCESS_EXP\n", "PROCESS_EXP\nASSERT rate > 10\n")
    with pytest.raises(StoppedError):
        world.run(text, on_failure=OnFailure(stops=True))
    assert world.results.counter() == 1


def test_a_number_that_the_script_gives_takes_none(world):
    world.run("SET ca=reno\n" + ONE.replace("COUNTER", "40"))
    assert world.results.counter() == 0


def test_end_begins_a_new_ten(world):
    world.run(f"SET ca=reno\n{ONE}END\n")
    assert world.results.counter() == 9


# ---- claims --------------------------------------------------------------------------------------


def test_a_false_claim_is_a_failure_with_its_place_and_what_was_seen(world):
    failures = world.run(f"SET ca=reno\n{ONE}ASSERT rate > 10: slow\n")
    text = "experiment 1: slow: rate > 10, but rate is 9 Mbit/s"
    assert (failures, world.watched.said) == (
        [f"a.nts:4: {text}"],
        [f"warning: a.nts:4: assertion failed: {text}"],
    )


def test_a_claim_that_is_true_says_nothing(world):
    assert (world.run(f"SET ca=reno\n{ONE}ASSERT rate > 8\n"), world.watched.said) == ([], [])


# ---- parts ---------------------------------------------------------------------------------------


def noted(world: World) -> list[str]:
    """The finished cells, each with its experiments."""
    path = world.results.folder / "cells.jsonl"
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    return [f"{entry['cell']['ca']} {entry['experiments']}" for entry in entries]


def test_cells_that_went_well_are_noted_with_their_experiments(world):
    world.hosts.failing = [1]
    world.run(SWEEP)
    assert noted(world) == ["cubic [2]"]


def test_a_cell_that_is_passed_over_asks_nothing(world):
    world.run(SWEEP, passed={0: (7,)})
    assert world.hosts.asked == ["DO_CLIENT 2", "process 2 Exp"]


SETTINGS_SWEPT = """\
SWEEP bw=1,2 DO
    SET_SYSCTL host=a net.ipv4.tcp_ecn=$bw
    SET_SYSCTL host=b net.ipv4.tcp_ecn=1
    DO_CLIENT host=a server=b exp=COUNTER
    PROCESS_EXP
DONE
"""


def test_what_cells_that_are_passed_over_left_on_hosts_is_set_before_what_follows(world):
    after = f"{SETTINGS_SWEPT}DO_CLIENT host=a server=b exp=COUNTER\nPROCESS_EXP\n"
    world.run(after, passed={0: (7,), 1: (8,)})
    assert [each.split()[0] for each in world.hosts.asked] == [
        "SET_SYSCTL", "SET_SYSCTL", "DO_CLIENT", "process",
    ]  # fmt: skip


@pytest.mark.parametrize("ground", ["hosts", "lab"])
def test_commands_of_cells_that_are_passed_over_run_before_what_follows(world, ground):
    """
    SWEEP bw=1,2 DO
        DO_COMMAND host=a name=rings rx=$bw
        …
    """
    world.ground = ground
    swept = SETTINGS_SWEPT.replace("SET_SYSCTL host=b net.ipv4.tcp_ecn=1", "").replace(
        "SET_SYSCTL host=a net.ipv4.tcp_ecn=$bw", "DO_COMMAND host=a name=rings rx=$bw"
    )
    after = f"{swept}DO_CLIENT host=a server=b exp=COUNTER\nPROCESS_EXP\n"
    world.run(after, passed={0: (7,), 1: (8,)})
    assert [each.split()[0] for each in world.hosts.asked] == [
        "DO_COMMAND", "DO_COMMAND", "DO_CLIENT", "process",
    ]  # fmt: skip


KEPT_SWEPT = """\
SWEEP n=1,2 DO
    IF $n == 1: SET_SYSCTL host=a net.ipv4.tcp_ecn=1 keep=1
    DO_CLIENT host=a server=b exp=COUNTER
    PROCESS_EXP
DONE
"""


@pytest.mark.parametrize(
    ("ground", "first"), [("lab", "SET_SYSCTL"), ("sim", "SET_SYSCTL"), ("hosts", "DO_CLIENT")]
)
def test_what_a_cell_that_is_passed_over_kept_is_still_there_only_on_real_hosts(
    world, ground, first
):
    world.ground = ground
    world.run(KEPT_SWEPT, passed={0: (7,)})
    assert world.hosts.asked[0].split()[0] == first


def test_what_the_next_command_sets_anew_is_not_set_again(world):
    world.run(SETTINGS_SWEPT, passed={0: (7,)})
    assert [each.split()[0] for each in world.hosts.asked] == [
        "SET_SYSCTL", "SET_SYSCTL", "SET_SYSCTL", "DO_CLIENT", "process",
    ]  # fmt: skip


def test_a_cell_belongs_to_the_one_around_it_though_it_is_passed_over(world):
    world.run(f"SWEEP outer=1 DO\n{SWEEP}DONE\n", passed={1: (7,)})
    path = world.results.folder / "cells.jsonl"
    assert '"experiments": [7, 2]' in path.read_text().splitlines()[-1]


def test_a_claim_about_a_cell_that_is_passed_over_is_not_judged_again(world):
    one = SWEEP.replace("reno,cubic", "reno")
    assert world.run(f"{one}ASSERT rate > 10\n", passed={0: (7,)}) == []


def test_a_part_that_failed_is_run_again_under_numbers_behind_all_others(world):
    world.hosts.failing = [1]
    failures = world.run(SWEEP, on_failure=OnFailure(retries=1))
    assert (failures, world.hosts.asked[::2], world.results.counter()) == (
        [],
        ["DO_CLIENT 1", "DO_CLIENT 3", "DO_CLIENT 2"],
        3,
    )
    assert world.watched.said == ["warning: ca=reno rep=1: experiment 1: failed; running it again"]


def test_a_repetition_that_skips_more_numbers_takes_them_all(world):
    world.hosts.failing = [2, 11]
    text = f"SET ca=nv\n{ONE}SWEEP ca=reno,cubic DO\n{ONE}NEXT_COUNTER\n{ONE}DONE\n"
    failures = world.run(text, on_failure=OnFailure(retries=1))
    flows = [asked for asked in world.hosts.asked if asked.startswith("DO_CLIENT")]
    assert (failures, flows, world.results.counter()) == (
        [],
        [f"DO_CLIENT {exp}" for exp in (1, 2, 10, 21, 30, 11, 20, 31, 40)],
        40,
    )


@pytest.mark.parametrize(
    ("first", "late"),
    [
        ("SET_SYSCTL host=a net.ipv4.tcp_ecn=1", ["SET_NETEM host=a"]),
        ("SET_QDISC host=a qdisc=fq", []),
        ("SET_NETEM host=b netem_delay=1", ["SET_NETEM host=a"]),
    ],
)
def test_a_repetition_is_warned_of_settings_that_its_first_flows_did_not_have(world, first, late):
    world.hosts.failing = [1]
    text = f"{first}\nSWEEP ca=reno DO\n{ONE}SET_NETEM host=a netem_delay=5\nDONE\n"
    world.run(text, on_failure=OnFailure(retries=1))
    said = "warning: ca=reno rep=1: hosts still have what it set only after its first flows: "
    assert [each.removeprefix(said) for each in world.watched.said[1:]] == late


def test_a_part_that_was_run_again_draws_other_waits_and_is_the_same_cell(world):
    world.hosts.failing = [1]
    text = f"SWEEP ca=reno DO\nRAND_WAIT 9\n{ONE}DONE\n"
    world.run(text, on_failure=OnFailure(retries=1))
    waits = {asked for asked in world.hosts.asked if asked.startswith("wait")}
    part = world.executor(text)._plan.part(0)
    found = world.results.finished_cell(part.hash)
    assert (len(waits), found is not None) == (2, True)


def test_retries_have_an_end(world):
    world.hosts.failing = [1, 2, 3, 4]
    one = SWEEP.replace("reno,cubic", "reno")
    failures = world.run(one, on_failure=OnFailure(retries=2))
    assert failures == ["experiment 3: failed"]


def test_on_failure_stop_ends_at_the_first(world):
    world.hosts.failing = [1]
    with pytest.raises(StoppedError, match="the run ends here: experiment 1: failed"):
        world.run(SWEEP, on_failure=OnFailure(stops=True))
    assert world.hosts.asked == ["DO_CLIENT 1", "process 1 Exp"]


def test_an_experiment_that_is_interrupted_is_called_as_it_would_have_been(world):
    text = "DO_CLIENT host=a server=b exp=COUNTER expName=mine ca=reno\nWAIT 1\nPROCESS_EXP\n"
    world.hosts.interrupted = True
    executor = world.executor(text)
    with pytest.raises(KeyboardInterrupt):
        executor.run()
    executor.interrupt("interrupted")
    assert (world.hosts.asked[-1], executor.failures) == (
        "interrupted: 1 mine",
        ["experiment 1: partial"],
    )


# ---- until something is certain ------------------------------------------------------------------

UNTIL = f"SWEEP ca=reno,cubic reps=3..5 until=rate:2% DO\n{ONE}DONE\n"


def processed(world: World) -> list[int]:
    return [int(each.split()[1]) for each in world.hosts.asked if each.startswith("process")]


def test_cells_that_are_certain_are_not_repeated(world):
    # Of cubic, which has the even numbers; reno has 9 each time.
    world.hosts.rates = {2: "5", 4: "9", 6: "13"}
    world.run(UNTIL)
    assert processed(world) == [1, 2, 3, 4, 5, 6, 8, 10]


def test_the_numbers_of_repetitions_that_are_not_needed_are_not_used_again(world):
    world.run(UNTIL)
    assert (processed(world), world.results.counter()) == ([1, 2, 3, 4, 5, 6], 10)


def test_a_failed_repetition_is_followed_by_another_one(world):
    world.hosts.failing = [3]
    world.run(UNTIL)
    assert processed(world) == [1, 2, 3, 4, 5, 6, 7]


def test_of_a_repetition_that_is_run_again_the_last_attempt_counts(world):
    world.hosts.failing = [3]
    world.run(UNTIL, on_failure=OnFailure(retries=1))
    assert processed(world) == [1, 2, 3, 11, 4, 5, 6]


def test_what_the_body_asserts_is_asserted_of_each_repetition_that_runs(world):
    failures = world.run(UNTIL.replace("DONE", "ASSERT rate > 10\nDONE"))
    assert len(failures) == 6


def test_settings_of_repetitions_that_are_not_needed_are_made_before_the_next_command(world):
    setting = "SET_NETEM host=a netem_delay=$rep\n"
    world.run(UNTIL.replace("DO\n", f"DO\n{setting}") + "SET ca=reno\n" + ONE)
    assert world.hosts.asked[-3:] == ["SET_NETEM 9", "DO_CLIENT 11", "process 11 Exp"]
