"""The figure of the durations of transactions and transfers."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from netesto.report import drawing, spread
from results import samples

PATH = "raw/client1/completions.1.1.csv"
LINES = "number,start_s,us,bytes,retransmits,status\n" + "".join(
    f"{n},1.0,{n * 1000},10,0,ok\n" for n in (3, 1, 2, 4)
)


@pytest.fixture
def known(tmp_path):
    """The manifest of an experiment with four transfers, and its folder."""
    path = tmp_path / PATH
    path.parent.mkdir(parents=True)
    path.write_text(LINES)
    asked = samples.request(test="TCP_FLOWS", tool="native", size_bytes=10)
    evidence = samples.experiment(samples.group(samples.instance(), asked=asked))
    files = {PATH: hashlib.sha256(LINES.encode()).hexdigest()}
    return tmp_path, samples.manifest(evidence, files=files)


def test_the_line_of_a_group_is_the_share_that_took_longer(known):
    (layer,) = spread.of_experiment(*known)["latencies"].layers
    assert (layer.label, layer.x, layer.y) == (
        "TCP_FLOWS client1→server1 #1", [1.0, 2.0, 3.0, 4.0], [1.0, 0.75, 0.5, 0.25],
    )  # fmt: skip


def test_groups_that_are_not_drawn_are_reported(known):
    folder, found = known
    (group,) = found.groups
    groups = [
        replace(group, request=replace(group.request, group=number)) for number in range(1, 11)
    ]
    files = dict(found.files)
    for number in range(2, 11):
        path = PATH.replace(".1.1.", f".{number}.1.")
        (folder / path).write_text(LINES)
        files[path] = found.files[PATH]
    chart = spread.of_experiment(folder, replace(found, groups=groups, files=files))["latencies"]
    assert (len(chart.layers), chart.remarks[0].partition("logarithmic. ")[2]) == (
        8, "Each line shows 4, 4, 4, 4, 4, 4, 4, 4 of them. 2 more groups are not shown.",
    )  # fmt: skip


def test_it_can_be_drawn(known):
    (svg,) = drawing.draw(spread.of_experiment(*known).values())
    assert ("milliseconds" in svg, "mathdefault" in svg) == (True, False)


def test_times_that_were_changed_are_not_drawn(known):
    (known[0] / PATH).write_text(LINES.replace("4000", "4001"))
    assert spread.of_experiment(*known) == {}


def test_times_are_not_drawn_if_the_clock_was_set_meanwhile(known):
    folder, found = known
    record = samples.set_clock(folder / "raw/client1/clock.json")
    files = {**found.files, "raw/client1/clock.json": record}
    assert spread.of_experiment(folder, replace(found, files=files)) == {}


def test_of_many_the_slowest_are_all_there():
    x, y = spread.exceeding(np.arange(1.0, 100_001.0))
    assert len(x) <= spread.POINTS
    assert (x[0], x[-3:], y[0], y[-1]) == (1.0, [99_998.0, 99_999.0, 100_000.0], 1.0, 1e-5)
