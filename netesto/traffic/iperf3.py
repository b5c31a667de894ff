"""iperf3: its commands, and the meaning of its JSON.

This driver depends on the following facts about versions 3.12 and 3.18, all of which were tested:

- Control and data connections have the same server port; `--cport` is the client's port of the data
  connection, and the n-th parallel stream uses the n-th port from there.
- A server with `-1` serves the first client that connects, even one that only probes the port.
- Times (`-t`, `-O`) are whole seconds, intervals at least 0.1 s.
- The only absolute time in the JSON is the start, in whole seconds.
- `-C` sets the congestion control of both ends, never of one. The JSON reports what each end used.
  An unknown one is an error.
- A sender's intervals count what its socket accepted. `--get-server-output` adds the intervals of a
  server that runs with `-J`, which count what arrived: goodput.
- CPU is the share of one core that the iperf3 process used, not the load of the host; it is not
  used.
- 3.12 with `-J` exits with status 0 when it is refused; the JSON has an "error".
- `-b` is the rate of each parallel stream; the option `bitrate` is that of the flow they make up.
- `--fq-rate` is the rate of each parallel stream; in UDP, too, the kernel needs qdisc fq for it.
- From 3.17 on `--json-stream` prints one event a line, and flushes each.
"""

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

from netesto.errors import OutputError
from netesto.files import jsontext
from netesto.flowspec import FlowSpec
from netesto.measured import DatagramInterval, Datagrams, GoodputInterval, TransferResult
from netesto.model import GroupRequest, Ports
from netesto.traffic import ports as traffic_ports
from netesto.traffic.base import (
    LARGEST,
    Printed,
    Tool,
    honouring,
    numbered,
    pinned,
    version_in,
)

JSON_STREAM_SINCE = (3, 17)
# The first with `end.sum_received` of datagrams.
UDP_SINCE = (3, 10)
# Before it, the lost datagrams of a test include those that `omit` leaves out.
OMIT_SINCE = (3, 14)

# MAX_MSS in its source.
LARGEST_MSS = 9216

# iperf3 refuses shorter and longer ones.
INTERVAL_MIN_S, INTERVAL_MAX_S = 0.1, 60.0

# A server is started before it knows its client's request; this is the language's default.
SERVER_INTERVAL_S = 0.2

# The time to connect and to exchange results over a slow path with full buffers.
END_SLACK_S = 15.0

_VERSION = re.compile(r"^iperf (\d+(?:\.\d+)*\S*)", re.MULTILINE)


def _one_buffer(flow: FlowSpec) -> str:
    is_one = flow.local_buffer_bytes == flow.remote_buffer_bytes
    return "" if is_one else "different buffers"


