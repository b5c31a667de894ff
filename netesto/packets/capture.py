"""A capture as a whole: its flows, the analysis of each, and problems of the file."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from netesto.packets import drawn, roundtrips, transfer
from netesto.packets.connections import CapturedConnection, ConnectionTable
from netesto.packets.decode import LINKS, decode
from netesto.packets.found import DRAWN_MAX, Capture, CapturedFlow, Rtt, Side
from netesto.packets.octets import Integers
from netesto.packets.reader import PacketReader
from netesto.packets.roundtrips import RoundTrips
from netesto.packets.transfer import SideTransfer
from netesto.packets.tunnels import TCP
from netesto.units import counted

# The capture was made at the end whose share of the RTT is below this; if the RTT is too short, the
# delays of programs exceed those of paths.
NEAR = 0.1
RTT_LEAST_NS = 200_000

# Packets that several processors handle at once have times that differ by less from their order.
DISORDER_NS = 1_000_000

# Each flow takes a millisecond of analysis and some memory; further ones are counted.
FLOWS_MAX = 10_000

# No figures of flows with less than this share of the data of the largest: control connections.
DRAWN_SHARE = 0.01

_SECOND_NS = 1e9


def read(path: Path, *, only: int | None = None) -> Capture:
    """Read and analyse a capture; of flow `only` (None: of the largest) also the figures.

    UsageError if it is not a capture; OSError if it cannot be read.
    """
    reader, table = PacketReader(path), ConnectionTable()
    first_ns: int | None = None
    last_ns = 0
    unknown: set[int] = set()
    for records in reader.pieces():
        table.add(decode(records))
        unknown.update(set(np.unique(records.link).tolist()) - LINKS)
        least, most = int(records.time_ns.min()), int(records.time_ns.max())
        first_ns = least if first_ns is None else min(first_ns, least)
        last_ns = max(last_ns, most)
    flows, further, copies = _flows(table, first_ns or 0, only)
    others = table.other_packets + table.fragments + table.cut
    return Capture(
        form=reader.form,
        packets=table.count + table.left_out + others,
        other_packets=others,
        start_s=None if first_ns is None else first_ns / _SECOND_NS,
        lasted_s=0.0 if first_ns is None else max(0, last_ns - first_ns) / _SECOND_NS,
        flows=flows,
        is_complete=not (
            reader.damage or table.left_out or further or table.fragments or table.cut
        ),
        damage=tuple(reader.damage),
        remarks=(
            *_of_packets(table, reader.untimed, unknown),
            *_of_flows(flows, further, copies),
        ),
    )


def _of_packets(table: ConnectionTable, untimed: int, unknown: set[int]) -> Iterator[str]:
    """Remarks on the packets of a capture, among them those of `unknown` link types."""
    for number, noun, text in (
        (table.fragments, "later fragment", "of IP packets: their data is missing in flows"),
        (table.cut, "packet", "captured without complete headers: tcpdump -s 128 keeps them"),
        (table.left_out, "packet", "in no flow: the capture has too many packets or flows"),
        (untimed, "packet", "without a time: that of the previous packet is used"),
    ):
        if number:
            yield f"{counted(number, noun)} {text}"
    for link in sorted(unknown):
        yield f"link type {link} is unknown: its packets were not read"
    if table.disorder_ns > DISORDER_NS:
        earlier = counted(table.disordered, "packet")
        yield (
            f"{earlier} earlier than others before in the file, by up to "
            f"{table.disorder_ns / _SECOND_NS:.4g} s: all are analysed in the order of their times"
        )


def _of_flows(flows: Sequence[CapturedFlow], further: int, copies: int) -> Iterator[str]:
    """Remarks on the flows of a capture: `further` connections are not among them."""
    if copies:
        yield (
            f"{copies} packets are copies of others: the capture was made at several places,"
            " or the network duplicated them. Only the first of each counts, and RTTs may be those"
            " of a part of the path"
        )
    missed = [flow.missed_bytes for flow in flows if flow.missed_bytes]
    if missed:
        which = "a flow" if len(missed) == 1 else f"{len(missed)} flows"
        yield (
            f"the capture lost packets: {sum(missed)} bytes of {which} were acknowledged and never"
            " seen, so counts are too low. A larger buffer (tcpdump -B) or fewer bytes of each"
            " packet (-s 128) may help"
        )
    if further:
        are = "connection was" if further == 1 else "connections were"
        yield f"{further} further {are} not analysed"


def _flows(
    table: ConnectionTable, origin_ns: int, only: int | None
) -> tuple[tuple[CapturedFlow, ...], int, int]:
    """Every flow, the largest with figures; the number of further connections, and of copies."""
    found: list[CapturedFlow] = []
    # Bytes and place of flows with figures; the fewest bytes first.
    largest: list[tuple[int, int]] = []
    further = copies = 0
    for number, connection in enumerate(table.connections(), start=1):
        if number > FLOWS_MAX:
            further += 1
            continue
        copies += connection.copies
        for flow, own in _both(connection, number):
            place = len(found)
            found.append(flow)
            if own is None or not flow.bytes or only not in {None, number}:
                continue
            if len(largest) == DRAWN_MAX:
                if flow.bytes <= largest[0][0]:
                    continue
                _, smallest = largest.pop(0)
                found[smallest] = replace(found[smallest], drawing=None)
            found[place] = replace(flow, drawing=drawn.draw(own, origin_ns))
            largest = sorted([*largest, (flow.bytes, place)])
    for size, place in largest:
        if size < DRAWN_SHARE * largest[-1][0]:
            found[place] = replace(found[place], drawing=None)
    return tuple(found), further, copies


def _both(
    connection: CapturedConnection, number: int
) -> Iterator[tuple[CapturedFlow, SideTransfer | None]]:
    """The directions of a connection that carried data; the client's if none did."""
    if connection.protocol != TCP:
        payload = connection.packets.payload
        for by_client in (True, False):
            sent = connection.from_client == by_client
            if payload[sent].any() or (by_client and not payload.any()):
                time_ns, size = connection.packets.time_ns[sent], int(payload[sent].sum())
                yield (
                    _sighting(connection, number, time_ns, (size, size), by_client=by_client),
                    None,
                )
        return
    trips = roundtrips.measure(connection)
    both = {
        by_client: transfer.analyse(connection, trips.path_ns, by_client=by_client)
        for by_client in (True, False)
    }
    for by_client, own in both.items():
        if own.payload.any() or (by_client and not both[False].payload.any()):
            yield _flow(connection, number, own, trips, by_client=by_client), own


