"""The distribution of durations of transactions and transfers: the share that took longer, for each
time."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from netesto.errors import OutputError
from netesto.model import TIMED_TESTS
from netesto.report import looks
from netesto.report.figures import Chart, Layer
from netesto.results import completions, integrity
from netesto.results.evidence import OK
from netesto.results.manifest import GroupRecord, Manifest
from netesto.traffic.native import times_name

# More lines would be unreadable.
MAX_GROUPS = 8
# The number of points of a line over all decades.
POINTS = 400


def of_experiment(folder: Path, known: Manifest) -> dict[str, Chart]:
    """The chart of the groups whose times were kept and are unchanged, by file name; none without
    one."""
    layers: list[Layer] = []
    counts = []
    for group in known.groups:
        times = _times(folder, known, group)
        if len(times) and len(layers) < MAX_GROUPS:
            request = group.request
            label = f"{request.test} {request.client}→{request.server} #{request.group}"
            x, y = exceeding(times / 1000)
            layers.append(Layer(label, looks.of_line(len(layers)), "steps", x, y))
            counts.append(len(times))
    if not layers:
        return {}
    remark = (
        "The share of transactions or transfers that took at least this long; both axes are"
        f" logarithmic. Each line shows {', '.join(f'{count:,}' for count in counts)} of them."
    )
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
    if request.tool == "native" and request.test in TIMED_TESTS:
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
