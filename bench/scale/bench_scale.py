"""How long many hosts and many flows take: `bench_scale.py agents memory flows`, or some of them.

- agents: 200 real agents, each a process in a namespace of its own, and a flow from each to the
  next. Needs root.
- memory: 1,000 agents in the controller's memory, a flow from each to the next: what the controller
  itself takes. `memory:N`: N agents, without a limit.
- flows: 512 flows of 60 s, with five samples a second at both ends, from raw files to columns,
  series and page.

Prints seconds by the clock, which another program's work changes, and seconds of the processor,
which are what is judged; of the real agents only the clock can be. How idle the machine was is
therefore printed with it. Ends with 1 if a limit is missed.
"""

import contextlib
import hashlib
import json
import math
import os
import resource
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self

import numpy as np
import psutil

REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "controller"))

from scripted_agent import HERE, ScriptedAgent, Watcher  # noqa: E402

from netesto.collectors import socketfile  # noqa: E402
from netesto.controller import digest, record  # noqa: E402
from netesto.controller.controller import Controller  # noqa: E402
from netesto.controller.inventory import Inventory  # noqa: E402
from netesto.controller.run import RunNetwork, RunOnHosts  # noqa: E402
from netesto.errors import ProcessError  # noqa: E402
from netesto.flowspec import FlowSpec  # noqa: E402
from netesto.grounds import LAB  # noqa: E402
from netesto.language import steps  # noqa: E402
from netesto.model import ClockOffset, Endpoint, GroupRequest, HostInfo, Ports  # noqa: E402
from netesto.report import page  # noqa: E402
from netesto.results import derive, fields, manifest  # noqa: E402
from netesto.results.manifest import GroupRecord, HostRecord, InstanceRecord, Manifest  # noqa: E402
from netesto.results.store import Store  # noqa: E402
from netesto.system import process  # noqa: E402

REAL_AGENTS, MEMORY_AGENTS = 200, 1000
GROUPS, FLOWS_EACH, SECONDS, SAMPLES_PER_S = 8, 64, 60, 5

LIMIT_ORCHESTRATION_S, LIMIT_MB, LIMIT_RESULTS_S = 10.0, 1000.0, 15.0

# What the flows themselves last.
FLOWS_S = 1.0

# How often the use of the machine's processors is read.
READ_S = 0.05

SCRIPT = """\
LAB star hosts={hosts}
DO_SERVER host=h1 exp=COUNTER expName=Many start=1
FOR i IN 2..{hosts} DO
    DO_SERVER host=h$i start=1
DONE
FOR i IN 1..{hosts} DO
    SET_EXP next=$i%{hosts}+1
    DO_CLIENT host=h$i server=h$next test=TCP_STREAM tool=native bitrate=1mbit dur=1 hold=1
DONE
START_FLOWS
WAIT_FLOWS
PROCESS_EXP
"""


@contextlib.contextmanager
def measured(what: str) -> Iterator[Callable[[], float]]:
    """Prints how long the body takes; the value gives its seconds of the processor."""
    used = 0.0
    began, began_cpu = time.perf_counter(), time.process_time()
    yield lambda: used
    used = time.process_time() - began_cpu
    print(f"  {what}: {time.perf_counter() - began:.2f} s by the clock, {used:.2f} s of processor")


class Machine:
    """What this machine's processors do during the body of `with`."""

    def __init__(self) -> None:
        self.load = os.getloadavg()[0]
        self._read = [(time.time(), psutil.cpu_times())]
        self._is_over = threading.Event()
        self._reader = threading.Thread(target=self._follow)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._reader.join()
        self._read.append((time.time(), psutil.cpu_times()))

    def _follow(self) -> None:
        while not self._is_over.wait(READ_S):
            self._read.append((time.time(), psutil.cpu_times()))

    def spent(self, begin_s: float = 0.0, end_s: float = math.inf) -> tuple[float, float, float]:
        """Seconds of all processors between two instants of UTC: used, idle, and stolen by other
        virtual machines."""
        within = [times for time_s, times in self._read if begin_s <= time_s <= end_s]
        first, last = within[0], within[-1]
        idle_s = last.idle + last.iowait - first.idle - first.iowait
        stolen_s = last.steal - first.steal
        # The last two are the time of guests, which is part of the first two.
        return sum(last[:8]) - sum(first[:8]) - idle_s - stolen_s, idle_s, stolen_s


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# ---- agents


