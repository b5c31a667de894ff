"""Converts the text that iperf3 prints for people into the corresponding document of -J."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# iperf3 counts bits in thousands and, with -f K and the like, bytes in 1024.
_FACTORS: Mapping[str, float] = {
    **{f"{prefix}bits": 1e3**power for power, prefix in enumerate(("", *"KMGT"))},
    **{f"{prefix}Bytes": 8 * 1024.0**power for power, prefix in enumerate(("", *"KMGT"))},
}

# No run has longer numbers. `-nan` is the rate of a time of 0 s.
_LINE = re.compile(
    r"\[\s*(?P<id>SUM|\d+)\](?:\[(?P<role>[^]]*)\])?"
    r"\s+(?P<start>\d{1,9}(?:\.\d{1,9})?)-\s*(?P<end>\d{1,9}(?:\.\d{1,9})?)\s+sec\s"
    r"(?:\s*(?P<size>\d{1,15}(?:\.\d{1,9})?)\s+(?P<size_unit>[KMGT]?(?:bits|Bytes))\s)?.*?"
    r"(?<![\w.])(?P<rate>\d{1,15}(?:\.\d{1,9})?|-?nan)\s+(?P<unit>[KMGT]?(?:bits|Bytes))/sec"
    r"(?P<rest>.*)"
)
_RETRANSMITS = re.compile(r"\s+(\d{1,15})\s+sender\s*")
# Without the counts of the omitted time the losses are unknown.
_DATAGRAMS = re.compile(
    r"\s+(?P<jitter>\d{1,9}\.\d{1,9}|-?nan) ms\s+"
    r"(?P<lost>Unknown|\d{1,15})/(?P<all>\d{1,15})(?:\s|$)"
)
# What begins a test in the output of a server.
_TEST = re.compile(r"^(?:.{1,80} )?Accepted connection from (\S+), port", re.MULTILINE)
_HEADER = re.compile(r"\[ ID\](?:\[Role\])? Interval")

# What lines say with -V, and some without.
_TOLD: Sequence[tuple[str, str, Callable[[str], object], re.Pattern[str]]] = (
    ("start", "version", str, re.compile(r"\b(iperf 3\.\S+)\s*$")),
    ("start", "system_info", str, re.compile(r"(?:^|\d{4} )(Linux \S+ \S+ .*)$")),
    ("start", "accepted_connection", str, _TEST),
    ("connecting_to", "host", str, re.compile(r"\bConnecting to host (\S+), port \d+")),
    ("start", "tcp_mss_default", int, re.compile(r"\bTCP MSS: (\d{1,9}) \(default\)")),
    ("test_start", "protocol", str, re.compile(r"\bStarting Test: protocol: (\w+),")),
    ("test_start", "num_streams", int, re.compile(r"\bStarting Test: .*, (\d{1,5}) streams,")),
    ("test_start", "blksize", int, re.compile(r"\bStarting Test: .*, (\d{1,9}) byte blocks,")),
    ("test_start", "omit", int, re.compile(r"\bStarting Test: .*\bomitting (\d{1,6}) second")),
    ("test_start", "duration", int, re.compile(r"\bStarting Test: .*, (\d{1,6}) second test")),
    ("test_start", "reverse", len, re.compile(r"\bReverse mode, remote host \S+ is sendin(g)")),
    ("end", "sender_tcp_congestion", str, re.compile(r"\bsnd_tcp_congestion (\S+)\s*$")),
    ("end", "receiver_tcp_congestion", str, re.compile(r"\brcv_tcp_congestion (\S+)\s*$")),
    ("cpu_utilization_percent", "remote_total", float,
     re.compile(r"\bCPU Utilization: local/\S+ .*, remote/\S+ (\d{1,9}\.\d)%")),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Line:
    """A line with a rate: of a stream or the sum of all, of an interval or the whole test.
    `is_whole`: it is of the whole test, of versions that do not say whose it is."""

    match: re.Match[str]
    is_whole: bool = False

    @property
    def is_sum(self) -> bool:
        return self.match["id"] == "SUM"

    @property
    def end(self) -> str:
        """ "sender" or "receiver" where it is a summary."""
        last = self.match["rest"].rpartition(" ")[2]
        return last if last in {"sender", "receiver"} else ""

    @property
    def is_omitted(self) -> bool:
        return self.match["rest"].rstrip().endswith("(omitted)")

    @property
    def role(self) -> str:
        """TX or RX in a bidirectional test, else ""."""
        return (self.match["role"] or "").partition("-")[0]

    def values(self) -> dict[str, Any]:
        """The line as an entry of a document."""
        match = self.match
        start_s, end_s = float(match["start"]), float(match["end"])
        found: dict[str, Any] = {"start": start_s, "end": end_s, "seconds": end_s - start_s}
        if not match["rate"].endswith("nan"):
            found["bits_per_second"] = float(match["rate"]) * _FACTORS[match["unit"]]
        if match["size"]:
            found["bytes"] = float(match["size"]) * _FACTORS[match["size_unit"]] / 8
        if (again := _RETRANSMITS.match(match["rest"])) is not None:
            found["retransmits"] = int(again[1])
        if (udp := _DATAGRAMS.match(match["rest"])) is not None:
            found["packets"] = int(udp["all"])
            if not udp["jitter"].endswith("nan"):
                found["jitter_ms"] = float(udp["jitter"])
            if udp["lost"].isdecimal():
                found["lost_packets"] = int(udp["lost"])
        return found

    @property
    def is_of_datagrams(self) -> bool:
        return _DATAGRAMS.match(self.match["rest"]) is not None


def document(text: str) -> tuple[Mapping[str, Any] | None, int]:
    """What the text of its first test tells; None without a summary. And the number of tests that
    have one."""
    begins = [match.start() for match in _TEST.finditer(text)]
    parts = [text]
    if begins:
        ends = [*begins[1:], len(text)]
        parts = [text[begin:end] for begin, end in zip(begins, ends, strict=True)]
        # The version is above the first test.
        parts[0] = text[: ends[0]]
    found = [each for part in parts if (each := _document(part)) is not None]
    return (found[0] if found else None), len(found)


def _document(text: str) -> Mapping[str, Any] | None:
    lines = list(_lines(text))
    wholes = [place for place, line in enumerate(lines) if line.end or line.is_whole]
    if not wholes:
        return None
    parts: dict[str, dict[str, Any]] = {name: {} for name, *_ in _TOLD}
    for line in text.splitlines():
        for part, name, convert, expression in _TOLD:
            if name not in parts[part] and (match := expression.search(line)) is not None:
                parts[part][name] = convert(match[1])
    test, end = parts["test_start"], dict(parts["end"])
    if cpu := parts["cpu_utilization_percent"]:
        end["cpu_utilization_percent"] = cpu
    is_server = "accepted_connection" in parts["start"]
    summaries, before = [lines[place] for place in wholes], lines[: wholes[0]]
    # One end of a bidirectional test calls the same data TX that the other calls RX.
    roles = {"": "", ("RX" if is_server else "TX"): "", ("TX" if is_server else "RX"): _BACK}
    for role, suffix in roles.items():
        own = [line for line in summaries if line.role == role]
        for name in ("sender", "receiver", ""):
            same = [line for line in own if line.end == name]
            chosen = next((line for line in same if line.is_sum), next(iter(same), None))
            if chosen is not None:
                key = {"sender": "sum_sent", "receiver": "sum_received", "": "sum"}[name]
                end[f"{key}{suffix}"] = chosen.values()
    first = next(line.role for line in summaries)
    ids = {line.match["id"] for line in summaries if not line.is_sum and line.role == first}
    test.setdefault("num_streams", len(ids) or 1)
    if any(line.is_of_datagrams for line in summaries):
        test.setdefault("protocol", "UDP")
    if is_server and "sum_received" not in end and "sum_sent" in end:
        test["reverse"] = 1
    if any(line.is_omitted for line in lines):
        omitted = [line for line in lines if line.is_omitted]
        test.setdefault("omit", max(float(line.match["end"]) for line in omitted))
    return {
        "start": parts["start"] | {name: parts[name] for name in ("connecting_to", "test_start")},
        "intervals": list(_intervals(before, roles, has_sum=any(s.is_sum for s in summaries))),
        "end": end,
    }


_BACK = "_bidir_reverse"


def _intervals(
    lines: Sequence[_Line], roles: Mapping[str, str], *, has_sum: bool
) -> Iterator[dict[str, Any]]:
    """An entry for each line of all streams of a direction."""
    for line in lines:
        if line.is_sum == has_sum:
            suffix = roles.get(line.role, "")
            yield {f"sum{suffix}": line.values() | {"omitted": line.is_omitted}}


def _lines(text: str) -> Iterator[_Line]:
    """The lines with rates. Behind the second header they are of the whole test."""
    headers = 0
    last_s = 0.0
    for each in text.splitlines():
        headers += _HEADER.search(each) is not None
        if (match := _LINE.search(each.rstrip())) is not None:
            end_s = float(match["end"])
            is_whole = headers > 1 and float(match["start"]) == 0 and end_s >= last_s
            line = _Line(match, is_whole=is_whole)
            if not line.is_omitted and not line.end:
                last_s = max(last_s, end_s)
            yield line
