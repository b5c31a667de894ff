"""The final counters of a socket."""

import contextlib
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto.collectors import sockclosed, sockdiag, socketfile
from netesto.collectors.clock import Clock
from netesto.collectors.sockclosed import ClosedSockets
from netesto.collectors.sockets import SocketRecording
from netesto.measured import SocketSample

SIZE = 100_000
# The kernel counts a FIN with the bytes received.
FIN = 1


@pytest.fixture
def closed() -> Iterator[ClosedSockets]:
    with contextlib.closing(ClosedSockets()) as listening:
        yield listening


@contextlib.contextmanager
def carried(address: str = "127.0.0.1") -> Iterator[int]:
    """A connection over loopback that has carried some data; its server's port. At the end both of
    its sockets are gone."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as server:
        port = server.getsockname()[1]
        with socket.create_connection((address, port)) as client:
            accepted, _ = server.accept()
            with accepted:
                client.sendall(b"x" * SIZE)
                left = SIZE
                while left:
                    left -= len(accepted.recv(left))
                yield port
                client.shutdown(socket.SHUT_WR)
                assert accepted.recv(1) == b""


def reported(closed: ClosedSockets, path: Path, *ports: int) -> list[SocketSample]:
    """What was heard of sockets with one of these ports: others on this machine end, too."""
    recorder = socketfile.Recorder(sockdiag.tcp_info_bytes())
    recorder.add(1.0, 1.0, list(closed.reports()))
    path.write_bytes(recorder.end())
    return [each for each in socketfile.read(path) if {each.local_port, each.peer_port} & {*ports}]


def both(closed: ClosedSockets, path: Path, *ports: int) -> list[SocketSample]:
    """The two sockets of a connection with one of these ports; the kernel reports them a moment
    after their end."""
    found: list[SocketSample] = []
    while len(found) < 2:
        closed_socket = socket.socket(fileno=socket.dup(closed.fileno()))
        with closed_socket:
            closed_socket.settimeout(60)
            closed_socket.recv(1, socket.MSG_PEEK)
        found += reported(closed, path, *ports)
    return found


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_the_ends_of_a_connection_tell_all_that_it_carried(closed, address, tmp_path):
    with carried(address) as port:
        closed.listen_to([(port, port)])
    found = {
        (each.peer_port == port, each.state, each.bytes_received)
        for each in both(closed, tmp_path / "ended", port)
    }
    assert found == {(True, "CLOSE", FIN), (False, "CLOSE", SIZE + FIN)}


def test_of_the_sender_segments_are_known(closed, tmp_path):
    with carried() as port:
        closed.listen_to([(port, port)])
    (sender,) = [each for each in both(closed, tmp_path / "ended", port) if each.peer_port == port]
    assert sender.total_retransmits == 0
    assert 0 < (sender.data_segments_out or 0) < (sender.segments_out or 0)


def test_other_ports_are_not_heard_of(closed, tmp_path):
    with carried() as port:
        closed.listen_to([(port + 1, port + 1)])
        with carried() as other:
            closed.listen_to([(other, other)])
    assert {
        other in (each.local_port, each.peer_port)
        for each in both(closed, tmp_path / "ended", port, other)
    } == {True}
    assert reported(closed, tmp_path / "ended", port, other) == []


def passes(ranges: Sequence[tuple[int, int]], *, local: int, peer: int) -> bool:
    """The result of the filter's instructions, as the kernel would run them."""
    code = sockclosed._filter(ranges)
    program = list(sockclosed._INSTRUCTION.iter_unpack(code))
    message = {20: local, 22: peer}
    loaded, place = 0, 0
    while True:
        kind, on_true, on_false, value = program[place]
        place += 1
        match kind:
            case sockclosed._LOAD:
                loaded = message[value]
            case sockclosed._AT_LEAST:
                place += on_true if loaded >= value else on_false
            case sockclosed._MORE_THAN:
                place += on_true if loaded > value else on_false
            case _:
                return bool(value)


PORTS = st.integers(1, 65535)


@given(st.lists(st.tuples(PORTS, PORTS).map(sorted).map(tuple), max_size=4), PORTS, PORTS)
def test_the_filter_passes_what_has_a_port_of_a_range_at_either_end(ranges, local, peer):
    within = any(first <= port <= last for first, last in ranges for port in (local, peer))
    assert passes(ranges, local=local, peer=peer) is within


def test_more_ranges_than_a_filter_holds_are_one(closed, tmp_path):
    with carried() as port:
        closed.listen_to([*((at, at) for at in range(2, 2002, 2)), (port, port)])
    assert len(both(closed, tmp_path / "ended", port)) == 2


# ---- the recording ---------------------------------------------------------------------------


def kept(path, closed: ClosedSockets, *, to_the_end: bool) -> list[SocketSample]:
    """The record of a connection that begins and ends between two ticks."""
    recording = SocketRecording(path, Clock(), sockdiag.tcp_info_bytes(), pytest.fail)
    with carried() as port:
        closed.listen_to([(port, port)])
        recording.watch({"ports": [], "to_the_end": [(port, port)] if to_the_end else []})
    # The first listener is notified last: what reached us has reached the recording.
    both(closed, path.with_name("ended"), port)
    recording.close()
    return socketfile.read(path)


def test_the_file_holds_what_ended_between_ticks(tmp_path, closed):
    found = kept(tmp_path / "sockets.bin.gz", closed, to_the_end=True)
    assert [each.state for each in found] == ["CLOSE", "CLOSE"]
    assert max(each.bytes_received or 0 for each in found) == SIZE + FIN


def test_connections_of_single_transactions_are_not_listened_to(tmp_path, closed):
    assert kept(tmp_path / "sockets.bin.gz", closed, to_the_end=False) == []
