"""HTTP/2 (RFC 9113) without a gRPC library, valid or not."""

import json
import random
import struct
from collections.abc import Iterator

from netesto.hostsettings import Sysctl
from netesto.proto import messages as pb
from netesto.schema import tagged

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, SETTINGS = 0x0, 0x1, 0x4
END_STREAM, END_HEADERS = 0x1, 0x4

# SETTINGS_MAX_FRAME_SIZE of a peer that has not said otherwise.
FRAME_BYTES = 16384


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def field(name: bytes, value: bytes) -> bytes:
    """A literal header field that is not indexed, without Huffman coding (RFC 7541, 6.2.2)."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def request(path: bytes, message: bytes, *, stream: int = 1, token: bytes = b"") -> bytes:
    """The frames of one call."""
    headers = b"".join(
        field(name, value)
        for name, value in (
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", path),
            (b":authority", b"agent"),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
            (b"netesto-hold", token),
        )
    )
    body = b"\0" + struct.pack(">I", len(message)) + message
    pieces = [body[at : at + FRAME_BYTES] for at in range(0, len(body), FRAME_BYTES)]
    return b"".join(
        (
            frame(HEADERS, END_HEADERS, stream, headers),
            *(frame(DATA, 0, stream, piece) for piece in pieces[:-1]),
            frame(DATA, END_STREAM, stream, pieces[-1]),
        )
    )


def connection(*requests: bytes) -> bytes:
    """All that a client sends on a connection."""
    return PREFACE + frame(SETTINGS, 0, 0, b"") + b"".join(requests)


_START = pb.StartRequest(
    request=pb.GroupRequest(
        exp=1, group=1, options={"test": '"TCP_STREAM"', "tool": '"netperf"', "instances": "2"}
    ),
    ports=pb.Ports(control=[12865], data=[20000]),
)

_CALLS = (
    ("Info", pb.Nothing()),
    ("Hold", pb.HoldRequest(controller="c", run="r")),
    ("Configure", pb.Setting(setting=json.dumps(tagged.record(Sysctl("net.ipv4.tcp_ecn", "1"))))),
    ("Start", _START),
    ("Fetch", pb.FetchRequest(exp=1, paths=["flow.1.1.out", "../journal"])),
    ("Release", pb.Nothing()),
)


def hostile(count: int, *, seed: int) -> Iterator[bytes]:
    """Random, mutated and truncated streams, messages and paths. Hardly any path is not UTF-8: that
    makes gRPC's server deaf."""
    numbers = random.Random(seed)
    for _ in range(count):
        name, message = numbers.choice(_CALLS)
        path, body = f"/netesto.v1.Agent/{name}".encode(), message.SerializeToString()
        match numbers.randrange(6):
            case 0:
                yield numbers.randbytes(numbers.randrange(1, 400))
            case 1:
                yield connection(request(_utf8(numbers.randbytes(numbers.randrange(40))), body))
            case 2:
                yield connection(request(_utf8(_mutated(path, numbers)), body))
            case 3:
                yield connection(request(path, _mutated(body + b"\0", numbers)))
            case 4:
                whole = connection(request(path, body))
                # With its length, whose first bit says that it is compressed.
                at, end = whole.index(path) - 1, whole.index(path) + len(path)
                mutated = _mutated(whole, numbers)
                yield mutated[:at] + whole[at:end] + mutated[end:]
            case _:
                whole = connection(request(path, body))
                yield whole[: numbers.randrange(len(whole))]


def _utf8(content: bytes) -> bytes:
    return content.decode("latin-1").encode()


def _mutated(content: bytes, numbers: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(numbers.randrange(1, 8)):
        changed[numbers.randrange(len(changed))] = numbers.randrange(256)
    return bytes(changed)
