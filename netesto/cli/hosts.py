"""Real hosts for the command line: `netesto hosts list|check|status|fetch`."""

import argparse
import asyncio
import functools
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.table import Table
from rich.text import Text

from netesto import units
from netesto.cli import console, printing, verifying
from netesto.controller import preflight, readiness, unfetched, visit
from netesto.controller.inventory import Inventory, load, parse_map
from netesto.controller.readiness import Placement, Problem, Visited
from netesto.errors import NetestoError, UsageError
from netesto.language.plan import Head
from netesto.model import UNFETCHED_MAX
from netesto.run import agents, status
from netesto.run.settings import RunSettings, fields_for, library_path, parse_definitions, read

# What `hosts install` writes, and the other actions read.
HOSTS_FILE = Path("hosts.toml")

# A file of this kind names no hosts.
SCRIPT_SUFFIX = ".nts"

_MAY_BE_MORE = f"there may be more: an agent lists at most {UNFETCHED_MAX} experiments at once"

_MARKS = {
    "ok": Text("ok", style="green"),
    "warning": Text("!", style="yellow"),
    "error": Text("X", style="bold red"),
}


def _inventory(
    options: argparse.Namespace, *, aliases: Mapping[str, str] | None = None
) -> Inventory:
    """The hosts of an action: those given, or the hosts file here. UsageError without either."""
    if options.hosts is None and not HOSTS_FILE.exists():
        raise UsageError(
            f"no hosts given, and no {HOSTS_FILE} here",
            remedy=f"Write: netesto hosts {options.action} host1,root@host2",
        )
    text = options.hosts or str(HOSTS_FILE)
    found = load(text, aliases=aliases)
    for warning in found.warnings:
        printing.warn(warning)
    return found


def verify(options: argparse.Namespace) -> int:
    """Print the facts of each host, one per line."""
    return verifying.verify(_inventory(options), family=options.family)


def status_of(options: argparse.Namespace) -> int:
    """Show the holder of each agent, and what runs have left there."""
    inventory = _inventory(options)
    asked = asyncio.run(visit.ask(inventory, connect=agents.connect))
    if options.format == "json":
        document = [
            {
                "host": each.endpoint.host,
                "status": None if each.status is None else asdict(each.status),
                "error": None if each.error is None else each.error.message,
            }
            for each in asked
        ]
        printing.out(json.dumps({"hosts": document}, indent=2, ensure_ascii=False))
    else:
        for each in asked:
            for line in _lines_of(each):
                printing.out(line)
        if any(each.status is not None and each.status.unfetched for each in asked):
            printing.out(f"netesto hosts fetch {shlex.quote(inventory.text)} fetches these data.")
    return _judged((each.endpoint.host, each.error) for each in asked)


def _lines_of(asked: Visited) -> Iterator[str]:
    status_ = asked.status
    if status_ is None:
        return
    since = f"for {units.format_time(round(status_.held_s))}, run {status_.run}"
    held = f"held by {status_.holder}, {since}" if status_.holder else "free"
    yield f"{asked.endpoint.host}: {held}"
    for number, who in enumerate(status_.waiting, start=1):
        yield f"    waiting, {number}: {who}"
    for each in status_.unfetched:
        yield (
            f"    not fetched: run {each.run}, experiment {each.exp}: {each.files} files,"
            f" {units.format_bytes(each.size_bytes)}, {units.format_time(round(each.age_s))} old"
        )
    if len(status_.unfetched) >= UNFETCHED_MAX:
        yield f"    not fetched: {_MAY_BE_MORE}"
    for text in status_.settings:
        yield f"    to be put back: {text}"
    for text in status_.left:
        yield f"    not put back: {text}"


def fetch(options: argparse.Namespace) -> int:
    """Fetch measurements that no run has fetched."""
    inventory = _inventory(options)
    fetched = asyncio.run(unfetched.fetch(inventory, options.out, connect=agents.connect))
    for host in fetched:
        for each, folder in host.experiments:
            size = units.format_bytes(each.size_bytes)
            printing.out(
                f"{host.host}: experiment {each.exp} of run {each.run}, {size}: in {folder}"
            )
        if len(host.experiments) >= UNFETCHED_MAX:
            printing.out(f"{host.host}: {_MAY_BE_MORE}; repeat the command")
        if not host.experiments and host.error is None:
            printing.out(f"{host.host}: nothing to fetch")
    return _judged((host.host, host.error) for host in fetched)


def _judged(errors: Iterable[tuple[str, NetestoError | None]]) -> int:
    """Print the errors of hosts, equal ones together; the exit status."""
    found = [readiness.of_error(host, error) for host, error in errors if error is not None]
    for text in readiness.texts(found):
        printing.err(f"netesto: {text}")
    return status.NOT_READY if found else status.OK


def show_list(options: argparse.Namespace) -> int:
    """The hosts of a file, without asking them."""
    inventory = _inventory(options)
    table = Table("host", "agent", "addresses of the traffic", box=None, pad_edge=False)
    for endpoint in inventory.endpoints.values():
        addresses = " ".join(map(str, endpoint.addresses.values()))
        table.add_row(endpoint.host, endpoint.agent, addresses or "-")
    console.to_stdout().print(table)
    return status.OK


