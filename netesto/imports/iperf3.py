"""Reads the output of an iperf3 client: JSON, also repeated or with text around it, or text."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from netesto import jsontext
from netesto.imports import iperf3text
from netesto.printable import printable
from netesto.traffic.base import LARGEST

Document: TypeAlias = Mapping[str, Any]

# Each brace that does not begin a value takes a scan of the rest of the text. A truncated document
# has as many of them as levels.
_ATTEMPTS_MAX = 64
_SHOWN = 160


@dataclass(frozen=True, slots=True)
class Sent:
    """What one end counted."""

    bps: float
    retransmits: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOutput:
    """The output of a client. `reason` is why its run failed, "" if it did not; `kind` that of the
    finding. `document` is the first complete one, or that of a text; `documents` counts those of
    JSON."""

    sent: Sent | None = None
    received_bps: float | None = None
    reason: str = ""
    kind: str = ""
    document: Document | None = None
    documents: int = 0
    duration_s: float | None = None
    latency_us: float | None = None


def read(data: bytes, *, received_is_enough: bool = False) -> ClientOutput:
    """The output of a client in `data`. A run without `end.sum_sent` failed, unless
    `received_is_enough` and there is an `end.sum_received`, or the `end.sum` of UDP."""
    text = data.decode("utf-8", errors="replace")
    found = list(_documents(text))
    if found:
        return _of_document(found[0], len(found), received_is_enough=received_is_enough)
    if not text.strip():
        return ClientOutput(reason="empty", kind="empty")
    told = iperf3text.document(text)
    if told is None:
        first = next(line.strip() for line in text.splitlines() if line.strip())
        return ClientOutput(reason=f"no result: {_line(first)}", kind="no-result")
    return _of_document(told, 0, received_is_enough=False)


def _of_document(document: Document, count: int, *, received_is_enough: bool) -> ClientOutput:
    if (error := document.get("error")) is not None:
        reason = _line(str(error)) or "an error without a text"
        return ClientOutput(reason=reason, kind="error", document=document, documents=count)
    sent, received = _sent(document, "sum_sent"), _sent(document, "sum_received")
    if sent is None and received_is_enough:
        sent = received or _sent(document, "sum")
        received = received or _not_lost(document, sent)
    if sent is None:
        return ClientOutput(
            reason="no result: no end.sum_sent.bits_per_second",
            kind="no-result",
            document=document,
            documents=count,
        )
    return ClientOutput(
        sent=sent,
        received_bps=None if received is None else received.bps,
        document=document,
        documents=count,
        duration_s=number(document, "end", "sum_sent", "seconds"),
    )


def _sent(document: Document, name: str) -> Sent | None:
    bps = number(document, "end", name, "bits_per_second")
    return None if bps is None else Sent(bps, whole(document, "end", name, "retransmits"))


def _not_lost(document: Document, sent: Sent | None) -> Sent | None:
    """For UDP, older versions have one sum: the sent rate, and the datagrams that were lost."""
    packets, lost = (whole(document, "end", "sum", key) for key in ("packets", "lost_packets"))
    if sent is None or not packets or lost is None or lost > packets:
        return None
    return Sent(sent.bps * (packets - lost) / packets)


def at(value: object, *path: str | int) -> object:
    """The value at a path; None if there is none."""
    for key in path:
        if isinstance(key, int):
            value = value[key] if isinstance(value, list) and len(value) > key else None
        else:
            value = value.get(key) if isinstance(value, Mapping) else None
    return value


def number(value: object, *path: str | int) -> float | None:
    """At a path: a finite number, not negative, that a measurement can have; None for anything
    else."""
    value = at(value, *path)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < LARGEST:
        return None
    return float(value)


def whole(value: object, *path: str | int) -> int | None:
    """At a path: a count; None for anything else."""
    found = number(value, *path)
    return int(found) if found is not None and math.floor(found) == found else None


def words(value: object, *path: str | int) -> str:
    """At a path: a text on one line; "" for anything else."""
    found = at(value, *path)
    return _line(found) if isinstance(found, str) else ""


def _line(text: str) -> str:
    return printable(" ".join(text.split()))[:_SHOWN]


def _documents(text: str) -> Iterator[Document]:
    """The complete documents in a text, without parts of a truncated one."""
    place, attempts = text.find("{"), 0
    events: dict[str, Any] = {}
    while place >= 0 and attempts < _ATTEMPTS_MAX:
        try:
            value, end = jsontext.first(text, place)
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
    if events:
        yield events


def _is_document(value: Document) -> bool:
    """Inside of a document `start` and `end` are instants."""
    return any(isinstance(value.get(key), dict) for key in ("start", "end")) or isinstance(
        value.get("error"), str
    )
