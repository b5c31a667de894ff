"""Turns commands of the language into requests to agents. Pure."""

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace

from netesto import traffic
from netesto.controller.inventory import Inventory
from netesto.errors import MissingError, ScriptError, WorldError
from netesto.flowspec import ALWAYS_THERE, RECEIVERS, UDP_TESTS, FlowSpec
from netesto.hostsettings import LinkAttribute, LinkLimits, RouteMetrics, Setting
from netesto.language import steps
from netesto.model import Address, Endpoint, GroupRequest, HostInfo
from netesto.traces import played

# What a program takes to start that does not wait for its instant, ready to send: netperf needs 2.8
# ms of processor time, of a machine with two processors. In simulated time it would need none, and
# the flows of a host that begin at one instant lose the same packets and time out together (bench/
# lab/bench_starvation.py): at 100 Mbit/s and 20 ms a quarter of 100 flows got no data in 14 s.
PROGRAM_START_S = 0.001

# A UDP_STREAM without `bitrate` offers this share of the rate of the first shaped link.
OFFERED_SHARE = 1.2


# The payload of a flow of a trace, of the rate of its sender's first link. The course asks for 1
# Mbit/s of payload on links of 1 Mbit/s; its sender reached 0.915 of it, as its sleeps overran. A
# datagram of 1400 bytes is 1442 on the wire: 0.95 are 0.979 of the link.
TRACE_SHARES: Mapping[str, float] = {"TRACE_TCP": 0.915, "TRACE_UDP": 0.95}

_A_BITRATE = "Write for example: bitrate=1mbit"


def group_request(
    command: steps.DoClient,
    client: tuple[Endpoint, HostInfo],
    server: tuple[Endpoint, HostInfo],
    *,
    family: int,
    changed_rates_bps: Mapping[tuple[str, str], float | None],
    peers: Mapping[str, Endpoint] | None = None,
) -> GroupRequest:
    """The request that DO_CLIENT sends to both agents. `changed_rates_bps` are those of links of a
    lab that the script has changed, by their ends; `peers` the hosts that a trace names. WorldError
    if a host has no address of the family (4 or 6), MissingError if no tool at both hosts can make
    the flow."""
    addresses = [address(endpoint, family) for endpoint, _ in (client, server)]
    flow = command.flow
    if client[0].is_simulated:
        flow = in_simulation(flow)
    infos = client[1], server[1]
    tool = traffic.choose(
        _to_choose_for(command, flow),
        infos[0].tools.keys() & infos[1].tools.keys(),
        {*infos[0].tool_options} & {*infos[1].tool_options},
        {
            tool: f"of {info.host} is not used: {reason}"
            for info in infos
            for tool, reason in info.unusable_tools.items()
        },
        [pair for info in infos for pair in info.tools.items()],
    )
    if not _is_receivers_chosen(command):
        control = _receivers(flow, client[1], server[1])
        flow = replace(flow, reverse_congestion_control=control)
    flow = replace(flow, tool=tool.name)
    if flow.stagger_s is None and client[0].is_simulated and not tool.connects_early:
        flow = replace(flow, stagger_s=PROGRAM_START_S)
    if isinstance(command, steps.DoTrace):
        part = played.read(flow.trace)
        ends = {
            name: (peers or {})[full] for name, full in zip(part.peers, command.peers, strict=True)
        }
        found = {name: (end.host, str(address(end, family))) for name, end in ends.items()}
        flow = replace(flow, trace=part.placed(found).text)
        if flow.test in TRACE_SHARES and flow.bitrate_bps is None and part.is_paced:
            paced_bps = _paced_bps(command, client[0], ends.values(), changed_rates_bps)
            flow = replace(flow, bitrate_bps=paced_bps)
    if tool.paces_datagrams and flow.test == "UDP_STREAM" and flow.bitrate_bps is None:
        flow = replace(flow, bitrate_bps=_offered_bps(client[0], server[0], changed_rates_bps))
    return between(command, flow, (client[0].host, addresses[0]), (server[0].host, addresses[1]))


def in_simulation(flow: FlowSpec) -> FlowSpec:
    """The flow as simulated time needs it, where `auto` is not every tool."""
    if flow.test != "UDP_STREAM" or flow.tool != "auto":
        return flow
    pacing = next(name for name, tool in traffic.TOOLS.items() if tool.paces_datagrams)
    return replace(flow, tool=pacing)


def between(
    command: steps.DoClient,
    flow: FlowSpec,
    client: tuple[str, Address],
    server: tuple[str, Address],
) -> GroupRequest:
    """The request of a command for `flow`, between hosts with these names and addresses."""
    return GroupRequest(
        **asdict(flow),
        exp=command.exp,
        group=command.group,
        exp_name=command.exp_name,
        client=client[0],
        server=server[0],
        client_address=client[1],
        server_address=server[1],
        seed=command.seed,
        is_held=command.hold,
    )


def _is_receivers_chosen(command: steps.DoClient) -> bool:
    return "remoteCa" in command.arguments


