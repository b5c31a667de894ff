"""A user without any right runs a script of ours, and the network is what was asked for."""

import csv
import json
import os
import shutil
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from needs import kernel_or_reason

import netesto as package
from netesto import process

# Longer than any honest run on a busy machine; nothing waits it out.
PATIENCE_S = 400

pytestmark = pytest.mark.timeout(2 * PATIENCE_S)

TWO_FLOWS = Path(__file__).parents[2] / "scripts" / "two-flows.nts"

# The script's own lab, and a delay that only netem can make.
LAB = "dumbbell,clients=2,servers=1,rate=100mbit,rtt=40"

# How far off rates and delays may be: timers of a user-mode kernel are late, those of simulated
# time never.
TOLERANCE = {"uml": 0.10, "sim": 0.02}


@dataclass(frozen=True, slots=True)
class Run:
    """A run of the script by user nobody."""

    ground: str
    finished: process.Finished
    out: Path

    @property
    def statuses(self) -> list[str]:
        with (self.out / "exp.csv").open(newline="") as file:
            return [row["status"] for row in csv.DictReader(file)]

    @property
    def path(self) -> dict[str, Any]:
        """The path of the first flow, as it was measured before traffic."""
        return json.loads((self.out / "1" / "manifest.json").read_text())["paths"][0]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("uml", marks=pytest.mark.uml),
        pytest.param("sim", marks=pytest.mark.sim),
    ],
)
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    if os.geteuid() != 0:
        pytest.skip("an ordinary user already: every test of uml and sim here says the same")
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
        shutil.chown(home, "nobody")
        words = ("run", "--plain", "--ground", kernel.kind, "--seed", "1", "--out", "out")
        done = as_nobody(home, *words, "--lab", LAB, "-D", "dur=6", str(TWO_FLOWS))
        yield Run(kernel.kind, done, home / "out")
    finally:
        shutil.rmtree(home)


def as_nobody(home: Path, *words: str) -> process.Finished:
    """Run netesto as an ordinary user without any right, with the distribution's Python and this
    checkout's packages: root's own Python may be closed to others."""
    user = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "/usr/bin/python3")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": f"{Path(package.__file__).parent.parent}:{sysconfig.get_path('platlib')}",
    }

    def run(*argv: str) -> process.Finished:
        return process.run(
            [*user, *argv], env=environment, cwd=home, timeout=PATIENCE_S, check=False
        )

    tried = run("-c", "import netesto.cli.run")
    if tried.status != 0:
        pytest.skip(f"user nobody cannot run this checkout: {tried.last_lines(1)}")
    return run("-m", "netesto", *words)


def test_an_ordinary_user_s_run_ends_well(run: Run):
    assert run.finished.status == 0, run.finished.stderr
    assert run.statuses == ["ok", "ok", "ok"]


def test_an_ordinary_user_has_pages_of_his_own(run: Run):
    pages = [run.out / "exp.html", run.out / "1" / "exp.html"]
    assert [page.owner() for page in pages] == ["nobody", "nobody"]


def test_the_delay_is_what_was_asked_for(run: Run):
    measured = run.path["measured_rtt_ms"]
    assert measured == pytest.approx(40, rel=TOLERANCE[run.ground])


def test_the_rate_is_what_was_asked_for(run: Run):
    # On a busy machine a guest in real time may not be able to say.
    unknown = [None] if run.ground == "uml" else []
    measured = run.path["measured_rate_bps"]
    assert measured in [pytest.approx(100e6, rel=TOLERANCE[run.ground]), *unknown]
