"""Socket samples in the text of ss, as earlier versions kept them."""

from ipaddress import ip_address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto.collectors import sstext
from netesto.errors import OutputError
from netesto.measured import SocketSample
from netesto.model import ClockOffset

SENDERS = "ss-6.1.0-senders-reno-cubic-bbr-lossy.txt"
RECEIVERS = "ss-6.1.0-receivers.txt"


def sample(line: str) -> SocketSample:
    return sstext.parse(line, 5.0)


def samples(path: Path) -> list[SocketSample]:
    return [sample(line) for line in path.read_text().splitlines()]


def of_port(found: list[SocketSample], port: int) -> SocketSample:
    (only,) = [sample for sample in found if port in (sample.local_port, sample.peer_port)]
    return only


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
        peer=ip_address("10.99.0.2"),
        congestion_control="bbr",
        cwnd=12,
        mss_bytes=1448,
        rtt_ms=2.526,
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
        unread_bytes=0,
    )


def test_every_sender_is_read(fixtures):
    found = samples(fixtures / SENDERS)
    assert {(sample.local_port, sample.congestion_control) for sample in found} == {
        (41001, "reno"),
        (41002, "cubic"),
        (41003, "bbr"),
        (41004, "cubic"),
    }


def test_retransmits_are_counted_and_none_are_zero(fixtures):
    found = samples(fixtures / SENDERS)
    assert {sample.local_port: sample.total_retransmits for sample in found} == {
        41001: 30,
        41002: 0,
        41003: 196,
        41004: 8,
    }


def test_a_mapped_address_gives_its_ports(fixtures):
    found = samples(fixtures / RECEIVERS)
    receiver = of_port(found, 41001)
    assert (receiver.local_port, receiver.peer_port) == (5301, 41001)


def test_an_ipv6_address_gives_its_ports(fixtures):
    found = samples(fixtures / RECEIVERS)
    receiver = of_port(found, 41004)
    assert (receiver.local_port, receiver.peer_port) == (5304, 41004)


def test_a_link_local_address_gives_its_ports():
    found = sample("ESTAB 0 0 [fe80::1%eth0]:80 [fe80::2]%eth0:443 cubic wscale:7,7\n")
    assert (found.local_port, found.peer_port) == (80, 443)


def test_a_receiver_has_sent_nothing_and_lost_nothing(fixtures):
    receiver = of_port(samples(fixtures / RECEIVERS), 41001)
    assert (
        receiver.bytes_sent,
        receiver.unacked,
        receiver.lost,
        receiver.retransmits,
        receiver.total_retransmits,
    ) == (0, 0, 0, 0, 0)


def test_what_cannot_be_zero_is_unknown_where_ss_leaves_it_out():
    found = sample("SYN-SENT 0 1 10.0.0.1:80 10.0.0.2:443 cubic rto:1000 mss:524 cwnd:10\n")
    assert (found.rtt_ms, found.min_rtt_ms, found.lost) == (None, None, 0)


def test_a_socket_without_tcp_info_knows_only_its_ports_and_its_queue():
    assert sample("FIN-WAIT-1 3 7 10.0.0.1:80 10.0.0.2:443\n") == SocketSample(
        time_s=5.0,
        local_port=80,
        peer_port=443,
        peer=ip_address("10.0.0.2"),
        state="FIN-WAIT-1",
        unread_bytes=3,
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


def test_a_line_that_is_no_socket_is_named():
    with pytest.raises(OutputError, match="not a socket as ss prints it: 'Cannot open netlink"):
        sample("Cannot open netlink socket\n")


def test_a_number_that_is_none_is_named():
    with pytest.raises(OutputError, match="cwnd:many"):
        sample("ESTAB 0 0 1.1.1.1:1 2.2.2.2:2 cubic cwnd:many\n")


# ---- the file --------------------------------------------------------------------------------


def parsed(text: str, time_s: float) -> list[SocketSample]:
    return [sstext.parse(line, time_s) for line in text.splitlines()]


def test_samples_stand_in_the_middle_of_their_look(tmp_path, fixtures):
    path = tmp_path / "sockets.ss"
    text = (fixtures / SENDERS).read_text()
    path.write_text(f"@10.0 10.5\n{text}@11.0 11.5\n{text}")
    assert sstext.read(path) == [*parsed(text, 10.25), *parsed(text, 11.25)]


def test_samples_of_a_clock_that_was_ahead_are_put_back(tmp_path, fixtures):
    path = tmp_path / "sockets.ss"
    text = (fixtures / SENDERS).read_text()
    path.write_text(f"@10.0 10.5\n{text}")
    assert sstext.read(path, offset=ClockOffset(3.0, 0.0)) == parsed(text, 7.25)


@given(st.data())
def test_a_file_cut_short_anywhere_gives_the_samples_before(tmp_path_factory, fixtures, data):
    path = tmp_path_factory.mktemp("cut") / "sockets.ss"
    text = f"@10.0 10.5\n{(fixtures / SENDERS).read_text()}"
    path.write_text(text)
    whole = sstext.read(path)
    path.write_text(text[: data.draw(st.integers(0, len(text)))])
    cut = sstext.read(path)
    assert cut == whole[: len(cut)]


def test_a_line_that_ss_should_not_have_printed_is_named_with_its_place(tmp_path):
    path = tmp_path / "sockets.ss"
    path.write_text("@10.0 10.5\nwhat is this\n")
    with pytest.raises(OutputError, match=r"sockets\.ss:2: .*what is this"):
        sstext.read(path)
