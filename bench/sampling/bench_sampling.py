"""What a sample of a socket costs, beside `ss` in a loop, and what reading a big file costs.

The sockets are both ends of connections over loopback, which carry some bytes before each look, so
that their state changes. Time is that of the processor, user and system, including the process ss;
bytes are what a look adds to a file. What is judged is the ratio to ss with a thousand sockets: its
text would still have to be parsed. Then a file of 512 flows, 60 s, 5 samples a second is read, as
the digest reads it and by numpy. Takes about half a minute; needs no root. Ends with 1 if the limit
is missed.
"""

import contextlib
import json
import os
import random
import resource
import socket
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from netesto.collectors import sockdiag, socketfile
from netesto.collectors.sockdiag import SocketDiagnosis
from netesto.system import process

SOCKETS = (2, 100, 1000)
LOOKS = 30
FILE_FLOWS, FILE_TICKS = 512, 60 * 5

LIMIT_RATIO = 0.6


@contextlib.contextmanager
def connections(count: int) -> Iterator[tuple[int, Callable[[], None]]]:
    """`count` sockets with one port in common; the port, and what makes all of them carry data."""
    draw = random.Random(1)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=count))
        port = server.getsockname()[1]
        pairs = []
        for _ in range(count // 2):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            pairs.append((client, stack.enter_context(server.accept()[0])))

        def carry() -> None:
            for client, accepted in pairs:
                left = draw.randint(1, 60_000)
                client.sendall(bytes(left))
                while left:
                    left -= len(accepted.recv(left))

        yield port, carry


def processor_s(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def measure(
    count: int, look: Callable[[], bytes], carry: Callable[[], None]
) -> tuple[float, float]:
    """µs on the processor and bytes, for one sample."""
    took_s = size = 0.0
    for _ in range(LOOKS):
        carry()
        before_s = processor_s(resource.RUSAGE_SELF) + processor_s(resource.RUSAGE_CHILDREN)
        size += len(look())
        after_s = processor_s(resource.RUSAGE_SELF) + processor_s(resource.RUSAGE_CHILDREN)
        took_s += after_s - before_s
    return took_s * 1e6 / LOOKS / count, size / LOOKS / count


def costs(count: int) -> tuple[float, float]:
    """µs for a sample: ours, and with ss."""
    with connections(count) as (port, carry), contextlib.closing(SocketDiagnosis()) as diagnosis:
        recorder = socketfile.Recorder(sockdiag.tcp_info_bytes())
        filter_ = sockdiag.with_ports([(port, port)])

        def look() -> bytes:
            before_s = time.time()
            recorder.add(before_s, time.time(), diagnosis.sockets(filter_))
            return recorder.piece()

        def ss() -> bytes:
            argv = ["ss", "-tiOHn", f"( sport = :{port} or dport = :{port} )"]
            return process.run(argv, timeout=60).stdout.encode()

        look()
        ours, theirs = measure(count, look, carry), measure(count, ss, carry)
    print(
        f"{count:5} sockets: {ours[0]:6.1f} µs and {ours[1]:4.0f} bytes a sample, with ss "
        f"{theirs[0]:7.1f} µs and {theirs[1]:4.0f} bytes: {ours[0] / theirs[0]:.1%}"
    )
    return ours[0], theirs[0]


def write_file(path: Path) -> None:
    """Real samples of real sockets, as many as one host of a long experiment has."""
    recorder = socketfile.Recorder(sockdiag.tcp_info_bytes())
    with (
        path.open("wb") as file,
        connections(FILE_FLOWS) as (port, carry),
        contextlib.closing(SocketDiagnosis()) as diagnosis,
    ):
        for tick in range(FILE_TICKS):
            if tick % 10 == 0:
                carry()
                messages = diagnosis.sockets(sockdiag.with_ports([(port, port)]))
            recorder.add(tick / 5, tick / 5, messages)
            file.write(recorder.piece())
        file.write(recorder.end())


def read_columns(path: Path) -> np.ndarray:
    content = zlib.decompressobj(wbits=31).decompress(path.read_bytes())
    header, _, records = content.partition(b"\n")
    return np.frombuffer(records, np.dtype(json.loads(header)["dtype"]))


def report_reading(path: Path) -> None:
    write_file(path)
    megabytes = path.stat().st_size / 1e6
    for what, read in (("the digest", socketfile.read), ("numpy", read_columns)):
        before_s = time.process_time()
        count = len(read(path))
        took_s = time.process_time() - before_s
        print(
            f"{FILE_FLOWS} flows x 60 s x 5/s, {count} samples, {megabytes:.1f} MB: {what} reads "
            f"them in {took_s:.2f} s, {took_s * 1e6 / count:.2f} µs each"
        )


def main() -> int:
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    found = [costs(count) for count in SOCKETS]
    with tempfile.TemporaryDirectory() as name:
        report_reading(Path(name) / "sockets.bin.gz")
    ours_us, ss_us = found[-1]
    return int(ours_us > ss_us * LIMIT_RATIO)


if __name__ == "__main__":
    sys.exit(main())
