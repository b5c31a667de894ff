"""What stress tests of a protected link measured: `netesto summary --as stress`. Pure.

The interval of what stays lost is that of Clopper and Pearson. Repetitions are pooled: their frames
are counted together, their buffers are the extremes, their recovery the median of medians.
"""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from netesto.errors import OutputError
from netesto.files import jsontext
from netesto.results import csvfile

_CONFIDENCE = 0.95

COLUMNS = (
    "case", "frames", "actual_loss", "effective_loss", "low", "high", "expected", "speed_bps",
    "tx_min", "tx_max", "rx_min", "rx_max", "recovery_p50_us", "recovery_max_us",
)  # fmt: skip

_COUNTS = ("given", "delivered", "wire_frames", "wire_lost", "size", "overhead", "copies")
_BUFFERS = ("tx_min", "tx_max", "rx_min", "rx_max")

Value: TypeAlias = str | int | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """One stress test. `loss` is that of each frame by itself, None by the Gilbert model. Sizes are
    in bytes; recoveries None if nothing was recovered."""

    protect: str
    copies: int
    loss: float | None
    size: int
    overhead: int
    given: int
    delivered: int
    wire_frames: int
    wire_lost: int
    seconds: float
    tx_min: int
    tx_max: int
    rx_min: int
    rx_max: int
    recovery_p50_us: float | None = None
    recovery_max_us: float | None = None


def read(text: str) -> Test:
    """The result in the output of netesto-link. OutputError if there is none."""
    try:
        reported = jsontext.parse(text.splitlines()[-1])
        return Test(
            protect=str(reported["protect"]),
            loss=None if "loss" not in reported else float(reported["loss"]),
            seconds=float(reported["seconds"]),
            recovery_p50_us=_number(reported, "recovery_p50_us"),
            recovery_max_us=_number(reported, "recovery_max_us"),
            **{name: int(reported[name]) for name in (*_COUNTS, *_BUFFERS)},
        )
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise OutputError(f"no result of a stress test: {error}") from None


def _number(reported: Mapping[str, Any], name: str) -> float | None:
    return None if reported.get(name) is None else float(reported[name])


def row(case: str, tests: Sequence[Test]) -> dict[str, Value]:
    """The values of a case by COLUMNS, None where there is none."""
    given, delivered, put, lost = (
        sum(getattr(test, name) for test in tests)
        for name in ("given", "delivered", "wire_frames", "wire_lost")
    )
    first = tests[0]
    low, high = clopper_pearson(given - delivered, given)
    bits = sum(test.delivered * (test.size + test.overhead) * 8 for test in tests)
    seconds = sum(test.seconds for test in tests)
    p50s = [test.recovery_p50_us for test in tests if test.recovery_p50_us is not None]
    longest = [test.recovery_max_us for test in tests if test.recovery_max_us is not None]
    has_copies, holds = first.protect != "off", first.protect == "ordered"
    values: tuple[Value, ...] = (
        case,
        given,
        lost / put if put else None,
        (given - delivered) / given,
        low,
        high,
        None if first.loss is None else first.loss ** (first.copies + 1),
        bits / seconds if seconds else None,
        min(test.tx_min for test in tests) if has_copies else None,
        max(test.tx_max for test in tests) if has_copies else None,
        min(test.rx_min for test in tests) if holds else None,
        max(test.rx_max for test in tests) if holds else None,
        statistics.median(p50s) if p50s else None,
        max(longest, default=None),
    )
    return dict(zip(COLUMNS, values, strict=True))


def rows(cases: Mapping[str, Sequence[Test]]) -> list[dict[str, Value]]:
    """A row for each case."""
    return [row(case, tests) for case, tests in cases.items()]


_WRITE: Mapping[str, str] = {
    "actual_loss": ".6e", "effective_loss": ".6e", "low": ".6e", "high": ".6e",
    "expected": ".6e", "speed_bps": ".0f", "recovery_p50_us": ".3f", "recovery_max_us": ".3f",
}  # fmt: skip


def texts(found: Mapping[str, Value]) -> dict[str, str]:
    """A row as texts, "" where there is no value."""
    return {
        name: "" if value is None else f"{value:{_WRITE.get(name, '')}}"
        for name, value in found.items()
    }


def to_csv(cases: Mapping[str, Sequence[Test]]) -> str:
    """The rows as CSV."""
    return csvfile.text([COLUMNS], (tuple(texts(found).values()) for found in rows(cases)))


def to_json(cases: Mapping[str, Sequence[Test]]) -> str:
    """The rows as JSON, null where there is no value."""
    return json.dumps(rows(cases), indent=2, ensure_ascii=False) + "\n"


def to_text(cases: Mapping[str, Sequence[Test]]) -> str:
    """A block for each case, as LinkGuardian's artifact prints it."""
    return "\n".join(map(_block, rows(cases)))


def _block(found: Mapping[str, Any]) -> str:
    lines = [("Actual Loss Rate", _rate(found["actual_loss"])),
             ("Effective Loss Rate", _rate(found["effective_loss"])),
             ("Effective Link Speed", _speed(found["speed_bps"]))]  # fmt: skip
    for name, which in (("TX", "tx"), ("RX", "rx")):
        if found[f"{which}_max"] is not None:
            ends = (f"{found[f'{which}_{end}'] / 1000:.2f}" for end in ("min", "max"))
            low, high = (f"{float(end)}" for end in ends)
            lines.append((f"{name} Buffer Occupancy (min - max)", f"{low} - {high} KB"))
    left = max(len(name) for name, _ in lines)
    # As tabulate makes it, which leaves room for two more.
    right = max(len(found["case"]) + 2, *(len(text) for _, text in lines))
    head = [f"{'':{left}}  {found['case']}", f"{'-' * left}  {'-' * right}"]
    return "".join(f"{line}\n" for line in [*head, *(f"{a:{left}}  {b}" for a, b in lines)])


def _rate(share: float | None) -> str:
    return "" if share is None else f"{share:.3e}"


def _speed(bps: float | None) -> str:
    if bps is None:
        return ""
    return f"{bps / 1e9:.2f} Gbps" if bps >= 1e9 else f"{bps / 1e6:.2f} Mbps"


def clopper_pearson(successes: int, count: int) -> tuple[float, float]:
    """The exact 95 % interval of a binomial probability (Clopper and Pearson, 1934)."""
    half = (1 - _CONFIDENCE) / 2
    low = 0.0 if not successes else _quantile(half, successes, count - successes + 1)
    high = 1.0 if successes == count else _quantile(1 - half, successes + 1, count - successes)
    return low, high


def _quantile(probability: float, a: float, b: float) -> float:
    """Of the beta distribution, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if _beta(middle, a, b) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function: DLMF 8.17.22, by Lentz's method."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(1 - x, b, a)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    log_front += a * math.log(x) + b * math.log1p(-x)
    tiny, c, d = 1e-300, 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    result = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for step in (even, odd):
            d = 1 + step * d
            d = 1 / (d if abs(d) > tiny else tiny)
            c = 1 + step / c
            c = c if abs(c) > tiny else tiny
            result *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return math.exp(log_front) * result / a
