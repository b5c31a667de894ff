"""Converts the text that an iperf3 client prints for people into the corresponding document of
-J."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# iperf3 counts bits in thousands and, with -f K and the like, bytes in 1024.
_FACTORS: Mapping[str, float] = {
    **{f"{prefix}bits": 1e3**power for power, prefix in enumerate(("", *"KMGT"))},
    **{f"{prefix}Bytes": 8 * 1024.0**power for power, prefix in enumerate(("", *"KMGT"))},
}

# No run has longer numbers.
_LINE = re.compile(
    r"\[\s*(?P<id>SUM|\d+)\](?:\[(?P<role>[^]]*)\])?"
    r"\s+(?P<start>\d{1,9}(?:\.\d{1,9})?)-\s*(?P<end>\d{1,9}(?:\.\d{1,9})?)\s+sec\s.*?"
    r"\b(?P<rate>\d{1,15}(?:\.\d{1,9})?)\s+(?P<unit>[KMGT]?(?:bits|Bytes))/sec(?P<rest>.*)"
)
_RETRANSMITS = re.compile(r"\s+(\d{1,15})\s+sender\s*")
_DATAGRAMS = re.compile(
    r"\s+(?P<jitter>\d{1,9}\.\d{1,9}) ms\s+(?P<lost>\d{1,15})/(?P<all>\d{1,15})\s"
)

# What lines say with -V, and some without.
_TOLD: Sequence[tuple[str, str, Callable[[str], object], re.Pattern[str]]] = (
    ("start", "version", str, re.compile(r"\b(iperf 3\.\S+)\s*$")),
    ("start", "system_info", str, re.compile(r"(?:^|\d{4} )(Linux \S+ \S+ .*)$")),
    ("connecting_to", "host", str, re.compile(r"\bConnecting to host (\S+), port \d+")),
    ("start", "tcp_mss_default", int, re.compile(r"\bTCP MSS: (\d{1,9}) \(default\)")),
    ("test_start", "protocol", str, re.compile(r"\bStarting Test: protocol: (\w+),")),
    ("test_start", "num_streams", int, re.compile(r"\bStarting Test: .*, (\d{1,5}) streams,")),
    ("test_start", "omit", int, re.compile(r"\bStarting Test: .*\bomitting (\d{1,6}) second")),
    ("test_start", "duration", int, re.compile(r"\bStarting Test: .*, (\d{1,6}) second test")),
    ("test_start", "reverse", len, re.compile(r"\bReverse mode, remote host \S+ is sendin(g)")),
    ("end", "sender_tcp_congestion", str, re.compile(r"\bsnd_tcp_congestion (\S+)\s*$")),
    ("end", "receiver_tcp_congestion", str, re.compile(r"\brcv_tcp_congestion (\S+)\s*$")),
)


@dataclass(frozen=True, slots=True)
class _Line:
    """A line with a rate: of a stream or the sum of all, of an interval or the whole test."""

    match: re.Match[str]

    @property
    def is_sum(self) -> bool:
        return self.match["id"] == "SUM"

    @property
    def end(self) -> str:
        """ "sender" or "receiver" where it is a summary."""
        last = self.match["rest"].rpartition(" ")[2]
        return last if last in {"sender", "receiver"} else ""

    @property
    def is_backwards(self) -> bool:
        """Whether it belongs to the reverse direction of a bidirectional test."""
        return (self.match["role"] or "").startswith("RX")

    def values(self) -> dict[str, Any]:
        """The line as an entry of a document."""
        start_s, end_s = float(self.match["start"]), float(self.match["end"])
        found: dict[str, Any] = {
            "start": start_s,
            "end": end_s,
            "seconds": end_s - start_s,
            "bits_per_second": float(self.match["rate"]) * _FACTORS[self.match["unit"]],
        }
        if (again := _RETRANSMITS.match(self.match["rest"])) is not None:
            found["retransmits"] = int(again[1])
        if (udp := _DATAGRAMS.match(self.match["rest"])) is not None:
            found |= {
                "jitter_ms": float(udp["jitter"]),
                "lost_packets": int(udp["lost"]),
                "packets": int(udp["all"]),
            }
        return found


def document(text: str) -> Mapping[str, Any] | None:
    """What a client's text tells; None without a summary of the sender."""
    lines = list(_lines(text))
    first = next((place for place, line in enumerate(lines) if line.end == "sender"), None)
    if first is None:
        return None
    sent = next((line for line in lines if line.end == "sender" and line.is_sum), lines[first])
    same = [line for line in lines if line.is_sum == sent.is_sum]
    parts: dict[str, dict[str, Any]] = {name: {} for name, *_ in _TOLD}
    for line in text.splitlines():
        for part, name, convert, expression in _TOLD:
            if name not in parts[part] and (told := expression.search(line)) is not None:
                parts[part][name] = convert(told[1])
    streams = {line.match["id"] for line in lines if line.end == "sender" and not line.is_sum}
    parts["test_start"].setdefault("num_streams", len(streams))
    if "packets" in sent.values():
        parts["test_start"].setdefault("protocol", "UDP")
    end = parts["end"] | {"sum_sent": sent.values()}
    if (received := next((line for line in same if line.end == "receiver"), None)) is not None:
        end["sum_received"] = received.values()
    return {
        "start": parts["start"] | {name: parts[name] for name in ("connecting_to", "test_start")},
        "intervals": [
            {"sum": line.values() | {"omitted": line.match["rest"].endswith("(omitted)")}}
            for line in lines[:first]
            if not line.end and line.is_sum == sent.is_sum
        ],
        "end": end,
    }


def _lines(text: str) -> Iterator[_Line]:
    for each in text.splitlines():
        if (match := _LINE.search(each.rstrip())) is not None:
            line = _Line(match)
            if not line.is_backwards:
                yield line
