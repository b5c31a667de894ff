import asyncio
import contextlib
import errno
import operator
import socket
from collections.abc import Iterator, Sequence
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto import process
from netesto.collectors import sockets
from netesto.collectors.clock import Clock
from netesto.collectors.sockdiag import SocketDiagnosis
from netesto.errors import OutputError
from netesto.model import SocketSample

SENDERS = "ss-6.1.0-senders-reno-cubic-bbr-lossy.txt"
RECEIVERS = "ss-6.1.0-receivers.txt"


def sample(text: str) -> SocketSample:
    (only,) = sockets.parse(text, 5.0)
    return only


def of_port(samples: list[SocketSample], port: int) -> SocketSample:
    (only,) = [sample for sample in samples if port in (sample.local_port, sample.peer_port)]
    return only


# ---- what ss prints --------------------------------------------------------------------------


def test_a_bbr_flow_with_losses_is_read_whole():
    text = (
        "ESTAB 0      390960 10.99.0.1:41003 10.99.0.2:5303 bbr wscale:2,2 rto:204 "
        "rtt:2.526/0.684 mss:1448 pmtu:1500 rcvmss:536 advmss:1448 cwnd:12 ssthresh:32 "
        "bytes_sent:1627589 bytes_retrans:283808 bytes_acked:1049838 segs_out:1127 segs_in:395 "
        "data_segs_out:1125 bbr:(bw:22339832bps,mrtt:0.021,pacing_gain:1,cwnd_gain:2) "
        "send 55030879bps lastsnd:132 lastrcv:1316 lastack:132 pacing_rate 22116440bps "
        "delivery_rate 5574584bps delivered:727 busy:1316ms unacked:4 retrans:1/196 lost:3 "
        "rcv_space:14480 rcv_ssthresh:203352 notsent:390960 minrtt:0.021 snd_wnd:259200     \n"
    )
    assert sample(text) == SocketSample(
        time_s=5.0,
        local_port=41003,
        peer_port=5303,
        congestion_control="bbr",
        cwnd=12,
        ssthresh=32,
        mss_bytes=1448,
        rtt_ms=2.526,
        rttvar_ms=0.684,
        min_rtt_ms=0.021,
        unacked=4,
        lost=3,
        retransmits=1,
        total_retransmits=196,
        segments_out=1127,
        data_segments_out=1125,
        bytes_sent=1627589,
        bytes_acked=1049838,
        bytes_received=0,
        pacing_rate_bps=22116440.0,
        delivery_rate_bps=5574584.0,
        send_queue_bytes=390960,
        receive_queue_bytes=0,
    )


def test_every_sender_is_read(fixtures):
    samples = sockets.parse((fixtures / SENDERS).read_text(), 5.0)
    assert {(sample.local_port, sample.congestion_control) for sample in samples} == {
        (41001, "reno"),
        (41002, "cubic"),
        (41003, "bbr"),
        (41004, "cubic"),
    }


def test_retransmits_are_counted_and_none_are_zero(fixtures):
    samples = sockets.parse((fixtures / SENDERS).read_text(), 5.0)
    assert {sample.local_port: sample.total_retransmits for sample in samples} == {
        41001: 30,
        41002: 0,
        41003: 196,
        41004: 8,
    }


def test_a_mapped_address_gives_its_ports(fixtures):
    samples = sockets.parse((fixtures / RECEIVERS).read_text(), 5.0)
    receiver = of_port(samples, 41001)
    assert (receiver.local_port, receiver.peer_port) == (5301, 41001)


def test_an_ipv6_address_gives_its_ports(fixtures):
    samples = sockets.parse((fixtures / RECEIVERS).read_text(), 5.0)
    receiver = of_port(samples, 41004)
    assert (receiver.local_port, receiver.peer_port) == (5304, 41004)


def test_a_link_local_address_gives_its_ports():
    found = sample("ESTAB 0 0 [fe80::1%eth0]:80 [fe80::2]%eth0:443 cubic wscale:7,7\n")
    assert (found.local_port, found.peer_port) == (80, 443)


def test_a_receiver_has_sent_nothing_and_lost_nothing(fixtures):
    receiver = of_port(sockets.parse((fixtures / RECEIVERS).read_text(), 5.0), 41001)
    assert (
        receiver.bytes_sent,
        receiver.unacked,
        receiver.lost,
        receiver.retransmits,
        receiver.total_retransmits,
    ) == (0, 0, 0, 0, 0)


