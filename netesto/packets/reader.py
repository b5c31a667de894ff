"""Reads capture files in pieces: pcap and pcapng, optionally compressed with gzip.

Formats: pcap-savefile(5), draft-ietf-opsawg-pcapng. A capture may come from anywhere: every length
is checked before use, and everything intact is read before damage is reported. The file is read and
not mapped: a mapped file that shrinks meanwhile would end the process.
"""

import os
import struct
import zlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

import numpy as np

from netesto.errors import UsageError
from netesto.packets.octets import Integers, Octets

# The size of a piece: large enough to make the overhead of numpy's calls negligible.
PIECE_BYTES = 16 * 2**20

# The maximum of packets in a piece.
BATCH = 2**18
# A compressed file of megabytes can contain any number of packets.
PACKETS_MAX = 200_000_000

# The maximum of libpcap (MAXIMUM_SNAPLEN): a larger length means damage.
PACKET_BYTES_MAX = 262_144
# The maximum of libpcap's pcapng reader, for a block of any type.
BLOCK_BYTES_MAX = PIECE_BYTES

# No real capture has more interfaces or sections.
INTERFACES_MAX = 65_536
SECTIONS_MAX = 1_000

_GZIP = b"\x1f\x8b"
_GZIP_WINDOW = 31
_GZIP_READ = 2**18

# Byte order and nanoseconds per unit of the fractions, by the first bytes of a pcap file.
_PCAP: dict[bytes, tuple[Literal["<", ">"], int]] = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
_PCAP_HEADER, _RECORD_HEADER = 24, 16

# An obsolete packet block differs from an enhanced one in the place of its interface.
_SECTION, _INTERFACE, _OBSOLETE, _SIMPLE, _ENHANCED = 0x0A0D0D0A, 1, 2, 3, 6
_SECTION_START = b"\x0a\x0d\x0d\x0a"
_BYTE_ORDER: dict[bytes, Literal["<", ">"]] = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
_SECTION_MIN, _INTERFACE_MIN = 28, 20
_PACKET_MIN = {_OBSOLETE: 32, _SIMPLE: 16, _ENHANCED: 32}
_IF_TSRESOL, _IF_TSOFFSET = 9, 14

_SECOND_NS = 10**9


@dataclass(frozen=True, slots=True)
class Records:
    """Packets of one piece of a file, in its order: the start of each in `data`, its captured
    bytes, its length, its time (ns since 1970), its link type, and the number of its interface (0
    if the format has none)."""

    data: bytes
    start: Integers
    captured: Integers
    length: Integers
    time_ns: Integers
    link: Integers
    interface: Integers


