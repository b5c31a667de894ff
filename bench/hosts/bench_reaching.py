"""What ssh adds to runs on several hosts, against what was promised.

The same runs reach the same agents through ssh and, with --insecure, through TCP ports. The hosts
are machines of the tests: the processors of this one do the work of both ends. Each number is that
of the fastest of several; the machine should have nothing else to do. Needs root, and sshd
(.ci/sshd).
"""

import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from worlds import World, machines, missing

HOSTS = 10
REPEATS = 3
EXPERIMENTS = 10

# What was promised, in seconds.
ADDED_TO_A_RUN_S = 1.0
ADDED_TO_AN_EXPERIMENT_S = 0.020

# Short flows: an experiment is mostly calls of agents.
SCRIPT = """\
FOR n IN 1..{count} DO
  SET exp=COUNTER
  DO_SERVER host=h1 exp=$exp
  DO_SERVER host=h2 exp=$exp
  DO_CLIENT host=h1 server=h2 exp=$exp dur=0.2
  WAIT_FLOWS
  PROCESS_EXP exp=$exp
DONE
"""

WAYS = {"ssh": "ssh://{name}", "tcp": "{address}:12870"}


def main() -> int:
    if reason := missing():
        print(f"  nothing is measured: this machine {reason}")
        return 0
    names = [f"h{number}" for number in range(1, HOSTS + 1)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        world = stack.enter_context(machines(*names, folder=folder))
        for name in names:
            port = f"{world[name].address()}:12870"
            stack.enter_context(world[name].agent("--insecure", "--listen", port))
        for way, agent in WAYS.items():
            write_hosts(world, f"{way}.toml", agent, names)
            write_hosts(world, f"{way}2.toml", agent, names[:2])
        for count in (1, 1 + EXPERIMENTS):
            world.controller.write(f"/root/{count}.nts", SCRIPT.format(count=count))
        reached = compare(world, f"{HOSTS} hosts are held and let go", "{way}.toml", 0)
        one = compare(world, "a run of 1 experiment on 2 hosts", "{way}2.toml", 1)
        many = compare(
            world, f"a run of {1 + EXPERIMENTS} experiments", "{way}2.toml", 1 + EXPERIMENTS
        )
    each = (many - one) / EXPERIMENTS
    added = max(reached, one)
    print(f"  ssh adds {added:.3f} s to a run (promised: {ADDED_TO_A_RUN_S} s)")
    print(f"  ssh adds {each * 1000:.1f} ms to an experiment", end=" ")
    print(f"(promised: {ADDED_TO_AN_EXPERIMENT_S * 1000:.0f} ms)")
    return 0 if added <= ADDED_TO_A_RUN_S and each <= ADDED_TO_AN_EXPERIMENT_S else 1


def write_hosts(world: World, path: str, agent: str, names: list[str]) -> None:
    tables = []
    for name in names:
        address = agent.format(name=name, address=world[name].address())
        data = world[name].address("data")
        tables.append(f'[{name}]\nagent = "{address}"\naddresses = ["{data}"]\n')
    world.controller.write(f"/root/{path}", "".join(tables))


def compare(world: World, what: str, hosts: str, count: int) -> float:
    """How much longer a run takes through ssh, in seconds; of no experiment, `hosts check`."""
    taken: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(REPEATS):
        # In turn, so that what else the machine does meets both.
        for way in WAYS:
            argv = ["netesto", "run", "--plain", "--yes", "--insecure", "--out", "/root/out"]
            argv += ["--hosts", hosts.format(way=way), f"{count}.nts"]
            if count == 0:
                argv = ["netesto", "hosts", "check", "--insecure", hosts.format(way=way)]
            began = time.perf_counter()
            world.controller.run(argv, timeout=120)
            taken[way].append(time.perf_counter() - began)
            world.controller.run(["rm", "-rf", "/root/out"])
    fastest = {way: min(times) for way, times in taken.items()}
    shown = ", ".join(f"{way} {seconds:.3f} s" for way, seconds in fastest.items())
    print(f"  {what}: {shown}")
    return fastest["ssh"] - fastest["tcp"]


if __name__ == "__main__":
    sys.exit(main())
