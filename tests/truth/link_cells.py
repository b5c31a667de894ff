"""The cells of links: what each setting does to packets."""

from collections.abc import Sequence

import captures
import reference
import theory
from reference import Load
from studies import EXACTNESS, NATIVE, Cell, Ground, Place, Row, Study, column, of_group
from theory import Interval, within

PING_FRAME_BYTES = theory.ETHERNET_BYTES + 84
PINGS_PER_SECOND = 5

# What reading clocks and rounding may change.
CLOCK_S = 1e-6

RATES = ("2mbit", "20mbit", "200mbit", "2gbit")


def bps(rate: str) -> float:
    """The rate that a script writes: 20mbit, 2gbit."""
    return float(rate[:-4]) * {"mbit": 1e6, "gbit": 1e9}[rate[-4:]]


def datagrams(rate: str, share: float, count: int, length: int = theory.FULL_DATAGRAM_BYTES) -> str:
    """Arguments of DO_CLIENT: `count` datagrams of `length` bytes, at a share of the link's rate of
    frames."""
    frame_bytes = length + theory.UDP_HEADERS_BYTES
    offered_bps = share * bps(rate)
    duration_s = count * frame_bytes * 8 / offered_bps
    payload_bps = offered_bps * length / frame_bytes
    # The last one is sent before the end.
    duration_s *= 1 - 0.5 / count
    words = f"test=UDP_STREAM len={length} bitrate={payload_bps:.3f} interval=0.05"
    return f"{words} dur={duration_s:.9f}"


def allowed(
    ground: Ground, expected_s: float, rate: str, crossings: int, late_s: float = 0
) -> Interval:
    """The interval in µs of a delay that crosses so many shapers; `late_s` may be added."""
    exact = EXACTNESS[ground]
    frame_s = theory.serialisation_s(theory.FULL_FRAME_BYTES, bps(rate))
    # A burst saves no more than the time that it would take.
    early_s = min(max(exact.early_packets * frame_s, exact.early_s) * crossings, expected_s)
    low_s, high_s = expected_s - early_s - CLOCK_S, expected_s + exact.late_s + late_s + CLOCK_S
    return Interval(expected_s * 1e6, low_s * 1e6, high_s * 1e6)


def idle(rate: str, *, delay_ms: float, links: int = 1, ground: Ground = "sim") -> Cell:
    """Single packets, one after the other."""
    each_s = delay_ms / 1000
    link = f"rate={rate} delay={delay_ms:g}" if delay_ms else f"rate={rate}"
    full_s = links * (theory.serialisation_s(theory.FULL_FRAME_BYTES, bps(rate)) + each_s)
    # They may meet a ping.
    ping_s = theory.serialisation_s(PING_FRAME_BYTES, bps(rate)) * links
    share = theory.serialisation_s(theory.FULL_FRAME_BYTES, bps(rate)) / (3 * full_s)
    small_s = 2 * links * (
        theory.serialisation_s(theory.TCP_HEADERS_BYTES + 1, bps(rate)) + each_s
    )  # fmt: skip
    request_s = full_s + small_s / 2
    source = f"{links} x (size/rate + delay)"

    def rows(groups: Sequence[Place]) -> list[Row]:
        sent, small, large = groups
        return [
            Row(
                quantity="one-way delay of datagrams of 1514 bytes: minimum",
                link=link,
                interval=allowed(ground, full_s, rate, links),
                unit="µs",
                source=source,
                measure=column("oneWayMin", sent),
            ),
            Row(
                quantity="the same: maximum, beside pings",
                link=link,
                interval=allowed(ground, full_s, rate, links, ping_s),
                unit="µs",
                source=source,
                measure=column("oneWayMax", sent),
            ),
            Row(
                quantity="TCP_RR, 1 byte and 1 byte: median",
                link=link,
                interval=allowed(ground, small_s, rate, 2 * links),
                unit="µs",
                source=source + ", both ways",
                measure=column("p50Latency", small),
            ),
            Row(
                quantity="TCP_RR, 1448 bytes and 1 byte: median",
                link=link,
                interval=allowed(ground, request_s, rate, 2 * links),
                unit="µs",
                source=source + ", both ways",
                measure=column("p50Latency", large),
            ),
        ]

    alone = datagrams(rate, share, 20)
    sending_s = 20 * 3 * full_s
    pause_s = round(sending_s + 0.5, 1)
    requests_s = max(0.2, 20 * request_s)
    later_s = pause_s + requests_s + 0.5
    return Cell(
        link=link,
        links=links,
        flows=(
            alone,
            f"test=TCP_RR req=1 reply=1 dur={requests_s:.3f} delay={pause_s:.3f}",
            f"test=TCP_RR req=1448 reply=1 dur={requests_s:.3f} delay={later_s:.3f}",
        ),
        rows=rows,
    )


