"""Reads data files of flent (https://flent.org): each measured flow, and the pings.

A file has series over time (`results`, `x_values`), and for each of them `SERIES_META`: its unit,
MEAN_VALUE over the whole test, the runner that measured it, and, if flent computed it from others,
COMPUTED_LATE. Series begin and end without values: flows start later than pings.
"""

import gzip
import io
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime

from netesto.files import jsontext
from netesto.imports.directions import DirectionData, ToolOutput, failed
from netesto.imports.documents import at, items, number, words
from netesto.measured import Datagrams, GoodputInterval, PingSample, TransferResult

# Unpacked; and its values, each of which may take 230 bytes of memory (an object with one number),
# however few it has in the file. A test of 5 min with a sample every 50 ms has half a million.
BYTES_MAX, VALUES_MAX = 64 * 2**20, 2_000_000

_RATES = frozenset({"Mbits/s", "Mbit/s"})
# Of series that flent computes from others, the last word of their names, and the runner.
_COMPUTED = frozenset(
    {"sum", "avg", "total", "totals", "fairness", "mean", "median", "min", "max", "std", "index"}
)
_COMPUTING = re.compile(r"(?:Computing|Average|SmoothAverage|Sum|DiffMin|Fairness|Null)Runner")
_FLOW = re.compile(r"(?P<protocol>TCP|UDP)\w* (?P<way>upload|download)\b", re.IGNORECASE)
_PING = "Ping (ms) "
# A flow whose series is known for a smaller part of the test has no mean.
_KNOWN_SHARE = 0.9
_TOLERANCE = 0.1


def read(data: bytes) -> ToolOutput:
    """The flows of a test."""
    if not data:
        return failed("empty", "empty")
    try:
        text = gzip.GzipFile(fileobj=io.BytesIO(data)).read(BYTES_MAX + 1)
        if len(text) > BYTES_MAX:
            return failed(f"no result: more than {BYTES_MAX >> 20} MiB when it is unpacked")
        if sum(map(text.count, (b",", b"[", b"{"))) > VALUES_MAX:
            return failed(f"no result: more than {VALUES_MAX} values")
        value = jsontext.parse(text)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        return failed(f"no result: {error}")
    results = at(value, "results")
    if not isinstance(results, Mapping):
        return failed("no result: no results")
    found = tuple(_directions(value, results))
    flows = [each for each in found if each.test != "UDP_RR"]
    if not flows:
        return failed("no result: no TCP flow")
    if not any(each.result is not None for each in flows):
        return failed(f"{len(flows)} of {len(flows)} flows have no values")
    began = ""
    for key in ("T0", "TIME"):
        began = began or words(value, "metadata", key)
    return ToolOutput(
        directions=found,
        duration_s=number(value, "metadata", "LENGTH"),
        begun_s=_instant(began),
    )


def _instant(text: str) -> float | None:
    with suppress(ValueError, OverflowError):
        found = datetime.fromisoformat(text.removesuffix("Z"))
        return max(0.0, found.replace(tzinfo=found.tzinfo or UTC).timestamp())
    return None


def _directions(value: object, results: Mapping[str, object]) -> Iterator[DirectionData]:
    known = at(value, "metadata", "SERIES_META")
    pings = tuple(_pings(_points(value, results.get(f"{_PING}ICMP"))))
    for name, series in results.items():
        meta = at(known, name)
        if _is_computed(name, meta):
            continue
        points = list(_points(value, series))
        if at(meta, "UNITS") in _RATES:
            yield _flow(name, meta, points, value, pings)
        elif name.startswith(_PING) and not name.endswith("ICMP") and "::" not in name:
            yield _request(name, meta, points, value)


def _is_computed(name: str, meta: object) -> bool:
    """Whether flent did not measure a series. What sockets said of a flow
    (`TCP upload::tcp_delivery_rate`) has no metadata."""
    runner = words(meta, "RUNNER")
    return (
        not isinstance(meta, Mapping)
        or "COMPUTED_LATE" in meta
        or _COMPUTING.fullmatch(runner) is not None
        or name.rpartition(" ")[2].lower() in _COMPUTED
    )