def test_what_cannot_be_zero_is_unknown_where_ss_leaves_it_out(fixtures):
    receiver = of_port(sockets.parse((fixtures / RECEIVERS).read_text(), 5.0), 41001)
    assert (receiver.ssthresh, receiver.delivery_rate_bps) == (None, None)


def test_a_socket_without_tcp_info_knows_only_its_ports_and_queues():
    assert sample("FIN-WAIT-1 3 7 10.0.0.1:80 10.0.0.2:443\n") == SocketSample(
        time_s=5.0,
        local_port=80,
        peer_port=443,
        state="FIN-WAIT-1",
        send_queue_bytes=7,
        receive_queue_bytes=3,
    )


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("cubic wscale:7,7 rto:204 cwnd:10", "cubic"),
        ("ts sack ecn ecnseen fastopen dctcp wscale:7,7 rto:204 cwnd:10", "dctcp"),
        ("timer:(on,204ms,0) ts sack bbr wscale:7,7 rto:204 bbr:(bw:1bps) cwnd:10", "bbr"),
        ("ts sack wscale:7,7 rto:204 cwnd:10 app_limited", ""),
        ("ts sack reno rto:204 cwnd:10", "reno"),
        ("", ""),
    ],
)
def test_the_congestion_control_is_the_word_that_is_no_flag(words, name):
    assert sample(f"ESTAB 0 0 1.1.1.1:1 2.2.2.2:2 {words}\n").congestion_control == name


@pytest.mark.parametrize(
    ("text", "rate_bps"),
    [("6604000bps", 6604000.0), ("6.6Mbps/9.9Mbps", 6.6e6), ("2.5Gbps", 2.5e9), ("64Kbps", 64e3)],
)
def test_rates_are_read_in_every_form_of_ss(text, rate_bps):
    line = f"ESTAB 0 0 1.1.1.1:1 2.2.2.2:2 cubic rto:204 cwnd:10 pacing_rate {text}\n"
    assert sample(line).pacing_rate_bps == pytest.approx(rate_bps)


def test_nothing_watched_was_open():
    assert sockets.parse("", 5.0) == []


def test_a_line_that_is_no_socket_is_named():
    with pytest.raises(OutputError, match="no socket: 'Cannot open netlink socket'"):
        sockets.parse("Cannot open netlink socket\n", 5.0)


def test_a_number_that_is_none_is_named():
    with pytest.raises(OutputError, match="cwnd:many"):
        sockets.parse("ESTAB 0 0 1.1.1.1:1 2.2.2.2:2 cubic cwnd:many\n", 5.0)


# ---- what the kernel is asked ----------------------------------------------------------------


@given(st.sets(st.integers(1, 65535)))
def test_ranges_hold_exactly_their_ports(ports):
    ranges = sockets._ranges(ports)
    assert [port for first, last in ranges for port in range(first, last + 1)] == sorted(ports)


def test_neighbouring_ports_are_asked_for_as_a_range():
    assert sockets._ranges([7001, 5000, 7000, 7002]) == [(5000, 5000), (7000, 7002)]


def told_of(ranges: Sequence[tuple[int, int]]) -> list[str]:
    with contextlib.closing(SocketDiagnosis()) as diagnosis:
        return diagnosis.sockets(ranges)


@pytest.fixture(params=["127.0.0.1", "::1"])
def server_port(request) -> Iterator[int]:
    """The server's port of a quiet TCP connection over loopback that has carried some data."""
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    with socket.create_server((request.param, 0), family=family) as server:
        port = server.getsockname()[1]
        with socket.create_connection((request.param, port)) as client:
            accepted, _ = server.accept()
            with accepted:
                client.sendall(b"x" * 100_000)
                left = 100_000
                while left:
                    left -= len(accepted.recv(left))
                yield port


def test_the_kernel_tells_us_what_it_tells_ss(server_port):
    words = f"( sport = :{server_port} or dport = :{server_port} )"
    printed = process.run(["ss", "-tiOHn", words], timeout=5).stdout
    ours = "".join(f"{line}\n" for line in told_of([(server_port, server_port)]))
    by_port = operator.attrgetter("local_port")
    assert sorted(sockets.parse(ours, 1.0), key=by_port) == sorted(
        sockets.parse(printed, 1.0), key=by_port
    )


def test_a_port_within_a_range_is_told_of(server_port):
    assert len(told_of([(server_port - 1, server_port + 1)])) >= 2


def test_of_many_ports_the_last_is_told_of_like_the_first(server_port):
    others = [(port, port) for port in range(2, 402, 2)]
    both = ([(server_port, server_port), *others], [*others, (server_port, server_port)])
    assert [len(told_of(ranges)) for ranges in both] == [2, 2]


