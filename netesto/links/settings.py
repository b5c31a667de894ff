"""The settings of a link: what LAB, topology files and SET_LINK can say of it.

A setting is a field of `LinkSettings`, whose metadata says how it is written, read and described.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from netesto import units
from netesto.links import values
from netesto.links.queues import FRAME_HEADER_BYTES, QUEUES, default_queue_bytes
from netesto.links.values import Loss, Mark, QueueLimit
from netesto.schema.described import described, descriptions, differing

DEFAULT_MTU = 1500

# Of netem, in /usr/lib/tc; without one, delays are uniform from delay - jitter to delay + jitter.
DISTRIBUTIONS = ("uniform", "normal", "pareto", "paretonormal")

OFFLOADS = ("host", "on", "off")

# What carries a link: the kernel's qdiscs, or the program of netesto.emulator.
EMULATORS = ("kernel", "program")

# How a link is protected: "off", or how its receiver hands frames on.
PROTECTIONS = ("off", "ordered", "nonblocking")
# What `copies=auto` leaves of the losses, unless target= says otherwise.
DEFAULT_LOSS_TARGET = 1e-8
# What the number of a protected frame takes on the wire.
NUMBER_BYTES = 3
# More frames than this are never unacknowledged.
MOST_NOTICES = 2**15


@dataclass(frozen=True, slots=True)
class LinkSetting:
    """How a setting is called, read from text (ValueError), written, and explained to people;
    `shown` with {} is how it is described, "" for nothing."""

    name: str
    read: Callable[[str], Any]
    sentence: str
    write: Callable[[Any], str] = str
    shown: str = ""


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
        None,
        "rate",
        values.read_rate,
        "as in tc: 10mbit, 1gbit; none for no shaper",
        write=values.write_rate,
    )
    delay_ms: float = _of(
        0.0,
        "delay",
        values.read_milliseconds,
        "one way, in ms: 20, 0.5",
        "delay {} ms",
        write=units.decimal,
    )
    jitter_ms: float = _of(
        0.0,
        "jitter",
        values.read_milliseconds,
        "around the delay, in ms: 2; a packet with a shorter delay overtakes others",
        "jitter {} ms",
        write=units.decimal,
    )
    distribution: str = _of(
        "uniform",
        "distribution",
        values.one_of(DISTRIBUTIONS),
        f"of the jitter: {', '.join(DISTRIBUTIONS)}",
        "{}",
    )
    loss: Loss = _of(  # noqa: RUF009 - a field
        _NO_LOSS,
        "loss",
        values.read_loss,
        "percent of the packets: 0.1; ge(1,10): the Gilbert-Elliott model, p, r [,1-h [,1-k]]",
        "loss {} %",
    )
    reorder_percent: float = _of(
        0.0,
        "reorder",
        values.read_percent,
        "percent of the packets that are not delayed, and so overtake others: 1",
        "reorder {} %",
        write=units.decimal,
    )
    duplicate_percent: float = _of(
        0.0,
        "duplicate",
        values.read_percent,
        "percent of the packets that arrive twice: 1",
        "duplicate {} %",
        write=units.decimal,
    )
    corrupt_percent: float = _of(
        0.0,
        "corrupt",
        values.read_percent,
        "percent of the packets with a wrong bit: 0.1",
        "corrupt {} %",
        write=units.decimal,
    )
    qdisc: str = _of("", "qdisc", values.read_qdisc, f"of the queue: {', '.join(QUEUES)}", "{}")
    target_ms: float | None = _of(
        None,
        "target",
        values.read_target,
        "of an AQM: the queueing delay that it allows, in ms: 5; with copies=auto the share of "
        "frames that may stay lost: 1e-8",
        "target {}",
        write=values.write_number,
    )
    interval_ms: float | None = _of(
        None,
        "interval",
        values.read_milliseconds,
        "of codel and fq_codel (of cake: its rtt), in ms: 100",
        "interval {} ms",
        write=units.decimal,
    )
    ecn: bool | None = _of(
        None,
        "ecn",
        values.read_switch,
        "1: an AQM marks instead of dropping; 0: not",
        write=values.write_switch,
    )
    min_bytes: int | None = _of(
        None, "min", values.read_size, "of red: its lower threshold: 30K", "min {}"
    )
    max_bytes: int | None = _of(
        None, "max", values.read_size, "of red: its upper threshold: 90K", "max {}"
    )
    quantum_bytes: int | None = _of(
        None,
        "quantum",
        values.read_size,
        "of a fair queue: bytes of a flow at a time: 1514",
        "quantum {}",
    )
    flows: int | None = _of(
        None,
        "flows",
        lambda text: values.whole_number(text, 1, 65_536),
        "of a fair queue: into how many queues flows are hashed: 1024",
        "flows {}",
    )
    tupdate_ms: float | None = _of(
        None,
        "tupdate",
        values.read_milliseconds,
        "of pie, fq_pie and dualpi2: how often they decide, in ms: 15",
        "tupdate {} ms",
        write=units.decimal,
    )
    mark: Mark | None = _of(  # noqa: RUF009 - a field
        None,
        "mark",
        values.or_none(values.read_mark),
        "ECN, of packets that queued longer than this (ms: 1), or behind more bytes (100K); "
        "without qdisc= a queue that does nothing else",
        "mark {}",
    )
    limit: QueueLimit | None = _of(  # noqa: RUF009 - a field
        None,
        "limit",
        values.read_limit,
        "of the queue: 100K (bytes), 50p (packets), bdp(1.5)",
        write=values.write_limit,
    )
    mtu: int = _of(DEFAULT_MTU, "mtu", values.read_mtu, "bytes: 1500, 9000", "mtu {}")
    police_bytes: int | None = _of(
        None,
        "police",
        values.or_none(values.read_size),
        "drop what is faster than rate= instead of queueing it; a burst may have this size: 30K; "
        "none: queue it again",
        "police {}",
    )
    is_down: bool = _of(
        False, "down", values.read_switch, "1: every packet is lost", write=values.write_switch
    )
    offload: str = _of(
        "host",
        "offload",
        values.one_of(OFFLOADS),
        "host: hosts segment behind their own qdisc; off: also before it; on: the link carries "
        "super-packets of up to 64 kB, faster to compute",
    )

    emulator: str = _of(
        "kernel",
        "emulator",
        values.one_of(EMULATORS),
        "what carries the link: kernel, or program, which can protect it",
        "carried by the {}",
    )
    overhead_bytes: int = _of(
        0,
        "overhead",
        lambda text: values.whole_number(text, 0, 1000),
        "bytes that a frame takes on the wire beside its own: 24 of Ethernet",
        "overhead {} B",
    )
    protect: str = _of(
        "off",
        "protect",
        values.one_of(PROTECTIONS),
        "off, or what is lost is sent again by the link: ordered, nonblocking",
        "protect {}",
    )
    copies: int | None = _of(
        2,
        "copies",
        values.read_copies,
        f"how often a lost frame is sent again: 1 to {values.MOST_COPIES}; auto: so often that "
        "at most target= of the frames stay lost",
        "copies {}",
        write=lambda copies: "auto" if copies is None else str(copies),
    )
    reaction_ms: float = _of(
        0.0,
        "reaction",
        values.read_milliseconds,
        "of the sender, from a notice to the first copy, in ms: 4.3us",
        "reaction {} ms",
        write=units.decimal,
    )
    hold_given_ms: float | None = _of(
        None,
        "hold",
        values.read_milliseconds,
        "ordered: how long a gap is waited for, in ms",
        "hold {} ms",
        write=units.decimal,
    )
    pause_given_bytes: int | None = _of(
        None,
        "pause",
        values.read_size,
        "of the receiver: the sender pauses from so much on: 40000",
        "pause {}",
    )
    resume_given_bytes: int | None = _of(
        None,
        "resume",
        values.read_size,
        "of the receiver: the sender goes on from so little: 36800",
        "resume {}",
    )
    txbuffer_bytes: int | None = _of(
        None,
        "txbuffer",
        values.or_none(values.read_size),
        "most bytes of copies: 100K; none",
        "txbuffer {}",
    )
    rxbuffer_bytes: int | None = _of(
        None,
        "rxbuffer",
        values.or_none(values.read_size),
        "most bytes of held frames: 100K; none",
        "rxbuffer {}",
    )
    notice: int = _of(
        5,
        "notice",
        lambda text: values.whole_number(text, 0, MOST_NOTICES),
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
        for copies in range(1, values.MOST_COPIES + 1):
            if loss ** (copies + 1) <= target * (1 + 1e-9):
                return copies
        raise ValueError(f"{values.MOST_COPIES} copies leave more than target={target:g}")

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
BY_FIELD = descriptions(LinkSettings, LinkSetting)
SETTINGS: Mapping[str, LinkSetting] = {setting.name: setting for setting in BY_FIELD.values()}
LINK_SETTINGS: Mapping[str, str] = {
    **{name: setting.sentence for name, setting in SETTINGS.items()},
    "rtt": "twice the delay, in ms: 40",
}

# The settings that netem makes.
EMULATED = ("delay", "jitter", "loss", "reorder", "duplicate", "corrupt")

# Those that the two directions of a link share; so their fields are called.
OF_BOTH = ("mtu", "offload", "emulator")

# Those of SET_LINK, which sets mtu at an interface.
CHANGEABLE = tuple(name for name in (*SETTINGS, "rtt") if name not in OF_BOTH)


def as_text(settings: LinkSettings) -> dict[str, str]:
    """The settings that are not the default, as `link_settings` reads them."""
    held = ((BY_FIELD[field], value) for field, value in differing(settings).items())
    return {setting.name: setting.write(value) for setting, value in held}


def written(settings: LinkSettings) -> str:
    """The settings that are not the default, in words that a person and `recorded` read."""
    return " ".join(f"{name}={text}" for name, text in as_text(settings).items())
