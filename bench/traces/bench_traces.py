"""What traces cost, in processor time, against what was promised.

`make`: a trace of a million flows. `sim`: eight UDP flows by DO_TRACE and by DO_CLIENT, and
requests of a trace and of KV_RR, each pair in alternation in simulated time. `labs`: fat trees of
k = 4 and 8 come up, in namespaces and in simulated time. `starts`: how late 2,000 flows of 16 hosts
start in namespaces; the machine should have nothing else to do. `large`: 100,000 requests and 2,000
flows over 60 s: memory of the controller, size of the page, and the time of the tables.

Needs root and, for `sim` and half of `labs`, a kernel for simulated time. Names of parts as
arguments choose them. Ends with 1 if a limit is missed.
"""

import csv
import json
import math
import os
import resource
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from netesto.grounds import SIM
from netesto.lab import kernels, netns
from netesto.run import labs
from netesto.system import process

REPEATS = 3
HOSTS = [f"h{number}" for number in range(1, 17)]

MAKE_S = 10.0
FLOWS_RATIO = REQUEST_RATIO = 1.2
LABS_RATIO = 9.0
START_MS = 1.0
CONTROLLER_MB, PAGE_MB, TABLES_S = 300.0, 2.0, 10.0

# Eight flows through the root of a tree, paced alike, and sampled alike. They leave room: results
# of DO_CLIENT would not pass full queues in time.
FLOWS = """\
LAB tree depth=4 rate=10mbit rate1=20mbit limit=1000p
{}
WAIT_FLOWS
PROCESS_EXP
"""
FLOWS_OF_TRACE = (
    "DO_TRACE file=flows.txt protocol=udp bitrate=2mbit drain=0 exp=COUNTER expName=flows"
)
FLOWS_OF_CLIENTS = """\
DO_SERVER host=h9 exp=COUNTER expName=flows order=0 start=1
FOR n IN 1,2,3,4,5,6,7,8 DO
    SET_EXP far=n+8
    DO_CLIENT host=h$n server=h$far test=UDP_STREAM tool=native bitrate=2mbit len=1400 \\
        dur=30 hold=1
DONE
START_FLOWS
"""

# Some ten thousand requests, each a millisecond.
REQUESTS = """\
LAB pair rate=1gbit delay=0.5
{}
WAIT_FLOWS
PROCESS_EXP
"""
REQUESTS_OF_TRACE = "DO_TRACE file=requests.txt drain=1 exp=COUNTER expName=requests"
REQUESTS_OF_KV_RR = """\
DO_SERVER host=b exp=COUNTER expName=requests order=0 start=1
DO_CLIENT host=a server=b test=KV_RR dur=20
"""


def processor_s() -> float:
    """Of this process and those that have ended below it."""
    own, others = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def taken_s(work: Callable[[], object]) -> float:
    before = processor_s()
    work()
    return processor_s() - before


def tell(what: str, found: float, limit: float, unit: str) -> bool:
    """Whether a limit is missed."""
    missed = found > limit
    print(f"{what}: {found:.2f}{unit} (limit {limit:g}{unit}){': missed' if missed else ''}")
    return missed


def netesto(folder: Path, *words: str) -> None:
    process.run(
        [sys.executable, "-m", "netesto", *words], timeout=1800, cwd=folder, env=dict(os.environ)
    )


def run(folder: Path, script: str, ground: str, *, pages: bool = False) -> Path:
    """Run a script; the folder of its only experiment."""
    (folder / "script.nts").write_text(script)
    words = () if pages else ("--no-pages",)
    out = tempfile.mkdtemp(dir=folder)
    netesto(
        folder, "run", "--plain", "--yes", "--ground", ground, "--seed", "1", *words,
        "--out", out, "script.nts",
    )  # fmt: skip
    return Path(out) / "1"


def in_turn(*works: Callable[[], object]) -> list[float]:
    """The median processor time of each, in alternation."""
    found = [[taken_s(work) for work in works] for _ in range(REPEATS)]
    return [statistics.median(each) for each in zip(*found, strict=True)]


# ---- parts -------------------------------------------------------------------------------------


def constant(value: float) -> Mapping[str, object]:
    return {"type": "constant", "value": value}


def group(gap_us: float, size_us: float, length_us: float) -> Mapping[str, object]:
    return {
        "start_time": 0, "length": length_us, "src_host_list": HOSTS, "dst_host_list": HOSTS,
        "flow_size_distribution": constant(size_us), "flow_gap_distribution": constant(gap_us),
    }  # fmt: skip


def make(folder: Path) -> Iterable[bool]:
    (folder / "million.json").write_text(
        json.dumps({"flow_groups": [group(60.0, 1000.0, 60_000_000.0)]})
    )
    took_s = taken_s(lambda: netesto(folder, "trace", "make", "million.json", "-o", "million.txt"))
    yield tell("trace make, a million flows", took_s, MAKE_S, " s")


