"""Reads what netperf prints: its tables, `-k` (WORD=VALUE), `-o` (CSV) and `-O` (a table of one
row), and the interim results of `-D`.

Depends on these facts about version 2.7.0 and older ones, of which those that are said to be
MIGRATED print the same tables:

- The first line names the test, unless `-P 0` suppresses it. The numbers of a table have a fixed
  order for each test; `-c` and `-C` add columns behind them.
- THROUGHPUT is in transactions per second in a test of requests, and in 10^6 bits per second
  otherwise, unless `-f` or THROUGHPUT_UNITS say something else.
- THROUGHPUT of UDP_STREAM is what arrived. Its table has a line of each end.
- Latencies are those of a transaction; in a stream they are those of a call of send().
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from netesto.flowspec import REQUEST_TESTS
from netesto.imports.directions import DirectionData, ToolOutput, failed
from netesto.imports.documents import line, number
from netesto.measured import Datagrams, GoodputInterval, TransferResult
from netesto.results import severity

TITLE = re.compile(
    r"^(?:MIGRATED )?(?P<test>(?:TCP|UDP|SCTP|OMNI) ?[A-Za-z/|_ ]*?) TEST (?:from|to) ",
    re.MULTILINE,
)
WORD = re.compile(r"^([A-Z][A-Z0-9_]+)=(.*?)\s*$", re.MULTILINE)
_INTERIM = re.compile(
    r"^Interim result: +(?P<rate>[\d.]+) (?P<unit>\S+) over (?P<seconds>[\d.]+) seconds"
    r" ending at (?P<end>[\d.]+)",
    re.MULTILINE,
)
_DEMO = re.compile(
    r"^NETPERF_(INTERIM_RESULT|UNITS|INTERVAL|ENDING)\[(\d{1,9})\]=(\S+)$", re.MULTILINE
)
_UNIT = re.compile(r"(?<![\w^])(10\^[0369]bits/s|[KMG]Bytes/s|bits/s|Trans/s)(?:ec)?\b")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
# Bits per second, by the units of -f.
_UNITS: Mapping[str, float] = {
    "bits/s": 1.0, "10^0bits/s": 1.0,
    **{f"10^{3 * power}bits/s": 1000.0**power for power in (1, 2, 3)},
    **{f"{prefix}Bytes/s": 8 * 1024.0**power for power, prefix in enumerate("KMG", start=1)},
}  # fmt: skip
_TRANSACTIONS = "Trans/s"
_DEFAULT = "10^6bits/s"
# Of the first line, for tests without requests.
_STREAMS = ("STREAM", "MAERTS", "SENDFILE", "OMNI SEND", "OMNI RECEIVE")
# The digits of a rate, such as 0.01 with -f g, may be too few to compute with.
_ROUNDED = 0.01
# One transaction at a time takes its latency.
_LATENCY_TOLERANCE = 0.01
_SHOWN_LINES = 3

# The names in the header of -o, as those of -k.
_NAMES: Mapping[str, str] = {
    "throughput": "THROUGHPUT", "throughput units": "THROUGHPUT_UNITS",
    "elapsed time (sec)": "ELAPSED_TIME", "elapsed time": "ELAPSED_TIME",
    "request size bytes": "REQUEST_SIZE", "response size bytes": "RESPONSE_SIZE",
    "request size": "REQUEST_SIZE", "response size": "RESPONSE_SIZE",
    "transaction rate tran/s": "TRANSACTION_RATE", "transaction rate": "TRANSACTION_RATE",
    "local send throughput": "LOCAL_SEND_THROUGHPUT",
    "local recv throughput": "LOCAL_RECV_THROUGHPUT",
    "remote send throughput": "REMOTE_SEND_THROUGHPUT",
    "remote recv throughput": "REMOTE_RECV_THROUGHPUT",
    "local bytes sent": "LOCAL_BYTES_SENT", "local bytes received": "LOCAL_BYTES_RECVD",
    "remote bytes sent": "REMOTE_BYTES_SENT", "remote bytes received": "REMOTE_BYTES_RECVD",
    "local transport retransmissions": "LOCAL_TRANSPORT_RETRANS",
    "remote transport retransmissions": "REMOTE_TRANSPORT_RETRANS",
    "local send size": "LOCAL_SEND_SIZE", "transport mss bytes": "TRANSPORT_MSS",
    "minimum latency microseconds": "MIN_LATENCY", "maximum latency microseconds": "MAX_LATENCY",
    "mean latency microseconds": "MEAN_LATENCY",
    "50th percentile latency microseconds": "P50_LATENCY",
    "90th percentile latency microseconds": "P90_LATENCY",
    "99th percentile latency microseconds": "P99_LATENCY",
    "direction": "DIRECTION", "protocol": "PROTOCOL",
}  # fmt: skip


def read(data: bytes) -> ToolOutput:
    """The result in the output of a client."""
    text = data.decode("utf-8", errors="replace")
    if not text.strip():
        return failed("empty", "empty")
    title = TITLE.search(text)
    words = dict(WORD.findall(text))
    for found in (_comma_separated(text), _names_above(text)):
        words = found | words
    test = _test(title["test"] if title is not None else "", words)
    is_told = "THROUGHPUT" in words
    if not is_told:
        words |= _table(text, test)
    unit = words.get("THROUGHPUT_UNITS", "")
    made = _Words(words, test).direction(unit)
    if made is None or made.result is None:
        said = [each.strip() for each in text.splitlines() if each.strip()]
        said = [each for each in said if not TITLE.match(each)]
        reason = "; ".join(said[:_SHOWN_LINES])
        if is_told and not unit and test == "":
            reason = "neither the test nor the unit of THROUGHPUT is known: -k THROUGHPUT_UNITS"
        elif not unit and test in REQUEST_TESTS and _decimal(words.get("THROUGHPUT", "")):
            reason = "the unit of THROUGHPUT is not known: -k THROUGHPUT_UNITS"
        return failed(f"no result: {line(reason)}")
    intervals = tuple(_intervals(text))
    if test != "UDP_STREAM" and intervals and made.test not in REQUEST_TESTS:
        # Those of datagrams are what was sent.
        timed = replace(made.result, intervals=intervals, has_exact_begin=True)
        made = replace(made, result=timed)
    return ToolOutput(directions=(made,), duration_s=_decimal(words.get("ELAPSED_TIME", "")))


def _test(title: str, words: Mapping[str, str]) -> str:
    """The test of flowspec.TESTS; "" if it is unknown."""
    said = " ".join(title.upper().replace("_", " ").split())
    protocol = "UDP" if said.startswith("UDP") or words.get("PROTOCOL") == "UDP" else "TCP"
    if "CONNECT/REQUEST" in said or " CRR" in said or "CONNECT/CLOSE" in said:
        return "TCP_CRR"
    # -k all and -O have words of requests for a stream, too: a size of -1, and a rate of 1.
    is_stream = any(name in said for name in _STREAMS) or words.get("REQUEST_SIZE") == "-1"
    if (
        "REQUEST/RESPONSE" in said
        or said.endswith((" RR", "SEND|RECV"))
        or words.get("THROUGHPUT_UNITS") == _TRANSACTIONS
        or (not is_stream and words.keys() & {"REQUEST_SIZE", "TRANSACTION_RATE"})
    ):
        return f"{protocol}_RR"
    if "MAERTS" in said or said == "OMNI RECEIVE" or words.get("DIRECTION") == "Recv":
        return "TCP_MAERTS"
    if said:
        return f"{protocol}_STREAM"
    if words.get("THROUGHPUT_UNITS") in _UNITS:
        return "TCP_STREAM"
    # Without a first line, and without a unit.
    rate, mean_us = (_decimal(words.get(key, "")) for key in ("THROUGHPUT", "MEAN_LATENCY"))
    if rate and mean_us and abs(rate * mean_us / 1e6 - 1) <= _LATENCY_TOLERANCE:
        return "TCP_RR"
    return ""


@dataclass(frozen=True)
class _Words:
    """The values of an output, by the names of -k."""

    words: Mapping[str, str]
    test: str

    def _number(self, key: str) -> float | None:
        """A value that is known: -1 stands for an unknown one."""
        return _decimal(self.words.get(key, ""))

    def _whole(self, key: str) -> int | None:
        found = self._number(key)
        return None if found is None else int(found)

    def direction(self, unit: str) -> DirectionData | None:
        """The flow; None without a result, or of an unknown test."""
        if not self.test:
            return None
        if self.test in REQUEST_TESTS:
            return self._requests(unit)
        unit_bps = _UNITS.get(unit or _DEFAULT)
        rate = self._number("THROUGHPUT")
        if unit_bps is None or (rate is None and "REMOTE_RECV_THROUGHPUT" not in self.words):
            return None
        is_reverse = self.test == "TCP_MAERTS"
        received = self._number("LOCAL_RECV_THROUGHPUT" if is_reverse else "REMOTE_RECV_THROUGHPUT")
        sent = self._number("REMOTE_SEND_THROUGHPUT" if is_reverse else "LOCAL_SEND_THROUGHPUT")
        is_known = received is not None and (received > 0 or not rate)
        rate_bps = number((received if is_known else rate) or 0.0)
        if rate_bps is None or number(rate_bps * unit_bps) is None:
            return None
        rate_bps *= unit_bps
        sent_bps = None if sent is None else sent * unit_bps
        datagrams = None
        if self.test == "UDP_STREAM":
            datagrams = self._datagrams(rate_bps, sent_bps)
        local, remote = (self._whole(f"{each}_TRANSPORT_RETRANS") for each in ("LOCAL", "REMOTE"))
        return DirectionData(
            test=self.test,
            is_from_server=is_reverse,
            result=TransferResult(
                rate_bps=rate_bps,
                elapsed_s=self._number("ELAPSED_TIME") or 0.0,
                sent_bps=None if datagrams is not None else sent_bps,
                local_retransmits=None if is_reverse else local,
                remote_retransmits=remote if is_reverse else None,
                mss_bytes=self._whole("TRANSPORT_MSS"),
                datagrams=datagrams,
                doubts=(*self._doubts(rate_bps, unit), *self._rounding(unit)),
            ),
        )

    def _doubts(self, rate_bps: float, unit: str) -> tuple[str, ...]:
        """A throughput that bytes and time contradict has another unit; one that has none, and that
        they do not confirm, may have any."""
        elapsed_s = self._number("ELAPSED_TIME")
        keys = ("LOCAL_BYTES_SENT", "REMOTE_BYTES_SENT", "LOCAL_BYTES_RECVD", "REMOTE_BYTES_RECVD")
        known = [value for key in keys if (value := self._number(key))]
        if not elapsed_s or not known or self.test == "UDP_STREAM":
            return () if unit else (_untold(_DEFAULT),)
        there_bps = min((8 * value / elapsed_s for value in known), key=lambda b: abs(b - rate_bps))
        if abs(there_bps - rate_bps) <= 0.1 * max(there_bps, rate_bps):
            return ()
        said = f"rate {rate_bps / 1e6:.4g} Mbit/s by THROUGHPUT, {there_bps / 1e6:.4g} Mbit/s by"
        doubt = f"{said} the transferred bytes: is its unit another one?"
        return (severity.invalidates(doubt),)

    def _rounding(self, unit: str) -> tuple[str, ...]:
        """With -f g, 9.57 Mbit/s are 0.01."""
        text = self.words.get("THROUGHPUT", "")
        half = 0.5 * 10.0 ** -len(text.partition(".")[2])
        rate = _decimal(text)
        if not rate or half / rate < _ROUNDED:
            return ()
        return (f"rate is rounded to {100 * half / rate:.0f} %: {text} {unit or _DEFAULT}",)

    def _datagrams(self, rate_bps: float, sent_bps: float | None) -> Datagrams | None:
        """Counts of the table, or bytes of datagrams of one size."""
        sent, received = self._whole("_SENT"), self._whole("_RECEIVED")
        size = self._number("LOCAL_SEND_SIZE")
        if sent is None and size:
            each = (self._number(key) for key in ("LOCAL_BYTES_SENT", "REMOTE_BYTES_RECVD"))
            sent, received = (None if one is None else round(one / size) for one in each)
        if sent is None and sent_bps is None:
            return None
        lost = None if sent is None or received is None else max(0, sent - received)
        if lost is None and sent is not None and sent_bps and rate_bps <= sent_bps:
            lost = round(sent * (1 - rate_bps / sent_bps))
        return Datagrams(
            sent=sent, lost=lost, sent_bps=sent_bps, received=received, counts_late=True
        )

    def _requests(self, unit: str) -> DirectionData | None:
        elapsed_s = self._number("ELAPSED_TIME")
        request, reply = self._whole("REQUEST_SIZE"), self._whole("RESPONSE_SIZE")
        doubts = []
        if request is None:
            doubts.append("the size of its requests is unknown, and rate with it")
        rate, throughput = self._number("TRANSACTION_RATE"), self._number("THROUGHPUT")
        if rate is None and unit in {"", _TRANSACTIONS}:
            rate, mean_us = throughput, self._number("MEAN_LATENCY")
            if not unit and rate and mean_us is None:
                doubts.append(_untold(_TRANSACTIONS))
            elif not unit and rate and rate * (mean_us or 0) / 1e6 < 1 - _LATENCY_TOLERANCE:
                # Less than one at a time.
                return None
        elif (
            rate is None
            and throughput is not None
            and request is not None
            and reply is not None
            and unit in _UNITS
        ):
            # With -f m it counts the bits of both directions.
            bits = 8 * (request + reply)
            rate = throughput * _UNITS[unit] / bits if bits else None
            doubts.append(f"transactions are computed from {self.words['THROUGHPUT']} {unit}")
        if rate is None or number(rate) is None:
            return None
        is_none = rate == 0
        least, most, mean, p50, p90, p99 = (
            # Those of no transaction are none.
            None if is_none else self._number(f"{name}_LATENCY")
            for name in ("MIN", "MAX", "MEAN", "P50", "P90", "P99")
        )
        return DirectionData(
            test=self.test,
            request_bytes=request,
            reply_bytes=reply,
            result=TransferResult(
                rate_bps=None if request is None else rate * request * 8,
                elapsed_s=elapsed_s or 0.0,
                transactions_per_s=rate,
                mss_bytes=self._whole("TRANSPORT_MSS"),
                doubts=tuple(doubts),
                min_latency_us=least,
                max_latency_us=most,
                mean_latency_us=mean,
                p50_latency_us=p50,
                p90_latency_us=p90,
                p99_latency_us=p99,
            ),
        )


def _untold(unit: str) -> str:
    return f"the unit of its THROUGHPUT is not told: read as {unit}, the default of netperf"


def _decimal(text: str) -> float | None:
    return number(float(text)) if re.fullmatch(r"\d{1,30}(?:\.\d{1,30})?", text) else None


# ---- tables --------------------------------------------------------------------------------------


def _table(text: str, test: str) -> dict[str, str]:
    """The numbers of a classic table, by the names of -k."""
    rows = list(_rows(text))
    title = TITLE.search(text)
    # With -v 2 another table follows, with other units.
    heading = text[title.end() if title is not None else 0 :].partition("\n\n")[0]
    unit = next(iter(_UNIT.findall(heading)), "")
    found = {"THROUGHPUT_UNITS": unit} if unit else {}
    if test in REQUEST_TESTS:
        row = next((row for row in rows if len(row) >= 6), None)
        if row is not None:
            # With -f m the last one is in bits.
            rate = "THROUGHPUT" if unit in _UNITS else "TRANSACTION_RATE"
            names = ("REQUEST_SIZE", "RESPONSE_SIZE", "ELAPSED_TIME", rate)
            return found | dict(zip(names, row[2:6], strict=True))
    elif test == "UDP_STREAM":
        place = next((at for at, row in enumerate(rows) if len(row) >= 6), None)
        if place is not None and len(rows) > place + 1 and len(rows[place + 1]) >= 4:
            sent, received = rows[place], rows[place + 1]
            return found | {
                "LOCAL_SEND_SIZE": sent[1], "ELAPSED_TIME": sent[2], "_SENT": sent[3],
                "LOCAL_SEND_THROUGHPUT": sent[5], "_RECEIVED": received[2],
                "THROUGHPUT": received[3], "REMOTE_RECV_THROUGHPUT": received[3],
            }  # fmt: skip
    elif test:
        row = next((row for row in rows if len(row) >= 5), None)
        if row is not None and "." in row[3]:
            return found | {"ELAPSED_TIME": row[3], "THROUGHPUT": row[4]}
    return {}


def _rows(text: str) -> Iterator[list[str]]:
    """The lines of numbers only."""
    for each in text.splitlines():
        cells = each.split()
        if cells and all(_NUMBER.fullmatch(cell) for cell in cells):
            yield cells


def _comma_separated(text: str) -> dict[str, str]:
    """The values of -o: a line of names, and one of values."""
    lines = [each.strip() for each in text.splitlines()]
    for names, values in itertools.pairwise(lines):
        header, cells = names.split(","), values.split(",")
        known = [_NAMES.get(name.strip().lower(), "") for name in header]
        if any(known) and len(cells) == len(header):
            return {name: cell.strip() for name, cell in zip(known, cells, strict=True) if name}
    return {}


def _names_above(text: str) -> dict[str, str]:
    """The values of -O, and of a test of omni: a line of values below names of several lines."""
    lines = text.splitlines()
    last = next((at for at in range(len(lines) - 1, -1, -1) if lines[at].strip()), None)
    title = TITLE.search(text)
    if last is None or title is None:
        return {}
    first = text[: title.start()].count("\n") + 1
    columns = [(match.start(), match[0]) for match in re.finditer(r"\S+", lines[last])]
    heads = [_cells(each, [start for start, _ in columns]) for each in lines[first:last]]
    if not heads:
        return {}
    names = [" ".join(" ".join(parts).split()).lower() for parts in zip(*heads, strict=True)]
    found = {
        known: value
        for name, (_, value) in zip(names, columns, strict=True)
        if (known := _NAMES.get(name, ""))
    }
    return found if "THROUGHPUT" in found else {}


def _cells(text: str, starts: Sequence[int]) -> list[str]:
    """A line of headings cut at the places where its columns begin."""
    ends = [*starts[1:], len(text)]
    return [text[start:end].strip() for start, end in zip(starts, ends, strict=True)]


# ---- over time -----------------------------------------------------------------------------------


def _intervals(text: str) -> Iterator[GoodputInterval]:
    """The interim results, from the begin of the first one on."""
    found = [(m["rate"], m["unit"], m["seconds"], m["end"]) for m in _INTERIM.finditer(text)]
    demo: dict[str, dict[str, str]] = {}
    for key, place, value in _DEMO.findall(text):
        demo.setdefault(place, {})[key] = value
    names = ("INTERIM_RESULT", "UNITS", "INTERVAL", "ENDING")
    found += [
        (each[names[0]], each[names[1]], each[names[2]], each[names[3]])
        for each in demo.values()
        if each.keys() >= set(names)
    ]
    zero_s: float | None = None
    for rate_text, unit, seconds_text, end_text in found:
        rate, seconds, end_s = map(_decimal, (rate_text, seconds_text, end_text))
        unit_bps = _UNITS.get(unit.removesuffix("ec"))
        if rate is None or not seconds or end_s is None or unit_bps is None:
            continue
        zero_s = end_s - seconds if zero_s is None else zero_s
        yield GoodputInterval(max(0.0, end_s - seconds - zero_s), end_s - zero_s, rate * unit_bps)
