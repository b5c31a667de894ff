"""netperf 2.7: its commands, and the meaning of its keys.

This driver depends on the following facts about version 2.7.0, all of which were tested:

- Times are whole seconds; `-l 0.3` is read as 0, and 0 runs for ever.
- `-D -0.2` reads the clock at every send or receive and prints (and flushes) an interim result
  after 0.2 s. With a positive interval netperf estimates how many bytes that will be, and prints
  nothing for seconds on a slow path.
- `-c -C` reads /proc/stat on Linux and needs no calibration: it does not delay the start.
- -1 stands for an unknown value, and an empty text for an unknown congestion control.
- An unknown congestion control is not an error: the host's default is used. The effective one is
  reported.
- TCP_CRR ends 4 s late: netserver waits that long for another connection, and includes what its
  host does meanwhile in the CPU of the test (134 % was seen).
- The CPU of a server that took longer than its client is related to the client's time: a flow whose
  first SYN was lost had 300 %.
- It measures by the client's system time: if that is set in mid-flow by an hour, a flow of 2 s
  has "lasted" 3602 s, or -3598. It ends in time all the same.
- If all addresses are those of the loopback interface it cannot resolve "127.0.0.1"
  (AI_ADDRCONFIG).
"""

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from netesto.errors import OutputError
from netesto.flowspec import REQUEST_TESTS, STREAM_TESTS, UDP_TESTS
from netesto.measured import Datagrams, GoodputInterval, TransferResult
from netesto.model import GroupRequest, Ports
from netesto.traffic import ports as traffic_ports
from netesto.traffic.base import LARGEST, Tool, honouring, version_in
from netesto.units import format_processors

# At the end of a stream netperf waits for data in flight, and in TCP_CRR netserver waits for
# connections, 4 s each; the rest is to connect over a slow path.
END_SLACK_S = 15.0

# One packet on a path with an MTU of 1500, over IPv4 and IPv6, as iperf3 chooses. (netperf's
# default is the size of the socket buffer: every datagram would be fragmented.)
DATAGRAM_BYTES = 1448

# Kilobits with two decimals: interim and final results have a resolution of 10 bit/s.
UNIT, UNIT_NAME, UNIT_BPS = "k", "10^3bits/s", 1e3

# netperf prints what failed, then where.
FAILURE_LINES = 2

# Lengths are printed in whole milliseconds: of shorter ones the rate is wrong by 10 % and more. The
# last interval, which the end of the test cuts off, can be that short.
SHORTEST_INTERVAL_S = 0.0095

SELECTORS = (
    "ELAPSED_TIME", "THROUGHPUT", "THROUGHPUT_UNITS", "REMOTE_RECV_THROUGHPUT",
    "LOCAL_SEND_THROUGHPUT", "LOCAL_BYTES_SENT", "LOCAL_BYTES_RECVD", "REMOTE_BYTES_SENT",
    "REMOTE_BYTES_RECVD", "LOCAL_CPU_UTIL", "LOCAL_CPU_METHOD", "REMOTE_CPU_UTIL",
    "REMOTE_CPU_METHOD", "LOCAL_TRANSPORT_RETRANS", "REMOTE_TRANSPORT_RETRANS", "TRANSPORT_MSS",
    "LOCAL_CONG_CONTROL", "REMOTE_CONG_CONTROL", "SOURCE_PORT", "DEST_PORT", "LSS_SIZE_END",
    "LSR_SIZE_END", "RSS_SIZE_END", "RSR_SIZE_END",
    # Latencies of a transaction; in a stream, of one send(), as in the tables of the classic tool.
    "MIN_LATENCY", "MAX_LATENCY", "MEAN_LATENCY", "STDDEV_LATENCY", "P50_LATENCY", "P90_LATENCY",
    "P99_LATENCY",
)  # fmt: skip

REQUEST_SELECTORS = ("TRANSACTION_RATE", "REQUEST_SIZE", "RESPONSE_SIZE")

