"""Requested and achieved values, in sentences. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime

from netesto import grounds
from netesto.flowspec import COMPLETION_TESTS, OPTIONS, TIMED_TESTS, VALUE_BYTES
from netesto.model import GroupRequest
from netesto.report.together import FAIR_INDEX, HELD_S, WINDOW_S, Together
from netesto.results.evidence import OK
from netesto.results.flows import INTERVAL_TOLERANCE
from netesto.results.formulas import requested_control, requested_duration_s
from netesto.results.manifest import GroupRecord, HostRecord, InstanceRecord, Manifest
from netesto.results.numbers import UNKNOWN
from netesto.schema.described import differing
from netesto.units import format_size, format_time


def ground(manifest: Manifest) -> str:
    """Where an experiment was measured; what was imported has no ground."""
    known = grounds.find(manifest.ground)
    return known.words if known is not None else manifest.ground


def date(time_s: float) -> str:
    """20 November 2026, 12:15:00 UTC"""
    instant = datetime.fromtimestamp(time_s, UTC)
    return f"{instant.day} {instant:%B %Y, %H:%M:%S} UTC"


def simulated(manifest: Manifest) -> str:
    """A sentence that an experiment's times are simulated, with the speed; "" if they are real."""
    if not manifest.simulated_time:
        return ""
    if manifest.wall_s is None:
        return "All times are simulated."
    passed_s = manifest.ended_monotonic_s - manifest.started_monotonic_s
    took = f"All times are simulated: {passed_s:.1f} s of simulated time took"
    if not manifest.speed_up:
        return f"{took} less than a second of wall time."
    is_faster = manifest.speed_up >= 1
    times = manifest.speed_up if is_faster else 1 / manifest.speed_up
    # The wall time is known to the second: two digits are significant.
    figures = f"{times:.1f}" if times < 10 else f"{times:,.0f}"
    pace = f"{figures} times {'faster' if is_faster else 'slower'} than real time"
    return f"{took} about {manifest.wall_s:.0f} s of wall time, {pace}."


def verdict(manifest: Manifest) -> str:
    """The outcome of the experiment's flows: "2 of 3 flows succeeded, 1 failed"."""
    flows = [flow for group in manifest.groups for flow in group.instances]
    failed = sum(flow.status != OK for flow in flows)
    if not flows:
        return "no flow was requested"
    if 0 < failed < len(flows):
        return f"{len(flows) - failed} of {len(flows)} flows succeeded, {failed} failed"
    which = {1: "the flow", 2: "both flows"}.get(len(flows), f"all {len(flows)} flows")
    return f"{which} {'failed' if failed else 'succeeded'}"


def together(found: Together) -> str:
    """How flows shared the capacity while most of them ran together."""
    period = found.period
    length_s = period.end_s - period.start_s
    whole = sum(each.rate_mbit_per_s for each in found.shares)
    times = f"From {period.start_s:.1f} s to {period.end_s:.1f} s ({length_s:.1f} s)"
    sentences = [f"{times} they got {whole:.4g} Mbit/s in total."]
    if found.fairness is not None:
        sentences.append(f"Jain's index of their rates is {found.fairness:.3f} (1: equal shares).")
    if found.fair_after_s is not None:
        when = (
            f"{found.fair_after_s:.1f} s after the last of them began"
            if found.fair_after_s > 0
            else "from the beginning"
        )
        sentences.append(f"Shares were fair {when}: {_FAIR}.")
    elif found.can_tell_when:
        sentences.append(f"Shares never became fair: {_FAIR}.")
    return " ".join(sentences)


# The definition of fairness in `together`.
_FAIR = f"an index of at least {FAIR_INDEX:g}, of means over {WINDOW_S:g} s, held for {HELD_S:g} s"


def requested(request: GroupRequest) -> str:
    """The request of a group."""
    flows = "One flow" if request.instances == 1 else f"{request.instances} flows"
    start = (
        f"{format_time(request.delay_s)} after the common start" if request.delay_s else "at once"
    )
    lasting = (
        ", until all transfers are done"
        if request.lasts_until_done
        else f", for {format_time(duration_s)}"
        if (duration_s := requested_duration_s(request))
        else ""
    )
    control = requested_control(request)
    what = (
        f"{flows} of {request.test} from {request.client} to {request.server}"
        f"{f' with {control}' if control else ''}, {start}{lasting}"
    )
    sizes = (
        f"requests of {format_size(request.request_bytes)} bytes, replies of "
        f"{format_size(request.reply_bytes)}"
    )
    if request.test in COMPLETION_TESTS:
        sizes = _transfers(request)
    if request.test == "KV_RR":
        size = format_size(request.size_bytes or VALUE_BYTES)
        sizes = f"{request.get_percent:g} % gets, values of {size} bytes"
    is_sized = request.test in TIMED_TESTS and (request.request_bytes or request.reply_bytes)
    parts = [what, *([sizes] if is_sized else []), *_options(request)]
    return "; ".join(parts) + "."


def _transfers(request: GroupRequest) -> str:
    """The transfers of tests that measure them."""
    count = f"{request.count:,} transfers" if request.count else "transfers"
    size = f"{count} of {format_size(request.size_bytes or 0)} bytes"
    if not request.gap_s:
        return f"{size}, one after the other"
    is_random = request.arrivals == "poisson"
    how = " on average, as a Poisson process" if is_random else ""
    return f"{size}, {format_time(request.gap_s)} apart{how}"


