"""What a guest costs: its start against a plain process, its work against this machine's, and how
much faster than real time a simulated minute passes. Each number is the best of three."""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from netesto import process
from netesto.lab import guest, kernels
from netesto.lab.kernels import Kernel

REPEATS = 3

# Work of one processor and no waiting, about a second here.
WORK = "sum(number * number for number in range(8_000_000))"

# Processes are a guest's most expensive work: each page they touch is mapped by another process.
STARTS = "for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done"

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


def best(action: Callable[[], object]) -> float:
    """Seconds of the fastest of some repeats."""
    taken: list[float] = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        action()
        taken.append(time.perf_counter() - started)
    return min(taken)


def here(argv: Sequence[str]) -> None:
    process.run(argv, timeout=120)


def inside(kernel: Kernel, argv: Sequence[str]) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.closing(os.fdopen(nowhere, "wb")):
        status = guest.run(argv, kernel=kernel, stdout=nowhere)
    if status != 0:
        raise SystemExit(f"{argv[0]} in {kernel.name}: exit status {status}")


def measure(kernel: Kernel, here_s: dict[str, float], commands: dict[str, list[str]]) -> None:
    boot = best(lambda: inside(kernel, ["true"]))
    print(f"{kernel.name}: boot and power-off {boot:.2f} s")
    for name, argv in commands.items():
        taken = best(lambda argv=argv: inside(kernel, argv)) - boot
        print(f"{kernel.name}: {name} takes {taken / here_s[name]:.1f} x the time it takes here")


def measure_time(kernel: Kernel) -> None:
    boot = best(lambda: inside(kernel, ["true"]))
    for name, seconds, argv in (
        ("one flow, 100 Mbit/s x 40 ms,", 60, ["sh", "-c", FLOW]),
        ("waiting", 3600, ["sleep", "3600"]),
    ):
        taken = best(lambda argv=argv: inside(kernel, argv)) - boot
        print(f"{kernel.name}: {name} passes {seconds / taken:.0f} x as fast as real time")


def main() -> None:
    python = str(Path(sys.executable).resolve())
    commands = {
        "computing": [python, "-I", "-S", "-c", WORK],
        "starting processes": ["sh", "-c", STARTS],
    }
    here_s = {name: best(lambda argv=argv: here(argv)) for name, argv in commands.items()}
    for kernel in kernels.installed():
        measure(kernel, here_s, commands)
        if kernel.kind == "sim":
            measure_time(kernel)


if __name__ == "__main__":
    main()
