"""What links cost in simulated time: processor time of each simulated second of two CUBIC flows.

Packets of the MTU, as by default, against super-packets (`offload=on`), in alternation. What a run
takes besides, its start and its page, is subtracted: that of a shorter run.
"""

import statistics
import sys
import tempfile
from pathlib import Path

from bench_carried import measured_s, run_words, tell

REPEATS = 3

FLOWS = """\
LAB pair rate={rate} rtt=20 {offload}
DO_CLIENT host=a server=b test=TCP_STREAM tool=native ca=cubic instances=2 dur={dur} exp=COUNTER
WAIT_FLOWS
PROCESS_EXP
"""

SHORT_S = 1
# A rate, the duration of the long run, and the limit for packets of the MTU, in seconds.
RATES = (("100mbit", 21, 0.19), ("1gbit", 5, 1.5))


def second_s(folder: Path, rate: str, dur: int, offload: str) -> float:
    """Processor time of a simulated second."""
    short_s, long_s = (
        measured_s(run_words(folder, "sim", FLOWS.format(rate=rate, offload=offload, dur=each)))
        for each in (SHORT_S, dur)
    )
    return (long_s - short_s) / (dur - SHORT_S)


def main() -> int:
    all_kept = True
    with tempfile.TemporaryDirectory() as scratch:
        for rate, dur, limit_s in RATES:
            took: dict[str, list[float]] = {"": [], "offload=on": []}
            for _ in range(REPEATS):
                for offload, found in took.items():
                    found.append(second_s(Path(scratch), rate, dur, offload))
                    print(f"{rate} {offload}: {found[-1]:.2f} s", flush=True)
            packets_s, super_s = (statistics.median(each) for each in took.values())
            all_kept &= tell(f"{rate}, packets of the MTU", packets_s, limit_s, " s")
            print(f"{rate}: {packets_s / super_s:.1f} times that of super-packets")
    return 0 if all_kept else 1


if __name__ == "__main__":
    sys.exit(main())
