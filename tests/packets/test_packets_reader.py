"""Every capture format gives the same packets; damage is reported, and the rest is read."""

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire import (
    ACK,
    CLIENT,
    CLIENT_PORT,
    ETHERNET,
    SERVER,
    SERVER_PORT,
    Frame,
    block,
    enhanced,
    interface,
    ip,
    pcap,
    section,
    simple,
    stamps,
    tcp,
    udp,
)

from netesto.errors import UsageError
from netesto.packets import capture, reader
from netesto.packets.found import Capture

START_NS = 1_700_000_000_123_456_000
FRAMES = [
    Frame(START_NS + i * 1_000_000, ETHERNET + ip(tcp(1 + 10 * i, 1, ACK, payload=bytes(10))))
    for i in range(5)
]
TSRESOL, TSOFFSET = 9, 14


def read(path: Path, data: bytes) -> Capture:
    path.write_bytes(data)
    return capture.read(path)


def seen(found: Capture) -> list[tuple[str, str, int, int]]:
    """Ends, packets and bytes of each flow."""
    return [(each.source, each.destination, each.packets, each.bytes) for each in found.flows]


USUAL = [(f"{CLIENT}:{CLIENT_PORT}", f"{SERVER}:{SERVER_PORT}", 5, 50)]


def ng(order: str, ticks: Callable[[int], int], *options: tuple[int, bytes]) -> bytes:
    blocks = [enhanced(ticks(frame.time_ns), frame, order) for frame in FRAMES]
    return section(order) + interface(order, options=options) + b"".join(blocks)