_VERSION = re.compile(r"^Netperf version (\S+)", re.MULTILINE)
_PAIR = re.compile(r"^([A-Z][A-Z0-9_]*)=(.*)$")
_INTERIM = re.compile(r"^NETPERF_(INTERIM_RESULT|UNITS|INTERVAL|ENDING)\[(\d{1,18})\]=(.*)$")
_HEADER = "MIGRATED "


class Netperf(Tool):
    """netperf with netserver; interim results appear as they happen, with UTC times."""

    name = "netperf"
    tests = (STREAM_TESTS | REQUEST_TESTS) - {"TCP_BIDI", "KV_RR"}
    honours = honouring(
        "congestion_control",
        "reverse_congestion_control",
        "duration_s",
        "request_bytes",
        "reply_bytes",
        "local_buffer_bytes",
        "remote_buffer_bytes",
        "interval_s",
        "length_bytes",
        "dscp",
        client_cpus=lambda flow: _one_processor(flow.client_cpus),
        server_cpus=lambda flow: _one_processor(flow.server_cpus),
    )
    lasting_server = True
    server_port = traffic_ports.NETSERVER_PORT

    def version_command(self) -> list[str]:
        return ["netperf", "-V"]

    def parse_version(self, output: str) -> str:
        return version_in(output, _VERSION, "netperf -V")

    def server_command(self, port: int) -> list[str]:
        return ["netserver", "-D", "-p", str(port)]

    def client_command(
        self,
        request: GroupRequest,
        ports: Ports,
        instance: int,
        *,
        folder: Path | None = None,  # noqa: ARG002 - it prints everything
    ) -> list[str]:
        family = str(request.server_address.version)
        command = ["netperf", "-H", f"{request.server_address},{family}"]
        command += ["-L", f"{request.client_address},{family}", f"-{family}"]
        command += ["-p", str(ports.control[instance - 1]), "-t", request.test]
        command += ["-l", str(_whole_seconds(request)), "-D", f"-{request.interval_s:g}"]
        command += ["-f", UNIT, "-c", "-C"]
        if request.dscp is not None:
            traffic_class = f"{request.dscp << 2:#x}"
            command += ["-Y", f"{traffic_class},{traffic_class}"]
        cpus = (request.client_cpus, request.server_cpus)
        if any(cpus):
            command += ["-T", ",".join(map(format_processors, cpus))]
        return [*command, "--", *self._test_options(request, ports, instance)]

    def _test_options(self, request: GroupRequest, ports: Ports, instance: int) -> list[str]:
        is_request_test = request.test in REQUEST_TESTS
        selectors = SELECTORS + (REQUEST_SELECTORS if is_request_test else ())
        client = self.client_port(request, ports, instance)
        options = ["-k", ",".join(selectors)]
        options += ["-P", f"{'' if client is None else client},{ports.data[instance - 1]}"]
        if request.test not in UDP_TESTS:
            options += ["-K", ",".join(request.congestion_controls)]
        else:
            # Without -R 1 netperf sends UDP only to the local network.
            options += ["-R", "1"]
        if size := request.local_buffer_bytes:
            options += ["-s", f"{size},{size}"]
        if size := request.remote_buffer_bytes:
            options += ["-S", f"{size},{size}"]
        if is_request_test:
            options += ["-r", f"{request.request_bytes},{request.reply_bytes}"]
        elif request.length_bytes is not None:
            options += ["-m", str(request.length_bytes)]
        elif request.test == "UDP_STREAM":
            options += ["-m", str(DATAGRAM_BYTES)]
        return options

    def client_port(self, request: GroupRequest, ports: Ports, instance: int) -> int | None:
        # TCP_CRR makes a connection for each transaction, from a different port each.
        if request.test == "TCP_CRR":
            return None
        return traffic_ports.client_port(request, ports, instance)

    def deadline_s(self, request: GroupRequest) -> float:
        return _whole_seconds(request) + END_SLACK_S

    def progress(self, line: str, request: GroupRequest) -> float | None:
        match = _INTERIM.match(line)
        if match is None or match[1] != "INTERIM_RESULT" or request.test == "UDP_STREAM":
            return None
        try:
            rate_bps = float(match[3]) * UNIT_BPS * _request_share(request)
        except ValueError:
            return None
        return rate_bps if abs(rate_bps) < LARGEST else None

    def failure(self, output: str) -> str:
        lines = (line.strip() for line in output.splitlines())
        said = [line for line in lines if line and not _is_result(line)]
        return "; ".join(said[-FAILURE_LINES:])

    def parse(
        self,
        output: str,
        request: GroupRequest,
        *,
        started_s: float,  # noqa: ARG002 - netperf reports UTC
        system_ahead_s: float | None = 0.0,
    ) -> TransferResult:
        pairs = {match[1]: match[2] for line in output.splitlines() if (match := _PAIR.match(line))}
        values = _Values(pairs)
        if system_ahead_s is None:
            return _untimed(values, request)
        values.expect("THROUGHPUT_UNITS", UNIT_NAME)
        is_crr = request.test == "TCP_CRR"
        intervals = _intervals(output, request, system_ahead_s)
        common = replace(
            _untimed(values, request),
            rate_bps=_rate_bps(values, request),
            elapsed_s=values.number("ELAPSED_TIME"),
            sent_bps=_sent_bps(values, request),
            intervals=intervals,
            has_exact_begin=bool(intervals),
            local_cpu_percent=values.share("LOCAL_CPU_UTIL"),
            remote_cpu_percent=None if is_crr else values.share("REMOTE_CPU_UTIL"),
        )
        if request.test in REQUEST_TESTS:
            return _with_transactions(common, values)
        if request.test == "UDP_STREAM":
            common = replace(common, datagrams=_datagrams(values, request))
        return _with_latencies(common, values) if values.has("MIN_LATENCY") else common