@dataclass(frozen=True, slots=True)
class Iperf3(Tool):
    """iperf3, with one server process for each instance. Without a version its options are those
    that every version has."""

    version: str = ""
    name: ClassVar = "iperf3"
    tests: ClassVar = frozenset({"TCP_STREAM", "TCP_MAERTS", "UDP_STREAM"})
    honours: ClassVar = honouring(
        "congestion_control",
        "duration_s",
        "interval_s",
        "parallel",
        "omit_s",
        "bitrate_bps",
        "dscp",
        "client_cpus",
        "server_cpus",
        reverse_congestion_control=lambda flow: (
            "remoteCa" if flow.reverse_congestion_control != flow.congestion_control else ""
        ),
        local_buffer_bytes=_one_buffer,
        remote_buffer_bytes=_one_buffer,
        zerocopy=lambda flow: "" if flow.zerocopy == "sendfile" else f"zerocopy={flow.zerocopy}",
        length_bytes=numbered,
        mss_bytes=lambda flow: (
            f"mss above {LARGEST_MSS}" if (flow.mss_bytes or 0) > LARGEST_MSS else ""
        ),
    )
    lasting_server: ClassVar = False
    extras: ClassVar = {
        "pacing": re.compile("--fq-rate"),
        "skiprx": re.compile("--skip-rx-copy"),
        # Builds for long paths: --zerocopy=z is MSG_ZEROCOPY, --zerocopy alone sendfile(2).
        "zerocopy=msg": re.compile(r"--zerocopy\[?=|MSG_ZEROCOPY"),
    }

    def for_version(self, version: str) -> Self:
        return replace(self, version=version)

    def cannot(self, test: str, version: str) -> str:
        if test != "UDP_STREAM" or not () < numbers_of(version) < UDP_SINCE:
            return ""
        since = ".".join(map(str, UDP_SINCE))
        return f"{version} does not report which datagrams arrived; versions since {since} do"

    def version_command(self) -> list[str]:
        return ["iperf3", "--version"]

    def parse_version(self, output: str) -> str:
        return version_in(output, _VERSION, "iperf3 --version")

    def help_command(self) -> list[str]:
        return ["iperf3", "--help"]

    def server_command(self, port: int) -> list[str]:
        return ["iperf3", "-s", "-1", "-J", "-i", f"{SERVER_INTERVAL_S:g}", "-p", str(port)]

    def client_command(
        self,
        request: GroupRequest,
        ports: Ports,
        instance: int,
        *,
        folder: Path | None = None,  # noqa: ARG002 - it prints everything
    ) -> list[str]:
        command = [*pinned(request.client_cpus), "iperf3", "-c", str(request.server_address)]
        command += ["-p", str(ports.data[instance - 1]), f"-{request.server_address.version}"]
        command += ["-B", str(request.client_address)]
        if (port := self.client_port(request, ports, instance)) is not None:
            command += ["--cport", str(port)]
        command += ["--json-stream" if self._can_stream() else "-J"]
        command += ["-t", str(_whole_seconds(request.duration_s))]
        command += ["-i", f"{min(INTERVAL_MAX_S, max(INTERVAL_MIN_S, request.interval_s)):g}"]
        return command + _test_options(request) + _common_options(request)

    def _can_stream(self) -> bool:
        return numbers_of(self.version) >= JSON_STREAM_SINCE

    def client_port(self, request: GroupRequest, ports: Ports, instance: int) -> int | None:
        # Parallel streams would use the ports of later instances.
        if request.parallel > 1:
            return None
        return traffic_ports.client_port(request, ports, instance)

    def deadline_s(self, request: GroupRequest) -> float:
        return math.ceil(request.omit_s) + _whole_seconds(request.duration_s) + END_SLACK_S

    def progress(self, line: str, request: GroupRequest) -> float | None:
        # The sent data of UDP are not goodput.
        if request.test == "UDP_STREAM" or not line.startswith('{"event":"interval"'):
            return None
        try:
            return Printed(jsontext.parse(line), "iperf3").number("data.sum.bits_per_second")
        except (ValueError, OutputError):
            return None

    def failure(self, output: str) -> str:
        try:
            return _document(output).text("error")
        except OutputError:
            lines = [line.strip() for line in output.splitlines() if line.startswith("iperf3: ")]
            return lines[-1] if lines else ""

    def parse(
        self,
        output: str,
        request: GroupRequest,
        *,
        started_s: float,
        system_ahead_s: float | None = 0.0,
    ) -> TransferResult:
        document = _document(output)
        if error := document.text("error"):
            raise OutputError(f"iperf3: {error}")
        is_reverse, is_udp = request.is_reverse, request.test == "UDP_STREAM"
        zero_s = _zero_s(document, started_s, system_ahead_s)
        received = document.node("end.sum_received")
        sender_retransmits = _sender_retransmits(document)
        sender_control = document.text("end.sender_tcp_congestion")
        receiver_control = document.text("end.receiver_tcp_congestion")
        return TransferResult(
            rate_bps=received.number("bits_per_second"),
            elapsed_s=received.number("seconds"),
            sent_bps=None if is_udp else document.number_or_none("end.sum_sent.bits_per_second"),
            intervals=_intervals(document, request, zero_s),
            local_retransmits=None if is_reverse else sender_retransmits,
            remote_retransmits=sender_retransmits if is_reverse else None,
            local_congestion_control=receiver_control if is_reverse else sender_control,
            remote_congestion_control=sender_control if is_reverse else receiver_control,
            mss_bytes=_mss_bytes(document),
            client_ports=_client_ports(document),
            datagrams=_datagrams(document, request, zero_s) if is_udp else None,
        )


