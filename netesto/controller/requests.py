"""Commands of the language to requests of an agent. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv4Address

from netesto import allowed, traffic
from netesto.errors import MissingError, ScriptError, WorldError
from netesto.language import ports
from netesto.model import (
    Address,
    Endpoint,
    GroupRequest,
    HostInfo,
    ModuleParameter,
    Netem,
    Qdisc,
    Setting,
    Sysctl,
)

# The classic tool's rule for the reverse direction: these use the same control at both ends.
SYMMETRIC_CONGESTION_CONTROLS = frozenset({"dctcp", "nv"})


def group_request(
    command: ports.DoClient,
    *,
    client: Endpoint,
    server: Endpoint,
    client_info: HostInfo,
    server_info: HostInfo,
    family: int,
) -> GroupRequest:
    """What DO_CLIENT asks of the client's agent. MissingError if no tool can do the test there."""
    request = asked(
        command,
        hosts=(client.host, server.host),
        addresses=(address(client, family), address(server, family)),
    )
    common = [name for name in client_info.tools if name in server_info.tools]
    options = traffic.asked_options(request)
    tool = traffic.choose(request.test, request.tool, common, options=options)
    return replace(request, tool=tool.name)


def check_possible(command: ports.RemoteCommand) -> None:
    """ScriptError, at the argument it is about, if no host could do what DO_CLIENT asks: no tool
    can, wherever it is installed."""
    if not isinstance(command, ports.DoClient):
        return
    if command.ecn is not None:
        raise ScriptError(
            "no tool sets ecn for one flow alone",
            place=command.place.narrowed("ecn="),
            remedy=f"SET_SYSCTL host={command.host} net.ipv4.tcp_ecn=1 sets it for the host.",
            chain=command.chain,
        )
    nowhere = IPv4Address(0)
    request = asked(command, hosts=(command.host, command.server), addresses=(nowhere, nowhere))
    options = traffic.asked_options(request)
    try:
        traffic.choose(request.test, request.tool, tuple(traffic.TOOLS), options=options)
    except MissingError as error:
        # Options are called after their argument, but for what several may make too large.
        named = [f"{option.partition('=')[0].partition(' ')[0]}=" for option in sorted(options)]
        near = [name for name in named if name[:-1] in error.message]
        sizes = ("req=", "reply=", "len=") if "datagrams=" in near else ()
        raise ScriptError(
            error.message,
            place=command.place.narrowed(*near, *sizes, "tool=", "test="),
            remedy=error.remedy,
            chain=command.chain,
        ) from None


def asked(
    command: ports.DoClient, *, hosts: tuple[str, str], addresses: tuple[Address, Address]
) -> GroupRequest:
    """What DO_CLIENT asks of client and server, whatever tool does it."""
    symmetric = command.ca in SYMMETRIC_CONGESTION_CONTROLS
    return GroupRequest(
        exp=command.exp,
        group=command.group,
        exp_name=command.exp_name,
        test=command.test,
        tool=command.tool,
        client=hosts[0],
        server=hosts[1],
        client_address=addresses[0],
        server_address=addresses[1],
        duration_s=command.duration_s,
        delay_s=command.delay_s,
        instances=command.instances,
        request_bytes=command.request_bytes,
        reply_bytes=command.reply_bytes,
        congestion_control=command.ca,
        reverse_congestion_control=command.ca if symmetric else "cubic",
        local_buffer_bytes=command.local_buffer_bytes,
        remote_buffer_bytes=command.remote_buffer_bytes,
        interval_s=command.interval_s,
        stats=command.stats,
        parallel=command.parallel,
        bitrate_bps=command.bitrate_bps,
        length_bytes=command.length_bytes,
        mss_bytes=command.mss_bytes,
        zerocopy=command.zerocopy,
        dscp=command.dscp,
        ecn=command.ecn,
        client_cpu=command.client_cpu,
        server_cpu=command.server_cpu,
        omit_s=command.omit_s,
    )


