"""Datagrams of tool=native one by one, as tcpdump captured them at their receiver."""

import itertools
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from captured_frames import frames
from readings import Group, NotMeasuredError
from theory import UDP_HEADERS_BYTES

# The length of their numbers and instants, which a capture must keep (snap=).
PAYLOAD_BYTES = 16
UDP = 17
# The mark in the second byte of an IPv4 header (RFC 3168).
CE = 3


@dataclass(frozen=True, slots=True)
class Datagram:
    """One that arrived: its number, when it was sent and arrived on the clock of the lab, and
    whether it has the mark CE."""

    number: int
    sent_s: float
    arrived_s: float
    is_marked: bool

    @property
    def delay_s(self) -> float:
        return self.arrived_s - self.sent_s


def captured(group: Group, first_delay_s: float = 0.0) -> list[Datagram]:
    """The datagrams of DO_TCPDUMP (pcap-savefile(5)), in the order of arrival. Each says how long
    after the first it was sent (traffic/native/source/datagrams.c), and the delay of the first
    that arrived is known."""
    [path] = group.raw("server").glob("capture.*.pcap")
    found: list[tuple[int, int, float, bool]] = []
    for arrived_s, packet in frames(path):
        # An IPv4 datagram of UDP with its header, to no control port.
        is_udp = packet[12:14] == b"\x08\x00" and packet[23] == UDP
        if is_udp and len(packet) >= UDP_HEADERS_BYTES + PAYLOAD_BYTES:
            number, sent_ns = struct.unpack_from(">QQ", packet, UDP_HEADERS_BYTES)
            found.append((number, sent_ns, arrived_s, packet[15] & CE == CE))
    if not found:
        raise NotMeasuredError("no datagrams in the capture")
    zero_s = found[0][2] - found[0][1] / 1e9 - first_delay_s
    return [Datagram(number, zero_s + ns / 1e9, at_s, marked) for number, ns, at_s, marked in found]


def runs(numbers: Iterable[int]) -> list[int]:
    """The lengths of the runs of numbers that are missing between others, in ascending order."""
    gaps = (after - before - 1 for before, after in itertools.pairwise(numbers))
    return [gap for gap in gaps if gap > 0]


def mean_run(group: Group) -> float:
    """Of the datagrams that were lost between two that arrived."""
    return float(np.mean(runs(sorted({each.number for each in captured(group)}))))


def delay_quantile_us(share: float) -> Callable[[Group], float]:
    """The one-way delay that this share of the datagrams is below. The least delay is known."""

    def read(group: Group) -> float:
        delays_s = np.array([each.delay_s for each in captured(group)])
        above_least_us = (float(np.quantile(delays_s, share)) - float(delays_s.min())) * 1e6
        return group.value("oneWayMin") + above_least_us

    return read
