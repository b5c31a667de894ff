"""The table of an experiment for people: field names down the left, one column for each group.

Values have at most the figures that mean something; what is unknown is "—".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from netesto.results import numbers

UNKNOWN = "—"

# A no-break thin space: groups of three digits stay on one line.
THIN_SPACE = "\N{NARROW NO-BREAK SPACE}"

Values: TypeAlias = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: what it shows, its unit, one cell for each group.

    `marked` tells the cells that need attention: not what was asked.
    """

    name: str
    unit: str
    cells: tuple[str, ...]
    marked: tuple[bool, ...] = ()


_Show: TypeAlias = Callable[[Values], str]


@dataclass(frozen=True, slots=True)
class Block:
    """Rows that belong together, under a title."""

    title: str
    rows: tuple[Row, ...]


def blocks(groups: Sequence[Values]) -> list[Block]:
    """The rows of section 4 of the results' description, for groups as `groups.values` tells them,
    in parts that find room beside each other.

    Rows that only some experiments have (effective MSS, fairness) come where they belong.
    """
    found: list[Block] = []
    for name, unit, show in _ROWS:
        if name in _TITLES:
            found.append(Block(_TITLES[name], ()))
        if name in _ONLY_IF_KNOWN and all(show(values) == UNKNOWN for values in groups):
            continue
        row = Row(
            name,
            unit,
            tuple(show(values) for values in groups),
            tuple(_needs_attention(name, values) for values in groups),
        )
        found[-1] = Block(found[-1].title, (*found[-1].rows, row))
    return [block for block in found if groups and block.rows]


def figure(text: str, digits: int = 4) -> str:
    """A measured number with so many significant digits, thousands apart: "1 234", "0.05679"."""
    number = numbers.parse(text)
    if number is None:
        return text or UNKNOWN
    if number == 0:
        return "0"
    if abs(number) >= 10 ** (digits - 1):
        return f"{number:,.0f}".replace(",", THIN_SPACE)
    decimals = max(0, digits - 1 - int(f"{number:e}".partition("e")[2]))
    return numbers.short(number, decimals)


def milliseconds(text: str) -> str:
    """A number of microseconds in milliseconds, with four significant digits."""
    number = numbers.parse(text)
    return text or UNKNOWN if number is None else figure(repr(number / 1000))


def count(text: str) -> str:
    """A whole number, thousands apart."""
    number = numbers.parse(text)
    if number is None:
        return text or UNKNOWN
    return f"{number:,.0f}".replace(",", THIN_SPACE)


def notes(groups: Sequence[Values]) -> list[str]:
    """What must be known to read the table right."""
    return [
        f"In group {values.get('group', '')} retransPkts% is not known: {reason}."
        for values in groups
        if (reason := values.get("retransPktsReason", ""))
    ]


def _needs_attention(name: str, values: Values) -> bool:
    match name:
        case "status":
            return values.get("status", "ok") != "ok"
        case "ca":
            return _other_control(values)
        case _:
            return False


def _other_control(values: Values) -> bool:
    """True where the sender used a congestion control other than the one asked for."""
    used = values.get("effCa", "")
    return bool(used) and used != values.get("ca", "")


def _control(values: Values) -> str:
    asked = values.get("ca", "") or UNKNOWN
    return f"{values['effCa']} (asked: {asked})" if _other_control(values) else asked


def _test(values: Values) -> str:
    return f"{values.get('test', '')} {values.get('req', '')}/{values.get('reply', '')}".strip()


def _rates(values: Values) -> str:
    """Slowest, mean and fastest flow of the group."""
    rate = numbers.parse(values.get("rate", ""))
    instances = numbers.parse(values.get("instances", ""))
    failed = numbers.parse(values.get("flowsFailed", "")) or 0.0
    mean = ""
    if rate is not None and instances is not None and instances > failed:
        mean = repr(rate / (instances - failed))
    parts = (values.get("rateMin", ""), mean, values.get("rateMax", ""))
    return _joined(parts)


def _fairness(values: Values) -> str:
    """Between the flows of the group; one flow alone is fair to itself."""
    return UNKNOWN if values.get("instances") == "1" else figure(values.get("fairness", ""))


