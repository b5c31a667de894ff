"""netesto-flow, the traffic generator of this project: its commands, and the meaning of its JSON.

The program is compiled when the package is installed (setup.py); its source is beside this module.
The comment at the top of source/flow.h describes its two ends. It differs from the other tools
where they do not meet the needs of experiments:

- It is ready before its flow begins, and begins at an absolute instant.
- Goodput is what the receiver gets in a window of exactly the duration from its first byte on.
- An unknown congestion control is an error at either end.
- Datagrams have absolute instants, also in simulated time. Those that the sender was too late for
  are skipped and counted, never sent in a burst.
- What a connection still holds when its test is over is dropped, and is in no later flow's way.
- All latencies are kept, and quantiles are those of all of them.
"""

import itertools
import re
import statistics
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from netesto import emulator
from netesto.errors import OutputError
from netesto.files import jsontext
from netesto.flowspec import (
    COMPLETION_TESTS,
    LINK_TESTS,
    MANY_CONNECTIONS,
    REQUEST_TESTS,
    TESTS,
    TIMED_TESTS,
    TRACE_TESTS,
    UDP_TESTS,
    VALUE_BYTES,
    FlowSpec,
)
from netesto.measured import (
    LINK_LOSSES,
    LINK_STATES,
    DatagramInterval,
    Datagrams,
    GoodputInterval,
    TransferResult,
)
from netesto.model import GroupRequest, Ports
from netesto.traces import played
from netesto.traffic import ports as traffic_ports
from netesto.traffic.base import Printed, Tool, honouring, numbered, version_in
from netesto.units import decimal, format_processors

PROGRAM = Path(__file__).parent / "netesto-flow"

# To connect and to fetch results over a slow path with full buffers, and to drain datagrams.
END_SLACK_S = 15.0
# A busy machine may take so much longer than a stress test is thought to take.
STRESS_SLACK = 30.0
# How long the program waits for the last transfers: COMPLETION_TIMEOUT in source/completions.c.
COMPLETION_S = 30.0
# How long it waits for what receivers of a trace counted, behind what queues hold: ANSWER_TIMEOUT
# in source/trace.c, and a second. The controller waits for 30 s.
_ANSWER_S = 29.0

_NAME = "netesto-flow"
_VERSION = re.compile(rf"^{_NAME} (\S.*)$", re.MULTILINE)


def times_name(request: GroupRequest, instance: int) -> str:
    """The file with the times of one instance, as docs/data-formats.md describes it."""
    kind, end = ("completions", ".csv") if request.test in COMPLETION_TESTS else ("times", "")
    return f"{kind}.{request.group}.{instance}{end}"


