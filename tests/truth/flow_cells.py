"""The cells of TCP: what congestion controls do on links without surprises."""

import math
import random
import statistics
from collections.abc import Sequence

import numpy as np
import theory
from link_cells import PING_FRAME_BYTES, PINGS_PER_SECOND, bps
from readings import Group, NotMeasuredError
from studies import Cell, Ground, Place, Row, Study, column, of_group
from theory import Interval, within

FULL_BITS = theory.FULL_FRAME_BYTES * 8


def short(
    rate: str,
    *,
    rtt_ms: float,
    sizes: Sequence[int] = (1, 10, 11, 17, 100),
    window: int = theory.INITIAL_WINDOW,
) -> Cell:
    """Transfers of so many segments, each on a new connection, one after the other."""
    link = f"rate={rate} rtt={rtt_ms:g} limit=1000p"
    expected = {
        size: theory.slow_start_s(
            size, rate_bps=bps(rate), rtt_s=rtt_ms / 1000, initial_window=window
        )
        for size in sizes
    }
    before = ""
    if window != theory.INITIAL_WINDOW:
        before = f"SET_ROUTE host=a to={{server}} initcwnd={window}"
    flows, at_s = [], 0.0
    for size, takes_s in expected.items():
        gap_s = math.ceil(2 * takes_s + 3 * rtt_ms / 1000 + 0.3)
        flows.append(
            f"test=TCP_FLOWS ca=reno size={size * theory.MSS_BYTES} count=3 gap={gap_s} "
            f"dur={3 * gap_s} delay={at_s:g}"
        )
        at_s += 3 * gap_s + 0.1

    def rows(groups: Sequence[Place]) -> list[Row]:
        # It may meet pings.
        ping_us = theory.serialisation_s(PING_FRAME_BYTES, bps(rate)) * 1e6
        return [
            Row(
                quantity=f"completion of {size} segments: median of 3",
                link=link,
                interval=Interval(
                    takes_s * 1e6,
                    takes_s * 1e6 - 1,
                    takes_s * 1e6 + 1 + ping_us * math.ceil(PINGS_PER_SECOND * takes_s),
                ),
                unit="µs",
                source=f"slow start from {window} (RFC 6928), segment by segment",
                measure=of_group(_median_us, group),
            )
            for (size, takes_s), group in zip(expected.items(), groups, strict=True)
        ]

    return Cell(link=link, flows=tuple(flows), rows=rows, before=before)


def _median_us(group: Group) -> float:
    return statistics.median(
        [float(each["us"]) for each in group.transfers() if each["status"] == "ok"]
    )


def hit(rate: str, percent: float, count: int, *, links: int = 1) -> Cell:
    """Transfers of 17 packets and their handshakes: those in which something was lost."""
    link = f"rate={rate} rtt=2 loss={percent:g}"
    each = theory.several(percent / 100, links)
    # 17 packets, SYN and SYN-ACK; a lost last ACK is also repaired by a retransmission.
    low, high = (
        theory.binomial(count, theory.several(each, packets)) for packets in (17 + 2, 17 + 3)
    )

    def rows(groups: Sequence[Place]) -> list[Row]:
        return [
            Row(
                quantity=f"transfers of 17 packets with retransmissions, of {count}",
                link=link,
                interval=Interval(low.expected, low.low, high.high),
                unit="",
                source="1 - (1 - p)^19, of the last ACK ^20",
                measure=of_group(
                    lambda g: sum(transfer["retransmits"] != "0" for transfer in g.transfers()),
                    groups[0],
                ),
            )
        ]

    return Cell(
        link=link,
        links=links,
        flows=(f"test=TCP_FLOWS ca=reno size={24387} count={count}",),
        rows=rows,
    )


def _rounds(loss: float, rounds: int, generator: random.Random) -> int:
    """The segments that Reno sends in so many RTTs, of which each is lost at random."""
    window, sent = 1.2 / math.sqrt(loss), 0
    for _ in range(rounds):
        now = int(window)
        sent += now
        window = window / 2 if generator.random() > (1 - loss) ** now else window + 1
    return sent


