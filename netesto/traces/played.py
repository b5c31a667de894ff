"""What each host does in a trace, as the process that plays it reads it.

The first line of a part is a JSON object, its head. Then come, in the format of netesto-flow
(traffic/native/source/trace.c), a line for each flow or request: times in nanoseconds, and peers by
their place in the head.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from netesto.files import jsontext
from netesto.traces import format as trace_format
from netesto.traces.format import Flow, Request, Trace

FLOWS, REQUESTS = "flows", "requests"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
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

    def with_addresses(self, addresses: Mapping[str, str]) -> "Part":
        return replace(self, addresses=tuple(addresses[peer] for peer in self.peers))


def read(text: str) -> Part:
    """The part that a text is; of a head alone, without its lines."""
    head, _, lines = text.partition("\n")
    members = jsontext.parse(head)
    for name in ("peers", "addresses"):
        members[name] = tuple(members[name])
    return Part(**members, lines=lines)


def parts(
    trace: Trace, *, drain_s: float, store: str, is_paced: bool
) -> Iterator[tuple[str, str, Part]]:
    """Each host with what it has to do: FLOWS or REQUESTS, hosts in the order met."""
    of_hosts: dict[tuple[str, str], list[Flow | Request]] = {}
    for event in trace.events:
        kind = FLOWS if isinstance(event, Flow) else REQUESTS
        of_hosts.setdefault((event.host, kind), []).append(event)
    for (host, kind), events in of_hosts.items():
        peers: dict[str, int] = {}
        lines = [_line(event, trace.stores, peers) for event in events]
        part = Part(
            end_us=trace.end_us,
            drain_s=drain_s,
            peers=tuple(peers),
            count=len(lines),
            store=store,
            is_paced=is_paced,
            lines="".join(f"{line}\n" for line in lines),
        )
        yield host, kind, part


def _line(event: Flow | Request, stores: Sequence[str], peers: dict[str, int]) -> str:
    start = _ns(event.time_us)
    if isinstance(event, Flow):
        peer = peers.setdefault(event.destination, len(peers))
        times = map(_ns, (event.duration_us, event.flowlet_us, event.gap_us))
        return f"F {start} {' '.join(map(str, times))} {event.size_bytes} {peer}"
    store = trace_format.store_of(event.key, stores)
    peer = peers.setdefault(store, len(peers))
    if event.value is None:
        return f"G {start} {peer} {event.key}"
    return f"S {start} {peer} {event.key} {event.value}"


def _ns(microseconds: float) -> int:
    return round(microseconds * 1000)
