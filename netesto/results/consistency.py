"""One check of every result, live or imported: a value that contradicts others is replaced by what
these imply, or is unknown, and `TransferResult.doubts` says so."""

import math
from collections.abc import Iterator
from dataclasses import replace

from netesto.flowspec import STREAM_TESTS, FlowSpec
from netesto.measured import Datagrams, TransferResult
from netesto.results import severity

TOLERANCE = 0.10
# Counts of one receiver belong to one instant. Rates in the text of iperf3 have three digits.
_COUNTS_TOLERANCE = 0.02
_FEW_DATAGRAMS = 10
# A sum over a shorter time depends on when it begins.
_LONG_ENOUGH_S = 0.5


def checked(result: TransferResult, asked: FlowSpec) -> TransferResult:
    """The result of a flow, without values that others contradict."""
    doubts = [*result.doubts]
    datagrams = result.datagrams
    if datagrams is not None and asked.omit_s and (sent := _sent_by_rates(datagrams, result)):
        said = f"{asked.tool} reports {datagrams.sent} sent datagrams, with some of the omitted"
        doubts.append(f"{said} time: {sent} by both rates")
        datagrams = replace(datagrams, sent=sent)
    if datagrams is not None and (doubt := _loss_doubt(datagrams)):
        lost = _lost_by_rates(datagrams, result.rate_bps)
        known = "unknown" if lost is None else f"{_percent(lost, datagrams.sent)} by both rates"
        doubts.append(f"{asked.tool} {doubt}: loss is {known}")
        datagrams = replace(datagrams, lost=lost)
    if asked.test in STREAM_TESTS:
        doubts += _of_rates(result, asked)
    doubts += _of_latencies(result)
    return replace(result, datagrams=datagrams, doubts=tuple(dict.fromkeys(doubts)))


def _sent_by_rates(found: Datagrams, result: TransferResult) -> int | None:
    """The datagrams that were sent, as those that arrived and both rates imply; None if the sender
    and the receiver have counted the same ones."""
    sent, numbered, arrived = found.sent, found.numbered, found.received
    if sent is None or numbered is None or not _differ(sent, numbered, _COUNTS_TOLERANCE):
        return None
    if found.lost is not None and not _loss_doubt(replace(found, sent=None)):
        # What arrived is computed from bytes, with the size of a datagram, and that from `sent`.
        arrived = max(0, numbered - found.lost)
    if arrived is None or not result.rate_bps or found.sent_bps is None:
        return None
    implied = round(arrived * found.sent_bps / result.rate_bps)
    return implied if _differ(sent, implied, _COUNTS_TOLERANCE) else None


def _loss_doubt(found: Datagrams) -> str:
    """Why the number of lost datagrams is wrong; "" if nothing says so."""
    lost, sent, received, numbered = found.lost, found.sent, found.received, found.numbered
    if lost is None:
        return ""
    text = f"reports {lost} lost datagrams"
    if sent is not None and lost > sent:
        return f"{text} of {sent} that were sent"
    if received is None:
        return ""
    missing = received + lost
    if numbered is not None and _differ(missing, numbered, _COUNTS_TOLERANCE):
        return f"{text}, where {received} arrived of {numbered} that the receiver knew of"
    # Datagrams may wait in queues at the end.
    if sent is not None and _differ(missing, sent, TOLERANCE):
        return f"{text}, where {sent} were sent and {received} arrived"
    return ""


def _differ(one: float, other: float, tolerance: float) -> bool:
    return abs(one - other) > max(_FEW_DATAGRAMS, tolerance * max(one, other))


def _lost_by_rates(found: Datagrams, rate_bps: float | None) -> int | None:
    """The datagrams that the sent and the received rate leave, which have times of their own."""
    if rate_bps is None or not found.sent_bps or found.sent is None:
        return None
    return round(found.sent * max(0.0, 1 - rate_bps / found.sent_bps))


def _percent(lost: int, sent: int | None) -> str:
    return f"{100 * lost / sent:.3g} %" if sent else str(lost)


def _of_rates(result: TransferResult, asked: FlowSpec) -> Iterator[str]:
    """Totals against each other, and against the intervals, which are of one of both ends."""
    elapsed_s, rate_bps = result.elapsed_s, result.rate_bps
    sent_bps = result.sent_bps
    if result.datagrams is not None and sent_bps is None:
        sent_bps = result.datagrams.sent_bps
    # What was sent in the omitted time may arrive behind it.
    is_comparable = None not in (rate_bps, sent_bps) and not asked.omit_s
    if is_comparable and (rate_bps or 0) > (sent_bps or 0) * (1 + TOLERANCE):
        yield severity.invalidates(
            f"rate {_mbit(rate_bps or 0)} as {asked.tool} reports is above the sent rate, "
            f"{_mbit(sent_bps or 0)}"
        )
    known = [each for each in (rate_bps, sent_bps) if each is not None]
    if not known or not result.intervals or elapsed_s < _LONG_ENOUGH_S:
        return
    covered_s = math.fsum(each.end_s - each.start_s for each in result.intervals)
    bits = math.fsum(each.rate_bps * (each.end_s - each.start_s) for each in result.intervals)
    share = max(0.0, min(1.0, covered_s / elapsed_s) - TOLERANCE)
    if not min(known) * elapsed_s * share <= bits <= max(known) * elapsed_s * (1 + TOLERANCE):
        total = min(known, key=lambda bps: abs(bps * elapsed_s - bits))
        yield severity.invalidates(
            f"{_megabytes(total * elapsed_s)} in all as {asked.tool} reports, "
            f"{_megabytes(bits)} in its intervals, which cover {covered_s:.3g} of {elapsed_s:.3g} s"
        )


def _of_latencies(result: TransferResult) -> Iterator[str]:
    least, mean, most = result.min_latency_us, result.mean_latency_us, result.max_latency_us
    below = None not in (least, mean) and (mean or 0) < (least or 0) * (1 - TOLERANCE)
    above = None not in (most, mean) and (mean or 0) > (most or 0) * (1 + TOLERANCE)
    if below or above:
        yield (
            f"a mean latency of {mean:g} µs that is not between the minimum and the maximum, "
            f"{'unknown' if least is None else f'{least:g}'} and "
            f"{'unknown' if most is None else f'{most:g}'} µs"
        )


def _mbit(rate_bps: float) -> str:
    return f"{rate_bps / 1e6:.4g} Mbit/s"


def _megabytes(bits: float) -> str:
    return f"{bits / 8e6:.4g} MB"
