"""Measures the paths of a lab before traffic: requested against achieved.

The base RTT of every path that a script uses is measured. The rate is measured once for each shaped
link and direction, but only if that is cheap: a packet train must fit into half a second, and this
machine must be able to send it.
"""

import math
import re
import statistics
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from typing import TypeAlias

from netesto import units
from netesto.errors import LabError, ProcessError
from netesto.files import jsontext
from netesto.lab import train
from netesto.lab.addressing import LinkEnd
from netesto.lab.netns import Lab
from netesto.lab.plan import LabPlan
from netesto.links.queues import FRAME_HEADER_BYTES
from netesto.links.settings import LinkSettings
from netesto.results.manifest import PathRecord
from netesto.system import process

# Larger relative errors are reported, or stop the run.
WARNING_DEVIATION = 0.05
ERROR_DEVIATION = 0.20

# The first resolves the addresses on its path, which takes a round trip at each hop. Their minimum
# is the base RTT.
ECHOES = 6

# From a reply to the next request. In the last 10 ms before it, ping polls the clock unless a reply
# is outstanding; in simulated time that took longer than the rest of a short run.
ECHO_GAP_MS = 15.0

# A shorter train measures the scheduler's rate, not the link's.
TRAIN_PACKETS = 40
SHORTEST_TRAIN_S, LONGEST_TRAIN_S = 0.15, 0.5

# Both ends of a train may arrive that much earlier or later: an error of 3 %.
IN_JITTERS = 100

# With more losses there is nothing to measure; else no reply at all is less likely than this.
MOST_LOST, UNLIKELY = 0.9, 1e-6

# The Ethernet, IPv4 and ICMP headers of an echo, and the 56 bytes that ping sends.
ECHO_FRAME_BYTES = 14 + 20 + 8 + 56

# The shaper must be offered more than its rate, also with loss on the path.
OFFERED = 1.3

# The beginning, with the shaper's burst and the machine's delays, is skipped.
SETTLING_SHARE = 0.3

# A Python program on a small machine sends three times as much, so the link is the bottleneck.
FASTEST_TRAIN_BPS = 3e8

# If an ideal link would have been busy for less, the sender was the bottleneck: programs in a
# user-mode kernel, or on a busy machine, have to wait.
LEAST_BUSY_SHARE = 0.97

# A deviating rate is measured again: the machine may have been busy for a moment.
TRAINS = 3

# Pings must not measure each other's processes.
PINGERS = 4

# Each takes a second or less, plus the start of programs on a busy machine.
DEADLINE_S = 60.0

_MIN_RTT = re.compile(r"^(?:rtt|round-trip) min/avg/max/\w+ = (?P<min>[\d.]+)/", re.MULTILINE)


class PathMeasurement(PathRecord):
    """One path. Rates count whole Ethernet frames, as the shaper does."""

    __slots__ = ()

    @property
    def deviation(self) -> float:
        """The larger relative error of RTT and rate; 0 if nothing was requested. Jitter is none."""
        return max(self.rtt_deviation, self.rate_deviation)

    def describe(self) -> str:
        """One line: "client1 → server1: RTT 40.1 ms (requested 40 ms), 99.9 Mbit/s (…)"."""
        words = []
        if self.measured_rtt_ms is not None:
            asked = f" (requested {self.asked_rtt_ms:.3g} ms" if self.asked_rtt_ms else ""
            asked += f" ± {self.jitter_ms:.3g}" if asked and self.jitter_ms else ""
            sent = f"{self.sending_ms:.3g} ms to send" if self.sending_ms >= 0.01 else ""
            about = f"{asked}, and {sent})" if asked and sent else f"{asked})" if asked else ""
            words.append(f"RTT {self.measured_rtt_ms:.3g} ms{about}")
        else:
            words.append("RTT not measured, because of losses")
        if self.asked_rate_bps is not None:
            measured_bps = self.measured_rate_bps
            rate = units.format_rate(measured_bps) if measured_bps else "rate not measured"
            words.append(f"{rate} (requested {units.format_rate(self.asked_rate_bps)})")
        return f"{self.source} → {self.destination}: {', '.join(words)}"


# The frames of a packet train at one of its ends: instants (seconds of its clock), sizes (bytes).
Frames: TypeAlias = Sequence[tuple[float, int]]


