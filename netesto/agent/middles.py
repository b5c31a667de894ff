"""The middle of a lab's link: its shaper, delay and queue, which change while the lab is up.

They are in the namespace of the links, where an interface leads to each end (lab.plan). A change in
place keeps what is queued; a link that gets its first delay or rate loses what is on it.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from netesto import jsontext, shaping, units
from netesto.agent import asking, qdiscs
from netesto.agent.journal import Run, Step
from netesto.errors import AgentError
from netesto.hostsettings import LinkLimits

# /proc/net/psched of every kernel with timers of high resolution.
_TICKS_PER_US = 15.625

_ONTO = re.compile(r"Redirect to device ([^)\s]+)\)")
_ABOVE_QUEUES = frozenset({"netem", "tbf"})

Options = Mapping[str, Any]


class NoLimitsError(AgentError):
    """The interface does not lead to a link with limits."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One qdisc of a link: netem, tbf, or the queue below."""

    kind: str
    options: Options


@dataclass(frozen=True, slots=True)
class Middle:
    """One direction of a link: an interface in the namespace of the links, and its qdiscs from the
    root on."""

    namespace: str
    device: str
    stages: tuple[Stage, ...]

    @property
    def thing(self) -> str:
        return f"limits {self.namespace} {self.device}"


async def find(namespace: str, device: str) -> tuple[Middle, ...]:
    """Both directions of the link behind the interface of a lab's host, what it sends first.
    NoLimitsError if it has none."""
    error = NoLimitsError(
        f"the link of {device} has no limits to change",
        remedy="Set some in LAB: rate=, delay= or loss=",
    )
    if not namespace:
        raise error
    own = asking.first(await asking.output("ip", "-j", "link", "show", "dev", device))
    ends = jsontext.parse(
        await asking.output("ip", "-netns", namespace, "-j", "link", "show") or "[]"
    )
    here = next((e["ifname"] for e in ends if e["ifindex"] == own.get("link_index")), None)
    if here is None:
        raise error
    text = await asking.output("tc", "-netns", namespace, "filter", "show", "dev", here, "ingress")
    match = _ONTO.search(text)
    if match is None:
        raise error
    return (await read(namespace, match[1]), await read(namespace, here))


async def read(namespace: str, device: str) -> Middle:
    """One direction as it is now."""
    words = ("tc", "-netns", namespace, "-raw", "-j", "qdisc", "show", "dev", device)
    return Middle(namespace, device, parse(await asking.output(*words)))


async def shown(thing: str) -> str:
    """What the kernel shows of a direction that is called `limits NAMESPACE DEVICE`."""
    _, namespace, device = thing.split(" ")
    return described((await read(namespace, device)).stages)


def described(stages: Sequence[Stage]) -> str:
    """The stages in the words of tc(8); those of unknown kinds by what tc shows of them."""
    return ", ".join(
        " ".join(_words(stage) or (stage.kind, json.dumps(stage.options, sort_keys=True)))
        for stage in stages
    )


def parse(text: str) -> tuple[Stage, ...]:
    """The stages in the output of `tc -raw -j qdisc show`, from the root on."""
    return tuple(Stage(each["kind"], each.get("options", {})) for each in qdiscs.installed(text))


def changed(
    stages: Sequence[Stage], limits: LinkLimits, *, mtu: int, burst_s: float
) -> tuple[Stage, ...]:
    """The stages that a link has with other limits. AgentError if it cannot have them."""
    by_kind = {stage.kind: dict(stage.options) for stage in stages}
    queue = next((each for each in stages if each.kind not in _ABOVE_QUEUES), None)
    tbf, netem = by_kind.get("tbf"), by_kind.get("netem")
    if limits.delay_ms is not None or limits.loss_percent is not None or netem is not None:
        netem = _netem(netem or {}, limits)
    delay = {"delay": 0.0, "jitter": 0.0, **(netem or {}).get("delay", {})}
    if limits.rate_bps is not None:
        room = shaping.queue_bytes(limits.rate_bps, delay["delay"] * 1000, mtu)
        tbf = {"rate": limits.rate_bps / 8, "burst": 0, "limit": tbf["limit"] if tbf else room}
    if tbf is not None:
        # It depends only on the new rate and MTU.
        burst = shaping.burst_bytes(tbf["rate"] * 8, mtu, burst_s)
        tbf = {"rate": tbf["rate"], "burst": burst, "limit": tbf["limit"]}
    if limits.limit:
        if tbf is None:
            raise AgentError(f"limit={limits.limit}: nothing queues on a link without rate=")
        queue, tbf = _queue(limits.limit, queue, tbf)
    if netem is not None:
        rate_bps = tbf["rate"] * 8 if tbf is not None else None
        longest_ms = (delay["delay"] + delay["jitter"]) * 1000
        netem = {"limit": shaping.delay_line_packets(rate_bps, longest_ms), **netem}
    made = (
        Stage("netem", netem) if netem is not None else None,
        Stage("tbf", tbf) if tbf else None,
    )
    return tuple(each for each in (*made, queue) if each is not None)


