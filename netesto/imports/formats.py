"""The recognised file formats, and how to read a run from each."""

import gzip
import io
import re
import statistics
import zlib
from collections.abc import Mapping

from netesto import jsontext
from netesto.imports import iperf3
from netesto.imports.iperf3 import ClientOutput, Sent
from netesto.imports.tree import BYTES_MAX, File
from netesto.results.imported import Form

_HEAD_BYTES = 65_536
_GZIP = b"\x1f\x8b"

# With --timestamps each line has a prefix.
_IPERF3_TEXT = re.compile(
    r"^(?:iperf3: |(?:.{1,80} )?(?:Connecting to host \S+, port |\[ ID\] Interval))", re.MULTILINE
)
_IPERF3_EVENT = re.compile(r'^\{"event":\s*"(?:start|error)"', re.MULTILINE)
_NETPERF = re.compile(r"^MIGRATED (?P<test>[A-Z_ ]+?) TEST\b|^THROUGHPUT=", re.MULTILINE)
_NETPERF_RATE = re.compile(r"^THROUGHPUT=(?P<rate>[\d.]+)\s*$", re.MULTILINE)
_NETPERF_UNIT = re.compile(r"^THROUGHPUT_UNITS=(?P<unit>\S+)\s*$", re.MULTILINE)
_NETPERF_AGAIN = re.compile(r"^LOCAL_TRANSPORT_RETRANS=(?P<count>\d{1,15})\s*$", re.MULTILINE)
_NETPERF_TIME = re.compile(r"^ELAPSED_TIME=(?P<seconds>[\d.]+)\s*$", re.MULTILINE)
# The one line of numbers of a stream test: sizes, seconds, 10^6 bits per second.
_NETPERF_STREAM = re.compile(
    r"^\s*\d+\s+\d+\s+\d+\s+(?P<seconds>\d+\.\d+)\s+(?P<rate>\d+\.\d+)\b.*$", re.MULTILINE
)
_MBIT: Mapping[str, float] = {
    "10^3bits/s": 1e3, "10^6bits/s": 1e6, "10^9bits/s": 1e9, "bits/s": 1.0,
}  # fmt: skip


def recognise(file: File) -> Form | None:
    """The format of a file, by its content; None if unknown."""
    try:
        with file.path.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
    except OSError:
        return None
    if head.startswith(_GZIP):
        return "flent" if file.path.name.endswith(".flent.gz") else None
    text = head.decode("utf-8", errors="replace")
    if _NETPERF.search(text):
        return "netperf"
    is_document = '"start"' in text and ('"test_start"' in text or '"intervals"' in text)
    if is_document or _IPERF3_EVENT.search(text) or _IPERF3_TEXT.search(text):
        return "iperf3"
    return None


def read(data: bytes, form: Form) -> ClientOutput:
    """The result in the output of a run."""
    match form:
        case "flent":
            return _flent(data)
        case "netperf":
            return _netperf(data)
        case _:
            return iperf3.read(data, received_is_enough=form == "iperf3")


def _netperf(data: bytes) -> ClientOutput:
    text = data.decode("utf-8", errors="replace")
    if not text.strip():
        return ClientOutput(reason="empty", kind="empty")
    rate, seconds = None, None
    if (match := _NETPERF_RATE.search(text)) is not None:
        unit = _NETPERF_UNIT.search(text)
        factor = _MBIT.get("10^6bits/s" if unit is None else unit["unit"])
        rate = None if factor is None else float(match["rate"]) * factor
        elapsed = _NETPERF_TIME.search(text)
        seconds = None if elapsed is None else float(elapsed["seconds"])
    elif (match := _NETPERF_STREAM.search(text)) is not None:
        rate, seconds = float(match["rate"]) * 1e6, float(match["seconds"])
    bps = iperf3.number(rate)
    if bps is None:
        first = next(line.strip() for line in text.splitlines() if line.strip())
        return ClientOutput(reason=f"no result: {first[:160]}", kind="no-result")
    again = _NETPERF_AGAIN.search(text)
    return ClientOutput(
        sent=Sent(bps, None if again is None else int(again["count"])),
        received_bps=bps,
        duration_s=iperf3.number(seconds),
    )


def _flent(data: bytes) -> ClientOutput:
    """The sum of the TCP downloads and uploads of a flent test, over the whole of it."""
    if not data:
        return ClientOutput(reason="empty", kind="empty")
    try:
        text = gzip.GzipFile(fileobj=io.BytesIO(data)).read(BYTES_MAX)
        value = jsontext.parse(text)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        return ClientOutput(reason=f"no result: {error}", kind="no-result")
    results = iperf3.at(value, "results")
    if not isinstance(results, Mapping):
        return ClientOutput(reason="no result: no results", kind="no-result")
    total = _flent_mbit_per_s(value, results)
    if total is None:
        return ClientOutput(reason="no result: no TCP flow", kind="no-result")
    latency_ms = _mean(results.get("Ping (ms) ICMP"))
    return ClientOutput(
        sent=Sent(total * 1e6),
        received_bps=total * 1e6,
        duration_s=iperf3.number(value, "metadata", "LENGTH"),
        latency_us=None if latency_ms is None else latency_ms * 1000,
    )


def _flent_mbit_per_s(value: object, results: Mapping[str, object]) -> float | None:
    means = []
    for name, series in results.items():
        unit = iperf3.at(value, "metadata", "SERIES_META", name, "UNITS")
        is_sum = any(word in name for word in ("sum", "avg", "::"))
        if unit == "Mbits/s" and not is_sum and (mean := _mean(series)) is not None:
            means.append(mean)
    return sum(means) if means else None


def _mean(series: object) -> float | None:
    values = [iperf3.number(each) for each in series] if isinstance(series, list) else []
    known = [each for each in values if each is not None]
    return statistics.fmean(known) if known else None
