import os
import socket
from contextlib import closing

from netesto.agent import listening
from netesto.agent.listening import ListeningSocket
from netesto.system import process

# As Linux 6.18 prints them, addresses and columns cut to what matters.
TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:3241 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 711 1 0
   1: 0100007F:3242 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 712 1 0
"""
TCP6 = """\
  sl  local_address                         remote_address                        st tx_queue
   0: 00000000000000000000000000000000:3264 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 9
"""


def test_only_listening_sockets_are_found():
    assert list(listening.parse(TCP.splitlines())) == [ListeningSocket(12865, "711")]


def test_sockets_of_ipv6_are_found():
    assert list(listening.parse(TCP6.splitlines())) == [ListeningSocket(12900, "9")]


def test_the_kernel_tells_the_same_as_proc():
    with (
        closing(socket.create_server(("127.0.0.1", 0))),
        closing(socket.create_server(("::1", 0), family=socket.AF_INET6)) as other,
        closing(socket.create_connection(("::1", other.getsockname()[1]))),
    ):
        port = other.getsockname()[1]
        # The kernel may have its last packet to handle still.
        assert process.wait_until(lambda: listening.waiting(port) == 1, timeout=60)
        found, there = (
            {each for each in every if each.port == port}
            for every in (listening.listeners(), listening.from_proc())
        )
        assert found == there
        assert [each.waiting for each in found] == [1]


def test_process_listens_on_its_port():
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        assert listening.listens(os.getpid(), server.getsockname()[1])


def test_process_does_not_listen_on_the_port_of_another():
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        assert not listening.listens(os.getppid(), server.getsockname()[1])


def test_connections_that_nobody_accepts_are_counted():
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        with closing(socket.create_connection(("127.0.0.1", port))):
            # The kernel may have its last packet to handle still.
            process.wait_until(lambda: listening.waiting(port) == 1, timeout=60)
            before = listening.waiting(port)
            accepted, _ = server.accept()
            accepted.close()
            assert (before, listening.waiting(port)) == (1, 0)


def test_port_is_free_when_its_server_is_closed():
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        taken = listening.ports()
    assert (port in taken, port in listening.ports()) == (True, False)
