"""How fast scripts are read and run: parsing, statements, remote commands, and memory.

Statements: 100,000 passes of FOR, each running a macro of ten lines (1.1 million statements).
Exit status 1 if they take longer than LIMIT_S, or if memory grows with the length of a script.
"""

import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from netesto.language.draft import Draft
from netesto.language.dryrun import Printer
from netesto.language.parser import parse
from netesto.language.plan import SourceFile
from netesto.language.planner import make
from netesto.language.steps import Step

PASSES = 100_000
LIMIT_S = 2.0
LIMIT_GROWTH = 1.1

MACRO = """BEGIN Ten
SET a=$x
SET b=$a-$x
SET_EXP c=$x*2+1
IF $c > 10: SET d=1
IF $tcpDump: ECHO no
IF_DEF preServer: RUN preServer
SET e=client$x
SET_EXP f=c/3
SET g=
SET h=$e,$b
END Ten
"""
LOOP = MACRO + "FOR i IN 1..{} DO\nRUN Ten x=$i\nDONE\n"

REMOTE = """SOURCE inlib
SET dur=1
FOR i IN 1..{} DO
RUN OneFlowStream server=s client=c ca=bbr
DONE
"""

LIBRARY = """BEGIN M{0}
SET exp=COUNTER
FOR c IN $clients DO
DO_CLIENT host=$c server=$s ca=$ca \\
   dur=$dur delay=0 test=TCP_RR \\
   instances=$instances req=$r stats=1 # a flow
IF $x > {0}: DO_TCPDUMP host=a server=b
IF_DEF preClient: RUN preClient host=$client1
DONE
END M{0}
"""


def seconds(work: Callable[[], object]) -> float:
    """Processor time: what else runs on the machine is left out as far as it can be."""
    started = time.process_time()
    work()
    return time.process_time() - started


def dry_run(text: str) -> None:
    """What `run -n` does: it prints the steps and keeps none."""
    _make(text, watch=Printer(lambda _: None).show, keep=False)


def plan(text: str) -> None:
    """What `plan` and `run` do."""
    _make(text, watch=None, keep=True)


def _make(text: str, *, watch: Callable[[Step], None] | None, keep: bool) -> None:
    library = Path(__file__).parents[2] / "lib"
    script = SourceFile("script", text)
    draft = Draft(seed=1, watch=watch, keep=keep)
    make(script, draft, library_path=[library], definitions={}).close()


def peak_kilobytes(text: str) -> float:
    tracemalloc.start()
    plan(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1000


def main() -> int:
    library = "".join(LIBRARY.format(number) for number in range(1000))
    parse(LIBRARY.format(0), file="warm")
    count = library.count("\n")
    print(f"parse a library of {count:,} lines: {seconds(lambda: parse(library, file='x')):.2f} s")

    loop = seconds(lambda: dry_run(LOOP.format(PASSES)))
    statements = 11 * PASSES
    print(f"run {statements:,} statements: {loop:.2f} s, {loop / statements * 1e6:.2f} µs each")

    experiments = 2_000
    remote = seconds(lambda: dry_run(REMOTE.format(experiments)))
    print(f"dry run of {experiments:,} experiments of inlib: {remote:.2f} s")
    kept = seconds(lambda: plan(REMOTE.format(experiments)))
    print(f"plan of {experiments:,} experiments of inlib: {kept:.2f} s")

    of_passes = peak_kilobytes(LOOP.format(20_000)) / peak_kilobytes(LOOP.format(1_000))
    print(f"peak memory, 20,000 passes against 1,000: {of_passes:.2f} to 1")
    of_experiments = peak_kilobytes(REMOTE.format(1_000)) / peak_kilobytes(REMOTE.format(100))
    print(f"peak memory, 1,000 experiments against 100: {of_experiments:.2f} to 1")
    return int(loop > LIMIT_S or max(of_passes, of_experiments) > LIMIT_GROWTH)


if __name__ == "__main__":
    sys.exit(main())
