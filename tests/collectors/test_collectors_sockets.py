import contextlib
import errno
import operator
import os
import resource
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import ss_text

from netesto.collectors import netlink, sockdiag, socketfile, sockets
from netesto.collectors.clock import Clock
from netesto.collectors.eachsocket import EachSocket
from netesto.collectors.sockdiag import SocketDiagnosis
from netesto.collectors.socketfile import Recorder
from netesto.collectors.sockets import SocketRecording
from netesto.results import sockets as arrays
from netesto.system import process

# ---- the kernel's reports --------------------------------------------------------------------


def reported(ranges: Sequence[tuple[int, int]]) -> list[bytes]:
    with contextlib.closing(SocketDiagnosis()) as diagnosis:
        return diagnosis.sockets(sockdiag.with_ports(ranges))


def count(runs: Sequence[bytes]) -> int:
    return sum(len(run) // netlink.message_bytes(run) for run in runs)


@contextlib.contextmanager
def listening(address: str) -> Iterator[socket.socket]:
    """A server. Nobody else on this machine has a connection from the port below its own: that is
    bound."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    every = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    while True:
        with socket.create_server((address, 0), family=family) as server, socket.socket(every) as b:
            if every == socket.AF_INET6:
                b.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            try:
                b.bind(("", server.getsockname()[1] - 1))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
            yield server
            return


@pytest.fixture(params=["127.0.0.1", "::1"])
def server_port(request) -> Iterator[int]:
    """The server's port of a quiet TCP connection over loopback that has carried some data. The
    port below it has no connection."""
    with listening(request.param) as server:
        port = server.getsockname()[1]
        with socket.create_connection((request.param, port)) as client:
            accepted, _ = server.accept()
            with accepted:
                client.sendall(b"x" * 100_000)
                left = 100_000
                while left:
                    left -= len(accepted.recv(left))
                yield port


def test_a_socket_is_reported_by_itself_as_among_all(server_port, tmp_path):
    ranges = [(server_port, server_port)]
    files: list[Path] = []
    with contextlib.closing(SocketDiagnosis()) as diagnosis:
        found = diagnosis.messages(sockdiag.with_ports(ranges))
        for runs in (reported(ranges), [run for each in found for run in diagnosis.one(each)]):
            recorder = Recorder(sockdiag.tcp_info_bytes())
            recorder.add(1.0, 1.0, runs)
            files.append(tmp_path / f"{len(files)}.bin.gz")
            files[-1].write_bytes(recorder.end())
    by_port = operator.attrgetter("local_port")
    all_, each = (sorted(socketfile.read(path), key=by_port) for path in files)
    assert (len(all_), each) == (2, all_)


class Kernel:
    """Makes who asks for a `busy` socket wait until it is free; each wait takes a second."""

    def __init__(self, *busy: bytes) -> None:
        self.busy, self.free, self.time_s = {*busy}, threading.Event(), 0.0

    def one(self, message: bytes) -> list[bytes]:
        if message in self.busy:
            assert self.free.wait(60)
            self.busy.discard(message)
            self.time_s += 1.0
        return [message]

    def close(self) -> None: ...


A, B, C = (letter * sockdiag.MESSAGE_BYTES for letter in (b"A", b"B", b"C"))


@pytest.fixture
def each_of() -> Iterator[Callable[[Kernel], EachSocket]]:
    """Asks a kernel for sockets one by one."""
    with contextlib.ExitStack() as stack:

        def made(kernel: Kernel) -> EachSocket:
            found = EachSocket(
                lambda: kernel.time_s, os.sched_getaffinity(0), opened=lambda: cast("Any", kernel)
            )
            stack.callback(found.close)
            stack.callback(kernel.free.set)
            return found

        yield made


def replies(each: EachSocket, number: int) -> list[tuple[float, float, list[bytes]]]:
    """So many replies, whenever they come."""
    found: list[tuple[float, float, list[bytes]]] = []

    def are_there() -> bool:
        found.extend(each.take([], patience_s=0.01))
        return len(found) >= number

    assert process.wait_until(are_there, timeout=60)
    return found


def test_a_socket_in_use_delays_no_other_and_is_waited_for_once(each_of):
    kernel = Kernel(A)
    each = each_of(kernel)
    first = each.take([A, B, C], patience_s=0.0) + replies(each, 2)
    second = each.take([A, B], patience_s=0.0) + replies(each, 1)
    kernel.free.set()
    third = replies(each, 1)
    assert [sorted(reply[2] for reply in part) for part in (first, second, third)] == [
        [[B], [C]],
        [[B]],
        [[A]],
    ]


def test_a_socket_that_was_waited_for_is_read_again_at_a_known_instant(each_of):
    kernel = Kernel(A)
    kernel.free.set()
    each = each_of(kernel)
    assert each.take([A], patience_s=0.0) + replies(each, 1) == [(1.0, 1.0, [A])]


def test_after_a_wait_each_sample_has_an_instant_of_its_own(server_port, tmp_path, monkeypatch):
    # The two clocks of a thread that only computes may differ a little.
    monkeypatch.setattr(sockets, "_WAITED_NS", -1_000_000_000)
    monkeypatch.setattr(sockets, "_PATIENCE_S", 60.0)
    path = tmp_path / "sockets.bin.gz"
    recording = SocketRecording(path, Clock(), sockdiag.tcp_info_bytes(), lambda _: None)
    recording.watch({"ports": [(server_port, server_port)], "to_the_end": []})
    recording.sample()
    recording.sample()
    recording.close()
    times = [each.time_s for each in socketfile.read(path)]
    assert (len(times), len(set(times))) == (4, 3)


def test_the_kernel_reports_to_us_what_it_reports_to_ss(server_port, tmp_path):
    words = f"( sport = :{server_port} or dport = :{server_port} )"
    printed = process.run(["ss", "-tmieOHn", words], timeout=60).stdout
    recorder = Recorder(sockdiag.tcp_info_bytes())
    recorder.add(1.0, 1.0, reported([(server_port, server_port)]))
    path = tmp_path / "sockets.bin.gz"
    path.write_bytes(recorder.end())
    by_port = operator.attrgetter("local_port")
    # ss rounds these times.
    samples = [
        replace(each, busy_us=None, window_limited_us=None, buffer_limited_us=None)
        for each in socketfile.read(path)
    ]
    assert sorted(samples, key=by_port) == sorted(
        [ss_text.parse(line, 1.0) for line in printed.splitlines()], key=by_port
    )


def test_a_port_within_a_range_is_reported(server_port):
    assert count(reported([(server_port - 1, server_port + 1)])) >= 2


def test_of_many_ports_the_last_is_reported_like_the_first(server_port):
    others = [(port, port) for port in range(2, 402, 2)]
    both = ([(server_port, server_port), *others], [*others, (server_port, server_port)])
    assert [count(reported(ranges)) for ranges in both] == [2, 2]


def test_of_more_ports_than_a_filter_holds_each_is_reported(server_port):
    others = [(port, port) for port in range(1, 4001, 2)]
    assert count(reported([*others, (server_port, server_port)])) >= 2


def test_other_ports_are_not_reported(server_port):
    assert reported([(server_port - 1, server_port - 1), (2, 2), (3, 9)]) == []


IPPROTO_MPTCP = 262


@contextlib.contextmanager
def connected(address: str, *, protocol: int = 0, control: str = "") -> Iterator[int]:
    """A connection of two sockets whose kind may be missing here; its server's port."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        server = socket.socket(family, socket.SOCK_STREAM, protocol)
        client = socket.socket(family, socket.SOCK_STREAM, protocol)
    except OSError as error:
        pytest.skip(f"this kernel: {error}")
    with server, client:
        if control:
            try:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
            except OSError as error:
                pytest.skip(f"{control}: {error}")
        server.bind((address, 0))
        server.listen()
        client.connect(server.getsockname())
        accepted, _ = server.accept()
        with accepted:
            client.sendall(b"x" * 1000)
            assert accepted.recv(1000)
            yield server.getsockname()[1]


def recorded(path: Path, port: int) -> arrays.Samples:
    """The sample of the client's socket."""
    recorder = Recorder(sockdiag.tcp_info_bytes())
    recorder.add(1.0, 1.0, reported([(port, port)]))
    path.write_bytes(recorder.end())
    samples = arrays.read(path)
    return samples[samples["idiag_dport"] == port]


def test_an_ipv6_socket_that_talks_ipv4_is_reported_with_a_mapped_address(tmp_path):
    with connected("::ffff:127.0.0.1") as port:
        [sample] = recorded(tmp_path / "a", port)
    assert (sample["idiag_family"], sample["idiag_dst"].tobytes()) == (
        socket.AF_INET6,
        socket.inet_pton(socket.AF_INET6, "::ffff:127.0.0.1"),
    )


def test_a_socket_has_the_memory_that_its_options_say(tmp_path):
    with connected("127.0.0.1") as port:
        [sample] = recorded(tmp_path / "a", port)
    assert sample["skmem_rcvbuf"] > 0
    assert sample["skmem_drops"] == 0


def test_subflows_of_mptcp_have_the_token_of_their_connection(tmp_path):
    with connected("127.0.0.1", protocol=IPPROTO_MPTCP) as port:
        [sample] = recorded(tmp_path / "a", port)
    if os.geteuid() != 0:
        pytest.skip("the kernel reports subflows to root")
    assert sample["mptcp_token_loc"] != 0


def test_bbr_says_its_gains(tmp_path):
    with connected("127.0.0.1", control="bbr") as port:
        [sample] = recorded(tmp_path / "a", port)
    # In startup: 2/ln 2 in units of 1/256.
    assert (sample["cc_attribute"], sample["bbr_pacing_gain"]) == (sockdiag.DIAG_BBRINFO, 739)
    assert sample["tcpi_snd_mss"] > 0


def test_a_congestion_control_that_reports_nothing_leaves_its_fields_at_0(tmp_path):
    with connected("127.0.0.1", control="reno") as port:
        [sample] = recorded(tmp_path / "a", port)
    assert (sample["cc_attribute"], sample["congestion_control"]) == (0, b"reno")


# ---- a file while it is written --------------------------------------------------------------


def test_a_kernel_that_refuses_is_a_warning(tmp_path):
    warnings: list[str] = []
    size = sockdiag.tcp_info_bytes()
    with no_more_files():
        recording = SocketRecording(tmp_path / "sockets.bin.gz", Clock(), size, warnings.append)
    recording.sample()
    recording.close()
    assert warnings == [
        "sockets.bin.gz: Too many open files",
        "socket samples are missing: Too many open files",
        "the final counts of sockets are missing: Too many open files",
    ]


def test_ports_no_longer_watched_are_not_sampled(tmp_path, server_port):
    path = tmp_path / "sockets.bin.gz"
    recording = SocketRecording(path, Clock(), sockdiag.tcp_info_bytes(), pytest.fail)
    recording.watch({"ports": [(server_port, server_port)], "to_the_end": []})
    recording.sample()
    recording.watch({"ports": [], "to_the_end": []})
    recording.sample()
    recording.close()
    assert len(socketfile.read(path)) == 2


@contextlib.contextmanager
def no_more_files() -> Iterator[None]:
    """The kernel refuses to open further files and sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Path(os.devnull).open() as last:
        resource.setrlimit(resource.RLIMIT_NOFILE, (last.fileno() + 1, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
