"""How closely flows of ten machines start together, when ssh reaches their agents.

Each machine of the tests is the client of a flow to the next one (tool=native, TCP_RR). START_FLOWS
releases all at one instant, REPETITIONS times; once with agents that run on the hosts, as installed
ones do, and once with `--ssh`. A recorded skew is by a host's clock as the controller has measured
it, through ssh. The machines share one monotonic clock, which gives the true starts: their distance
from the median of the experiment, without any offset. The p99 of each must be at most 2 ms.
Both ends share the processors of this machine, which should have nothing else to do. Needs root,
and sshd (.ci/sshd); takes two minutes. Ends with 1 if the limit is missed.
"""

import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from worlds import Machine, World, machines, missing

HOSTS, REPETITIONS = 10, 10
LIMIT_MS = 2.0

BEGIN = f"""\
SWEEP tool=native reps={REPETITIONS} DO
    DO_SERVER host=h1 exp=COUNTER order=0 start=1
"""
FLOW = "    DO_CLIENT host={} server={} test=TCP_RR req=1 reply=1 dur=1 tool=$tool hold=1\n"
END = """\
    START_FLOWS
    WAIT_FLOWS
    PROCESS_EXP
DONE
"""


def main() -> int:
    if reason := missing():
        print(f"  nothing is measured: this machine {reason}")
        return 0
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    names = [f"h{number}" for number in range(1, HOSTS + 1)]
    flows = zip(names, [*names[1:], names[0]], strict=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        world = stack.enter_context(machines(*names, folder=folder))
        world.controller.write("/root/a.nts", BEGIN + "".join(FLOW.format(*f) for f in flows) + END)
        table = '[{}]\naddresses = ["{}"]\n'
        tables = [table.format(name, world[name].address("data")) for name in names]
        world.controller.write("/root/hosts.toml", "".join(tables))
        worst_ms = measure(world, "--ssh")
        for name in names:
            stack.enter_context(world[name].agent("--device", "eth1"))
        worst_ms = max(worst_ms, measure(world, "--hosts"))
    return int(worst_ms > LIMIT_MS)


def measure(world: World, way: str) -> float:
    """Run the script, and print what the flows were like; the greatest p99."""
    words = ["netesto", "run", "--plain", "--yes", "--no-pages", "--out", f"out{way}"]
    world.controller.run([*words, way, "hosts.toml", "a.nts"], timeout=300)
    recorded, true, errors, bounds, spreads = [], [], [], [], []
    for skews, starts, its_bounds in experiments(world.controller, f"/root/out{way}"):
        first = statistics.median(starts)
        distances = [start - first for start in starts]
        offset = statistics.median(a - b for a, b in zip(skews, distances, strict=True))
        recorded += skews
        true += distances
        errors += [a - b - offset for a, b in zip(skews, distances, strict=True)]
        bounds += its_bounds
        spreads.append(max(starts) - min(starts))
    print(f"{way}, {len(recorded)} starts: |skew| p99 {p99(recorded):.3f} ms as recorded", end="")
    print(f", {p99(true):.3f} ms in truth", end="")
    print(f"; from the first to the last, median: {statistics.median(spreads):.3f} ms")
    print(f"    error of what is recorded: p99 {p99(errors):.3f} ms", end="")
    print(f"; bound of the clocks: median {statistics.median(bounds):.3f} ms")
    return max(p99(recorded), p99(true))


def p99(found: list[float]) -> float:
    sizes = sorted(map(abs, found))
    return sizes[-(len(sizes) // 100) - 1]


def experiments(
    controller: Machine, folder: str
) -> Iterator[tuple[list[float], list[float], list[float]]]:
    """Of each experiment, by flow: the recorded skew, the start in monotonic time, and the bound of
    the client's clock; in ms."""
    for exp in range(1, REPETITIONS + 1):
        found = json.loads(controller.read(f"{folder}/{exp}/manifest.json"))
        flows = [flow for group in found["groups"] for flow in group["instances"]]
        assert all(flow["status"] == "ok" for flow in flows), found["reasons"]
        starts, bounds = [], []
        for group in found["groups"]:
            raw, number = f"{folder}/{exp}/raw", group["request"]["group"]
            client = group["request"]["client"]
            launch = json.loads(controller.read(f"{raw}/{client}/flow.{number}.1.json"))
            # Each is the server of the group before.
            own = (number - 2) % HOSTS + 1
            clock = json.loads(controller.read(f"{raw}/{client}/server.{own}.json"))
            starts.append((launch["started_s"] - clock["monotonic_zero_s"]) * 1000)
            bounds.append(found["hosts"][client]["clock"]["bound_s"] * 1000)
        yield [flow["start_skew_ms"] for flow in flows], starts, bounds


if __name__ == "__main__":
    sys.exit(main())
