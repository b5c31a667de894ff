"""What holds for every protected link, over random settings, losses and frames."""

import itertools
import json
import random
from collections import Counter, defaultdict

import pytest
from needs import unmet

from netesto.emulator import PROGRAM, words
from netesto.links.given import link_settings
from netesto.system import process


@pytest.fixture(scope="module", autouse=True)
def _program():
    if not PROGRAM.exists():
        unmet("native", "netesto-link was not compiled: no C compiler")


def settings_of_chance(chance):
    """Those of a link, both directions: texts."""
    rate = chance.choice(["none", "10mbit", "1gbit", "100gbit"])
    ways = []
    for _ in range(2):
        loss = chance.choice(["0", "0.5", "5", "30", "ge(1,20)", "ge(5,30,80,1)"])
        given = {
            "rate": rate,
            "delay": chance.choice(["0", "1us", "50us", "2"]),
            "loss": loss,
            "overhead": chance.choice(["0", "20"]),
            "protect": chance.choice(["off", "ordered", "ordered", "nonblocking"]),
            "copies": str(chance.randint(1, 4)),
            "reaction": chance.choice(["0", "5us"]),
            "notice": chance.choice(["0", "1", "5", "100"]),
        }
        if chance.random() < 0.3:
            given["hold"] = chance.choice(["0", "1us", "1"])
        if chance.random() < 0.3:
            given["txbuffer"] = chance.choice(["1514", "5000"])
        if chance.random() < 0.3:
            given["rxbuffer"] = chance.choice(["1514", "5000"])
        if chance.random() < 0.5:
            given |= {"pause": "3000", "resume": chance.choice(["1", "1500", "3000"])}
        if rate != "none" and chance.random() < 0.3:
            given["limit"] = chance.choice(["3p", "10000", "100p"])
        if given["delay"] != "0" and chance.random() < 0.2:
            given["jitter"] = "1us"
        ways.append(given)
    return ways


def lines_of_chance(chance):
    at = 0
    for _ in range(chance.choice([1, 3, 50, 400])):
        at += chance.choice([0, 0, 0, 1_000_000, 100_000_000])
        yield f"give {at} {chance.choice(['to', 'to', 'from'])} {chance.randint(60, 1514)}"
    yield "end"
    for later in (1, 2):
        yield f"state {later * 10**15} to"
        yield f"state {later * 10**15} from"


def check(told, way, given, state, later):
    """What became of the frames of one direction."""
    delivered, lost, dropped = [], defaultdict(list), set()
    for line in told:
        match line.split():
            case [_, of, "delivered", which] if of == way:
                delivered.append(int(which))
            case [_, of, "lost", which, copy] if of == way:
                lost[int(which)].append(int(copy))
            case [_, of, "dropped", which] if of == way:
                dropped.add(int(which))
    count = sum(1 for line in given["lines"] if f" {way} " in line and line.startswith("give"))
    assert [n for n, times in Counter(delivered).items() if times > 1] == []
    if given["protect"] == "ordered":
        assert delivered == sorted(delivered)
    missing = set(range(count)) - set(delivered)
    assert len(dropped) == state["drops"]
    assert dropped <= missing
    undelivered = missing - dropped
    unlost = [n for n in undelivered if 0 not in lost[n]]
    assert len(unlost) <= state["rx_drops"]
    if given["protect"] == "off":
        assert undelivered == {n for n, copies in lost.items() if 0 in copies}
    else:
        # Lost with its copies, or not reported, or too late: given up; dropped by a limit; or after
        # all that the receiver has heard of.
        unheard = state["frames"] - state["expected"]
        assert len(undelivered) == state["given_up"] + state["rx_drops"] + unheard
    assert (state["held"], state["rx_bytes"]) == (0, 0)
    assert state["paused_s"] == later["paused_s"]
    assert state["stalled_s"] == later["stalled_s"]
    assert state["delivered"] == len(delivered)


@pytest.mark.parametrize("seeds", [range(n, n + 50) for n in range(0, 400, 50)], ids=str)
def test_every_frame_is_delivered_once_or_missing_for_a_reason(seeds):
    for seed in seeds:
        chance = random.Random(seed)
        ways = settings_of_chance(chance)
        lines = list(lines_of_chance(chance))
        for each in ways:
            each["lines"] = lines
        made = [link_settings({k: v for k, v in each.items() if k != "lines"}, what=f"seed {seed}")
                for each in ways]  # fmt: skip
        command = [str(PROGRAM), "replay", *words(*made), "chance", "quiet", f"seed={seed}"]
        told = process.run(command, timeout=60, stdin="\n".join([*lines, ""])).stdout.splitlines()
        states = [json.loads(line) for line in itertools.islice(reversed(told), 4)][::-1]
        for number, way in enumerate(("to", "from")):
            check(told, way, ways[number], states[number], states[2 + number])
