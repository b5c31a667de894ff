"""Labs for runs: building them, naming their hosts, finding unfetched data."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from netesto.controller import preflight
from netesto.controller.inventory import Inventory
from netesto.errors import Place, UsageError
from netesto.grounds import Ground
from netesto.lab import plan, records, topology, ways
from netesto.lab.addressing import LinkEnd
from netesto.lab.netns import Lab
from netesto.lab.topology import Topology
from netesto.language.steps import LabRequest, RemoteCommand
from netesto.links import made
from netesto.links.routed import RoutedFlow
from netesto.model import GUEST_MEMORY_MB, Endpoint, LabLink
from netesto.results.links import LinkRecord, Way
from netesto.system import proc


def parse_spec(spec: str) -> LabRequest:
    """`dumbbell,clients=2,rate=10mbit`, or the path of a TOML file, as a LAB without a script.
    UsageError if it is neither."""
    settings: dict[str, str] = {}
    name = ""
    if spec.endswith(".toml"):
        settings["file"] = spec
    elif " " in spec.strip():
        commas = ",".join(spec.replace(",", " ").split())
        raise UsageError(
            f"--lab {spec}: commas separate its words", remedy=f"Write: --lab {commas}"
        )
    else:
        name, *words = spec.split(",")
        for word in words:
            key, equals, value = word.partition("=")
            if not equals:
                # A comma inside a value, such as a list, belongs to the value.
                raise UsageError(
                    f"--lab {spec}: {word!r} is not k=v", remedy="Write: --lab dumbbell,rate=10mbit"
                )
            if key in settings:
                raise UsageError(
                    f"--lab {spec}: {key} is given twice",
                    remedy=f"Leave out {key}={settings[key]} or {word}.",
                )
            settings[key] = value
    asked = LabRequest(topology=name, settings=settings, place=Place("", 0))
    return replace(asked, text=text_of(asked))


def network(request: LabRequest) -> Topology:
    """The topology of a LAB. UsageError if it does not exist."""
    return topology.build(
        request.topology, request.settings, script=request.place.file, text=request.text
    )


def memory_mb(request: LabRequest | None) -> int:
    """The memory, in MiB, of a guest with this lab."""
    from netesto.lab import guest

    try:
        return guest.memory_mb(network(request)) if request is not None else GUEST_MEMORY_MB
    except UsageError:
        # What cannot be built is refused with its place, later.
        return GUEST_MEMORY_MB


def text_of(request: LabRequest) -> str:
    """The content of a LAB's file; "" if there is none, or it cannot be read."""
    if request.topology or "file" not in request.settings:
        return ""
    try:
        path = topology.find(request.settings["file"], request.place.file)
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def unfetched(lab: Lab) -> dict[str, Path]:
    """The folders with unfetched measurements, by host."""
    folders = {host: Path(lab.record.files) / host / "spool" for host in lab.record.hosts}
    return {
        host: folder
        for host, folder in folders.items()
        if any(path.is_file() for path in folder.rglob("*"))
    }


def endpoints(
    lab: Lab, built: plan.LabPlan, pairs: Iterable[tuple[str, str]], *, ground: Ground
) -> list[Endpoint]:
    """The hosts of a lab that is up, with the paths between the hosts of `pairs`."""
    paths: defaultdict[str, dict[str, Sequence[LabLink]]] = defaultdict(dict)
    for source, destination in pairs:
        paths[source][destination] = [
            LabLink(
                (end.node.name, end.link.other(end.node.name)),
                end.settings.rate_bps,
                changes=end.link.changes,
            )
            for end in built.path(source, destination)
        ]
    return [
        replace(endpoint, is_simulated=ground.is_simulated, paths=paths[name])
        for name, endpoint in lab.endpoints.items()
    ]


