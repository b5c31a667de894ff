"""One-way delays of datagrams: what two hosts measured, on one clock."""

import math
from dataclasses import replace
from pathlib import Path

from netesto.collectors.clock import instant
from netesto.controller.rawfiles import RawFiles
from netesto.files import jsontext
from netesto.measured import DatagramInterval, TransferResult
from netesto.model import ClockOffset, GroupRequest
from netesto.results.manifest import InstanceRecord


def on_one_clock(
    files: RawFiles,
    request: GroupRequest,
    record: InstanceRecord,
    result: TransferResult,
    *,
    client: ClockOffset,
    server: ClockOffset,
) -> TransferResult:
    """The result with the times of datagrams on the controller's clock. One-way delays that are
    not larger than the error of the clocks stay unknown."""
    datagrams = result.datagrams
    if datagrams is None:
        return result
    path = f"raw/{request.server}/server.{request.group}.json"
    zero_s = files.read(path, _monotonic_zero_s, None)
    bound_s = client.bound_s + server.bound_s
    if zero_s is None or record.started_s is None:
        bound_s = math.inf
        zero_s = 0.0
    ahead_s = zero_s - server.at(record.started_s or 0.0) - (record.started_s or 0.0)

    def moved(interval: DatagramInterval) -> DatagramInterval:
        delays = None
        if interval.transits_s is not None:
            least, mean, most = (each + ahead_s for each in interval.transits_s)
            if least > bound_s:
                delays = (least * 1000, mean * 1000, most * 1000)
        return replace(
            interval,
            start_s=client.controllers(interval.start_s),
            end_s=client.controllers(interval.end_s),
            delays_ms=delays,
        )

    intervals = tuple(map(moved, datagrams.intervals))
    has_delays = any(each.delays_ms is not None for each in intervals)
    bound_ms = bound_s * 1000 if has_delays else None
    return replace(
        result, datagrams=replace(datagrams, intervals=intervals, delay_bound_ms=bound_ms)
    )


def _monotonic_zero_s(path: Path) -> float | None:
    """The instant at which the monotonic clock of a server was 0, on its agent's clock."""
    try:
        return instant(jsontext.read(path)["monotonic_zero_s"])
    except (ValueError, KeyError, TypeError):
        return None