def lost(
    rate: str,
    setting: str,
    interval: Interval,
    count: int,
    source: str,
    *,
    links: int = 1,
    run: Interval | None = None,
) -> Cell:
    """Datagrams of a load below the rate that do not arrive, and the mean `run` of them."""
    link = f"rate={rate} delay=1 {setting}"

    def rows(groups: Sequence[Place]) -> list[Row]:
        made = [
            Row(
                quantity=f"datagrams lost, of {count}",
                link=link,
                interval=interval,
                unit="",
                source=source,
                measure=of_group(
                    lambda g: g.value("udpLost") * count / g.value("udpSent"), groups[0]
                ),
            )
        ]
        if run is not None:
            made.append(
                Row(
                    quantity="mean run of lost datagrams",
                    link=link,
                    interval=run,
                    unit="datagrams",
                    source="1 / r (Gilbert, 1960), a geometric distribution",
                    measure=of_group(captures.mean_run, groups[0]),
                )
            )
        return made

    return Cell(
        link=link,
        links=links,
        flows=(datagrams(rate, 0.8, count, 58),),
        rows=rows,
        # Pings, and what opens the flow, are also captured.
        captures=count + 2000 if run is not None else 0,
    )


def random_loss(rate: str, percent: float, count: int, *, links: int = 1) -> Cell:
    probability = theory.several(percent / 100, links)
    return lost(
        rate,
        f"loss={percent:g}",
        theory.binomial(count, probability),
        count,
        "binomial distribution, 1 - (1 - p)^links",
        links=links,
    )


def bursts(rate: str, to_bad: float, to_good: float, count: int, *, links: int = 1) -> Cell:
    """Gilbert-Elliott; percents. On several links runs of losses meet, and have no simple mean."""
    p, r = to_bad / 100, to_good / 100
    return lost(
        rate,
        f"loss=ge({to_bad:g},{to_good:g})",
        theory.gilbert_elliott(count, p, r, links),
        count,
        "p / (p + r) (Gilbert, 1960), variance of a chain of two states",
        links=links,
        run=theory.gilbert_run(count, p, r) if links == 1 else None,
    )


def corrupted(rate: str, percent: float, count: int) -> Cell:
    """One bit of a packet is inverted; only one of the sender's Ethernet address is not noticed."""
    unnoticed = 6 / (58 + theory.UDP_HEADERS_BYTES)
    interval = theory.binomial(count, percent / 100 * (1 - unnoticed))
    return lost(
        rate, f"corrupt={percent:g}", interval, count, "binomial distribution; UDP's checksum"
    )


def duplicated(rate: str, percent: float, count: int, *, links: int = 1) -> Cell:
    """Copies are copied, too."""
    link = f"rate={rate} delay=1 duplicate={percent:g}"

    def rows(groups: Sequence[Place]) -> list[Row]:
        return [
            Row(
                quantity=f"copies of datagrams, of {count}",
                link=link,
                interval=theory.copies(count, percent / 100, links),
                unit="",
                source="binomial distribution; (1 + p)^links - 1",
                measure=column("udpDuplicates", groups[0]),
            ),
            Row(
                quantity=f"datagrams lost, of {count}",
                link=link,
                interval=Interval(0, 0, 0),
                unit="",
                source="copies are copies",
                measure=column("udpLost", groups[0]),
            ),
        ]

    return Cell(link=link, links=links, flows=(datagrams(rate, 0.5, count, 58),), rows=rows)