def check(options: argparse.Namespace) -> int:
    """Ask every agent for the facts of its host; show them, and all problems."""
    if options.script is None and Path(options.hosts or "").suffix == SCRIPT_SUFFIX:
        options.script, options.hosts = options.hosts, None
    inventory = _inventory(options, aliases=parse_map(options.map))
    script = _head(options) if options.script is not None else None
    commands = script.commands if script else ()
    requirements = script.requirements if script else ()
    inventory = inventory.with_suffixes(preflight.suffixes(commands))
    preflight.check_hosts(commands, inventory)
    peers = functools.partial(readiness.peers, commands=commands, family=options.family)
    visited = asyncio.run(visit.visit(inventory, peers, connect=agents.connect))
    found = readiness.problems(visited, inventory, commands, requirements, family=options.family)
    infos = {host.endpoint.host: host.info for host in visited if host.info is not None}
    placed = readiness.placements(commands, inventory, infos)
    is_ready = all(problem.severity != "error" for problem in found)
    if options.format == "json":
        document = {
            "ready": is_ready,
            "hosts": [_document(host, found) for host in visited],
            "settings": [asdict(each) for each in placed],
            "problems": [asdict(problem) for problem in found],
        }
        printing.out(json.dumps(document, indent=2, ensure_ascii=False, default=str))
    else:
        _print_check(visited, placed, found)
        if options.script is not None and is_ready:
            printing.out(f"{options.script}: the hosts have all that it needs")
    return status.OK if is_ready else status.NOT_READY


def _head(options: argparse.Namespace) -> Head:
    """The needs of the script."""
    script = read(options.script)
    settings = RunSettings(
        libraries=library_path(options.libraries),
        definitions=parse_definitions(options.definitions),
        max_iterations=options.max_iterations,
    )
    with settings.plan(script, fields_for(options.fields, Path(script.path))) as plan:
        return plan.head


def _worst(host: str, found: Sequence[Problem]) -> str:
    severities = {problem.severity for problem in found if problem.host == host}
    return next((each for each in ("error", "warning") if each in severities), "ok")


def _document(host: Visited, found: Sequence[Problem]) -> dict[str, object]:
    name = host.endpoint.host
    return {
        "host": name,
        "agent": host.endpoint.agent,
        "addresses": [str(address) for address in host.endpoint.addresses.values()],
        "status": _worst(name, found),
        "info": None if host.info is None else asdict(host.info),
        "clock": None if host.clock is None else asdict(host.clock),
        "state": None if host.state is None else asdict(host.state),
    }


def _print_check(
    visited: Sequence[Visited], placed: Sequence[Placement], found: Sequence[Problem]
) -> None:
    rows = {host.endpoint.host: dict(_cells(host)) for host in visited}
    known = [row for row in rows.values() if row]
    names = list(known[0]) if known else []
    # A fact that is the same everywhere gets a line instead of a column.
    shared = [name for name in names if len(known) > 1 and len({row[name] for row in known}) == 1]
    table = Table("", "host", box=None, pad_edge=False, header_style="dim")
    for name in names:
        if name not in shared:
            table.add_column(name, overflow="fold")
    for host, row in rows.items():
        cells = [row.get(name, "") for name in names if name not in shared]
        table.add_row(_MARKS[_worst(host, found)], host, *cells)
    out = console.to_stdout()
    out.print(table)
    for name in shared:
        out.print(Text(f"{name}: {known[0][name]}"))
    for line in _kernels(visited):
        out.print(Text(line))
    for each in placed:
        out.print(Text(f"{each.place}: {each.command} changes {each.device} of {each.host}"))
    for severity, style in (("error", "bold red"), ("warning", "yellow")):
        for text in readiness.texts(each for each in found if each.severity == severity):
            first, newline, remedy = text.partition("\n")
            out.print(Text.assemble((f"{severity}: {first}", style), newline, remedy))


def _cells(host: Visited) -> Iterator[tuple[str, str]]:
    info, clock, state = host.info, host.clock, host.state
    if info is None or clock is None or state is None:
        return
    interfaces = {each.name: each for each in state.interfaces}
    device = interfaces.get(info.device)
    paths = {str(each.mtu_bytes) if each.answer == "whole" else "?" for each in state.paths}
    yield "clock ms", f"{clock.offset_s * 1000:+.1f} ± {clock.bound_s * 1000:.1f}"
    yield "NTP", f"± {state.clock_error_s * 1000:.1f} ms" if state.is_synchronized else "no"
    yield "disk free", f"{state.disk_free_bytes / 1e9:.1f} GB"
    yield "settings go to", f"{info.device}, MTU {device.mtu_bytes}" if device else info.device
    yield "management", " ".join(state.management) or "-"
    yield "MTU of paths", " ".join(sorted(paths)) or "-"
    yield "offloads", " ".join(device.offloads if device else ()) or "-"
    yield "tools", " ".join(f"{tool} {version}" for tool, version in sorted(info.tools.items()))
    yield "kernel", info.kernel
    yield "netesto", info.version


def _kernels(visited: Sequence[Visited]) -> Iterator[str]:
    """Congestion controls and qdiscs, once for all hosts that have the same."""
    for what in ("congestion_controls", "qdiscs"):
        together: dict[str, list[str]] = {}
        for host in visited:
            if host.info is not None:
                names = " ".join(getattr(host.info, what))
                together.setdefault(names, []).append(host.endpoint.host)
        for names, of in together.items():
            where = "" if len(together) == 1 else f" of {', '.join(of)}"
            yield f"{what.replace('_', ' ')}{where}: {names or '-'}"