@dataclass(slots=True)
class PacketReader:
    """The packets of a file, and its problems, which are known when all pieces are read.

    `damage` says what and where, in bytes from the begin of the (decompressed) file. `untimed` are
    the packets without a time, which get that of the previous packet.
    """

    path: Path
    damage: list[str] = field(default_factory=list)
    form: str = ""
    untimed: int = 0

    def pieces(self) -> Iterator[Records]:
        """UsageError if this is not a capture; OSError if it cannot be read."""
        with self.path.open("rb") as file:
            blocks = self._blocks(file)
            first = b""
            while len(first) < _PCAP_HEADER and (block := next(blocks, b"")):
                first += block
            if first[:4] in _PCAP and len(first) >= _PCAP_HEADER:
                self.form = f"pcap{self.form}"
                yield from self._bounded(self._read(_Pcap(first), first, blocks))
            elif first[:4] == _SECTION_START and first[8:12] in _BYTE_ORDER:
                self.form = f"pcapng{self.form}"
                yield from self._bounded(self._read(_Pcapng(self), first, blocks))
            else:
                what = "empty" if not first else "not a capture: neither pcap nor pcapng"
                raise UsageError(
                    f"{self.path}: {what}",
                    remedy="netesto packets reads files of tcpdump -w, dumpcap and Wireshark, also"
                    " compressed with gzip.",
                )

    def _bounded(self, pieces: Iterator[Records]) -> Iterator[Records]:
        count = 0
        for piece in pieces:
            yield piece
            count += len(piece.start)
            if count > PACKETS_MAX:
                self.damage.append(f"{count} packets: the rest of the file was not read")
                return

    def _read(
        self, form: "_Pcap | _Pcapng", first: bytes, blocks: Iterator[bytes]
    ) -> Iterator[Records]:
        place, rest = form.begin, b""
        for piece in _joined(first[place:], blocks):
            data = rest + piece
            at, fault = yield from form.packets(data)
            if fault:
                self.damage.append(f"byte {place + at}: {fault}: the rest of the file was not read")
                return
            rest, place = data[at:], place + at
        if rest:
            self.damage.append(
                f"byte {place}: the file ends inside a {form.unit} ({len(rest)} bytes of it are"
                " there)"
            )

    def _blocks(self, file: BinaryIO) -> Iterator[bytes]:
        """The bytes of the file, decompressed."""
        start, begun = file.read(len(_GZIP)), os.fstat(file.fileno())
        file.seek(0)
        if start == _GZIP:
            self.form = ", gzip"
            yield from self._decompressed(file)
        else:
            while block := file.read(PIECE_BYTES):
                yield block
        if (size := os.fstat(file.fileno()).st_size) != begun.st_size:
            self.damage.append(
                f"the file changed: it had {begun.st_size} bytes before it was read, and {size}"
                " after it; read it again when it is complete"
            )

    def _decompressed(self, file: BinaryIO) -> Iterator[bytes]:
        machine = zlib.decompressobj(wbits=_GZIP_WINDOW)
        block = b""
        try:
            while block := block or file.read(_GZIP_READ):
                if machine.eof:
                    machine = zlib.decompressobj(wbits=_GZIP_WINDOW)
                if found := machine.decompress(block, PIECE_BYTES):
                    yield found
                block = machine.unused_data if machine.eof else machine.unconsumed_tail
            # The rest of the window at the end of the file.
            while not machine.eof and (found := machine.decompress(b"", PIECE_BYTES)):
                yield found
        except zlib.error as error:
            self.damage.append(f"gzip data damaged before byte {file.tell()} of the file: {error}")
            return
        if not machine.eof:
            self.damage.append(f"gzip data end early, at byte {file.tell()} of the file")


