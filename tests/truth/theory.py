"""What a link and TCP over it must do, as formulas with their sources, and the intervals in which a
measurement of it lies.

Units: bit/s, seconds, bytes; windows in segments. A frame is a packet with its Ethernet header.
"""

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass

# An interval contains the measurement with all but this probability: of a table of several hundred
# rows, one is wrong by chance in one of some tens of seeds.
CHANCE = 1e-4

# The quantile of the normal distribution that leaves CHANCE outside, in both tails together.
DEVIATIONS = 3.891

ETHERNET_BYTES = 14
UDP_HEADERS_BYTES = ETHERNET_BYTES + 20 + 8
# With TCP's timestamps (RFC 7323): 12 bytes of options.
TCP_HEADERS_BYTES = ETHERNET_BYTES + 20 + 20 + 12
FULL_FRAME_BYTES = ETHERNET_BYTES + 1500
MSS_BYTES = 1448
FULL_DATAGRAM_BYTES = FULL_FRAME_BYTES - UDP_HEADERS_BYTES

INITIAL_WINDOW = 10  # RFC 6928


@dataclass(frozen=True, slots=True)
class Interval:
    """What is expected, and the interval, with both ends, in which the measurement must lie."""

    expected: float
    low: float
    high: float

    def __contains__(self, measured: float) -> bool:
        return self.low <= measured <= self.high


def within(expected: float, *, share: float = 0.0, absolute: float = 0.0) -> Interval:
    """`expected` with a tolerance, a share of it or an amount, whichever is greater."""
    tolerance = max(abs(expected) * share, absolute)
    return Interval(expected, expected - tolerance, expected + tolerance)


def binomial(count: int, probability: float) -> Interval:
    """How many of `count` independent events with this probability happen."""
    low = high = -1
    total = 0.0
    for hits in range(count + 1):
        total += math.exp(
            math.lgamma(count + 1) - math.lgamma(hits + 1) - math.lgamma(count - hits + 1)
            + hits * math.log(probability) + (count - hits) * math.log1p(-probability)
        )  # fmt: skip
        if low < 0 and total > CHANCE / 2:
            low = hits
        if total >= 1 - CHANCE / 2:
            high = hits
            break
    return Interval(count * probability, low, high)


def gilbert_elliott(count: int, to_bad: float, to_good: float, links: int = 1) -> Interval:
    """How many of `count` packets are lost by chains of two states, of which the bad one loses all;
    each of `links` has a chain.

    The share of the bad state is s = p / (p + r) (Gilbert, 1960). States of packets that are k
    apart correlate by c^k, c = 1 - p - r: both pass with (1 - s)^2 + s (1 - s) c^k on each link.
    For one link the variance is that of independent losses times (1 + c) / (1 - c).
    """
    share = to_bad / (to_bad + to_good)
    correlation = 1 - to_bad - to_good
    passes, variance = (1 - share) ** links, 0.0
    for apart in range(2000):
        both = ((1 - share) ** 2 + share * (1 - share) * correlation**apart) ** links
        variance += (both - passes**2) * (1 if apart == 0 else 2)
    return within(count * (1 - passes), absolute=DEVIATIONS * math.sqrt(count * variance))


def gilbert_run(count: int, to_bad: float, to_good: float) -> Interval:
    """The mean run of losses in `count` packets: the bad state, which loses all, is left with the
    probability r after each one. Runs are geometric, with the deviation sqrt(1 - r) / r."""
    runs = count * to_bad * to_good / (to_bad + to_good)
    deviation = math.sqrt(1 - to_good) / to_good / math.sqrt(runs)
    return within(1 / to_good, absolute=DEVIATIONS * deviation)


def copies(count: int, probability: float, links: int) -> Interval:
    """How many copies of `count` packets arrive, if each of `links` copies what it carries with
    this probability: a branching process with a mean of m = 1 + p and a variance of p (1 - p) on
    each link (Harris, 1963, I.5)."""
    if links == 1:
        return binomial(count, probability)
    mean = 1 + probability
    grown = mean**links
    variance = probability * (1 - probability) * grown / mean * (grown - 1) / (mean - 1)
    return within(count * (grown - 1), absolute=DEVIATIONS * math.sqrt(count * variance))


# The distributions of tc's tables (netem/*.c of iproute2), each as its quantile function.
_NORMAL = statistics.NormalDist()
DISTRIBUTIONS: Mapping[str, Callable[[float], float]] = {
    "uniform": lambda part: 2 * part - 1,
    "normal": _NORMAL.inv_cdf,
    "pareto": lambda part: 4 / 3 * ((1 - part) ** (-1 / 3) - 3 / 2),
    "paretonormal": lambda part: (
        0.25 * _NORMAL.inv_cdf(part) + 0.75 * DISTRIBUTIONS["pareto"](part)
    ),
}
DISTRIBUTION_SOURCES: Mapping[str, str] = {
    "uniform": "(2 q - 1)",
    "normal": "the normal quantile",
    "pareto": "4/3 ((1 - q)^-1/3 - 3/2): Pareto's, of shape 3 (pareto.c of iproute2)",
    "paretonormal": "a quarter of normal's and three of pareto's (paretonormal.c of iproute2)",
}


