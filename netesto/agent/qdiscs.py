"""Root qdiscs: what tc shows of them, and the arguments with which tc creates them again."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from netesto.agent import asking
from netesto.collectors.capabilities import ENTRANCE_QDISCS
from netesto.errors import OutputError
from netesto.files import jsontext
from netesto.units import decimal

Options: TypeAlias = Mapping[str, object]

# What tc shows among the options although packets change it: of htb; and of cake with the option
# `autorate`, which estimates the bandwidth.
_COUNTED, _ESTIMATED = "direct_packets_stat", "bandwidth"


@dataclass(frozen=True, slots=True)
class RootQdisc:
    """The root qdisc of an interface. `has_children`: it contains other qdiscs."""

    kind: str
    handle: str
    options: Options = field(default_factory=dict)
    has_children: bool = False


def installed(text: str) -> list[dict[str, Any]]:
    """Those of outgoing packets in the output of `tc -j qdisc show dev DEVICE`, the root first.

    Without the kernel's own: they have the handle 0 and come back by themselves. OutputError if the
    text is invalid.
    """
    try:
        found = [
            each
            for each in jsontext.parse(text or "[]")
            if each["kind"] not in ENTRANCE_QDISCS and each["handle"] != "0:"
        ]
        return sorted(found, key=lambda each: (not each.get("root"), each["handle"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OutputError(f"invalid list of qdiscs from tc: {error}") from error


def parse(text: str) -> RootQdisc | None:
    """The root in the same output; None if it is the kernel's own."""
    found = installed(text)
    if not found or not found[0].get("root"):
        return None
    root = found[0]
    return RootQdisc(root["kind"], root["handle"], root.get("options", {}), len(found) > 1)


async def text_of_root(device: str) -> str:
    """The root qdisc as tc shows it to people. AgentError if there is no such interface."""
    return (await asking.output("tc", "qdisc", "show", "dev", device, "root")).strip()


async def root(device: str) -> RootQdisc | None:
    """The root qdisc; None if it is the kernel's own. AgentError if there is no such interface."""
    return parse(await asking.output("tc", "-j", "qdisc", "show", "dev", device))


def described(root: RootQdisc | None) -> str:
    """A line that identifies this root; "" for the kernel's own."""
    if root is None:
        return ""
    varying = {_COUNTED, *([_ESTIMATED] if "autorate" in root.options else [])}
    options = {name: value for name, value in root.options.items() if name not in varying}
    return f"{root.kind} {root.handle} {json.dumps(options, sort_keys=True)}"


def recreate(root: RootQdisc) -> tuple[str, ...] | None:
    """The words after `root` with which tc creates this qdisc again; None if they are unknown.

    A qdisc with children is not recreated: their classes and filters are not in the list.
    """
    made = None if root.has_children else words(root.kind, root.options)
    return made and ("handle", root.handle, *made)


def words(kind: str, options: Options) -> tuple[str, ...] | None:
    """The words with which tc creates a qdisc of a kind that it shows with these options; None if
    they are unknown."""
    try:
        return (kind, *_RECIPES[kind](options))
    except (KeyError, TypeError, ValueError):
        return None


def _plain(*names: str) -> Callable[[Options], Sequence[str]]:
    """A recipe for options that tc prints and reads alike."""
    return lambda options: [word for name in names for word in (name, str(options[name]))]


# The units in which tc prints the numbers of fq, but not those of rates.
_FQ_UNITS: Mapping[str, str] = {
    **dict.fromkeys(("limit", "flow_limit", "buckets", "orphan_mask", "bands"), ""),
    **dict.fromkeys(("quantum", "initial_quantum"), ""),
    **dict.fromkeys(("refill_delay", "ce_threshold", "horizon", "offload_horizon"), "us"),
    "timer_slack": "ns",
}


def _fq(options: Options) -> list[str]:
    made: list[str] = []
    for name, value in options.items():
        match value:
            case None:
                made.append(name)  # horizon_drop, horizon_cap
            case False:
                made.append(f"no{name}")  # pacing
            case list():
                made += [name.strip(), *map(str, value)]  # priomap, weights
            case _ if name in {"maxrate", "low_rate_threshold"}:
                made += [name, _bits(value)]
            case _:
                made += [name, f"{value}{_FQ_UNITS[name]}"]
    return made


def _fq_codel(options: Options) -> list[str]:
    made = list(_plain("limit", "flows", "quantum")(options))
    for name in ("target", "interval", "ce_threshold"):
        if name in options:
            # The kernel counts in units of 1.024 us, and shows whole microseconds, rounded down.
            made += [name, f"{_number(options[name]) + 1:.0f}us"]
    for name in ("memory_limit", "drop_batch"):
        if name in options:
            made += [name, str(options[name])]
    return [*made, "ecn" if options.get("ecn") else "noecn"]


def _tbf(options: Options) -> list[str]:
    if options.keys() - {"rate", "burst", "lat"}:
        raise ValueError("a second bucket is not recreated")
    # tc prints bytes and microseconds.
    burst, latency_us = options["burst"], options["lat"]
    return ["rate", _bits(options["rate"]), "burst", f"{burst}", "latency", f"{latency_us}us"]


def _netem(options: Options) -> list[str]:
    words = ["limit", str(options["limit"])]
    match options.get("delay"):
        case {"delay": delay_s, "jitter": jitter_s, "correlation": correlation}:
            words += ["delay", f"{decimal(_number(delay_s))}s", f"{decimal(_number(jitter_s))}s"]
            words.append(f"{decimal(100 * _number(correlation))}%")
    match options.get("loss-random"):
        case {"loss": loss, "correlation": correlation}:
            words += ["loss", f"{decimal(100 * _number(loss))}%"]
            words.append(f"{decimal(100 * _number(correlation))}%")
    if options.get("ecn"):
        words.append("ecn")
    if options.keys() - {"limit", "delay", "loss-random", "ecn", "gap", "seed"}:
        raise ValueError("netem has options other than delay and loss")
    return words


def _bits(value: object) -> str:
    """A rate, which tc prints in bytes per second."""
    return f"{_number(value) * 8:.0f}bit"


def _number(value: object) -> float:
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return value


_RECIPES: Mapping[str, Callable[[Options], Sequence[str]]] = {
    "bfifo": _plain("limit"),
    "fq": _fq,
    "fq_codel": _fq_codel,
    "netem": _netem,
    "pfifo": _plain("limit"),
    "pfifo_fast": _plain(),
    "tbf": _tbf,
}
