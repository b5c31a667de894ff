"""Settings of links from the words of LAB, topology files and SET_LINK: what words mean together,
and which contradict each other, with clear errors."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from netesto import units
from netesto.errors import UsageError
from netesto.links.queues import FRAME_HEADER_BYTES, QUEUES, QueueKind
from netesto.links.settings import BY_FIELD, LINK_SETTINGS, LinkSettings, as_text
from netesto.links.values import (
    LARGEST_QUEUE_BYTES,
    QueueLimit,
    Value,
    read_milliseconds,
    write_limit,
)

# Those of which each packet has its own fate.
_OF_PACKETS = ("loss", "reorder", "duplicate", "corrupt", "mark", "police")

# Those that only some qdiscs have.
_OF_QDISCS = tuple(dict.fromkeys(name for kind in QUEUES.values() for name in kind.settings))

# Those that the program does not have, and those that only it has.
_NOT_CARRIED = ("qdisc", "reorder", "duplicate")
_OF_PROGRAM = (
    "overhead", "protect", "copies", "reaction", "hold", "pause", "resume", "txbuffer", "rxbuffer",
    "notice",
)  # fmt: skip

# tc rounds what is shorter.
_SMALLEST_TARGET_MS = 0.001


def recorded(words: str) -> LinkSettings:
    """The settings that `written` wrote."""
    return link_settings(dict(word.split("=", 1) for word in words.split()), what="a link")


def link_settings(given: Mapping[str, str], *, what: str) -> LinkSettings:
    """The settings written in `given`, whose keys are all in LINK_SETTINGS.

    UsageError, beginning with `what`, if one is invalid or two contradict each other.
    """
    if "delay" in given and "rtt" in given:
        raise UsageError(f"{what}: give delay or rtt (which is twice the delay), not both")
    if "protect" in given:
        given = {"emulator": "program", **given}
    values: dict[str, Any] = {
        field: value(given, name, setting.read, None, what=what)
        for field, setting in BY_FIELD.items()
        if (name := setting.name) in given
    }
    if "rtt" in given:
        values["delay_ms"] = value(given, "rtt", read_milliseconds, 0.0, what=what) / 2
    limit = values.pop("limit", None)
    settings = LinkSettings(**values)
    _check_delays(settings, given, what)
    _check_queue(settings, given, what)
    if limit is not None:
        settings = value(
            given, "limit", lambda _: replace(settings, limit=_fitting(limit, settings)),
            settings, what=what,
        )  # fmt: skip
    queue = settings.queue
    if queue is not None and queue.unit == "bytes" and queue.amount > LARGEST_QUEUE_BYTES:
        asked_for = f"limit={given['limit']}" if "limit" in given else f"rate={given['rate']}"
        raise UsageError(
            f"{what}: {asked_for}: a queue of {queue}; the maximum is 4G",
            remedy="limit= sets what the queue of a link holds: limit=100M",
        )
    _check_super_packets(settings, given, what)
    _check_carried(settings, given, what)
    return settings


def changed(settings: LinkSettings, given: Mapping[str, str], *, what: str) -> LinkSettings:
    """The settings of a link that is up when some change. The others stay, also the size of its
    queue. UsageError as in `link_settings`, and if the kernel carries a link that should be
    protected."""
    for name in _OF_PROGRAM:
        if name in given and not settings.is_carried:
            raise UsageError(
                f"{what}: {name}={given[name]}: the kernel carries this link, which cannot protect",
                remedy="Give it emulator=program, or protect=, in LAB.",
            )
    queue = settings.queue
    return merged(settings if queue is None else replace(settings, limit=queue), given, what=what)


def merged(settings: LinkSettings, given: Mapping[str, str], *, what: str) -> LinkSettings:
    """Settings of which the given ones are others. A limit becomes one of the unit that the qdisc
    counts; what belongs to another qdisc, or to a queue that is gone, goes with it.

    UsageError as in `link_settings`.
    """
    written = as_text(settings)
    dropped: set[str] = set()
    if "rtt" in given:
        dropped.add("delay")
    if "qdisc" in given:
        dropped.update(_OF_QDISCS)
    if given.get("rate") == "none" or given.get("police", "none") != "none":
        dropped.update(("limit", "qdisc", *_OF_QDISCS))
    if given.get("rate") == "none":
        dropped.add("police")
    written = {name: text for name, text in written.items() if name not in dropped}
    if settings.limit is not None and "limit" in written:
        kind = given.get("qdisc", "") or settings.queue_kind
        fitting = replace(settings, qdisc=kind).as_counted(settings.limit)
        written["limit"] = write_limit(fitting)
    return link_settings({**written, **given}, what=what)


def value(
    given: Mapping[str, str],
    name: str,
    read: Callable[[str], Value],
    default: Value,
    *,
    what: str,
) -> Value:
    """`read` applied to the text of `name`, or `default`. A ValueError becomes a UsageError."""
    if name not in given:
        return default
    try:
        return read(given[name])
    except ValueError as error:
        expected = LINK_SETTINGS.get(name, "")
        remedy = f"{name}: {expected}" if expected else ""
        raise UsageError(f"{what}: {name}={given[name]}: {error}", remedy=remedy) from None


def _check_delays(settings: LinkSettings, given: Mapping[str, str], what: str) -> None:
    if settings.jitter_ms > settings.delay_ms:
        raise UsageError(
            f"{what}: jitter={units.decimal(settings.jitter_ms)}: more than the delay it varies"
        )
    for name, needed in (("distribution", settings.jitter_ms), ("reorder", settings.delay_ms)):
        if name in given and not needed:
            lacking = "jitter" if name == "distribution" else "delay"
            raise UsageError(f"{what}: {name}={given[name]}: only with {lacking}=")


def _check_queue(settings: LinkSettings, given: Mapping[str, str], what: str) -> None:
    kind = QUEUES.get(settings.queue_kind, QueueKind("bytes"))
    for name in _OF_QDISCS:
        if name == "target" and settings.copies is None:
            continue
        if name == "mark" and not settings.qdisc:
            continue
        if name in given and name not in kind.settings:
            able = ", ".join(each for each, one in QUEUES.items() if name in one.settings)
            raise UsageError(
                f"{what}: {name}={given[name]}: qdisc={settings.qdisc or 'none'} has no {name}",
                remedy=f"Queues with it: {able}.",
            )
    if settings.police_bytes is not None:
        for name in ("limit", "qdisc", "mark"):
            if name in given:
                raise UsageError(f"{what}: {name}={given[name]}: police= leaves nothing to queue")
    for name in ("limit", "qdisc", "mark", "police"):
        if given.get(name, "none") != "none" and settings.rate_bps is None:
            raise UsageError(
                f"{what}: {name}={given[name]}: nothing queues on a link without rate=",
                remedy="SET_QDISC gives an interface of a host a queue.",
            )
    low, high = settings.min_bytes, settings.max_bytes
    if (low is None) != (high is None) or (low is not None and high is not None and low >= high):
        raise UsageError(f"{what}: red needs min= and max=, the second larger than the first")


def _check_super_packets(settings: LinkSettings, given: Mapping[str, str], what: str) -> None:
    """With offload=on the link carries super-packets, of which nothing may count packets."""
    if settings.offload != "on":
        return
    queue = settings.queue
    counted = [name for name in _OF_PACKETS if name in as_text(settings)]
    if settings.qdisc not in {"", "bfifo"}:
        counted.append("qdisc")
    if queue is not None and queue.unit == "packets":
        counted.append("limit")
    if counted:
        name = counted[0]
        raise UsageError(
            f"{what}: {name}={given.get(name, '')}: a super-packet of offload=on counts as one",
            remedy="Leave out offload=on: packets then have the MTU of the link.",
        )


def _check_carried(settings: LinkSettings, given: Mapping[str, str], what: str) -> None:
    """What only one of kernel and program has; limits that contradict each other."""
    if not settings.is_carried:
        for name in _OF_PROGRAM:
            if name in given:
                raise UsageError(
                    f"{what}: {name}={given[name]}: only with protect= or emulator=program"
                )
        if settings.copies is None or (settings.target_ms or 1) < _SMALLEST_TARGET_MS:
            raise UsageError(f"{what}: target={given.get('target', '')}: shorter than 1 us")
        return
    written = as_text(settings)
    for name in _NOT_CARRIED:
        if name in written:
            raise UsageError(
                f"{what}: {name}={written[name]}: the program that carries it has no {name}=",
                remedy="Leave out protect= and emulator=program: the kernel's qdiscs have it.",
            )
    if settings.offload == "on":
        raise UsageError(f"{what}: offload=on: the program carries packets of the MTU")
    if settings.distribution.startswith("pareto"):
        raise UsageError(
            f"{what}: distribution={settings.distribution}: the program has uniform and normal"
        )
    pause, resume = settings.pause_bytes, settings.resume_bytes
    if resume is not None and (pause is None or resume > pause):
        raise UsageError(f"{what}: resume={resume}: above pause={pause}")
    smallest = settings.txbuffer_bytes
    if smallest is not None and smallest < settings.frame_bytes:
        raise UsageError(
            f"{what}: txbuffer={smallest}: does not hold one frame of {settings.frame_bytes} bytes"
        )
    if settings.protect != "off":
        try:
            _ = settings.copies_made
        except ValueError as error:
            raise UsageError(
                f"{what}: copies=auto: {error}", remedy="Set loss=, or the number of copies."
            ) from None


def _fitting(limit: QueueLimit | float, link: LinkSettings) -> QueueLimit:
    """A limit in the unit of the link's qdisc. ValueError if it has none such."""
    if isinstance(limit, float):
        if link.rate_bps is None or not link.delay_ms:
            raise ValueError("needs the rate and the delay of the link")
        size = limit * link.rate_bps / 8 * 2 * link.delay_ms / 1000
        limit = link.as_counted(QueueLimit(round(size), "bytes"))
    kind = QUEUES.get(link.queue_kind)
    if kind is not None and limit.unit != kind.counts:
        raise ValueError(f"{link.queue_kind} counts {kind.counts}")
    frame_bytes = link.mtu + FRAME_HEADER_BYTES
    if limit.unit == "bytes" and limit.amount < frame_bytes:
        raise ValueError(f"does not hold one packet of {frame_bytes} bytes")
    return limit
