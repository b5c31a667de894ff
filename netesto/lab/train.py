"""The two ends of a packet train, each a command of its own inside a namespace.

    python -m netesto.lab.train receive ADDRESS         prints its port, later what arrived
    python -m netesto.lab.train send ADDRESS PORT RATE_BPS SECONDS FRAME_BYTES

Imports nothing of ours but this file, so that it starts fast.
"""

import json
import select
import socket
import sys
import time

# The receiver gives up when nothing comes for so long, and when nothing ever came.
SILENCE_S = 0.1
FIRST_PACKET_S = 5.0

# socket(7); Python has no name for it. Unlike SO_RCVBUF it may go beyond net.core.rmem_max.
SO_RCVBUFFORCE = 33

# Enough for what arrives while the receiver is not scheduled.
RECEIVE_BUFFER_BYTES = 8_000_000

# Between two looks of the sender at how much it is behind.
PACE_S = 0.001

# Ethernet, IP (without options) and UDP headers around the payload.
OVERHEAD_BYTES = {4: 14 + 20 + 8, 6: 14 + 40 + 8}


def receive(address: str) -> None:
    """Print the port, then for every packet of one train the instant it came and its size."""
    with _socket(address) as sock:
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
        sock.bind((address, 0))
        _say({"port": sock.getsockname()[1]})
        arrivals: list[tuple[float, int]] = []
        sock.settimeout(FIRST_PACKET_S)
        try:
            while True:
                size = len(sock.recv(65_535))
                arrivals.append((time.monotonic(), size + OVERHEAD_BYTES[_family(address)]))
                if len(arrivals) == 1:
                    sock.settimeout(SILENCE_S)
        except TimeoutError:
            _say({"arrivals": arrivals})


def send(address: str, port: int, rate_bps: float, seconds: float, frame_bytes: int) -> None:
    """Send frames of one size at a steady rate; late ones are made up for."""
    payload = bytes(frame_bytes - OVERHEAD_BYTES[_family(address)])
    with _socket(address) as sock:
        sock.connect((address, port))
        sent = 0
        begin = time.monotonic()
        while (elapsed := time.monotonic() - begin) < seconds:
            due = int(rate_bps / 8 * elapsed / frame_bytes) + 1
            for _ in range(due - sent):
                sock.send(payload)
            sent = max(sent, due)
            select.select([], [], [], PACE_S)


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
