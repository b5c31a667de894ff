"""A capture of a million packets (or as many as the first argument says): half of them data, with
options of TCP, of which 98 bytes each were captured.

Prints packets per second of time on the processor: of the reader with all headers decoded, of the
whole analysis, and of `tcpdump -r` that prints each packet (-n) where it is installed. The reader
must reach a million. Ends with 1 if it does not.
"""

import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from netesto.packets import capture
from netesto.packets.connections import ConnectionTable
from netesto.packets.decode import decode
from netesto.packets.reader import PacketReader

PACKETS = 1_000_000
LIMIT_PER_S = 1e6
SEGMENT = 1448
SNAP = 98
FLOWS = 16


def write(path: Path, count: int) -> None:
    """Flows that take turns, each segment acknowledged."""
    network = struct.Struct(">BBHHHBBH4s4s")
    transport = struct.Struct(">HHIIBBHHHBBBBII")
    ends = (b"\x0a\x00\x00\x01", b"\x0a\x00\x00\x02")
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, SNAP, 1))
        for i in range(count):
            flow, is_ack = i // 2 % FLOWS, i % 2
            at = (i // (2 * FLOWS) * SEGMENT) % 2**32
            size = 0 if is_ack else SEGMENT
            source, target = ends[::-1] if is_ack else ends
            ports = (5201, 40000 + flow) if is_ack else (40000 + flow, 5201)
            numbers = (1, (at + SEGMENT) % 2**32) if is_ack else (at, 1)
            headers = (
                bytes(12)
                + b"\x08\x00"
                + network.pack(0x45, 0, 52 + size, 0, 0, 64, 6, 0, source, target)
                + transport.pack(*ports, *numbers, 0x80, 16, 1000, 0, 0, 1, 1, 8, 10, i, i)
            )
            whole = len(headers) + size
            data = headers + bytes(min(size, SNAP - len(headers)))
            file.write(struct.pack("<IIII", i // 10**6, i % 10**6 * 1000, len(data), whole) + data)


def read(path: Path) -> None:
    table = ConnectionTable()
    for records in PacketReader(path).pieces():
        table.add(decode(records))


def told(name: str, count: int, taken_s: float) -> float:
    rate = count / taken_s
    print(f"{name:44} {taken_s:7.2f} s {rate / 1e6:7.2f} million packets/s")
    return rate


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else PACKETS
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.pcap"
        write(path, count)
        started_s = time.process_time()
        read(path)
        rate = told("reader: decoded and sorted into flows", count, time.process_time() - started_s)
        started_s = time.process_time()
        capture.read(path)
        told("netesto packets: everything, with figures", count, time.process_time() - started_s)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{'memory at most':44} {peak:7.0f} MiB for a file of {path.stat().st_size >> 20} MiB"
        )
        if (tcpdump := shutil.which("tcpdump")) is not None:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(
                [tcpdump, "-n", "-r", str(path)],
                check=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            took_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            told("tcpdump -n -r", count, took_s)
    print(f"limit for the reader: {LIMIT_PER_S / 1e6:g} million packets/s")
    return 0 if rate >= LIMIT_PER_S else 1


if __name__ == "__main__":
    sys.exit(main())
