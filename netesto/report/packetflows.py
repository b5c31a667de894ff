"""The presentation of captured flows: their values as texts, and their figures. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

from netesto.packets.found import DRAWN_MAX, Capture, CapturedFlow, Drawing, Side
from netesto.report import looks
from netesto.report.figures import Chart, Layer, Layered
from netesto.report.looks import COLORS, Look
from netesto.results import numbers
from netesto.results.packetfile import CaptureRecord

# Name in CSV and JSON, title for people (only these are in the table), unit, decimals.
COLUMNS: tuple[tuple[str, str, int], ...] = (
    ("flow", "flow", 0), ("protocol", "", 0), ("source", "from", 0), ("destination", "to", 0),
    ("side", "captured at", 0), ("start_s", "", 9), ("lasted_s", "s", 3), ("packets", "", 0),
    ("bytes", "", 0), ("size", "bytes", 0), ("rate_bps", "", 3), ("rate_mbps", "Mbit/s", 3),
    ("handshake_ms", "handshake ms", 3), ("completion_ms", "completion ms", 3),
    ("rtt_samples", "", 0), ("rtt_min_ms", "min RTT ms", 3), ("rtt_median_ms", "median ms", 3),
    ("rtt_mean_ms", "", 3), ("rtt_max_ms", "max ms", 3),
    ("stamp_rtt_samples", "", 0), ("stamp_rtt_min_ms", "", 3), ("stamp_rtt_median_ms", "", 3),
    ("stamp_rtt_mean_ms", "", 3), ("stamp_rtt_max_ms", "", 3),
    ("retransmitted", "retrans.", 0), ("fast", "fast", 0), ("timeout", "RTO", 0),
    ("after_timeout", "after RTO", 0), ("probe", "TLP", 0), ("syn", "SYN", 0),
    ("spurious", "spurious", 0), ("bytes_again", "", 0), ("out_of_order", "out of order", 0),
    ("duplicate_acks", "dup. ACKs", 0), ("zero_windows", "zero windows", 0),
    ("zero_window_s", "", 6), ("super_packets", "", 0), ("mss_bytes", "", 0),
    ("missed_bytes", "missed bytes", 0), ("whole", "", 0),
)  # fmt: skip

_TEXTS = frozenset({"protocol", "source", "destination", "side", "whole"})

# How retransmissions look, by kind.
_AGAIN: Mapping[str, Look] = {
    "fast": Look(COLORS[1]), "timeout": Look(COLORS[3]), "after timeout": Look(COLORS[4]),
    "probe": Look(COLORS[6]), "spurious": Look(looks.BLACK),
}  # fmt: skip


def values(flow: CapturedFlow) -> dict[str, str | float | None]:
    """Every value of a flow, by the names of CSV; None is unknown."""
    kinds = flow.by_kind or {}
    found: dict[str, str | float | None] = {
        "flow": flow.number,
        "side": None if flow.side == "unknown" else flow.side,
        "whole": "yes" if flow.is_whole else "no",
        "rate_mbps": None if flow.rate_bps is None else flow.rate_bps / 1e6,
        "retransmitted": flow.segments_again,
        "syn": kinds.get("SYN"),
        "after_timeout": kinds.get("after timeout"),
    }
    for prefix, rtt in (("rtt", flow.rtt), ("stamp_rtt", flow.rtt_by_stamps)):
        for part, value in (asdict(rtt) if rtt is not None else {}).items():
            found[f"{prefix}_{part}"] = value
    for name, _, _ in COLUMNS:
        if name not in found:
            found[name] = kinds.get(name, getattr(flow, name, None))
    return {name: found[name] for name, _, _ in COLUMNS}


def texts(flow: CapturedFlow) -> dict[str, str]:
    """The same as texts; "" is unknown."""
    known = values(flow)
    return {
        name: str(value)
        if isinstance(value := known[name], str)
        else numbers.short(value, decimals)
        for name, _, decimals in COLUMNS
    }


def headings(capture: Capture) -> list[tuple[str, str, bool]]:
    """The columns of the table that have values for the flows of a capture: their names and titles,
    and whether they hold numbers."""
    rows = [texts(flow) for flow in capture.flows]
    return [
        (name, title, name not in _TEXTS)
        for name, title, _ in COLUMNS
        if title and (name == "flow" or any(row[name] not in {"", "0"} for row in rows))
    ]


def headline(capture: Capture) -> str:
    """A description of the file, in a sentence."""
    others = f", {capture.other_packets} of them not of TCP or UDP" if capture.other_packets else ""
    return f"{capture.form}: {capture.packets} packets in {capture.lasted_s:.6g} s{others}."


# ---- figures -----------------------------------------------------------------------------


# If a flow was captured twice, the capture nearest to its sender is drawn.
_NEAREST: tuple[Side, ...] = ("sender", "unknown", "between", "receiver")


def of_experiment(captures: Sequence[CaptureRecord]) -> dict[str, Chart]:
    """The charts of the flows with the most data in an experiment's captures, by file name."""
    each = [(flow, record) for record in captures for flow in record.capture.flows if flow.drawing]
    nearest: dict[tuple[str, str], tuple[CapturedFlow, CaptureRecord]] = {}
    for flow, record in sorted(each, key=lambda one: _NEAREST.index(one[0].side)):
        nearest.setdefault((flow.source, flow.destination), (flow, record))
    largest = sorted(nearest.values(), key=lambda one: -one[0].bytes)[:DRAWN_MAX]
    return {
        f"{kind}-{number}": chart
        for number, (flow, record) in enumerate(largest, start=1)
        for kind, chart in charts(flow, "seconds since the experiment began", record.begin_s)
    }


