"""Root qdiscs, created, and created again from what tc shows of them: python recreating.py.

Prints a list in JSON: for each what it was and what it is then.
"""

import asyncio
import json
import sys

from netesto import process
from netesto.agent import qdiscs

WANTED = (
    "fq",
    "fq limit 5000 flow_limit 50 buckets 512 maxrate 10mbit orphan_mask 511",
    "fq horizon 5s horizon_cap refill_delay 30ms low_rate_threshold 1mbit nopacing",
    "fq horizon 2s horizon_drop timer_slack 20us ce_threshold 1ms",
    "fq_codel limit 83 target 7ms noecn",
    "fq_codel ce_threshold 1ms ecn",
    "netem delay 10ms 1ms 25% loss 1% ecn limit 50",
    "pfifo limit 7",
    "tbf rate 10mbit burst 15000 latency 50ms",
)


def tc(*words: str) -> None:
    process.run(["tc", "qdisc", *words], timeout=5)


async def shown() -> qdiscs.RootQdisc | None:
    root, _ = await qdiscs.read_root("lo")
    return root


def again(wanted: str) -> tuple[str, str]:
    tc("add", "dev", "lo", "root", *wanted.split())
    before = asyncio.run(shown())
    assert before is not None
    words = qdiscs.recreate(before)
    assert words is not None, before
    tc("del", "dev", "lo", "root")
    tc("replace", "dev", "lo", "root", *words)
    after = asyncio.run(shown())
    tc("del", "dev", "lo", "root")
    return qdiscs.described(before), qdiscs.described(after)


json.dump([again(each) for each in WANTED], sys.stdout)
