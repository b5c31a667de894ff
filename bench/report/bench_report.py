"""A report over an exp.csv of 58 columns and 100,000 rows, or as many as the first argument says.

Prints each step's time on the processor. What is judged is the ratio of the whole to reading the
same file with Python's csv module: it is the same on a slow machine, and on a busy one. A million
rows must fit into 1 GB, too. Ends with 1 if a limit is missed.
"""

import csv
import gc
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

from netesto.report.expscript import Runner

ROWS = 100_000
# Of the csv module's time: a report reads less than all cells, but draws, and merges the rows.
LIMIT_RATIO = 4.0
LIMIT_MB = 1000.0

FACTORS = {
    "ca": ("cubic", "bbr", "reno"),
    "bw": ("10mbit", "100mbit", "1gbit"),
    "netem": ("1", "10", "40", "100"),
    "instances": ("1", "2", "4", "8", "16", "32"),
}
COLUMNS = (
    "exp", "expName", "group", "test", "testType", "testNote", "desc", "kernel", "host",
    "server", "instances", "instance", "ca", "dur", "delay", "req", "reply", "cwnd", "netem",
    "qdisc", "bw", "buffers", "ecn", "rtt", "pingRtt", "rate", "rateMin", "rateMax",
    "retransPkts%", "minLatency", "maxLatency", "meanLatency", "p50Latency", "p90Latency",
    "p99Latency", "p999Latency", "localRetrans", "remoteRetrans", "lost", "retrans",
    "retrans_total", "localCpu", "remoteCpu", "tcpRmem", "tcpWmem", "tso", "gso", "lro", "gro",
    "adaptive-rx", "rx-frames", "tx-frames", "client-rx-packets", "client-tx-packets",
    "client-rx-bytes", "client-tx-bytes", "client-tx-packet-len", "client-rx-packet-len",
)  # fmt: skip
TEXTS = {
    "test": "TCP_STREAM", "testType": "3Stream1", "testNote": "", "desc": "base", "kernel": "6.18",
    "host": "client1", "server": "server1", "qdisc": "fq", "tso": "on", "gso": "on", "lro": "off",
    "gro": "on", "adaptive-rx": "on", "req": "1M", "reply": "1", "ecn": "0", "buffers": "",
}  # fmt: skip

SCRIPT = """
File={csv}
Select=exp[has].0
NewCol = fairness = rateMax / rateMin
Stats = rate: sd, ci95
Average=ca,bw,instances
Sort=bw,instances,-rate
{cols}
doTable
xUniform=on
plotX=instances
plotY1=rate
plotSeries=ca
plotRepeats=mean
doPlot
"""


def write_csv(path: Path, rows: int) -> None:
    """The same file every time: a tenth of its rows are experiments, the others their groups."""
    draw = random.Random(1)
    with path.open("w") as file:
        file.write(",".join(COLUMNS) + "\n")
        for row in range(rows):
            factors = {name: draw.choice(values) for name, values in FACTORS.items()}
            cells = {"exp": f"{row // 10}.{row % 10}", "expName": "1s3c01fs", "group": row % 10}
            cells |= TEXTS | factors
            file.write(
                ",".join(
                    str(cells[name]) if name in cells else f"{draw.uniform(1, 1000):.1f}"
                    for name in COLUMNS
                )
                + "\n"
            )


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(folder: Path, *, cols: str) -> float:
    script = folder / "bench.exp"
    script.write_text(SCRIPT.format(csv=folder / "exp", cols=cols))
    start = time.process_time()
    before = start

    def tell(step: str) -> None:
        nonlocal before
        now = time.process_time()
        print(f"  {now - before:6.2f} s  {step.partition(': ')[2].replace(str(folder), '…')}")
        before = now

    report = Runner(explain=True, tell=tell).run_script(script, {})
    now = time.process_time()
    print(f"  {now - before:6.2f} s  table, plot, page of {len(report.html) // 1000} kB")
    return now - start


def main() -> int:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_csv(folder / "exp.csv", rows)
        size = (folder / "exp.csv").stat().st_size / 1e6
        print(f"{rows} rows, {len(COLUMNS)} columns, {size:.0f} MB")
        print("nine columns shown:")
        took = measure(folder, cols="Cols=exp,ca,bw,instances,rate,rate.sd,rate.ci95,fairness,rtt")
        # What the first report held is gone, or it would count for the second.
        gc.collect()
        print("all columns shown:")
        took_all = measure(folder, cols="Cols=ALL")
        memory = megabytes()
        start = time.process_time()
        with (folder / "exp.csv").open(newline="") as file:
            count = sum(len(row) for row in csv.reader(file))
        reading = time.process_time() - start
        ratios = took / reading, took_all / reading
        print(f"the csv module alone reads its {count} cells in {reading:.2f} s")
        print(f"reports: {took:.2f} s and {took_all:.2f} s, {ratios[0]:.1f} and {ratios[1]:.1f} "
              f"times that; {memory:.0f} MB at most")  # fmt: skip
        return int(max(ratios) > LIMIT_RATIO or memory > LIMIT_MB)


if __name__ == "__main__":
    sys.exit(main())