def _one_processor(cpus: tuple[int, ...]) -> str:
    return "cpu sets" if len(cpus) > 1 else ""


def _untimed(values: "_Values", request: GroupRequest) -> TransferResult:
    """What does not depend on the time that netperf measures. It ends by an interval timer, which
    is not the system's time: it has lasted for its duration."""
    local_retransmits = values.number_or_none("LOCAL_TRANSPORT_RETRANS")
    remote_retransmits = values.number_or_none("REMOTE_TRANSPORT_RETRANS")
    mss = values.number_or_none("TRANSPORT_MSS")
    return TransferResult(
        rate_bps=None,
        elapsed_s=_whole_seconds(request),
        local_retransmits=None if local_retransmits is None else int(local_retransmits),
        remote_retransmits=None if remote_retransmits is None else int(remote_retransmits),
        local_congestion_control=values.text("LOCAL_CONG_CONTROL"),
        remote_congestion_control=values.text("REMOTE_CONG_CONTROL"),
        mss_bytes=None if mss is None else int(mss),
    )


class _Values:
    """The keys of an output; OutputError names one that is missing."""

    def __init__(self, pairs: Mapping[str, str]) -> None:
        self._pairs = pairs

    def has(self, key: str) -> bool:
        return key in self._pairs

    def text(self, key: str) -> str:
        if key not in self._pairs:
            raise OutputError(f"netperf printed no {key}")
        return self._pairs[key].strip()

    def number(self, key: str) -> float:
        """A required value: -1, which means unknown, is an OutputError, too."""
        value = self.number_or_none(key)
        if value is None:
            raise OutputError(f"netperf does not know {key}")
        return value

    def number_or_none(self, key: str) -> float | None:
        text = self.text(key)
        try:
            value = float(text)
        except ValueError:
            raise OutputError(f"netperf printed {key}={text!r}, not a number") from None
        if not abs(value) < LARGEST:
            raise OutputError(f"netperf printed {key}={text!r}")
        return None if value < 0 else value

    def share(self, key: str) -> float | None:
        """In percent. A value above 100 is invalid."""
        value = self.number_or_none(key)
        return None if value is None or value > 100 else value

    def expect(self, key: str, wanted: str) -> None:
        if (text := self.text(key)) != wanted:
            raise OutputError(f"netperf printed {key}={text!r} instead of {wanted!r}")


def _is_result(line: str) -> bool:
    return line.startswith(_HEADER) or bool(_PAIR.match(line) or _INTERIM.match(line))


