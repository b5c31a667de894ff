"""The links of a lab with their utilisation, drawn for the page of an experiment.

Hosts are at the bottom, routers above them in rows by their distance from the nearest host. Each
direction of a link is a line, at the right-hand side of its way.
"""

import itertools
import math
import statistics
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from netesto.results import links, numbers
from netesto.text.names import by_number

# A drawing of more would be unreadable, and a page of more flows too large.
MOST_LINKS, MOST_FLOWS = 1000, 4000
# The steps of the slider over time, at most.
MOST_STEPS = 100

# In units of the drawing: the place for a node of the largest row, the least distance of rows, and
# that of a line from the middle of its link.
_NODE, _ROW, _ASIDE = 15.0, 100.0, 1.8
_NARROWEST = 640.0


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A host or a router at its place in the drawing."""

    name: str
    is_host: bool
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Direction:
    """A direction of a link: its line, and what it carried. `percent` is its utilisation."""

    name: str
    line: str
    percent: float | None
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A drawing. `steps` has for each direction that carried something its utilisation (%) in
    each step of `step_s`; `flows` have their words and the directions on their ways, by place.
    `further` flows are only in the file of ways."""

    width: float
    height: float
    nodes: tuple[DrawnNode, ...]
    directions: tuple[Direction, ...]
    step_s: float
    steps: Mapping[int, Sequence[int]]
    flows: Sequence[tuple[str, Sequence[int]]]
    further: int

    @property
    def data(self) -> dict[str, object]:
        """What the script of the page needs."""
        return {"step_s": self.step_s, "steps": self.steps, "flows": self.flows}


def of_experiment(folder: Path) -> Network | None:
    """The network of an experiment of a lab, from its files; None of others, and of labs with too
    many links."""
    carried = list(links.read_table(folder / links.LINKS))
    if not carried or len(carried) > 2 * MOST_LINKS:
        return None
    ends = [(row["from"], row["to"]) for row in carried]
    nodes = _nodes(ends)
    at = {node.name: node for node in nodes}
    places = {f"{row['link']} {row['from']}": place for place, row in enumerate(carried)}
    step_s, steps = _steps(links.read_table(folder / links.SERIES), places)
    ways = list(links.read_table(folder / links.RAW_WAYS))
    return Network(
        width=max(node.x for node in nodes) + max(_NODE, min(node.x for node in nodes)),
        height=max(node.y for node in nodes) + _ROW / 2,
        nodes=nodes,
        directions=tuple(
            Direction(
                name=f"{row['from']}→{row['to']}{_twin(row['link'])}",
                line=_line(at[row["from"]], at[row["to"]], _twin(row["link"])),
                percent=100 * float(row["utilisation"]) if row["utilisation"] else None,
                words=_words(row),
            )
            for row in carried
        ),
        step_s=step_s,
        steps=steps,
        flows=[
            (
                _flow_words(row),
                [places[each] for each in links.way_of(row).directions if each in places],
            )
            for row in ways[:MOST_FLOWS]
        ],
        further=max(0, len(ways) - MOST_FLOWS),
    )


def _twin(link: str) -> str:
    """ ".2" of the second link between two nodes."""
    name, dot, number = link.rpartition(".")
    return f".{number}" if dot and name and number.isdecimal() else ""


def _words(row: Mapping[str, str]) -> str:
    rate = row["rate_bps"]
    of = f" of {numbers.figure(repr(float(rate) / 1e6), 4)} Mbit/s" if rate else ""
    if row["utilisation"]:
        share = f"{100 * float(row['utilisation']):.1f} %{of}"
    else:
        share = f"unknown share{of}" if rate else "no rate"
    names = ("packets", "drops", "marks", *links.PROGRAM_COLUMNS)
    counts = [f"{row[name]} {name.replace('_', ' ')}" for name in names if row.get(name)]
    return ", ".join([share, *counts])


def _flow_words(row: Mapping[str, str]) -> str:
    return (
        f"{row['source']}→{row['destination']} {row['protocol']} {row['sport']}→{row['dport']}"
        f", group {row['group']}: {row['way']}"
    )


# ---- places ------------------------------------------------------------------------------------


def _nodes(ends: Iterable[tuple[str, str]]) -> tuple[DrawnNode, ...]:
    rows = placed(ends)
    width = max(_NARROWEST, _NODE * max(map(len, rows)))
    distance = max(_ROW, width / 14)
    return tuple(
        DrawnNode(
            name=name,
            is_host=not rank,
            x=round((place + 0.5) / len(row) * width, 1),
            y=round((len(rows) - 1 - rank + 0.3) * distance, 1),
        )
        for rank, row in enumerate(rows)
        for place, name in enumerate(row)
    )


