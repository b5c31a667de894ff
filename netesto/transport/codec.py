"""Values to messages and back. Only this module and the two adapters know the generated names.

`from_*` makes a message of a value, `to_*` a value of a message. A message that no value fits (an
address that is none, a setting of no kind) is an `AgentError`: the other side speaks otherwise.
"""

from ipaddress import ip_address
from typing import get_args

from netesto.errors import AgentError
from netesto.model import (
    Address,
    Applied,
    CaptureRequest,
    ClockReading,
    Event,
    EventKind,
    FileEntry,
    GroupRequest,
    HostInfo,
    ModuleParameter,
    Netem,
    Ports,
    Qdisc,
    Setting,
    Sysctl,
)
from netesto.proto import agent_pb2 as pb
from netesto.transport.faults import Fault, FaultKind

_EVENT_KINDS: dict[str, EventKind] = {kind: kind for kind in get_args(EventKind)}
_FAULT_KINDS: dict[str, FaultKind] = {kind: kind for kind in get_args(FaultKind)}


def _address(text: str) -> Address:
    try:
        return ip_address(text)
    except ValueError:
        raise AgentError(f"request not understood: {text!r} is no address") from None


# ---- what is asked ---------------------------------------------------------------------------


def from_group_request(request: GroupRequest) -> pb.GroupRequest:
    return pb.GroupRequest(
        exp=request.exp,
        group=request.group,
        exp_name=request.exp_name,
        test=request.test,
        tool=request.tool,
        client=request.client,
        server=request.server,
        client_address=str(request.client_address),
        server_address=str(request.server_address),
        duration_s=request.duration_s,
        delay_s=request.delay_s,
        instances=request.instances,
        request_bytes=request.request_bytes,
        reply_bytes=request.reply_bytes,
        congestion_control=request.congestion_control,
        reverse_congestion_control=request.reverse_congestion_control,
        local_buffer_bytes=request.local_buffer_bytes,
        remote_buffer_bytes=request.remote_buffer_bytes,
        interval_s=request.interval_s,
        stats=request.stats,
        parallel=request.parallel,
        bitrate_bps=request.bitrate_bps,
        length_bytes=request.length_bytes,
        mss_bytes=request.mss_bytes,
        zerocopy=request.zerocopy,
        dscp=request.dscp,
        ecn=request.ecn,
        client_cpu=request.client_cpu,
        server_cpu=request.server_cpu,
        omit_s=request.omit_s,
    )


def to_group_request(message: pb.GroupRequest) -> GroupRequest:
    return GroupRequest(
        exp=message.exp,
        group=message.group,
        exp_name=message.exp_name,
        test=message.test,
        tool=message.tool,
        client=message.client,
        server=message.server,
        client_address=_address(message.client_address),
        server_address=_address(message.server_address),
        duration_s=message.duration_s,
        delay_s=message.delay_s,
        instances=message.instances,
        request_bytes=message.request_bytes,
        reply_bytes=message.reply_bytes,
        congestion_control=message.congestion_control,
        reverse_congestion_control=message.reverse_congestion_control,
        local_buffer_bytes=message.local_buffer_bytes,
        remote_buffer_bytes=message.remote_buffer_bytes,
        interval_s=message.interval_s,
        stats=message.stats,
        parallel=message.parallel,
        bitrate_bps=message.bitrate_bps if message.HasField("bitrate_bps") else None,
        length_bytes=message.length_bytes if message.HasField("length_bytes") else None,
        mss_bytes=message.mss_bytes if message.HasField("mss_bytes") else None,
        zerocopy=message.zerocopy,
        dscp=message.dscp if message.HasField("dscp") else None,
        ecn=message.ecn if message.HasField("ecn") else None,
        client_cpu=message.client_cpu if message.HasField("client_cpu") else None,
        server_cpu=message.server_cpu if message.HasField("server_cpu") else None,
        omit_s=message.omit_s,
    )


def from_ports(ports: Ports) -> pb.Ports:
    return pb.Ports(control=ports.control, data=ports.data)


def to_ports(message: pb.Ports) -> Ports:
    return Ports(control=tuple(message.control), data=tuple(message.data))


def from_start(request: GroupRequest, ports: Ports, start_at_s: float | None) -> pb.StartRequest:
    return pb.StartRequest(
        request=from_group_request(request), ports=from_ports(ports), start_at_s=start_at_s
    )


def to_start(message: pb.StartRequest) -> tuple[GroupRequest, Ports, float | None]:
    start_at_s = message.start_at_s if message.HasField("start_at_s") else None
    return to_group_request(message.request), to_ports(message.ports), start_at_s


def from_capture_request(request: CaptureRequest) -> pb.CaptureRequest:
    return pb.CaptureRequest(
        exp=request.exp,
        host=request.host,
        peer="" if request.peer is None else str(request.peer),
        packets=request.packets,
        snap_bytes=request.snap_bytes,
    )