def plan(middle: Middle, wanted: Sequence[Stage]) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """The steps from the stages of a direction to these, and back. AgentError if a stage cannot be
    rebuilt."""
    kinds = [stage.kind for stage in middle.stages]
    if described(wanted) == described(middle.stages):
        return (), ()
    if [stage.kind for stage in wanted] == kinds:
        return _in_place(middle, wanted, middle.stages), _in_place(middle, middle.stages, wanted)
    if any(_words(stage) is None for stage in (*middle.stages, *wanted)):
        raise AgentError(
            f"link {middle.device}: its queue {kinds[-1]} cannot be rebuilt",
            remedy="give the link a delay or a rate in LAB; it can then change",
        )
    return _rebuilt(middle, wanted), _rebuilt(middle, middle.stages)


def _in_place(middle: Middle, stages: Sequence[Stage], now: Sequence[Stage]) -> tuple[Step, ...]:
    """The steps from the stages `now` to others of the same kinds. tbf gives a FIFO its own limit,
    so that of a FIFO always follows."""
    return tuple(
        Run(("tc", "-netns", middle.namespace, "qdisc", "change", *_place(middle, number), *words))
        for number, (stage, was) in enumerate(zip(stages, now, strict=True))
        if stage != was or stage.kind in _ABOVE_QUEUES or "fifo" in stage.kind
        for words in (_changing(stage, stages),)
    )


def _changing(stage: Stage, stages: Sequence[Stage]) -> tuple[str, ...]:
    """The words that change a stage in place; of a queue only its limit ever changes."""
    if stage.kind in _ABOVE_QUEUES:
        return _words(stage) or ()
    if stage.kind == "sfq":
        raise AgentError("the limit of sfq cannot change", remedy="set it in LAB: limit=")
    name = shaping.limit_word(stage.kind)
    words = (stage.kind, name, str(stage.options[name]))
    if stage.kind == "red":
        rate = next(each.options["rate"] * 8 for each in stages if each.kind == "tbf")
        return (*words, "avpkt", str(shaping.RED_PACKET_BYTES), "bandwidth", f"{rate:.0f}bit")
    return words


def _rebuilt(middle: Middle, stages: Sequence[Stage]) -> tuple[Step, ...]:
    tc = ("tc", "-netns", middle.namespace, "qdisc")
    return (
        Run((*tc, "del", "dev", middle.device, "root")),
        *(
            Run((*tc, "add", *_place(middle, number), *(_words(stage) or ())))
            for number, stage in enumerate(stages)
        ),
    )


def _place(middle: Middle, number: int) -> tuple[str, ...]:
    parent = ("parent", f"{number}:1") if number else ("root",)
    return ("dev", middle.device, *parent, "handle", f"{number + 1}:")


def _words(stage: Stage) -> tuple[str, ...] | None:
    if stage.kind == "tbf":
        rate = f"{stage.options['rate'] * 8:.0f}bit"
        burst = _burst(stage.options)
        return ("tbf", "rate", rate, "burst", str(burst), "limit", str(stage.options["limit"]))
    return qdiscs.words(stage.kind, stage.options)


def _burst(options: Options) -> int:
    """The size that makes tc set the kernel's current burst. The kernel stores a time in ticks of
    64 ns, and shows it in bytes, sometimes fewer than were set."""
    if "burst_raw" not in options:
        return int(options["burst"])
    ticks = int(options["burst_raw"], 16)
    rate = float(options["rate"])
    return math.ceil(ticks / _TICKS_PER_US * rate / 1e6 - 1e-6)


def _netem(before: Options, limits: LinkLimits) -> dict[str, Any]:
    """The delay and the loss of a delay line. Without them, packets pass immediately."""
    delay = dict(before.get("delay", {"delay": 0.0, "jitter": 0.0, "correlation": 0.0}))
    if limits.delay_ms is not None:
        delay["delay"] = limits.delay_ms / 1000
    if delay["jitter"] > delay["delay"]:
        raise AgentError(f"delay={limits.delay_ms:g}: less than the jitter that varies it")
    loss = dict(before.get("loss-random", {"loss": 0.0, "correlation": 0.0}))
    if limits.loss_percent is not None:
        loss["loss"] = limits.loss_percent / 100
    return {
        **({"delay": delay} if delay["delay"] else {}),
        **({"loss-random": loss} if loss["loss"] else {}),
    }


def _queue(
    text: str, queue: Stage | None, tbf: dict[str, Any]
) -> tuple[Stage | None, dict[str, Any]]:
    """The queue with a capacity of "100K" bytes or "50p" packets."""
    is_packets = text[-1:] in "pP"
    amount = int(text[:-1]) if is_packets else units.parse_size(text)
    counts_packets = queue is not None and shaping.QDISC_COUNTS.get(queue.kind) != "bytes"
    if is_packets != counts_packets:
        what = queue.kind if queue is not None else "the queue of this link"
        raise AgentError(
            f"limit={text}: {what} counts {'packets (50p)' if counts_packets else 'bytes (100K)'}"
        )
    if queue is None:
        return None, tbf | {"limit": amount}
    options = {**queue.options, shaping.limit_word(queue.kind): amount}
    if queue.kind == "red":
        # The thresholds that tc derives.
        options |= {"min": amount // 4 // 3, "max": amount // 4}
    return replace(queue, options=options), tbf
