"""The cells of queues that decide what they drop: in equilibrium with a load, and between flows."""

from collections.abc import Sequence

import reference
import theory
from link_cells import PING_FRAME_BYTES, bps, datagrams
from studies import Cell, Place, Row, column
from theory import Interval, within

# RFC 8033, section 4.2, and Linux's fq_pie.
PIE_TARGET_S = 0.015
# RFC 8289, section 4.4.
CODEL_TARGET_S = 0.005

FULL_S_BITS = theory.FULL_FRAME_BYTES * 8


def later_us(rate: str, links: int) -> float:
    """What the links behind the first one add, which alone has a queue."""
    return (links - 1) * (FULL_S_BITS / bps(rate) + 1e-3) * 1e6


def equilibrium(rate: str, kind: str, seconds: float, *, links: int = 1) -> Cell:
    """PIE controls the delay, with an integral part: whatever the load, it settles at the target,
    and drops what the load has too much. A queue of 50 ms keeps it from first dropping nearly all,
    of which it comes back by 1/8 a second only."""
    excess, target_s = 1.25, PIE_TARGET_S
    link = f"rate={rate} delay=1 qdisc={kind} limit={int(bps(rate) / FULL_S_BITS / 20)}p"
    frame_s = FULL_S_BITS / bps(rate)
    count = int(seconds * excess / frame_s)
    sending = datagrams(rate, excess, count)
    omit_s = round(seconds / 3, 1)
    kept_s = float(sending.rpartition("dur=")[2]) - omit_s
    flow = f"{sending.rpartition(' ')[0]} omit={omit_s} dur={kept_s:.6f}"
    delay_us = (target_s + frame_s + 1e-3) * 1e6 + later_us(rate, links)
    kept = int(count * kept_s / (kept_s + omit_s))

    def rows(groups: Sequence[Place]) -> list[Row]:
        # The integral of the error is what the probability moves by, times tupdate / alpha (15 ms /
        # 0.125 Hz). For 20 % it lies between 20 and 60 %:
        # Linux drops no packet until the sum of the probabilities since the last drop exceeds 0.85
        # (pie_drop_early in sch_pie.c).
        error_us = 0.4 * 0.015 / 0.125 / kept_s * 1e6
        share = 100 * (1 - 1 / excess)
        return [
            Row(
                quantity=f"mean one-way delay of datagrams, {excess:g} times the rate",
                link=link,
                interval=within(delay_us, absolute=error_us),
                unit="µs",
                source="target + size/rate + delay; PI controller (RFC 8033, 4.2)",
                measure=column("oneWayMean", groups[0]),
            ),
            Row(
                quantity="the same: lost",
                link=link,
                interval=within(share, absolute=100 * 0.02),
                unit="%",
                source=f"1 - 1/{excess:g}, of {kept}",
                measure=column("udpLost%", groups[0]),
            ),
        ]

    return Cell(link=link, links=links, flows=(flow,), rows=rows)


def red(
    rate: str,
    limit_bytes: int,
    seconds: float,
    thresholds: tuple[int, int] | None = None,
    *,
    links: int = 1,
) -> Cell:
    """RED settles where it drops what the load has too much."""
    excess, highest = 1.01, 0.02
    # tc's defaults, without min= and max=.
    least, most = thresholds or (limit_bytes / 12, limit_bytes / 4)
    backlog = reference.red_backlog_bytes(excess, least, most, highest)
    link = f"rate={rate} delay=1 qdisc=red limit={limit_bytes // 1000}K"
    if thresholds:
        link += f" min={least} max={most}"
    frame_s = FULL_S_BITS / bps(rate)
    count = int(seconds * excess / frame_s)
    sending = datagrams(rate, excess, count)
    omit_s = round(seconds / 3, 1)
    kept_s = float(sending.rpartition("dur=")[2]) - omit_s
    flow = f"{sending.rpartition(' ')[0]} omit={omit_s} dur={kept_s:.6f}"
    drops = count * kept_s / seconds * (1 - 1 / excess)
    # Gaps between drops are uniform: of so many, the sum deviates by this share.
    share = theory.DEVIATIONS / (3 * drops) ** 0.5
    wait_us = backlog * 8 / bps(rate) * 1e6 + later_us(rate, links)
    slack_us = share * (backlog - least) * 8 / bps(rate) * 1e6 + 2 * frame_s * 1e6

    def rows(groups: Sequence[Place]) -> list[Row]:
        return [
            Row(
                quantity=f"mean one-way delay of datagrams, {excess:g} times the rate",
                link=link,
                interval=within(wait_us + frame_s * 1e6 + 1000, absolute=slack_us),
                unit="µs",
                source="min + (max - min) p/0.02, 2p/(1 + p) = 1 - 1/1.01 (Floyd, Jacobson 1993)",
                measure=column("oneWayMean", groups[0]),
            )
        ]

    return Cell(link=link, links=links, flows=(flow,), rows=rows)


