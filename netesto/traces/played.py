"""What each host does in a trace, as the process that plays it reads it.

The first line of a part is a JSON object, its head. Then come, in the format of netesto-flow
(traffic/native/source/trace.c), a line for each flow or request: times in nanoseconds, and peers by
their place in the head.
"""

import heapq
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from netesto.files import jsontext
from netesto.traces import format as trace_format
from netesto.traces.format import Flow, Request, Trace

FLOWS, REQUESTS = "flows", "requests"

# The most flows at a time whose sockets are sampled.
SAMPLED_MOST = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPart:
    """The flows of a host, or its requests. `peers` are the hosts to which they go, as the trace
    names them, and `addresses` theirs, once known; `end_us` is the end of the whole trace's last
    event. `store` holds the values; `is_paced`: flows have a rate, by default or given."""

    end_us: float
    drain_s: float
    peers: tuple[str, ...]
    count: int
    store: str = "native"
    is_paced: bool = True
    addresses: tuple[str, ...] = ()
    lines: str = field(default="", repr=False)

    @property
    def text(self) -> str:
        return f"{self.head}\n{self.lines}"

    @property
    def head(self) -> str:
        """The first line alone."""
        members = asdict(self)
        del members["lines"]
        return json.dumps(members)

    def placed(self, hosts: Mapping[str, tuple[str, str]]) -> "HostPart":
        """With the names and the addresses that the lab has for the peers."""
        found = [hosts[peer] for peer in self.peers]
        return replace(
            self,
            peers=tuple(host for host, _ in found),
            addresses=tuple(address for _, address in found),
        )


def read(text: str) -> HostPart:
    """The part that a text is; of a head alone, without its lines."""
    head, _, lines = text.partition("\n")
    members = jsontext.parse(head)
    for name in ("peers", "addresses"):
        members[name] = tuple(members[name])
    return HostPart(**members, lines=lines)


def parts(
    trace: Trace, *, drain_s: float, store: str, is_paced: bool
) -> Iterator[tuple[str, str, HostPart]]:
    """Each host with what it has to do: FLOWS or REQUESTS, hosts in the order met."""
    sampled = _sampled(trace.flows)
    of_hosts: dict[tuple[str, str], list[Flow | Request]] = {}
    for event in trace.events:
        kind = FLOWS if isinstance(event, Flow) else REQUESTS
        of_hosts.setdefault((event.host, kind), []).append(event)
    for (host, kind), events in of_hosts.items():
        peers: dict[str, int] = {}
        lines = [
            _line_of_flow(event, peers, is_sampled=id(event) in sampled)
            if isinstance(event, Flow)
            else _line_of_request(event, trace.stores, peers)
            for event in events
        ]
        part = HostPart(
            end_us=trace.end_us,
            drain_s=drain_s,
            peers=tuple(peers),
            count=len(lines),
            store=store,
            is_paced=is_paced,
            lines="".join(f"{line}\n" for line in lines),
        )
        yield host, kind, part


def unsampled(trace: Trace) -> int:
    """The number of flows beyond SAMPLED_MOST at a time."""
    return len(trace.flows) - len(_sampled(trace.flows))


def _sampled(flows: Sequence[Flow]) -> set[int]:
    """The flows, by their identities, whose sockets are sampled: no more than SAMPLED_MOST at a
    time. One of a size may last until the end."""
    found: set[int] = set()
    ends_us: list[float] = []
    for flow in flows:
        while ends_us and ends_us[0] <= flow.time_us:
            heapq.heappop(ends_us)
        if len(ends_us) < SAMPLED_MOST:
            heapq.heappush(ends_us, math.inf if flow.size_bytes else flow.end_us)
            found.add(id(flow))
    return found


def _line_of_flow(flow: Flow, peers: dict[str, int], *, is_sampled: bool) -> str:
    peer = peers.setdefault(flow.destination, len(peers))
    times = map(_ns, (flow.time_us, flow.duration_us, flow.flowlet_us, flow.gap_us))
    return f"F {' '.join(map(str, times))} {flow.size_bytes} {peer} {int(is_sampled)}"


def _line_of_request(request: Request, stores: Sequence[str], peers: dict[str, int]) -> str:
    start = _ns(request.time_us)
    store = trace_format.store_of(request.key, stores)
    peer = peers.setdefault(store, len(peers))
    if request.value is None:
        return f"G {start} {peer} {request.key}"
    return f"S {start} {peer} {request.key} {request.value}"


def _ns(microseconds: float) -> int:
    return round(microseconds * 1000)