class Native(Tool):
    """One process for each instance at the client, one for all at the server."""

    name: ClassVar = "native"
    tests: ClassVar = TESTS | LINK_TESTS
    honours: ClassVar = honouring(
        "congestion_control",
        "reverse_congestion_control",
        "duration_s",
        "request_bytes",
        "reply_bytes",
        "local_buffer_bytes",
        "remote_buffer_bytes",
        "interval_s",
        "omit_s",
        "zerocopy",
        "bitrate_bps",
        "requests_per_s",
        "get_percent",
        "size_bytes",
        "count",
        "gap_s",
        "arrivals",
        "mss_bytes",
        "dscp",
        "ecn",
        "client_cpus",
        "server_cpus",
        "window_packets",
        "timeout_s",
        parallel=lambda flow: _of_connections(flow, "parallel"),
        pacing_bps=lambda flow: _of_connections(flow, "pacing"),
        skip_receive=lambda flow: _of_connections(flow, "skiprx"),
        length_bytes=numbered,
    )
    lasting_server: ClassVar = True
    connects_early: ClassVar = True
    paces_datagrams: ClassVar = True
    server_port: ClassVar = traffic_ports.FLOW_SERVER_PORT

    def version_command(self) -> list[str]:
        return [str(PROGRAM), "version"]

    def parse_version(self, output: str) -> str:
        return version_in(output, _VERSION, f"{_NAME} version")

    def server_command(self, port: int) -> list[str]:
        return [str(PROGRAM), "server", str(port)]

    def client_command(
        self,
        request: GroupRequest,
        ports: Ports,
        instance: int,
        *,
        folder: Path | None = None,
    ) -> list[str]:
        if request.test in LINK_TESTS:
            return _stress_command(request, folder)
        command = [str(PROGRAM), "client", str(request.server_address)]
        command += [str(ports.control[instance - 1]), f"test={request.test}"]
        seed = request.seed * 10_007 + instance
        values: dict[str, object] = {
            "port": ports.data[instance - 1],
            "client_port": self.client_port(request, ports, instance),
            "local": request.client_address,
            "duration": decimal(request.duration_s),
            "omit": decimal(request.omit_s) if request.omit_s else None,
            "interval": decimal(request.interval_s),
            "parallel": request.parallel if request.parallel > 1 else None,
            "length": request.length_bytes,
            "bitrate": None if request.bitrate_bps is None else round(request.bitrate_bps),
            "local_buffer": request.local_buffer_bytes or None,
            "remote_buffer": request.remote_buffer_bytes or None,
            "mss": request.mss_bytes,
            "dscp": request.dscp,
            "zerocopy": request.zerocopy if request.zerocopy != "0" else None,
            "pacing": None if request.pacing_bps is None else round(request.pacing_bps),
            "skip_receive": 1 if request.skip_receive else None,
            "client_cpu": format_processors(request.client_cpus) or None,
            "server_cpu": format_processors(request.server_cpus) or None,
            "ecn": None if request.ecn is None else int(request.ecn),
        }
        if request.test in REQUEST_TESTS:
            values["rate"] = request.requests_per_s
        if request.test == "KV_RR":
            values |= {"size": request.size_bytes or VALUE_BYTES}
            values |= {"get": round(request.get_percent * 10_000), "seed": seed}
        elif request.test in REQUEST_TESTS:
            values |= {"request": request.request_bytes, "reply": request.reply_bytes}
        if request.test in COMPLETION_TESTS:
            values |= {"size": request.size_bytes, "count": request.count or None}
            values["gap"] = decimal(request.gap_s) if request.gap_s else None
            values["arrivals"] = request.arrivals if request.arrivals != "constant" else None
            values["seed"] = seed
        if request.test == "GBN_MESSAGES":
            values |= {"window": request.window_packets, "rto": decimal(request.timeout_s)}
        if folder is not None and request.test in TIMED_TESTS:
            values["times"] = folder / times_name(request, instance)
        if request.test in TRACE_TESTS:
            # A reader of its own output has no file.
            of = folder or Path()
            values |= {"trace": of / f"trace.{request.group}.txt", "lines": of / "trace.csv"}
            values |= {"seed": seed, "group": request.group, "exp": request.exp}
            is_memcached = request.trace and played.read(request.trace).store == "memcached"
            values["memcached"] = 1 if is_memcached else None
        if request.test not in UDP_TESTS:
            values["congestion_control"] = request.congestion_control
            values["reverse_congestion_control"] = request.reverse_congestion_control
        return command + [f"{key}={value}" for key, value in values.items() if value is not None]

    def client_port(self, request: GroupRequest, ports: Ports, instance: int) -> int | None:
        # These make a connection for each transfer. Parallel ones would use the ports of later
        # instances.
        if request.test in MANY_CONNECTIONS | TRACE_TESTS | LINK_TESTS or request.parallel > 1:
            return None
        return traffic_ports.client_port(request, ports, instance)

    def deadline_s(self, request: GroupRequest) -> float:
        if request.test in LINK_TESTS:
            return STRESS_SLACK * request.whole_s + END_SLACK_S
        if request.test in TRACE_TESTS:
            return request.duration_s + _ANSWER_S
        waiting_s = COMPLETION_S if request.test in COMPLETION_TESTS else 0.0
        return request.omit_s + request.duration_s + waiting_s + END_SLACK_S

    def progress(self, line: str, request: GroupRequest) -> float | None:
        if not line.startswith('{"event":"interval"'):
            return None
        try:
            interval = Printed(jsontext.parse(line), _NAME)
            length_s = interval.number("length_ns") / 1e9
            if (transactions := interval.number_or_none("transactions")) is not None:
                bits = transactions * request.request_bytes * 8
            else:
                bits = interval.number("bytes") * 8
        except (ValueError, OutputError):
            return None
        return bits / length_s if length_s > 0 else None

    def failure(self, output: str) -> str:
        names = (f"{_NAME}: ", "netesto-link: ")
        said = [line for line in output.splitlines() if line.startswith(names)]
        return said[-1].partition(": ")[2] if said else ""

    def parse(
        self,
        output: str,
        request: GroupRequest,
        *,
        started_s: float,
        system_ahead_s: float | None = 0.0,
    ) -> TransferResult:
        result = _result(output)
        if request.test in LINK_TESTS:
            return TransferResult(
                rate_bps=result.number("speed_bps"),
                elapsed_s=result.number("elapsed_s"),
                has_exact_begin=True,
            )
        if request.test in REQUEST_TESTS:
            return _requests(result, request, started_s=started_s)
        if request.test == "UDP_STREAM":
            return _datagrams(result, request, started_s=started_s)
        if request.test in TRACE_TESTS:
            return _trace(result, request)
        if request.test in COMPLETION_TESTS:
            return _completions(result, request, are_timed=system_ahead_s is not None)
        return _stream(result, request, started_s=started_s)