def random_losses(percent: float, *, rtt_ms: float, seconds: float, links: int = 1) -> Cell:
    """Reno on a path with room for all that it sends."""
    loss, rtt_s = percent / 100, rtt_ms / 1000
    link = f"rate=200mbit rtt={rtt_ms / links:g} loss={percent:g}"
    expected = theory.mathis_bps(rtt_s, theory.several(loss, links)) / 1e6
    most = theory.mathis_bps(rtt_s, theory.several(loss, links), theory.OTT) / 1e6
    least = theory.padhye_bps(rtt_s, theory.several(loss, links), 0.2 + rtt_s) / 1e6

    def rows(groups: Sequence[Place]) -> list[Row]:
        generator = random.Random(1)
        drawn = [_rounds(loss, int(seconds / rtt_s), generator) for _ in range(100)]
        spread = theory.DEVIATIONS * float(np.std(drawn) / np.mean(drawn))
        return [
            Row(
                quantity=f"goodput of Reno in {seconds:g} s",
                link=link,
                interval=Interval(expected, least * (1 - spread), most * (1 + spread)),
                unit="Mbit/s",
                source="MSS/RTT · √(3/2p) (Mathis 1997); from Padhye 1998 to 1.31 (Ott 1996)",
                measure=column("rate", groups[0]),
            )
        ]

    # Slow start ends at the first loss, with a window that takes some losses to forget.
    omit_s = max(2, 5 * 0.01 / percent)
    flow = f"test=TCP_STREAM ca=reno omit={omit_s:g} dur={seconds:g} interval=1"
    return Cell(link=link, links=links, flows=(flow,), rows=rows)


# tcpi_ca_state (enum tcp_ca_state in <linux/tcp.h>).
RECOVERY = 3


def _drops_s(group: Group) -> list[float]:
    """The instants at which the first flow began to recover, and so reduced its window."""
    samples = group.sockets()[0]
    recovers = (samples["tcpi_ca_state"] >= RECOVERY).astype(int)
    begun = np.flatnonzero(np.diff(recovers) > 0) + 1
    return [float(samples["before_s"][place]) for place in begun]


def sawtooth(rate: str, *, rtt_ms: float, room: int, seconds: float) -> Cell:
    """Reno alone behind a drop-tail queue."""
    link = f"rate={rate} rtt={rtt_ms:g} limit={room}p"
    full_s = FULL_BITS / bps(rate)
    # In flight: on the way, in the queue, and being sent; it grows until one is lost.
    window = rtt_ms / 1000 / full_s + room + 1
    period_s = 3 / 8 * window**2 * full_s

    def rows(groups: Sequence[Place]) -> list[Row]:
        return [
            Row(
                quantity="Reno's sawtooth: greatest window after the first",
                link=link,
                interval=within(window, absolute=2),
                unit="segments",
                source="rate · RTT + limit + 1",
                measure=of_group(lambda g: _greatest_window(g, seconds / 3), groups[0]),
            ),
            Row(
                quantity="Reno's sawtooth: mean period",
                link=link,
                # A reduction lasts an RTT, and a window that is one larger or smaller.
                interval=within(period_s, share=2 * 3 / window + 2 * rtt_ms / 1000 / period_s),
                unit="s",
                source="3/8 W² size/rate (Mathis 1997)",
                measure=of_group(_period_s, groups[0]),
            ),
        ]

    flow = f"test=TCP_STREAM ca=reno dur={seconds:g} interval=0.02"
    return Cell(link=link, flows=(flow,), rows=rows)


def _greatest_window(group: Group, after_s: float) -> float:
    samples = group.sockets()[0]
    is_late = samples["before_s"] - samples["before_s"][0] > after_s
    # In recovery the window may inflate (RFC 5681).
    is_open = samples["tcpi_ca_state"] == 0
    return float(samples["tcpi_snd_cwnd"][is_open & is_late].max())


def _period_s(group: Group) -> float:
    """The mean distance of reductions, without those that end slow start."""
    times_s = _drops_s(group)[1:]
    if len(times_s) < 3:
        raise NotMeasuredError(f"{len(times_s)} reductions of the window")
    return float(np.mean(np.diff(times_s)))


