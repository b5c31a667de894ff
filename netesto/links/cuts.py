"""The smallest cut of a network: the links that limit what one set of nodes can send to another."""

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Arc(NamedTuple):
    """One direction of a link. Its rate is in bit/s; None: it has no limit."""

    source: str
    destination: str
    rate_bps: float | None


@dataclass(frozen=True, slots=True)
class Cut:
    """The capacity from senders to receivers (bit/s), None without a limit, and the arcs that the
    cut consists of: of several smallest cuts one with the fewest arcs, nearest to the senders."""

    rate_bps: float | None
    arcs: tuple[Arc, ...]


def smallest(arcs: Sequence[Arc], senders: Collection[str], receivers: Collection[str]) -> Cut:
    """The smallest cut between two sets of nodes without a common one, by the maximum flow (Dinic
    1970), which is as large (Ford and Fulkerson 1956). Rates count to the bit."""
    return _ResidualNetwork(arcs).cut(senders, receivers)


class _ResidualNetwork:
    """Residual capacities of arcs, each with its reverse behind it."""

    def __init__(self, arcs: Sequence[Arc]) -> None:
        self._arcs = arcs
        # A bit weighs more than all arcs together: so the fewest arcs decide between equal cuts.
        self._bit = len(arcs) + 1
        finite = [self._weight(arc.rate_bps) for arc in arcs if arc.rate_bps is not None]
        # More than all limits together: no cut of limits reaches it.
        self._unlimited = sum(finite) + 1
        self._ends: list[str] = []
        self._capacity: list[int] = []
        self._out: dict[str, list[int]] = {}
        for arc in arcs:
            weight = self._unlimited if arc.rate_bps is None else self._weight(arc.rate_bps)
            self._add(arc.source, arc.destination, weight)

    def _weight(self, rate_bps: float) -> int:
        return round(rate_bps) * self._bit + 1

    def _add(self, source: str, destination: str, weight: int) -> None:
        for start, end, left in ((source, destination, weight), (destination, source, 0)):
            self._out.setdefault(start, []).append(len(self._ends))
            self._ends.append(end)
            self._capacity.append(left)

    def cut(self, senders: Collection[str], receivers: Collection[str]) -> Cut:
        # Names of nodes are never empty; these two join all senders, and all receivers.
        start, end = "\0senders", "\0receivers"
        for name in senders:
            self._add(start, name, self._unlimited)
        for name in receivers:
            self._add(name, end, self._unlimited)
        total = 0
        while end in (levels := self._levels(start)):
            total += self._blocking(start, end, levels)
            if total >= self._unlimited:
                return Cut(None, ())
        crossing = tuple(
            arc for arc in self._arcs if arc.source in levels and arc.destination not in levels
        )
        return Cut(sum(arc.rate_bps or 0.0 for arc in crossing), crossing)

    def _levels(self, start: str) -> dict[str, int]:
        """The distances of the nodes that still can be reached."""
        levels = {start: 0}
        pending = deque([start])
        while pending:
            node = pending.popleft()
            for edge in self._out[node]:
                end = self._ends[edge]
                if self._capacity[edge] and end not in levels:
                    levels[end] = levels[node] + 1
                    pending.append(end)
        return levels

    def _blocking(self, start: str, end: str, levels: dict[str, int]) -> int:
        """Fill all paths of the shortest length; what was added."""
        place = dict.fromkeys(levels, 0)
        total = 0
        path: list[int] = []
        node = start
        while True:
            if node == end:
                added = min(self._capacity[edge] for edge in path)
                for edge in path:
                    self._capacity[edge] -= added
                    self._capacity[edge ^ 1] += added
                total += added
                path, node = [], start
                continue
            edges, level = self._out[node], levels[node] + 1
            while place[node] < len(edges):
                edge = edges[place[node]]
                if self._capacity[edge] and levels.get(self._ends[edge]) == level:
                    break
                place[node] += 1
            if place[node] < len(edges):
                path.append(edges[place[node]])
                node = self._ends[path[-1]]
            elif path:
                # A dead end: nothing goes there again.
                node = self._ends[path.pop() ^ 1]
                place[node] += 1
            else:
                return total
