"""How many of many flows that start together get no data, on each ground.

    python bench/lab/bench_starvation.py sim -D staggers=0,0.001 -D noises=0,1,10,50 -D tool=native

`stagger` is the mean time between two starts in seconds. Flows of native are open before their
instant and start exactly at it; netperf opens its connection then. `noise` holds each packet of the
client for up to twice so many us, in order (by netem, which not every kernel has). For each cell it
prints how many flows got less than a hundredth of their share, and Jain's index of what they got,
for each repetition; their seeds differ.
"""

import json
import re
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from netesto.results import manifest
from netesto.system import process

SCRIPT = """\
LAB dumbbell clients=1 servers=1 rate=100mbit limit=250K offload=off
DEFAULT ns=2,10,100
DEFAULT staggers=0,0.001
DEFAULT noises=0
DEFAULT netem=20
DEFAULT dur=20
DEFAULT reps=3
DEFAULT tool=netperf
IF $netem DO
    SET_NETEM host=server1 netem_delay=$netem limit=100000
DONE
# What a cell sets holds in later ones: 0 is the first of the noises.
SWEEP noise=$noises n=$ns stagger=$staggers reps=$reps DO
    IF $noise DO
        SET OTHER="limit 100000 delay ${noise}us ${noise}us rate 40gbit"
        SET_QDISC host=client1 qdisc=netem other="$OTHER"
    DONE
    DESC $n flows of $tool, base RTT $netem ms, stagger $stagger s, noise $noise us
    DO_SERVER host=server1 exp=COUNTER order=0 start=1
    DO_CLIENT host=client1 server=server1 test=TCP_STREAM tool=$tool ca=cubic dur=$dur \\
        instances=$n stagger=$stagger
    WAIT_FLOWS
    DO_SERVER host=server1 order=1
    GET_DATA host=server1
    GET_DATA host=client1
    PROCESS_EXP
DONE
"""

# Of its equal share; below it a flow starves.
STARVED = 0.01

# A native server counts what it receives in intervals of this length from the first byte.
INTERVAL_S = 0.2

TIMEOUT_S = 6 * 3600.0


def received(experiment: Path) -> list[int]:
    """The bytes that the server of each flow got, netperf's after its connection was open, native's
    until `dur` after the first start: a flow whose first data comes late ends late."""
    outputs = sorted(experiment.glob("raw/client1/flow.*.out"))
    if '"event"' in outputs[0].read_text():
        return received_in_common(outputs)
    reported = [
        re.findall(r"^REMOTE_BYTES_RECVD=(\d+)", each.read_text(), re.MULTILINE) for each in outputs
    ]
    return [int(numbers[-1]) if numbers else 0 for numbers in reported]


def received_in_common(outputs: list[Path]) -> list[int]:
    """The bytes of native flows that arrived in the time of the first of them."""
    flows = [json.loads(each.with_suffix(".json").read_text()) for each in outputs]
    first_s = min(flow["started_s"] for flow in flows)
    amounts: list[int] = []
    for output, flow in zip(outputs, flows, strict=True):
        result = json.loads(output.read_text().splitlines()[-1])
        dur_s = next(float(word[9:]) for word in flow["argv"] if word.startswith("duration="))
        begin_s = flow["started_s"] - first_s + result.get("server_received_after_ns", 0) / 1e9
        whole = int((dur_s - begin_s) / INTERVAL_S)
        amounts.append(sum(result.get("server_received", [])[: max(0, whole)]))
    return amounts


def jain(amounts: list[int]) -> float:
    return sum(amounts) ** 2 / (len(amounts) * sum(amount * amount for amount in amounts))


def main() -> None:
    ground, *options = sys.argv[1:] or ["sim"]
    found: dict[str, list[list[int]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        script, out = Path(folder) / "starvation.nts", Path(folder) / "out"
        script.write_text(SCRIPT)
        words = ("run", "--ground", ground, "--seed", "1", "--no-pages", "--quiet", *options)
        argv = [sys.executable, "-m", "netesto", *words, "--out", str(out), str(script)]
        # A flow without data makes its experiment partial, and the status 1.
        process.run(argv, timeout=TIMEOUT_S, check=False)
        for path in sorted(out.glob(f"*/{manifest.NAME}"), key=lambda path: int(path.parent.name)):
            found[manifest.read(path).description].append(received(path.parent))
    for description, repetitions in found.items():
        starved = [
            sum(amount < STARVED * sum(each) / len(each) for amount in each) for each in repetitions
        ]
        fairness = ", ".join(f"{jain(each):.3f}" for each in repetitions)
        print(f"{ground}: {description}: starved {', '.join(map(str, starved))}; Jain {fairness}")


if __name__ == "__main__":
    main()