def measure(
    lab: Lab, plan: LabPlan, pairs: Iterable[tuple[str, str]], *, family: int = 4
) -> list[PathMeasurement]:
    """Measure the path from the first to the second host of each pair, with IP version `family`.

    Takes some RTTs, and at most half a second for each shaped link, three times that if its rate
    is off. LabError if a host cannot be reached or a train cannot be sent.
    """
    paths = {pair: plan.path(*pair) for pair in pairs}
    asked = {pair: _asked_rtt_ms(plan, *pair) for pair in paths}
    with ThreadPoolExecutor(PINGERS) as pingers:
        ways = {pair: (*ends, *plan.path(*reversed(pair))) for pair, ends in paths.items()}
        sending = {pair: _sending_ms(plan, way) for pair, way in ways.items()}
        rtts = list(
            pingers.map(
                lambda pair: _ping(
                    lab, pair, ways[pair], _interval_ms(asked[pair], sending[pair]), family
                ),
                paths,
            )
        )
    trains: dict[LinkEnd, float | None] = {}
    found = []
    for (pair, ends), rtt_ms in zip(paths.items(), rtts, strict=True):
        path = PathMeasurement(
            source=pair[0],
            destination=pair[1],
            asked_rtt_ms=asked[pair] or None,
            measured_rtt_ms=rtt_ms,
            sending_ms=sending[pair],
            jitter_ms=sum(end.settings.jitter_ms for end in ways[pair]),
            queues=plan.queues(*pair),
            queues_back=plan.queues(*reversed(pair)),
        )
        # The bottleneck, by the end from which it is entered; of several the first.
        shaped = [end for end in ends if end.settings.rate_bps is not None]
        slowest = min(shaped, key=lambda end: end.settings.rate_bps or 0.0, default=None)
        if slowest is not None:
            if slowest not in trains:
                trains[slowest] = _rate_of_path(lab, plan, pair, slowest.settings, family)
            asked_bps = slowest.settings.rate_bps
            path = replace(path, asked_rate_bps=asked_bps, measured_rate_bps=trains[slowest])
        found.append(path)
    return found


def warnings(paths: Iterable[PathMeasurement]) -> list[str]:
    """A sentence for each path that deviates from the request."""
    return [
        f"{path.describe()}: {path.deviation:.0%} off"
        for path in paths
        if path.deviation > WARNING_DEVIATION
    ]


def refuse(paths: Iterable[PathMeasurement]) -> None:
    """LabError if a path is not as requested. Not called with `--force`."""
    wrong = [path for path in paths if path.deviation > ERROR_DEVIATION]
    if wrong:
        raise LabError(
            "the lab does not have the requested paths: " + "; ".join(warnings(wrong)),
            remedy="Request lower rates, reduce the load of this machine, or use --force.",
        )


def _asked_rtt_ms(plan: LabPlan, source: str, destination: str) -> float:
    forth, back = plan.path(source, destination), plan.path(destination, source)
    # In one order, so that a path and the same one back have twice its delay, to the last digit.
    ways = ([end.settings.delay_ms for end in way] for way in (forth, back[::-1]))
    return sum(map(sum, ways))


def _sending_ms(plan: LabPlan, ways: Iterable[LinkEnd]) -> float:
    """What it takes to send an echo and its reply over these links, one after the other."""
    if not plan.maker.has_wires:
        return 0.0
    rates = (end.settings.rate_bps for end in ways if end.settings.police_bytes is None)
    return sum(ECHO_FRAME_BYTES * 8000 / rate_bps for rate_bps in rates if rate_bps)


def _arriving(ends: Iterable[LinkEnd]) -> float:
    """The share of packets that arrive over these links, copies counted."""
    share = 1.0
    for end in ends:
        link = end.settings
        lost = 1.0 if link.is_down else link.loss.mean_percent / 100
        share *= (1 - lost) * (1 + link.duplicate_percent / 100)
    return share


def _rate_of_path(
    lab: Lab, plan: LabPlan, pair: tuple[str, str], slowest: LinkSettings, family: int
) -> float | None:
    """The rate of the slowest link on a path, in bit/s; None if that is not known."""
    ends = plan.path(*pair)
    arriving = _arriving(ends)
    if arriving < 1 - MOST_LOST:
        return None
    jitter_ms = sum(end.settings.jitter_ms for end in ends)
    rate_bps = _rate(lab, pair, slowest, family, jitter_ms=jitter_ms)
    # Losses come behind a wire, and before a shaper.
    return rate_bps / arriving if rate_bps and plan.maker.has_wires else rate_bps


def _interval_ms(asked_rtt_ms: float, sending_ms: float) -> float:
    """From one request of ping to the next, over links with delays of `asked_rtt_ms` that send an
    echo and its reply in `sending_ms`: no reply arrives in the last 10 ms before a request."""
    # To resolve the addresses takes the same delays, and less time to send: the first reply arrives
    # long before the second request, or after it.
    is_early = asked_rtt_ms < ECHO_GAP_MS + sending_ms
    resolving_ms = asked_rtt_ms + sending_ms if is_early else 0
    return asked_rtt_ms + sending_ms + resolving_ms + ECHO_GAP_MS


def _ping(
    lab: Lab, pair: tuple[str, str], ways: Sequence[LinkEnd], interval_ms: float, family: int
) -> float | None:
    """The base RTT in ms; None if losses prevent that. LabError if there is no path."""
    source, destination = pair
    lost = 1 - min(1.0, _arriving(ways))
    if lost > MOST_LOST:
        return None
    echoes = ECHOES if not lost else max(ECHOES, math.ceil(math.log(UNLIKELY) / math.log(lost)))
    own, address = (str(lab.endpoints[host].addresses[family]) for host in pair)
    interval = f"{interval_ms / 1000:.4f}"
    # From the address of its flows: replies to another one may take another path.
    argv = ["ping", "-n", "-q", "-I", own, "-i", interval, "-c", str(echoes), address]
    try:
        finished = lab.exec(source, argv, timeout=DEADLINE_S, check=False)
    except ProcessError as error:
        raise LabError(f"{source} cannot ping {destination}: {error}") from error
    rtt = _MIN_RTT.search(finished.stdout)
    if rtt is None and lost:
        return None  # by chance: a burst of losses may last longer
    if rtt is None:
        reason = finished.last_lines()
        raise LabError(f"{source} cannot reach {destination} ({address}): {reason}")
    return float(rtt["min"])