def _joined(parts: Sequence[str]) -> str:
    if not any(parts):
        return UNKNOWN
    return " / ".join(figure(part) for part in parts)


def _several(*keys: str) -> _Show:
    return lambda values: _joined([values.get(key, "") for key in keys])


def _figure(key: str) -> _Show:
    return lambda values: figure(values.get(key, ""))


def _milliseconds(key: str) -> _Show:
    """Of a value in µs."""
    return lambda values: milliseconds(values.get(key, ""))


def _count(key: str) -> _Show:
    return lambda values: count(values.get(key, ""))


def _text(key: str) -> _Show:
    return lambda values: values.get(key, "") or UNKNOWN


def _fixed(key: str, decimals: int) -> _Show:
    def show(values: Values) -> str:
        number = numbers.parse(values.get(key, ""))
        return UNKNOWN if number is None else numbers.fixed(number, decimals)

    return show


def _on_off(key: str) -> _Show:
    names = {"1": "on", "0": "off", "": UNKNOWN}

    def show(values: Values) -> str:
        text = values.get(key, "")
        return names.get(text, text)

    return show


_ONLY_IF_KNOWN = frozenset({"effMss", "fairness", "startSkew", "sampleInterval"})

# The title of each block of rows, by its first row.
_TITLES: Mapping[str, str] = {
    "group": "Flows",
    "min/avg/max Rates": "Rates and latencies",
    "rtt": "TCP",
    "localCpu": "CPU and interface of the client",
    "tso": "Offloads of the client",
    "startSkew": "Start and sampling",
}

_ROWS: tuple[tuple[str, str, _Show], ...] = (
    ("group", "", _text("group")),
    ("status", "", _text("status")),
    ("Test", "request/reply bytes", _test),
    ("tool", "", _text("tool")),
    ("host", "", _text("host")),
    ("server", "", _text("server")),
    ("instances", "flows", _text("instances")),
    ("dur", "s", _text("dur")),
    ("delay", "s", _text("delay")),
    ("ca", "", _control),
    ("effMss", "bytes", _text("effMss")),
    ("min/avg/max Rates", "Mbit/s", _rates),
    ("fairness", "Jain's index", _fairness),
    ("min/mean/max Latencies", "µs", _several("minLatency", "meanLatency", "maxLatency")),
    ("p50/p90/p99 Latencies", "µs", _several("p50Latency", "p90Latency", "p99Latency")),
    ("rtt", "ms", _milliseconds("rtt")),
    ("pingRtt", "ms", _milliseconds("pingRtt")),
    ("cwnd", "segments", _figure("cwnd")),
    ("localRetrans", "segments", _count("localRetrans")),
    ("remoteRetrans", "segments", _count("remoteRetrans")),
    ("lost", "segments, at worst", _count("lost")),
    ("retrans", "segments, at worst", _count("retrans")),
    ("retrans_total", "segments", _count("retrans_total")),
    ("retransSegs%", "% of data segments", _figure("retransSegs%")),
    ("retransPkts%", "% of packets", _fixed("retransPkts%", 2)),
    ("localCpu", "%", _fixed("localCpu", 2)),
    ("remoteCpu", "%", _fixed("remoteCpu", 2)),
    ("client-tx-packets", "packets", _count("client-tx-packets")),
    ("client-tx-bytes", "bytes", _count("client-tx-bytes")),
    ("client-tx-packet-len", "bytes", _count("client-tx-packet-len")),
    ("client-rx-packets", "packets", _count("client-rx-packets")),
    ("client-rx-bytes", "bytes", _count("client-rx-bytes")),
    ("client-rx-packet-len", "bytes", _count("client-rx-packet-len")),
    ("tso", "", _on_off("tso")),
    ("gso", "", _on_off("gso")),
    ("lro", "", _on_off("lro")),
    ("gro", "", _on_off("gro")),
    ("rx-frames", "packets", _text("rx-frames")),
    ("tx-frames", "packets", _text("tx-frames")),
    ("adaptive-rx", "", _on_off("adaptive-rx")),
    ("startSkew", "ms", _figure("startSkew")),
    ("sampleInterval", "ms", _figure("sampleInterval")),
)
