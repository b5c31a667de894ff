"""The key-value store, as clients of memcached use it."""

import contextlib
import errno
import random
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import memcache
import pytest
from memcache.meta_command import MetaCommand
from needs import unmet
from processes import is_alive, serving
from psutil import Process
from pymemcache.client.base import Client as ClassicClient
from pymemcache.exceptions import MemcacheServerError

from netesto.cli import main
from netesto.traffic.native import PROGRAM

PORT = 12_895
MIB = 1 << 20


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    if not PROGRAM.exists():
        unmet("native", "netesto-flow was not compiled: no C compiler")
    command = [sys.executable, "-m", "netesto", "kv", "--listen", f"127.0.0.1:{PORT}"]
    with serving(command, PORT, tmp_path_factory.mktemp("store") / "log") as child:
        yield Process(child.pid)


@pytest.fixture(autouse=True)
def _empty(store: Process) -> None:
    exchanged("flush_all\r\n", "OK\r\n")


@contextmanager
def connection() -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", PORT), timeout=60) as one:
        yield one


def exchanged(said: str, replied: str) -> str:
    """What the store replies, as long as what was expected."""
    with connection() as one:
        one.sendall(said.encode())
        got = b""
        while len(got) < len(replied) and (more := one.recv(MIB)):
            got += more
    return got.decode()


A = "set a 5 0 3\r\nxyz\r\n"
STORED, VALUE = "STORED\r\n", "VALUE a 5 3\r\nxyz\r\n"
NO_NUMBER = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
NO_DELTA = "CLIENT_ERROR invalid numeric delta argument\r\n"