def _rate(
    lab: Lab, pair: tuple[str, str], link: LinkSettings, family: int, *, jitter_ms: float
) -> float | None:
    """The rate of a shaped link, in bit/s of frames; None if measuring it is not cheap, or the link
    was never busy. If the first train deviates, the median of several counts."""
    rate_bps = link.rate_bps
    assert rate_bps is not None, "only shaped links have trains"
    frame_bytes = link.mtu + FRAME_HEADER_BYTES
    seconds = max(
        SHORTEST_TRAIN_S, TRAIN_PACKETS * frame_bytes * 8 / rate_bps, jitter_ms / 1000 * IN_JITTERS
    )
    if seconds > LONGEST_TRAIN_S or rate_bps > FASTEST_TRAIN_BPS:
        return None
    found: list[float] = []
    for _ in range(TRAINS):
        offered = (rate_bps * OFFERED, seconds, frame_bytes)
        departures, arrivals = _train(lab, pair, offered, family)
        busy = busy_share(departures, rate_bps=rate_bps, queue_bytes=_queue_bytes(link))
        measured_bps = rate_of(arrivals)
        if measured_bps is None or busy < LEAST_BUSY_SHARE:
            continue
        found.append(measured_bps)
        if len(found) == 1 and abs(measured_bps - rate_bps) <= WARNING_DEVIATION * rate_bps:
            break
    return statistics.median(found) if found else None


def _queue_bytes(link: LinkSettings) -> int:
    queue = link.queue
    if queue is None:  # it polices
        return link.police_bytes or 0
    frame_bytes = link.mtu + FRAME_HEADER_BYTES
    return queue.amount * frame_bytes if queue.unit == "packets" else queue.amount


def _train(
    lab: Lab, pair: tuple[str, str], offered: tuple[float, float, int], family: int
) -> tuple[Frames, Frames]:
    """Send a train of this rate (bit/s), length (s) and frame size (bytes); both its ends."""
    source, destination = pair
    # It needs only the standard library, and starts in half the time without site packages.
    command = [sys.executable, "-I", "-S", train.__file__]
    address = str(lab.endpoints[destination].addresses[family])
    receive = lab.command(destination, [*command, "receive", address])
    try:
        with lab.scratch() as folder:
            said = folder / "receiver"
            ready = lambda: said.exists() and "\n" in said.read_text(encoding="utf-8")  # noqa: E731
            with process.background(receive, stdout=said, ready=ready, timeout=DEADLINE_S) as child:
                port = str(jsontext.read(said)["port"])
                send = [*command, "send", address, port, *map(str, offered)]
                sender = lab.exec(source, send, timeout=DEADLINE_S)
                # Ends by itself when the train is over.
                process.wait_until(lambda: child.poll() is not None, timeout=DEADLINE_S)
            last = said.read_text(encoding="utf-8").splitlines()[-1]
            return jsontext.parse(sender.stdout)["departures"], jsontext.parse(last)["arrivals"]
    except (ProcessError, ValueError, KeyError) as error:
        raise LabError(
            f"cannot measure the rate from {source} to {destination}: {error}"
        ) from error


def rate_of(arrivals: Frames) -> float | None:
    """Bits per second of these frames, without the beginning; None if there are too few."""
    if len(arrivals) < TRAIN_PACKETS // 2:
        return None
    begin, end = arrivals[0][0], arrivals[-1][0]
    settled = [
        arrival for arrival in arrivals if arrival[0] >= begin + SETTLING_SHARE * (end - begin)
    ]
    elapsed_s = settled[-1][0] - settled[0][0]
    # The first of them only starts the clock.
    return sum(size for _, size in settled[1:]) * 8 / elapsed_s if elapsed_s > 0 else None


def busy_share(departures: Frames, *, rate_bps: float, queue_bytes: int) -> float:
    """The share of the settled part of a train in which an ideal link would have been busy, if it
    had been offered these frames."""
    if len(departures) < 2:
        return 0.0
    begin, end = departures[0][0], departures[-1][0]
    settled = begin + SETTLING_SHARE * (end - begin)
    queued_s = busy_s = watched_s = 0.0
    for (instant, size), (following, _) in pairwise(departures):
        queued_s = min(queued_s + size * 8 / rate_bps, queue_bytes * 8 / rate_bps)
        gap_s = following - instant
        if instant >= settled:
            watched_s += gap_s
            busy_s += min(gap_s, queued_s)
        queued_s = max(0.0, queued_s - gap_s)
    return busy_s / watched_s if watched_s > 0 else 0.0
