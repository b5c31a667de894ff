"""What happened on links that a program carries, from their `link.TO.jsonl`. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from netesto.errors import OutputError
from netesto.files import jsontext
from netesto.measured import LINK_STATES, CounterKind, CounterSamples
from netesto.results.queues import Queue

# The names of what is counted, in a line of the file.
_COUNTS = (
    "wire_frames", "wire_lost", "resent", "given_up", "drops", "marks", "tx_bytes", "rx_bytes",
)  # fmt: skip
# Those of times there, which are counted in microseconds.
_TIMES = ("paused_s", "stalled_s")

# What the page of an experiment draws of it.
KINDS = (
    CounterKind(
        name="linklost",
        title="Frames lost on links",
        sentence="Frames that a link lost, copies included, and (dashed) gave up for good.",
        units={"wire_lost": "frames", "given_up": "frames"},
        drawn=("wire_lost", "given_up"),
    ),
    CounterKind(
        name="linkcopies",
        title="Copies sent by links",
        sentence="Copies of lost frames that the sender of a link put on the wire.",
        units={"resent": "frames"},
        drawn=("resent",),
    ),
    CounterKind(
        name="linkbuffers",
        title="Buffers of links",
        sentence="What the receiver of a link holds, and (dashed) what its sender keeps copies of.",
        units={"rx_bytes": "bytes", "tx_bytes": "bytes"},
        drawn=("rx_bytes", "tx_bytes"),
        are_levels=True,
    ),
    CounterKind(
        name="linkpauses",
        title="Pauses of links",
        sentence="How long a link's sender was paused by its receiver, and (dashed) waited for"
        " room.",
        units={"paused_s": "µs", "stalled_s": "µs"},
        drawn=("paused_s", "stalled_s"),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedWay:
    """One direction of a link during an experiment, and the states of it: counts since the program
    began, times in µs, by their names in the file.

    `loses`: losses or a protection were set at its end. `is_whole`: the counts began with the
    experiment. `queue`: where its frames wait for the wire, None in files of earlier versions, and
    of a stress test: its times are not those of the experiment.
    """

    source: str
    destination: str
    samples: CounterSamples
    loses: bool
    is_whole: bool = False
    queue: Queue | None = None

    def __str__(self) -> str:
        return f"{self.source}→{self.destination}"

    def total(self, name: str) -> int:
        """The increase of a count."""
        column = self.samples.counts[name]
        return (column[-1] or 0) - (0 if self.is_whole else column[0] or 0)

    def increase(self, name: str, start_s: float, end_s: float, *, goes_on: bool = False) -> int:
        """That from the last state up to an instant (if it `goes_on` from an earlier time: from the
        first one from it on) to the first one from another on."""
        times, column = self.samples.time_s, self.samples.counts[name]
        most = len(times) - 1
        first = bisect_left(times, start_s) if goes_on else bisect_right(times, start_s) - 1
        last = bisect_left(times, end_s)
        return (column[min(last, most)] or 0) - (column[min(max(first, 0), most)] or 0)

    @property
    def paused_percent(self) -> float | None:
        times = self.samples.time_s
        span_s = times[-1] - (0 if self.is_whole else times[0])
        return 100 * self.total("paused_s") / 1e6 / span_s if span_s > 0 else None


@dataclass(frozen=True, slots=True)
class CarriedLinks:
    """The directions of all links that programs carry. Those that neither lose nor are protected,
    as that of acknowledgements, count only if all are such."""

    ways: tuple[CarriedWay, ...] = ()

    @property
    def counting(self) -> tuple[CarriedWay, ...]:
        return tuple(way for way in self.ways if way.loses) or self.ways

    def total(self, name: str) -> int | None:
        """The sum of a count; None without such a link."""
        return sum(way.total(name) for way in self.counting) if self.ways else None

    @property
    def loss_percent(self) -> float | None:
        """Of the frames on the wire, copies included."""
        frames, lost = self.total("wire_frames"), self.total("wire_lost")
        return 100 * lost / frames if frames and lost is not None else None

    @property
    def paused_percent(self) -> float | None:
        """Of the direction that paused longest."""
        shares = [way.paused_percent for way in self.counting]
        return max((share for share in shares if share is not None), default=None)


def read(path: Path, *, is_whole: bool) -> CarriedWay | None:
    """None without a line. OutputError if it is not such a file, OSError if it cannot be read."""
    with path.open(encoding="utf-8") as lines:
        found = list(jsontext.lines(lines))
    return of(found, path.parent.name, LINK_STATES.receiver(path), is_whole=is_whole)


def of(
    lines: Sequence[object], source: str, destination: str, *, is_whole: bool = False
) -> CarriedWay | None:
    """`read` of lines that are read."""
    if not lines:
        return None
    try:
        states = [_state(line) for line in lines]
        last = states[-1]
        return CarriedWay(
            source=source,
            destination=destination,
            samples=CounterSamples(
                tuple(float(state["time_s"]) for state in states),
                {
                    **{name: tuple(int(each[name]) for each in states) for name in _COUNTS},
                    **{name: tuple(map(partial(_us, name), states)) for name in _TIMES},
                },
            ),
            loses=last["protect"] != "off" or last["loss_set"] > 0,
            is_whole=is_whole,
            queue=_queue(f"{source}→{destination}", states)
            if "rate_bps" in last and not is_whole
            else None,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise OutputError(f"{source}→{destination}: not the states of a link: {error}") from None


def _state(line: object) -> Mapping[str, Any]:
    if not isinstance(line, dict):
        raise TypeError("a line is no object")
    return line


def _queue(place: str, states: Sequence[Mapping[str, Any]]) -> Queue:
    rates_bps = [int(each["rate_bps"]) or None for each in states]
    sizes = [int(each["queued_bytes"]) for each in states]
    return Queue(
        place=place,
        kind="program",
        rate_bps=rates_bps[0] if len(set(rates_bps)) == 1 else None,
        time_s=tuple(float(each["time_s"]) for each in states),
        backlog_bytes=tuple(sizes),
        backlog_packets=tuple(int(each["queued_frames"]) for each in states),
        drops=tuple(int(each["drops"]) for each in states),
        marks=tuple(int(each["marks"]) for each in states),
        delay_us=tuple(
            8e6 * size / rate if rate else None for size, rate in zip(sizes, rates_bps, strict=True)
        ),
    )


def _us(name: str, state: Mapping[str, Any]) -> int:
    return round(float(state[name]) * 1e6)


def joined(ways: Iterable[CarriedWay | None]) -> CarriedLinks:
    return CarriedLinks(tuple(way for way in ways if way is not None))