def links_of(built: plan.LabPlan) -> tuple[LinkRecord, ...]:
    """Both directions of each link, where an agent counts them."""
    names = _link_names(built)
    found = []
    for end, middle in built.directions:
        across = built.routes.ends[end.index ^ 1]
        counted = _counted_at(end, across)
        place = middle or (f"{counted.node.name}/{counted.name}" if counted else "")
        found.append(
            LinkRecord(
                link=names[end.index // 2],
                source=end.node.name,
                destination=across.node.name,
                place=place,
                is_received=not middle and counted is across,
                rate_bps=end.settings.rate_bps,
            )
        )
    return tuple(found)


def _link_names(built: plan.LabPlan) -> list[str]:
    """`a-b`; a second link between two nodes is `a-b.2`."""
    names: list[str] = []
    pairs: dict[frozenset[str], int] = {}
    ends = built.routes.ends
    for a, b in zip(ends[::2], ends[1::2], strict=True):
        pair = frozenset({a.node.name, b.node.name})
        name = f"{a.node.name}-{b.node.name}"
        count = pairs[pair] = pairs.get(pair, 0) + 1
        names.append(name if count == 1 else f"{name}.{count}")
    return names


def _counted_at(end: LinkEnd, across: LinkEnd) -> LinkEnd | None:
    """The interface, of the two of a link without limits, that is sampled: all of a router are, and
    of a host that by which its flows leave; None between two switches."""
    both = [(kind, each) for kind in ("router", "host") for each in (end, across)]
    return next((each for kind, each in both if each.node.kind == kind), None)


def tracer(lab: Lab, built: plan.LabPlan) -> Callable[[Sequence[RoutedFlow]], list[Way | None]]:
    """What finds the ways of flows while the lab is up: those that its routes leave no choice, and
    of the others those of IPv4, as its kernel reports; None for others. LabError if a flow does not
    arrive."""
    names = _link_names(built)
    ends = {(end.node.name, end.name): end for end in built.routes.ends}
    hosts = {
        address: name for name, each in lab.endpoints.items() for address in each.addresses.values()
    }

    def way(path: Sequence[LinkEnd]) -> Way:
        nodes = (path[0].node.name, *(end.link.other(end.node.name) for end in path))
        return Way(nodes, tuple(names[end.index // 2] for end in path))

    @cache
    def possible(source: str, destination: str) -> list[tuple[LinkEnd, ...]]:
        return list(itertools.islice(built.routes.ways(source, destination), 2))

    def found(flows: Sequence[RoutedFlow]) -> list[Way | None]:
        result: list[Way | None] = [None] * len(flows)
        chosen = []
        for number, flow in enumerate(flows):
            paths = possible(hosts[flow.source], hosts[flow.destination])
            if len(paths) == 1 and paths[0]:
                result[number] = way(paths[0])
            elif paths and paths[0] and flow.source.version == 4:
                chosen.append(number)
        asked = [flows[number] for number in chosen]
        for number, hops in zip(chosen, ways.trace(lab.record, asked), strict=True):
            legs = [
                built.routes.within(
                    ends[hop.leaves.node, hop.leaves.device],
                    ends[hop.arrives.node, hop.arrives.device],
                )
                for hop in hops
            ]
            result[number] = way([end for leg in legs for end in leg])
        return result

    return found


def plan_of(network: Topology) -> plan.LabPlan:
    """The plan of a new lab on this machine."""
    maker = made.maker(proc.ground_inside())
    return plan.plan(network, prefix=records.fresh_id(records.STATE_FOLDER), maker=maker)


def inventory(
    network: Topology, commands: Sequence[RemoteCommand], *, aliases: Mapping[str, str]
) -> Inventory:
    """The hosts of a lab, which need not exist yet, by their names in commands; traces name some by
    the aliases of its file."""
    hosts = [Endpoint(host=name, agent="") for name in network.hosts]
    every = {**network.aliases, **aliases}
    return Inventory(hosts, aliases=every, suffixes=preflight.suffixes(commands))
