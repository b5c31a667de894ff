"""The settings of a link: what LAB, topology files and SET_LINK can say of it, with clear errors.

A setting is a field of `LinkSettings`, whose metadata says how it is written, read and described.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from netesto import units
from netesto.errors import UsageError
from netesto.limits.allowed import MAX_LINK_DELAY_MS
from netesto.links.queues import (
    FRAME_HEADER_BYTES,
    QUEUES,
    QueueKind,
    Unit,
    default_queue_bytes,
)
from netesto.schema.described import described, descriptions, differing
from netesto.text.nearest import nearest

Value = TypeVar("Value")

# Below 1280 IPv6 does not run (RFC 8200, section 5); above 65535 an IPv4 packet cannot say its
# length.
SMALLEST_MTU, DEFAULT_MTU, LARGEST_MTU = 1280, 1500, 65535

# At lower rates a full-sized packet takes longer than the timeouts of neighbour discovery.
SLOWEST_RATE_BPS, FASTEST_RATE_BPS = 8e3, 1e13

# tc counts the bytes of a queue in 32 bits.
LARGEST_QUEUE_BYTES = 2**32 - 1

# Of netem, in /usr/lib/tc; without one, delays are uniform from delay - jitter to delay + jitter.
DISTRIBUTIONS = ("uniform", "normal", "pareto", "paretonormal")

OFFLOADS = ("host", "on", "off")

# What carries a link: the kernel's qdiscs, or the program of netesto.emulator.
EMULATORS = ("kernel", "program")

# How a link is protected: "off", or how its receiver hands frames on.
PROTECTIONS = ("off", "ordered", "nonblocking")
MOST_COPIES = 8
# What `copies=auto` leaves of the losses, unless target= says otherwise.
DEFAULT_LOSS_TARGET = 1e-8
# What the number of a protected frame takes on the wire.
NUMBER_BYTES = 3
# More frames than this are never unacknowledged.
MOST_NOTICES = 2**15


@dataclass(frozen=True, slots=True)
class QueueLimit:
    """The capacity of a queue."""

    amount: int
    unit: Unit

    def __str__(self) -> str:
        return f"{self.amount}p" if self.unit == "packets" else units.format_size(self.amount)


@dataclass(frozen=True, slots=True)
class Loss:
    """The losses of a link, in percent: of each packet by itself, or by the Gilbert-Elliott model,
    whose parameters are those of tc-netem(8): p, r, 1-h, 1-k."""

    percent: float = 0.0
    model: tuple[float, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.percent or self.model)

    @property
    def mean_percent(self) -> float:
        """The share of lost packets: in the bad state, which lasts p / (p + r) of the time, 1-h of
        them are lost (default: all), in the good state 1-k (default: none)."""
        if not self.model:
            return self.percent
        p, r, lost_bad, lost_good = (*self.model, *(0.0, 0.0, 100.0, 0.0)[len(self.model) :])
        r = r if len(self.model) > 1 else 100 - p
        bad = p / (p + r) if p + r else 0.0
        return bad * lost_bad + (1 - bad) * lost_good

    def __str__(self) -> str:
        if not self.model:
            return units.decimal(self.percent)
        return f"ge({','.join(map(units.decimal, self.model))})"


@dataclass(frozen=True, slots=True)
class Mark:
    """Where packets are marked with CE: those that queued longer than `ms`, or that arrived behind
    more than `size_bytes`."""

    ms: float | None = None
    size_bytes: int | None = None

    def __str__(self) -> str:
        if self.size_bytes is not None:
            return f"{self.size_bytes}B"
        return units.decimal(self.ms or 0.0)

    def after_ms(self, rate_bps: float | None) -> float:
        """The time in a queue without an order of its own, before a link of this rate."""
        if self.ms is not None:
            return self.ms
        assert rate_bps is not None, "link_settings refuses it"
        return (self.size_bytes or 0) * 8000 / rate_bps


@dataclass(frozen=True, slots=True)
class LinkSetting:
    """How a setting is called, read from text (ValueError), written, and explained to people;
    `shown` with {} is how it is described, "" for nothing."""

    name: str
    read: Callable[[str], Any]
    sentence: str
    write: Callable[[Any], str] = str
    shown: str = ""


# ---- how values are read ---------------------------------------------------------------------


def whole_number(text: str, low: int, high: int) -> int:
    """The whole number in `text`. ValueError unless it is one from `low` to `high`."""
    if not (text.isascii() and text.isdigit() and low <= int(text) <= high):
        raise ValueError(f"not a whole number from {low} to {high}")
    return int(text)


def meant(word: str, known: Iterable[str]) -> str:
    """ "; did you mean …?" if a known word is similar, else ""."""
    near = nearest(word, known)
    return f"; did you mean {near}?" if near else ""


def _milliseconds(text: str) -> float:
    duration_ms = units.parse_milliseconds(text)
    if not 0 <= duration_ms <= MAX_LINK_DELAY_MS:
        raise ValueError(f"not between 0 and {MAX_LINK_DELAY_MS} ms")
    return duration_ms


def _percent(text: str) -> float:
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        raise ValueError("not a number") from None
    if not 0 <= percent <= 100:
        raise ValueError("not between 0 and 100 percent")
    return percent


_MODEL = re.compile(r"ge\((?P<parameters>[^()]*)\)", re.IGNORECASE)


def _loss(text: str) -> Loss:
    if match := _MODEL.fullmatch(text):
        parameters = tuple(_percent(each.strip()) for each in match["parameters"].split(","))
        if not 1 <= len(parameters) <= 4:
            raise ValueError("ge takes p, r, 1-h, 1-k: the first, or more of them")
        if not parameters[0]:
            raise ValueError("with p=0 the model never loses a packet")
        return Loss(model=parameters)
    return Loss(_percent(text))


def _rate(text: str) -> float | None:
    if text == "none":
        return None
    rate_bps = units.parse_rate(text)
    if rate_bps < SLOWEST_RATE_BPS:
        raise ValueError("slower than 8 kbit/s; a bare number is bits per second")
    if rate_bps > FASTEST_RATE_BPS:
        raise ValueError("faster than 10 Tbit/s")
    return rate_bps


def _mtu(text: str) -> int:
    return whole_number(text, SMALLEST_MTU, LARGEST_MTU)


def _size(text: str) -> int:
    size = units.parse_size(text)
    if not 1 <= size <= LARGEST_QUEUE_BYTES:
        raise ValueError("not between 1 byte and 4G")
    return size


def _or_none(read: Callable[[str], Value]) -> Callable[[str], Value | None]:
    return lambda text: None if text == "none" else read(text)


def _one_of(choices: Iterable[str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"not one of {', '.join(choices)}{meant(text, choices)}")
        return text

    return read


def _copies(text: str) -> int | None:
    return None if text == "auto" else whole_number(text, 1, MOST_COPIES)


def _target(text: str) -> float:
    """Milliseconds of an AQM; the probability of `copies=auto` is a bare number, too."""
    try:
        number = float(text)
    except ValueError:
        return _milliseconds(text)
    return number if 0 < number < 1 else _milliseconds(text)


def _write_number(number: float) -> str:
    """Also numbers that `units.decimal` would cut."""
    return units.decimal(number) if number >= 1e-3 else f"{number:g}"


def _switch(text: str) -> bool:
    if text not in {"0", "1", "on", "off"}:
        raise ValueError("neither 1 (on) nor 0 (off)")
    return text in {"1", "on"}


def _qdisc(text: str) -> str:
    if text not in QUEUES:
        raise ValueError(f"not a queue that a link can have{meant(text, QUEUES)}")
    return text


_BYTES = re.compile(r"\d+(\.\d+)?([KMG]i?|B)", re.IGNORECASE)


def _mark(text: str) -> Mark:
    if _BYTES.fullmatch(text):
        return Mark(size_bytes=_size(text.removesuffix("B").removesuffix("b")))
    return Mark(ms=_milliseconds(text))


_LIMIT = re.compile(r"bdp(?:\((?P<times>\d+(?:\.\d*)?|\.\d+)\))?", re.IGNORECASE)


def _limit(text: str) -> QueueLimit | float:
    """A limit, or so many BDP."""
    if match := _LIMIT.fullmatch(text):
        return float(match["times"] or 1)
    if text[-1:] in {"p", "P"}:
        return QueueLimit(whole_number(text[:-1], 1, 10**7), "packets")
    return QueueLimit(units.parse_size(text), "bytes")


def _write_limit(limit: QueueLimit) -> str:
    return str(limit.amount) if limit.unit == "bytes" else f"{limit.amount}p"


def _write_rate(rate_bps: float) -> str:
    return f"{units.decimal(rate_bps)}bit"


def _write_switch(value: bool) -> str:
    return "1" if value else "0"


# ---- the settings ----------------------------------------------------------------------------


# tc rounds what is shorter.
_SMALLEST_TARGET_MS = 0.001


def _of(
    default: Any,
    name: str,
    read: Callable[[str], Any],
    sentence: str,
    shown: str = "",
    *,
    write: Callable[[Any], str] = str,
) -> Any:
    return described(default, LinkSetting(name, read, sentence, write, shown))


_NO_LOSS = Loss()


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """The settings of one direction of a link. `delay_ms` is one way. Every packet of the link's
    MTU is queued, sent, and lost or delayed by itself, unless `offload` is "on".

    `limit` None: the default, see `queue`. None of `mark`, `police_bytes`: not done. None of a
    qdisc's own settings: its default.
    """

    rate_bps: float | None = _of(
        None, "rate", _rate, "as in tc: 10mbit, 1gbit; none for no shaper", write=_write_rate
    )
    delay_ms: float = _of(
        0.0, "delay", _milliseconds, "one way, in ms: 20, 0.5", "delay {} ms", write=units.decimal
    )
    jitter_ms: float = _of(
        0.0,
        "jitter",
        _milliseconds,
        "around the delay, in ms: 2; a packet with a shorter delay overtakes others",
        "jitter {} ms",
        write=units.decimal,
    )
    distribution: str = _of(
        "uniform",
        "distribution",
        _one_of(DISTRIBUTIONS),
        f"of the jitter: {', '.join(DISTRIBUTIONS)}",
        "{}",
    )
    loss: Loss = _of(  # noqa: RUF009 - a field
        _NO_LOSS,
        "loss",
        _loss,
        "percent of the packets: 0.1; ge(1,10): the Gilbert-Elliott model, p, r [,1-h [,1-k]]",
        "loss {} %",
    )
    reorder_percent: float = _of(
        0.0,
        "reorder",
        _percent,
        "percent of the packets that are not delayed, and so overtake others: 1",
        "reorder {} %",
        write=units.decimal,
    )
    duplicate_percent: float = _of(
        0.0,
        "duplicate",
        _percent,
        "percent of the packets that arrive twice: 1",
        "duplicate {} %",
        write=units.decimal,
    )
    corrupt_percent: float = _of(
        0.0,
        "corrupt",
        _percent,
        "percent of the packets with a wrong bit: 0.1",
        "corrupt {} %",
        write=units.decimal,
    )
    qdisc: str = _of("", "qdisc", _qdisc, f"of the queue: {', '.join(QUEUES)}", "{}")
    target_ms: float | None = _of(
        None,
        "target",
        _target,
        "of an AQM: the queueing delay that it allows, in ms: 5; with copies=auto the share of "
        "frames that may stay lost: 1e-8",
        "target {}",
        write=_write_number,
    )
    interval_ms: float | None = _of(
        None,
        "interval",
        _milliseconds,
        "of codel and fq_codel (of cake: its rtt), in ms: 100",
        "interval {} ms",
        write=units.decimal,
    )
    ecn: bool | None = _of(
        None, "ecn", _switch, "1: an AQM marks instead of dropping; 0: not", write=_write_switch
    )
    min_bytes: int | None = _of(None, "min", _size, "of red: its lower threshold: 30K", "min {}")
    max_bytes: int | None = _of(None, "max", _size, "of red: its upper threshold: 90K", "max {}")
    quantum_bytes: int | None = _of(
        None, "quantum", _size, "of a fair queue: bytes of a flow at a time: 1514", "quantum {}"
    )
    flows: int | None = _of(
        None,
        "flows",
        lambda text: whole_number(text, 1, 65_536),
        "of a fair queue: into how many queues flows are hashed: 1024",
        "flows {}",
    )
    tupdate_ms: float | None = _of(
        None,
        "tupdate",
        _milliseconds,
        "of pie, fq_pie and dualpi2: how often they decide, in ms: 15",
        "tupdate {} ms",
        write=units.decimal,
    )
    mark: Mark | None = _of(  # noqa: RUF009 - a field
        None,
        "mark",
        _or_none(_mark),
        "ECN, of packets that queued longer than this (ms: 1), or behind more bytes (100K); "
        "without qdisc= a queue that does nothing else",
        "mark {}",
    )
    limit: QueueLimit | None = _of(  # noqa: RUF009 - a field
        None,
        "limit",
        _limit,
        "of the queue: 100K (bytes), 50p (packets), bdp(1.5)",
        write=_write_limit,
    )
    mtu: int = _of(DEFAULT_MTU, "mtu", _mtu, "bytes: 1500, 9000", "mtu {}")
    police_bytes: int | None = _of(
        None,
        "police",
        _or_none(_size),
        "drop what is faster than rate= instead of queueing it; a burst may have this size: 30K; "
        "none: queue it again",
        "police {}",
    )
    is_down: bool = _of(False, "down", _switch, "1: every packet is lost", write=_write_switch)
    offload: str = _of(
        "host",
        "offload",
        _one_of(OFFLOADS),
        "host: hosts segment behind their own qdisc; off: also before it; on: the link carries "
        "super-packets of up to 64 kB, faster to compute",
    )

    emulator: str = _of(
        "kernel",
        "emulator",
        _one_of(EMULATORS),
        "what carries the link: kernel, or program, which can protect it",
        "carried by the {}",
    )
    overhead_bytes: int = _of(
        0,
        "overhead",
        lambda text: whole_number(text, 0, 1000),
        "bytes that a frame takes on the wire beside its own: 24 of Ethernet",
        "overhead {} B",
    )
    protect: str = _of(
        "off",
        "protect",
        _one_of(PROTECTIONS),
        "off, or what is lost is sent again by the link: ordered, nonblocking",
        "protect {}",
    )
    copies: int | None = _of(
        2,
        "copies",
        _copies,
        f"how often a lost frame is sent again: 1 to {MOST_COPIES}; auto: so often that at most "
        "target= of the frames stay lost",
        "copies {}",
        write=lambda copies: "auto" if copies is None else str(copies),
    )
    reaction_ms: float = _of(
        0.0,
        "reaction",
        _milliseconds,
        "of the sender, from a notice to the first copy, in ms: 4.3us",
        "reaction {} ms",
        write=units.decimal,
    )
    hold_given_ms: float | None = _of(
        None,
        "hold",
        _milliseconds,
        "ordered: how long a gap is waited for, in ms",
        "hold {} ms",
        write=units.decimal,
    )
    pause_given_bytes: int | None = _of(
        None,
        "pause",
        _size,
        "of the receiver: the sender pauses from so much on: 40000",
        "pause {}",
    )
    resume_given_bytes: int | None = _of(
        None,
        "resume",
        _size,
        "of the receiver: the sender goes on from so little: 36800",
        "resume {}",
    )
    txbuffer_bytes: int | None = _of(
        None, "txbuffer", _or_none(_size), "most bytes of copies: 100K; none", "txbuffer {}"
    )
    rxbuffer_bytes: int | None = _of(
        None, "rxbuffer", _or_none(_size), "most bytes of held frames: 100K; none", "rxbuffer {}"
    )
    notice: int = _of(
        5,
        "notice",
        lambda text: whole_number(text, 0, MOST_NOTICES),
        "the most consecutive missing frames that are reported: 5",
        "notice {}",
    )

    @property
    def is_carried(self) -> bool:
        """Whether netesto's own program carries the link."""
        return self.emulator == "program"

    @property
    def frame_bytes(self) -> int:
        """The size of a full frame."""
        return self.mtu + FRAME_HEADER_BYTES

    @property
    def copies_made(self) -> int:
        """How often a frame is sent again: for `auto` the smallest N with p^(N+1) up to the
        target. ValueError if there is none."""
        if self.copies is not None:
            return self.copies
        loss = self.loss.mean_percent / 100
        target = self.target_ms if self.target_ms is not None else DEFAULT_LOSS_TARGET
        if not 0 < loss < 1:
            raise ValueError(f"a loss of {units.decimal(loss * 100)} % needs no copies, or all")
        # A hair above the target is the target, written in decimals.
        for copies in range(1, MOST_COPIES + 1):
            if loss ** (copies + 1) <= target * (1 + 1e-9):
                return copies
        raise ValueError(f"{MOST_COPIES} copies leave more than target={target:g}")

    @property
    def _recovery_s(self) -> float:
        """From a notice to the first copy, without the time of frames on the wire."""
        return (2 * self.delay_ms + self.reaction_ms) / 1000

    @property
    def hold_ms(self) -> float:
        """How long a gap is waited for."""
        if self.hold_given_ms is not None:
            return self.hold_given_ms
        on_wire = self.frame_bytes + self.overhead_bytes + NUMBER_BYTES
        frame_s = on_wire * 8 / self.rate_bps if self.rate_bps is not None else 0.0
        waited = self.notice * self.copies_made + 4
        return 2000 * (self._recovery_s + waited * frame_s)

    @property
    def pause_bytes(self) -> int | None:
        """From how many held bytes on the sender pauses; None: it never does."""
        if self.pause_given_bytes is not None or self.rate_bps is None:
            return self.pause_given_bytes
        return round(1.5 * self.rate_bps / 8 * self._recovery_s + 10 * self.frame_bytes)

    @property
    def resume_bytes(self) -> int | None:
        """From how few held bytes on it goes on."""
        if self.resume_given_bytes is not None or self.pause_bytes is None:
            return self.resume_given_bytes
        return round(0.9 * self.pause_bytes)

    @property
    def queue_kind(self) -> str:
        """The qdisc of the queue; "" for a FIFO that counts the unit of its limit. One that marks,
        without a qdisc, is a codel that never drops, unless the program marks."""
        marks = self.mark is not None and not self.is_carried
        return self.qdisc or ("codel" if marks else "")

    @property
    def queue(self) -> QueueLimit | None:
        """The capacity of the queue; None if there is no queue, or the qdisc's default holds."""
        if self.limit is not None or self.rate_bps is None or self.police_bytes is not None:
            return self.limit
        size = default_queue_bytes(self.rate_bps, self.delay_ms, self.mtu)
        return self.as_counted(QueueLimit(size, "bytes"))

    def as_counted(self, size: QueueLimit) -> QueueLimit:
        """A limit in the unit that the link's qdisc counts, by packets of the MTU."""
        kind = QUEUES.get(self.queue_kind)
        frame_bytes = self.mtu + FRAME_HEADER_BYTES
        if kind is None or kind.counts == size.unit:
            return size
        if kind.counts == "packets":
            return QueueLimit(max(1, -(-size.amount // frame_bytes)), "packets")
        return QueueLimit(size.amount * frame_bytes, "bytes")

    @property
    def emulates(self) -> tuple[str, ...]:
        """The settings that need netem, as written in a script: ("delay=20", "loss=1")."""
        written = as_text(self)
        if self.is_carried:
            return ()
        return tuple(f"{name}={written[name]}" for name in EMULATED if name in written)

    @property
    def is_plain(self) -> bool:
        """Whether the link has no limits: nothing but its MTU and its offloads are set."""
        return not (set(as_text(self)) - {"mtu", "offload"})

    def describe(self) -> str:
        """The settings in words: "100 Mbit/s, delay 20 ms, queue 625K"; "" for a plain link."""
        own = {
            "rate": units.format_rate(self.rate_bps) if self.rate_bps is not None else "",
            "loss": f"loss {self.loss}{'' if self.loss.model else ' %'}" if self.loss else "",
            "limit": f"queue {self.queue}" if self.queue is not None else "",
            "ecn": {None: "", True: "ecn", False: "no ecn"}[self.ecn],
            "down": "down" if self.is_down else "",
            "offload": f"offload {self.offload}" if self.offload != "host" else "",
        }
        if self.mark is not None and self.mark.ms is not None:
            own["mark"] = f"mark {self.mark} ms"
        written = as_text(self)
        words = (
            own[name] if name in own else setting.shown.format(written[name])
            for name, setting in SETTINGS.items()
            if name in own or name in written
        )
        return ", ".join(word for word in words if word)


# All settings by name, in the order of the fields; rtt is another way to write the delay.
_BY_FIELD = descriptions(LinkSettings, LinkSetting)
SETTINGS: Mapping[str, LinkSetting] = {setting.name: setting for setting in _BY_FIELD.values()}
LINK_SETTINGS: Mapping[str, str] = {
    **{name: setting.sentence for name, setting in SETTINGS.items()},
    "rtt": "twice the delay, in ms: 40",
}

# The settings that netem makes, and those of which each packet has its own fate.
EMULATED = ("delay", "jitter", "loss", "reorder", "duplicate", "corrupt")
_OF_PACKETS = ("loss", "reorder", "duplicate", "corrupt", "mark", "police")

# The settings that only some qdiscs have.
_OF_QDISCS = tuple(dict.fromkeys(name for kind in QUEUES.values() for name in kind.settings))

# Those that the two directions of a link share.
FIELDS_OF_BOTH = ("mtu", "offload", "emulator")
OF_BOTH = FIELDS_OF_BOTH

# Those of SET_LINK, which sets mtu at an interface.
CHANGEABLE = tuple(name for name in (*SETTINGS, "rtt") if name not in OF_BOTH)


def as_text(settings: LinkSettings) -> dict[str, str]:
    """The settings that are not the default, as `link_settings` reads them."""
    held = ((_BY_FIELD[field], value) for field, value in differing(settings).items())
    return {setting.name: setting.write(value) for setting, value in held}


def written(settings: LinkSettings) -> str:
    """The settings that are not the default, in words that a person and `recorded` read."""
    return " ".join(f"{name}={text}" for name, text in as_text(settings).items())


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
        for field, setting in _BY_FIELD.items()
        if (name := setting.name) in given
    }
    if "rtt" in given:
        values["delay_ms"] = value(given, "rtt", _milliseconds, 0.0, what=what) / 2
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
        written["limit"] = _write_limit(fitting)
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


_NOT_CARRIED = ("qdisc", "reorder", "duplicate")
# The settings that only the program has.
_OF_PROGRAM = (
    "overhead", "protect", "copies", "reaction", "hold", "pause", "resume", "txbuffer", "rxbuffer",
    "notice",
)  # fmt: skip


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
