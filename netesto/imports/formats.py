"""The recognised file formats, and how to read a run from each."""

import gzip
import io
import math
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
# The words of -k: WORD=VALUE.
_NETPERF_WORD = re.compile(r"^([A-Z_]+)=(\S+)\s*$", re.MULTILINE)
# The one line of numbers of a stream test (sizes, seconds, throughput), and that of units above it.
_NETPERF_STREAM = re.compile(
    r"^\s*\d+\s+\d+\s+\d+\s+(?P<seconds>\d+\.\d+)\s+(?P<rate>\d+\.\d+)\b", re.MULTILINE
)
_NETPERF_UNIT = re.compile(r"^bytes .*\bsecs\.\s+(\S+/s)(?:ec)?\b", re.MULTILINE)
# Bits per second, by the units of -f.
_NETPERF_UNITS: Mapping[str, float] = {
    "bits/s": 1.0,
    **{f"10^{3 * power}bits/s": 1000.0**power for power in (1, 2, 3)},
    **{f"{prefix}Bytes/s": 8 * 1024.0**power for power, prefix in enumerate("KMG", start=1)},
}

# Of series that flent computes from others, the last word of their names: for files without
# COMPUTED_LATE.
_FLENT_COMPUTED = frozenset({"sum", "avg", "total", "totals"})


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
    words = dict(_NETPERF_WORD.findall(text))
    unit = words.get("THROUGHPUT_UNITS")
    if "THROUGHPUT" not in words and (table := _NETPERF_STREAM.search(text)) is not None:
        words |= {"THROUGHPUT": table["rate"], "ELAPSED_TIME": table["seconds"]}
        unit = (told := _NETPERF_UNIT.search(text)) and told[1]
    rate = _decimal(words.get("THROUGHPUT", ""))
    unit_bps = _NETPERF_UNITS.get(unit or "10^6bits/s")
    bps = None if rate is None or unit_bps is None else iperf3.number(rate * unit_bps)
    if bps is None:
        first = next(line.strip() for line in text.splitlines() if line.strip())
        return ClientOutput(reason=f"no result: {first[:160]}", kind="no-result")
    named = _NETPERF.search(text)
    test = (named and named["test"]) or ""
    is_reverse = "MAERTS" in test
    again = words.get("REMOTE_TRANSPORT_RETRANS" if is_reverse else "LOCAL_TRANSPORT_RETRANS", "")
    return ClientOutput(
        sent=Sent(bps, int(again) if again.isdecimal() and len(again) < 16 else None),
        received_bps=bps,
        # What iperf3 says of a test.
        document={
            "start": {
                "test_start": {
                    "protocol": "UDP" if test.startswith("UDP") else "TCP",
                    "reverse": int(is_reverse),
                }
            }
        },
        duration_s=_decimal(words.get("ELAPSED_TIME", "")),
    )


def _decimal(text: str) -> float | None:
    return iperf3.number(float(text)) if re.fullmatch(r"\d+(?:\.\d+)?", text) else None


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
    known = iperf3.at(value, "metadata", "SERIES_META")
    means = [
        _mean(each) for name, each in results.items() if _is_flow(name, iperf3.at(known, name))
    ]
    if not means:
        return ClientOutput(reason="no result: no TCP flow", kind="no-result")
    if lacking := means.count(None):
        reason = f"{lacking} of {len(means)} flows have no values"
        return ClientOutput(reason=reason, kind="no-result")
    total = math.fsum(each for each in means if each is not None)
    latency_ms = _mean(results.get("Ping (ms) ICMP"))
    return ClientOutput(
        sent=Sent(total * 1e6),
        received_bps=total * 1e6,
        duration_s=iperf3.number(value, "metadata", "LENGTH"),
        latency_us=None if latency_ms is None else latency_ms * 1000,
    )


def _is_flow(name: str, known: object) -> bool:
    """Whether flent measured a series, and did not compute it from others. What sockets said of a
    flow (`TCP upload::tcp_delivery_rate`) is not `known`."""
    is_computed = isinstance(known, Mapping) and "COMPUTED_LATE" in known
    is_computed = is_computed or name.rpartition(" ")[2] in _FLENT_COMPUTED
    return iperf3.at(known, "UNITS") == "Mbits/s" and not is_computed


def _mean(series: object) -> float | None:
    values = [iperf3.number(each) for each in series] if isinstance(series, list) else []
    known = [each for each in values if each is not None]
    return statistics.fmean(known) if known else None
