"""Simulated time repeats: one script, one seed, one result, whatever else the machine does."""

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from needs import kernel_or_reason
from whole_runs import netesto

from netesto import process

pytestmark = [pytest.mark.sim, pytest.mark.timeout(1600)]

# Longer than any honest run on a busy machine; nothing waits it out.
PATIENCE_S = 500

# Chance is in the delay and the loss of every packet, and in when each flow begins.
SCRIPT = """\
LAB dumbbell clients=2 servers=1 rate=10mbit delay=10 jitter=1 loss=0.2
SOURCE inlib
RUN TwoFlowBaseStream server=server1 client1=client1 client2=client2 expName=two \\
    ca1=cubic ca2=bbr dur1=2 dur2=1 delay2=0.5 randDelay=0.5
"""

# Computes for 10 ms, ten times a second. It ends by itself should nobody end it.
SPIN = f"""
import time
for _ in range({PATIENCE_S} * 10):
    time.sleep(0.09)
    end = time.monotonic() + 0.01
    while time.monotonic() < end:
        pass
"""


@contextlib.contextmanager
def busy_processors(folder: Path) -> Iterator[None]:
    """Every processor is taken away for a moment again and again."""
    with contextlib.ExitStack() as stack:
        for _ in range(os.cpu_count() or 1):
            argv = [sys.executable, "-c", SPIN]
            stack.enter_context(process.background(argv, stdout=folder / "spinner"))
        yield


def results_of(folder: Path, out: str, seed: int) -> bytes:
    """exp.csv of a run in `folder` with its results in `out`, and the ports of its flows."""
    (folder / "script.nts").write_text(SCRIPT)
    words = ("run", "--plain", "--ground", "sim", "--seed", str(seed), "--out", out, "script.nts")
    done = netesto(folder, *words, "--no-pages", timeout=PATIENCE_S)
    assert done.status == 0, done.stderr
    said = [path.read_bytes() for path in sorted((folder / out).glob("1/raw/*/flow.*.out"))]
    ports = re.findall(rb"_PORT=\d+", b"".join(said))
    assert ports
    return b"\n".join([(folder / out / "exp.csv").read_bytes(), *ports])


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The results of a run as it is, with nothing of ours beside."""
    kernel_or_reason("sim")
    return results_of(tmp_path_factory.mktemp("quiet"), "out", 1)


def test_a_slower_run_on_busy_processors_under_other_names_gives_the_same_bytes(
    quiet: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("A_VARIABLE_OF_SOMEBODY", "with a value of some length")
    # Every module is compiled again, in the guest, which then has more files.
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "")
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path / "nothing is compiled here"))
    # As of another version of Python: other random numbers were used before, and more calls failed.
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import os\nos.urandom(1000)\n")
    nowhere = [str(tmp_path / f"nowhere{number}") for number in range(20)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), *nowhere]))
    folder = tmp_path / "a folder of another name"
    folder.mkdir()
    (folder / "notes.txt").write_text("not for the guest")
    with busy_processors(tmp_path):
        assert results_of(folder, "results-of-another-name", 1) == quiet


def test_another_seed_gives_other_numbers(quiet: bytes, tmp_path: Path):
    assert results_of(tmp_path, "out", 2) != quiet