def numbers_of(version: str) -> tuple[int, ...]:
    """Major and minor number of a version; empty if it is unknown."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def _whole_seconds(seconds: float) -> int:
    return max(1, math.ceil(seconds))


def _test_options(request: GroupRequest) -> list[str]:
    if request.test == "UDP_STREAM":
        # Without -b iperf3 would send 1 Mbit/s; other tools send as fast as possible.
        return ["-u", "-b", _stream_rate(request), "--get-server-output"]
    options = ["-C", request.congestion_control]
    if request.bitrate_bps is not None:
        options += ["-b", _stream_rate(request)]
    return [*options, "-R" if request.is_reverse else "--get-server-output"]


def _stream_rate(request: GroupRequest) -> str:
    """Bits per second of each parallel stream; 0 is as fast as possible."""
    if request.bitrate_bps is None:
        return "0"
    return str(max(1, round(request.bitrate_bps / request.parallel)))


def _common_options(request: GroupRequest) -> list[str]:
    values: dict[str, object] = {
        "-l": request.length_bytes,
        "-M": request.mss_bytes,
        "-Z": "" if request.zerocopy == "sendfile" else None,
        "--zerocopy=z": "" if request.zerocopy == "msg" else None,
        "--skip-rx-copy": "" if request.skip_receive else None,
        "--fq-rate": None if request.pacing_bps is None else round(request.pacing_bps),
        "-w": request.local_buffer_bytes or None,
        "-P": request.parallel if request.parallel > 1 else None,
        "-S": None if request.dscp is None else request.dscp << 2,
        "-O": math.ceil(request.omit_s) if request.omit_s > 0 else None,
    }
    given = ((option, str(value)) for option, value in values.items() if value is not None)
    return [word for pair in given for word in pair if word]


def _document(output: str) -> Printed:
    """The one document of `-J`, or the events of `--json-stream` joined into the same shape."""
    start = output.find("{")
    text = output[start:] if start >= 0 else ""
    try:
        # Standard error follows the object.
        is_stream = text.startswith('{"event"')
        value = _joined(text) if is_stream else jsontext.first(text)[0]
    except ValueError:
        first = output.strip().splitlines()[:1]
        found = f", but: {first[0][:80]}" if first else ""
        raise OutputError(f"iperf3 printed no complete JSON{found}") from None
    if not isinstance(value, dict):
        raise OutputError("iperf3 printed JSON that is not an object")
    return Printed(value, "iperf3")


def _joined(text: str) -> dict[str, object]:
    intervals: list[object] = []
    document: dict[str, object] = {"intervals": intervals}
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        event = Printed(jsontext.parse(line), "iperf3")
        name, data = event.text("event"), event.find("data")
        if name == "interval":
            intervals.append(data)
        else:
            document[name] = data
    return document


def _sender_retransmits(document: Printed) -> int | None:
    value = document.find("end.sum_sent.retransmits")
    return value if isinstance(value, int) and 0 <= value < LARGEST else None


def _mss_bytes(document: Printed) -> int | None:
    """The MSS that was set, else that of the control connection to the same server."""
    for key in ("start.tcp_mss", "start.tcp_mss_default"):
        value = document.find(key)
        if isinstance(value, int) and 0 < value < LARGEST:
            return value
    return None


def _client_ports(document: Printed) -> tuple[int, ...]:
    """The ports of the streams, without that of the control connection."""
    connected = document.find("start.connected")
    nodes = [Printed(each, "iperf3") for each in connected] if isinstance(connected, list) else []
    ports = (node.find("local_port") for node in nodes)
    return tuple(port for port in ports if isinstance(port, int))


def _intervals(
    document: Printed, request: GroupRequest, start_s: float | None
) -> tuple[GoodputInterval, ...]:
    """The receiver's intervals; of a TCP stream the sender's, if the server reported none."""
    if start_s is None:
        return ()
    return tuple(
        GoodputInterval(
            start_s=start_s + node.number("sum.start"),
            end_s=start_s + node.number("sum.end"),
            rate_bps=node.number("sum.bits_per_second"),
        )
        for node in _measured(document, request)
    )


def _measured(document: Printed, request: GroupRequest) -> list[Printed]:
    has_server = isinstance(document.find("server_output_json.intervals"), list)
    if request.test == "UDP_STREAM" and not has_server:
        return []
    nodes = document.nodes("server_output_json.intervals" if has_server else "intervals")
    return [node for node in nodes if node.find("sum.omitted") is False]


def _zero_s(document: Printed, started_s: float, system_ahead_s: float | None) -> float | None:
    """The instant from which the times of intervals count: the end of the omitted part. None if
    somebody set the system's time, by which it reports its start."""
    if system_ahead_s is None:
        return None
    # It started after its process did, and in the second that it reports.
    start_s = max(started_s, document.number("start.timestamp.timesecs") - system_ahead_s)
    return start_s + document.number("start.test_start.omit")


def _datagrams(document: Printed, request: GroupRequest, start_s: float | None) -> Datagrams | None:
    """Its own numbers, which count a copy of a datagram as one out of order. Those of an interval
    are by arrival: a number that comes late makes one lost in an earlier interval fewer lost. None
    if its version does not report both ends."""
    if not isinstance(document.find("end.sum_received.lost_packets"), int):
        return None
    sent, received = document.node("end.sum_sent"), document.node("end.sum_received")
    size = document.number_or_none("start.test_start.blksize")
    streams = document.nodes("end.streams")
    return Datagrams(
        sent=round(sent.number("packets")),
        lost=round(received.number("lost_packets")),
        sent_bps=sent.number("bits_per_second"),
        received=None if not size else round(received.number("bytes") / size),
        numbered=received.whole("packets"),
        jitter_ms=received.number("jitter_ms"),
        reordered=round(math.fsum(stream.number("udp.out_of_order") for stream in streams)),
        intervals=()
        if start_s is None
        else tuple(
            DatagramInterval(
                start_s=start_s + node.number("sum.start"),
                end_s=start_s + node.number("sum.end"),
                sent=round(node.number("sum.packets")),
                lost=round(node.number("sum.lost_packets")),
                jitter_ms=node.number("sum.jitter_ms"),
            )
            for node in _measured(document, request)
        ),
    )
