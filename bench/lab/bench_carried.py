"""What links that netesto's program carries cost, in processor time.

    python bench/lab/bench_carried.py [engine] [sim] [lab]

engine: ten million frames of a stress test. sim: a flow over a link of the program against one over
the kernel's, and over a protected one against that; what a run takes besides is subtracted. lab:
frames of 1514 bytes for each second of the program's processor time, on this machine. Needs root.
"""

import json
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psutil

from netesto import emulator
from netesto.links.given import link_settings
from netesto.system import process

ENGINE_FRAMES, ENGINE_LIMIT_S = 10_000_000, 10.0
PROGRAM_LIMIT, PROTECTED_LIMIT = 2.0, 1.2
TIMES = 3

# LinkGuardian's stress test (scripts/protected-link-stress.nts).
STRESS = "rate=100gbit delay=0.9us overhead=20 loss=0.1 reaction=4.3us pause=40000 resume=36800"

LINKS = {
    "kernel": "emulator=kernel",
    "program": "emulator=program",
    "protected": "protect=ordered",
}
SIM_RATE, SHORT_S, LONG_S = "200mbit", 1, 6
FLOW = """\
LAB pair rate={rate} delay=2 {link}
DO_CLIENT host=a server=b test=TCP_STREAM tool=native ca=cubic dur={dur} exp=COUNTER
WAIT_FLOWS
PROCESS_EXP
"""

# More than the machine can carry; segments, as behind an adapter.
LAB_FLOW = """\
LAB pair rate=100gbit offload=off {link}
DO_CLIENT host=a server=b test=TCP_STREAM tool=native ca=cubic dur=4 exp=COUNTER interval=60
WAIT_FLOWS
PROCESS_EXP
"""


def used_s() -> float:
    """The processor time of all processes that have been waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured_s(argv: list[str]) -> float:
    before_s = used_s()
    process.run(argv, timeout=1200)
    return used_s() - before_s


def run_words(folder: Path, ground: str, script: str) -> list[str]:
    path = folder / "script.nts"
    path.write_text(script)
    words = ("run", "--plain", "--no-pages", "--force", "--seed", "1", "--ground", ground)
    out = tempfile.mkdtemp(dir=folder)
    return [sys.executable, "-m", "netesto", *words, "--out", out, str(path)]


def tell(what: str, value: float, limit: float, unit: str = "") -> bool:
    verdict = "" if value <= limit else ": missed"
    print(f"{what}: {value:.2f}{unit}, limit {limit:g}{unit}{verdict}", flush=True)
    return value <= limit


def engine(_: Path) -> bool:
    found = True
    for mode in ("ordered", "nonblocking"):
        there = dict(word.split("=") for word in f"{STRESS} protect={mode}".split())
        back = {name: there[name] for name in ("rate", "delay", "overhead")}
        back["emulator"] = "program"
        ways = (link_settings(each, what="link") for each in (there, back))
        options = (f"frames={ENGINE_FRAMES}", "size=1518", "seed=1")
        argv = [emulator.program(), "stress", *options, *emulator.words(*ways)]
        took_s = min(measured_s(argv) for _ in range(TIMES))
        found &= tell(f"engine, {mode}, {ENGINE_FRAMES:,} frames", took_s, ENGINE_LIMIT_S, " s")
    return found


def sim(folder: Path) -> bool:
    """In alternation, so that what else the machine does hits all alike."""
    took: dict[str, list[float]] = {name: [] for name in LINKS}
    for _ in range(TIMES):
        for name, link in LINKS.items():
            short_s, long_s = (
                measured_s(run_words(folder, "sim", FLOW.format(rate=SIM_RATE, link=link, dur=dur)))
                for dur in (SHORT_S, LONG_S)
            )
            took[name].append(long_s - short_s)
            print(f"sim, {name}: {short_s:.1f} s, {long_s:.1f} s", flush=True)
    kernel_s, program_s, protected_s = (statistics.median(each) for each in took.values())
    return all(
        (
            tell("sim, link of the program / of the kernel", program_s / kernel_s, PROGRAM_LIMIT),
            tell("sim, protected / not protected", protected_s / program_s, PROTECTED_LIMIT),
        )
    )


def lab(folder: Path) -> bool:
    for name in ("program", "protected"):
        argv = run_words(folder, "lab", LAB_FLOW.format(link=LINKS[name]))
        out = Path(argv[-2])
        with process.background(argv, stdout=Path(os.devnull)) as run:
            program_s = _watched(run)
        last = (out / "1/raw/a/link.b.jsonl").read_text().splitlines()[-1]
        frames = json.loads(last)["wire_frames"]
        user_s, system_s = program_s
        total_s = user_s + system_s
        print(
            f"lab, {name}: {frames / total_s:,.0f} frames for each second of processor time,"
            f" {frames * 1514 * 8 / total_s / 1e9:.2f} Gbit/s; {system_s / total_s:.0%} of it in"
            " the kernel",
            flush=True,
        )
    return True


def _watched(run: process.Child) -> tuple[float, float]:
    """What the program of a run has used, user and system, as long as it was seen."""
    found = (0.0, 0.0)
    while run.poll() is None:
        for each in psutil.process_iter(["cmdline", "cpu_times"]):
            if "ends=a,b" in (each.info["cmdline"] or ()) and each.info["cpu_times"]:
                times = each.info["cpu_times"]
                found = max(found, (times.user, times.system), key=sum)
        time.sleep(0.2)
    return found


def main() -> int:
    parts = {"engine": engine, "sim": sim, "lab": lab}
    chosen = sys.argv[1:] or list(parts)
    with tempfile.TemporaryDirectory() as folder:
        kept = [parts[name](Path(folder)) for name in chosen]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
