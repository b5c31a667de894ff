"""Labs for runs: building them, naming their hosts, finding unfetched data."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from netesto.controller import preflight
from netesto.controller.inventory import Inventory
from netesto.errors import Place, UsageError
from netesto.lab import guest, plan, records, topology
from netesto.lab.netns import Lab
from netesto.lab.topology import Topology
from netesto.language.steps import LabRequest, RemoteCommand
from netesto.links import made
from netesto.model import GUEST_MEMORY_MB, Endpoint, LabLink


def parse_spec(spec: str) -> LabRequest:
    """`dumbbell,clients=2,rate=10mbit`, or the path of a TOML file, as a LAB without a script.
    UsageError if it is neither."""
    settings: dict[str, str] = {}
    name = ""
    if spec.endswith(".toml"):
        settings["file"] = spec
    elif " " in spec.strip():
        commas = ",".join(spec.replace(",", " ").split())
        raise UsageError(f"--lab {spec}: commas separate its words", remedy=f"--lab {commas}")
    else:
        name, *words = spec.split(",")
        for word in words:
            key, equals, value = word.partition("=")
            if not equals:
                # A comma inside a value, such as a list, belongs to the value.
                raise UsageError(
                    f"--lab {spec}: {word!r} is not k=v", remedy="dumbbell,rate=10mbit"
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
    lab: Lab, built: plan.Plan, pairs: Iterable[tuple[str, str]], *, ground: str
) -> list[Endpoint]:
    """The hosts of a lab that is up, with the paths between the hosts of `pairs`."""
    paths: defaultdict[str, dict[str, Sequence[LabLink]]] = defaultdict(dict)
    for source, destination in pairs:
        paths[source][destination] = [
            LabLink((end.node.name, end.link.other(end.node.name)), end.settings.rate_bps)
            for end in built.path(source, destination)
        ]
    return [
        replace(endpoint, is_simulated=ground == "sim", paths=paths[name])
        for name, endpoint in lab.endpoints.items()
    ]


def plan_of(network: Topology) -> plan.Plan:
    """The plan of a new lab on this machine."""
    maker = made.maker(guest.ground_inside())
    return plan.plan(network, prefix=records.fresh_id(records.STATE_FOLDER), maker=maker)


def inventory(
    network: Topology, commands: Sequence[RemoteCommand], *, aliases: Mapping[str, str]
) -> Inventory:
    """The hosts of a lab, which need not exist yet, by their names in commands."""
    hosts = [Endpoint(host=name, agent="") for name in network.hosts]
    return Inventory(hosts, aliases=aliases, suffixes=preflight.suffixes(commands))