def _sighting(
    connection: CapturedConnection,
    number: int,
    time_ns: Integers,
    sizes: tuple[int, int],
    *,
    by_client: bool,
) -> CapturedFlow:
    """A flow, from the times of its packets with data, the bytes that they carried, and its size. A
    direction without packets has the time of the other."""
    times_ns = time_ns if len(time_ns) else connection.packets.time_ns
    first, last = int(times_ns.min()), int(times_ns.max())
    lasted_s = (last - first) / _SECOND_NS
    ends = connection.client, connection.server
    (source, source_port), (destination, destination_port) = ends if by_client else ends[::-1]
    carried, size = sizes
    return CapturedFlow(
        number=number,
        protocol="TCP" if connection.protocol == TCP else "UDP",
        source=source,
        destination=destination,
        source_port=source_port,
        destination_port=destination_port,
        start_s=first / _SECOND_NS,
        lasted_s=lasted_s,
        packets=len(time_ns),
        bytes=carried,
        size=size,
        rate_bps=size * 8 / lasted_s if size and lasted_s > 0 else None,
    )


def _flow(
    connection: CapturedConnection,
    number: int,
    own: SideTransfer,
    trips: RoundTrips,
    *,
    by_client: bool,
) -> CapturedFlow:
    time_ns, sizes = own.segments.time_ns[own.payload > 0], (int(own.payload.sum()), own.size)
    completion_ns = own.completion_ns()
    return replace(
        _sighting(connection, number, time_ns, sizes, by_client=by_client),
        side=_side(trips, by_client=by_client),
        is_whole=own.is_whole,
        mss_bytes=own.mss_bytes,
        syn_s=None if trips.syn_ns is None else trips.syn_ns / _SECOND_NS,
        handshake_ms=None if trips.handshake is None else sum(trips.handshake) / 1e6,
        completion_ms=None if completion_ns is None else completion_ns / 1e6,
        rtt=_rtt(own.rtt.rtt_ns),
        rtt_by_stamps=_rtt(own.rtt_by_stamps.rtt_ns),
        segments_again=own.segments_again,
        bytes_again=own.bytes_again,
        by_kind=own.by_kind(),
        out_of_order=int(own.order.late.sum()),
        duplicate_acks=own.duplicate_acks,
        zero_windows=own.zero_windows,
        zero_window_s=own.zero_window_ns / _SECOND_NS,
        super_packets=own.super_packets,
        missed_bytes=own.missed_bytes,
    )


def _rtt(rtt_ns: Integers) -> Rtt | None:
    if not len(rtt_ns):
        return None
    return Rtt(
        samples=len(rtt_ns),
        min_ms=float(rtt_ns.min()) / 1e6,
        median_ms=float(np.median(rtt_ns)) / 1e6,
        mean_ms=float(rtt_ns.mean()) / 1e6,
        max_ms=float(rtt_ns.max()) / 1e6,
    )


def _side(trips: RoundTrips, *, by_client: bool) -> Side:
    """The end where the capture was made: its replies come immediately."""
    halves = trips.handshake or (None, None)
    to_server = _least(halves[0], trips.to_server)
    to_client = _least(halves[1], trips.to_client)
    if to_server is None or to_client is None or to_server + to_client < RTT_LEAST_NS:
        return "unknown"
    to_sender, to_receiver = (to_client, to_server) if by_client else (to_server, to_client)
    near = NEAR * (to_sender + to_receiver)
    return "sender" if to_sender <= near else "receiver" if to_receiver <= near else "between"


def _least(*times_ns: int | None) -> int | None:
    return min((each for each in times_ns if each is not None), default=None)