def shared(rate: str, kind: str, seconds: float, *, links: int = 1) -> Cell:
    """Two streams of datagrams, of which one needs less than half, and a sparse one."""
    limit = "1M" if kind == "cake" else "1000p"
    if kind == "fq_pie" and bps(rate) >= 200e6:
        # A full fq_pie drops what arrives, whoever sent it (sch_fq_pie.c), as others do not: this
        # one holds what comes until PIE drops enough of the first stream.
        limit = "10000p"
    link = f"rate={rate} delay=1 qdisc={kind} limit={limit}"
    frame_s = FULL_S_BITS / bps(rate)
    sparse_s = theory.serialisation_s(100, bps(rate))
    payload = theory.FULL_DATAGRAM_BYTES / theory.FULL_FRAME_BYTES
    small, sparse_share = 0.3, 100 * 8 * 20 / bps(rate)
    greedy = datagrams(rate, 1.2, int(seconds * 1.2 / frame_s))
    modest = datagrams(rate, small, int(seconds * small / frame_s))
    sparse = f"test=UDP_STREAM len=58 bitrate={58 * 8 * 20} dur={seconds:.6f}"
    modest_mbps = small * bps(rate) * payload / 1e6
    greedy_mbps = (1 - small - sparse_share) * bps(rate) * payload / 1e6

    def rows(groups: Sequence[Place]) -> list[Row]:
        first, second, third = groups
        slack = 2 * theory.FULL_DATAGRAM_BYTES * 8 / seconds / 1e6 + 4000 / 1e6
        # One is being sent. To fq_codel and its like the second stream is sparse, too; elsewhere
        # both may have a turn, and with fq first 10 packets each (tc-fq(8), initial_quantum).
        before = {"fq": 1 + 2 * 10, "sfq": 3, "cake": 3}.get(kind, 2)
        ping_s = theory.serialisation_s(PING_FRAME_BYTES, bps(rate))
        longest = links * (frame_s * before + ping_s + sparse_s + 1e-3)
        source = "max-min fair shares"
        return [
            Row(
                quantity="goodput of datagrams, 1.2 times the rate, beside one of 0.3",
                link=link,
                interval=within(greedy_mbps, share=0.01, absolute=slack),
                unit="Mbit/s",
                source=source,
                measure=column("rate", first),
            ),
            Row(
                quantity="goodput of that one",
                link=link,
                interval=within(modest_mbps, share=0.005, absolute=slack),
                unit="Mbit/s",
                source=source,
                measure=column("rate", second),
            ),
            Row(
                quantity="greatest one-way delay of a third, 20 small ones a second",
                link=link,
                interval=Interval(
                    longest * 1e6, (links * (sparse_s + 1e-3)) * 1e6 - 1, longest * 1e6
                ),
                unit="µs",
                source=f"at most {before} packets and a ping before it (Shreedhar, Varghese 1996)",
                measure=column("oneWayMax", third),
            ),
        ]

    return Cell(link=link, links=links, flows=(greedy, modest, sparse), rows=rows)


def controlled(
    rate: str,
    kind: str,
    interval_s: tuple[float, float, float],
    seconds: float,
    source: str,
    *,
    rtt_ms: float = 20,
) -> Cell:
    """Two flows of CUBIC: the mean delay of the queue."""
    link = f"rate={rate} rtt={rtt_ms:g} qdisc={kind}"
    expected, low, high = (1e6 * each for each in interval_s)
    flow = f"test=TCP_STREAM ca=cubic instances=2 omit=2 dur={seconds:g} interval=0.02"

    def rows(groups: Sequence[Place]) -> list[Row]:
        return [
            Row(
                quantity="mean delay of the queue, 2 flows of CUBIC",
                link=link,
                interval=Interval(expected, low, high),
                unit="µs",
                source=source,
                measure=column("queueDelay", groups[0]),
            )
        ]

    return Cell(link=link, flows=(flow,), rows=rows)


def codel_controlled(rate: str, kind: str, seconds: float) -> Cell:
    target_s = CODEL_TARGET_S
    source = "about the target, less than twice (RFC 8289, 4.3)"
    return controlled(rate, kind, (target_s, 0.2 * target_s, 2 * target_s), seconds, source)


def pie_controlled(rate: str, kind: str, seconds: float) -> Cell:
    target_s = PIE_TARGET_S
    source = "the target ± a third (RFC 8033, 4.2)"
    return controlled(rate, kind, (target_s, target_s * 2 / 3, target_s * 4 / 3), seconds, source)
