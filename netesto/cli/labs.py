"""Labs for the command line: `lab up|status|exec|path|cut|verify|watch|down`, `clean`."""

import argparse
import contextlib
from collections import Counter

from netesto import units
from netesto.cli import printing, verifying, watching
from netesto.controller.inventory import Inventory
from netesto.errors import UsageError
from netesto.lab import guest, leftovers, netns, records, ways
from netesto.lab.graph import Topology
from netesto.lab.netns import Lab
from netesto.links.routed import RoutedFlow
from netesto.model import Address
from netesto.run import labs, status
from netesto.system import process
from netesto.text.nearest import hint

# The number of source ports that `lab path` tries: enough to meet each of sixteen equal paths.
SAMPLE_FLOWS = 256

# The flows of each pair of hosts that `lab path --all-pairs` tries, if the user does not say.
PAIR_FLOWS = 16


def bring_up(options: argparse.Namespace) -> int:
    """Build a lab and leave it up."""
    network = labs.network(labs.parse_spec(options.spec))
    built = netns.bring_up(labs.plan_of(network))
    printing.out(f"lab {built.id} is up")
    _print_hosts(built)
    printing.out(f"try: netesto lab exec {network.hosts[0]} ip address")
    return status.OK


def _print_hosts(built: Lab) -> None:
    for name, endpoint in built.endpoints.items():
        addresses = "  ".join(str(address) for address in endpoint.addresses.values())
        printing.out(f"  {name:12} {addresses}")


def show_status(options: argparse.Namespace) -> int:
    """What is up, or the lab of that name."""
    if options.name:
        found = [netns.attach(options.name)]
    else:
        folder = records.STATE_FOLDER
        found = [Lab(record, folder) for record in records.read_all(folder)]
    if not found:
        printing.out("no lab is up")
    for one in found:
        printing.out(f"lab {one.id} ({one.record.topology}): {_state(one)}")
        _print_hosts(one)
    return status.OK


def _state(one: Lab) -> str:
    if records.is_abandoned(one.state, one.record):
        return "left by a run that was killed: netesto clean"
    if not one.missing:
        return "up"
    what = f"not up: no namespace {', '.join(one.missing)}"
    # The lab of a run is being built or taken down.
    return what if one.record.owner is not None else f"{what}: netesto lab down --name {one.id}"


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
        raise UsageError(f"several labs are up: {names}", remedy="Choose one with --name.")
    return Lab(standing[0], state_folder)


def execute(options: argparse.Namespace) -> int:
    """Become a command on a host of the lab."""
    if not options.argv:
        raise UsageError("lab exec: missing command", remedy="netesto lab exec client1 ip address")
    words = options.argv[1:] if options.argv[0] == "--" else options.argv
    process.become(_the_lab(options.name).shell(options.host, words))


def verify(options: argparse.Namespace) -> int:
    """Verify a lab of this kind, which is built for it, or the one that is up."""
    with contextlib.ExitStack() as stack:
        if options.spec is None:
            built = _the_lab(options.name)
        else:
            network = labs.network(labs.parse_spec(options.spec))
            built = stack.enter_context(netns.up(labs.plan_of(network)))
        inventory = Inventory([*built.endpoints.values()])
        return verifying.verify(inventory, family=options.family, is_lab=True)


def watch(options: argparse.Namespace) -> int:
    """Show TCP's counters in the lab, every second."""
    built = _the_lab(options.name)
    for host in options.host:
        _check_host(built, host)
    if options.links:
        return watching.watch_links(built, plain=options.plain)
    return watching.watch(built, options.host, plain=options.plain)