def _stress_command(request: GroupRequest, folder: Path | None) -> list[str]:
    """Without the settings of the link, which the agent knows."""
    words: dict[str, object] = {
        "frames": request.count,
        "size": request.size_bytes,
        "seed": request.seed,
        "interval": round(request.gap_s * 1e12) if request.gap_s else None,
    }
    if folder is not None:
        words["states"] = folder / LINK_STATES.name(request.server)
        words["losses"] = folder / LINK_LOSSES.name(request.server)
    given = [f"{key}={value}" for key, value in words.items() if value is not None]
    return [str(emulator.PROGRAM), "stress", *given]


def _of_connections(flow: FlowSpec, option: str) -> str:
    return option if flow.test == "UDP_STREAM" else ""


def _result(output: str) -> Printed:
    for line in reversed(output.splitlines()):
        if line.startswith('{"event":"result"'):
            try:
                members = jsontext.parse(line)
            except ValueError:
                raise OutputError(f"{_NAME} printed an incomplete result") from None
            return Printed(members, _NAME)
    raise OutputError(f"{_NAME} printed no result")


def _common(result: Printed) -> TransferResult:
    """The common values of every test. The rate is the caller's."""
    return TransferResult(
        rate_bps=0.0,
        elapsed_s=0.0,
        local_cpu_percent=result.number_or_none("client_cpu_percent"),
        remote_cpu_percent=result.number_or_none("server_cpu_percent"),
        local_retransmits=result.whole("client_retransmits"),
        remote_retransmits=result.whole("server_retransmits"),
        local_data_segments=result.whole("client_data_segments"),
        remote_data_segments=result.whole("server_data_segments"),
        local_congestion_control=result.text("client_congestion_control"),
        remote_congestion_control=result.text("server_congestion_control"),
        mss_bytes=result.whole("client_mss_bytes"),
        has_exact_begin=True,
        counts_omitted=True,
    )


def _intervals(
    amounts: list[float], request: GroupRequest, *, bits: float, start_s: float
) -> tuple[GoodputInterval, ...]:
    """Goodput of each interval in which there was some time to measure: the last one may be short.
    Those that begin before `omit` has passed are excluded."""
    return tuple(
        GoodputInterval(start_s + low, start_s + high, amounts[place] * bits / (high - low))
        for place, low, high in _measured(len(amounts), request)
    )