def reordered(rate: str, percent: float, count: int) -> Cell:
    """tc's `reorder`: this share is not delayed, and overtakes what was sent less than the delay
    before: here one datagram, which is late if it is not such a one itself."""
    frame_s = theory.serialisation_s(58 + theory.UDP_HEADERS_BYTES, bps(rate))
    delay_ms = 1.5 * frame_s / 0.4 * 1000
    link = f"rate={rate} delay={delay_ms:.6g} reorder={percent:g}"
    share = percent / 100 * (1 - percent / 100)
    interval = theory.binomial(count, share)
    # Neighbours exclude each other, which makes the spread smaller than that of a binomial one.

    def rows(groups: Sequence[Place]) -> list[Row]:
        return [
            Row(
                quantity=f"datagrams overtaken, of {count}",
                link=link,
                interval=interval,
                unit="",
                source="q (1 - q), gap < delay < 2 gaps (RFC 4737, 3.3)",
                measure=column("udpReordered", groups[0]),
            )
        ]

    return Cell(link=link, flows=(datagrams(rate, 0.4, count, 58),), rows=rows)


def jittered(rate: str, delay_ms: float, jitter_ms: float, count: int) -> Cell:
    """A uniform distribution, tc's default."""
    link = f"rate={rate} delay={delay_ms:g} jitter={jitter_ms:g}"
    frame_us = theory.serialisation_s(58 + theory.UDP_HEADERS_BYTES, bps(rate)) * 1e6
    mean_us, width_us = delay_ms * 1000 + frame_us, jitter_ms * 1000
    deviation_us = width_us / 3**0.5
    # Of so many draws, the least is that far from the end with a probability of CHANCE.
    edge_us = 2 * width_us * -(theory.CHANCE ** (1 / count) - 1)

    def rows(groups: Sequence[Place]) -> list[Row]:
        mean = within(mean_us, absolute=theory.DEVIATIONS * deviation_us / count**0.5 + frame_us)
        least = Interval(
            mean_us - width_us, mean_us - width_us - 1, mean_us - width_us + edge_us + 1
        )
        most = Interval(
            mean_us + width_us, mean_us + width_us - edge_us - 1, mean_us + width_us + 20 * frame_us
        )
        source = "delay ± jitter, uniform (tc-netem(8))"
        parts = (
            ("mean", "oneWayMean", mean),
            ("minimum", "oneWayMin", least),
            ("maximum", "oneWayMax", most),
        )
        return [
            Row(
                quantity=f"one-way delay, {which} of {count}",
                link=link,
                interval=interval,
                unit="µs",
                source=source,
                measure=column(name, groups[0]),
            )
            for which, name, interval in parts
        ]

    return Cell(link=link, flows=(datagrams(rate, 0.1, count, 58),), rows=rows)


def distributed(rate: str, delay_ms: float, jitter_ms: float, kind: str, count: int) -> Cell:
    """The quantiles of delays with a distribution of tc's tables."""
    link = f"rate={rate} delay={delay_ms:g} jitter={jitter_ms:g} distribution={kind}"
    frame_us = theory.serialisation_s(58 + theory.UDP_HEADERS_BYTES, bps(rate)) * 1e6

    def rows(groups: Sequence[Place]) -> list[Row]:
        return [
            Row(
                quantity=f"one-way delay, quantile {share:g} of {count}",
                link=link,
                interval=theory.quantile(
                    lambda part: (
                        frame_us + 1000 * (delay_ms + jitter_ms * theory.DISTRIBUTIONS[kind](part))
                    ),
                    share,
                    count,
                ),
                unit="µs",
                source=f"delay + jitter · {theory.DISTRIBUTION_SOURCES[kind]}",
                measure=of_group(captures.delay_quantile_us(share), groups[0]),
            )
            for share in (0.05, 0.25, 0.5, 0.75, 0.95)
        ]

    flow = datagrams(rate, 0.1, count, 58)
    return Cell(link=link, flows=(flow,), rows=rows, captures=count + 2000)


