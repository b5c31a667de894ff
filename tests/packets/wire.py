"""Packets and captures, byte by byte."""

import gzip
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

FIN, SYN, RST, PUSH, ACK = 1, 2, 4, 8, 16

CLIENT, SERVER = "10.0.0.1", "10.0.0.2"
CLIENT_PORT, SERVER_PORT = 40000, 5201

ETHERNET = bytes(12) + b"\x08\x00"


def tcp(
    sequence: int,
    acknowledged: int,
    flags: int,
    *,
    ports: tuple[int, int] = (CLIENT_PORT, SERVER_PORT),
    window: int = 1000,
    options: bytes = b"",
    payload: bytes = b"",
) -> bytes:
    options += bytes(-len(options) % 4)
    header = struct.pack(
        ">HHIIBBHHH", *ports, sequence % 2**32, acknowledged % 2**32,
        (20 + len(options)) // 4 << 4, flags, window, 0, 0,
    )  # fmt: skip
    return header + options + payload


def udp(payload: bytes, ports: tuple[int, int] = (CLIENT_PORT, SERVER_PORT)) -> bytes:
    return struct.pack(">HHHH", *ports, 8 + len(payload), 0) + payload


def ip(
    segment: bytes, source: str = CLIENT, target: str = SERVER, *, options: bytes = b"",
    length: int | None = None, offset: int = 0, protocol: int = 6, identification: int = 0,
    hops: int = 64,
) -> bytes:  # fmt: skip
    """An IP packet of either version, by its addresses."""
    ends = ip_address(source).packed + ip_address(target).packed
    if len(ends) == 32:
        return struct.pack(">IHBB", 6 << 28, len(segment), protocol, hops) + ends + segment
    size = 20 + len(options)
    total = size + len(segment) if length is None else length
    header = struct.pack(
        ">BBHHHBBH", 0x40 | size // 4, 0, total, identification, offset, hops, protocol, 0
    )  # fmt: skip
    return header + ends + options + segment


def stamps(stamp: int, echo: int) -> bytes:
    return struct.pack(">BBBBII", 1, 1, 8, 10, stamp, echo)


def sack(*blocks: tuple[int, int]) -> bytes:
    ends = b"".join(struct.pack(">II", left % 2**32, right % 2**32) for left, right in blocks)
    return bytes((1, 1, 5, 2 + len(ends))) + ends


def mss(size: int) -> bytes:
    return struct.pack(">BBH", 2, 4, size)


def cooked_2(interface: int, direction: int, kind: int) -> bytes:
    """A header of LINKTYPE_LINUX_SLL2."""
    return struct.pack(">HHIHBB8x", kind, 0, interface, 1, direction, 6)


@dataclass(frozen=True, slots=True)
class Frame:
    """A packet, when it was captured, and how long it was (None: as long as `data`)."""

    time_ns: int
    data: bytes
    length: int | None = None

    @property
    def original(self) -> int:
        return len(self.data) if self.length is None else self.length


def pcap(frames: Iterable[Frame], *, order: str = "<", unit_ns: int = 1000, link: int = 1) -> bytes:
    magic = 0xA1B2C3D4 if unit_ns == 1000 else 0xA1B23C4D
    found = [struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 262144, link)]
    for frame in frames:
        seconds, rest = divmod(frame.time_ns, 10**9)
        header = (seconds, rest // unit_ns, len(frame.data), frame.original)
        found += [struct.pack(f"{order}IIII", *header), frame.data]
    return b"".join(found)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    size = struct.pack(f"{order}I", 12 + len(body))
    return struct.pack(f"{order}I", kind) + size + body + size


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(
    order: str = "<", *, link: int = 1, snap: int = 0, options: Sequence[tuple[int, bytes]] = ()
) -> bytes:
    body = struct.pack(f"{order}HHI", link, 0, snap)
    for code, value in options:
        body += struct.pack(f"{order}HH", code, len(value)) + value + bytes(-len(value) % 4)
    return block(1, body + bytes(4), order)


def enhanced(ticks: int, frame: Frame, order: str = "<", number: int = 0) -> bytes:
    body = struct.pack(
        f"{order}IIIII", number, ticks >> 32, ticks % 2**32, len(frame.data), frame.original
    )
    return block(6, body + frame.data, order)


def simple(frame: Frame, order: str = "<") -> bytes:
    return block(3, struct.pack(f"{order}I", frame.original) + frame.data, order)


@dataclass
class Wire:
    """A connection that is captured: the client has sequence numbers from 1000, the server from
    2000; `sent(0, 100)` are the client's first 100 bytes. Times are ms."""

    frames: list[Frame] = field(default_factory=list)

    def _put(self, time_ms: float, segment: bytes, *, by_client: bool) -> None:
        ends = (CLIENT, SERVER) if by_client else (SERVER, CLIENT)
        self.frames.append(Frame(round((1_000_000 + time_ms) * 1e6), ETHERNET + ip(segment, *ends)))

    def client(self, time_ms: float, begin: int, flags: int = ACK, **rest: Any) -> None:
        """A packet of the client, whose data begin at byte `begin`."""
        rest.setdefault("acknowledged", 2001)
        self._put(time_ms, tcp(1001 + begin, rest.pop("acknowledged"), flags, **rest),
                  by_client=True)  # fmt: skip

    def server(self, time_ms: float, acked: int, flags: int = ACK, **rest: Any) -> None:
        """A packet of the server that acknowledges `acked` bytes; SACK blocks count bytes, too."""
        blocks = [(1001 + left, 1001 + right) for left, right in rest.pop("blocks", ())]
        options = rest.pop("options", b"") + (sack(*blocks) if blocks else b"")
        begin = rest.pop("begin", 0)
        self._put(
            time_ms,
            tcp(2001 + begin, 1001 + acked, flags, ports=(SERVER_PORT, CLIENT_PORT),
                options=options, **rest),
            by_client=False,
        )  # fmt: skip

    def opened(self, time_ms: float = 0, *, to_server_ms: float = 40, size: int = 1460) -> "Wire":
        """The handshake, captured at the client."""
        self.client(time_ms, -1, SYN, acknowledged=0, options=mss(size))
        self.server(time_ms + to_server_ms, 0, SYN | ACK, begin=-1, options=mss(size))
        self.client(time_ms + to_server_ms, 0)
        return self

    def sent(self, time_ms: float, begin: int, end: int, **rest: Any) -> None:
        self.client(time_ms, begin, ACK | PUSH, payload=bytes(end - begin), **rest)

    def write(self, path: Path, *, compressed: bool = False) -> Path:
        data = pcap(self.frames, unit_ns=1)
        path.write_bytes(gzip.compress(data) if compressed else data)
        return path
