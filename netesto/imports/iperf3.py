"""Reads the output of iperf3: JSON, also repeated or with text around it, or text.

Depends on these facts about its versions:

- The peer's counts are 0 where this end does not know them: in a server's document always.
- Datagrams: before 3.10 `end.sum` has the sender's bytes and the receiver's losses; since then
  `sum_sent` and `sum_received` exist. Before 3.14 losses include those of the omitted time.
- --bidir before 3.8 has the sums of both directions under one key. Later the second ones are
  `sum_bidir_reverse` and the like.
- 3.0 writes numbers that are none, as `-nan`.
- A server prints the document of the test that it waits for when it is interrupted.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from netesto.files import jsontext
from netesto.imports import iperf3text, pscheduler
from netesto.imports.directions import DirectionData, ToolOutput, failed
from netesto.imports.documents import Document, at, items, line, number, whole, words
from netesto.measured import (
    DatagramInterval,
    Datagrams,
    GoodputInterval,
    SocketSample,
    TransferResult,
)
from netesto.traffic.iperf3 import OMIT_SINCE, numbers_of

# Each brace that does not begin a value takes a scan of the rest of the text. A truncated document
# has as many of them as levels.
_ATTEMPTS_MAX = 64
_PORT_MAX = 65_535
_BACK = "_bidir_reverse"
_COUNTS = ("bytes", "bits_per_second", "lost_packets")
_DOUBLED = frozenset({"sum", "sum_sent", "sum_received"})
_NO_NUMBER = re.compile(r"(?<=[:,\[\s])-?(?:nan|inf)(?=\s*[,}\]])")
_SAID = re.compile(r"^(?:.{1,80} )?iperf3: ((?:error|interrupt) - .*)$", re.MULTILINE)
_ENDED = "interrupt - the server has terminated"


def read(data: bytes, *, received_is_enough: bool = False) -> ToolOutput:
    """The output of a client or a server in `data`. A run failed of which nothing is known about
    the sender, unless `received_is_enough`."""
    text = data.decode("utf-8", errors="replace")
    if not text.strip():
        return failed("empty", "empty")
    found = list(_documents(text))
    document, count = (found[0], len(found)) if found else iperf3text.document(text)
    if document is None:
        first = next(each.strip() for each in text.splitlines() if each.strip())
        said = _SAID.findall(text)
        if '"start"' in text and first.startswith("{"):
            return failed("no result: incomplete JSON")
        return failed(f"no result: {line(said[-1] if said else first)}")
    made = replace(_of_document(document), document=document, documents=count if found else 0)
    if count > 1:
        made = replace(made, documents=count)
    return _judged(made, document, text, received_is_enough=received_is_enough)


def _judged(
    made: ToolOutput, document: Document, text: str, *, received_is_enough: bool
) -> ToolOutput:
    """The output with the reason for which its run failed, if it did."""
    if (error := document.get("error")) is not None:
        reason = line(str(error)) or "an error without a text"
        return replace(made, directions=(), reason=reason, kind="error")
    # A server may print many tests.
    is_alone = made.documents < 2 or not _is_server(document)
    said = [each for each in _SAID.findall(text) if each != _ENDED]
    if said and is_alone:
        return replace(made, directions=(), reason=line(said[-1]), kind="error")
    is_told = any(
        each.result is not None
        and (each.sent_bps is not None if received_is_enough else _is_sent_told(each.result))
        for each in made.directions
    )
    if is_told:
        return made
    return replace(
        made,
        directions=(),
        reason="no result: no end.sum_sent.bits_per_second",
        kind="no-result",
    )


def _is_sent_told(result: TransferResult) -> bool:
    sent = result.datagrams.sent_bps if result.datagrams is not None else result.sent_bps
    return sent is not None


def _of_document(document: Document) -> ToolOutput:
    """The directions in a document."""
    is_bidir = any(key.endswith(_BACK) for key in at_end(document)) or bool(
        whole(document, "start", "test_start", "bidir")
    )
    is_server = _is_server(document)
    if is_bidir:
        # The first sums of a version may be those of either direction.
        first = at(document, "intervals", 0, "sum", "sender")
        is_first_back = isinstance(first, bool) and first == is_server
        parts = [("", is_first_back), (_BACK, not is_first_back)]
        parts.sort(key=lambda each: each[1])
    else:
        parts = [("", bool(whole(document, "start", "test_start", "reverse")))]
    return ToolOutput(
        directions=tuple(
            _Part(document, suffix, is_back, is_server, is_bidir).direction()
            for suffix, is_back in parts
        ),
        duration_s=number(document, "end", "sum_sent", "seconds")
        or number(document, "end", "sum", "seconds")
        or number(document, "end", "sum_received", "seconds"),
        begun_s=number(document, "start", "timestamp", "timesecs"),
    )


def at_end(document: Document) -> Document:
    """The sums of the whole test."""
    found = document.get("end")
    return found if isinstance(found, dict) else {}


def _is_server(document: Document) -> bool:
    return at(document, "start", "accepted_connection") is not None


@dataclass(frozen=True)
class _Part:
    """One direction of a document: its sums have this `suffix`, and its data come from the server
    if `is_back`."""

    document: Document
    suffix: str
    is_back: bool
    is_server: bool
    is_bidir: bool

    @property
    def _sends(self) -> bool:
        """Whether the end that wrote the document sends."""
        return self.is_server == self.is_back

    @cached_property
    def _sent(self) -> object:
        return at(self.document, "end", f"sum_sent{self.suffix}")

    @cached_property
    def _received(self) -> object:
        return at(self.document, "end", f"sum_received{self.suffix}")

    @cached_property
    def _sum(self) -> object:
        return at(self.document, "end", f"sum{self.suffix}")

    @cached_property
    def _is_peer_known(self) -> bool:
        """Whether the other end told its counts: then zeros are zeros."""
        if self.is_server:
            return False
        cpu = at(self.document, "end", "cpu_utilization_percent")
        if isinstance(cpu, dict):
            return any(number(cpu, f"remote_{each}") for each in ("total", "user", "system"))
        node = (self._received or self._sum) if self._sends else self._sent
        keys = ("jitter_ms", "lost_packets") if node is self._sum else (*_COUNTS, "jitter_ms")
        return any(number(node, key) for key in keys)

    def _count(self, node: object, key: str, *, of_sender: bool) -> float | None:
        """A count of one end; None if it is unknown."""
        found = number(node, key)
        is_own = of_sender == self._sends
        return None if not found and not is_own and not self._is_peer_known else found

    @cached_property
    def is_udp(self) -> bool:
        """Whether datagrams were sent."""
        protocol = words(self.document, "start", "test_start", "protocol")
        sums = (self._sent, self._received, self._sum)
        counts = (at(each, key) for each in sums for key in ("packets", "lost_packets"))
        return protocol == "UDP" or any(each is not None for each in counts)

    @cached_property
    def _omit_s(self) -> float:
        return number(self.document, "start", "test_start", "omit") or 0.0

    def direction(self) -> DirectionData:
        """What the document says of it."""
        is_udp = self.is_udp
        test = "UDP_STREAM" if is_udp else "TCP_MAERTS" if self.is_back else "TCP_STREAM"
        streams = whole(self.document, "start", "test_start", "num_streams")
        return DirectionData(
            test=test,
            result=self._datagrams() if is_udp else self._stream(),
            is_from_server=self.is_back,
            parallel=streams if streams and streams < 100_000 else 0,
            samples=() if is_udp else tuple(self._samples()),
        )

    def _stream(self) -> TransferResult | None:
        sent_bps = self._count(self._sent, "bits_per_second", of_sender=True)
        rate_bps = self._count(self._received, "bits_per_second", of_sender=False)
        doubts = []
        if not self._sends and not rate_bps and (own := self._in_intervals()):
            rate_bps = own
            doubts.append(_IN_INTERVALS)
        if rate_bps is None and sent_bps is not None:
            rate_bps = sent_bps
            doubts.append("rate is that of the sender: what arrived is unknown")
        if rate_bps is None:
            return None
        again = whole(self._sent, "retransmits") if sent_bps is not None else None
        control = congestion_control(self.document)
        return TransferResult(
            rate_bps=rate_bps,
            elapsed_s=self._elapsed_s,
            sent_bps=sent_bps,
            intervals=tuple(self._intervals()),
            local_retransmits=None if self.is_back else again,
            remote_retransmits=again if self.is_back else None,
            local_congestion_control=control,
            remote_congestion_control=control,
            mss_bytes=mss_bytes(self.document),
            doubts=tuple(doubts),
        )

    @property
    def _elapsed_s(self) -> float:
        each = (number(node, "seconds") for node in (self._received, self._sent, self._sum))
        return next((seconds for seconds in each if seconds), 0.0)

    def _in_intervals(self) -> float | None:
        """The mean rate of the intervals of the end that wrote the document."""
        each = list(self._intervals())
        seconds = math.fsum(one.end_s - one.start_s for one in each)
        bits = math.fsum(one.rate_bps * (one.end_s - one.start_s) for one in each)
        return bits / seconds if seconds else None

    # ---- datagrams -----------------------------------------------------------------------------

    def _datagrams(self) -> TransferResult | None:
        doubts = []
        of_sender = self._sent if self._sent is not None else self._sum
        is_split = self._received is not None
        of_receiver = self._received if is_split else self._sum
        sent_bps = self._count(of_sender, "bits_per_second", of_sender=True)
        sent = self._count(of_sender, "packets", of_sender=True)
        if not sent_bps:
            sent_bps = sent = None
        lost = self._count(of_receiver, "lost_packets", of_sender=False)
        jitter_ms = self._count(of_receiver, "jitter_ms", of_sender=False)
        rate_bps = size_bytes = numbered = None
        if is_split:
            rate_bps = self._count(self._received, "bits_per_second", of_sender=False)
            size_bytes = self._count(self._received, "bytes", of_sender=False)
            numbered = self._count(self._received, "packets", of_sender=False)
        if not self._sends and not rate_bps and (own := self._in_intervals()):
            rate_bps, size_bytes = own, own * self._elapsed_s / 8
            doubts.append(_IN_INTERVALS)
        received = self._received_datagrams(size_bytes, of_sender)
        version = numbers_of(words(self.document, "start", "version"))
        if self._omit_s and received is None and lost is not None and version < OMIT_SINCE:
            since = ".".join(map(str, OMIT_SINCE))
            doubts.append(
                f"its version of iperf3 counts what was lost in the omitted time as well (before"
                f" {since}): how many datagrams were lost is unknown"
            )
            lost = None
        if rate_bps is None and sent and sent_bps is not None and lost is not None and lost <= sent:
            # Older versions have the sent rate, and the datagrams that were lost.
            rate_bps = sent_bps * (sent - lost) / sent
        if rate_bps is None and sent_bps is None:
            return None
        if rate_bps is None:
            doubts.append("rate is unknown: the file has only what was sent")
        found = Datagrams(
            sent=None if sent is None else int(sent),
            lost=None if lost is None else int(lost),
            sent_bps=sent_bps,
            received=received,
            numbered=None if numbered is None else int(numbered),
            jitter_ms=jitter_ms,
            intervals=tuple(self._of_datagrams()),
        )
        return TransferResult(
            rate_bps=rate_bps,
            elapsed_s=self._elapsed_s,
            # A sender's intervals are not goodput.
            intervals=tuple(self._intervals()) if self._has_receivers_intervals else (),
            datagrams=found,
            doubts=tuple(doubts),
        )

    def _received_datagrams(self, size_bytes: float | None, of_sender: object) -> int | None:
        each = whole(self.document, "start", "test_start", "blksize")
        sent, packets = number(of_sender, "bytes"), number(of_sender, "packets")
        length = each or (sent / packets if sent and packets else None)
        return None if size_bytes is None or not length else round(size_bytes / length)

    def _of_datagrams(self) -> Iterator[DatagramInterval]:
        if not self._has_receivers_intervals:
            return
        for node in self._measured():
            start_s, end_s = number(node, "start"), number(node, "end")
            sent, lost = whole(node, "packets"), whole(node, "lost_packets")
            if None in (start_s, end_s, sent, lost) or (lost or 0) > (sent or 0):
                continue
            yield DatagramInterval(
                start_s=start_s or 0.0,
                end_s=end_s or 0.0,
                sent=sent or 0,
                lost=lost or 0,
                jitter_ms=number(node, "jitter_ms"),
            )

    # ---- over time -----------------------------------------------------------------------------

    @cached_property
    def _has_receivers_intervals(self) -> bool:
        return not self._sends or self._has_server_output

    @cached_property
    def _has_server_output(self) -> bool:
        intervals = at(self.document, "server_output_json", "intervals")
        return isinstance(intervals, list) and self._sends and not self.is_bidir

    def _measured(self) -> Iterator[Any]:
        """The sums of the intervals that count: of datagrams the receiver's, if they are there."""
        is_servers = self.is_udp and self._has_server_output
        path = ("server_output_json", "intervals") if is_servers else ("intervals",)
        for entry in items(self.document, *path):
            node = at(entry, f"sum{self.suffix}")
            if node is not None and at(node, "omitted") is not True:
                yield node

    def _intervals(self) -> Iterator[GoodputInterval]:
        for node in self._measured():
            start_s, end_s = number(node, "start"), number(node, "end")
            rate_bps = number(node, "bits_per_second")
            if start_s is None or end_s is None or rate_bps is None or end_s <= start_s:
                continue
            yield GoodputInterval(start_s, end_s, rate_bps)

    def _samples(self) -> Iterator[SocketSample]:
        """A sample for each connection and interval; at least one, with the values of the whole
        run."""
        document = self.document
        control, mss = congestion_control(document), mss_bytes(document)
        ports = dict(_ports(document))
        totals: dict[object, int | None] = {}
        yielded = False
        for entry in items(document, "intervals"):
            for place, stream in enumerate(items(entry, "streams")):
                end_s = number(stream, "end")
                if end_s is None or at(stream, "omitted") is True:
                    continue
                if self.is_bidir and at(stream, "sender") is not self._sends:
                    continue
                name = whole(stream, "socket")
                again = whole(stream, "retransmits")
                before = totals.get(name, 0)
                totals[name] = None if again is None or before is None else before + again
                window, rtt_us = (number(stream, key) for key in ("snd_cwnd", "rtt"))
                local, peer = ports.get(name, (place + 1, 0))
                yielded = True
                yield SocketSample(
                    time_s=end_s,
                    local_port=local,
                    peer_port=peer,
                    congestion_control=control,
                    cwnd=None if window is None or not mss else round(window / mss),
                    mss_bytes=mss,
                    rtt_ms=None if not rtt_us else rtt_us / 1000,
                    total_retransmits=totals[name],
                )
        if not yielded and (control or mss):
            yield SocketSample(
                time_s=0.0,
                local_port=1,
                peer_port=0,
                congestion_control=control,
                mss_bytes=mss,
                total_retransmits=whole(self._sent, "retransmits"),
            )


