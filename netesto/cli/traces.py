"""Traces for the command line: `trace make|show`, and the store of their requests: `kv`."""

import argparse
import json
import secrets
from dataclasses import asdict
from ipaddress import ip_address
from pathlib import Path

from netesto.cli import printing
from netesto.errors import MissingError, UsageError
from netesto.lab import aliases, topology
from netesto.run import settings, status
from netesto.system import process
from netesto.traces import format as trace_format
from netesto.traces import shown, workload
from netesto.traces.addresses import Addresses
from netesto.traffic import native


def make(options: argparse.Namespace) -> int:
    """Make a trace from a workload."""
    hosts = _addresses(options.topology) or Addresses()
    wanted = workload.read(
        options.workload, hosts, duplicates=options.duplicates, warn=printing.warn
    )
    seed = secrets.randbits(settings.SEED_BITS) if options.seed is None else options.seed
    if options.seed is None:
        printing.err(f"seed {seed}")
    trace = workload.generate(wanted, seed)
    with printing.into(options.out) as file:
        file.writelines(line.encode() for line in trace_format.lines(trace, hosts))
    return status.OK


def _addresses(path: Path | None) -> Addresses | None:
    return None if path is None else aliases.addresses_of(topology.load(path))


def store(options: argparse.Namespace) -> int:
    """Become the key-value store."""
    host, _, port = options.listen.rpartition(":")
    try:
        address = ip_address(host.removeprefix("[").removesuffix("]"))
        number = int(port) if port.isascii() and port.isdecimal() else 0
        if not 0 < number < 65536:
            raise ValueError(f"{port!r} is not a port")
    except ValueError as error:
        raise UsageError(
            f"kv: --listen {options.listen}: {error}", remedy="netesto kv --listen 127.0.0.1:11211"
        ) from None
    if not native.PROGRAM.exists():
        raise MissingError(
            "netesto-flow: not compiled: no C compiler when netesto was installed",
            remedy="Install gcc and libc6-dev, and netesto again.",
        )
    process.become([str(native.PROGRAM), "store", str(address), str(number)])


def show(options: argparse.Namespace) -> int:
    """Show what a trace has."""
    facts = shown.facts(trace_format.read(options.trace, _addresses(options.topology)))
    if options.format == "json":
        printing.out(json.dumps(asdict(facts), indent=2))
    else:
        for line in shown.lines(facts):
            printing.out(line)
    return status.OK
