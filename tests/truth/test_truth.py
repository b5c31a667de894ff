"""Links and TCP in simulated time are what theory says, as far as `make test` has the time.

`.ci/run` has time for more, and `make truth` measures all of it (docs/truth.md)."""

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import theory
from all_studies import STUDIES
from measuring import Finding, measure
from needs import kernel_or_reason
from page import HEADER, promised
from reference import CODEL_INTERVAL_S, Load, codel, drop_tail
from studies import Study

from netesto.lab import topology
from netesto.links.settings import LinkSettings
from netesto.system import process

PAGE = Path(__file__).parents[2] / "docs" / "truth.md"

FAST = [study for study in STUDIES if study.run == "test"]


@pytest.mark.sim
@pytest.mark.timeout(1600)
@pytest.mark.parametrize("study", FAST, ids=[study.name for study in FAST])
def test_what_is_measured_is_what_theory_expects(study: Study, tmp_path: Path):
    kernel_or_reason("sim")
    measured = measure(study, tmp_path / study.name)
    assert [finding for finding in measured.findings if not finding.is_true] == []


def test_every_script_is_valid(tmp_path: Path):
    """Also those that only `make truth` runs."""
    for study in STUDIES:
        folder = tmp_path / study.name
        folder.mkdir()
        for name, text in {**study.files, "script.nts": study.script}.items():
            (folder / name).write_text(text)
    scripts = [str(Path(study.name, "script.nts")) for study in STUDIES]
    words = [sys.executable, "-m", "netesto", "check", *scripts]
    checked = process.run(words, timeout=300, check=False, cwd=tmp_path)
    assert checked.status == 0, checked.stderr


