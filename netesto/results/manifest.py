"""manifest.json: what was asked of an experiment and what really happened."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import cattrs

from netesto.errors import ResultsError
from netesto.model import Address, Applied, ClockOffset, GroupRequest, HostInfo, Ports
from netesto.results import durable

# Its place in an experiment's folder.
NAME = "manifest.json"

# Raised when a reader of the old form would misunderstand the new one.
FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRecord:
    """One flow: asked and achieved. Times are UTC seconds on the controller's clock.

    `status` is "ok" or the reason it failed. `start_skew_ms` is achieved minus asked start.
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
    last_lines: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """One DO_CLIENT: the request as sent, the server's ports, its flows."""

    request: GroupRequest
    ports: Ports
    full_host: str
    full_server: str
    instances: tuple[InstanceRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRecord:
    """One host: what it is, its clock against the controller's, the settings made so far."""

    info: HostInfo
    clock: ClockOffset
    settings: tuple[Applied, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PathRecord:
    """A lab path, asked against measured before traffic. Rates in bit/s, None: not asked."""

    source: str
    destination: str
    asked_rtt_ms: float | None
    measured_rtt_ms: float | None
    asked_rate_bps: float | None = None
    measured_rate_bps: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One experiment. `status` is ok, partial or failed; `reasons` says why in words.

    `started` and `ended` are UTC (ISO 8601); `started_s`, `ended_s` the same in seconds since 1970,
    `*_monotonic_s` the controller's monotonic clock. In `simulated_time` all of them are, as every
    time of the experiment; it took `wall_s` (to the second) of real time, and `speed_up` is how
    many simulated seconds each of those had (None: real time, or not known). `columns` are OTHER
    and SWEEP. `files` maps each raw file (path within the experiment) to its SHA-256.
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
    paths: tuple[PathRecord, ...] = ()
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    topology: str = ""
    simulated_time: bool = False
    wall_s: float | None = None
    speed_up: float | None = None
    format: int = FORMAT


def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(omit_if_default=False)
    for kind in (IPv4Address, IPv6Address):
        converter.register_unstructure_hook(kind, str)
    converter.register_structure_hook_func(
        lambda kind: kind == Address, lambda value, _: ip_address(value)
    )
    return converter


def write(manifest: Manifest, path: Path) -> None:
    """Write `path`, readable by people. ResultsError if the disk does not take it."""
    value = _converter().unstructure(manifest)
    durable.replace(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n", lasting=False)


def read(path: Path) -> Manifest:
    """Read `path`. ResultsError if it is no manifest, or of a newer form."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if value.get("format", 0) > FORMAT:
            raise ResultsError(f"{path}: written by a newer netesto (format {value['format']})")
        return _converter().structure(value, Manifest)
    except (OSError, ValueError, AttributeError, cattrs.BaseValidationError) as error:
        raise ResultsError(f"{path}: not a readable manifest: {error}") from error
