"""The evidence about a group at the end of its experiment: the input of everything derived.

All times are on the controller's clock. An unknown value is None or empty, never 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from netesto.measured import (
    CounterKind,
    CounterSamples,
    CpuSample,
    PingSample,
    SocketSample,
    TransferResult,
)
from netesto.model import GroupRequest
from netesto.packets.found import Capture, CapturedFlow
from netesto.results.carried import CarriedLinks
from netesto.results.links import Links
from netesto.results.queues import Queue

# The status of a flow, a group or an experiment; a failed flow has its reason instead.
OK = "ok"
PARTIAL = "partial"
FAILED = "failed"
DAMAGED = "damaged"

# Where a group's values come from, as far as raw files distinguish sources.
Source: TypeAlias = Literal[
    "tool", "client sockets", "server sockets", "ping", "client cpu", "server cpu", "counters",
    "ethtool-k", "ethtool-c", "sysctl", "queues",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceEvidence:
    """One flow. `status` is "ok" or the reason it failed; then `result` is None, as it is if the
    tool's output is damaged. Samples are those of the flow's data connections alone, in time order,
    at its two ends. `captured` are its data connections that a capture at the sending end contains
    completely. `lost_s`: when links that programs carry lost frames with data of it.
    """

    instance: int
    status: str
    asked_start_s: float | None
    started_s: float | None
    ended_s: float | None
    result: TransferResult | None
    client_samples: tuple[SocketSample, ...] = ()
    server_samples: tuple[SocketSample, ...] = ()
    last_lines: str = ""
    captured: tuple[CapturedFlow, ...] = ()
    lost_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureEvidence:
    """A capture of a host. `file` is its path in the experiment's folder; the times in it are
    `ahead_s` of the controller's."""

    host: str
    file: str
    ahead_s: float
    capture: Capture


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEvidence:
    """One DO_CLIENT.

    `counters`: `device`, the test interface of the client, after minus before the group:
    rx_packets, tx_packets, rx_bytes, tx_bytes; `counters_before`: what it had counted before;
    `mtu_bytes` of it when the group began. `pings`: those of its pair of hosts, which the groups of
    the pair share, over the whole experiment. `features`: tso gso lro gro (on/off), rx-frames,
    tx-frames, adaptive-rx, tcpRmem, tcpWmem, as the host statistics of the client report them.
    `queues`: those on the path of the data, as far as they are known, over the whole experiment.
    `damaged`: the sources whose files have changed since the measurement; they are not read. `busy`
    is from the first start to the last end of any flow of the experiment, None if none started.
    `links` are those of the whole lab.
    """

    request: GroupRequest
    full_host: str
    full_server: str
    kernel: str
    tool_version: str
    instances: tuple[InstanceEvidence, ...]
    pings: tuple[PingSample, ...] = ()
    busy: tuple[float, float] | None = None
    client_cpu: tuple[CpuSample, ...] = ()
    server_cpu: tuple[CpuSample, ...] = ()
    device: str = ""
    counters: Mapping[str, int] | None = None
    counters_before: Mapping[str, int] | None = None
    mtu_bytes: int | None = None
    features: Mapping[str, str] = field(default_factory=dict)
    queues: tuple[Queue, ...] = ()
    damaged: frozenset[Source] = frozenset()
    links: Links = field(default_factory=Links)

    @property
    def programs(self) -> CarriedLinks:
        """The links of the lab that programs carry."""
        return self.links.programs


@dataclass(frozen=True, slots=True)
class CountersEvidence:
    """Counters of a kind, as hosts recorded them; of the directions of links that programs carry,
    as these did."""

    kind: CounterKind
    hosts: Mapping[str, CounterSamples]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentEvidence:
    """One experiment: its groups in order, and when it began (first command) and ended.

    `queue_gaps_s`: seconds between consecutive samples of each queue and interface that a host
    sampled. `unreadable`: why raw files of hosts were not read.
    """

    exp: int
    exp_name: str
    started_s: float
    ended_s: float
    groups: tuple[GroupEvidence, ...]
    counters: tuple[CountersEvidence, ...] = ()
    queue_gaps_s: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    captures: tuple[CaptureEvidence, ...] = ()
    unreadable: tuple[str, ...] = ()
    links: Links = field(default_factory=Links)