def cells() -> list[list[str]]:
    """The rows of the tables of the page."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ") and line != HEADER]
    return [line.strip("| ").split(" | ") for line in rows]


def test_the_page_has_the_rows_that_are_measured():
    rows = [(*row[:4], row[6]) for row in cells()]
    assert rows == [promised(row) for study in STUDIES for row in study.rows]


def test_no_row_of_the_page_is_false():
    assert [row for row in cells() if row[5] not in {"true", "unknown"}] == []


def made(shape: str, settings: Sequence[str]) -> set[LinkSettings]:
    """The settings of the links of a topology that have limits."""
    given = dict(word.split("=", 1) for word in settings)
    links = topology.build(shape, given).links
    return {direction for link in links for direction in (link.settings, link.sent_by(link.b))} - {
        LinkSettings()
    }


def test_a_link_of_a_dumbbell_and_of_a_tree_is_that_of_a_pair():
    # So a kind of link is measured at all rates on a pair, and elsewhere at one.
    for study in STUDIES:
        for row in study.rows:
            shape, *settings = row.link.split()
            if shape == "pair" and study.ground == "sim":
                pair = made("pair", settings)
                assert [made("dumbbell", settings), made("tree", settings)] == [pair, pair]


def test_a_measurement_outside_of_its_interval_is_false():
    row = STUDIES[0].rows[0]
    low, high = row.interval.low, row.interval.high
    found = [Finding(row, value).is_true for value in (low - 0.1, low, high, high + 0.1, None)]
    assert found == [False, True, True, False, False]


def test_a_binomial_interval_leaves_a_ten_thousandth_outside():
    # Of 20 events with 1/2, 0 or 1 happen with 21/2^20, 2 with another 190/2^20.
    interval = theory.binomial(20, 0.5)
    assert (interval.low, interval.high) == (2, 18)
    # Two or more of 10 with 1/1000: 4.5e-5.
    few = theory.binomial(10, 0.001)
    assert (few.low, few.high) == (0, 1)


def test_losses_without_memory_spread_as_independent_ones():
    independent = theory.gilbert_elliott(10_000, 0.1, 0.9)
    deviation = (independent.high - independent.expected) / theory.DEVIATIONS
    assert [independent.expected, deviation] == pytest.approx([1000, 30])


def test_losses_of_four_links_spread_nearly_as_of_four_times_as_many_packets():
    one = theory.gilbert_elliott(80_000, 0.01, 0.3)
    four = theory.gilbert_elliott(20_000, 0.01, 0.3, links=4)
    assert four.expected == pytest.approx(one.expected, rel=0.1)
    assert four.high - four.expected == pytest.approx(one.high - one.expected, rel=0.1)


def test_runs_of_losses_are_as_long_as_the_bad_state():
    # Of r = 1/2: 1 + 1/2 + 1/4 + … = 2, with a deviation of sqrt(2).
    runs = theory.gilbert_run(10_000, 0.01, 0.5)
    deviation = (runs.high - runs.expected) / theory.DEVIATIONS
    assert [runs.expected, deviation] == pytest.approx([2, math.sqrt(2 / (10_000 * 0.005 / 0.51))])


def test_copies_of_copies_arrive_as_a_branching_process_says():
    # Two links that copy half of the packets: (3/2)^2, and 1/4 · 3/2 · (9/4 - 1) / (1/2).
    copies = theory.copies(100, 0.5, 2)
    deviation = (copies.high - copies.expected) / theory.DEVIATIONS
    assert [copies.expected, deviation] == pytest.approx([125, math.sqrt(100 * 0.9375)])


def test_the_mean_of_the_quantiles_of_a_distribution_is_none():
    parts = [(place + 0.5) / 100_000 for place in range(100_000)]
    means = {
        kind: sum(map(value, parts)) / len(parts) for kind, value in theory.DISTRIBUTIONS.items()
    }
    assert means == {kind: pytest.approx(0, abs=0.01) for kind in means}


def test_ten_segments_take_a_round_trip_and_their_own_time():
    sent_s = 10 * 1514 * 8 / 1e6
    # Before them the ACK of the handshake, behind them that of the last.
    ack_s = 66 * 8 / 1e6
    taken_s = theory.slow_start_s(10, rate_bps=1e6, rtt_s=0.1)
    assert taken_s == pytest.approx(ack_s + sent_s + ack_s + 0.1)


def test_the_eleventh_segment_waits_for_the_first_ack():
    first_ack_s = (66 + 1514 + 66) * 8 / 1e9 + 0.1
    taken_s = theory.slow_start_s(11, rate_bps=1e9, rtt_s=0.1)
    assert taken_s == pytest.approx(first_ack_s + (1514 + 66) * 8 / 1e9 + 0.1)


def test_reno_at_a_loss_of_a_thousandth_reaches_what_mathis_says():
    assert theory.mathis_bps(0.04, 0.001) / 1e6 == pytest.approx(11.2, abs=0.05)


def test_cubic_needs_ten_seconds_for_a_window_of_1333():
    assert theory.cubic_k_s(4 / 3 * 1000) == pytest.approx(10)


def test_the_queue_of_dctcp_is_that_of_the_paper():
    # Figure 12: N = 2, 10 Gbit/s, 100 us, K = 40: 83 packets of 1500 bytes on the path.
    least, most = theory.dctcp_queue(40, 10e9 * 100e-6 / 8 / 1500, 2)
    assert (round(least), round(most)) == (31, 42)


def test_a_full_queue_delays_by_its_limit_and_the_frame_being_sent():
    load = Load(rate_bps=1e6, frame_bytes=1250, excess=1.5, count=1000)
    passed = drop_tail(load, 20)
    assert passed.longest_s == pytest.approx(21 * load.frame_s, abs=load.gap_s)
    assert passed.drops == pytest.approx(1000 * (1 - 1 / 1.5), abs=21)


def test_codel_drops_by_its_control_law():
    # Drops n apart by interval / sqrt(n): after T there have been (T / 2 interval)^2.
    load = Load(rate_bps=100e6, frame_bytes=1250, excess=1.5, count=45_000)
    dropped = codel(load).drops
    # The load lasts 3 s, and its queue nearly half of it longer.
    since_s = 3 + 1.5 - dropped * load.frame_s - CODEL_INTERVAL_S
    assert dropped == pytest.approx((since_s / 2 / CODEL_INTERVAL_S) ** 2, rel=0.1)
    assert math.isfinite(codel(load).mean_s)
