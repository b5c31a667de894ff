"""What an experiment costs beside its flows: from its first remote command to the written page.

The macro TwoFlowBaseStream of the 2017 paper waits 10 + 5 + 10 + 15 s by the clock, besides the
flows' duration, and starts netserver and processes its data in about 12 s more: 52 s in all. Ours
waits for events. Needs root; takes about 15 s.
"""

import json
import sys
import tempfile
from pathlib import Path

from netesto import process

CLASSIC_OVERHEAD_S = 52.0
RUNS = 3

SCRIPT = """\
LAB dumbbell clients=2 servers=1 rate=100mbit
SOURCE inlib
RUN TwoFlowBaseStream,%d server=server1 client1=client1 client2=client2 expName=overhead \\
    ca1=cubic ca2=bbr dur1=3 dur2=1 delay2=1
"""


def overhead_s(folder: Path) -> float:
    """From the first command to the page, less the time until the last flow's end."""
    manifest = json.loads((folder / "manifest.json").read_text())
    flows = [flow for group in manifest["groups"] for flow in group["instances"]]
    # The page itself is written again when the next experiment gives it a link.
    drawn_s = max(path.stat().st_mtime for path in (folder / "plots").iterdir())
    return drawn_s - max(flow["ended_s"] for flow in flows)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        script, out = Path(name) / "overhead.nts", Path(name) / "out"
        script.write_text(SCRIPT % RUNS)
        argv = [sys.executable, "-m", "netesto", "run", "-q", "--out", str(out), str(script)]
        process.run(argv, timeout=120)
        found = [overhead_s(out / str(exp)) for exp in range(1, RUNS + 1)]
    worst = max(found)
    print("after the last flow's end:", ", ".join(f"{seconds:.2f} s" for seconds in found))
    print(f"the worst is {worst / CLASSIC_OVERHEAD_S:.1%} of the classic tool's fixed waits")


if __name__ == "__main__":
    main()
