"""How long one waits for a lab, and for a run on each ground, against what was promised.

Each number is the median of several; the machine should have nothing else to do. Needs root, and
for the last part the kernels of `netesto kernel list`. Debian's mininet is measured beside ours if
it is installed:  apt-get install --no-install-recommends mininet
"""

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from netesto.grounds import GROUNDS, SIM
from netesto.lab import kernels, netns
from netesto.run import labs
from netesto.system import process

REPEATS = 5
RUNS = 3

# What was promised, in seconds.
AGENTS_READY_S = 2.0
FAT_TREE_S = 0.7
GUEST_ADDS_S = {"uml": 6.0, "sim": 4.0}
TWO_FLOWS_S = 15.0

# One short experiment: what a ground adds is what its run takes longer than on `lab`.
SHORT = """\
LAB pair rate=50mbit
SOURCE inlib
RUN OneFlowStream server=b client=a expName=short ca=cubic dur=1
"""

# The paper's experiment, at its length.
TWO_FLOWS = ("-D", "dur=60", "--lab", "dumbbell,clients=2,servers=1,rate=10mbit,rtt=40")

# The same 36 nodes and 48 links as in our fat tree, routers being namespaces in both. It makes no
# addresses for the links and no routes, as ours does. `inited` keeps it from changing the machine's
# sysctls.
MININET = """
import time
from mininet.net import Mininet
Mininet.inited = True
began = time.perf_counter()
net = Mininet(controller=None)
names = [f"{kind}{n}" for kind, many in (("c", 4), ("a", 8), ("e", 8), ("h", 16))
         for n in range(1, many + 1)]
node = {name: net.addHost(name, ip=None) for name in names}
for pod in range(4):
    for a in (1, 2):
        aggregation = node[f"a{2 * pod + a}"]
        for core in (1, 2):
            net.addLink(aggregation, node[f"c{2 * (a - 1) + core}"])
        for e in (1, 2):
            net.addLink(aggregation, node[f"e{2 * pod + e}"])
    for e in (1, 2):
        for h in (1, 2):
            net.addLink(node[f"e{2 * pod + e}"], node[f"h{4 * pod + 2 * (e - 1) + h}"])
net.build()
assert (len(net.hosts), len(net.links)) == (36, 48)
print(time.perf_counter() - began)
"""


def median(seconds: Callable[[], float], repeats: int) -> float:
    return statistics.median(seconds() for _ in range(repeats))


def tell(what: str, took_s: float, promised_s: float) -> None:
    print(f"{what}: {took_s:.2f} s, {took_s / promised_s:.2f} x the {promised_s:g} s promised")


def up_s(spec: str, *, agents: bool) -> float:
    """Until a lab is ready; taking it down is not counted."""
    plan = labs.plan_of(labs.network(labs.parse_spec(spec)))
    began = time.perf_counter()
    with netns.up(plan, agents=agents):
        return time.perf_counter() - began


def mininet_s() -> float:
    """Until mininet's network is ready, in namespaces of which nothing is left when it ends."""
    alone = ("unshare", "--net", "--pid", "--mount-proc", "--fork", "--kill-child", "--")
    made = process.run([*alone, "/usr/bin/python3", "-c", MININET], timeout=60)
    return float(made.stdout.split()[-1])


def run_s(script: Path, *options: str) -> float:
    """From the command to the page."""
    with tempfile.TemporaryDirectory() as out:
        words = ("run", "--quiet", "--out", out, *options, str(script))
        began = time.perf_counter()
        process.run([sys.executable, "-m", "netesto", *words], timeout=600)
        took_s = time.perf_counter() - began
        assert (Path(out) / "1" / "exp.html").is_file(), "a run makes a page"
    return took_s


def measure_labs() -> None:
    dumbbell_s = median(lambda: up_s("dumbbell,clients=3", agents=True), REPEATS)
    tell("dumbbell with 3 clients, agents ready", dumbbell_s, AGENTS_READY_S)
    tree_s = median(lambda: up_s("fattree", agents=False), REPEATS)
    tell("fat tree, 36 namespaces and 48 links", tree_s, FAT_TREE_S)
    if shutil.which("mnexec") is None:
        print("mininet is not here: apt-get install --no-install-recommends mininet")
        return
    theirs_s = median(mininet_s, REPEATS)
    print(f"the same in mininet: {theirs_s:.2f} s, {theirs_s / tree_s:.1f} x ours")


def measure_runs() -> None:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "short.nts"
        script.write_text(SHORT)
        lab_s = median(lambda: run_s(script, "--ground", "lab"), RUNS)
        print(f"an experiment of 1 s on lab, from command to page: {lab_s:.2f} s")
        for ground in (each for each in GROUNDS.values() if each.has_guests):
            if kernels.find(ground) is not None:
                took_s = median(partial(run_s, script, "--ground", ground.name), RUNS)
                tell(f"{ground} adds to it", took_s - lab_s, GUEST_ADDS_S[ground.name])
    if kernels.find(SIM) is not None:
        script = Path(__file__).parents[2] / "scripts" / "two-flows.nts"
        two_flows_s = median(lambda: run_s(script, "--ground", "sim", *TWO_FLOWS), RUNS)
        tell("two flows of 60 s, 10 Mbit/s and 40 ms, on sim", two_flows_s, TWO_FLOWS_S)


def main() -> None:
    measure_labs()
    measure_runs()


if __name__ == "__main__":
    main()
