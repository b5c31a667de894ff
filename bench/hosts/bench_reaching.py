"""What ssh adds to runs on several hosts, against what was promised.

The same runs reach the same agents through ssh, and through TCP connections that a program at each
end joins to a Unix socket. The hosts are machines of the tests: the processors of this one do the
work of both ends. A run's number is
that of the fastest of several. An experiment's is the median of many, by their manifests: from its
first command until its data are fetched, without its flows. Its page, which takes ten times as
long, would hide the difference. The machine should have nothing else to do. Needs root, and sshd
(.ci/sshd).
"""

import json
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from worlds import AGENT_SOCKET, Machine, World, machines, missing

HOSTS = 10
REPEATS = 3
EXPERIMENTS = 10

# What was promised, in seconds.
ADDED_TO_A_RUN_S = 1.0
ADDED_TO_AN_EXPERIMENT_S = 0.020

# Short flows: an experiment is mostly calls of agents.
SCRIPT = """\
FOR n IN 1..{count} DO
  DO_SERVER host=h1 exp=COUNTER
  DO_SERVER host=h2
  DO_CLIENT host=h1 server=h2 dur=0.2 test=TCP_RR
  WAIT_FLOWS
  PROCESS_EXP
DONE
"""

WAYS = {"ssh": "ssh://{name}", "tcp": "unix:/run/reached/{name}"}

# Joins connections to its first argument to its second: the path of a Unix socket, or HOST:PORT.
RELAY = """\
import asyncio, sys

async def copy(reader, writer):
    while content := await reader.read(65536):
        writer.write(content)
        await writer.drain()
    writer.close()

async def join(reader, writer):
    there = sys.argv[2]
    if "/" in there:
        far_reader, far_writer = await asyncio.open_unix_connection(there)
    else:
        far_reader, far_writer = await asyncio.open_connection(*there.split(":"))
    await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))

async def main():
    here = sys.argv[1]
    if "/" in here:
        server = await asyncio.start_unix_server(join, here)
    else:
        server = await asyncio.start_server(join, *here.split(":"))
    await server.serve_forever()

asyncio.run(main())
"""


def main() -> int:
    if reason := missing():
        print(f"  nothing is measured: this machine {reason}")
        return 0
    names = [f"h{number}" for number in range(1, HOSTS + 1)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        world = stack.enter_context(machines(*names, folder=folder))
        world.controller.run(["mkdir", "-m", "700", "/run/reached"])
        for name in names:
            stack.enter_context(world[name].agent())
            port = f"{world[name].address()}:12870"
            relay(world[name], port, str(AGENT_SOCKET))
            relay(world.controller, f"/run/reached/{name}", port)
        for name in names:
            await_file(world.controller, f"/run/reached/{name}")
        for way, agent in WAYS.items():
            write_hosts(world, f"{way}.toml", agent, names)
            write_hosts(world, f"{way}2.toml", agent, names[:2])
        for count in (1, EXPERIMENTS):
            world.controller.write(f"/root/{count}.nts", SCRIPT.format(count=count))
        reached = compare(world, f"{HOSTS} hosts are held and let go", "{way}.toml", 0)
        one = compare(world, "a run of 1 experiment on 2 hosts", "{way}2.toml", 1)
        each = compare_experiments(world)
    added = max(reached, one)
    print(f"  ssh adds {added:.3f} s to a run (promised: {ADDED_TO_A_RUN_S} s)")
    print(f"  ssh adds {each * 1000:.1f} ms to an experiment", end=" ")
    print(f"(promised: {ADDED_TO_AN_EXPERIMENT_S * 1000:.0f} ms)")
    return 0 if added <= ADDED_TO_A_RUN_S and each <= ADDED_TO_AN_EXPERIMENT_S else 1


def relay(machine: Machine, here: str, there: str) -> None:
    """Join two addresses, as long as the machine lives."""
    machine.start(["python3", "-c", RELAY, here, there])


def await_file(machine: Machine, path: str) -> None:
    """Wait until there is a file."""
    while not machine.exists(path):
        time.sleep(0.05)


def write_hosts(world: World, path: str, agent: str, names: list[str]) -> None:
    tables = []
    for name in names:
        address = agent.format(name=name)
        data = world[name].address("data")
        tables.append(f'[{name}]\nagent = "{address}"\naddresses = ["{data}"]\n')
    world.controller.write(f"/root/{path}", "".join(tables))


def compare(world: World, what: str, hosts: str, count: int) -> float:
    """How much longer a run takes through ssh, in seconds; of no experiment, `hosts check`."""
    taken: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(REPEATS):
        # In turn, so that what else the machine does meets both.
        for way in WAYS:
            argv = run(hosts.format(way=way), count)
            if count == 0:
                argv = ["netesto", "hosts", "check", hosts.format(way=way)]
            began = time.perf_counter()
            world.controller.run(argv, timeout=120)
            taken[way].append(time.perf_counter() - began)
            world.controller.run(["rm", "-rf", "/root/out"])
    fastest = {way: min(times) for way, times in taken.items()}
    shown = ", ".join(f"{way} {seconds:.3f} s" for way, seconds in fastest.items())
    print(f"  {what}: {shown}")
    return fastest["ssh"] - fastest["tcp"]


def run(hosts: str, count: int) -> list[str]:
    words = ["netesto", "run", "--plain", "--yes", "--out", "/root/out"]
    return [*words, "--hosts", hosts, f"{count}.nts"]


def compare_experiments(world: World) -> float:
    """How much more than its flows an experiment takes longer through ssh, in seconds."""
    taken: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(REPEATS):
        for way in WAYS:
            world.controller.run(run(f"{way}2.toml", EXPERIMENTS), timeout=120)
            for exp in range(1, EXPERIMENTS + 1):
                text = world.controller.run(["cat", f"/root/out/{exp}/manifest.json"]).stdout
                taken[way].append(beside_flows_s(json.loads(text)))
            world.controller.run(["rm", "-rf", "/root/out"])
    usual = {way: statistics.median(times) for way, times in taken.items()}
    shown = ", ".join(f"{way} {seconds * 1000:.1f} ms" for way, seconds in usual.items())
    print(f"  an experiment on 2 hosts, beside its flows: {shown}")
    return usual["ssh"] - usual["tcp"]


def beside_flows_s(manifest: dict[str, Any]) -> float:
    """The seconds of an experiment that are not its flows'."""
    flows = [flow for group in manifest["groups"] for flow in group["instances"]]
    first_s = min(flow["asked_start_s"] for flow in flows)
    last_s = max(flow["ended_s"] for flow in flows)
    return float(manifest["ended_s"] - manifest["started_s"] - (last_s - first_s))


if __name__ == "__main__":
    sys.exit(main())