@pytest.mark.parametrize(
    ("said", "replied"),
    [
        ("get a b\r\n", "END\r\n"),
        (f"{A}get b a\r\n", f"{STORED}VALUE a 5 3\r\nxyz\r\nEND\r\n"),
        (f"{A}get a a \r\n", f"{STORED}{2 * VALUE}END\r\n"),
        ("get\r\n", "ERROR\r\n"),
        ("\r\n", "ERROR\r\n"),
        ("set a 5 0 3 noreply\r\nxyz\r\nget a\n", "VALUE a 5 3\r\nxyz\r\nEND\r\n"),
        (f"add a 1 0 1\r\nx\r\n{A}add a 1 0 1\r\ny\r\n", f"{STORED}{STORED}NOT_STORED\r\n"),
        (f"replace a 1 0 1\r\nx\r\n{A}replace a 1 0 1\r\ny\r\nget a\r\n",
         f"NOT_STORED\r\n{STORED}{STORED}VALUE a 1 1\r\ny\r\nEND\r\n"),
        ("cas a 0 0 1 7\r\nx\r\n", "NOT_FOUND\r\n"),
        (f"{A}cas a 0 0 1 0\r\nx\r\n", f"{STORED}EXISTS\r\n"),
        (f"{A}delete a\r\ndelete a\r\n", f"{STORED}DELETED\r\nNOT_FOUND\r\n"),
        (f"{A}delete a 0\r\n", f"{STORED}DELETED\r\n"),
        (f"{A}delete a noreply\r\nget a\r\n", f"{STORED}END\r\n"),
        ("set n 3 0 2\r\n10\r\nincr n 5\r\ndecr n 6\r\ndecr n 99\r\nget n\r\n",
         f"{STORED}15\r\n9\r\n0\r\nVALUE n 3 1\r\n0\r\nEND\r\n"),
        ("set n 0 0 20\r\n18446744073709551615\r\nincr n 2\r\n", f"{STORED}1\r\n"),
        (f"{A}incr a 1\r\nincr b 1\r\nincr a x\r\n",
         f"{STORED}{NO_NUMBER}NOT_FOUND\r\n{NO_DELTA}"),
        (f"{A}touch a 0\r\ntouch b 0\r\nget a\r\n",
         f"{STORED}TOUCHED\r\nNOT_FOUND\r\nVALUE a 5 3\r\nxyz\r\nEND\r\n"),
        (f"{A}touch a -1\r\nget a\r\n", f"{STORED}TOUCHED\r\nEND\r\n"),
        ("set a 0 -1 1\r\nx\r\nget a\r\n", f"{STORED}END\r\n"),
        (f"{A}flush_all\r\nget a\r\n{A}get a\r\n",
         f"{STORED}OK\r\nEND\r\n{STORED}VALUE a 5 3\r\nxyz\r\nEND\r\n"),
        (f"{A}flush_all 1000\r\nget a\r\n", f"{STORED}OK\r\nVALUE a 5 3\r\nxyz\r\nEND\r\n"),
        ("verbosity 1\r\nverbosity 1 noreply\r\nverbosity\r\n", "OK\r\nERROR\r\n"),
        (f"set a 0 0 {MIB + 1}\r\n{'x' * (MIB + 1)}\r\nget a\r\n",
         "SERVER_ERROR object too large for cache\r\nEND\r\n"),
        ("set a 0 0 2\r\nxyz\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\n"),
        ("set a 4294967296 0 1\r\n", "CLIENT_ERROR bad command line format\r\n"),
        ("set a 0 0 -1\r\n", "CLIENT_ERROR bad command line format\r\n"),
        (f"get {'k' * 251}\r\n", "CLIENT_ERROR bad command line format\r\n"),
        (f"get {'k' * 250}\r\n", "END\r\n"),
        ("get a\0b\r\n", "CLIENT_ERROR bad command line format\r\n"),
        ("stats\r\n", "ERROR\r\n"),
        # Meta commands.
        ("mn\r\n", "MN\r\n"),
        ("mg a v\r\n", "EN\r\n"),
        ("mg a v q\r\nmn\r\n", "MN\r\n"),
        ("mg\r\n", "CLIENT_ERROR bad command line format\r\n"),
        (f"{A}mg a\r\nmg a s v f t k Oq7\r\n",
         f"{STORED}HD\r\nVA 3 s3 f5 t-1 ka Oq7\r\nxyz\r\n"),
        ("ms a 2 T0 F7\r\nhi\r\nmg a t f v \r\n", "HD\r\nVA 2 t-1 f7\r\nhi\r\n"),
        ("ms a 2 T-1\r\nhi\r\nmg a v\r\n", "HD\r\nEN\r\n"),
        ("ms a 2 q\r\nhi\r\nmg a s\r\n", "HD s2\r\n"),
        ("ms a 2 I O9 k\r\nhi\r\n", "HD O9 ka\r\n"),
        ("ms a 2 C1\r\nhi\r\n", "NF\r\n"),
        (f"{A}ms a 2 C1\r\nhi\r\n", f"{STORED}EX\r\n"),
        ("ms a x\r\n", "CLIENT_ERROR bad data chunk\r\n"),
        ("ms a 2 Z\r\nhi\r\nmn\r\n", "CLIENT_ERROR invalid flag\r\nMN\r\n"),
        ("ms a 2 Fx\r\nhi\r\nmn\r\n", "CLIENT_ERROR bad token in command line format\r\nMN\r\n"),
        ("ms a 2 q\r\nhixx\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\n"),
        (f"ms a {MIB + 1}\r\n{'x' * (MIB + 1)}\r\nmn\r\n",
         "SERVER_ERROR object too large for cache\r\nMN\r\n"),
        (f"{A}md a\r\nmd a\r\nmd a q\r\nmn\r\n", f"{STORED}HD\r\nNF\r\nMN\r\n"),
        (f"{A}md a q\r\nmg a\r\n", f"{STORED}EN\r\n"),
        ("set n 0 0 1\r\n5\r\nma n\r\nma n D10 v\r\nma n D1 MD v\r\nma n MI v\r\nma m\r\n",
         f"{STORED}HD\r\nVA 2\r\n16\r\nVA 2\r\n15\r\nVA 2\r\n16\r\nNF\r\n"),
        ("ma n MX\r\nma n Dx\r\n",
         f"CLIENT_ERROR invalid mode for ma\r\n{NO_DELTA}"),
        (f"{A}ma a\r\n", f"{STORED}{NO_NUMBER}"),
        (f"{A}mg a v v\r\n", f"{STORED}CLIENT_ERROR duplicate flag\r\n"),
    ],
)  # fmt: skip
def test_the_store_replies_as_memcached_does(said: str, replied: str) -> None:
    assert exchanged(said, replied) == replied