def path(options: argparse.Namespace) -> int:
    """The path of a flow, or the share of each path over many flows."""
    built = _the_lab(options.name)
    if options.all_pairs:
        return _all_pairs(built, options)
    if options.destination is None:
        raise UsageError(
            "lab path: a source and a destination are required",
            remedy="netesto lab path h1 h2, or netesto lab path --all-pairs",
        )
    if options.flows is not None or options.format != "text":
        raise UsageError("lab path: --flows and --format csv are options of --all-pairs")
    source, destination = (_address(built, host) for host in (options.source, options.destination))
    if source == destination:
        raise UsageError(f"lab path: {options.source} is both source and destination")
    first, count = (options.sport, 1) if options.sport else (ways.FIRST_PORT, SAMPLE_FLOWS)
    flows = [
        RoutedFlow(
            source=source,
            destination=destination,
            source_port=port,
            destination_port=options.dport,
            protocol="udp" if options.udp else "tcp",
        )
        for port in range(first, first + count)
    ]
    shares = Counter(map(ways.describe, ways.trace(built.record, flows)))
    for way, count in sorted(shares.items()):
        printing.out(way if len(shares) == 1 else f"{way}  {count / len(flows):.0%}")
    return status.OK


def _all_pairs(built: Lab, options: argparse.Namespace) -> int:
    if options.source is not None or options.sport is not None:
        raise UsageError("lab path --all-pairs: hosts and ports are all there are")
    shares = ways.all_pairs(
        built.record,
        options.flows or PAIR_FLOWS,
        port=options.dport,
        protocol="udp" if options.udp else "tcp",
    )
    if options.format == "csv":
        printing.out("from,to,flows")
        for share in shares:
            printing.out(f"{share.source},{share.destination},{share.flows}")
        return status.OK
    for share in shares:
        printing.out(f"{share.source:>15} → {share.destination:15} {share.flows:8}")
    found = ways.balances(built.record, shares)
    printing.out("\ncoefficient of variation" if found else "")
    for balance in found:
        printing.out(f"{balance.name:15} {len(balance.shares):3} links  {balance.variation:.3f}")
    return status.OK


def cut(options: argparse.Namespace) -> int:
    """The smallest cut of a topology."""
    network = labs.network(labs.parse_spec(options.spec))
    senders, receivers = (_nodes(network, text) for text in (options.senders, options.receivers))
    if both := sorted(senders & receivers):
        raise UsageError(f"lab cut: {', '.join(both)}: on both sides")
    found = network.cut(senders, receivers)
    if found.rate_bps is None:
        printing.out("unlimited")
        return status.OK
    printing.out(units.format_rate(found.rate_bps))
    for arc in found.arcs:
        printing.out(f"  {arc.source} → {arc.destination}  {units.format_rate(arc.rate_bps or 0)}")
    return status.OK


def _nodes(network: Topology, text: str) -> set[str]:
    """The nodes in a list. UsageError, with a similar name, if the topology lacks one."""
    known = [node.name for node in network.nodes]
    found = set(text.split(","))
    for name in text.split(","):
        if name not in known:
            remedy = hint(name, known, otherwise=f"Nodes: {', '.join(known)}.")
            raise UsageError(f"lab cut: {network.name}: no node {name}", remedy=remedy)
    return found


def _address(built: Lab, host: str) -> Address:
    """The IPv4 address that traffic of a host uses."""
    _check_host(built, host)
    return built.endpoints[host].addresses[4]


def _check_host(built: Lab, host: str) -> None:
    """UsageError, with a similar name, if the lab has no such host."""
    known = built.record.hosts
    if host not in known:
        remedy = hint(host, known, otherwise=f"Hosts: {', '.join(known)}.")
        raise UsageError(f"lab {built.id}: no host {host}", remedy=remedy)


def take_down(options: argparse.Namespace) -> int:
    """Take the lab down."""
    taken = _the_lab(options.name)
    netns.take_down(taken)
    printing.out(f"removed lab {taken.id}")
    return status.OK


def clean(options: argparse.Namespace) -> int:
    """`netesto clean`."""
    del options
    removed = [*leftovers.clean(), *map(str, guest.remove_leftovers())]
    for thing in removed:
        printing.out(f"removed {thing}")
    if not removed:
        printing.out("nothing to remove")
    return status.OK