def overloaded(
    rate: str,
    limit: str,
    packets: float,
    *,
    links: int = 1,
    excess: float = 1.2,
    delay_ms: float = 1,
    ground: Ground = "sim",
) -> Cell:
    """A drop-tail queue of full packets with more than the link carries; `packets` is what its
    limit holds of them."""
    link = f"rate={rate} delay={delay_ms:g} limit={limit}".replace(" delay=0", "")
    count = int(max(400, 12 * packets) * excess / 1.2)
    flow = datagrams(rate, excess, count)
    duration_s = float(flow.rpartition("dur=")[2])
    frame_s = theory.serialisation_s(theory.FULL_FRAME_BYTES, bps(rate))
    payload = theory.FULL_DATAGRAM_BYTES / theory.FULL_FRAME_BYTES
    pings_bps = PINGS_PER_SECOND * PING_FRAME_BYTES * 8
    goodput_mbps = bps(rate) * payload / 1e6
    one_mbps = theory.FULL_DATAGRAM_BYTES * 8 / duration_s / 1e6
    ping_s = theory.serialisation_s(PING_FRAME_BYTES, bps(rate))
    wait_s = packets * frame_s + (links - 1) * frame_s + links * delay_ms / 1000
    share = EXACTNESS[ground].rate_share

    def rows(groups: Sequence[Place]) -> list[Row]:
        late = Row(
            quantity="the latest of these datagrams leaves after its instant by",
            link=link,
            interval=Interval(0, 0, 2),
            unit="ns",
            source="a sleeper in simulated time wakes at its nanosecond; the clock rounds",
            measure=of_group(lambda g: g.result["max_ns"], groups[0]),
        )
        slower = goodput_mbps * share + one_mbps + pings_bps / 1e6
        return [
            Row(
                quantity=f"goodput of datagrams, {excess:g} times the rate",
                link=link,
                interval=Interval(
                    goodput_mbps, goodput_mbps - slower, goodput_mbps * (1 + share) + one_mbps
                ),
                unit="Mbit/s",
                source="rate · 1472/1514, less pings",
                measure=column("rate", groups[0]),
            ),
            Row(
                quantity="their greatest one-way delay",
                link=link,
                interval=allowed(ground, wait_s, rate, links, frame_s + ping_s),
                unit="µs",
                source="limit / rate; a packet is being sent, and a ping may fit",
                measure=column("oneWayMax", groups[0]),
            ),
            *([late] if ground == "sim" else []),
            Row(
                quantity="queueDrops - udpLost",
                link=link,
                interval=Interval(0, 0, PINGS_PER_SECOND * (duration_s + 1)),
                unit="",
                source="`tc -s` counts what datagrams count, and pings",
                measure=of_group(lambda g: g.value("queueDrops") - g.value("udpLost"), groups[0]),
            ),
        ]

    return Cell(link=link, links=links, flows=(flow,), rows=rows)


