"""manifest.json: the requested and the achieved values of an experiment."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path, PurePosixPath
from typing import Any

import cattrs
from cattrs.gen import make_dict_unstructure_fn, override

from netesto import grounds
from netesto.errors import ResultsError
from netesto.files import jsontext, typed
from netesto.flowspec import OPTIONS
from netesto.hostsettings import Applied
from netesto.model import Address, ClockOffset, GroupRequest, HostInfo, Ports, TimeSync
from netesto.results import durable, packed, severity
from netesto.results.evidence import FAILED, OK, PARTIAL
from netesto.results.links import LinkRecord

# Its name in an experiment's folder.
NAME = "manifest.json"

# Another one is refused. Incremented when a reader of the old format would misunderstand the new
# one.
FORMAT = 3

# The key of its last member.
CHECKSUM = "checksum"
_SEVERITIES = "severities"

# The most important keys of a request come first.
REQUEST_FIRST = (
    "exp", "group", "exp_name", "test", "tool", "client", "server", "client_address",
    "server_address",
)  # fmt: skip

# ping cuts a time to whole microseconds.
PING_RESOLUTION_MS = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRecord:
    """One flow: requested and achieved. Times are UTC seconds on the controller's clock.

    `status` is "ok" or the reason it failed. `start_skew_ms` is achieved minus requested start,
    `achieved_interval_ms` the mean time between two samples of a socket at the end that sends the
    data, `receiver_interval_ms` at the other.
    """

    instance: int
    status: str
    argv: tuple[str, ...] = ()
    tool_version: str = ""
    asked_start_s: float | None = None
    started_s: float | None = None
    ended_s: float | None = None
    start_skew_ms: float | None = None
    effective_congestion_control: str = ""
    effective_mss_bytes: int | None = None
    asked_interval_ms: float | None = None
    achieved_interval_ms: float | None = None
    achieved_interval_p99_ms: float | None = None
    achieved_interval_worst_ms: float | None = None
    receiver_interval_ms: float | None = None
    receiver_interval_p99_ms: float | None = None
    receiver_interval_worst_ms: float | None = None
    last_lines: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """One DO_CLIENT: the request as sent, the server's ports, its flows."""

    request: GroupRequest
    ports: Ports
    full_host: str
    full_server: str
    instances: tuple[InstanceRecord, ...]