def real_agents(folder: Path) -> bool:
    (folder / "many.nts").write_text(SCRIPT.format(hosts=REAL_AGENTS))
    words = ["run", "--plain", "--ground", "lab", "--out", "out", "many.nts"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    with Machine() as machine:
        done = process.run(
            [sys.executable, "-m", "netesto", *words], timeout=600, check=False, cwd=folder
        )
    whole_s = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    if done.status:
        print(done.stdout[-1000:], done.stderr[-1000:])
        return False
    told = json.loads((folder / "out" / "1" / "manifest.json").read_text())
    flows = [flow for group in told["groups"] for flow in group["instances"]]
    orchestration_s = told["ended_s"] - told["started_s"] - FLOWS_S
    busy_s, idle_s, stolen_s = machine.spent(told["started_s"], told["ended_s"])
    others_s = max(0.0, machine.spent()[0] - used_s)
    skews = sorted(abs(flow["start_skew_ms"]) for flow in flows)
    print(
        f"{REAL_AGENTS} real agents, {sum(flow['status'] == 'ok' for flow in flows)} flows ended"
        f" well\n  orchestration: {orchestration_s:.2f} s by the clock beside the flows'"
        f" {FLOWS_S:g} s ({orchestration_s / LIMIT_ORCHESTRATION_S:.2f} x the limit)\n"
        f"  the machine's processors meanwhile, with the flows: {busy_s:.1f} s used,"
        f" {idle_s:.1f} s idle, {stolen_s:.1f} s stolen by other virtual machines\n"
        f"  the whole run with its lab: {whole_s:.1f} s by the clock, {used_s:.1f} s of processor"
        f" of all processes\n"
        f"  the limit is for idle processors: load {machine.load:.1f} before, and other programs"
        f" used {others_s:.1f} s of processor during the run\n"
        f"  starts: {skews[len(skews) // 2]:.1f} ms late in the median, {skews[-1]:.1f} ms at most"
    )
    return orchestration_s <= LIMIT_ORCHESTRATION_S


def memory_agents(folder: Path, count: int = MEMORY_AGENTS) -> bool:
    names = [f"h{number}" for number in range(1, count + 1)]
    agents = {name: ScriptedAgent(name) for name in names}
    addresses = (ip_address("10.0.0.0") + number for number in range(1, count + 1))
    endpoints = [
        Endpoint(host=name, agent="", addresses={4: address})
        for name, address in zip(names, addresses, strict=True)
    ]

    async def connect(endpoint: Endpoint):
        return contextlib.nullcontext(agents[endpoint.host])

    columns = fields.load(REPOSITORY / "fields.txt")
    print(f"{count} agents in memory, a flow from each to the next")
    with contextlib.ExitStack() as stack:
        orchestration = stack.enter_context(contextlib.ExitStack())
        used = orchestration.enter_context(measured("orchestration"))
        controller = stack.enter_context(
            Controller(
                RunOnHosts(
                    inventory=Inventory(endpoints),
                    store=Store(folder / "results"),
                    connect=connect,
                    observer=Watcher(),
                    name="bench",
                    network=RunNetwork(ground=LAB),
                ),
                fields=columns,
                claimable=columns,
                render=page.write,
                index=lambda _: None,
            )
        )
        controller.open_hosts([])
        for name in names:
            controller.remote(
                steps.DoServer(
                    name="DO_SERVER",
                    host=name,
                    exp=1,
                    exp_name="Many",
                    arguments={},
                    place=HERE,
                    order=0,
                    start=True,
                )
            )
        for number, name in enumerate(names, start=1):
            controller.remote(
                steps.DoClient(
                    name="DO_CLIENT",
                    host=name,
                    server=names[number % len(names)],
                    exp=1,
                    exp_name="Many",
                    group=number,
                    arguments={},
                    place=HERE,
                    hold=True,
                    flow=FlowSpec(test="TCP_STREAM", duration_s=1.0),
                )
            )
        controller.start_flows(0.0)
        controller.wait_flows(1, 60.0 * count / MEMORY_AGENTS)
        orchestration.close()
        with measured("data and results, and the hosts let go"):
            controller.process_experiment(1, steps.ExperimentNotes())
    print(f"  memory: {megabytes():.0f} MB at most")
    is_judged = count == MEMORY_AGENTS
    return not is_judged or (used() <= LIMIT_ORCHESTRATION_S and megabytes() <= LIMIT_MB)


# ---- flows


def write_samples(path: Path, start_s: float, flow_ports: list[tuple[int, int]]) -> None:
    """Every flow's socket, all at each tick, as socketfile writes them."""
    header = json.dumps({"format": socketfile.FORMAT, "dtype": socketfile.dtype_of(248)})
    ticks = SECONDS * SAMPLES_PER_S
    records: Any = np.zeros((ticks, len(flow_ports)), np.dtype(json.loads(header)["dtype"]))
    draw = np.random.default_rng(1)
    times = start_s + np.arange(ticks)[:, None] / SAMPLES_PER_S
    records["before_s"], records["after_s"] = times, times + 0.001
    records["idiag_family"], records["idiag_state"] = 2, 1
    records["idiag_sport"] = [local for local, _ in flow_ports]
    records["idiag_dport"] = [peer for _, peer in flow_ports]
    records["congestion_control"] = b"cubic"
    for name, high in (("snd_cwnd", 1000), ("rtt", 50_000), ("unacked", 500)):
        records[f"tcpi_{name}"] = draw.integers(1, high, records.shape)
    records["tcpi_snd_mss"], records["tcpi_min_rtt"] = 1448, 10_000
    for name in ("bytes_acked", "bytes_received", "bytes_sent", "segs_out", "data_segs_out"):
        records[f"tcpi_{name}"] = np.cumsum(draw.integers(1, 100_000, records.shape), axis=0)
    records["tcpi_total_retrans"] = np.cumsum(draw.random(records.shape) < 0.02, axis=0)
    content = header.encode() + b"\n" + records.tobytes()
    path.write_bytes(zlib.compress(content, level=1, wbits=31))


def write_experiment(folder: Path) -> Manifest:
    """512 flows from host a to host b."""
    start_s = 1.8e9
    requests = [
        GroupRequest(
            exp=1,
            group=group,
            exp_name="Many",
            test="TCP_STREAM",
            tool="native",
            client="a",
            server="b",
            client_address=ip_address("10.0.0.1"),
            instances=FLOWS_EACH,
            server_address=ip_address("10.0.0.2"),
            duration_s=float(SECONDS),
            congestion_control="cubic",
            interval_s=1 / SAMPLES_PER_S,
        )
        for group in range(1, GROUPS + 1)
    ]
    numbers = range(1, FLOWS_EACH + 1)
    groups = [
        GroupRecord(
            request=request,
            ports=Ports(
                control=(12866,) * FLOWS_EACH,
                data=tuple(20_000 + request.group * FLOWS_EACH + each for each in numbers),
            ),
            full_host="a",
            full_server="b",
            instances=tuple(
                InstanceRecord(
                    instance=each,
                    status="ok",
                    asked_start_s=start_s,
                    started_s=start_s,
                    ended_s=start_s + SECONDS,
                )
                for each in numbers
            ),
        )
        for request in requests
    ]
    flows = [(group, each) for group in groups for each in numbers]
    pairs = [
        (group.ports.data[each - 1] + 15_000, group.ports.data[each - 1]) for group, each in flows
    ]
    for host in "ab":
        (folder / "raw" / host).mkdir(parents=True)
    write_samples(folder / "raw/a/sockets.bin.gz", start_s, pairs)
    write_samples(folder / "raw/b/sockets.bin.gz", start_s, [pair[::-1] for pair in pairs])
    received = [1_000_000] * (SECONDS * SAMPLES_PER_S)
    told = json.dumps(
        {
            "event": "result",
            "server_received_bytes": sum(received),
            "server_received": received,
            "client_min_rtt_us": 10_000,
            "client_retransmits": 3,
            "server_retransmits": 0,
        }
    ).replace('{"event": ', '{"event":')
    for group, each in flows:
        (folder / f"raw/a/flow.{group.request.group}.{each}.out").write_text(told + "\n")
    info = HostInfo(
        host="a",
        version="1",
        kernel="6.18",
        cpus=2,
        memory_bytes=1 << 30,
        device="eth0",
        addresses=(),
        tools={"native": "1"},
        congestion_controls=("cubic",),
        qdiscs=(),
    )
    paths = [path for path in (folder / "raw").rglob("*") if path.is_file()]
    return Manifest(
        exp=1,
        exp_name="Many",
        description="",
        status="ok",
        run="bench",
        started="2027-01-15T08:00:00Z",
        ended="2027-01-15T08:01:00Z",
        started_s=start_s,
        ended_s=start_s + SECONDS,
        started_monotonic_s=0.0,
        ended_monotonic_s=float(SECONDS),
        ground="hosts",
        groups=tuple(groups),
        hosts={
            name: HostRecord(info=replace(info, host=name), clock=ClockOffset(0.0, 1e-4))
            for name in "ab"
        },
        files={
            str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in paths
        },
    )


def many_flows(folder: Path) -> bool:
    experiment = folder / "1"
    known = write_experiment(experiment)
    columns = fields.load(REPOSITORY / "fields.txt")
    print(
        f"{GROUPS * FLOWS_EACH} flows of {SECONDS} s, {SAMPLES_PER_S} samples a second at each end"
    )
    with measured("all of it") as used:
        with measured("reading"):
            evidence = digest.evidence(experiment, known)
        with measured("cross-checks"):
            found = record.with_evidence(known, evidence)
            list(record.doubts(evidence))
            manifest.write(found, experiment / manifest.NAME)
        with measured("columns and series"):
            rows = derive.derive(experiment, evidence, found, columns)
        with measured("page"):
            page.write(experiment)
    size = (experiment / "exp.html").stat().st_size / 1e6
    print(
        f"  {len(rows)} rows, a page of {size:.1f} MB, {megabytes():.0f} MB of memory at most;"
        f" {used() / LIMIT_RESULTS_S:.2f} x the limit"
    )
    return used() <= LIMIT_RESULTS_S


PARTS: dict[str, Callable[[Path], bool]] = {
    "memory": memory_agents,
    "flows": many_flows,
    "agents": real_agents,
}


def keep_apart(folder: str) -> None:
    """Keep what is made in a folder apart from other files, on ext4.

    For each new file an ext4 without journal examines all inodes nearby that were deleted in the
    last minutes: those of the last run cost this one up to 3 s.
    """
    with contextlib.suppress(ProcessError):
        process.run(["chattr", "+T", folder], timeout=5)


def main() -> int:
    is_good = True
    for name in sys.argv[1:] or PARTS:
        with tempfile.TemporaryDirectory() as apart:
            keep_apart(apart)
            with tempfile.TemporaryDirectory(dir=apart) as folder:
                part, _, count = name.partition(":")
                run = partial(memory_agents, count=int(count)) if count else PARTS[part]
                is_good = run(Path(folder)) and is_good
    return int(not is_good)


if __name__ == "__main__":
    sys.exit(main())
