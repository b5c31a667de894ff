"""Traces for the command line: `trace make|show`."""

import argparse
import json
import secrets
from dataclasses import asdict
from pathlib import Path

from netesto.cli import printing
from netesto.lab import aliases, topology
from netesto.run import settings, status
from netesto.traces import format as trace_format
from netesto.traces import shown, workload
from netesto.traces.addresses import Addresses


def make(options: argparse.Namespace) -> int:
    """Make a trace from a workload."""
    hosts = _addresses(options.topology) or Addresses()
    wanted = workload.read(
        options.workload, hosts, duplicates=options.duplicates, warn=printing.warn
    )
    seed = secrets.randbits(settings.SEED_BITS) if options.seed is None else options.seed
    if options.seed is None:
        printing.err(f"seed {seed}")
    trace = workload.made(wanted, seed)
    with printing.into(options.out) as file:
        file.writelines(line.encode() for line in trace_format.lines(trace, hosts))
    return status.OK


def _addresses(path: Path | None) -> Addresses | None:
    return None if path is None else aliases.known(topology.load(path))


def show(options: argparse.Namespace) -> int:
    """Show what a trace has."""
    facts = shown.facts(trace_format.read(options.trace, _addresses(options.topology)))
    if options.format == "json":
        printing.out(json.dumps(asdict(facts), indent=2))
    else:
        for line in shown.lines(facts):
            printing.out(line)
    return status.OK
