"""An unprivileged user runs one of our scripts on a kernel of its own, `--ground uml` and `--ground
sim`, and the network is what the script requests."""

import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from needs import kernel_or_reason
from whole_runs import Outcome

import netesto as package
from netesto.system import process

# Longer than any working run takes, even on a busy machine.
PATIENCE_S = 400

pytestmark = pytest.mark.timeout(2 * PATIENCE_S)

TWO_FLOWS = Path(__file__).parents[2] / "scripts" / "two-flows.nts"

# The script's own lab, slower, and with a delay that only netem can make. A guest in real time that
# shares the machine with others has not the processor time for more.
MBPS = {"uml": 5, "sim": 20}
LAB = "dumbbell,clients=2,servers=1,rate={}mbit,rtt=40"

# How far off rates and delays may be: timers of a user-mode kernel are late, those of simulated
# time never.
TOLERANCE = {"uml": 0.10, "sim": 0.02}


@dataclass(frozen=True, slots=True)
class Run:
    """A run of the script. `privileged`: why root ran it, if it was root."""

    ground: str
    privileged: str
    outcome: Outcome

    @property
    def path(self) -> dict[str, Any]:
        """The path of the first flow, as it was measured before traffic."""
        return self.outcome.manifest(1)["paths"][0]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("uml", marks=pytest.mark.uml),
        pytest.param("sim", marks=pytest.mark.sim),
    ],
)
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    kernel = kernel_or_reason("sim" if request.param == "sim" else "uml")
    # pytest's own folders are closed to others.
    home = Path(tempfile.mkdtemp(prefix="netesto-test-"))
    try:
        if kernel.kind == "sim":
            # As if nobody had built it: root's own cache is closed, too.
            shutil.copytree(
                kernel.path.parent,
                home / ".cache" / "netesto" / "kernels" / kernel.path.parent.name,
            )
        argv, privileged = starter(home)
        words = ["run", "--plain", "--ground", kernel.kind, "--seed", "1", "--out", "out"]
        # A busy machine misses the rate in real time: a test says by how much it may.
        words += [] if kernel.kind == "sim" else ["--no-pages", "--force"]
        script = ("--lab", LAB.format(MBPS[kernel.kind]), "-D", "dur=1.5", str(TWO_FLOWS))
        done = at_home(home, [*argv, "-m", "netesto", *words, *script])
        outcome = Outcome(done.status, done.stdout, done.stderr, home / "out")
        yield Run(kernel.kind, privileged, outcome)
    finally:
        shutil.rmtree(home)


def starter(home: Path) -> tuple[Sequence[str], str]:
    """A Python, run by an unprivileged user; the reason if only root can run it."""
    if os.geteuid() != 0:
        return [sys.executable], ""
    shutil.chown(home, "nobody")
    # The distribution's Python: root's own may be closed to others. (Another version cannot use the
    # packages of this one.)
    python = "/usr/bin/python{}.{}".format(*sys.version_info)
    user = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", python)
    tried = at_home(home, [*user, "-c", "import netesto.cli.run"])
    if tried.status != 0:
        return [sys.executable], f"user nobody cannot run this checkout: {tried.last_lines(1)}"
    return user, ""


def at_home(home: Path, argv: Sequence[str]) -> process.CompletedCommand:
    """Run a command with the packages of this checkout in `home`."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": f"{Path(package.__file__).parent.parent}:{sysconfig.get_path('platlib')}",
    }
    return process.run(argv, env=environment, cwd=home, timeout=PATIENCE_S, check=False)


def test_an_ordinary_user_needs_no_privilege(run: Run):
    if run.privileged:
        pytest.skip(run.privileged)
    written = [run.outcome.out / "exp.csv", run.outcome.out / "1" / "manifest.json"]
    if run.ground == "sim":
        written += [run.outcome.out / "exp.html", run.outcome.out / "1" / "exp.html"]
    owner = "nobody" if os.geteuid() == 0 else run.outcome.out.owner()
    assert (run.outcome.status, {path.owner() for path in written}) == (0, {owner})


def test_the_run_ends_well(run: Run):
    assert run.outcome.status == 0, run.outcome.stderr
    assert [row["status"] for row in run.outcome.rows] == ["ok", "ok", "ok"]


def test_the_manifest_names_the_ground(run: Run):
    assert run.outcome.manifest(1)["ground"] == run.ground


def test_the_delay_is_what_was_requested(run: Run):
    measured = run.path["measured_rtt_ms"]
    if run.ground == "uml":
        # On a busy machine the timers of a guest in real time are late, never early.
        assert 40 * (1 - TOLERANCE["uml"]) <= measured < 2 * 40
    else:
        assert measured == pytest.approx(40, rel=TOLERANCE[run.ground])


def test_the_rate_is_what_was_requested(run: Run):
    measured, requested = run.path["measured_rate_bps"], MBPS[run.ground] * 1e6
    if run.ground == "uml":
        # On a busy machine a guest in real time may reach less, or may not be able to measure it.
        assert measured is None or 0.5 < measured / requested < 1 + TOLERANCE["uml"]
    else:
        assert measured == pytest.approx(requested, rel=TOLERANCE[run.ground])


@pytest.mark.parametrize("run", [pytest.param("sim", marks=pytest.mark.sim)], indirect=True)
def test_an_experiment_in_simulated_time_begins_between_two_ticks(run: Run):
    began_s = run.outcome.manifest(1)["started_monotonic_s"]
    assert began_s % 0.1 == pytest.approx(0.0055, abs=1e-6)
