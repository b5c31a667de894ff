"""The addresses by which traces, and people at a command line, name the hosts of a lab."""

from collections.abc import Mapping

from netesto.lab.graph import Topology
from netesto.lab.routes import Routes
from netesto.traces import addresses
from netesto.traces.addresses import Addresses


def of(topology: Topology) -> Mapping[str, str]:
    """The aliases of a topology: those of its file, else 10.0.0.K for a host hK."""
    if topology.aliases:
        return topology.aliases
    numbered = {host: addresses.numbered(host) for host in topology.hosts}
    return {address: host for host, address in numbered.items() if address is not None}


def addresses_of(topology: Topology) -> Addresses:
    """The addresses of hosts: aliases, and behind them those that the lab gives them (IPv4)."""
    named, routes = of(topology), Routes(topology)
    own = {str(routes.tested(topology.node(name)).addresses[0].ip): name for name in topology.hosts}
    return Addresses({**named, **{each: own[each] for each in own if each not in named}})
