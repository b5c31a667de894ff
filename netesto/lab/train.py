"""The two ends of a packet train, each a command inside a namespace.

    python -I -S train.py receive ADDRESS         prints its port, later what arrived
    python -I -S train.py send ADDRESS PORT RATE_BPS SECONDS FRAME_BYTES
                                                  prints what it sent, and when

Imports the standard library only, so that it starts fast.
"""

import json
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator

# The receiver stops when nothing arrives for this long. It waits longer for the first packet,
# because on a busy machine the sender may start late.
SILENCE_S = 0.1
FIRST_PACKET_S = 15.0

# socket(7); Python has no names for them. The first two may exceed net.core.wmem_max and rmem_max;
# with the third the kernel notes when a packet arrived, however late it is read.
SO_SNDBUFFORCE, SO_RCVBUFFORCE, SO_TIMESTAMPNS = 32, 33, 35

# A struct timespec.
_TIMESTAMP = struct.Struct("@ll")
_NOTES_BYTES = socket.CMSG_SPACE(_TIMESTAMP.size)

# Enough for packets that arrive while the receiver is not scheduled, and so that the sender does
# not wait: the queue of the link should fill, not the socket.
BUFFER_BYTES = 8_000_000

# How often the sender checks its delay.
PACE_S = 0.001

# How long the receiver lets packets gather: some fit into its buffer at any rate of a train.
GATHERED_S = 0.002

# Ethernet, IP (without options) and UDP headers around the payload.
OVERHEAD_BYTES = {4: 14 + 20 + 8, 6: 14 + 40 + 8}


def receive(address: str) -> None:
    """Print the port, then the instant of arrival and the size of every packet of one train."""
    with _socket(address) as sock:
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        sock.bind((address, 0))
        _say({"port": sock.getsockname()[1]})
        overhead = OVERHEAD_BYTES[_family(address)]
        arrivals: list[tuple[float, int]] = []
        left_s = FIRST_PACKET_S
        while select.select([sock], [], [], left_s)[0]:
            # The kernel keeps packets, with their instants: to be woken for each takes a guest
            # longer than to carry it.
            time.sleep(GATHERED_S)
            for data, notes in _waiting(sock):
                arrivals.append((_instant(notes), len(data) + overhead))
            if arrivals:
                # Since the last one, unless the clock was set.
                left_s = min(max(arrivals[-1][0] + SILENCE_S - time.time(), 0.0), SILENCE_S)
        _say({"arrivals": arrivals})


def _waiting(sock: socket.socket) -> Iterator[tuple[bytes, list[tuple[int, int, bytes]]]]:
    """The packets that have arrived, with what the kernel notes of them."""
    while True:
        try:
            data, notes, _, _ = sock.recvmsg(65_535, _NOTES_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        yield data, notes


def send(address: str, port: int, rate_bps: float, seconds: float, frame_bytes: int) -> None:
    """Send frames of one size at a steady rate, catching up when late. Print them as `receive`
    does; frames sent together count as one.

    A train ends early if the receiver has stopped because this sender had to wait.
    """
    payload = bytes(frame_bytes - OVERHEAD_BYTES[_family(address)])
    with _socket(address) as sock:
        sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, BUFFER_BYTES)
        sock.connect((address, port))
        departures: list[tuple[float, int]] = []
        sent = 0
        begin = time.monotonic()
        while (elapsed := time.monotonic() - begin) < seconds:
            due = int(rate_bps / 8 * elapsed / frame_bytes) + 1
            try:
                for _ in range(due - sent):
                    sock.send(payload)
            except ConnectionRefusedError:
                break
            departures.append((elapsed, (due - sent) * frame_bytes))
            sent = due
            select.select([], [], [], PACE_S)
        _say({"departures": departures})


def _instant(notes: list[tuple[int, int, bytes]]) -> float:
    """When the kernel received a packet, in seconds of its clock."""
    for level, kind, data in notes:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
            seconds, nanoseconds = _TIMESTAMP.unpack(data)
            return float(seconds + nanoseconds / 1e9)
    return time.time()


def _family(address: str) -> int:
    return 6 if ":" in address else 4


def _socket(address: str) -> socket.socket:
    family = socket.AF_INET6 if _family(address) == 6 else socket.AF_INET
    return socket.socket(family, socket.SOCK_DGRAM)


def _say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(sys.argv[2])
    else:
        send(
            sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5]), int(sys.argv[6])
        )
