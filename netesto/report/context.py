"""The limits of the network, from the manifest, which graphs show in addition to their lines.
Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from netesto.hostsettings import LinkLimits
from netesto.results import made
from netesto.results.made import Made
from netesto.results.manifest import Manifest, PathRecord
from netesto.units import format_rate

# Lines for more different paths than this would hide the measurements.
MAX_REFERENCES = 3

# Qdiscs that a script can set without changing the capacity of a path.
_UNSHAPED = frozenset(
    {"bfifo", "codel", "fq", "fq_codel", "fq_pie", "mq", "noqueue", "pfifo", "pfifo_fast", "pie",
     "red", "sfq"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reference:
    """A line across a graph."""

    value: float
    label: str


@dataclass(frozen=True, slots=True)
class Context:
    """`capacities` in Mbit/s of whole Ethernet frames, `base_rtts` in ms; empty if not known.

    `one_machine`: all hosts share the CPUs of one machine. `simulated`: computing takes no time.
    `changes` are settings that were made meanwhile, at seconds after the experiment began.
    """

    capacities: tuple[Reference, ...] = ()
    base_rtts: tuple[Reference, ...] = ()
    one_machine: bool = False
    simulated: bool = False
    changes: tuple[Reference, ...] = ()


def of(manifest: Manifest) -> Context:
    """The context of an experiment's graphs.

    Paths are measured before the script sets anything: if it shapes or delays traffic, their limits
    are not known.
    """
    ends = [{group.request.client, group.request.server} for group in manifest.groups]
    paths = [path for path in manifest.paths if {path.source, path.destination} in ends]
    has_other_rates = _shaped_by_script(manifest) or _links_changed(manifest, "rate_bps")
    has_other_rtts = has_other_rates or _links_changed(manifest, "delay_ms")
    capacities = _references(
        paths,
        lambda path: None if path.asked_rate_bps is None else path.asked_rate_bps / 1e6,
        lambda value: f"bottleneck {format_rate(value * 1e6)}",
    )
    base_rtts = _references(
        paths, lambda path: path.measured_rtt_ms, lambda value: f"base RTT {value:.3g} ms"
    )
    return Context(
        capacities=() if has_other_rates else capacities,
        base_rtts=() if has_other_rtts else base_rtts,
        one_machine=manifest.on_one_machine,
        simulated=manifest.simulated_time,
        changes=tuple(
            Reference(each.at_s, f"{each.host}: {each.record.words}")
            for each in settings(manifest)
            if each.at_s is not None
        ),
    )


def settings(manifest: Manifest) -> tuple[Made, ...]:
    """The settings that an experiment had."""
    records = {name: host.settings for name, host in manifest.hosts.items()}
    return made.of(records, manifest.started_s)


def _shaped_by_script(manifest: Manifest) -> bool:
    """True if a qdisc that the script set, and did not remove, may slow down or delay traffic."""
    last = {
        (name, record.setting.target): record.setting
        for name, host in manifest.hosts.items()
        for record in host.settings
    }
    return any(
        setting.root_qdisc is not None
        and not setting.removes
        and setting.root_qdisc.kind not in _UNSHAPED
        for setting in last.values()
    )


def _links_changed(manifest: Manifest, field: str) -> bool:
    """True if the script changed this setting of a link of the lab at any time of the
    experiment."""
    first: dict[tuple[str, str], str] = {}
    had: dict[tuple[str, str], list[str]] = {}
    for name, host in manifest.hosts.items():
        for record in host.settings:
            if isinstance(record.setting, LinkLimits):
                link = name, record.setting.target
                first.setdefault(link, record.before)
                is_during = record.made_s >= manifest.started_s
                had[link] = [*(had.get(link, ()) if is_during else ()), record.after]
    return any(
        getattr(LinkLimits.achieved(first[link]), field)
        != getattr(LinkLimits.achieved(each), field)
        for link, all_of_it in had.items()
        for each in all_of_it
    )


def _references(
    paths: Iterable[PathRecord],
    get: Callable[[PathRecord], float | None],
    label: Callable[[float], str],
) -> tuple[Reference, ...]:
    """The different values of the paths; empty if they are too many. A 0 (an RTT in simulated time
    without delays) is not shown as a line."""
    values = {_rounded(value): value for path in paths if (value := get(path))}
    if len(values) > MAX_REFERENCES:
        return ()
    return tuple(Reference(value, label(value)) for _, value in sorted(values.items()))


def _rounded(value: float) -> float:
    """To two digits, and to a tenth: the RTTs of two idle paths differ by microseconds."""
    return round(float(f"{value:.2g}"), 1)
