"""The results of an analysis as values: flows, and the points of their figures."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

# Flows with figures: those with the most data.
DRAWN_MAX = 8

Side: TypeAlias = Literal["sender", "receiver", "between", "unknown"]

Bar: TypeAlias = tuple[float, int, int]
"""A time (s) and two ends (bytes)."""
Point: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """The figures of one transfer. Times are seconds since `origin_ns` of the capture; numbers are
    bytes from the first of the connection.

    `sent` has columns of consecutive data; `again` (by kind of retransmission) and `late`
    (overtaken) have one bar per packet, or one for bars that would overlap. `acked` and `window`
    are corners of steps. Rates are Mbit/s of intervals.
    """

    sent: tuple[Bar, ...]
    again: Mapping[str, tuple[Bar, ...]]
    late: tuple[Bar, ...]
    selective: tuple[Bar, ...]
    acked: tuple[Point, ...]
    window: tuple[Point, ...]
    rtt_ms: tuple[Point, ...]
    interval_s: float
    rate_time_s: tuple[float, ...]
    sent_mbit_per_s: tuple[float, ...]
    acked_mbit_per_s: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rtt:
    """RTT samples of a flow, in ms."""

    samples: int
    min_ms: float
    median_ms: float
    mean_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedFlow:
    """One direction of a connection that carried data, or its only one; None is unknown.

    `number` counts connections of the capture from 1. Times are seconds, `start_s` (the first
    packet with data) and `syn_s` (the client's first SYN) since 1970.
    `packets` and `bytes` count all data seen, including retransmissions; `size` counts distinct
    bytes. `rate_bps` is their rate from the first to the last packet with data. Values of TCP are
    empty for UDP.
    """

    number: int
    protocol: Literal["TCP", "UDP"]
    source: str
    destination: str
    source_port: int
    destination_port: int
    start_s: float
    lasted_s: float
    packets: int
    bytes: int
    size: int
    rate_bps: float | None
    side: Side = "unknown"
    is_whole: bool = False
    mss_bytes: int | None = None
    syn_s: float | None = None
    handshake_ms: float | None = None
    completion_ms: float | None = None
    rtt: Rtt | None = None
    rtt_by_stamps: Rtt | None = None
    segments_again: int | None = None
    bytes_again: int | None = None
    by_kind: Mapping[str, int] | None = None
    out_of_order: int | None = None
    duplicate_acks: int | None = None
    zero_windows: int | None = None
    zero_window_s: float | None = None
    super_packets: int | None = None
    missed_bytes: int | None = None
    drawing: Drawing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """The analysis of a capture. `flows` are those of TCP and UDP, in the order of their first
    packets; `damage` says what could not be read, and where; `remarks` are further notes on the
    values. `is_complete`: `flows` include every packet of TCP or UDP in the file. Drawings count
    seconds from `start_s`."""

    form: str
    packets: int
    other_packets: int
    start_s: float | None
    lasted_s: float
    flows: tuple[CapturedFlow, ...]
    is_complete: bool = True
    damage: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
