"""What a guest costs: its start against a plain process, its work against this machine's, and how
much faster than real time a simulated minute passes. Each number is the best of three."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from netesto.lab import guest, kernels
from netesto.lab.kernels import Kernel
from netesto.system import process

REPEATS = 3

# Work of one processor and no waiting, about two seconds here.
WORK = "sum(number * number for number in range(20_000_000))"

# Processes are a guest's most expensive work: each page they touch is mapped by another process.
STARTS = "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i + 1)); done"

# One TCP flow through a bottleneck of 100 Mbit/s and 40 ms, as in most of the scripts.
FLOW = """
ip netns add far && ip link add here type veth peer name there netns far
ip addr add 10.9.0.1/24 dev here && ip link set here up
ip -n far addr add 10.9.0.2/24 dev there && ip -n far link set there up
tc qdisc add dev here root handle 1: netem delay 20ms limit 10000 rate 100mbit
ip netns exec far tc qdisc add dev there root netem delay 20ms limit 10000
ip netns exec far netserver > /dev/null
netperf -H 10.9.0.2 -l 60 -t TCP_STREAM -P 0
"""


def best(seconds: Callable[..., float], *arguments: object) -> float:
    """The smallest of some measurements: the one least disturbed by others."""
    return min(seconds(*arguments) for _ in range(REPEATS))


def here(argv: Sequence[str]) -> float:
    """Seconds a command takes on this machine."""
    started = time.perf_counter()
    process.run(argv, timeout=120)
    return time.perf_counter() - started


def boot(kernel: Kernel) -> float:
    """Seconds from nothing to nothing again."""
    with Path(os.devnull).open("wb") as nowhere:
        started = time.perf_counter()
        guest.run(["true"], kernel=kernel, stdout=nowhere.fileno())
        return time.perf_counter() - started


def inside(kernel: Kernel, argv: Sequence[str]) -> float:
    """Seconds of this machine's time that a command takes in a guest, its boot left out."""
    words = ["sh", "-c", 'echo begin; "$@" > /dev/null && echo end', "sh", *argv]
    reading, writing = os.pipe()
    with ThreadPoolExecutor(1) as reader, os.fdopen(writing, "wb") as stdout:
        moments = reader.submit(_moments, reading)
        guest.run(words, kernel=kernel, stdout=stdout.fileno())
        stdout.close()
        began, ended = moments.result()
    return ended - began


def _moments(reading: int) -> list[float]:
    """When each line came."""
    with os.fdopen(reading, "rb") as lines:
        return [time.perf_counter() for _ in lines]


def measure(kernel: Kernel, here_s: dict[str, float], commands: dict[str, list[str]]) -> None:
    print(f"{kernel.name}: boot and power-off take {best(boot, kernel):.2f} s")
    for name, argv in commands.items():
        ratio = best(inside, kernel, argv) / here_s[name]
        print(f"{kernel.name}: {name} takes {ratio:.1f} x the time it takes here")


def measure_time(kernel: Kernel) -> None:
    for name, seconds, argv in (
        ("one flow, 100 Mbit/s x 40 ms,", 60, ["sh", "-c", FLOW]),
        ("waiting", 7200, ["sleep", "7200"]),
    ):
        ratio = seconds / best(inside, kernel, argv)
        print(f"{kernel.name}: {name} passes {ratio:.0f} x as fast as real time")


def main() -> None:
    python = str(Path(sys.executable).resolve())
    commands = {
        "computing": [python, "-I", "-S", "-c", WORK],
        "starting processes": ["sh", "-c", STARTS],
    }
    here_s = {name: best(here, argv) for name, argv in commands.items()}
    for kernel in kernels.installed():
        measure(kernel, here_s, commands)
        if kernel.kind == "sim":
            measure_time(kernel)


if __name__ == "__main__":
    main()