def policed(rate: str, *, excess: float = 1.2, links: int = 1) -> Cell:
    """More than the rate is dropped, and nothing waits."""
    burst_bytes = 30_000
    link = f"rate={rate} delay=1 police={burst_bytes // 1000}K"
    count = max(400, int(bps(rate) * 0.5 / 8 / theory.FULL_FRAME_BYTES))
    sent = datagrams(rate, excess, count)
    duration_s = float(sent.rpartition("dur=")[2])
    passed = (bps(rate) * duration_s / 8 + burst_bytes) / theory.FULL_FRAME_BYTES
    # A ping of 98 bytes takes a part of a datagram.
    pings = (PINGS_PER_SECOND * duration_s + 1) * PING_FRAME_BYTES / theory.FULL_FRAME_BYTES

    def rows(groups: Sequence[Place]) -> list[Row]:
        return [
            Row(
                quantity=f"datagrams that arrive, of {count}, {excess:g} times the rate",
                link=link,
                interval=Interval(passed, passed * 0.999 - 1 - pings, passed * 1.001 + 1),
                unit="",
                source="(rate · time + burst) / size: a token bucket",
                measure=of_group(lambda g: g.value("udpSent") - g.value("udpLost"), groups[0]),
            ),
            Row(
                quantity="their greatest one-way delay",
                link=link,
                interval=within(1000 * links, absolute=1),
                unit="µs",
                source="a policer holds nothing back",
                measure=column("oneWayMax", groups[0]),
            ),
        ]

    return Cell(link=link, links=links, flows=(sent,), rows=rows)


def codel(
    rate: str,
    kind: str,
    seconds: float,
    *,
    excess: float = 1.2,
    setting: str = "",
    links: int = 1,
) -> Cell:
    """CoDel with a load that does not respond: its control law alone decides how many it drops. Of
    several links the first one has the queue."""
    values = dict(word.split("=") for word in setting.split())
    count = int(seconds * excess * bps(rate) / (theory.FULL_FRAME_BYTES * 8))
    load = Load(bps(rate), theory.FULL_FRAME_BYTES, excess, count)
    room = int(count * (1 - 1 / excess)) + 100
    link = f"rate={rate} delay=1 qdisc={kind} limit={room}p" + (f" {setting}" if setting else "")
    source = "RFC 8289, section 5, packet by packet"
    later_s = 1e-3 + (links - 1) * (load.frame_s + 1e-3)

    def rows(groups: Sequence[Place]) -> list[Row]:
        passed = reference.codel(
            load,
            target_s=float(values.get("target", 5)) / 1000,
            interval_s=float(values.get("interval", 100)) / 1000,
        )
        # Pings are in the queue, too, so a frame more or less may be before the others.
        drops = within(passed.drops, share=0.02, absolute=2)
        mean, most = (
            within((delay_s + later_s) * 1e6, share=0.02, absolute=load.frame_s * 1e6)
            for delay_s in (passed.mean_s, passed.longest_s)
        )
        parts = (
            (f"datagrams lost, of {count}", "udpLost", drops, ""),
            ("their mean one-way delay", "oneWayMean", mean, "µs"),
            ("their greatest one-way delay", "oneWayMax", most, "µs"),
        )
        return [
            Row(
                quantity=quantity if place else f"{quantity}, {excess:g} times the rate",
                link=link,
                interval=interval,
                unit=unit,
                source=source,
                measure=column(name, groups[0]),
            )
            for place, (quantity, name, interval, unit) in enumerate(parts)
        ]

    return Cell(link=link, links=links, flows=(datagrams(rate, excess, count),), rows=rows)


def marked(rate: str, kind: str, seconds: float, *, excess: float = 1.2) -> Cell:
    """CoDel that marks instead of dropping, by the same control law."""
    count = int(seconds * excess * bps(rate) / (theory.FULL_FRAME_BYTES * 8))
    load = Load(bps(rate), theory.FULL_FRAME_BYTES, excess, count)
    room = int(count * (1 - 1 / excess)) + 100
    link = f"rate={rate} delay=1 qdisc={kind} ecn=1 limit={room}p"

    def rows(groups: Sequence[Place]) -> list[Row]:
        marks = reference.codel(load, marks=True).marks
        return [
            Row(
                quantity=f"datagrams marked, of {count}, {excess:g} times the rate",
                link=link,
                interval=within(marks, share=0.02, absolute=2),
                unit="",
                source="RFC 8289, section 5, packet by packet",
                measure=column("udpMarked", groups[0]),
            ),
            Row(
                quantity="the same: lost",
                link=link,
                interval=Interval(0, 0, 0),
                unit="",
                source="RFC 3168, 5: marked instead of dropped",
                measure=column("udpLost", groups[0]),
            ),
        ]

    flow = datagrams(rate, excess, count) + " ecn=1"
    return Cell(link=link, flows=(flow,), rows=rows)


