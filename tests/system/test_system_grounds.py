"""The same command line on kernels of its own: `--ground uml` and `--ground sim`."""

from pathlib import Path

import pytest
from needs import kernel_or_reason
from whole_runs import Outcome, netesto

from netesto.lab.kernels import Kind

SCRIPT = """\
LAB pair rate=50mbit delay=10
SOURCE inlib
RUN OneFlowStream server=b client=a expName=ground ca=cubic dur=2
"""

# A guest starts, builds its lab, measures, and makes a page; a slow machine has several at once.
TIMEOUT_S = 180

# How far off delays may be: timers of a user-mode kernel are late, those of simulated time never.
TOLERANCE = {"uml": 0.10, "sim": 0.02}

SEED = ("--seed", "7")


def run_on(ground: Kind, folder: Path, *options: str) -> Outcome:
    kernel_or_reason(ground)
    (folder / "script.nts").write_text(SCRIPT)
    words = ("run", "--plain", "--ground", ground, "--out", "out", *options, "script.nts")
    done = netesto(folder, *words, timeout=TIMEOUT_S)
    return Outcome(done.status, done.stdout, done.stderr, folder / "out")


@pytest.fixture(scope="module")
def uml(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return run_on("uml", tmp_path_factory.mktemp("uml"))


@pytest.fixture(scope="module")
def sim(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return run_on("sim", tmp_path_factory.mktemp("sim"), *SEED)


@pytest.fixture(scope="module")
def sim_again(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return run_on("sim", tmp_path_factory.mktemp("again"), *SEED)


@pytest.fixture(
    params=[
        pytest.param("uml", marks=pytest.mark.uml),
        pytest.param("sim", marks=pytest.mark.sim),
    ]
)
def ground(request: pytest.FixtureRequest) -> tuple[str, Outcome]:
    """Each test that takes it looks at the run of both grounds."""
    return request.param, request.getfixturevalue(request.param)


def test_the_run_ends_well(ground: tuple[str, Outcome]):
    _, outcome = ground
    assert (outcome.status, [row["status"] for row in outcome.rows]) == (0, ["ok", "ok"])


def test_the_manifest_tells_the_ground(ground: tuple[str, Outcome]):
    kind, outcome = ground
    assert outcome.manifest(1)["ground"] == kind


def test_the_path_has_the_delay_that_was_asked_for(ground: tuple[str, Outcome]):
    kind, outcome = ground
    [path] = outcome.manifest(1)["paths"]
    assert path["measured_rtt_ms"] == pytest.approx(20, rel=TOLERANCE[kind])


@pytest.mark.sim
def test_the_path_has_the_rate_that_was_asked_for(sim: Outcome):
    [path] = sim.manifest(1)["paths"]
    assert path["measured_rate_bps"] == pytest.approx(50e6, rel=TOLERANCE["sim"])


@pytest.mark.sim
def test_the_same_seed_gives_the_same_numbers(sim: Outcome, sim_again: Outcome):
    first, again = (run.out / "exp.csv" for run in (sim, sim_again))
    assert first.read_bytes() == again.read_bytes()


@pytest.mark.sim
def test_an_experiment_begins_between_two_ticks(sim: Outcome):
    began_s = sim.manifest(1)["started_monotonic_s"]
    assert began_s % 0.1 == pytest.approx(0.005, abs=1e-6)
