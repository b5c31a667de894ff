"""Netlink requests to the kernel, and to a stand-in whose replies are prepared."""

import contextlib
import errno
import socket
import struct
from collections.abc import Iterator

import pytest

from netesto.collectors.netlink import Netlink, attribute, attributes, opened

RTM_GETROUTE, RTA_DST = 26, 1
MULTI, INTERRUPTED = 0x2, 0x10
DATA, ERROR, DONE = 16, 2, 3


def message(kind: int, content: bytes, *, sequence: int = 1, flags: int = MULTI) -> bytes:
    size = 16 + len(content)
    return struct.pack("=IHHII", size, kind, flags, sequence, 0) + content + bytes(-size % 4)


def result(kind: int, error: int = 0, *, sequence: int = 1) -> bytes:
    return message(kind, struct.pack("=i", -error), sequence=sequence)


@contextlib.contextmanager
def replying(*datagrams: bytes, refusal: str = "") -> Iterator[Netlink]:
    """Send requests, numbered from 1, to a stand-in for the kernel with these replies."""
    ours, kernels = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, kernels:
        for each in datagrams:
            kernels.send(each)
        yield Netlink(ours, refusal=refusal)


def test_a_dump_is_what_comes_before_its_end():
    with replying(message(DATA, b"one") + message(DATA, b"two"), result(DONE)) as netlink:
        assert netlink.dump(0, b"") == [b"one", b"two"]


def test_the_end_of_a_dump_may_come_behind_its_data():
    with replying(message(DATA, b"one") + result(DONE)) as netlink:
        assert netlink.dump(0, b"") == [b"one"]


def test_messages_with_equal_headers_come_in_one():
    pair = message(DATA, b"one") + message(DATA, b"two")
    with replying(pair, message(DATA, b"four") + message(DATA, b"5"), result(DONE)) as netlink:
        found = netlink.dump_runs(0, b"")
    assert found == [pair, message(DATA, b"four"), message(DATA, b"5")]


def test_messages_that_follow_another_kind_keep_their_contents():
    mixed = message(DATA, b"one") + message(DATA, b"fifth") + message(DATA, b"two")
    with replying(mixed, result(DONE)) as netlink:
        assert netlink.dump(0, b"") == [b"one", b"fifth", b"two"]


def test_a_request_ends_with_its_acknowledgement():
    with replying(message(DATA, b"one"), result(ERROR), message(DATA, b"late")) as netlink:
        assert netlink.ask(0, b"") == [b"one"]


def test_replies_to_earlier_requests_are_ignored():
    with replying(
        message(DATA, b"old", sequence=0) + result(ERROR, 1, sequence=0), result(DONE)
    ) as n:
        assert n.dump(0, b"") == []


def test_an_interrupted_dump_is_requested_again():
    first = message(DATA, b"half", flags=MULTI | INTERRUPTED) + result(DONE)
    second = message(DATA, b"whole", sequence=2) + result(DONE, sequence=2)
    with replying(first, second) as netlink:
        assert netlink.dump(0, b"") == [b"whole"]


def test_a_dump_that_is_always_interrupted_is_none():
    flags = MULTI | INTERRUPTED
    always = [
        message(DATA, b"half", sequence=number, flags=flags) + result(DONE, sequence=number)
        for number in range(1, 6)
    ]
    with replying(*always) as netlink, pytest.raises(OSError, match="changed during the dump"):
        netlink.dump(0, b"")


@pytest.mark.parametrize("kind", [ERROR, DONE])
@pytest.mark.parametrize(
    ("refusal", "text"), [("", "Operation not permitted"), ("no sockets", "no sockets")]
)
def test_a_refusal_has_its_number_and_text(kind: int, refusal: str, text: str):
    with (
        replying(message(DATA, b"one") + result(kind, errno.EPERM), refusal=refusal) as netlink,
        pytest.raises(PermissionError) as caught,
    ):
        netlink.dump(0, b"")
    assert caught.value.strerror == text


def test_the_kernel_acknowledges_each_request():
    request = struct.pack("=BBBBBBBBI", socket.AF_INET, 32, 0, 0, 0, 0, 0, 0, 0)
    asked = [socket.inet_aton(address) for address in ("127.0.0.1", "127.0.0.2")]
    with contextlib.closing(Netlink(opened(socket.NETLINK_ROUTE))) as netlink:
        routes = [netlink.ask(RTM_GETROUTE, request + attribute(RTA_DST, each)) for each in asked]
    assert [[attributes(each, 12)[RTA_DST] for each in replies] for replies in routes] == [
        [each] for each in asked
    ]
