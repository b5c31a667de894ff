"""The same command line on kernels of its own: `--ground uml` and `--ground sim`."""

import csv
import os
import shutil
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from whole_runs import Outcome, netesto

import netesto as package
from netesto import process
from netesto.lab import kernels
from netesto.lab.kernels import Kernel, Kind

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


def kernel_or_reason(ground: Kind) -> Kernel:
    kernel = kernels.find(ground)
    if kernel is not None:
        return kernel
    reason = str(kernels.missing(ground)).replace("\n", ": ")
    if ground in os.environ.get("NETESTO_REQUIRE", "").split(","):
        pytest.fail(f"NETESTO_REQUIRE={ground}, but {reason}")
    pytest.skip(reason)


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
    assert (sim.out / "exp.csv").read_text() == (sim_again.out / "exp.csv").read_text()


# ---- as an ordinary user -------------------------------------------------------------------------


@pytest.fixture
def folder_of_nobody() -> Iterator[Path]:
    """pytest's own folders are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="netesto-test-"))
    shutil.chown(folder, "nobody")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def as_nobody(folder_of_nobody: Path) -> Callable[..., process.Finished]:
    """Run netesto as an ordinary user without any right, with the distribution's Python and this
    checkout's packages: root's own Python may be closed to others."""
    if os.geteuid() != 0:
        pytest.skip("an ordinary user already: every test of uml here says the same")
    kernel_or_reason("uml")
    user = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "/usr/bin/python3")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder_of_nobody),
        "PYTHONPATH": f"{Path(package.__file__).parent.parent}:{sysconfig.get_path('platlib')}",
    }
    tried = process.run(
        [*user, "-c", "import netesto.cli.run"],
        env=environment,
        cwd=folder_of_nobody,
        timeout=TIMEOUT_S,
        check=False,
    )
    if tried.status != 0:
        pytest.skip(f"user nobody cannot run this checkout: {tried.last_lines(1)}")

    def run(*words: str) -> process.Finished:
        return process.run(
            [*user, "-m", "netesto", *words],
            env=environment,
            cwd=folder_of_nobody,
            timeout=TIMEOUT_S,
            check=False,
        )

    return run


@pytest.mark.uml
def test_an_ordinary_user_has_a_lab_too(
    as_nobody: Callable[..., process.Finished], folder_of_nobody: Path
):
    (folder_of_nobody / "script.nts").write_text(SCRIPT)
    words = ("run", "--plain", "--ground", "uml", "--out", "out", "script.nts")
    done = as_nobody(*words)
    table = folder_of_nobody / "out" / "exp.csv"
    with table.open(newline="") as file:
        statuses = [row["status"] for row in csv.DictReader(file)]
    assert (done.status, statuses, table.owner()) == (0, ["ok", "ok"], "nobody")