def cubic(rate: str, *, rtt_ms: float, room: int, seconds: float) -> Cell:
    """CUBIC alone behind a drop-tail queue: all its losses are at one window."""
    link = f"rate={rate} rtt={rtt_ms:g} limit={room}p"
    window = rtt_ms / 1000 / (FULL_BITS / bps(rate)) + room + 1
    k_s = theory.cubic_k_s(window)
    # Near its plateau the window moves by a segment in cbrt(1/C) = 1.4 s. The window that CUBIC
    # remembers is one or two segments more than that of the loss, before which it recovers; or some
    # less, and the next loss comes later, with the RTTs of a recovery.
    early_s = math.cbrt(2 / 0.4)
    late_s = math.cbrt(4 / 0.4) + 3 * rtt_ms / 1000

    def rows(groups: Sequence[Place]) -> list[Row]:
        return [
            Row(
                quantity="CUBIC: mean period of its reductions",
                link=link,
                interval=Interval(k_s, k_s - early_s, k_s + late_s),
                unit="s",
                source="K = cbrt(W (1 - β) / C), ± segments at the plateau (RFC 9438, 4.2)",
                measure=of_group(_period_s, groups[0]),
            )
        ]

    flow = f"test=TCP_STREAM ca=cubic dur={seconds:g} interval=0.02"
    # With it, a window that is one smaller than the last would be taken for a new flow's.
    before = "SET_MODULE_PARAMS host=a module=tcp_cubic fast_convergence=0"
    return Cell(link=link, flows=(flow,), rows=rows, before=before)


def bbr(rate: str, *, rtt_ms: float, seconds: float = 25) -> Cell:
    link = f"rate={rate} rtt={rtt_ms:g} limit=bdp(4)"
    rtt_s = rtt_ms / 1000
    bdp = rtt_s / (FULL_BITS / bps(rate))
    doublings = math.log2(bdp / theory.INITIAL_WINDOW)

    def rows(groups: Sequence[Place]) -> list[Row]:
        one, two = groups
        return [
            Row(
                quantity="BBR: STARTUP ends",
                link=link,
                # The queue of STARTUP makes rounds longer, up to 2.89 times; the first rounds may
                # be one more, because a rate is known a round later.
                interval=Interval(
                    (doublings + 3) * rtt_s,
                    (doublings + 3) * rtt_s,
                    (math.ceil(doublings) + 1 + 3) * 2.89 * rtt_s,
                ),
                unit="s",
                source="log2(BDP/10) RTTs, then 3 rounds without growth (Cardwell 2017)",
                measure=of_group(_startup_s, one),
            ),
            Row(
                quantity="BBR: PROBE_RTT lasts",
                link=link,
                interval=Interval(0.2 + rtt_s, 0.19, 0.21 + 2.5 * rtt_s),
                unit="s",
                source="200 ms and a round trip (Cardwell 2017)",
                measure=of_group(lambda g: _probe_rtt_s(g)[1], two),
            ),
            Row(
                quantity="BBR, two flows: first PROBE_RTT",
                link=link,
                interval=Interval(10, 10, 11 + 10 * rtt_s),
                unit="s",
                source="10 s after the last minimum of the RTT",
                measure=of_group(lambda g: _probe_rtt_s(g)[0], two),
            ),
        ]

    flows = (
        "test=TCP_STREAM ca=bbr dur=3 interval=0.01",
        f"test=TCP_STREAM ca=bbr instances=2 delay=5 dur={seconds:g} interval=0.01",
    )
    return Cell(link=link, flows=flows, rows=rows)


def _startup_s(group: Group) -> float:
    samples = group.sockets()[0]
    # 2.89, in 1/256.
    is_startup = samples["bbr_pacing_gain"] > 700
    if not is_startup.any():
        raise NotMeasuredError("no sample of STARTUP")
    first = np.argmax(is_startup)
    end = first + np.argmin(is_startup[first:])
    return float(samples["before_s"][end] - samples["before_s"][first])


def _probe_rtt_s(group: Group) -> tuple[float, float]:
    """When, after its start, the first flow had 4 segments in flight, and how long."""
    samples = group.sockets()[0]
    times_s = samples["before_s"] - samples["before_s"][0]
    is_low = (samples["tcpi_snd_cwnd"] <= 4) & (times_s > 5)
    if not is_low.any():
        raise NotMeasuredError("no window of 4 segments")
    first = np.argmax(is_low)
    end = first + np.argmin(is_low[first:])
    return float(times_s[first]), float(times_s[end] - times_s[first])


