"""Commands of the language become requests to an agent. Pure."""

from dataclasses import asdict, replace

from netesto import traffic
from netesto.errors import MissingError, ScriptError, WorldError
from netesto.language import ports
from netesto.model import (
    Address,
    Endpoint,
    GroupRequest,
    HostInfo,
    Netem,
    Qdisc,
)


def group_request(
    command: ports.DoClient,
    client: tuple[Endpoint, HostInfo],
    server: tuple[Endpoint, HostInfo],
    *,
    family: int,
) -> GroupRequest:
    """The request that DO_CLIENT sends to both agents. WorldError if a host has no address of the
    family (4 or 6), MissingError if no tool at both hosts can make the flow."""
    addresses = [address(endpoint, family) for endpoint, _ in (client, server)]
    tool = traffic.choose(command.flow, client[1].tools.keys() & server[1].tools.keys())
    return GroupRequest(
        **asdict(replace(command.flow, tool=tool.name)),
        exp=command.exp,
        group=command.group,
        exp_name=command.exp_name,
        client=client[0].host,
        server=server[0].host,
        client_address=addresses[0],
        server_address=addresses[1],
    )


def check_possible(command: ports.RemoteCommand) -> None:
    """ScriptError, at the argument, if no tool can make the flow of DO_CLIENT on any host."""
    if not isinstance(command, ports.DoClient):
        return
    if command.flow.ecn is not None:
        raise ScriptError(
            "no tool sets ecn for a single flow",
            place=command.place.narrowed("ecn="),
            remedy=f"SET_SYSCTL host={command.host} net.ipv4.tcp_ecn=1 sets it for the host.",
            chain=command.chain,
        )
    try:
        traffic.choose(command.flow, tuple(traffic.TOOLS))
    except MissingError as error:
        near = [
            f"{name}="
            for option in traffic.needed_options(command.flow)
            if option.name in error.message
            for name in option.arguments.split()
        ]
        raise ScriptError(
            error.message,
            place=command.place.narrowed(*near, "tool=", "test="),
            remedy=error.remedy,
            chain=command.chain,
        ) from None


def address(endpoint: Endpoint, family: int) -> Address:
    """The host's address of an IP version (4 or 6). WorldError without one."""
    if family in endpoint.addresses:
        return endpoint.addresses[family]
    others = ", ".join(str(address) for address in endpoint.addresses.values())
    raise WorldError(
        f"{endpoint.host} has no IPv{family} address",
        remedy=f"It has {others}; choose the version with --family." if others else "",
    )


def needed_qdisc(command: ports.RemoteCommand) -> str:
    """The kind of qdisc that a command needs; "" if it needs none."""
    match command:
        case ports.Configure(settings=(Qdisc(kind=kind, action=action),)):
            return kind if action != "delete" else ""
        case ports.Configure(settings=(Netem(delay_ms=delay_ms, loss_percent=loss),)):
            return "netem" if delay_ms or loss else ""
        case _:
            return ""
