"""Labs for the command line: the ground of a run, and `lab up|status|exec|path|down`, `clean`."""

import argparse
import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from netesto import process
from netesto.cli import printing, status
from netesto.controller import preflight
from netesto.controller.inventory import Inventory
from netesto.errors import UsageError
from netesto.lab import guest, leftovers, netns, plan, queueing, records, topology, ways
from netesto.lab.netns import Lab
from netesto.lab.nursery import Starter
from netesto.lab.topology import Topology
from netesto.lab.ways import Flow
from netesto.language.ports import RemoteCommand
from netesto.model import Address, Endpoint

# Flows of any source port that `lab path` asks for: enough to meet each of sixteen equal paths.
SAMPLE_FLOWS = 256


def parse_spec(spec: str) -> Topology:
    """`dumbbell,clients=2,rate=10mbit`, or the path of a TOML file, as a topology."""
    if spec.endswith(".toml"):
        return topology.load(Path(spec))
    if " " in spec.strip():
        commas = ",".join(spec.replace(",", " ").split())
        raise UsageError(f"--lab {spec}: its words stand between commas", remedy=f"--lab {commas}")
    name, *words = spec.split(",")
    settings: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            # A comma inside a value, such as a list, belongs to the value.
            raise UsageError(f"--lab {spec}: {word!r} is not k=v", remedy="dumbbell,rate=10mbit")
        if key in settings:
            raise UsageError(
                f"--lab {spec}: {key} is given twice",
                remedy=f"Leave out {key}={settings[key]} or {word}.",
            )
        settings[key] = value
    return topology.build(name, settings)


def unfetched(lab: Lab) -> dict[str, Path]:
    """The folders with what hosts measured and no controller has fetched, by host."""
    folders = {host: Path(lab.record.files) / host / "spool" for host in lab.record.hosts}
    return {
        host: folder
        for host, folder in folders.items()
        if any(path.is_file() for path in folder.rglob("*"))
    }


@contextlib.contextmanager
def up(network: Topology, nursery: Starter) -> Iterator[Lab]:
    """The lab, for as long as the body runs; its agents come from the nursery."""
    with netns.up(plan_of(network), nursery=nursery) as lab:
        yield lab


def plan_of(network: Topology) -> plan.Plan:
    """The plan of a new lab on this machine."""
    burst_s = queueing.burst_s(guest.ground_inside())
    return plan.plan(network, prefix=records.fresh_id(records.STATE_FOLDER), burst_s=burst_s)


def inventory(
    network: Topology, commands: Sequence[RemoteCommand], *, aliases: Mapping[str, str]
) -> Inventory:
    """The hosts of a lab that need not be there yet, by the names that commands have for them."""
    hosts = [Endpoint(host=name, agent="") for name in network.hosts]
    return Inventory(hosts, aliases=aliases, suffixes=preflight.suffixes(commands))


def parse_map(text: str) -> Mapping[str, str]:
    """`--map a=b,c=d` as a mapping. UsageError where there is no `=`."""
    aliases: dict[str, str] = {}
    for word in filter(None, text.split(",")):
        name, equals, host = word.partition("=")
        if not (name and equals and host):
            raise UsageError(
                f"--map {text}: {word!r} is not NAME=HOST",
                remedy="example: --map client=h1,server=h2",
            )
        if name in aliases:
            raise UsageError(
                f"--map {text}: {name} is given twice",
                remedy="A name has one host; a host may have several names.",
            )
        aliases[name] = host
    return aliases


# ---- commands --------------------------------------------------------------------------------


def lab(options: argparse.Namespace) -> int:
    """`netesto lab …`."""
    match options.action:
        case "up":
            return _bring_up(options)
        case "status":
            return _status()
        case "exec":
            return _exec(options)
        case "path":
            return _path(options)
        case _:
            return _down(options)


def _bring_up(options: argparse.Namespace) -> int:
    network = parse_spec(options.spec)
    built = netns.bring_up(plan_of(network))
    printing.out(f"lab {built.id} is up")
    _print_hosts(built)
    printing.out(f"try: netesto lab exec {network.hosts[0]} ip address")
    return status.OK


def _print_hosts(built: Lab) -> None:
    for name, endpoint in built.endpoints.items():
        addresses = "  ".join(str(address) for address in endpoint.addresses.values())
        printing.out(f"  {name:12} {addresses}")


def _status() -> int:
    state_folder = records.STATE_FOLDER
    found = records.read_all(state_folder)
    if not found:
        printing.out("no lab is up")
    for record in found:
        is_left = records.is_abandoned(state_folder, record)
        state = "left by a run that was killed: netesto clean" if is_left else "up"
        printing.out(f"lab {record.lab} ({record.topology}): {state}")
        _print_hosts(Lab(record, state_folder))
    return status.OK


def _the_lab(name: str | None) -> Lab:
    """The lab of that name; without a name, the one that is up."""
    if name:
        return netns.attach(name)
    state_folder = records.STATE_FOLDER
    standing = [
        record
        for record in records.read_all(state_folder)
        if not records.is_abandoned(state_folder, record)
    ]
    if not standing:
        raise UsageError("no lab is up", remedy="netesto lab up dumbbell,rate=10mbit")
    if len(standing) > 1:
        names = ", ".join(record.lab for record in standing)
        raise UsageError(f"several labs are up: {names}", remedy="choose one with --name")
    return Lab(standing[0], state_folder)


def _exec(options: argparse.Namespace) -> int:
    if not options.argv:
        raise UsageError("lab exec: which command?", remedy="netesto lab exec client1 ip address")
    words = options.argv[1:] if options.argv[0] == "--" else options.argv
    process.become(_the_lab(options.name).command(options.host, words))


def _path(options: argparse.Namespace) -> int:
    built = _the_lab(options.name)
    source, destination = (_address(built, host) for host in (options.source, options.destination))
    if source == destination:
        raise UsageError(f"lab path: from {options.source} to itself")
    ports = range(options.sport, options.sport + 1) if options.sport else _any_ports()
    flows = [
        Flow(
            source=source,
            destination=destination,
            source_port=port,
            destination_port=options.dport,
            protocol="udp" if options.udp else "tcp",
        )
        for port in ports
    ]
    shares = Counter(map(ways.describe, ways.trace_all(ways.Map.of_record(built.record), flows)))
    for way, count in sorted(shares.items()):
        printing.out(way if len(shares) == 1 else f"{way}  {count / len(flows):.0%}")
    return status.OK


def _any_ports() -> range:
    return range(ways.FIRST_PORT, ways.FIRST_PORT + SAMPLE_FLOWS)


def _address(built: Lab, host: str) -> Address:
    """The IPv4 address that traffic of a host uses."""
    if host not in built.endpoints:
        known = ", ".join(built.endpoints)
        raise UsageError(f"lab {built.id}: no host {host}", remedy=f"There are {known}.")
    return built.endpoints[host].addresses[4]


def _down(options: argparse.Namespace) -> int:
    taken = _the_lab(options.name)
    netns.take_down(taken)
    printing.out(f"lab {taken.id} is gone")
    return status.OK


def clean(options: argparse.Namespace) -> int:
    """`netesto clean`."""
    del options
    removed = [*leftovers.clean(), *map(str, guest.remove_leftovers())]
    for thing in removed:
        printing.out(f"removed {thing}")
    if not removed:
        printing.out("nothing was left behind")
    return status.OK
