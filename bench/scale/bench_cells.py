"""What a SWEEP of many cells takes in the controller: `bench_cells.py [COUNT …]`, 10,000 if none.

The worker is empty: it has the results of each cell, of one experiment with two groups, at once.
What is left is what the controller does for each cell: its part of the plan, its job, the adoption
of its results, exp.csv, the index and the display.

Prints the processor time of the plan, of both halves of the run, and of its end, when the index and
the pages of all rows are drawn; the maximum memory, and the size of the index. Ends with 1 if a
limit is missed. `--profile` prints where the time of the controller went, `--keep FOLDER` keeps the
results.
"""

import argparse
import asyncio
import contextlib
import cProfile
import json
import pstats
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from netesto.cli import displayed
from netesto.cli.display import Display
from netesto.files import paths
from netesto.grounds import SIM
from netesto.lab.kernels import Kernel
from netesto.language.plan import Part, SourceFile
from netesto.report.neighbours import PAGE, Neighbours
from netesto.results import csvfile, fields, store
from netesto.results.runs import RunRecord
from netesto.run import drawer, guests
from netesto.run.request import RunRequest, Shown
from netesto.run.session import RunEnd, RunSession
from netesto.run.settings import RunSettings
from netesto.run.workers import Task, TaskEnd

COUNT = 10_000

# Of COUNT cells; of fewer in proportion, but for the memory. In the second half a cell takes as
# long as in the first; equal runs differ by a fifth on a virtual machine.
LIMIT_S, LIMIT_MB, LIMIT_INDEX_MB, LIMIT_RATIO = 60.0, 500.0, 3.0, 1.25
LIMIT_END_S = 15.0

RUN = "2026-11-20T121500.250Z"
REPETITIONS = 10
SCRIPT = """\
LAB dumbbell clients=2 servers=2 rate=10mbit delay=10
SWEEP size=1..{sizes} ca=reno,cubic reps={repetitions} DO
    DO_SERVER host=server1 exp=COUNTER expName=Many
    DO_SERVER host=server2
    DO_CLIENT host=client1 server=server1 test=TCP_STREAM ca=$ca dur=1
    DO_CLIENT host=client2 server=server2 test=TCP_STREAM ca=$ca dur=1
    WAIT_FLOWS
    PROCESS_EXP
DONE
"""

# What a run in simulated time fills of two streams. Those of MEASURED differ from cell to cell.
SAME = {
    "expName": "Many", "test": "TCP_STREAM", "kernel": "6.1.192-8906d2", "instances": "1.0",
    "instance": "1.0", "dur": "1.0", "delay": "0.0", "req": "1000000.0", "reply": "1.0",
    "remoteRetrans": "0.0", "tool": "netperf", "status": "ok", "flowsFailed": "0.0",
    "effMss": "1448.0", "sampleInterval": "200.000", "sampleIntervalP99": "200.0",
    "sampleIntervalWorst": "200.0", "parallel": "1", "zerocopy": "0", "omit": "0", "mtu": "1500",
    "pingLost": "0.0", "rwnd_limited": "0.000", "sndbuf_limited": "0.000", "sharedFlows": "2.0",
}  # fmt: skip
MEASURED = {
    "cwnd": 146.127, "rtt": 35626.810, "pingRtt": 35331.429, "rate": 9.066, "rateMin": 2.2,
    "rateMax": 6.9, "retransPkts%": 0.03, "minLatency": 7.0, "maxLatency": 104050.0,
    "meanLatency": 3330.250, "p99Latency": 63966.500, "localRetrans": 35.0, "lost": 1.0,
    "retrans": 1.0, "retrans_total": 35.0, "client-rx-packets": 63077.0,
    "client-tx-packets": 116012.0, "client-rx-bytes": 4174702.0, "client-tx-bytes": 175512452.0,
    "client-tx-packet-len": 1512.9, "client-rx-packet-len": 66.2, "startSkew": 0.9,
    "fairness": 0.846, "retransSegs%": 0.030, "data_segs_out": 115920.0, "pingP50": 36600.000,
    "pingP95": 39800.000, "pingMax": 39900.0, "rpm": 1711.4, "backlog": 190310.000,
    "backlogMax": 245268.0, "queueDelay": 15224.784, "queueDrops": 35.0,
    "tcpi_busy_time": 14096000.000, "maxLinkUtil%": 98.3,
}  # fmt: skip


class EmptyWorker:
    """Has the results of each part of a plan at once. `middle_s` is the processor time of this
    process when half of the `count` parts had begun, `own_s` what writing the results took of it in
    both halves."""

    places = 2

    def __init__(self, count: int, names: Sequence[str]) -> None:
        self._count = count
        self._names = names
        self._begun = 0
        self.middle_s = 0.0
        self.own_s = [0.0, 0.0]

    def connected(self) -> contextlib.AbstractAsyncContextManager[None]:
        return contextlib.nullcontext()

    async def more(self) -> int:
        """There are never more places."""
        await asyncio.Event().wait()
        return 0

    async def carry_out(self, task: Task, job: Path, lock: int) -> TaskEnd:
        """The results that another process would have made."""
        del job, lock
        half = int(2 * self._begun >= self._count)
        began_s = time.process_time()
        if half and not self.middle_s:
            self.middle_s = began_s
        self._begun += 1
        self._write(task.folder, task.part)
        self.own_s[half] += time.process_time() - began_s
        await asyncio.sleep(0)
        return TaskEnd(0)

    def interrupt(self, number: signal.Signals) -> None:
        """It has nothing to end."""

    def _write(self, folder: Path, part: Part) -> None:
        exp = part.before + 1
        noise = random.Random(exp)
        (folder / str(exp)).mkdir()
        page = Neighbours(None, None)
        (folder / str(exp) / PAGE).write_text(f"{page.mark}\n{page.navigation}\n")
        rows = []
        for group in range(3):
            known = {
                **SAME,
                **{name: f"{noise.gauss(1, 0.1) * mean:.3f}" for name, mean in MEASURED.items()},
                **part.cell,
                "exp": f"{exp}.{group}",
                "expNumber": str(exp),
                "group": str(group),
            }
            rows.append([known.get(name, "") for name in self._names])
        (folder / store.TABLE).write_text(csvfile.text([self._names], rows))
        entry = {
            "cell": part.cell, "experiments": [exp], "hash": part.hash, "run": RUN,
            "script": "many",
        }  # fmt: skip
        (folder / "cells.jsonl").write_text(json.dumps(entry, sort_keys=True) + "\n")
        (folder / "runs").mkdir()
        record = {
            "name": RUN, "argv": [], "script_path": "many.nts", "script": "", "seed": 1,
            "started": "", "ground": "sim", "hosts": {"a1": "unix:a1"}, "experiments": [exp],
        }  # fmt: skip
        (folder / "runs" / f"{RUN}.json").write_text(json.dumps(record))