@pytest.mark.parametrize(
    "data",
    [
        pcap(FRAMES),
        pcap(FRAMES, order=">"),
        pcap(FRAMES, unit_ns=1),
        pcap(FRAMES, order=">", unit_ns=1),
        gzip.compress(pcap(FRAMES)),
        gzip.compress(pcap(FRAMES[:2])) + gzip.compress(pcap(FRAMES)[len(pcap(FRAMES[:2])) :]),
        ng("<", lambda time_ns: time_ns // 1000),
        ng(">", lambda time_ns: time_ns // 1000),
        ng("<", lambda time_ns: time_ns, (TSRESOL, b"\x09")),
        ng("<", lambda time_ns: time_ns * 10, (TSRESOL, b"\x0a")),
        ng("<", lambda time_ns: time_ns // 1000 - 10**15, (TSOFFSET, struct.pack("<q", 10**9))),
        gzip.compress(ng(">", lambda time_ns: time_ns // 1000)),
    ],
    # The data would be names: long ones, and of gzip others in each second.
    ids=lambda _: "",
)
def test_every_format_has_the_same_packets(tmp_path: Path, data: bytes):
    found = read(tmp_path / "a", data)
    assert (seen(found), found.start_s, found.lasted_s, found.damage) == (
        USUAL, START_NS / 1e9, 0.004, (),
    )  # fmt: skip


def test_times_in_fractions_of_two_are_read(tmp_path: Path):
    data = ng("<", lambda time_ns: (time_ns << 20) // 10**9, (TSRESOL, b"\x94"))
    found = read(tmp_path / "a", data)
    assert found.start_s == pytest.approx(START_NS / 1e9, abs=1e-6)


def test_interfaces_of_a_section_have_their_own_times(tmp_path: Path):
    nano = interface(options=[(TSRESOL, b"\x09")])
    blocks = enhanced(START_NS // 1000, FRAMES[0]) + enhanced(START_NS + 500, FRAMES[1], number=1)
    found = read(tmp_path / "a", section() + interface() + nano + blocks)
    assert found.lasted_s == 500e-9


def test_sections_may_differ_in_byte_order(tmp_path: Path):
    data = ng("<", lambda time_ns: time_ns // 1000) + ng(">", lambda time_ns: time_ns // 1000)
    found = read(tmp_path / "a", data)
    assert (found.packets, found.other_packets, found.damage) == (10, 0, ())


def test_obsolete_packets_of_pcapng_are_those_of_their_interface(tmp_path: Path):
    head = section(">") + interface(">") + interface(">", options=[(TSRESOL, b"\x09")])
    data = head + enhanced(START_NS // 1000, FRAMES[0], ">")
    second = enhanced(START_NS + 500, FRAMES[1], ">", number=1)
    # The number of the interface, and that of dropped packets.
    obsolete = block(2, struct.pack(">HH", 1, 7) + second[12:-4], ">")
    assert read(tmp_path / "a", data + obsolete) == read(tmp_path / "b", data + second)


def test_simple_packets_have_the_time_of_the_packet_before(tmp_path: Path):
    data = section() + interface() + enhanced(START_NS // 1000, FRAMES[0]) + simple(FRAMES[1])
    found = read(tmp_path / "a", data)
    assert (seen(found)[0][2:], found.lasted_s, found.remarks) == (
        (2, 20), 0.0, ("1 packet without a time: that of the previous packet is used",),
    )  # fmt: skip


def test_a_snap_length_cuts_simple_packets(tmp_path: Path):
    short = Frame(0, FRAMES[0].data[:54], len(FRAMES[0].data))
    found = read(tmp_path / "a", section() + interface(snap=54) + simple(short))
    assert seen(found)[0][2:] == (1, 10)


COOKED = bytes(14) + b"\x08\x00"
COOKED_2 = b"\x08\x00" + bytes(18)
PACKET = ip(tcp(1, 1, ACK, payload=bytes(10)))


@pytest.mark.parametrize(
    ("link", "header"),
    [
        (1, ETHERNET),
        (1, bytes(12) + b"\x81\x00\x00\x05\x08\x00"),
        (1, bytes(12) + b"\x88\xa8\x00\x05\x81\x00\x00\x06\x08\x00"),
        (113, COOKED),
        (276, COOKED_2),
        (101, b""),
        (12, b""),
        (228, b""),
        (0, b"\x02\x00\x00\x00"),
        (108, b"\x00\x00\x00\x02"),
    ],
)
def test_link_types_are_read(tmp_path: Path, link: int, header: bytes):
    found = read(tmp_path / "a", pcap([Frame(START_NS, header + PACKET)], link=link))
    assert (seen(found), found.remarks) == ([(*USUAL[0][:2], 1, 10)], ())


SIX = ip(tcp(1, 1, ACK, payload=bytes(10)), "fe80::1", "fe80::2")
FOUR_OF = {"four": (PACKET, USUAL[0][:2]), "six": (SIX, ("[fe80::1]:40000", "[fe80::2]:5201"))}
BRIDGED = {"four": ETHERNET, "six": bytes(12) + b"\x86\xdd"}
TYPE = {"four": b"\x08\x00", "six": b"\x86\xdd"}
VLAN = bytes(12) + b"\x81\x00\x00\x05"


def over_udp(port: int, body: bytes) -> bytes:
    return ETHERNET + ip(udp(body, (50000, port)), protocol=17)


def gtp(packet: bytes, flags: int = 0x30, more: bytes = b"") -> bytes:
    return over_udp(2152, struct.pack(">BBHI", flags, 255, len(more + packet), 7) + more + packet)


@pytest.mark.parametrize("version", ["four", "six"])
@pytest.mark.parametrize(
    "around",
    [
        lambda packet, v: over_udp(4789, bytes((8, *7 * (0,))) + BRIDGED[v] + packet),
        lambda packet, v: over_udp(8472, bytes((12, *7 * (0,))) + VLAN + TYPE[v] + packet),
        lambda packet, v: over_udp(6081, b"\0\0\x65\x58" + bytes(4) + BRIDGED[v] + packet),
        lambda packet, v: over_udp(6081, b"\2\0" + TYPE[v] + bytes(12) + packet),
        lambda packet, _: gtp(packet),
        lambda packet, _: gtp(packet, 0x32, bytes((0, 1, 0, 0))),
        lambda packet, _: gtp(packet, 0x34, bytes((0, 0, 0, 0x85, 1, 0, 9, 0))),
        lambda packet, v: ETHERNET + ip(b"\0\0" + TYPE[v] + packet, protocol=47),
        lambda packet, v: ETHERNET + ip(b"\xb0\0" + TYPE[v] + bytes(12) + packet, protocol=47),
        lambda packet, v: ETHERNET + ip(b"\0\0\x65\x58" + BRIDGED[v] + packet, protocol=47),
        lambda packet, v: ETHERNET + ip(packet, protocol=4 if v == "four" else 41),
        lambda packet, v: bytes(12) + b"\x88\x47" + bytes((0, 1, 0, 64, 0, 2, 1, 64)) + packet,
        lambda packet, v: bytes(12)
        + b"\x88\x47" + bytes((0, 2, 1, 64, 0, 0, 0, 0)) + BRIDGED[v] + packet,
        lambda packet, v: bytes(12)
        + b"\x88\x64\x11\0\0\1\0\0" + (b"\0\x21" if v == "four" else b"\0\x57") + packet,
        lambda packet, v: bytes(12)
        + struct.pack(">H", len(packet) + 8) + b"\xaa\xaa\3\0\0\0" + TYPE[v] + packet,
        # A tunnel in a tunnel.
        lambda packet, v: over_udp(
            4789,
            bytes((8, *7 * (0,))) + ETHERNET + ip(b"\0\0" + TYPE[v] + packet, protocol=47),
        ),
    ],
    ids=[
        "VXLAN", "VXLAN of Linux, VLAN", "Geneve", "Geneve with options, IP", "GTP-U",
        "GTP-U with number", "GTP-U with extension", "GRE", "GRE with options", "GRE of Ethernet",
        "IP in IP", "MPLS", "MPLS of Ethernet", "PPPoE", "SNAP", "GRE in VXLAN",
    ],
)  # fmt: skip
def test_flows_inside_tunnels_are_read(
    tmp_path: Path, around: Callable[[bytes, str], bytes], version: str
):
    packet, ends = FOUR_OF[version]
    found = read(tmp_path / "a", pcap([Frame(START_NS, around(packet, version))]))
    assert (seen(found), found.other_packets, found.remarks) == ([(*ends, 1, 10)], 0, ())


@pytest.mark.parametrize("port", [4789, 6081, 2152])
def test_datagrams_that_only_have_the_port_of_a_tunnel_are_datagrams(tmp_path: Path, port: int):
    found = read(tmp_path / "a", pcap([Frame(START_NS, over_udp(port, bytes(100)))]))
    assert seen(found) == [("10.0.0.1:50000", f"10.0.0.2:{port}", 1, 100)]


def test_an_unknown_link_type_is_reported(tmp_path: Path):
    found = read(tmp_path / "a", pcap([Frame(START_NS, PACKET)], link=147))
    assert (found.flows, found.other_packets, found.remarks) == (
        (), 1, ("link type 147 is unknown: its packets were not read",),
    )  # fmt: skip


def raw(tmp_path: Path, *packets: bytes) -> Capture:
    frames = [Frame(START_NS + i, packet) for i, packet in enumerate(packets)]
    return read(tmp_path / "a", pcap(frames, link=101))


def test_ip_options_are_passed_over(tmp_path: Path):
    found = raw(tmp_path, ip(tcp(1, 1, ACK, payload=bytes(10)), options=bytes(8)))
    assert seen(found) == [(*USUAL[0][:2], 1, 10)]


def test_the_length_of_a_super_packet_is_that_of_the_link(tmp_path: Path):
    found = raw(tmp_path, ip(tcp(1, 1, ACK, payload=bytes(70_000)), length=0))
    assert seen(found) == [(*USUAL[0][:2], 1, 70_000)]


def test_padding_of_short_frames_is_no_data(tmp_path: Path):
    found = raw(tmp_path, ip(tcp(1, 1, ACK, payload=b"a")) + bytes(20))
    assert seen(found) == [(*USUAL[0][:2], 1, 1)]


def test_extension_headers_of_ipv6_are_passed_over(tmp_path: Path):
    plain = ip(tcp(1, 1, ACK, payload=bytes(10)), "fe80::1", "fe80::2")
    extended = bytearray(plain[:40] + bytes((44, 0)) + bytes(6) + bytes((60, 0)) + bytes(6))
    extended += bytes((6, 1)) + bytes(14) + tcp(11, 1, ACK, payload=bytes(10))
    extended[4:6], extended[6] = struct.pack(">H", len(extended) - 40), 0
    found = raw(tmp_path, plain, bytes(extended))
    assert seen(found) == [("[fe80::1]:40000", "[fe80::2]:5201", 2, 20)]


def test_fragments_and_cut_headers_are_reported(tmp_path: Path):
    later = ip(tcp(1, 1, ACK), offset=100)
    found = raw(tmp_path, PACKET, later, PACKET[:30], b"\x45")
    assert (seen(found)[0][2], found.other_packets, found.remarks) == (
        1, 3,
        (
            "1 later fragment of IP packets: their data is missing in flows",
            "2 packets captured without complete headers: tcpdump -s 128 keeps them",
        ),
    )  # fmt: skip


def test_datagrams_are_flows_of_each_direction(tmp_path: Path):
    there = ip(udp(bytes(100)), protocol=17)
    back = ip(udp(bytes(30), (5201, 40000)), SERVER, CLIENT, protocol=17)
    found = raw(tmp_path, there, there, back)
    assert [(each.protocol, *row) for each, row in zip(found.flows, seen(found), strict=True)] == [
        ("UDP", *USUAL[0][:2], 2, 200),
        ("UDP", *USUAL[0][1::-1], 1, 30),
    ]


@pytest.mark.parametrize("cut", [1, 15, 16, 40])
def test_a_truncated_file_is_read_up_to_there(tmp_path: Path, cut: int):
    data = pcap(FRAMES)
    found = read(tmp_path / "a", data[:-cut])
    begin = len(pcap(FRAMES[:4]))
    there = len(data) - cut - begin
    assert (seen(found)[0][2], found.damage) == (
        4, (f"byte {begin}: the file ends inside a packet ({there} bytes of it are there)",),
    )  # fmt: skip


@pytest.mark.parametrize("size", [262_145, 2**31, 2**32 - 1])
def test_an_impossible_length_ends_reading(tmp_path: Path, size: int):
    data = pcap(FRAMES) + struct.pack("<IIII", 0, 0, size, size) + bytes(1000)
    found = read(tmp_path / "a", data)
    place = len(pcap(FRAMES))
    assert (seen(found), found.damage) == (
        USUAL, (f"byte {place}: a packet of {size} bytes: the rest of the file was not read",),
    )  # fmt: skip


GOOD_NG = ng("<", lambda time_ns: time_ns // 1000)


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (struct.pack("<II", 6, 0) + bytes(40), "a block of 0 bytes"),
        (struct.pack("<II", 6, 33) + bytes(40), "a block of 33 bytes"),
        (struct.pack("<II", 6, 2**32 - 4) + bytes(40), "a block of 4294967292 bytes"),
        (
            struct.pack("<II", 6, 16) + bytes(4) + struct.pack("<I", 16),
            "a packet block of 16 bytes",
        ),
        (struct.pack("<II", 6, 40) + bytes(40), "a block whose two lengths differ"),
        (struct.pack("<III", 0x0A0D0D0A, 28, 5) + bytes(40), "a section without byte order"),
        (struct.pack("<III", 0x0A0D0D0A, 8, 0x1A2B3C4D) + bytes(40), "a section header of 8 bytes"),
        (section() * 1001, "more than 1000 sections"),
    ],
)
def test_an_impossible_block_ends_reading(tmp_path: Path, bad: bytes, what: str):
    found = read(tmp_path / "a", GOOD_NG + bad)
    (damage,) = found.damage
    assert (seen(found), damage.partition(": ")[2]) == (
        USUAL, f"{what}: the rest of the file was not read",
    )  # fmt: skip


def test_compressed_data_that_end_early_are_read_up_to_there(tmp_path: Path):
    many = pcap(FRAMES * 2000)
    data = gzip.compress(many)
    found = read(tmp_path / "a", data[: len(data) // 2])
    assert found.packets > 1000
    assert found.damage[0] == f"gzip data end early, at byte {len(data) // 2} of the file"


@pytest.mark.parametrize("frames", [FRAMES[:2], 2 * FRAMES])
def test_a_file_that_is_written_while_it_is_read_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frames: list[Frame]
):
    monkeypatch.setattr(reader, "PIECE_BYTES", len(pcap(FRAMES[:1])))
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(FRAMES))
    found = reader.PacketReader(path)
    pieces = found.pieces()
    next(pieces)
    path.write_bytes(pcap(frames))
    for _ in pieces:
        pass
    assert found.damage[0] == (
        f"the file changed: it had {len(pcap(FRAMES))} bytes before it was read, and "
        f"{len(pcap(frames))} after it; read it again when it is complete"
    )


@pytest.mark.parametrize("data", [b"", b"\x1f\x8b", b"netesto run", pcap([])[:20], bytes(1000)])
def test_what_is_no_capture_is_refused(tmp_path: Path, data: bytes):
    with pytest.raises(UsageError):
        read(tmp_path / "a", data)


def test_a_capture_without_packets_has_no_flows(tmp_path: Path):
    found = read(tmp_path / "a", pcap([]))
    assert (found.packets, found.flows, found.start_s, found.damage) == (0, (), None, ())


def test_packets_lie_across_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reader, "PIECE_BYTES", 100)
    assert seen(read(tmp_path / "a", pcap(FRAMES))) == USUAL


def test_packets_are_decoded_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reader, "BATCH", 2)
    assert seen(read(tmp_path / "a", pcap(FRAMES))) == USUAL


def test_more_packets_than_anybody_captures_end_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reader, "BATCH", 2)
    monkeypatch.setattr(reader, "PACKETS_MAX", 3)
    found = read(tmp_path / "a", pcap(FRAMES))
    assert (seen(found)[0][2], found.damage) == (
        4, ("4 packets: the rest of the file was not read",),
    )  # fmt: skip


OPTIONS = [b"\x05\x00", b"\x05\x01", b"\x08\x02", b"\xfe\xff", b"\x05\x28" + bytes(8), b"\x01" * 40]


@pytest.mark.parametrize("options", OPTIONS)
def test_impossible_options_are_not_believed(tmp_path: Path, options: bytes):
    found = raw(tmp_path, ip(tcp(1, 1, ACK, options=options[:40], payload=bytes(10))))
    assert seen(found) == [(*USUAL[0][:2], 1, 10)]


def _valid() -> list[bytes]:
    segments = [
        ip(tcp(1 + 10 * i, 1, ACK, options=stamps(i, 1), payload=bytes(10))) for i in range(4)
    ]
    frames = [Frame(START_NS + i, ETHERNET + each) for i, each in enumerate(segments)]
    return [pcap(frames), pcap(frames, order=">"), GOOD_NG, gzip.compress(pcap(frames))]


def is_sound_or_told(path: Path) -> bool:
    """An error names the file; else flows have no more packets than the file, and no negative size
    or time."""
    try:
        found = capture.read(path)
    except UsageError as error:
        return str(path) in error.message
    return sum(flow.packets for flow in found.flows) + found.other_packets <= found.packets and all(
        min(flow.size, flow.bytes, flow.lasted_s) >= 0 for flow in found.flows
    )


@settings(max_examples=60)
@given(
    data=st.sampled_from(_valid()),
    changes=st.lists(st.tuples(st.integers(0, 2000), st.binary(min_size=1, max_size=8))),
    end=st.integers(0, 2000),
)
def test_hostile_captures_do_no_harm(
    tmp_path_factory: pytest.TempPathFactory,
    data: bytes,
    changes: list[tuple[int, bytes]],
    end: int,
):
    hostile = bytearray(data)
    for place, octets in changes:
        hostile[place % len(data) : place % len(data) + len(octets)] = octets
    path = tmp_path_factory.getbasetemp() / "hostile"
    path.write_bytes(hostile[: end + 24])
    assert is_sound_or_told(path)


@settings(max_examples=60)
@given(
    packets=st.lists(
        st.tuples(
            st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 255),
            st.booleans(), st.integers(0, 3000), st.binary(max_size=40), st.integers(0, 2**62),
        ),
        max_size=30,
    )
)  # fmt: skip
def test_hostile_segments_do_no_harm(
    tmp_path_factory: pytest.TempPathFactory,
    packets: list[tuple[int, int, int, bool, int, bytes, int]],
):
    frames = []
    for sequence, acknowledged, flags, by_client, size, options, time_ns in packets:
        ports = (CLIENT_PORT, SERVER_PORT) if by_client else (SERVER_PORT, CLIENT_PORT)
        ends = (CLIENT, SERVER) if by_client else (SERVER, CLIENT)
        segment = tcp(
            sequence, acknowledged, flags, ports=ports, options=options, payload=bytes(size)
        )
        frames.append(Frame(time_ns % 2**61, ip(segment, *ends)))
    path = tmp_path_factory.getbasetemp() / "segments"
    path.write_bytes(pcap(frames, link=101))
    assert (capture.read(path).packets, is_sound_or_told(path)) == (len(frames), True)