def _whole_seconds(request: GroupRequest) -> int:
    return max(1, math.ceil(request.duration_s))


def _request_share(request: GroupRequest) -> float:
    """The share of requests in the bits that netperf counts: in request/reply tests it counts both
    directions."""
    if request.test not in REQUEST_TESTS:
        return 1.0
    return request.request_bytes / (request.request_bytes + request.reply_bytes)


def _rate_bps(values: _Values, request: GroupRequest) -> float:
    if request.test in REQUEST_TESTS:
        return values.number("TRANSACTION_RATE") * request.request_bytes * 8
    # The received data divided by the time of the reception.
    is_reverse = request.is_reverse
    return values.number("THROUGHPUT" if is_reverse else "REMOTE_RECV_THROUGHPUT") * UNIT_BPS


def _sent_bps(values: _Values, request: GroupRequest) -> float | None:
    if request.test not in {"TCP_STREAM", "TCP_SENDFILE"}:
        return None
    sent = values.number_or_none("LOCAL_SEND_THROUGHPUT")
    return None if sent is None else sent * UNIT_BPS


def _datagrams(values: _Values, request: GroupRequest) -> Datagrams:
    """It counts bytes, of datagrams of one size."""
    size = request.length_bytes or DATAGRAM_BYTES
    sent_bytes = values.number("LOCAL_BYTES_SENT")
    return Datagrams(
        sent=round(sent_bytes / size),
        lost=round((sent_bytes - values.number("REMOTE_BYTES_RECVD")) / size),
        sent_bps=values.number("LOCAL_SEND_THROUGHPUT") * UNIT_BPS,
        counts_late=True,
    )


def _with_transactions(result: TransferResult, values: _Values) -> TransferResult:
    rate = values.number("TRANSACTION_RATE")
    counted = replace(result, transactions_per_s=rate)
    if not rate:
        # No transaction was completed: the zeros that netperf prints are not latencies.
        return counted
    timed = _with_latencies(counted, values)
    # Nor are those of a histogram with too few transactions.
    return replace(
        timed,
        p50_latency_us=timed.p50_latency_us or None,
        p90_latency_us=timed.p90_latency_us or None,
        p99_latency_us=timed.p99_latency_us or None,
    )


def _with_latencies(result: TransferResult, values: _Values) -> TransferResult:
    return replace(
        result,
        min_latency_us=values.number_or_none("MIN_LATENCY"),
        max_latency_us=values.number_or_none("MAX_LATENCY"),
        mean_latency_us=values.number_or_none("MEAN_LATENCY"),
        p50_latency_us=values.number_or_none("P50_LATENCY"),
        p90_latency_us=values.number_or_none("P90_LATENCY"),
        p99_latency_us=values.number_or_none("P99_LATENCY"),
    )


def _intervals(
    output: str, request: GroupRequest, system_ahead_s: float
) -> tuple[GoodputInterval, ...]:
    """The interim results.

    In TCP_STREAM they count what the sender's socket accepted, and are therefore ahead of goodput
    by the send buffer, which shows in the first ones. In UDP_STREAM they count what was sent, which
    is not goodput, and are left out.
    """
    if request.test == "UDP_STREAM":
        return ()
    readings: dict[int, dict[str, str]] = {}
    for line in output.splitlines():
        if match := _INTERIM.match(line):
            readings.setdefault(int(match[2]), {})[match[1]] = match[3]
    share = _request_share(request)
    intervals = (
        _interval(_Values(reading), share=share, ahead_s=system_ahead_s)
        for _, reading in sorted(readings.items())
    )
    return tuple(
        interval
        for interval in intervals
        if interval.end_s - interval.start_s >= SHORTEST_INTERVAL_S
    )


def _interval(reading: _Values, *, share: float, ahead_s: float) -> GoodputInterval:
    reading.expect("UNITS", UNIT_NAME)
    end_s = reading.number("ENDING") - ahead_s
    return GoodputInterval(
        start_s=end_s - reading.number("INTERVAL"),
        end_s=end_s,
        rate_bps=reading.number("INTERIM_RESULT") * UNIT_BPS * share,
    )
