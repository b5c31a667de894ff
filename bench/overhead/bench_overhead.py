"""What an experiment costs beside its flows, as ratios, and how well a dry run foresees it.

The macro TwoFlowBaseStream of the 2017 paper waits 10 + 5 + 10 + 15 s by the clock, besides the
flows' duration, and starts netserver and processes its data in about 12 s more: 52 s in all. Ours
waits for events. Then eight tests of scripts/rate-tests.nts, with one to six groups of flows, tell
what an experiment and what each group costs, and how the estimate of `run -n` compares with the
clock. Whatever else the machine does shows here: the load is printed. Needs root; takes about 50 s.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from netesto.files import paths
from netesto.system import process

CLASSIC_OVERHEAD_S = 52.0
RUNS = 3

TWO_FLOWS = """\
LAB dumbbell clients=2 servers=1 rate=100mbit
SOURCE inlib
RUN TwoFlowBaseStream,%d server=server1 client1=client1 client2=client2 expName=overhead \\
    ca1=cubic ca2=bbr dur1=3 dur2=1 delay2=1
"""

# Of a library's scenario, the tests with 1 to 6 flows; no random waits between the groups.
LIBRARY_SCRIPT = "rate-tests.nts"
FLOWS_S = 2.0
DEFINITIONS = {"dur": f"{FLOWS_S:g}", "randDelay": "0"} | dict.fromkeys(
    ("rate3", "rate3s", "rate3p", "rate3x"), "0"
)


@dataclass(frozen=True, slots=True)
class Cost:
    """One experiment: how many groups it has, and its seconds beside what its flows last."""

    groups: int
    overhead_s: float


def netesto(*words: str) -> str:
    """What a netesto command prints."""
    return process.run([sys.executable, "-m", "netesto", *words], timeout=300).stdout


def drawn_s(folder: Path) -> float:
    """When its graphs were there. (The page is written again when the next one gives it a link.)"""
    return max(path.stat().st_mtime for path in (folder / "plots").iterdir())


def after_the_flows_s(folder: Path) -> float:
    """From the end of an experiment's last flow to its page."""
    manifest = json.loads((folder / "manifest.json").read_text())
    flows = [flow for group in manifest["groups"] for flow in group["instances"]]
    ended_s: float = max(flow["ended_s"] for flow in flows)
    return drawn_s(folder) - ended_s


def cost(folder: Path) -> Cost:
    """An experiment of the library, from its first command to its page."""
    manifest = json.loads((folder / "manifest.json").read_text())
    return Cost(len(manifest["groups"]), drawn_s(folder) - manifest["started_s"] - FLOWS_S)


def report_two_flows(folder: Path) -> None:
    script, out = folder / "overhead.nts", folder / "two-flows"
    script.write_text(TWO_FLOWS % RUNS)
    netesto("run", "-q", "--out", str(out), str(script))
    found = [after_the_flows_s(out / str(exp)) for exp in range(1, RUNS + 1)]
    print("after the last flow's end:", ", ".join(f"{seconds:.2f} s" for seconds in found))
    print(f"the worst is {max(found) / CLASSIC_OVERHEAD_S:.1%} of the classic tool's fixed waits")


def report_library(folder: Path) -> None:
    out = folder / "library"
    words = [f"{name}={value}" for name, value in DEFINITIONS.items()]
    arguments = [word for definition in words for word in ("-D", definition)]
    script = str(paths.data_folder() / "scripts" / LIBRARY_SCRIPT)
    summary = json.loads(netesto("run", "-n=json", *arguments, script).splitlines()[-1])["summary"]
    began = time.perf_counter()
    netesto("run", "-q", "--out", str(out), *arguments, script)
    real_s = time.perf_counter() - began
    report_costs([cost(out / str(exp)) for exp in range(1, summary["experiments"] + 1)])
    estimate_s = summary["seconds"]
    print(f"run -n estimated {estimate_s:.1f} s, the clock says {real_s:.1f} s:", end=" ")
    print(f"estimate/real {estimate_s / real_s:.2f}")


def report_costs(costs: Sequence[Cost]) -> None:
    """A line through the costs of experiments, over how many groups they have."""
    line = statistics.linear_regression(
        [each.groups for each in costs], [each.overhead_s for each in costs]
    )
    for what, seconds in (("an experiment", line.intercept), ("a group", line.slope)):
        print(
            f"{what} costs {seconds:.3f} s: {seconds / FLOWS_S:.1%} of flows of {FLOWS_S:g} s,"
            f" {seconds / 60:.2%} of flows of a minute"
        )


def main() -> None:
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as name:
        report_two_flows(Path(name))
        report_library(Path(name))


if __name__ == "__main__":
    main()
