"""The largest packet that reaches another host, as tracepath(8) finds it: without root.

UDP packets that no router may fragment go to a port on which nothing listens. The other host
refuses them, which proves that they arrived; a router that cannot forward one reports the size that
it can.
"""

import asyncio
import contextlib
import errno
import socket

from netesto.model import Address, PathAnswer, PathState

# <linux/in.h>, <linux/in6.h>; by IP version: level, MTU_DISCOVER, MTU, RECVERR, headers in bytes.
_OPTIONS = {
    4: (socket.IPPROTO_IP, 10, 14, 11, 28),
    6: (socket.IPPROTO_IPV6, 23, 24, 25, 48),
}
_NEVER_FRAGMENT = 2  # IP_PMTUDISC_DO

# The limit of an IP packet; the MTU of loopback interfaces is larger.
_PACKET_BYTES_MAX = 65_535

_DETAILS_BYTES = 512

# Each size is tried twice, because a packet may be lost. On the paths of a test bed a refusal
# arrives sooner, unless the other host limits its rate.
_TRIES = 2
_ANSWER_S = 0.4

# A path has few links with another MTU than the one before.
_CHANGES_MAX = 5


async def measure(peer: Address, *, port: int, device: str) -> PathState:
    """Try the path to `peer`, for which packets leave by `device`. Takes at most 2 s."""
    level, discover, mtu, errors, header = _OPTIONS[peer.version]
    family = socket.AF_INET if peer.version == 4 else socket.AF_INET6

    def state(answer: PathAnswer, size: int = 0, reason: str = "") -> PathState:
        return PathState(
            peer=str(peer), device=device, mtu_bytes=size, answer=answer, reason=reason
        )

    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.setblocking(False)
        probe.setsockopt(level, discover, _NEVER_FRAGMENT)
        probe.setsockopt(level, errors, 1)
        size = 0
        try:
            probe.connect((str(peer), port))
            for _ in range(_CHANGES_MAX):
                size = min(probe.getsockopt(level, mtu), _PACKET_BYTES_MAX)
                arrived = await _arrives(probe, size - header)
                if arrived is not None:
                    break
            if arrived:
                return state("whole", size)
            return state("cut" if await _arrives(probe, 0) else "silent", size)
        except OSError as error:
            return state("unreachable", size, error.strerror or str(error))


async def _arrives(probe: socket.socket, payload_bytes: int) -> bool | None:
    """Whether the other host refuses a packet; None if it is too large, and the kernel has learnt
    the size that is not. OSError if the host is unreachable."""
    loop = asyncio.get_running_loop()
    for _ in range(_TRIES):
        try:
            probe.send(bytes(payload_bytes))
            await asyncio.wait_for(loop.sock_recv(probe, 1), _ANSWER_S)
        except TimeoutError:
            continue
        except ConnectionRefusedError:
            return True
        except OSError as error:
            # If they stay unread, its details wake the event loop over and over.
            with contextlib.suppress(BlockingIOError):
                probe.recvmsg(1, _DETAILS_BYTES, socket.MSG_ERRQUEUE)
            if error.errno == errno.EMSGSIZE:
                return None
            if error.errno != errno.ENOBUFS:  # dropped by our own interface
                raise
        else:
            return True  # somebody listens there, and replied
    return False
