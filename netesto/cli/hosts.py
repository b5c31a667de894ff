"""Real hosts for the command line: `netesto hosts list|check`."""

import argparse
import asyncio
from collections.abc import Mapping

from rich.table import Table

from netesto.cli import console, printing
from netesto.collectors.clock import Clock
from netesto.controller import preflight
from netesto.controller.host import HostConnection
from netesto.controller.inventory import Inventory, load
from netesto.errors import AgentError
from netesto.model import ClockOffset, Endpoint, HostInfo
from netesto.run import agents, status
from netesto.run.settings import Script, Settings, fields_for


def hosts(options: argparse.Namespace) -> int:
    """`netesto hosts …`."""
    inventory = load(options.file)
    if options.action == "list":
        _print_list(inventory)
        return status.OK
    return _check(inventory, options)


def _print_list(inventory: Inventory) -> None:
    table = Table("host", "agent", "addresses of the traffic", box=None, pad_edge=False)
    for endpoint in inventory.endpoints.values():
        addresses = " ".join(map(str, endpoint.addresses.values()))
        table.add_row(endpoint.host, endpoint.agent, addresses or "-")
    console.to_stdout().print(table)


def _check(inventory: Inventory, options: argparse.Namespace) -> int:
    """Reach every agent, hold it for a moment as a run would, and tell what its host can do.

    AgentError names the agents that cannot be used; MissingError what the script needs and a host
    lacks.
    """
    found, wrong = asyncio.run(_visit(inventory))
    table = Table("host", "kernel", "clock", "tools", box=None, pad_edge=False)
    table.add_column("congestion controls", overflow="fold")
    table.add_column("qdiscs", overflow="fold")
    for name, (info, offset) in found.items():
        table.add_row(
            name,
            info.kernel,
            f"{offset.offset_s * 1000:+.1f} ± {offset.bound_s * 1000:.1f} ms",
            " ".join(f"{tool} {version}" for tool, version in sorted(info.tools.items())),
            " ".join(info.congestion_controls),
            " ".join(info.qdiscs),
        )
    if found:
        console.to_stdout().print(table)
    if wrong:
        raise AgentError("\n".join(error.message for error in wrong), remedy=wrong[0].remedy)
    if options.script is not None:
        _check_script(options, inventory, {name: info for name, (info, _) in found.items()})
    return status.OK


def _check_script(
    options: argparse.Namespace, inventory: Inventory, infos: Mapping[str, HostInfo]
) -> None:
    """What a run of the script would be refused for."""
    script = Script.read(options.script)
    settings = Settings.of(
        libraries=options.libraries,
        definitions=options.definitions,
        max_iterations=options.max_iterations,
    )
    with settings.plan(script, fields_for(options.fields, script.path)) as plan:
        head = plan.head
    inventory = inventory.with_suffixes(preflight.suffixes(head.commands))
    preflight.check_hosts(head.commands, inventory)
    preflight.check(head.commands, inventory, infos, head.requirements, family=options.family)
    printing.out(f"{options.script}: the hosts have all that it needs")


async def _visit(
    inventory: Inventory,
) -> tuple[dict[str, tuple[HostInfo, ClockOffset]], list[AgentError]]:
    """What every host is, with its clock; and the errors of those that cannot be used."""
    answers = await asyncio.gather(
        *(_look_at(endpoint) for endpoint in inventory.endpoints.values()), return_exceptions=True
    )
    found: dict[str, tuple[HostInfo, ClockOffset]] = {}
    wrong: list[AgentError] = []
    for name, answer in zip(inventory.endpoints, answers, strict=True):
        match answer:
            case AgentError():
                wrong.append(answer)
            case BaseException():
                raise answer
            case _:
                found[name] = answer
    return found, wrong


async def _look_at(endpoint: Endpoint) -> tuple[HostInfo, ClockOffset]:
    connection = HostConnection(
        endpoint,
        connect=agents.connect,
        clock=Clock(),
        on_event=lambda _connection, _event: None,
        on_lost=lambda _connection, _reason: None,
    )
    try:
        await connection.open(run="hosts-check")
        return connection.info, connection.offset
    finally:
        await connection.close()
