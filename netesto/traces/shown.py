"""What a trace has, as numbers for people and programs."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from netesto.text.names import by_number
from netesto.traces.format import Trace


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """`pairs` counts the flows from one host to another, `h1-h9`; `flowlets` those with pauses."""

    hosts: tuple[str, ...]
    sets: int
    gets: int
    flows: int
    end_s: float
    pairs: Mapping[str, int]
    flowlets: int


def facts(trace: Trace) -> TraceFacts:
    kinds = Counter(event.kind for event in trace.events)
    flows = trace.flows
    pairs = Counter((flow.host, flow.destination) for flow in flows)
    return TraceFacts(
        hosts=tuple(sorted(trace.hosts, key=by_number)),
        sets=kinds["set"],
        gets=kinds["get"],
        flows=kinds["flow"],
        end_s=trace.end_us / 1e6,
        pairs={
            f"{source}-{destination}": pairs[source, destination]
            for source, destination in sorted(pairs, key=lambda pair: tuple(map(by_number, pair)))
        },
        flowlets=sum(1 for flow in flows if flow.flowlet_us > 0),
    )


def lines(shown: TraceFacts) -> Iterator[str]:
    yield f"hosts     {' '.join(shown.hosts)}"
    yield f"sets      {shown.sets}"
    yield f"gets      {shown.gets}"
    yield f"flows     {shown.flows}, {shown.flowlets} of them with flowlets"
    yield f"end       {shown.end_s:.6f} s"
    for pair, count in shown.pairs.items():
        yield f"  {pair:14} {count}"