def test_the_version_of_a_value_changes_with_it() -> None:
    with connection() as one, one.makefile("rwb", buffering=0) as lines:
        lines.write(b"set a 0 0 1\r\nx\r\ngets a\r\n")
        assert lines.readline() == b"STORED\r\n"
        version = lines.readline().split()[4]
        assert (lines.readline(), lines.readline()) == (b"x\r\n", b"END\r\n")
        lines.write(b"cas a 0 0 1 %s\r\ny\r\ncas a 0 0 1 %s\r\nz\r\n" % (version, version))
        assert (lines.readline(), lines.readline()) == (b"STORED\r\n", b"EXISTS\r\n")


def test_quit_ends_the_connection() -> None:
    with connection() as one:
        one.sendall(b"version\r\nquit\r\n")
        with one.makefile() as lines:
            assert lines.read().startswith("VERSION ")


def test_a_value_lives_as_long_as_it_was_given() -> None:
    with connection() as one, one.makefile("rwb", buffering=0) as lines:
        lines.write(b"set a 0 1 1\r\nx\r\nget a\r\n")
        assert [lines.readline() for _ in range(4)][1] == b"VALUE a 0 1\r\n"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            lines.write(b"mg a\r\n")
            if lines.readline() == b"EN\r\n":
                return
    pytest.fail("the value never expires")


# ---- libraries -----------------------------------------------------------------------------------

VALUES: tuple[Any, ...] = (
    b"",
    b"bytes\r\nEND\r\n",
    "text",
    17,
    {"a": [1, 2]},
    bytes(range(256)) * 4096,
)


def test_the_client_memcache_which_sends_meta_commands() -> None:
    client = memcache.Memcache(("127.0.0.1", PORT))
    # It sends no end behind an empty value.
    for value in VALUES[1:]:
        client.set("key", value)
        assert client.get("key") == value
    assert client.get("none") is None
    client.set("number", 40)
    assert (client.incr("number"), client.incr("number", 5), client.decr("number", 6)) == (
        41,
        46,
        40,
    )
    value, token = client.gets("key") or (None, 0)
    client.cas("key", "new", token)
    with pytest.raises(memcache.MemcacheError):
        client.cas("key", "newer", token)
    assert (value, client.get("key")) == (VALUES[-1], "new")
    client.set("short", b"x", expire=1000)
    left = client.execute_meta_command(MetaCommand(cm=b"mg", key=b"short", flags=[b"v", b"t"]))
    assert (left.rc, left.value) == (b"VA", b"x")
    assert 900 < int(left.flags[0].removeprefix(b"t")) <= 1000
    client.delete("key")
    assert client.get("key") is None
    client.flush_all()
    assert client.get("number") is None


def test_the_client_pymemcache_which_sends_classic_commands() -> None:
    client = ClassicClient(("127.0.0.1", PORT), timeout=60, default_noreply=False)
    for value in (b"", b"x\r\ny", bytes(MIB)):
        assert client.set("key", value)
        assert client.get("key") == value
    assert client.add("key", b"x") is False
    assert client.replace("none", b"x") is False
    assert client.set_many({f"k{i}": str(i) for i in range(1000)}) == []
    many = client.get_many([f"k{i}" for i in range(2000)])
    assert many == {f"k{i}": str(i).encode() for i in range(1000)}
    value, token = client.gets("key")
    assert (value, client.cas("key", b"y", token), client.cas("key", b"z", token)) == (
        bytes(MIB),
        True,
        False,
    )
    assert (client.incr("k7", 3), client.decr("k7", 4), client.incr("none", 1)) == (10, 6, None)
    assert (client.touch("key", 100), client.touch("none", 100)) == (True, False)
    assert (client.delete("key"), client.delete("key")) == (True, False)
    assert client.version().startswith(b"netesto-flow")
    assert client.flush_all()
    assert client.get("k1") is None
    client.set("quiet", b"x", noreply=True)
    assert client.get("quiet") == b"x"
    client.quit()