def _to_choose_for(command: steps.DoClient, flow: FlowSpec) -> FlowSpec:
    """The flow for which a tool is chosen. If the script sets remoteCa, the tool must be able to
    set it, even if the value is the receiver's default."""
    is_set_by_ca = flow.test not in UDP_TESTS and (
        flow.reverse_congestion_control == flow.congestion_control
    )
    if not _is_receivers_chosen(command) or is_set_by_ca:
        return flow
    return replace(flow, reverse_congestion_control="remoteCa")


def _receivers(flow: FlowSpec, client: HostInfo, server: HostInfo) -> str:
    """The congestion control of the receiver of the data. If the script does not set it, it must be
    one that the agent there may use."""
    wanted = flow.reverse_congestion_control
    receiver = client if flow.is_reverse else server
    is_free = wanted == RECEIVERS and wanted not in receiver.usable_congestion_controls
    return ALWAYS_THERE if is_free else wanted


def _offered_bps(
    client: Endpoint, server: Endpoint, changed_rates_bps: Mapping[tuple[str, str], float | None]
) -> float | None:
    """The rate that a UDP_STREAM without `bitrate` offers; None: as much as its socket accepts.
    MissingError in simulated time, where that would never end."""
    for link in client.paths.get(server.host, ()):
        rate_bps = changed_rates_bps.get(link.ends, link.rate_bps)
        if rate_bps is not None:
            return OFFERED_SHARE * rate_bps
    if client.is_simulated:
        raise MissingError(
            "UDP_STREAM needs bitrate= here: in simulated time, no link on its path limits it"
        )
    return None


def _paced_bps(
    command: steps.DoTrace,
    client: Endpoint,
    peers: Iterable[Endpoint],
    changed_rates_bps: Mapping[tuple[str, str], float | None],
) -> float:
    """The payload that a flow of a trace offers, of the rate of its sender's first link to these
    peers. MissingError without such a rate, or if there are several."""
    # Paths to other hosts are of other commands.
    first = [link for peer in peers for link in client.paths.get(peer.host, ())[:1]]
    rates = {changed_rates_bps.get(link.ends, link.rate_bps) for link in first}
    if len(rates) > 1:
        raise MissingError(
            f"DO_TRACE needs bitrate= here: the first links of {client.host} to the hosts of the"
            " trace have different rates",
            remedy=_A_BITRATE,
        )
    (rate_bps,) = rates or {None}
    if rate_bps is None:
        raise unpaced(client.host)
    return TRACE_SHARES[command.flow.test] * rate_bps


def unpaced(host: str) -> MissingError:
    """A host's flows of a trace have no rate."""
    return MissingError(
        f"DO_TRACE needs bitrate= here: the first link of {host} has no rate",
        remedy=_A_BITRATE,
    )


def check_possible(command: steps.RemoteCommand) -> None:
    """ScriptError, at the argument, if no tool can make the flow of DO_CLIENT on any host."""
    if not isinstance(command, steps.DoClient):
        return
    if command.flow.ecn is not None and command.flow.test not in UDP_TESTS:
        raise ScriptError(
            "no tool sets ecn for a single flow of TCP",
            place=command.place.narrowed("ecn="),
            remedy=f"SET_SYSCTL host={command.host} net.ipv4.tcp_ecn=1 sets it for the host.",
            chain=command.chain,
        )
    flow = _to_choose_for(command, command.flow)
    try:
        traffic.choose(flow, tuple(traffic.TOOLS), traffic.every_extra())
    except MissingError as error:
        near = traffic.to_blame(flow, error.message)
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


def of_agents(
    command: steps.Configure, inventory: Inventory, *, device: str, family: int
) -> list[tuple[str, steps.Configure]]:
    """The settings that agents make for a SET_ command, each with the name of its host, whose test
    interface is `device`. Settings get the addresses of the hosts they lead to; each end of a link
    that has an agent limits what it sends."""
    own: list[Setting] = []
    others: list[tuple[str, steps.Configure]] = []
    for setting in command.settings:
        match setting:
            case RouteMetrics(to=to):
                found = address(inventory.find(to), family)
                own.append(replace(setting, address=str(found)))
            case LinkAttribute(to=to) if to:
                peer = _neighbour(inventory, to)
                known = peer.addresses.get(family) if peer else None
                name = peer.host if peer else to
                own.append(replace(setting, to=name, address="" if known is None else str(known)))
            case LinkLimits(to=to):
                # Interfaces of a lab have the names of their neighbours.
                peer = _neighbour(inventory, to or device)
                for direction in setting.among("to", "from"):
                    if peer is None:
                        own.append(replace(setting, to=to or device, direction=direction))
                    elif direction == "to":
                        own.append(replace(setting, to=peer.host, direction=direction))
                    else:
                        host = inventory.find(command.host).host
                        back = replace(setting, to=host, direction="to")
                        theirs = replace(command, host=peer.host, settings=(back,))
                        others.append((peer.host, theirs))
            case _:
                own.append(setting)
    return [(command.host, replace(command, settings=tuple(own))), *others]


def _neighbour(inventory: Inventory, name: str) -> Endpoint | None:
    """None without an agent."""
    with contextlib.suppress(WorldError):
        return inventory.find(name)
    return None
