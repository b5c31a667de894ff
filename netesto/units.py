"""Text to numbers and back: sizes, times, rates, as tc, iperf3 and the language write them."""

import math
import re
from collections.abc import Mapping

_NUMBER = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-z/]*)\s*\Z")

# The language counts K, M, G in thousands and Ki, Mi, Gi in 1024 (spec of the language, 1.4).
SIZE_FACTORS: Mapping[str, int] = {
    "": 1, "b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12,
    "kb": 10**3, "mb": 10**6, "gb": 10**9,
    "ki": 2**10, "mi": 2**20, "gi": 2**30, "kib": 2**10, "mib": 2**20, "gib": 2**30,
}  # fmt: skip

# Counts as the classic tool and its scripts shorten them, in upper case: 1M, 64K, 1.5G. In lower
# case an "m" may as well be minutes or thousandths.
COUNT_FACTORS: Mapping[str, float] = {"K": 1e3, "M": 1e6, "G": 1e9}

TIME_FACTORS: Mapping[str, float] = {
    "": 1.0, "s": 1.0, "sec": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "m": 60.0, "min": 60.0,
}  # fmt: skip

# tc(8): bit, kbit, mbit, gbit in bits per second; bps, kbps, mbps, gbps in BYTES per second.
# "10Mbit/s", "10M" and "10G" are read as bits per second, as iperf3 does with -b.
RATE_FACTORS: Mapping[str, int] = {
    "": 1, "bit": 1, "k": 10**3, "kbit": 10**3, "m": 10**6, "mbit": 10**6, "g": 10**9,
    "gbit": 10**9, "t": 10**12, "tbit": 10**12, "bit/s": 1, "kbit/s": 10**3, "mbit/s": 10**6,
    "gbit/s": 10**9, "bps": 8, "kbps": 8 * 10**3, "mbps": 8 * 10**6, "gbps": 8 * 10**9,
}  # fmt: skip


def _scaled(text: str, factors: Mapping[str, float], what: str, examples: str) -> float:
    match = _NUMBER.match(text)
    if match is None or match[2].lower() not in factors:
        raise ValueError(f"{text!r} is not a {what} (examples: {examples})")
    value = float(match[1]) * factors[match[2].lower()]
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is too large for a {what}")
    return value


def parse_size(text: str) -> int:
    """Bytes in `text`: "64K" is 64000, "64Ki" is 65536. ValueError if it is no size."""
    value = _scaled(text, SIZE_FACTORS, "size", "1000, 64K, 1M, 4Ki")
    if value < 0 or value != int(value):
        raise ValueError(f"{text!r} is not a whole number of bytes")
    return int(value)


def parse_time(text: str) -> float:
    """Seconds in `text`: a bare number is seconds, "200ms" is 0.2, "2m" is 120. ValueError else."""
    return _scaled(text, TIME_FACTORS, "time", "20, 1.5, 200ms, 2m")


def parse_rate(text: str) -> float:
    """Bits per second in `text`, with the units of tc(8): "10mbit" is 1e7. ValueError else."""
    value = _scaled(text, RATE_FACTORS, "rate", "100mbit, 1gbit, 64kbit")
    if value < 0:
        raise ValueError(f"{text!r} is negative")
    return value


def format_rate(rate_bps: float) -> str:
    """A rate for people: 94123456.0 is "94.1 Mbit/s"."""
    for factor, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if abs(rate_bps) >= factor:
            return f"{rate_bps / factor:.3g} {unit}"
    return f"{rate_bps:.3g} bit/s"


def format_tc_rate(rate_bps: float) -> str:
    """A rate as tc(8) reads it back without loss: whole bits per second."""
    return f"{round(rate_bps)}bit"


def format_time(seconds: float) -> str:
    """A duration for people: 0.2 is "200 ms", 75 is "1 min 15 s"."""
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def format_size(size_bytes: int) -> str:
    """A size as the language reads it back: 64000 is "64K", 65536 is "65536"."""
    for factor, unit in ((10**9, "G"), (10**6, "M"), (10**3, "K")):
        if size_bytes and size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return str(size_bytes)
