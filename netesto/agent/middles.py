"""The middle of a lab's link, which changes while the lab is up.

It is in the namespace of the links, where an interface leads to each end (lab.plan) and records
the settings of what leaves by it. A change in place keeps what is queued and under way; a link that
gets another kind of queue, or its first delay or rate, loses it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from netesto import emulator
from netesto.agent import asking
from netesto.agent.steps import Run, Step
from netesto.errors import AgentError, UsageError
from netesto.files import jsontext
from netesto.links import made
from netesto.links.given import changed, recorded
from netesto.links.made import LinkDirection, Maker
from netesto.links.queues import QUEUES
from netesto.links.settings import LinkSettings, written
from netesto.system import process

_ONTO = re.compile(r"Redirect to device ([^)\s]+)\)")
_COUNT = re.compile(r" refcnt \d+")


class NoLimitsError(AgentError):
    """The interface does not lead to a link with limits."""


@dataclass(frozen=True, slots=True)
class Program:
    """The program that carries a link: its socket, and what it calls a direction."""

    socket: str
    direction: str

    def steps(self, link: LinkSettings) -> tuple[Step, ...]:
        words = emulator.words_of(self.direction, link)
        return (Run((emulator.program(), "tell", self.socket, "set", *words)),)


@dataclass(frozen=True, slots=True)
class Middle:
    """One direction of a link: the interface in the namespace of the links by which packets leave
    it, and the program that carries it, if one does."""

    namespace: str
    device: str
    settings: LinkSettings
    program: Program | None = None

    def after(self, given: Mapping[str, str]) -> LinkSettings:
        """Its settings when the given ones have changed. AgentError if it cannot have them."""
        try:
            return changed(self.settings, given, what=f"link {self.device}")
        except UsageError as error:
            raise AgentError(error.message, remedy=error.remedy) from None


async def find(namespace: str, device: str) -> tuple[Middle, Middle]:
    """Both directions of the link behind the interface of a lab's host, what it sends first.
    NoLimitsError if it has none."""
    error = NoLimitsError(
        f"the link of {device} has no limits to change",
        remedy="Set some in LAB: rate=, delay= or loss=",
    )
    if not namespace:
        raise error
    own = asking.first(await asking.output("ip", "-j", "link", "show", "dev", device))
    text = await asking.output("ip", "-netns", namespace, "-j", "link", "show") or "[]"
    ends = {each["ifname"]: each for each in jsontext.parse(text)}
    here = next((name for name, e in ends.items() if e["ifindex"] == own.get("link_index")), None)
    if here is None:
        raise error
    text = await asking.output("tc", "-netns", namespace, "filter", "show", "dev", here, "ingress")
    match = _ONTO.search(text)
    if match is None:
        raise error
    onto = match[1]
    programs: tuple[Program | None, Program | None] = (None, None)
    if recorded(ends[here].get("ifalias", "")).is_carried:
        onto, socket = ends[tap := match[1]]["ifalias"].split(" ")
        # The socket has the name of the device at the first end's side.
        is_first = socket.endswith(f"/.{tap}")
        ways = emulator.DIRECTIONS if is_first else emulator.DIRECTIONS[::-1]
        programs = Program(socket, ways[0]), Program(socket, ways[1])
    return (
        Middle(namespace, onto, recorded(ends[onto].get("ifalias", "")), programs[0]),
        Middle(namespace, here, recorded(ends[here].get("ifalias", "")), programs[1]),
    )


async def show(namespace: str, device: str) -> str:
    """The settings that the interface of a direction records, and what the kernel shows of it, in
    parentheses."""
    link = asking.first(
        await asking.output("ip", "-netns", namespace, "-j", "link", "show", "dev", device)
    )
    qdiscs = await asking.output("tc", "-netns", namespace, "qdisc", "show", "dev", device)
    made_of = ", ".join(
        _COUNT.sub("", line).strip() for line in qdiscs.splitlines() if made.ENTRANCE not in line
    )
    return f"{link.get('ifalias', '')} (mtu {link.get('mtu')}, {made_of})"


def plan(
    middle: Middle, wanted: LinkSettings, maker: Maker
) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """The steps from the settings of a direction to these, and back."""
    if wanted == middle.settings:
        return (), ()
    return (
        _steps(middle, middle.settings, wanted, maker),
        _steps(middle, wanted, middle.settings, maker),
    )


def _steps(
    middle: Middle, before: LinkSettings, after: LinkSettings, maker: Maker
) -> tuple[Step, ...]:
    old, new = made.direction(before, maker), made.direction(after, maker)
    tc = ("tc", "-netns", middle.namespace)
    ip = ("ip", "-netns", middle.namespace, "link", "set", "dev", middle.device)
    steps: list[Step] = [] if middle.program is None else [*middle.program.steps(after)]
    if before.mtu != after.mtu:
        steps.append(Run((*ip, "mtu", str(after.mtu))))
    if old.police != new.police:
        # Linux changes no matchall filter (mall_change in net/sched/cls_matchall.c).
        if old.police:
            steps.append(Run((*tc, "filter", "del", *made.policing(middle.device, ()))))
        if new.police:
            steps.append(Run((*tc, "filter", "add", *made.policing(middle.device, new.police))))
    is_in_place = _is_in_place(old, new, is_same_mtu=before.mtu == after.mtu)
    if old.stages != new.stages or not is_in_place:
        if not is_in_place and old.stages:
            steps.append(Run((*tc, "qdisc", "del", "dev", middle.device, "root")))
        verb = "change" if is_in_place else "add"
        steps += [
            Run((*tc, "qdisc", verb, "dev", middle.device, *place, *stage.words))
            for place, stage in zip(new.places, new.stages, strict=True)
        ]
        if new.delay_ns is not None:
            exact = (middle.namespace, middle.device, str(new.delay_ns))
            steps.append(Run(tuple(process.python("netesto.collectors.delays", *exact))))
    steps.append(Run((*ip, "alias", written(after))))
    return tuple(steps)


def _is_in_place(old: LinkDirection, new: LinkDirection, *, is_same_mtu: bool) -> bool:
    return len(old.stages) == len(new.stages) and all(
        a.can_become(b) and (is_same_mtu or a.kind not in QUEUES or not QUEUES[a.kind].knows_mtu)
        for a, b in zip(old.stages, new.stages, strict=True)
    )