def charts(flow: CapturedFlow, x_title: str, shift_s: float = 0.0) -> list[tuple[str, Chart]]:
    """The time-sequence graph of a flow, its RTT and its rates, each with a name; none if it was
    not drawn. `shift_s` is added to times."""
    if flow.drawing is None:
        return []
    ends = f"{flow.source} → {flow.destination}"
    found = {
        "sequence": _sequence(flow, flow.drawing, ends, x_title),
        "packet-rtt": _rtt(flow.drawing, ends, x_title),
        "packet-rates": _rates(flow.drawing, ends, x_title),
    }
    return [(name, _shifted(chart, shift_s)) for name, chart in found.items() if chart.layers]


def _shifted(chart: Chart, shift_s: float) -> Chart:
    layers = (replace(each, x=[x + shift_s for x in each.x]) for each in chart.layers)
    return replace(chart, layers=tuple(layers)) if shift_s else chart


def _sequence(flow: CapturedFlow, drawn: Drawing, name: str, x_title: str) -> Chart:
    unit, scale = ("MB", 1e-6) if flow.size >= 1e6 else ("kB", 1e-3)

    def layer(label: str, look: Look, kind: Layered, points: Sequence[tuple[float, ...]]) -> Layer:
        x, *ends = zip(*points, strict=True)
        return Layer(label, look, kind, x, *([end * scale for end in each] for each in ends))

    window = Look(COLORS[7], looks.DASHES[1])
    parts: list[tuple[str, Look, Layered, Sequence[tuple[float, ...]]]] = [
        ("sent", Look(COLORS[0]), "bars", drawn.sent),
        ("acknowledged", Look(COLORS[2]), "steps", drawn.acked),
        ("window of the receiver", window, "steps", drawn.window),
        ("acknowledged selectively", Look(COLORS[5]), "bars", drawn.selective),
        ("overtaken", Look(COLORS[7]), "crosses", drawn.late),
    ]
    for kind, points in drawn.again.items():
        label = "spurious retransmission" if kind == "spurious" else f"retransmission: {kind}"
        parts.append((label, _AGAIN[kind], "crosses", points))
    return Chart(
        f"Time and sequence: {name}",
        x_title,
        f"bytes from the first of the connection ({unit})",
        tuple(layer(*part) for part in parts if part[-1]),
        top=max(flow.size * scale * 1.05, 1e-3),
        remarks=("Each cross is a retransmission; of several in one place one is drawn.",)
        if drawn.again
        else (),
    )


def _rtt(drawn: Drawing, name: str, x_title: str) -> Chart:
    points = drawn.rtt_ms
    x, y = zip(*points, strict=True) if points else ((), ())
    layers = (Layer("sample", Look(COLORS[0]), "dots", x, y),) if points else ()
    return Chart(
        f"RTT: {name}",
        x_title,
        "ms from data to ACK",
        layers,
        top=max(y, default=1.0) * 1.08 or 1.0,
    )


def _rates(drawn: Drawing, name: str, x_title: str) -> Chart:
    both = (
        ("sent", Look(COLORS[0]), drawn.sent_mbit_per_s),
        ("acknowledged", Look(COLORS[2]), drawn.acked_mbit_per_s),
    )
    highest = max((*drawn.sent_mbit_per_s, *drawn.acked_mbit_per_s), default=1.0)
    return Chart(
        f"Rates: {name}",
        x_title,
        f"Mbit/s over {drawn.interval_s:g} s",
        tuple(Layer(label, look, "line", drawn.rate_time_s, y) for label, look, y in both),
        top=highest * 1.08 or 1.0,
    )
