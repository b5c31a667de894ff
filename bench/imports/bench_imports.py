"""Import and summary of a tree of 3,500 runs (800 MB), or as many runs as the first argument says.

Prints the time of each on the wall and on processors, and the most memory that all processes of the
import had at once. What is judged is memory, and the ratio of the time on processors to parsing the
same files with Python's json module, which depends little on the machine and on other work. Ends
with 1 if a limit is missed. On two idle cores 3,500 runs are to take less than 120 s.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

RUNS = 3_500
# One run: six streams for a minute, and two files of mpstat with three cores.
STREAMS, SECONDS, CORES = 6, 60, 3
LIMIT_RATIO = 16.0
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


@dataclass
class Used:
    """What all child processes together have used: the most memory at once, shared pages counted
    once, and seconds on processors (of each process as far as it was seen)."""

    memory_mb: float = 0.0
    by_process: dict[int, float] = field(default_factory=dict)

    @property
    def cpu_s(self) -> float:
        return sum(self.by_process.values())

    def look(self) -> None:
        memory_mb = 0.0
        for process in psutil.Process().children(recursive=True):
            try:
                memory_mb += process.memory_full_info().pss / 1e6
                times = process.cpu_times()
            except psutil.Error:
                continue
            self.by_process[process.pid] = times.user + times.system
        self.memory_mb = max(self.memory_mb, memory_mb)


@contextmanager
def watched() -> Iterator[Used]:
    used, done = Used(), threading.Event()

    def look() -> None:
        while not done.wait(0.1):
            used.look()

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield used
    finally:
        done.set()
        thread.join()


def step(name: str, *words: str | Path) -> Used:
    """Run netesto, and print what it took."""
    started = time.monotonic()
    with watched() as used:
        subprocess.run(
            [sys.executable, "-m", "netesto", *map(str, words)],
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=1800,
        )
    wall_s = time.monotonic() - started
    print(f"{name:10} {wall_s:7.1f} s, {used.cpu_s:7.1f} s of CPU, {used.memory_mb:5.0f} MB")
    return used


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
        imported = step("import", "import", "results", root, "--out", out)
        summed = step("summary", "summary", out, "--as", "harness")
    ratio = (imported.cpu_s + summed.cpu_s) / plain_s
    memory_mb = max(imported.memory_mb, summed.memory_mb)
    print(f"ratio {ratio:.1f} (limit {LIMIT_RATIO:g}), {memory_mb:.0f} MB (limit {LIMIT_MB:.0f})")
    return 0 if ratio <= LIMIT_RATIO and memory_mb <= LIMIT_MB else 1


if __name__ == "__main__":
    sys.exit(main())