def dctcp(
    rate: str, *, rtt_ms: float, mark: int, flows: int, seconds: float = 4, in_bytes: bool = False
) -> Cell:
    """`mark` segments, written in ms or in bytes."""
    full_s = FULL_BITS / bps(rate)
    setting = f"qdisc=codel mark={mark * full_s * 1000:.3f}"
    if in_bytes:
        setting = f"mark={mark * theory.FULL_FRAME_BYTES / 1000:g}K"
    link = f"rate={rate} rtt={rtt_ms:g} {setting} limit=1000p"
    least, most = theory.dctcp_queue(mark, rtt_ms / 1000 / full_s, flows)

    def rows(groups: Sequence[Place]) -> list[Row]:
        mean = (least + most) / 2
        return [
            Row(
                quantity=f"DCTCP, {flows} flows: mean queue",
                link=link,
                interval=Interval(mean, min(least, mark / 2), most + 2),
                unit="packets",
                source="K + N - A/2, between K + N - A and K + N (Alizadeh 2010, 6 to 10)",
                measure=of_group(lambda g: g.value("queueDelay") / 1e6 / full_s, groups[0]),
            )
        ]

    flow = f"test=TCP_STREAM ca=dctcp instances={flows} omit=1 dur={seconds:g} interval=0.01"
    return Cell(link=link, flows=(flow,), rows=rows)


def receive_window(rate: str, *, rtt_ms: float, window_bytes: int) -> Cell:
    link = f"rate={rate} rtt={rtt_ms:g}"
    segments = window_bytes // theory.MSS_BYTES
    round_s = rtt_ms / 1000 + theory.serialisation_s(theory.FULL_FRAME_BYTES, bps(rate))
    expected = segments * theory.MSS_BYTES * 8 / round_s / 1e6

    def rows(groups: Sequence[Place]) -> list[Row]:
        # One segment is not acknowledged yet (RFC 9293, 3.8.6.3), and one not read.
        least = (segments - 2) * theory.MSS_BYTES * 8 / (round_s + 1e-4) / 1e6
        return [
            Row(
                quantity=f"goodput with a receive buffer of {window_bytes} bytes",
                link=link,
                interval=Interval(expected, least, window_bytes * 8 / (rtt_ms / 1000) / 1e6),
                unit="Mbit/s",
                source="window / RTT, of whole segments (RFC 9293, 3.8.6)",
                measure=column("rate", groups[0]),
            )
        ]

    flow = f"test=TCP_STREAM ca=cubic remoteBuffer={window_bytes} omit=1 dur=4"
    return Cell(link=link, flows=(flow,), rows=rows)


def started_together(ground: Ground) -> Study:
    """Flows of netperf that a host starts at one instant, before a drop-tail queue: a world without
    noise must starve none that a machine does not. On `lab` the program carries the link, which so
    has a delay on every kernel."""
    link = "rate=100mbit rtt=20 limit=250K"
    if ground == "lab":
        link += " emulator=program"
    counts, flow = (2, 10, 100), "test=TCP_STREAM tool=netperf ca=cubic dur=14"
    script, rows = [f"LAB pair {link}"], []
    for experiment, count in enumerate(counts, start=1):
        script += [
            "DO_SERVER host=b exp=COUNTER expName=together start=1",
            f"DO_CLIENT host=a server=b {flow} instances={count}",
            *("WAIT_FLOWS", "PROCESS_EXP"),
        ]
        place = (experiment, 1)
        rows += [
            Row(
                quantity=f"{count} flows that start together: with less than 1 % of their share",
                link=f"pair {link}",
                interval=Interval(0, 0, count // 100),
                unit="",
                source="a common start must starve none (Floyd, Jacobson 1991: phase effects)",
                measure=of_group(_starved, place),
            ),
            Row(
                quantity=f"{count} flows that start together: Jain's index in 14 s",
                link=f"pair {link}",
                interval=Interval(1, 0.5, 1),
                unit="",
                source="1 of equal shares (Jain 1984); 1/2 if shares are exponential",
                measure=of_group(_jain, place),
            ),
        ]
    return Study(
        name="together" if ground == "sim" else f"together-on-{ground}",
        script="\n".join([*script, ""]),
        expected=lambda: rows,
        ground=ground,
    )


def _starved(group: Group) -> float:
    rates = group.rates()
    return sum(rate < 0.01 * sum(rates) / len(rates) for rate in rates)


def _jain(group: Group) -> float:
    rates = group.rates()
    return sum(rates) ** 2 / (len(rates) * sum(rate**2 for rate in rates))
