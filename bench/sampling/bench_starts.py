"""How closely flows of twenty agents start together: held and released, and one after the other.

A lab of 20 clients and a server: each client has an agent of its own. An experiment holds a flow of
each (`hold=1`) and releases all at one instant (START_FLOWS); the next one starts each as its
DO_CLIENT comes. Both are of one run, and repeat REPETITIONS times. The start of a flow is when its
first byte was written (tool=native) or its process started (netperf); its skew is the difference
from the instant that was requested, and what is judged is the p99 of tool=native: at most 2 ms.
Sequential flows have no common instant: their spread is that from the first to the last.
Needs root and netperf; takes about a minute. Ends with 1 if the limit is missed.
"""

import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from netesto.system import process

CLIENTS, REPETITIONS = 20, 5
LIMIT_MS = 2.0

SCRIPT = """\
LAB dumbbell clients={clients} servers=1
SWEEP tool=native,netperf hold=1,0 reps={repetitions} DO
    DO_SERVER host=server1 exp=COUNTER order=0 start=1
    FOR c IN {names} DO
        DO_CLIENT host=$c server=server1 test=TCP_RR req=1 reply=1 dur=1 tool=$tool hold=$hold
    DONE
    START_FLOWS
    WAIT_FLOWS
    PROCESS_EXP
DONE
"""


def experiments(folder: Path) -> Iterator[tuple[tuple[str, str], list[float], float]]:
    """Tool and hold, the skews in ms, and the spread in ms, of each experiment."""
    for path in sorted(folder.glob("*/manifest.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        flows = [flow for group in found["groups"] for flow in group["instances"]]
        started = [flow["started_s"] for flow in flows if flow["status"] == "ok"]
        assert len(started) == CLIENTS, f"{path}: {found['reasons']}"
        skews = [flow["start_skew_ms"] for flow in flows]
        columns = found["columns"]
        yield (columns["tool"], columns["hold"]), skews, (max(started) - min(started)) * 1000


def main() -> int:
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    names = ",".join(f"client{number + 1}" for number in range(CLIENTS))
    with tempfile.TemporaryDirectory() as name:
        script = Path(name) / "starts.nts"
        script.write_text(SCRIPT.format(clients=CLIENTS, repetitions=REPETITIONS, names=names))
        words = ("run", "--plain", "--yes", "--out", f"{name}/results", str(script))
        process.run([sys.executable, "-m", "netesto", *words], timeout=600)
        found = list(experiments(Path(name) / "results"))
    worst_ms = 0.0
    for (tool, hold), _, _ in dict.fromkeys((each[0], 0, 0) for each in found):
        skews = sorted(abs(ms) for of, each, _ in found if of == (tool, hold) for ms in each)
        spread_ms = statistics.median(ms for of, _, ms in found if of == (tool, hold))
        p99_ms = skews[-(len(skews) // 100) - 1]
        if hold == "1":
            print(f"{tool}, START_FLOWS: |skew| p99 {p99_ms:.3f} ms, spread {spread_ms:.3f} ms")
            worst_ms = max(worst_ms, p99_ms if tool == "native" else 0.0)
        else:
            print(f"{tool}, one after the other: spread {spread_ms:.3f} ms")
    return int(worst_ms > LIMIT_MS)


if __name__ == "__main__":
    sys.exit(main())