def _options(request: GroupRequest) -> list[str]:
    """The options that differ from their defaults."""
    each = " each" if request.instances > 1 else ""
    clauses = [
        OPTIONS[name].clause(value, each)
        for name, value in differing(request).items()
        if value != ""
    ]
    if request.stagger_s and request.instances > 1:
        clauses.append(f"started {format_time(request.stagger_s)} apart on average")
    return [clause for clause in clauses if clause]


def happened(group: GroupRecord) -> str:
    """The outcome of a group."""
    flows = group.instances
    good = [flow for flow in flows if flow.status == OK]
    versions = sorted({flow.tool_version for flow in flows if flow.tool_version})
    tool = " ".join([group.request.tool, *versions[:1]])
    if not flows:
        return "No flow was started."
    if not good:
        return f"No flow succeeded (tool: {tool})."
    which = (
        "It" if len(flows) == 1 else "All" if len(good) == len(flows) else f"{len(good)} of them"
    )
    sentences = [f"{which} ran with {tool} and succeeded"]
    if (skew := _range([flow.start_skew_ms for flow in good], "ms")) != "":
        sentences.append(f"started {skew} after the requested instant")
    if sampled := _sampled(group.request, good):
        sentences.append(sampled)
    sizes = sorted({flow.effective_mss_bytes for flow in good if flow.effective_mss_bytes})
    if sizes:
        sentences.append(f"segments held {' or '.join(map(str, sizes))} bytes")
    return "; ".join(sentences) + "."


def _sampled(request: GroupRequest, good: Sequence[InstanceRecord]) -> str:
    """The achieved intervals between the samples of sockets: of both ends if they differ. "" if
    nothing is known."""
    requested_ms = request.interval_s * 1000
    sender = _range([flow.achieved_interval_ms for flow in good], "ms")
    receiver = _range([flow.receiver_interval_ms for flow in good], "ms")
    both = f"{sender} at the sender and {receiver} at the receiver"
    gap = both if sender and receiver and sender != receiver else sender or receiver
    if not gap:
        return ""
    ends = [(flow.achieved_interval_worst_ms, flow.receiver_interval_worst_ms) for flow in good]
    worst_ms = max((each for end in ends for each in end if each is not None), default=0.0)
    worst = f", at worst {worst_ms:.1f} ms apart" if misses(worst_ms, requested_ms) else ""
    return f"sockets were sampled every {gap} (requested: {requested_ms:g} ms){worst}"


def _range(values: Sequence[float | None], unit: str) -> str:
    """ "1.3 ms", or "1.3 to 32.5 ms"; "" if nothing is known."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, high = f"{min(known):z.1f}", f"{max(known):z.1f}"
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


def misses(achieved_ms: float | None, requested_ms: float) -> bool:
    """Whether an achieved sampling interval is marked: it differs by more than 10 % from the
    requested one."""
    return achieved_ms is not None and (
        abs(achieved_ms - requested_ms) > requested_ms * INTERVAL_TOLERANCE
    )


def control(flow: InstanceRecord, request: GroupRequest) -> str:
    """The congestion control of a flow's sender, and the requested one if that differs."""
    used = flow.effective_congestion_control
    if requested_control(request) is None:
        return UNKNOWN
    if not used:
        asked = request.congestion_control
        return f"{asked} (not confirmed)" if asked else UNKNOWN
    if used == request.congestion_control:
        return used
    return f"{used} (requested: {request.congestion_control})"


def queue_sampling(host: HostRecord) -> tuple[str, str, str]:
    """How often a host sampled queues and interfaces, on average (and the requested interval), 99 %
    of the time, and at worst, in ms."""
    found = host.queue_sampling
    if found is None:
        return "—", "—", "—"
    return (
        f"{found.achieved_interval_ms:.1f} (requested: {found.asked_interval_ms:g})",
        f"{found.achieved_interval_p99_ms:.1f}",
        f"{found.achieved_interval_worst_ms:.1f}",
    )


def clock(host: HostRecord) -> str:
    """The offset of a host's clock from the controller's: "+12 ± 80 µs, -3.1 ppm"."""
    offset, bound = host.clock.offset_s, host.clock.bound_s
    largest = max(abs(offset), bound)
    factor, unit = (1e6, "µs") if largest < 1e-3 else (1e3, "ms") if largest < 1 else (1.0, "s")
    drift = f", {host.clock.drift_ppm:+.3g} ppm" if host.clock.drift_ppm else ""
    return f"{offset * factor:+.3g} ± {bound * factor:.3g} {unit}{drift}"


def time_sync(host: HostRecord) -> str:
    """The synchronisation of a host's clock: "chronyd, ± 0.8 ms", "not synchronized"."""
    found = host.time_sync
    if found is None:
        return "—"
    if not found.is_synchronized:
        return f"not synchronized by {found.source}" if found.source else "not synchronized"
    return ", ".join(filter(None, (found.source, f"± {found.error_s * 1000:.3g} ms")))


def memory(size_bytes: int) -> str:
    """7.8 GiB; — for what is unknown."""
    return f"{size_bytes / 2**30:.1f} GiB" if size_bytes else UNKNOWN