def to_capture_request(message: pb.CaptureRequest) -> CaptureRequest:
    return CaptureRequest(
        exp=message.exp,
        host=message.host,
        peer=_address(message.peer) if message.peer else None,
        packets=message.packets,
        snap_bytes=message.snap_bytes,
    )


def from_setting(setting: Setting) -> pb.Setting:
    match setting:
        case Sysctl(name, value):
            return pb.Setting(sysctl=pb.Sysctl(name=name, value=value))
        case Qdisc(kind, options, action, device):
            qdisc = pb.Qdisc(kind=kind, options=options, action=action, device=device)
            return pb.Setting(qdisc=qdisc)
        case Netem(delay_ms, limit_packets, loss_percent, device):
            netem = pb.Netem(
                delay_ms=delay_ms,
                limit_packets=limit_packets,
                loss_percent=loss_percent,
                device=device,
            )
            return pb.Setting(netem=netem)
        case ModuleParameter(module, name, value):
            parameter = pb.ModuleParameter(module=module, name=name, value=value)
            return pb.Setting(module_parameter=parameter)


def to_setting(message: pb.Setting) -> Setting:
    match message.WhichOneof("kind"):
        case "sysctl":
            return Sysctl(message.sysctl.name, message.sysctl.value)
        case "qdisc":
            qdisc = message.qdisc
            return Qdisc(qdisc.kind, tuple(qdisc.options), qdisc.action, qdisc.device)
        case "netem":
            netem = message.netem
            return Netem(netem.delay_ms, netem.limit_packets, netem.loss_percent, netem.device)
        case "module_parameter":
            parameter = message.module_parameter
            return ModuleParameter(parameter.module, parameter.name, parameter.value)
        case _:
            raise AgentError("request not understood: a setting of no kind this agent knows")


# ---- what a host tells -----------------------------------------------------------------------


def from_applied(applied: Applied) -> pb.Applied:
    return pb.Applied(setting=applied.setting, before=applied.before, after=applied.after)


def to_applied(message: pb.Applied) -> Applied:
    return Applied(message.setting, message.before, message.after)


def from_host_info(info: HostInfo) -> pb.HostInfo:
    return pb.HostInfo(
        host=info.host,
        version=info.version,
        kernel=info.kernel,
        cpus=info.cpus,
        memory_bytes=info.memory_bytes,
        device=info.device,
        addresses=info.addresses,
        tools=info.tools,
        congestion_controls=info.congestion_controls,
        qdiscs=info.qdiscs,
        holder=info.holder,
        processors=info.processors,
    )


def to_host_info(message: pb.HostInfo) -> HostInfo:
    return HostInfo(
        host=message.host,
        version=message.version,
        kernel=message.kernel,
        cpus=message.cpus,
        memory_bytes=message.memory_bytes,
        device=message.device,
        addresses=tuple(message.addresses),
        tools=dict(message.tools),
        congestion_controls=tuple(message.congestion_controls),
        qdiscs=tuple(message.qdiscs),
        holder=message.holder,
        processors=tuple(message.processors),
    )


def from_event(event: Event) -> pb.Event:
    return pb.Event(
        sequence=event.sequence,
        time_s=event.time_s,
        kind=event.kind,
        exp=event.exp,
        group=event.group,
        instance=event.instance,
        rate_bps=event.rate_bps,
        text=event.text,
        last_lines=event.last_lines,
    )


def to_event(message: pb.Event) -> Event:
    kind = _EVENT_KINDS.get(message.kind)
    if kind is None:
        raise AgentError(f"answer not understood: an event of the kind {message.kind!r}")
    return Event(
        sequence=message.sequence,
        time_s=message.time_s,
        kind=kind,
        exp=message.exp,
        group=message.group,
        instance=message.instance,
        rate_bps=message.rate_bps,
        text=message.text,
        last_lines=message.last_lines,
    )


def from_file_entry(entry: FileEntry) -> pb.FileEntry:
    return pb.FileEntry(path=entry.path, size=entry.size, sha256=entry.sha256)


def to_file_entry(message: pb.FileEntry) -> FileEntry:
    return FileEntry(message.path, message.size, message.sha256)


def from_clock_reading(reading: ClockReading) -> pb.ClockReading:
    return pb.ClockReading(received_s=reading.received_s, sent_s=reading.sent_s)


def to_clock_reading(message: pb.ClockReading) -> ClockReading:
    return ClockReading(message.received_s, message.sent_s)


# ---- what went wrong -------------------------------------------------------------------------


def encode_fault(fault: Fault) -> bytes:
    message = pb.Fault(
        kind=fault.kind, message=fault.message, remedy=fault.remedy, holder=fault.holder
    )
    return message.SerializeToString()


def decode_fault(content: bytes) -> Fault:
    message = pb.Fault.FromString(content)
    # A kind that a newer agent knows and we do not is an agent's error still, with its text.
    kind = _FAULT_KINDS.get(message.kind, "agent")
    return Fault(kind, message.message, message.remedy, message.holder)