def sim(folder: Path) -> Iterable[bool]:
    lines = [f"h{n} 0 2 10.0.0.{n + 8} 30000000 0 0" for n in range(1, 9)]
    (folder / "flows.txt").write_text("\n".join(["", *lines]) + "\n")
    trace_s, clients_s = in_turn(
        lambda: run(folder, FLOWS.format(FLOWS_OF_TRACE), "sim"),
        lambda: run(folder, FLOWS.format(FLOWS_OF_CLIENTS), "sim"),
    )
    print(f"eight UDP flows of 30 s by DO_TRACE {trace_s:.1f} s, by DO_CLIENT {clients_s:.1f} s")
    yield tell("the first, of the second", trace_s / clients_s, FLOWS_RATIO, "")

    def requests_of(script: str) -> float:
        done = run(folder, REQUESTS.format(script), "sim")
        with (done.parent / "exp.csv").open(newline="") as file:
            return float(next(csv.DictReader(file))["latencies"])

    count = requests_of(REQUESTS_OF_KV_RR)
    gap_us = 20e6 / count
    lines = [f"a {n * gap_us:.3f} {n and 1} key{' value' * (not n)}" for n in range(int(count))]
    (folder / "requests.txt").write_text("\n".join(["b 10.0.0.2", *lines]) + "\n")
    trace_s, kv_s = in_turn(
        lambda: requests_of(REQUESTS_OF_TRACE), lambda: requests_of(REQUESTS_OF_KV_RR)
    )
    print(f"{count:.0f} requests by DO_TRACE {trace_s:.1f} s, by KV_RR {kv_s:.1f} s")
    yield tell("the first, of the second", trace_s / kv_s, REQUEST_RATIO, "")


def labs_up(folder: Path) -> Iterable[bool]:
    def up(k: int) -> None:
        plan = labs.plan_of(labs.network(labs.parse_spec(f"fattree,k={k}")))
        with netns.up(plan, agents=False):
            pass

    small_s, large_s = in_turn(lambda: up(4), lambda: up(8))
    print(f"fat trees up and down: {small_s:.2f} and {large_s:.2f} s")
    yield tell("k=8 in namespaces, of k=4", large_s / small_s, LABS_RATIO, "")
    if kernels.find(SIM) is None:
        return
    script = "LAB {} rate=1mbit\nSET_SYSCTL host=h1 net.ipv4.tcp_ecn=0\n"
    without_s, small_s, large_s = in_turn(
        *(
            lambda shape=shape: run(folder, script.format(shape), "sim")
            for shape in ("star hosts=2", "fattree k=4", "fattree k=8")
        )
    )
    print(f"runs in simulated time: {without_s:.1f} s, fat trees {small_s:.1f}, {large_s:.1f} s")
    ratio = (large_s - without_s) / (small_s - without_s)
    yield tell("k=8 in simulated time, of k=4, without a run of two hosts", ratio, LABS_RATIO, "")


def written(folder: Path, flow_us: float, length_us: float, requests: int = 0) -> None:
    """trace.txt: 2,000 flows and so many requests."""
    workload: dict[str, object] = {"flow_groups": [group(length_us / 2000, flow_us, length_us)]}
    if requests:
        gap = constant(length_us / requests)
        workload |= {"mc_host_list": HOSTS, "mc_gap_distribution": gap, "length": length_us}
    (folder / "trace.json").write_text(json.dumps(workload))
    netesto(folder, "trace", "make", "trace.json", "-o", "trace.txt", "--seed", "1")


TRACE = """\
LAB fattree k=4
DO_TRACE file=trace.txt protocol={} bitrate=1mbit drain=1 exp=COUNTER expName=trace interval=1
WAIT_FLOWS
PROCESS_EXP
"""


def starts(folder: Path) -> Iterable[bool]:
    written(folder, 20_000, 20e6)
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for protocol in ("udp", "tcp"):
        done = run(folder, TRACE.format(protocol), "lab")
        late_ms = sorted(lateness_ms(done))
        p50, p99, worst = (late_ms[int(share * (len(late_ms) - 1))] for share in (0.5, 0.99, 1))
        print(
            f"{len(late_ms)} flows, {protocol}: 50 % within {p50:.3f} ms, the last {worst:.3f} ms"
        )
        yield tell("99 % within", p99, START_MS, " ms")


def lateness_ms(done: Path) -> Iterable[float]:
    """Of each flow, how much later than asked for it began to send; infinite if it was over before
    it could."""
    for path in done.glob("raw/*/trace.csv"):
        lines = [
            line.split()
            for part in path.parent.glob("trace.*.txt")
            for line in part.read_text().splitlines()
        ]
        asked_ns = [int(words[1]) for words in lines if words[0] == "F"]
        with path.open(newline="") as file:
            for row, at_ns in zip(csv.DictReader(file), asked_ns, strict=True):
                began_s = float(row["start_s"] or math.inf)
                yield began_s * 1000 - at_ns / 1e6


def large(folder: Path) -> Iterable[bool]:
    written(folder, 500_000, 60e6, requests=100_000)
    done = run(folder, TRACE.format("tcp"), "lab", pages=True)
    # Of the largest process that has ended below this one.
    most_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    yield tell("100,000 requests and 2,000 flows: memory", most_mb, CONTROLLER_MB, " MB")
    page_mb = (done / "exp.html").stat().st_size / 1e6
    yield tell("the page", page_mb, PAGE_MB, " MB")
    took_s = taken_s(lambda: netesto(folder, "summary", str(done.parent), "--as", "trace"))
    yield tell("the tables", took_s, TABLES_S, " s")


PARTS: Mapping[str, Callable[[Path], Iterable[bool]]] = {
    "make": make,
    "sim": sim,
    "labs": labs_up,
    "starts": starts,
    "large": large,
}


def main() -> int:
    missed = False
    for name in sys.argv[1:] or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            for each in PARTS[name](Path(folder)):
                missed |= each
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
