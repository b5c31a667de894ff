import contextlib
import operator
import os
import resource
import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import ss_text

from netesto import process
from netesto.collectors import netlink, sockdiag, socketfile
from netesto.collectors.clock import Clock
from netesto.collectors.sockdiag import SocketDiagnosis
from netesto.collectors.socketfile import Recorder
from netesto.collectors.sockets import SocketRecording
from netesto.results import sockets as arrays

# ---- the kernel's reports --------------------------------------------------------------------


def reported(ranges: Sequence[tuple[int, int]]) -> list[bytes]:
    with contextlib.closing(SocketDiagnosis()) as diagnosis:
        return diagnosis.sockets(sockdiag.with_ports(ranges))


def count(runs: Sequence[bytes]) -> int:
    return sum(len(run) // netlink.message_bytes(run) for run in runs)


@pytest.fixture(params=["127.0.0.1", "::1"])
def server_port(request) -> Iterator[int]:
    """The server's port of a quiet TCP connection over loopback that has carried some data."""
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    with socket.create_server((request.param, 0), family=family) as server:
        port = server.getsockname()[1]
        with socket.create_connection((request.param, port)) as client:
            accepted, _ = server.accept()
            with accepted:
                client.sendall(b"x" * 100_000)
                left = 100_000
                while left:
                    left -= len(accepted.recv(left))
                yield port


def test_the_kernel_reports_to_us_what_it_reports_to_ss(server_port, tmp_path):
    words = f"( sport = :{server_port} or dport = :{server_port} )"
    printed = process.run(["ss", "-tmiOHn", words], timeout=5).stdout
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
