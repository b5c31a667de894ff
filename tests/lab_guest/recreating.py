"""Root qdiscs, created, and created again from what tc shows of them, or changed in place and put
back: python recreating.py.

Prints a list in JSON: for each what it was and what it is then.
"""

import asyncio
import json
import sys

from netesto.agent import making, putback, qdiscs, steps
from netesto.agent.journal import Change
from netesto.hostsettings import Qdisc
from netesto.system import process

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


CHANGED = (
    ("fq limit 77", "fq maxrate 10mbit nopacing ce_threshold 1ms limit 5"),
    ("fq_codel", "fq_codel ce_threshold 1ms noecn"),
    ("netem limit 9", "netem delay 10ms loss 1%"),
)


def tc(*words: str) -> None:
    process.run(["tc", "qdisc", *words], timeout=60)


async def shown() -> qdiscs.RootQdisc | None:
    return await qdiscs.root("lo")


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


def changed(wanted: str, other: str) -> tuple[str, str]:
    tc("add", "dev", "lo", "root", *wanted.split())
    before = asyncio.run(shown())
    kind, *options = other.split()
    plan = making.plan_qdisc(Qdisc(kind, tuple(options), "change", "lo"), before)
    for step in plan.steps:
        asyncio.run(steps.do(step))
    assert asyncio.run(shown()) != before
    asyncio.run(putback.undo(Change(1, plan.setting, plan.thing, plan.undo)))
    after = asyncio.run(shown())
    tc("del", "dev", "lo", "root")
    return qdiscs.described(before), qdiscs.described(after)


found = [*map(again, WANTED), *(changed(*each) for each in CHANGED)]
json.dump(found, sys.stdout)