def test_other_ports_are_not_told_of(server_port):
    assert told_of([(server_port - 1, server_port - 1), (2, 2), (3, 9)]) == []


# ---- the file --------------------------------------------------------------------------------


def test_samples_stand_in_the_middle_of_their_look(tmp_path, fixtures):
    path = tmp_path / "sockets.ss"
    text = (fixtures / SENDERS).read_text()
    path.write_text(f"@10.0 10.5\n{text}@11.0 11.5\n{text}")
    assert sockets.read(path) == [*sockets.parse(text, 10.25), *sockets.parse(text, 11.25)]


def test_samples_of_a_clock_that_was_ahead_are_put_back(tmp_path, fixtures):
    path = tmp_path / "sockets.ss"
    text = (fixtures / SENDERS).read_text()
    path.write_text(f"@10.0 10.5\n{text}")
    assert sockets.read(path, ahead_s=3.0) == sockets.parse(text, 7.25)


@given(st.data())
def test_a_file_cut_short_anywhere_gives_the_samples_before(tmp_path_factory, fixtures, data):
    path = tmp_path_factory.mktemp("cut") / "sockets.ss"
    text = f"@10.0 10.5\n{(fixtures / SENDERS).read_text()}"
    path.write_text(text)
    whole = sockets.read(path)
    path.write_text(text[: data.draw(st.integers(0, len(text)))])
    cut = sockets.read(path)
    assert cut == whole[: len(cut)]


def test_a_line_that_ss_should_not_have_printed_is_named_with_its_place(tmp_path):
    path = tmp_path / "sockets.ss"
    path.write_text("@10.0 10.5\nwhat is this\n")
    with pytest.raises(OutputError, match=r"sockets\.ss:2: .*what is this"):
        sockets.read(path)


# ---- the collector ---------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def connection():
    """An open TCP connection over loopback that has carried three bytes; its server's port."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(3))
        await reader.read()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"abc")
    await reader.readexactly(3)
    try:
        yield port
    finally:
        writer.close()
        server.close()


def test_both_ends_of_a_connection_are_sampled(tmp_path):
    async def run() -> list[SocketSample]:
        seen: asyncio.Queue[list[SocketSample]] = asyncio.Queue()
        collector = sockets.SocketCollector(
            tmp_path / "sockets.ss", Clock(), 0.02, on_samples=seen.put_nowait
        )
        async with connection() as port:
            collector.watch([port])
            await collector.start()
            first = await seen.get()
            await collector.stop()
        return first

    first = asyncio.run(run())
    assert [(sample.bytes_received, sample.bytes_sent) for sample in first] == [(3, 3), (3, 3)]


def test_the_file_holds_what_was_told(tmp_path):
    told: list[SocketSample] = []

    async def run() -> None:
        enough = asyncio.Event()

        def keep(samples: list[SocketSample]) -> None:
            told.extend(samples)
            enough.set()

        collector = sockets.SocketCollector(tmp_path / "sockets.ss", Clock(), 0.02, on_samples=keep)
        async with connection() as port:
            collector.watch([port])
            await collector.start()
            await enough.wait()
            await collector.stop()

    asyncio.run(run())
    times_s = [sample.time_s for sample in told]
    assert [rounded(sample) for sample in sockets.read(tmp_path / "sockets.ss")] == [
        rounded(sample) for sample in told
    ]
    assert times_s == sorted(times_s)


def rounded(sample: SocketSample) -> list[object]:
    """All of a sample, its time in tenths of a millisecond."""
    values = {field.name: getattr(sample, field.name) for field in fields(sample)}
    return [round(values.pop("time_s"), 4), *values.values()]


def test_ports_no_longer_watched_are_not_sampled(tmp_path):
    collector = sockets.SocketCollector(tmp_path / "sockets.ss", Clock(), 0.02)
    collector.watch([1, 2])
    collector.unwatch([1, 2])
    assert asyncio.run(collector._look()) == b""


def test_a_kernel_that_tells_nothing_is_a_warning(tmp_path):
    def refuse() -> SocketDiagnosis:
        raise OSError(errno.EPROTONOSUPPORT, "Protocol not supported")

    path = tmp_path / "sockets.ss"
    collector = sockets.SocketCollector(path, Clock(), 0.02, diagnosis=refuse)
    collector.watch([1])
    assert asyncio.run(collector._look()) == b""
    assert collector.errors == ["socket samples are missing: Protocol not supported"]