def address(endpoint: Endpoint, family: int) -> Address:
    """The host's address of an IP version (4 or 6). WorldError if it has none."""
    if family in endpoint.addresses:
        return endpoint.addresses[family]
    others = ", ".join(str(address) for address in endpoint.addresses.values())
    raise WorldError(
        f"{endpoint.host} has no IPv{family} address",
        remedy=f"It has {others}; choose the version with --family." if others else "",
    )


def settings(command: ports.RemoteCommand) -> list[Setting]:
    """The settings that a SET_* command asks for; none for any other command."""
    match command:
        case ports.SetSysctl(values=values):
            return [Sysctl(name, value) for name, value in values.items()]
        case ports.SetModuleParams(module=module, values=values):
            return [ModuleParameter(module, name, value) for name, value in values.items()]
        case ports.SetQdisc(qdisc=kind, options=options, action=action):
            return [Qdisc(kind, options, action)]
        case ports.SetNetem(delay_ms=delay_ms, limit_packets=limit, loss_percent=loss):
            return [Netem(delay_ms, limit, loss)]
        case _:
            return []


def needed_qdisc(command: ports.RemoteCommand) -> str:
    """The kind of qdisc a command needs, "" if none."""
    match command:
        case ports.SetQdisc(qdisc=kind, action=action) if action not in {"del", "delete"}:
            return kind
        case ports.SetNetem(delay_ms=delay_ms, loss_percent=loss) if delay_ms or loss:
            return "netem"
        case _:
            return ""


def missing(
    command: ports.RemoteCommand,
    infos: Mapping[str, HostInfo],
    endpoints: Mapping[str, Endpoint],
    *,
    family: int,
) -> list[str]:
    """What the hosts of a command lack to carry it out, in words; empty if nothing.

    `endpoints` maps the names in commands to hosts, `infos` hosts to what they can do.
    """
    host = endpoints[command.host].host
    info = infos[host]
    qdisc = needed_qdisc(command)
    if qdisc and info.qdiscs and qdisc not in info.qdiscs:
        return [f"{host}: qdisc {qdisc}: not in this kernel ({info.kernel})"]
    if isinstance(command, ports.SetSysctl):
        return _missing_names(command, info)
    if not isinstance(command, ports.DoClient):
        return []
    lacks = []
    server = endpoints[command.server]
    sender = infos[server.host] if command.test == "TCP_MAERTS" else info
    if command.ca not in sender.congestion_controls:
        has = ", ".join(sender.congestion_controls)
        lacks.append(
            f"{sender.host}: congestion control {command.ca}: not in this kernel"
            f" ({sender.kernel}), which has {has}"
        )
    lacks += _missing_processors(info, command.client_cpu)
    lacks += _missing_processors(infos[server.host], command.server_cpu)
    try:
        group_request(
            command,
            client=endpoints[command.host],
            server=server,
            client_info=info,
            server_info=infos[server.host],
            family=family,
        )
    except MissingError as error:
        lacks.append(f"{host}→{server.host}: {error.message}")
    return lacks


def _missing_names(command: ports.SetSysctl, info: HostInfo) -> list[str]:
    """What a host lacks of that which sysctls name."""
    return [
        f"{info.host}: {kind} {name}: not in this kernel ({info.kernel})"
        for sysctl, kind in allowed.NAMING_SYSCTLS.items()
        for name in command.values.get(sysctl, "").split()
        if name not in (info.qdiscs or (name,) if kind == "qdisc" else info.congestion_controls)
    ]


def _missing_processors(info: HostInfo, asked: int | None) -> list[str]:
    """Tools take any number, and run where they like if there is no such processor."""
    if asked is None or not info.processors or asked in info.processors:
        return []
    has = ", ".join(map(str, info.processors))
    return [f"{info.host}: no processor {asked} that its agent may use, only {has}"]