@contextlib.contextmanager
def timed_end() -> Iterator[list[float]]:
    """How long drawing the last index took, in processor time."""
    took_s: list[float] = []
    finish = drawer.finish_index

    def timed(folder: Path, *, is_changed: bool) -> None:
        began_s = time.process_time()
        finish(folder, is_changed=is_changed)
        took_s.append(time.process_time() - began_s)

    drawer.finish_index = timed
    try:
        yield took_s
    finally:
        drawer.finish_index = finish


def measure(count: int, out: Path, *, profile: bool) -> int:
    """Measure a run of so many cells; the number of limits that it misses."""
    script = SCRIPT.format(sizes=count // (2 * REPETITIONS), repetitions=REPETITIONS)
    settings = RunSettings(libraries=(), definitions={}, max_iterations=10**6, seed=1)
    request = RunRequest(
        script="many.nts", settings=settings, out=out, ground=SIM, shown=Shown(plain=True)
    )
    began_s = time.process_time()
    columns = fields.load(paths.fields_file())
    kernel_file = out.parent / "kernel"
    kernel_file.write_text("a kernel")
    kernel = Kernel(
        name="sim-6.12", kind="sim", path=kernel_file, modules=None, version="6.12",
        config_hash="c",
    )  # fmt: skip
    with settings.plan(SourceFile("many.nts", script), columns) as plan:
        planned_s = time.process_time()
        record = RunRecord(
            name=RUN, argv=(), script_path="many.nts", script=script, seed=1, started=""
        )
        head = plan.head
        assert len(plan.outer) == count, f"{count} is no multiple of {2 * REPETITIONS}"

        names = columns.with_names(head.columns).names
        worker = EmptyWorker(count, names)

        def carry_out(display: Display) -> RunEnd:
            session = RunSession(
                request=request,
                plan=plan,
                record=record,
                fields=columns.with_names(head.columns),
                ground=SIM,
                out=out,
                watcher=display,
                kernel_hash=kernel.sha256(),
            )
            return guests.run_parts(session, kernel, worker)

        profiler = cProfile.Profile()
        if profile:
            profiler.enable()
        elapsed_s = time.monotonic()
        with timed_end() as took_s:
            displayed.run(request, carry_out)
        elapsed_s = time.monotonic() - elapsed_s
        profiler.disable()
    ended_s = time.process_time()
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    index_mb = (out / PAGE).stat().st_size / 1e6
    assert len(store.experiments(out)) == count, "all cells have results"
    first_s = worker.middle_s - planned_s - worker.own_s[0]
    second_s = ended_s - worker.middle_s - worker.own_s[1] - sum(took_s)
    said = sys.stderr
    print(f"{count} cells", file=said)
    missed = 0
    share = count / COUNT
    for what, value, unit, limit in (
        ("plan", planned_s - began_s, "s", None),
        ("first half", first_s, "s", None),
        ("second half", second_s, "s", None),
        ("the end", sum(took_s), "s", LIMIT_END_S * share),
        ("second half / first half", second_s / first_s, "", LIMIT_RATIO),
        ("all processor time", planned_s - began_s + first_s + second_s, "s", LIMIT_S * share),
        ("elapsed", elapsed_s, "s", None),
        ("memory", memory_mb, "MB", LIMIT_MB),
        ("index", index_mb, "MB", LIMIT_INDEX_MB if count >= COUNT else None),
    ):
        is_missed = limit is not None and value > limit
        missed += is_missed
        of = "" if limit is None else f" (limit {limit:g}{', missed' if is_missed else ''})"
        print(f"  {what}: {value:.2f} {unit}{of}", file=said)
    if profile:
        found = pstats.Stats(profiler, stream=said)
        found.sort_stats("cumulative").print_stats(60)
        found.sort_stats("tottime").print_stats(40)
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counts", nargs="*", type=int, default=[COUNT], metavar="COUNT")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    if len(options.counts) > 1:
        # Each in a process of its own: memory and the time of children are those of one run.
        extra = ["--profile"] * options.profile
        runs = [
            subprocess.run([sys.executable, __file__, str(count), *extra], check=False).returncode
            for count in options.counts
        ]
        return max(runs)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(options.keep or folder) / "out"
        out.parent.mkdir(parents=True, exist_ok=True)
        [count] = options.counts
        return min(1, measure(count, out, profile=options.profile))


if __name__ == "__main__":
    sys.exit(main())
