"""A topology as a drawing in text, for terminal and page. `══` is a link with limits."""

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from netesto.lab.graph import Link, Topology


def draw(topology: Topology) -> str:
    """The drawing, without a final line end. The limits of links are below it."""
    drawing = DRAWINGS.get(topology.name, _outline)(topology)
    limits = _limits(topology)
    return "\n".join([*drawing, "", *limits]) if limits else "\n".join(drawing)


def _line(link: Link) -> str:
    return "══" if _words(link) else "──"


def _words(link: Link) -> str:
    """The settings of a link; if its directions differ, of each."""
    if link.back is None:
        return link.settings.describe()
    return "; ".join(
        f"{node} → {link.other(node)} {link.sent_by(node).describe() or 'without limits'}"
        for node in (link.a, link.b)
    )


def _limits(topology: Topology) -> list[str]:
    """The limits: "router ══ right: 100 Mbit/s, queue 625K"; links with the same ones together."""
    alike: dict[str, list[Link]] = {}
    for link in topology.links:
        weight = "" if link.weight == 1 else f"weight {float(link.weight):g}"
        if words := ", ".join(filter(None, (_words(link), weight))):
            alike.setdefault(words, []).append(link)
    if len(alike) == 1 and sum(map(len, alike.values())) == len(topology.links) > 1:
        return [f"every link: {words}" for words in alike]
    return [
        f"{', '.join(f'{link.a} ══ {link.b}' for link in links)}: {words}"
        for words, links in alike.items()
    ]


def _row(topology: Topology) -> list[str]:
    """`h1 ── r1 ── h2`: every link begins where the last one ended."""
    text = topology.links[0].a
    for link in topology.links:
        text += f" {_line(link)} {link.b}"
    return [text]


def _dumbbell(topology: Topology) -> list[str]:
    """Clients left, servers right, the bottleneck between them on the middle line."""
    switches = [topology.links_of(name) for name in ("left", "right")]
    clients = [link.a for link in switches[0] if link.a != "left"]
    servers = [link.b for link in switches[1] if link.b != "right"]
    bottleneck = next(link for link in switches[1] if link.a == "router")
    middle = f" left ── [router] {_line(bottleneck)} right "
    height = max(len(clients), len(servers))
    row = (height - 1) // 2
    left = _fork(clients, height, row, mirrored=False)
    right = _fork(servers, height, row, mirrored=True)
    return [
        f"{left[i]}{middle if i == row else ' ' * len(middle)}{right[i]}".rstrip()
        for i in range(height)
    ]


def _fork(names: Sequence[str], height: int, row: int, *, mirrored: bool) -> list[str]:
    """Names under one another, joined to one line that leaves at `row`."""
    width = max(map(len, names))
    first = row - (len(names) - 1) // 2
    lines = []
    for i in range(height):
        place = i - first
        if not 0 <= place < len(names):
            lines.append(" " * (width + 3))
            continue
        joint = _joint(place, len(names), at_row=i == row, mirrored=mirrored)
        name = names[place]
        lines.append(f"{joint}─ {name:<{width}}" if mirrored else f"{name:<{width}} ─{joint}")
    return lines


def _joint(place: int, count: int, *, at_row: bool, mirrored: bool) -> str:
    """The corner, tee or cross where a name's line meets the vertical one."""
    # Neither a line above nor one below, only above, only below, both.
    joints = ("──", "┴┴", "┬┬", "┼┼") if at_row else ("──", "┘└", "┐┌", "┤├")
    return joints[(place > 0) + 2 * (place < count - 1)][mirrored]


def _outline(topology: Topology) -> list[str]:
    """Any topology: each node once, under the node that leads to it; other links below."""
    kinds = {node.kind: node.name for node in reversed(topology.nodes)}
    root = kinds.get("switch") or kinds.get("router") or topology.nodes[0].name
    branches = _spanning_tree(topology, root)
    drawn = {id(link) for links in branches.values() for link in links}
    rest = [link for link in topology.links if id(link) not in drawn]
    return [
        root,
        *_branch_lines(branches, root, ""),
        *(f"{link.a} {_line(link)} {link.b}" for link in rest),
    ]


def _spanning_tree(topology: Topology, root: str) -> dict[str, list[Link]]:
    """For each node the links to its children in a spanning tree."""
    branches: dict[str, list[Link]] = {}
    seen = {root}
    queue = deque([root])
    while queue:
        node = queue.popleft()
        for link in topology.links_of(node):
            if link.other(node) not in seen:
                seen.add(link.other(node))
                branches.setdefault(node, []).append(link)
                queue.append(link.other(node))
    return branches


def _branch_lines(branches: Mapping[str, list[Link]], node: str, indent: str) -> Iterator[str]:
    links = branches.get(node, [])
    for link in links:
        corner, below = ("└", "    ") if link is links[-1] else ("├", "│   ")
        yield f"{indent}{corner}{_line(link)} {link.other(node)}"
        yield from _branch_lines(branches, link.other(node), indent + below)


def _fattree(topology: Topology) -> list[str]:
    """The rows of a fat tree: the number of nodes in each, and their links."""
    cores = sum(node.name.startswith("c") for node in topology.nodes)
    idle = [node.name for node in topology.nodes if node.idle]
    half = math.isqrt(cores)
    pods = [
        f"pod {pod + 1}:  a{pod * half + 1} … a{(pod + 1) * half} ── "
        f"e{pod * half + 1} … e{(pod + 1) * half}"
        f" ── h{pod * half**2 + 1} … h{(pod + 1) * half**2}"
        for pod in range(2 * half)
    ]
    return [
        f"c1 … c{cores}, each linked to one a of every pod; in a pod every a to every e",
        *pods,
        *([f"idle: {', '.join(idle)}"] if idle else []),
    ]


def _leafspine(topology: Topology) -> list[str]:
    """The leaves with their hosts, and the spines that each is linked to."""
    spines = [node.name for node in topology.nodes if node.name.startswith("s")]
    leaves = [node.name for node in topology.nodes if node.name.startswith("l")]
    count = len(topology.hosts) // len(leaves)
    return [
        f"{_ends(spines)}, each linked to every l",
        *(
            f"{leaf} ── {_ends(topology.hosts[i * count : (i + 1) * count])}"
            for i, leaf in enumerate(leaves)
        ),
    ]


def _ends(names: Sequence[str]) -> str:
    """The first and the last name."""
    return " … ".join(dict.fromkeys((names[0], names[-1])))


DRAWINGS: Mapping[str, Callable[[Topology], list[str]]] = {
    "pair": _row,
    "chain": _row,
    "dumbbell": _dumbbell,
    "fattree": _fattree,
    "leafspine": _leafspine,
}