def _measured(count: int, request: GroupRequest) -> list[tuple[int, float, float]]:
    """The intervals that count: place, begin and end of each in the flow."""
    end_s = request.omit_s + request.duration_s
    edges = [min(number * request.interval_s, end_s) for number in range(count + 1)]
    return [
        (place, low, high)
        for place, (low, high) in enumerate(itertools.pairwise(edges))
        if high > low >= request.omit_s
    ]


def _stream(result: Printed, request: GroupRequest, *, started_s: float) -> TransferResult:
    """The rate is that of the direction under test, in TCP_BIDI from the client to the server."""
    reverse_bytes = (
        result.number_or_none("client_received_bytes") if request.test == "TCP_BIDI" else None
    )
    receiver = "client" if request.is_reverse else "server"
    received_bytes = result.number(f"{receiver}_received_bytes")
    if receiver == "client":
        start_s = started_s + result.number("client_received_after_ns") / 1e9
    else:
        start_s = started_s + _window_s(result, request)
    return replace(
        _common(result),
        rate_bps=received_bytes * 8 / request.duration_s,
        reverse_rate_bps=None if reverse_bytes is None else reverse_bytes * 8 / request.duration_s,
        elapsed_s=request.duration_s,
        intervals=_intervals(
            result.numbers(f"{receiver}_received"), request, bits=8.0, start_s=start_s
        ),
    )


def _trace(result: Printed, request: GroupRequest) -> TransferResult:
    """All flows of a host, or all its requests: what arrived in time, from the first start to the
    last end; latencies."""
    span_s = result.number("span_ns") / 1e9
    failed = int(result.number("failed"))
    if request.test == "TRACE_KV":
        return replace(_timed(result), rate_bps=None, elapsed_s=span_s, unfinished=failed)
    rate_bps = result.number("in_time_bytes") * 8 / span_s if span_s else None
    return replace(_common(result), rate_bps=rate_bps, elapsed_s=span_s, unfinished=failed)


def _window_s(result: Printed, request: GroupRequest) -> float:
    """The begin of the server's window after the start of the flow. Clocks of two hosts differ, but
    the first byte arrives half a round trip after it was sent; if it was lost, the time tells at
    which the client hears, half a round trip after the window, that it is over."""
    rtt_s = result.number("client_min_rtt_us") / 1e6
    heard_s = (result.number_or_none("client_done_after_ns") or 0) / 1e9
    at_latest_s = heard_s - request.omit_s - request.duration_s - rtt_s / 2
    return at_latest_s if at_latest_s > 1.5 * rtt_s else rtt_s / 2


def _datagrams(result: Printed, request: GroupRequest, *, started_s: float) -> TransferResult:
    return replace(
        _common(result),
        rate_bps=result.number("server_received_bytes") * 8 / request.duration_s,
        elapsed_s=request.duration_s,
        intervals=_intervals(
            result.numbers("server_received"),
            request,
            bits=8.0,
            start_s=started_s,
        ),
        datagrams=_arrivals(result, request, started_s=started_s),
    )


def _arrivals(result: Printed, request: GroupRequest, *, started_s: float) -> Datagrams:
    rows = {
        key: result.numbers(key)
        for key in (
            "client_sent", "server_arrived", "server_lost", "server_reordered", "server_duplicates",
            "server_jitter_ns", "server_transit_min_ns", "server_transit_mean_ns",
            "server_transit_max_ns",
        )
    }  # fmt: skip
    each = []
    for place, low, high in _measured(min(map(len, rows.values())), request):
        found = {key: row[place] for key, row in rows.items()}
        any_arrived = found["server_arrived"] > 0
        transits = [found[f"server_transit_{which}_ns"] / 1e9 for which in ("min", "mean", "max")]
        each.append(
            DatagramInterval(
                start_s=started_s + low,
                end_s=started_s + high,
                sent=int(found["client_sent"]),
                lost=int(found["server_lost"]),
                jitter_ms=found["server_jitter_ns"] / 1e6 if any_arrived else None,
                reordered=int(found["server_reordered"]),
                duplicates=int(found["server_duplicates"]),
                transits_s=(transits[0], transits[1], transits[2]) if any_arrived else None,
            )
        )
    sent = sum(one.sent for one in each)
    covered_s = sum(one.end_s - one.start_s for one in each)
    jitters = [one.jitter_ms for one in each if one.jitter_ms is not None]
    return Datagrams(
        sent=sent,
        lost=sum(one.lost for one in each),
        sent_bps=sent * result.number("length_bytes") * 8 / covered_s if covered_s else 0.0,
        jitter_ms=statistics.fmean(jitters) if jitters else None,
        reordered=sum(one.reordered or 0 for one in each),
        duplicates=sum(one.duplicates or 0 for one in each),
        skipped=result.whole("skipped"),
        dropped=_without_room(result),
        marked=result.whole("marked"),
        intervals=tuple(each),
    )


