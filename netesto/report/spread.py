"""The distribution of durations of transactions and transfers: the share that took longer, for each
time."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from netesto.errors import OutputError
from netesto.flowspec import TIMED_TESTS
from netesto.report import looks
from netesto.report.figures import Chart, Layer
from netesto.results import completions, integrity
from netesto.results.evidence import OK
from netesto.results.manifest import GroupRecord, Manifest
from netesto.traffic.native import times_name
from netesto.units import counted

# More lines would be unreadable.
MAX_GROUPS = 8
# The number of points of a line over all decades.
POINTS = 400


def of_experiment(folder: Path, known: Manifest) -> dict[str, Chart]:
    """The chart of the groups whose times were kept and are unchanged, by file name; none without
    one."""
    found = [
        (group.request, times)
        for group in known.groups
        if len(times := _times(folder, known, group))
    ]
    if not found:
        return {}
    shown, left_out = found[:MAX_GROUPS], len(found) - MAX_GROUPS
    layers = [
        Layer(
            f"{asked.test} {asked.client}→{asked.server} #{asked.group}",
            looks.of_line(place),
            "steps",
            *exceeding(times / 1000),
        )
        for place, (asked, times) in enumerate(shown)
    ]
    counts = ", ".join(f"{len(times):,}" for _, times in shown)
    remark = (
        "The share of transactions or transfers that took at least this long; both axes are"
        f" logarithmic. Each line shows {counts} of them."
    )
    if left_out > 0:
        remark += f" {counted(left_out, 'more group')} {'are' if left_out > 1 else 'is'} not shown."
    title = "Durations of transactions and transfers"
    return {
        "latencies": Chart(
            title, "milliseconds", "share that took longer", tuple(layers), 1.0, (remark,), "log"
        )
    }


def _times(folder: Path, known: Manifest, group: GroupRecord) -> completions.Times:
    """µs, of all flows of a group that ended well."""
    request = group.request
    found = [np.empty(0)]
    if request.test in TIMED_TESTS:
        for flow in group.instances:
            path = f"raw/{request.client}/{times_name(request, flow.instance)}"
            if flow.status != OK or not integrity.is_unchanged(folder, known, path):
                continue
            try:
                completions.check(folder, known, path)
                found.append(completions.read(folder / path))
            except (OSError, OutputError):
                continue
    times = np.concatenate(found)
    # A logarithmic axis has no place for others.
    return times[times > 0]


def exceeding(times: completions.Times) -> tuple[Sequence[float], Sequence[float]]:
    """Times in ascending order, and the share of all that took at least this long. If there are
    many, dense ones are thinned out, but none of the slowest."""
    count = len(times)
    slower = np.unique(np.geomspace(1, count, POINTS).astype(int))[::-1]
    rising = np.sort(times)
    return rising[count - slower].tolist(), (slower / count).tolist()