def _points(value: object, series: object) -> Iterator[tuple[float, float]]:
    """The known values of a series with their times."""
    times = items(value, "x_values")
    for place, each in enumerate(series if isinstance(series, list) else []):
        found = number(each)
        time_s = number(times[place]) if place < len(times) else float(place) * _step_s(value)
        if found is not None and time_s is not None:
            yield time_s, found


def _step_s(value: object) -> float:
    step_s = number(value, "metadata", "STEP_SIZE")
    times = [number(each) for each in items(value, "x_values")[:2]]
    if len(times) == 2 and None not in times and (times[1] or 0) > (times[0] or 0):
        return (times[1] or 0) - (times[0] or 0)
    return step_s or 1.0


def _flow(
    name: str,
    meta: object,
    points: list[tuple[float, float]],
    value: object,
    pings: tuple[PingSample, ...],
) -> DirectionData:
    match = _FLOW.match(name)
    is_down = match is not None and match["way"].lower() == "download"
    is_udp = name.upper().startswith("UDP")
    test = "UDP_STREAM" if is_udp else "TCP_MAERTS" if is_down else "TCP_STREAM"
    length_s = number(value, "metadata", "LENGTH") or 0.0
    begins_s = points[0][0] if points else 0.0
    mean, doubts = _mean(meta, points, value, length_s)
    if mean is None and not points:
        return DirectionData(test=test, name=name, is_from_server=is_down, reason="no values")
    rate_bps = None if mean is None else number(mean * 1e6)
    step_s = _step_s(value)
    intervals = tuple(GoodputInterval(at_s, at_s + step_s, rate * 1e6) for at_s, rate in points)
    datagrams = None
    if is_udp:
        # flent plots what was sent.
        datagrams = Datagrams(sent=None, lost=None, sent_bps=rate_bps)
        doubts = [*doubts, "rate is unknown: the file has only what was sent"]
    return DirectionData(
        test=test,
        name=name,
        is_from_server=is_down,
        begins_s=begins_s,
        pings=pings,
        result=TransferResult(
            rate_bps=None if is_udp else rate_bps,
            elapsed_s=length_s,
            intervals=() if is_udp else intervals,
            datagrams=datagrams,
            doubts=tuple(doubts),
        ),
    )


def _mean(
    meta: object, points: list[tuple[float, float]], value: object, length_s: float
) -> tuple[float | None, list[str]]:
    """The mean of a series over the test: as the file has it, else of its values; and doubts."""
    covered_s = len(points) * _step_s(value)
    own = sum(each for _, each in points) / len(points) if points else None
    share = covered_s / length_s if length_s else 1.0
    mean = number(meta, "MEAN_VALUE")
    if mean is None:
        if own is None or share >= _KNOWN_SHARE:
            return own, []
        covers = f"its values cover {covered_s:.3g} of {length_s:.3g} s"
        return None, [f"rate is unknown: {covers}, and the file has no mean"]
    if own is None or abs(own - mean) <= _TOLERANCE * max(own, mean):
        return mean, []
    covers = f"which cover {covered_s:.3g} of {length_s:.3g} s"
    of_file = f"rate {mean:.4g} Mbit/s is the mean of the file"
    return mean, [f"{of_file}; that of its values, {covers}, is {own:.4g} Mbit/s"]


def _pings(points: Iterator[tuple[float, float]]) -> Iterator[PingSample]:
    for time_s, rtt_ms in points:
        yield PingSample(time_s, rtt_ms)


def _request(
    name: str, meta: object, points: list[tuple[float, float]], value: object
) -> DirectionData:
    """A flow of small requests, one after the other: its latency over time is drawn as pings."""
    mean = number(meta, "MEAN_VALUE")
    mean_ms = sum(each for _, each in points) / len(points) if points and mean is None else mean
    if mean_ms is None:
        return DirectionData(test="UDP_RR", name=name, reason="no values")
    return DirectionData(
        test="UDP_RR",
        name=name,
        begins_s=points[0][0] if points else 0.0,
        pings=tuple(_pings(iter(points))),
        result=TransferResult(
            rate_bps=None,
            elapsed_s=number(value, "metadata", "LENGTH") or 0.0,
            mean_latency_us=mean_ms * 1000,
        ),
    )
