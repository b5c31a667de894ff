"""Finds the document of iperf3 in a result of pScheduler's test of throughput, or makes one.

A result has `intervals` and a `summary`, each with `streams` and a `summary` of these: keys such as
`throughput-bits` (https://github.com/perfsonar/pscheduler, datatypes of the test). `diags` is what
the tool printed.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from netesto.imports.documents import Document, at, items, number, whole, words

# pScheduler wraps results: run, participants, merged result.
_DEPTH_MAX = 6
_KEYS: Mapping[str, str] = {
    "start": "start", "end": "end", "bits_per_second": "throughput-bits",
    "bytes": "throughput-bytes", "retransmits": "retransmits", "packets": "sent",
    "lost_packets": "lost", "jitter_ms": "jitter", "omitted": "omitted",
}  # fmt: skip


def is_result(value: object) -> bool:
    """Whether a value is a result of throughput."""
    return isinstance(at(value, "summary", "summary"), Mapping) or (
        isinstance(at(value, "succeeded"), bool) and "summary" in (value or {})  # type: ignore[operator]
    )


def document(value: object, documents: Callable[[str], Iterable[Document]]) -> Document | None:
    """The document of iperf3 for the first result in a value; None if there is none. `documents`
    finds those in a text."""
    found = _result(value, _DEPTH_MAX)
    if found is None:
        return None
    if (printed := next(iter(documents(words_of(found, "diags"))), None)) is not None:
        return printed
    if at(found, "succeeded") is False:
        return {"error": words(found, "error") or "pScheduler: the test did not succeed"}
    summary = at(found, "summary", "summary")
    sent = _sums(summary)
    end: dict[str, Any] = {"sum_sent": sent}
    received_bps = number(summary, "receiver-throughput-bits")
    if received_bps is not None:
        received = {**sent, "bits_per_second": received_bps}
        received.pop("bytes", None)
        end["sum_received"] = received
    is_udp = whole(summary, "lost") is not None
    if is_udp and received_bps is None:
        end = {"sum": sent}
    return {
        "start": {
            "tcp_mss_default": whole(found, "mss"),
            "test_start": {
                "protocol": "UDP" if is_udp else "TCP",
                "num_streams": len(items(found, "summary", "streams")) or 1,
            },
        },
        "intervals": [{"sum": _sums(at(e, "summary"))} for e in items(found, "intervals")],
        "end": end,
    }


def words_of(value: object, key: str) -> str:
    """A text as it is; "" for anything else."""
    found = at(value, key)
    return found if isinstance(found, str) else ""


def _result(value: object, depth: int) -> object:
    if is_result(value):
        return value
    if depth and isinstance(value, Mapping | list):
        inner = value.values() if isinstance(value, Mapping) else value
        found = (_result(each, depth - 1) for each in inner)
        return next((each for each in found if each is not None), None)
    return None


def _sums(summary: object) -> dict[str, Any]:
    found = {name: at(summary, key) for name, key in _KEYS.items() if at(summary, key) is not None}
    start_s, end_s = number(summary, "start"), number(summary, "end")
    if start_s is not None and end_s is not None:
        found["seconds"] = end_s - start_s
    return found