_IN_INTERVALS = "its total is missing or 0: rate is the mean of its intervals"


def congestion_control(document: Document) -> str:
    """What the sender really used; "" if unknown."""
    return words(document, "end", "sender_tcp_congestion")


def mss_bytes(document: Document) -> int | None:
    """The segment size; None if unknown."""
    return whole(document, "start", "tcp_mss_default") or None


def _ports(document: Document) -> Iterator[tuple[int | None, tuple[int, int]]]:
    for entry in items(document, "start", "connected"):
        pair = [whole(entry, key) for key in ("local_port", "remote_port")]
        if all(port is not None and 0 < port <= _PORT_MAX for port in pair):
            yield whole(entry, "socket"), (pair[0] or 0, pair[1] or 0)


# ---- documents in a text -------------------------------------------------------------------------


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; the second of two sums is that of the other direction."""
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    found = {}
    for key, value in pairs:
        found[key + _BACK if key in _DOUBLED and key in found else key] = value
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs)


def _documents(text: str) -> Iterator[Document]:
    """The complete documents in a text, without parts of a truncated one."""
    text = _NO_NUMBER.sub("null", text)
    place, attempts = text.find("{"), 0
    events: dict[str, Any] = {}
    while place >= 0 and attempts < _ATTEMPTS_MAX:
        try:
            value, end = jsontext.first(text, place, _DECODER)
        # A number of thousands of digits is a ValueError of another kind.
        except ValueError:
            attempts += 1
            place = text.find("{", place + 1)
            continue
        place = text.find("{", end)
        # --json-stream: an event a line.
        if isinstance(value.get("event"), str) and "data" in value:
            if value["event"] == "start" and events:
                yield events
                events = {}
            if value["event"] == "interval":
                events.setdefault("intervals", []).append(value["data"])
            else:
                events[value["event"]] = value["data"]
        elif _is_document(value):
            yield value
        elif (found := pscheduler.document(value, _documents)) is not None:
            yield found
    if events:
        yield events


def _is_document(value: Document) -> bool:
    """Inside of a document `start` and `end` are instants."""
    return any(isinstance(value.get(key), dict) for key in ("start", "end")) or (
        isinstance(value.get("error"), str) and not pscheduler.is_result(value)
    )
