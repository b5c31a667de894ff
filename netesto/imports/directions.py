"""What a file of results says: the data of each direction and flow."""

from dataclasses import dataclass, replace

from netesto.imports.documents import Document
from netesto.measured import PingSample, SocketSample, TransferResult


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectionData:
    """The data of one direction, or of one flow. Its times count from the begin of the measurement,
    behind what the tool omits.

    `result` is None if it failed, for this `reason`. `samples` are those of the sender's sockets.
    `is_from_server`: the tool's server sends. `parallel` is the number of its connections, 0 if
    unknown; `request_bytes` and `reply_bytes` are those of a transaction, None if unknown.
    """

    test: str
    result: TransferResult | None = None
    reason: str = ""
    name: str = ""
    is_from_server: bool = False
    parallel: int = 0
    request_bytes: int | None = None
    reply_bytes: int | None = None
    begins_s: float = 0.0
    samples: tuple[SocketSample, ...] = ()
    pings: tuple[PingSample, ...] = ()

    @property
    def sent_bps(self) -> float | None:
        """What its sender sent; what arrived, if nothing else is known."""
        result = self.result
        if result is None:
            return None
        of_datagrams = None if result.datagrams is None else result.datagrams.sent_bps
        rates_bps = (result.sent_bps, of_datagrams, result.rate_bps)
        return next((bps for bps in rates_bps if bps is not None), None)

    @property
    def retransmits(self) -> int | None:
        """Of its sender."""
        result = self.result
        counts = (result.local_retransmits, result.remote_retransmits) if result is not None else ()
        return next((count for count in counts if count is not None), None)

    def at(self, zero_s: float) -> "DirectionData":
        """The same, whose measurement began at `zero_s`."""
        result = self.result
        if result is not None:
            intervals = (
                replace(each, start_s=zero_s + each.start_s, end_s=zero_s + each.end_s)
                for each in result.intervals
            )
            result = replace(result, intervals=tuple(intervals))
            if (found := result.datagrams) is not None:
                shifted = (
                    replace(each, start_s=zero_s + each.start_s, end_s=zero_s + each.end_s)
                    for each in found.intervals
                )
                result = replace(result, datagrams=replace(found, intervals=tuple(shifted)))
        return replace(
            self,
            result=result,
            begins_s=zero_s + self.begins_s,
            samples=tuple(replace(each, time_s=zero_s + each.time_s) for each in self.samples),
            pings=tuple(replace(each, time_s=zero_s + each.time_s) for each in self.pings),
        )


@dataclass(frozen=True, slots=True)
class Sent:
    """What the senders of a run counted."""

    bps: float
    retransmits: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """What a file says of a run. `reason` is why the run failed, "" if it did not; `kind` that of
    the finding. `document` is the first complete one of iperf3, or that of a text; `documents`
    counts those of JSON. `begun_s`: the instant of the start (UTC), if it is told."""

    directions: tuple[DirectionData, ...] = ()
    reason: str = ""
    kind: str = ""
    document: Document | None = None
    documents: int = 0
    duration_s: float | None = None
    begun_s: float | None = None

    @property
    def sent(self) -> Sent | None:
        """The sum over its directions, as far as it is known."""
        rates = [each.sent_bps for each in self.directions if each.sent_bps is not None]
        counts = [each.retransmits for each in self.directions if each.retransmits is not None]
        return Sent(sum(rates), sum(counts) if counts else None) if rates else None

    @property
    def received_bps(self) -> float | None:
        """The sum over its directions, as far as it is known."""
        each = [d.result.rate_bps for d in self.directions if d.result is not None]
        known = [bps for bps in each if bps is not None]
        return sum(known) if known else None


def failed(reason: str, kind: str = "no-result", document: Document | None = None) -> ToolOutput:
    """A run without a result."""
    return ToolOutput(
        reason=reason, kind=kind, document=document, documents=int(document is not None)
    )