def _without_room(result: Printed) -> int | None:
    """The datagrams for which the server's socket had no room. The kernel's count of the socket
    includes those with a wrong checksum, which only counters of the whole host tell apart; None if
    flows of other sockets on the host make that impossible."""
    dropped = result.whole("server_dropped")
    every = result.whole("server_host_errors")
    damaged = result.whole("server_host_checksum_errors")
    if dropped is None or every is None or damaged is None:
        return dropped
    least, most = max(0, dropped - damaged), min(dropped, every - damaged)
    return least if least >= most else None


def _requests(result: Printed, request: GroupRequest, *, started_s: float) -> TransferResult:
    rate = result.number("count") / request.duration_s
    bits = request.request_bytes * 8.0
    if request.test == "KV_RR":
        # The mean request: sets are longer than gets.
        bits = result.number("sent_bytes") * 8 / max(1.0, result.number("exchanges"))
    return replace(
        _timed(result),
        rate_bps=rate * bits,
        elapsed_s=request.duration_s,
        transactions_per_s=rate,
        unanswered=result.whole("lost"),
        intervals=_intervals(
            result.numbers("client_transactions"),
            request,
            bits=bits,
            start_s=started_s,
        ),
    )


def _completions(result: Printed, request: GroupRequest, *, are_timed: bool) -> TransferResult:
    """The times of the completed transfers, and the number of others. The kernel takes their ends
    from the system's time: if somebody set it, they are not timed."""
    begun, failed = int(result.number("begun")), int(result.number("failed"))
    if failed == begun > 0:
        raise OutputError(f"none of {begun} transfers was completed")
    if begun < request.count:
        raise OutputError(
            f"only {begun} of {request.count} transfers began within {request.duration_s:g} s:"
            " a longer dur= gives them time"
        )
    # A Poisson process may have no arrival.
    elapsed_s = result.number("elapsed_ns") / 1e9 if begun else request.duration_s
    if elapsed_s <= 0:
        raise OutputError(f"{_NAME} printed an impossible elapsed_ns")
    bits = (begun - failed) * (request.size_bytes or 0) * 8
    times = _timed(result) if are_timed else _common(result)
    dropped = result.whole("server_dropped")
    lost = (
        f"{dropped} packets reached the server, whose socket had no room for them, and were sent"
        " again: remoteBuffer= makes it larger"
    )
    return replace(
        times,
        rate_bps=bits / elapsed_s,
        elapsed_s=elapsed_s,
        unfinished=failed,
        doubts=(lost,) if dropped else (),
    )


def _timed(result: Printed) -> TransferResult:
    """The statistics of times."""
    return replace(
        _common(result),
        min_latency_us=_us(result, "min_ns"),
        max_latency_us=_us(result, "max_ns"),
        mean_latency_us=_us(result, "mean_ns"),
        p50_latency_us=_us(result, "p50_ns"),
        p90_latency_us=_us(result, "p90_ns"),
        p99_latency_us=_us(result, "p99_ns"),
        p999_latency_us=_us(result, "p999_ns"),
        p9999_latency_us=_us(result, "p9999_ns"),
        p99999_latency_us=_us(result, "p99999_ns"),
        latencies=result.whole("count"),
    )


def _us(result: Printed, key: str) -> float | None:
    value_ns = result.number_or_none(key)
    return None if value_ns is None else value_ns / 1e3