@dataclass(frozen=True, slots=True)
class SettingRecord(Applied):
    """A setting that was made at `made_s` of the controller's clock, and the reason, if it is not
    the script's command."""

    made_s: float = 0.0
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingRecord:
    """The interval between samples, in ms: requested, and the mean, the 99th percentile and the
    longest of those achieved."""

    asked_interval_ms: float
    achieved_interval_ms: float
    achieved_interval_p99_ms: float
    achieved_interval_worst_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRecord:
    """One host: its facts, the offset of its clock from the controller's, and the settings made so
    far. Hosts without flows are there if they have settings. `facts` are those of Manifest.facts
    that are its own. `time_sync` is the synchronisation of its clock after the experiment; None:
    unknown, or the clock is that of the controller's machine. `queue_sampling` is that of queues
    and interfaces by its agent; None: less than two ticks."""

    info: HostInfo
    clock: ClockOffset
    settings: tuple[SettingRecord, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    time_sync: TimeSync | None = None
    queue_sampling: SamplingRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PathRecord:
    """A lab path: requested, and measured before traffic. Rates in bit/s, None: not requested.

    `asked_rtt_ms` is the sum of delays; `sending_ms` what it takes besides to send the packets that
    measure it, one bit after the other; `jitter_ms` by how much the sum varies. `queues` are the
    interfaces, as `node/device`, by which its packets leave a node; `queues_back` those of packets
    in the other direction.
    """

    source: str
    destination: str
    asked_rtt_ms: float | None
    measured_rtt_ms: float | None
    asked_rate_bps: float | None = None
    measured_rate_bps: float | None = None
    sending_ms: float = 0.0
    jitter_ms: float = 0.0
    queues: tuple[str, ...] = ()
    queues_back: tuple[str, ...] = ()

    @property
    def rtt_deviation(self) -> float:
        """The relative error of the RTT, beyond what its jitter, the time to send a packet and the
        digits of ping explain; 0 if nothing was requested or measured."""
        if not self.asked_rtt_ms or self.measured_rtt_ms is None:
            return 0.0
        off_ms = abs(self.measured_rtt_ms - self.sending_ms - self.asked_rtt_ms)
        if off_ms <= PING_RESOLUTION_MS:
            return 0.0
        return max(0.0, off_ms - self.jitter_ms) / self.asked_rtt_ms

    @property
    def rate_deviation(self) -> float:
        """The relative error of the rate; 0 if nothing was requested or measured."""
        if not self.asked_rate_bps or self.measured_rate_bps is None:
            return 0.0
        return abs(self.measured_rate_bps - self.asked_rate_bps) / self.asked_rate_bps


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One experiment. `status` is ok, partial or failed; `reasons` says why in words.

    `started` and `ended` are UTC (ISO 8601); `started_s`, `ended_s` the same in seconds since 1970,
    `*_monotonic_s` the controller's monotonic clock. With `simulated_time` all times of the
    experiment are simulated; it took `wall_s` (to the second) of real time, and `speed_up` is
    simulated seconds per real second (None: real time, or unknown). `columns` are OTHER and SWEEP.
    `facts` influence the speed of hosts; those that all share are here.
    `links` are both directions of each link of a lab.
    `files` maps each raw file (path within the experiment) to its SHA-256.
    """

    exp: int
    exp_name: str
    description: str
    status: str
    run: str
    started: str
    ended: str
    started_s: float
    ended_s: float
    started_monotonic_s: float
    ended_monotonic_s: float
    ground: str
    groups: tuple[GroupRecord, ...]
    hosts: Mapping[str, HostRecord]
    files: Mapping[str, str]
    columns: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    paths: tuple[PathRecord, ...] = ()
    links: tuple[LinkRecord, ...] = ()
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    topology: str = ""
    simulated_time: bool = False
    wall_s: float | None = None
    speed_up: float | None = None
    format: int = FORMAT

    @property
    def on_one_machine(self) -> bool:
        """Whether all hosts are namespaces of one machine, whose CPUs they share."""
        ground = grounds.find(self.ground)
        return ground is not None and ground.on_one_machine


@cache
def _converter() -> cattrs.Converter:
    # Unknown keys are additions of a newer netesto.
    converter = typed.converter(forbid_extra_keys=False)
    for kind in (IPv4Address, IPv6Address):
        converter.register_unstructure_hook(kind, str)
    # Options that a flow does not have are omitted.
    omitted: dict[str, Any] = {
        name: override(omit_if_default=True) for name in OPTIONS if name not in REQUEST_FIRST
    }
    plain = make_dict_unstructure_fn(GroupRequest, converter, **omitted)
    converter.register_unstructure_hook(
        GroupRequest, lambda request: dict.fromkeys(REQUEST_FIRST) | plain(request)
    )
    converter.register_structure_hook_func(
        lambda kind: kind == Address, lambda value, _: ip_address(value)
    )
    return converter


def write(manifest: Manifest, path: Path) -> None:
    """Write `path`, indented. ResultsError if that fails."""
    value = _converter().unstructure(manifest)
    if severities := severity.unusual(manifest.warnings):
        value[_SEVERITIES] = severities
    value[CHECKSUM] = _checksum(jsontext.parse(json.dumps(value)))
    durable.replace(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n", lasting=False)


def _checksum(value: Mapping[str, Any]) -> str:
    """The SHA-256 of all members, however they are ordered and indented."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def read(path: Path) -> Manifest:
    """Read `path`. ResultsError if it is not a manifest, of another format, edited, or
    inconsistent."""
    try:
        value = jsontext.parse(packed.text(path), finite=True)
        if not isinstance(value, dict):
            raise ResultsError(f"{path}: not a manifest: no JSON object")
        if value.get("format") != FORMAT:
            raise ResultsError(
                f"{path}: another version of netesto wrote it, not in format {FORMAT}: read it with"
                " that version, or measure again"
            )
        # None: somebody accepts what was edited.
        checksum = value.pop(CHECKSUM, None)
        if checksum is not None and checksum != _checksum(value):
            raise ResultsError(
                f"{path}: was edited: its checksum differs",
                remedy=f"Restore it; or, to accept what it says now, remove its {CHECKSUM!r}.",
            )
        severities = value.pop(_SEVERITIES, None)
        found = _converter().structure(value, Manifest)
        found = replace(found, warnings=severity.restored(found.warnings, severities))
    except cattrs.BaseValidationError as error:
        raise ResultsError(f"{path}: not a manifest: {cattrs.transform_error(error)[0]}") from error
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path}: cannot be read: {error}") from error
    if fault := _contradiction(found, path):
        raise ResultsError(f"{path}: not a manifest: {fault}")
    return found


def _contradiction(found: Manifest, path: Path) -> str:
    """The inconsistency of a manifest; "" if it is consistent."""
    if (name := path.parent.name.removesuffix(".partial")).isdecimal() and int(name) != found.exp:
        return f"it belongs to experiment {found.exp}"
    if found.status not in {OK, PARTIAL, FAILED}:
        return f"invalid status {found.status!r}"
    for name in found.columns:
        if not name or not name.isprintable():
            return f"invalid column name {name!r}"
    for file in found.files:
        if file.startswith("/") or ".." in PurePosixPath(file).parts:
            return f"{file!r} is not a file of the experiment"
    for group in found.groups:
        request = group.request
        for host in (request.client, request.server):
            if host not in found.hosts:
                return f"group {request.group} ran on {host}, which is missing in hosts"
        if len(group.instances) != request.instances:
            return f"group {request.group} has {len(group.instances)} of {request.instances} flows"
        for flow in group.instances:
            if not 1 <= flow.instance <= len(group.ports.data):
                return f"group {request.group} has no port for flow {flow.instance}"
    return ""