def test_clients_see_the_values_of_each_other() -> None:
    """Eight clients count to 800 together."""
    with connection() as one:
        one.sendall(b"set n 0 0 1\r\n0\r\n")
        assert one.recv(100) == b"STORED\r\n"

    def count() -> None:
        client = ClassicClient(("127.0.0.1", PORT), timeout=60)
        for _ in range(100):
            client.incr("n", 1)

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (
        exchanged("get n\r\n", "VALUE n 0 3\r\n800\r\nEND\r\n") == "VALUE n 0 3\r\n800\r\nEND\r\n"
    )


# ---- what kills nothing --------------------------------------------------------------------------

# Of a connection that the other end has reset.
RESET = {errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN}

_PARTS = (
    b"get", b"gets", b"set", b"add", b"cas", b"delete", b"incr", b"touch", b"flush_all", b"mg",
    b"ms", b"md", b"ma", b"mn", b"quit", b"a", b"k" * 250, b"k" * 251, b"0", b"1", b"-1", b"3",
    b"1048576",
    b"18446744073709551615", b"99999999999999999999", b"noreply", b"v", b"q", b"T1", b"F9", b"C1",
    b"O" * 300, b"MD", b"D5", b"\0", b"\xff", b"xyz", b"\r", b"",
)  # fmt: skip


def noise(generator: random.Random) -> bytes:
    if generator.random() < 0.2:
        return generator.randbytes(generator.randint(1, 3000))
    lines = (
        generator.choice((b" ", b"  ")).join(generator.choices(_PARTS, k=generator.randint(1, 40)))
        for _ in range(generator.randint(1, 60))
    )
    return b"\r\n".join(lines) + generator.choice((b"", b"\r\n", b"\n"))


def test_a_fuzz_kills_nothing(store: Process) -> None:
    """Some clients end in the middle of a command, some without reading. Behind a `quit` the store
    does not read, either: what is then sent is answered with a reset."""
    generator = random.Random(32)
    for number in range(400):
        said = noise(generator)
        with connection() as one:
            try:
                one.sendall(said)
                if number % 2:
                    one.shutdown(socket.SHUT_WR)
                    while one.recv(MIB):
                        pass
            except OSError as error:
                if error.errno not in RESET:
                    raise
    assert is_alive(store)
    assert exchanged("flush_all\r\nmn\r\n", "OK\r\nMN\r\n") == "OK\r\nMN\r\n"


def test_a_line_without_end_and_a_value_without_end_cost_no_memory(store: Process) -> None:
    before = store.memory_info().rss
    with connection() as one:
        # The store closes the connection when it has read half of it.
        with contextlib.suppress(ConnectionError):
            one.sendall(b"get " + b"k" * (2 * MIB))
        with one.makefile("rb") as lines:
            assert lines.readline() == b"CLIENT_ERROR line too long\r\n"
    with connection() as one:
        one.sendall(b"set a 0 0 18446744073709551615\r\n")
        for _ in range(64):
            one.sendall(bytes(MIB))
        assert one.recv(100) == b"SERVER_ERROR object too large for cache\r\n"
    assert store.memory_info().rss - before < 16 * MIB


def test_a_full_store_refuses_values_and_keeps_those_it_has() -> None:
    client = ClassicClient(("127.0.0.1", PORT), timeout=60, default_noreply=False)
    # 256 MiB, and each value with its key takes a little more than one.
    for number in range(255):
        client.set(f"k{number}", bytes(MIB))
    with pytest.raises(MemcacheServerError, match="out of memory storing object"):
        client.set("k255", bytes(MIB))
    assert (client.get("k0"), client.get("k255")) == (bytes(MIB), None)


@pytest.mark.parametrize("text", ["11211", "localhost:1", "1.2.3.4:0", "1.2.3.4:65536", "::1"])
def test_the_address_of_a_store_has_a_port(text: str) -> None:
    assert main(["kv", "--listen", text]) == 2
