"""The scripts after published matrices (docs/seeds.md), short: they repeat byte for byte in
simulated time, and show the expected shapes."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from needs import kernel_or_reason
from whole_runs import netesto

from netesto.files import paths
from netesto.results import cases
from netesto.results.affected import Parted
from netesto.results.completions import Times

pytestmark = [pytest.mark.sim, pytest.mark.timeout(1600)]

# Longer than any working run takes, even on a busy machine.
PATIENCE_S = 800

SCRIPTS = paths.data_folder() / "scripts"

# At a 500th of everything: 4 streams over 50 ms, and a buffer of 13 % of the path's content. With
# zerocopy=msg netesto-flow sends: iperf3 looks at the clock for a round trip at its end, which in
# simulated time costs more than all else of a run so short.
SHORT_DTN = {
    "rate": "20mbit", "share": "18", "buffer": "16K", "cross": "2K", "dur": "3", "rtts": "50",
    "streams": "4", "copies": "msg",
}  # fmt: skip
PACED_MBPS = 4 * 4.0

SHORT_VETH = {"mtus": "1500", "copies": "sendfile", "streams": "2", "dur": "1"}


@dataclass(frozen=True, slots=True)
class Run:
    """The results of a run; the folder has the same name for each."""

    out: Path

    @property
    def lines(self) -> list[bytes]:
        return (self.out / "exp.csv").read_bytes().splitlines()

    @property
    def rows(self) -> list[dict[str, str]]:
        with (self.out / "exp.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    def figure(self, name: str) -> bytes:
        """The page that a report script makes of the results."""
        script = str(SCRIPTS / name)
        done = netesto(
            self.out.parent, "exp", script, "data=results", "-o", "page.html", timeout=PATIENCE_S
        )
        assert done.status == 0, done.stderr
        return (self.out.parent / "page.html").read_bytes()


def run(folder: Path, script: str, *words: str, **definitions: str) -> Run:
    kernel_or_reason("sim")
    given = [word for name, value in definitions.items() for word in ("-D", f"{name}={value}")]
    options = ("--plain", "--no-pages", "--ground", "sim", "--seed", "1", "--out", "results")
    done = netesto(
        folder, "run", *options, *words, *given, str(SCRIPTS / script), timeout=PATIENCE_S
    )
    assert done.status == 0, done.stderr
    return Run(folder / "results")


@pytest.fixture(scope="module")
def dtn(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("dtn"), "dtn-tuning.nts", **SHORT_DTN, reps="2")


def paced_rates(run: Run, paced: str) -> list[float]:
    """Those of the streams of each repetition, in Mbit/s."""
    rows = [row for row in run.rows if row["exp"].endswith(".1")]
    return [float(row["rate"]) for row in rows if row["testNote"] == paced]


def test_paced_streams_keep_their_rate(tmp_path: Path):
    once = run(tmp_path, "dtn-tuning.nts", **SHORT_DTN, paced="yes", reps="1")
    [rate] = paced_rates(once, "yes")
    assert rate > 0.98 * PACED_MBPS


@pytest.mark.thorough
def test_paced_streams_keep_their_rate_and_others_spread_several_times_more(dtn: Run):
    rates = {paced: paced_rates(dtn, paced) for paced in ("yes", "no")}
    spread = {paced: max(of) / min(of) - 1 for paced, of in rates.items()}
    assert min(rates["yes"]) > 0.98 * PACED_MBPS
    assert (spread["yes"] < 0.01, spread["no"] > 3 * spread["yes"]) == (True, True)


@pytest.mark.thorough
def test_cells_of_the_matrix_repeat_byte_for_byte_beside_fewer_others(dtn: Run, tmp_path: Path):
    fewer = run(tmp_path, "dtn-tuning.nts", "--jobs", "1", **SHORT_DTN, paced="no", reps="1").rows
    beside = [row for row in dtn.rows if row["testNote"] == "no" and row["rep"] == "1"]
    # All that differs is the number of the experiment, which counts from 1 in each run.
    of_experiment = {row["expNumber"] for row in beside}
    renumbered = [
        row | {"exp": row["exp"].replace(f"{row['expNumber']}.", "1."), "expNumber": "1"}
        for row in beside
    ]
    assert (len(of_experiment), len(fewer), fewer) == (1, 3, renumbered)


def veth(folder: Path) -> Run:
    folder.mkdir()
    return run(folder, "veth-matrix.nts", "--lab", "pair,rate=20mbit", **SHORT_VETH)


VETH_FIGURES = ("figure-veth-rate.exp", "figure-veth-retransmissions.exp")


@pytest.fixture(scope="module")
def veth_once(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return veth(tmp_path_factory.mktemp("veth") / "one")


def test_the_veth_matrix_is_measured_and_has_its_figures(veth_once: Run):
    pages = [veth_once.figure(figure) for figure in VETH_FIGURES]
    axes = [b">Parallel streams</text>" in page for page in pages]
    assert ({row["status"] for row in veth_once.rows}, axes) == ({"ok"}, [True, True])


@pytest.mark.thorough
def test_the_veth_matrix_and_its_figures_repeat_byte_for_byte(veth_once: Run, tmp_path: Path):
    again = veth(tmp_path / "two")
    assert again.lines == veth_once.lines
    for figure in VETH_FIGURES:
        assert again.figure(figure) == veth_once.figure(figure)


def of_cases(tmp_path: Path, script: str, **definitions: str) -> dict[str, Parted]:
    """The transfers of each kind of protection."""
    found, failed, faults = cases.by_affected(run(tmp_path, script, **definitions).out)
    assert (list(found), failed, faults) == (["off", "ordered", "nonblocking"], {}, [])
    return found


def median_us(case: Parted) -> float:
    return float(np.median(case.times))


def test_a_protected_link_hides_its_losses_from_short_flows(tmp_path: Path):
    found = of_cases(tmp_path, "protected-link-fct.nts", runs="1", flows="200", loss="0.5")
    off, ordered, nonblocking = found.values()
    medians = [median_us(case) for case in found.values()]
    assert max(medians) < 1.02 * min(medians)
    # 17 segments: 8 % of the flows lose one. A lost last one waits for a timer of a millisecond.
    assert off.retransmitted > 0 == ordered.retransmitted
    assert off.times.max() > 1000 > 3 * max(ordered.times.max(), nonblocking.times.max())
    assert (off.affected.sum(), off.tail) >= (off.tail, 1)
    # Those that lost nothing are alike. Without protection they have one value, without the port
    # that hands frames on behind a protected link.
    bare, kept, free = (case.part("unaffected") for case in found.values())
    assert largest_distance(kept, free) < KOLMOGOROV * (1 / len(kept) + 1 / len(free)) ** 0.5
    assert np.median(kept) - np.median(bare) == pytest.approx(0.26, abs=0.01)


# Two samples of one distribution are that far apart with a probability of 0.0001, for each root of
# the sum of their sizes' inverses (Smirnov, 1948): sqrt(-ln(0.0001 / 2) / 2).
KOLMOGOROV = 2.225


def largest_distance(one: Times, other: Times) -> float:
    """Of the distributions of two samples."""
    at = np.concatenate([one, other])
    shares = (np.searchsorted(np.sort(each), at, "right") / len(each) for each in (one, other))
    return float(np.max(np.abs(np.subtract(*shares))))


def test_a_protected_link_hides_its_losses_from_messages(tmp_path: Path):
    found = of_cases(tmp_path, "protected-link-messages.nts", count="500", loss="1")
    off, ordered, nonblocking = found.values()
    # 24 packets; the last of some messages is lost, and they wait for 1 ms.
    share = 1 - 0.99**24
    spread = 4 * (share * (1 - share) / 500) ** 0.5
    assert off.retransmitted / 500 == pytest.approx(share, abs=spread)
    assert off.times.max() > 1000
    assert ordered.retransmitted == 0
    assert ordered.times.max() < 10 * median_us(ordered)
    assert nonblocking.retransmitted > 0
    assert nonblocking.times.max() < 1000