def quantile(value: Callable[[float], float], share: float, count: int) -> Interval:
    """The quantile of `count` draws of a distribution with this quantile function: how many of them
    are below a value is binomial."""
    off = DEVIATIONS * math.sqrt(share * (1 - share) / count)
    # tc's tables have steps of 1/4096 of the draws.
    low, high = max(share - off - 1 / 4096, 1e-6), min(share + off + 1 / 4096, 1 - 1e-6)
    return Interval(value(share), value(low), value(high))


def several(each: float, links: int) -> float:
    """The probability that a packet is hit on one of `links`, each of which hits with `each`."""
    return 1 - (1 - each) ** links


def serialisation_s(frame_bytes: int, rate_bps: float) -> float:
    """The time from the first bit of a frame to its last."""
    return frame_bytes * 8 / rate_bps


# ---- TCP -------------------------------------------------------------------------------------


def mathis_bps(rtt_s: float, loss: float, constant: float = math.sqrt(3 / 2)) -> float:
    """The rate of Reno at random losses (Mathis et al., 1997): MSS / RTT · C / sqrt(p).

    sqrt(3/2) is for losses at equal distances and an ACK for each segment; independent losses have
    1.3098 (Ott, Kemperman and Mathis, 1996).
    """
    return MSS_BYTES * 8 / rtt_s * constant / math.sqrt(loss)


# Of independent losses.
OTT = 1.3098


def padhye_bps(rtt_s: float, loss: float, timeout_s: float) -> float:
    """The rate of Reno, which also has timeouts (Padhye et al., 1998, equation 30), with an ACK for
    each segment."""
    round_s = rtt_s * math.sqrt(2 * loss / 3)
    waits_s = timeout_s * min(1, 3 * math.sqrt(3 * loss / 8)) * loss * (1 + 32 * loss**2)
    return MSS_BYTES * 8 / (round_s + waits_s)


def cubic_k_s(largest_window: float, beta: float = 0.7, scaling: float = 0.4) -> float:
    """The time after a loss until CUBIC has the window before it (RFC 8312, RFC 9438, 4.2)."""
    return math.cbrt(largest_window * (1 - beta) / scaling)


def dctcp_queue(marked_above: float, bdp: float, flows: int) -> tuple[float, float]:
    """The least and the greatest queue of synchronised flows (Alizadeh et al., 2010, equations 6 to
    10): K + N - A and K + N, A = sqrt(2 N (C RTT + K)) / 2. In segments, as the arguments."""
    amplitude = math.sqrt(2 * flows * (bdp + marked_above)) / 2
    return marked_above + flows - amplitude, marked_above + flows


# Linux acknowledges so many segments of a new connection one by one, and then every second one, as
# RFC 9293, 3.8.6.3, allows (TCP_MAX_QUICKACKS in net/ipv4/tcp_input.c).
QUICK_ACKS = 16


def slow_start_s(
    segments: int, *, rate_bps: float, rtt_s: float, initial_window: int = INITIAL_WINDOW
) -> float:
    """The time from the first byte written to the ACK of the last, on a link without a queue limit.

    The data follow the ACK of the handshake. The window begins with `initial_window` (RFC 6928) and
    grows by what each ACK covers (RFC 5681). The last segment has the FIN, which is acknowledged at
    once. The link serialises data and ACKs; `rtt_s` is its delay in both directions.
    """
    data_s = serialisation_s(FULL_FRAME_BYTES, rate_bps)
    ack_s = serialisation_s(TCP_HEADERS_BYTES, rate_bps)
    # When the link is free, for data and for ACKs; when each ACK arrives, and what it covers.
    free_s, back_s = ack_s, 0.0
    acks: list[tuple[float, int]] = []
    window, sent, acknowledged, unacknowledged, now_s = initial_window, 0, 0, 0, 0.0
    while acknowledged < segments:
        while sent < segments and sent - acknowledged < window:
            sent += 1
            unacknowledged += 1
            free_s = max(free_s, now_s) + data_s
            if sent <= QUICK_ACKS or unacknowledged == 2 or sent == segments:
                back_s = max(back_s, free_s + rtt_s / 2) + ack_s
                acks.append((back_s + rtt_s / 2, unacknowledged))
                unacknowledged = 0
        now_s, covered = acks.pop(0)
        acknowledged += covered
        window += covered
    return now_s
