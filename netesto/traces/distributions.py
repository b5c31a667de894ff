"""Distributions of workloads: numbers drawn from a generator."""

import bisect
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TypeAlias

from netesto.errors import Place, ScriptError
from netesto.files import texts


@dataclass(frozen=True, slots=True)
class Constant:
    value: float

    @property
    def mean(self) -> float:
        return self.value

    def drawn_by(self, generator: Random) -> Callable[[], float]:
        del generator
        return lambda: self.value


@dataclass(frozen=True, slots=True)
class Uniform:
    min: float
    max: float

    @property
    def mean(self) -> float:
        return (self.min + self.max) / 2

    def drawn_by(self, generator: Random) -> Callable[[], float]:
        low, width, draw = self.min, self.max - self.min, generator.random
        return lambda: low + width * draw()


@dataclass(frozen=True, slots=True)
class Exponential:
    mean: float

    def drawn_by(self, generator: Random) -> Callable[[], float]:
        mean, draw, log = self.mean, generator.random, math.log
        # 1 - random() is never 0.
        return lambda: -mean * log(1.0 - draw())


@dataclass(frozen=True, slots=True)
class Empirical:
    """A cumulative distribution of bytes: `shares` of flows have at most so many `sizes`. Between
    two points it is a straight line, and the first share is of exactly the first size."""

    sizes: tuple[float, ...]
    shares: tuple[float, ...]

    @property
    def mean(self) -> float:
        total = self.sizes[0] * self.shares[0]
        points = zip(self.sizes, self.shares, strict=True)
        for (size, share), (larger, more) in pairwise(points):
            total += (size + larger) / 2 * (more - share)
        return total

    def drawn_by(self, generator: Random) -> Callable[[], float]:
        sizes, shares, draw = self.sizes, self.shares, generator.random

        def drawn() -> float:
            share = draw()
            at = bisect.bisect_right(shares, share)
            if at == 0:
                return sizes[0]
            part = (share - shares[at - 1]) / (shares[at] - shares[at - 1])
            return sizes[at - 1] + part * (sizes[at] - sizes[at - 1])

        return drawn


Distribution: TypeAlias = Constant | Uniform | Exponential | Empirical


def empirical(path: Path) -> Empirical:
    """The distribution in a file: a line `BYTES SHARE` for each point, shares up to 1 or up to 100,
    both ascending. Text behind # is a comment. ScriptError, UsageError."""
    sizes: list[float] = []
    shares: list[float] = []
    lines = texts.read(path, most_mib=16).split("\n")
    last = 0
    for number, line in enumerate(lines, start=1):
        fields = line.partition("#")[0].split()
        if not fields:
            continue
        last = number
        try:
            size, share = map(float, fields)
        except ValueError:
            raise _wrong(path, number, line, "two numbers are required: BYTES SHARE") from None
        if not (0 <= size < math.inf and 0 <= share <= 100):
            raise _wrong(
                path, number, line, "bytes are from 0 on, a share is from 0 to 1, or to 100"
            )
        if sizes and (size < sizes[-1] or share < shares[-1]):
            raise _wrong(path, number, line, "less than in the line above: both ascend")
        sizes.append(size)
        shares.append(share)
    if not sizes or shares[-1] not in {1.0, 100.0} or sizes[-1] < 1:
        raise _wrong(
            path, last or 1, lines[max(last - 1, 0)], "the last share is 1, or 100, of some bytes"
        )
    return Empirical(tuple(sizes), tuple(share / shares[-1] for share in shares))


def _wrong(path: Path, number: int, line: str, message: str) -> ScriptError:
    shown = line.rstrip("\r")
    column = len(shown) - len(shown.lstrip()) + 1
    place = Place(str(path), number, column, max(1, len(shown.strip())), shown)
    return ScriptError(message, place=place, remedy="Example: 1460 0.5")