def placed(ends: Iterable[tuple[str, str]]) -> list[list[str]]:
    """The rows of nodes from the bottom, each from left to right. Nodes with one neighbour are
    hosts; others are as many rows above as links away from the nearest one."""
    neighbours: dict[str, set[str]] = {}
    for one, other in ends:
        neighbours.setdefault(one, set()).add(other)
        neighbours.setdefault(other, set()).add(one)
    names = sorted(neighbours, key=by_number)
    hosts = [name for name in names if len(neighbours[name]) == 1] or names
    ranks = dict.fromkeys(hosts, 0)
    queue = deque(hosts)
    while queue:
        name = queue.popleft()
        for other in neighbours[name]:
            if other not in ranks:
                ranks[other] = ranks[name] + 1
                queue.append(other)
    rows: list[list[str]] = [[] for _ in range(max(ranks.values()) + 1)]
    for name in _downward(names, neighbours, ranks):
        rows[ranks[name]].append(name)
    for below, row in itertools.pairwise(rows):
        position = {name: (place + 0.5) / len(below) for place, name in enumerate(below)}
        row.sort(key=by_number)
        row.sort(key=lambda name: _middle(position, neighbours[name]))
    return rows


def _downward(
    names: Sequence[str], neighbours: Mapping[str, Collection[str]], ranks: Mapping[str, int]
) -> list[str]:
    """The nodes so that those below one are together, beginning with the topmost."""
    found: dict[str, None] = {}
    stack = sorted(names, key=lambda name: ranks[name])
    stack.reverse()
    stack.sort(key=lambda name: ranks[name])
    while stack:
        name = stack.pop()
        if name in found:
            continue
        found[name] = None
        below = [other for other in neighbours[name] if ranks[other] < ranks[name]]
        stack += sorted(below, key=by_number, reverse=True)
    return list(found)


def _middle(position: Mapping[str, float], neighbours: Iterable[str]) -> float:
    known = [position[name] for name in neighbours if name in position]
    return sum(known) / len(known) if known else 0.5


def _line(start: DrawnNode, end: DrawnNode, twin: str) -> str:
    """The path of a line; one between nodes of a row bends around those between them."""
    x, y = end.x - start.x, end.y - start.y
    length = math.hypot(x, y) or 1.0
    # The right-hand side of who goes along it, as y grows downwards; further links are further out.
    aside = _ASIDE + 3 * _ASIDE * (int(twin[1:]) - 1 if twin else 0)
    dx, dy = -y / length * aside, x / length * aside
    a, b = (f"{node.x + dx:.1f} {node.y + dy:.1f}" for node in (start, end))
    if start.y != end.y:
        return f"M{a}L{b}"
    bend_y = start.y - 0.6 * _ROW + (aside if x > 0 else -aside)
    return f"M{a}Q{(start.x + end.x) / 2:.1f} {bend_y:.1f} {b}"


# ---- over time ---------------------------------------------------------------------------------


def _steps(
    rows: Iterable[Mapping[str, str]], places: Mapping[str, int]
) -> tuple[float, dict[int, list[int]]]:
    """The length of a step, and the utilisation (%) of directions in each; 0 without intervals."""
    intervals = []
    for row in rows:
        if not row["utilisation"] or not (share := float(row["utilisation"])):
            continue
        end_s, seconds = float(row["t_s"]), int(row["bytes"]) * 8 / (float(row["rate_bps"]) * share)
        intervals.append((places[f"{row['link']} {row['from']}"], end_s - seconds, end_s, share))
    last_s = max((end_s for _, _, end_s, _ in intervals), default=0.0)
    step_s = _step_s(last_s, [end_s - start_s for _, start_s, end_s, _ in intervals])
    count = math.ceil(last_s / step_s) if step_s else 0
    busy: dict[int, list[float]] = {}
    for place, start_s, end_s, share in intervals:
        sums = busy.setdefault(place, [0.0] * count)
        for step in range(max(0, int(start_s / step_s)), min(count, math.ceil(end_s / step_s))):
            within_s = min(end_s, (step + 1) * step_s) - max(start_s, step * step_s)
            sums[step] += share * max(0.0, within_s)
    return step_s, {
        place: [round(100 * each / step_s) for each in sums] for place, sums in busy.items()
    }


def _step_s(last_s: float, intervals_s: Sequence[float]) -> float:
    """The least of 1, 2, 5 times a power of ten that makes no more than MOST_STEPS, and is no
    shorter than most intervals."""
    if last_s <= 0:
        return 0.0
    least_s = max(last_s / MOST_STEPS, round(statistics.median(intervals_s), 3))
    tenth = 10.0 ** math.floor(math.log10(least_s))
    return next(each * tenth for each in (1, 2, 5, 10) if each * tenth >= least_s)
