"""What happened on links that a program carries, from their `link.TO.jsonl`. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netesto.errors import OutputError
from netesto.files import jsontext

# The names of what is counted, in a line of the file.
_COUNTS = ("wire_frames", "wire_lost", "resent", "given_up")


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedWay:
    """One direction of a link during an experiment. `frames` were put on the wire, copies included;
    `lost` are those of them that did not arrive. `loses`: losses or a protection were set at its
    end."""

    frames: int
    lost: int
    resent: int
    given_up: int
    paused_s: float
    span_s: float
    loses: bool


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
        return sum(getattr(way, name) for way in self.counting) if self.ways else None

    @property
    def loss_percent(self) -> float | None:
        frames, lost = self.total("frames"), self.total("lost")
        return 100 * lost / frames if frames and lost is not None else None

    @property
    def paused_percent(self) -> float | None:
        """Of the direction that paused longest."""
        shares = [100 * way.paused_s / way.span_s for way in self.counting if way.span_s > 0]
        return max(shares, default=None)


def read(path: Path, *, is_whole: bool) -> CarriedWay | None:
    """The difference of the last and the first line; `is_whole`: everything up to the last. None
    without a line. OutputError if it is not such a file, OSError if it cannot be read."""
    with path.open(encoding="utf-8") as lines:
        return of(list(jsontext.lines(lines)), is_whole=is_whole, what=str(path))


def of(lines: Sequence[object], *, is_whole: bool, what: str = "") -> CarriedWay | None:
    """`read` of lines that are read."""
    if not lines:
        return None
    first, last = lines[0], lines[-1]
    if not isinstance(first, dict) or not isinstance(last, dict):
        raise OutputError(f"{what}: not the states of a link")
    try:
        before = {} if is_whole else first
        counts = {name: _difference(last, before, name) for name in _COUNTS}
        return CarriedWay(
            frames=round(counts["wire_frames"]),
            lost=round(counts["wire_lost"]),
            resent=round(counts["resent"]),
            given_up=round(counts["given_up"]),
            paused_s=_difference(last, before, "paused_s"),
            span_s=_difference(last, before, "time_s"),
            loses=last["protect"] != "off" or last["loss_set"] > 0,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise OutputError(f"{what}: not the states of a link: {error}") from None


def _difference(last: Mapping[str, Any], before: Mapping[str, Any], name: str) -> float:
    return float(last[name]) - float(before.get(name, 0))


def joined(ways: Iterable[CarriedWay | None]) -> CarriedLinks:
    return CarriedLinks(tuple(way for way in ways if way is not None))