def by_name() -> Study:
    """Settings of one link, and of one direction, by name."""
    small_bits = (theory.TCP_HEADERS_BYTES + 1) * 8
    single = "client1.delay=5 client2.delay=35 right-router.rate=1mbit"
    script = [
        f"LAB dumbbell clients=2 servers=1 rate=20mbit {single}",
        "DO_SERVER host=server1 exp=COUNTER expName=by-name start=1",
        *(
            f"DO_CLIENT host={client} server=server1 tool=native hold=1 test=TCP_RR req=1 reply=1 "
            f"dur=1 delay={delay}"
            for client, delay in (("client1", 0), ("client2", 2))
        ),
        *("START_FLOWS", "WAIT_FLOWS", "PROCESS_EXP", ""),
    ]
    rows = tuple(
        Row(
            quantity=f"TCP_RR from client{number}, 1 byte and 1 byte: median",
            link=f"dumbbell rate=20mbit client{number}.delay={delay_ms} right-router.rate=1mbit",
            interval=within(2 * delay_ms * 1000 + small_bits / 20 + small_bits / 1, absolute=1.0),
            unit="µs",
            source="2 delay + size/20 Mbit/s + size/1 Mbit/s",
            measure=column("p50Latency", (1, number)),
        )
        for number, delay_ms in ((1, 5), (2, 35))
    )
    return Study(name="by-name", script="\n".join(script), expected=lambda: rows, run="ci")


def one_way() -> Study:
    """Settings of one direction of a link: datagrams in both, one after the other."""
    before, count = "rate=20mbit delay=5", 10_000
    flow = datagrams("20mbit", 0.5, count, 58)
    frame_us = theory.serialisation_s(58 + theory.UDP_HEADERS_BYTES, 20e6) * 1e6
    script = [f"LAB pair {before}"]
    rows = []
    for experiment, way in enumerate(("to", "from"), start=1):
        script += [
            # What the other direction has, too, is that of LAB again.
            "SET_LINK host=a loss=0 delay=5",
            f"SET_LINK host=a loss=1 delay=15 dir={way}",
            f"DO_SERVER host=b exp=COUNTER expName={way} start=1",
            "DO_SERVER host=a start=1",
            f"DO_CLIENT host=a server=b {NATIVE} {flow}",
            f"DO_CLIENT host=b server=a {NATIVE} {flow} delay={later_s(flow):.1f}",
            *("START_FLOWS", "WAIT_FLOWS", "PROCESS_EXP"),
        ]
        for number, direction in enumerate(("to", "from"), start=1):
            is_set = direction == way
            words = f"SET_LINK host=a loss=1 delay=15 dir={way}"
            what = "from a to b" if direction == "to" else "from b to a"
            rows += [
                Row(
                    quantity=f"{words}: datagrams lost {what}, of {count}",
                    link=f"pair {before}",
                    interval=theory.binomial(count, 0.01) if is_set else Interval(0, 0, 0),
                    unit="",
                    source="binomial distribution" if is_set else "nothing was set",
                    measure=column("udpLost", (experiment, number)),
                ),
                Row(
                    quantity=f"the same: one-way delay {what}, minimum",
                    link=f"pair {before}",
                    interval=within((15_000 if is_set else 5_000) + frame_us, absolute=1),
                    unit="µs",
                    source="size/rate + delay",
                    measure=column("oneWayMin", (experiment, number)),
                ),
            ]
    return Study(name="one-way", script="\n".join([*script, ""]), expected=lambda: rows, run="ci")


def later_s(flow: str) -> float:
    """A delay of another flow that begins when this one has ended."""
    return float(flow.rpartition("dur=")[2]) + 0.5
