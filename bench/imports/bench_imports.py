"""Import and summary of a tree of 3,500 runs (800 MB), or as many runs as the first argument says.

Prints the time of each on the wall and on processors, and the most memory that all processes of the
import had at once. What is judged is memory, and the ratio of the time on processors to parsing the
same files with Python's json module: it is the same on a slow machine, and on a busy one. Ends with
1 if a limit is missed. On two idle cores 3,500 runs are to take less than 120 s.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

RUNS = 3_500
# One run: six streams for a minute, and two files of mpstat with three cores.
STREAMS, SECONDS, CORES = 6, 60, 3
LIMIT_RATIO = 8.0
LIMIT_MB = 500.0
FIELDS = ("usr", "nice", "sys", "iowait", "irq", "soft", "steal", "guest", "gnice", "idle")


def document(number: int) -> dict[str, object]:
    rate = 50e9 + number * 1e6

    def part(second: int, **more: object) -> dict[str, object]:
        return {
            "start": second,
            "end": second + 1.000041,
            "seconds": 1.000041007995605,
            "bytes": 6250000000 + number,
            "bits_per_second": rate + second / 7,
            "retransmits": second % 3,
            "omitted": False,
            "sender": True,
            **more,
        }

    intervals = [
        {
            "streams": [
                part(
                    second,
                    socket=5 + stream,
                    snd_cwnd=1534632,
                    snd_wnd=3145728,
                    rtt=1043 + stream,
                    rttvar=37,
                    pmtu=9000,
                )
                for stream in range(STREAMS)
            ],
            "sum": part(second),
        }
        for second in range(SECONDS)
    ]
    sums = {"start": 0, "end": SECONDS, "seconds": SECONDS, "bits_per_second": rate}
    return {
        "start": {
            "connected": [
                {
                    "socket": 5 + stream,
                    "local_host": "10.0.0.1",
                    "local_port": 40000 + stream,
                    "remote_host": "10.0.0.2",
                    "remote_port": 5201,
                }
                for stream in range(STREAMS)
            ],
            "version": "iperf 3.17",
            "system_info": "Linux sender 6.8.0",
            "timestamp": {"timesecs": 1709287200 + 70 * number},
            "tcp_mss_default": 8948,
            "test_start": {"protocol": "TCP", "num_streams": STREAMS, "duration": SECONDS},
        },
        "intervals": intervals,
        "end": {
            "sum_sent": {**sums, "retransmits": number % 100},
            "sum_received": sums,
            "sender_tcp_congestion": "cubic",
        },
    }


def mpstat(number: int) -> dict[str, object]:
    loads = [
        {
            "timestamp": f"10:{second // 60:02d}:{second % 60:02d}",
            "cpu-load": [
                {"cpu": str(cpu), **dict.fromkeys(FIELDS, (cpu * 7 + second + number) % 100 / 10)}
                for cpu in range(CORES)
            ],
        }
        for second in range(SECONDS)
    ]
    return {"sysstat": {"hosts": [{"nodename": "sender", "statistics": loads}]}}


def make(root: Path, runs: int) -> int:
    """Write the tree; its bytes."""
    size = 0
    for number in range(runs):
        section = f"test{number // 40:03d}"
        host, own = f"10.0.0.{2 + number // 10 % 4}", number % 10 + 1
        there = root / "2024-03-01:10:00" / section
        there.mkdir(parents=True, exist_ok=True)
        client = json.dumps(document(number), indent="\t")
        load = json.dumps(mpstat(number))
        (there / f"src-cmd:{host}:{own}").write_text(client)
        for side in ("sender", "receiver"):
            (there / f"mpstat-{side}:{host}:{own}.json").write_text(load)
        size += len(client) + 2 * len(load)
    return size


def parse(root: Path) -> None:
    """What any program has to do."""
    for path in root.rglob("*:*"):
        if path.is_file():
            json.loads(path.read_bytes())


@contextmanager
def watched() -> Iterator[Callable[[], float]]:
    """The most memory (MB) of all child processes together, shared pages counted once."""
    most = 0.0
    done = threading.Event()

    def look() -> None:
        nonlocal most
        while not done.wait(0.25):
            found = 0.0
            for process in psutil.Process().children(recursive=True):
                try:
                    found += process.memory_full_info().pss / 1e6
                except psutil.Error:
                    continue
            most = max(most, found)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield lambda: most
    finally:
        done.set()
        thread.join()


def step(name: str, *words: str | Path) -> tuple[float, float]:
    """Run netesto; seconds on processors, and MB."""
    before, started = os.times(), time.monotonic()
    with watched() as most:
        subprocess.run(
            [sys.executable, "-m", "netesto", *map(str, words)],
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=1800,
        )
    after = os.times()
    cpu_s = after.children_user + after.children_system
    cpu_s -= before.children_user + before.children_system
    print(f"{name:10} {time.monotonic() - started:7.1f} s, {cpu_s:7.1f} s of CPU, {most():5.0f} MB")
    return cpu_s, most()


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    with tempfile.TemporaryDirectory(prefix="netesto-bench-") as folder:
        root, out = Path(folder) / "tree", Path(folder) / "out"
        size = make(root, runs)
        print(f"{runs} runs, {size / 1e6:.0f} MB")
        started = time.process_time()
        parse(root)
        plain_s = time.process_time() - started
        print(f"parsing    {plain_s:7.1f} s")
        imported_s, import_mb = step("import", "import", "results", root, "--out", out)
        summed_s, summary_mb = step("summary", "summary", out, "--as", "harness")
    ratio = (imported_s + summed_s) / plain_s
    print(f"ratio {ratio:.1f} (limit {LIMIT_RATIO:g}), {max(import_mb, summary_mb):.0f} MB")
    return 0 if ratio <= LIMIT_RATIO and max(import_mb, summary_mb) <= LIMIT_MB else 1


if __name__ == "__main__":
    sys.exit(main())