def _joined(rest: bytes, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Joins small blocks of gzip to pieces that are worth a call of numpy."""
    held, size = [rest], len(rest)
    for block in blocks:
        held.append(block)
        size += len(block)
        if size >= PIECE_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if size:
        yield b"".join(held)


def _batches(starts: list[int]) -> Iterator[Integers]:
    for first in range(0, len(starts), BATCH):
        yield np.array(starts[first : first + BATCH], np.int64)


# Yields the packets of the complete records in some data; returns the place of the rest, and what
# is impossible about it.
Packets: TypeAlias = Generator[Records, None, tuple[int, str]]


class _Pcap:
    """The records of a pcap file."""

    begin, unit = _PCAP_HEADER, "packet"

    def __init__(self, header: bytes) -> None:
        self._order, self._unit_ns = _PCAP[header[:4]]
        # The upper bits describe a frame check sequence.
        (link,) = struct.unpack_from(f"{self._order}I", header, 20)
        self._link = link & 0xFFFF

    def packets(self, data: bytes) -> Packets:
        starts, at, size = self._starts(data)
        for batch in _batches(starts):
            yield self._records(data, batch)
        return at, f"a packet of {size} bytes" if size > PACKET_BYTES_MAX else ""

    def _starts(self, data: bytes) -> tuple[list[int], int, int]:
        """The starts of complete records, the place after them, and the length of the last record:
        reading ends at an impossible one.

        The length of each record gives the start of the next. This loop is the only step that numpy
        cannot do, and takes a fifth of the time of a packet.
        """
        read = struct.Struct(f"{self._order}I").unpack_from
        starts: list[int] = []
        note = starts.append
        at, last, end, size = 0, len(data) - _RECORD_HEADER, len(data), 0
        while at <= last:
            (size,) = read(data, at + 8)
            following = at + _RECORD_HEADER + size
            if size > PACKET_BYTES_MAX or following > end:
                break
            note(at)
            at = following
        return starts, at, size

    def _records(self, data: bytes, starts: Integers) -> Records:
        octets = Octets(data, self._order)
        return Records(
            data=data,
            start=starts + _RECORD_HEADER,
            captured=octets.u32(starts + 8),
            length=octets.u32(starts + 12),
            time_ns=octets.u32(starts) * _SECOND_NS + octets.u32(starts + 4) * self._unit_ns,
            link=np.full(len(starts), self._link, np.int64),
            interface=np.zeros(len(starts), np.int64),
        )


@dataclass(frozen=True, slots=True)
class _Interface:
    """An interface of a pcapng section: its link type, and the unit of its times."""

    link: int
    snap: int
    resolution: int = 6
    offset_s: int = 0


class _Pcapng:
    """The blocks of a pcapng file."""

    begin, unit = 0, "block"

    def __init__(self, reader: PacketReader) -> None:
        self._reader = reader
        self._order: Literal["<", ">"] = "<"
        self._interfaces: list[_Interface] = []
        self._sections = 0
        self._last_ns = 0

    def packets(self, data: bytes) -> Packets:
        at = 0
        while True:
            # Until the piece or the section ends.
            starts, following, fault = self._walk(data, at)
            for batch in _batches(starts):
                yield self._records(data, batch)
            is_stuck, at = following == at, following
            if fault or is_stuck or not data.startswith(_SECTION_START, at):
                return at, fault

    def _walk(self, data: bytes, at: int) -> tuple[list[int], int, str]:
        """The places of packets up to the next section, the last whole block, or an impossible one;
        the place of what follows; and what is impossible about it."""
        starts: list[int] = []
        note = starts.append
        end = len(data)
        if data.startswith(_SECTION_START, at):
            if at + _SECTION_MIN > end:
                return starts, at, ""
            at, fault = self._section(data, at)
            if fault:
                return starts, at, fault
        read = struct.Struct(f"{self._order}II").unpack_from
        while at + 12 <= end:
            kind, length = read(data, at)
            following = at + length
            if kind == _SECTION:
                break
            if length < 12 or length % 4 or length > BLOCK_BYTES_MAX:
                return starts, at, f"a block of {length} bytes"
            if following > end:
                break
            if kind in _PACKET_MIN:
                if length < _PACKET_MIN[kind]:
                    return starts, at, f"a packet block of {length} bytes"
                note(at)
            elif kind == _INTERFACE:
                if length < _INTERFACE_MIN or len(self._interfaces) >= INTERFACES_MAX:
                    return starts, at, "an impossible interface"
                self._interfaces.append(_interface(data, at, length, self._order))
            if read(data, following - 8)[1] != length:
                return starts, at, "a block whose two lengths differ"
            at = following
        return starts, at, ""

    def _section(self, data: bytes, at: int) -> tuple[int, str]:
        """Begin a section; the place after its header, or `at` until its rest was read or if it is
        impossible, and why."""
        order = _BYTE_ORDER.get(data[at + 8 : at + 12])
        if order is None:
            return at, "a section without byte order"
        (length,) = struct.unpack_from(f"{order}I", data, at + 4)
        if length < _SECTION_MIN or length % 4 or length > BLOCK_BYTES_MAX:
            return at, f"a section header of {length} bytes"
        if at + length > len(data):
            return at, ""
        if self._sections == SECTIONS_MAX:
            return at, f"more than {SECTIONS_MAX} sections"
        self._sections += 1
        self._order = order
        self._interfaces = []
        return at + int(length), ""

    def _records(self, data: bytes, blocks: Integers) -> Records:
        octets = Octets(data, self._order)
        kind, length = octets.u32(blocks), octets.u32(blocks + 4)
        is_simple = kind == _SIMPLE
        # A packet of an undescribed interface has no valid link type.
        interfaces = [*self._interfaces, _Interface(link=-1, snap=0)]
        number = np.where(kind == _OBSOLETE, octets.u16(blocks + 8), octets.u32(blocks + 8))
        number = np.where(is_simple, 0, number)
        number = np.minimum(number, len(interfaces) - 1)
        snaps = np.array([each.snap or PACKET_BYTES_MAX for each in interfaces], np.int64)[number]
        original = octets.u32(blocks + np.where(is_simple, 8, 24))
        captured = np.where(is_simple, np.minimum(original, snaps), octets.u32(blocks + 20))
        room = length - np.where(is_simple, _PACKET_MIN[_SIMPLE], _PACKET_MIN[_ENHANCED])
        ticks = (octets.u32(blocks + 12).astype(np.uint64) << np.uint64(32)) | octets.u32(
            blocks + 16
        ).astype(np.uint64)
        links = np.array([each.link for each in interfaces], np.int64)
        return Records(
            data=data,
            start=blocks + np.where(is_simple, 12, 28),
            captured=np.minimum(captured, room),
            length=original,
            time_ns=self._times(ticks, number, is_simple, interfaces),
            link=links[number],
            interface=number,
        )

    def _times(
        self, ticks: np.ndarray, number: Integers, is_untimed: np.ndarray, known: list[_Interface]
    ) -> Integers:
        times = np.zeros(len(ticks), np.int64)
        for each in np.unique(number).tolist():
            chosen = number == each
            interface = known[each]
            offset_ns = max(-(2**62), min(2**62, interface.offset_s * _SECOND_NS))
            times[chosen] = _nanoseconds(ticks[chosen], interface.resolution) + offset_ns
        if is_untimed.any():
            self._reader.untimed += int(is_untimed.sum())
            # The place of the last packet with a time, for each; -1 before the first.
            place = np.maximum.accumulate(np.where(is_untimed, -1, np.arange(len(times))))
            times = np.where(place < 0, self._last_ns, times[place])
        self._last_ns = int(times[-1])
        return times


def _interface(data: bytes, at: int, length: int, order: str) -> _Interface:
    link, snap = struct.unpack_from(f"{order}H2xI", data, at + 8)
    found = {_IF_TSRESOL: 6, _IF_TSOFFSET: 0}
    option, end = at + 16, at + length - 4
    while option + 4 <= end:
        code, size = struct.unpack_from(f"{order}HH", data, option)
        if code == 0 or option + 4 + size > end:
            break
        if code == _IF_TSRESOL and size == 1:
            found[code] = data[option + 4]
        elif code == _IF_TSOFFSET and size == 8:
            (found[code],) = struct.unpack_from(f"{order}q", data, option + 4)
        option += 4 + (size + 3) // 4 * 4
    return _Interface(link, snap, found[_IF_TSRESOL], found[_IF_TSOFFSET])


def _nanoseconds(ticks: np.ndarray, resolution: int) -> Integers:
    """Times in units of 10^-r s, or, if the upper bit of r is set, of 2^-r s. Values that exceed 64
    bits wrap around: such times are invalid anyway."""
    exponent = resolution & 0x7F
    if resolution & 0x80:
        if exponent >= 64:
            return np.zeros(len(ticks), np.int64)
        seconds = ticks >> np.uint64(exponent)
        fraction = ticks & np.uint64((1 << exponent) - 1)
        return (seconds * np.uint64(_SECOND_NS)).astype(np.int64) + (
            fraction.astype(np.float64) * (_SECOND_NS / 2.0**exponent)
        ).astype(np.int64)
    if exponent <= 9:
        return (ticks * np.uint64(10 ** (9 - exponent))).astype(np.int64)
    return (ticks // np.uint64(10 ** min(exponent - 9, 19))).astype(np.int64)
