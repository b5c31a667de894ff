"""The table of an experiment on its page: rows are values, with one column for each group.

Values have the significant digits only; an unknown value is "—".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from netesto.flowspec import REQUEST_TESTS, TESTS, TIMED_TESTS
from netesto.results import formulas, numbers
from netesto.results.columns import column
from netesto.results.evidence import OK
from netesto.results.formulas import Values
from netesto.results.numbers import UNKNOWN
from netesto.schema.columns import BLOCKS, Composed, Description


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: its name, unit, and a cell for each group.

    `marked` are the cells that need attention because they differ from the request.
    """

    name: str
    unit: str
    cells: tuple[str, ...]
    marked: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """Rows that belong together, under a title."""

    title: str
    rows: tuple[Row, ...]


def blocks(groups: Sequence[Values]) -> list[Block]:
    """The rows of the groups (from `aggregate.values`), in blocks that fit beside each other.
    Optional rows (effective MSS, fairness) are omitted if no group has a value."""
    found = []
    for title, described in BLOCKS.items():
        shown = [(each.row, _row(each, groups)) for each in described if each.row]
        rows = [row for when, row in shown if when == "always" or {*row.cells} != {UNKNOWN}]
        found += [Block(title, tuple(rows))] if groups and rows else []
    return found


def notes(groups: Sequence[Values]) -> list[str]:
    """Notes that are necessary to read the table correctly."""
    reasons = [
        f"In group {values.get('group', '')} retransPkts% is not known: {reason}."
        for values in groups
        if (reason := values.get("retransPktsReason", ""))
    ]
    if len(reasons) <= _MAX_REASONS:
        return reasons
    return [reasons[0], f"In {len(reasons) - 1} other groups it is not known, either."]


def _row(described: Description | Composed, groups: Sequence[Values]) -> Row:
    name = described.name
    if isinstance(described, Composed):
        unit, cell = described.unit, _CELLS[name]
    else:
        known = column(name)
        unit = described.page_unit or known.shown_unit
        cell = _CELLS.get(name) or (lambda values: known.show(values.get(name, "")))
    needs_attention = _MARKED.get(name, lambda _: False)
    return Row(name, unit, tuple(map(cell, groups)), tuple(map(needs_attention, groups)))


def _has_other_control(values: Values) -> bool:
    """True if the sender used a congestion control other than the requested one."""
    return values.get("effCa", "") not in {"", values.get("ca", "")}


def _control(values: Values) -> str:
    requested = values.get("ca", "") or UNKNOWN
    used = values.get("effCa", "")
    return f"{used} (requested: {requested})" if _has_other_control(values) else requested


def _test(values: Values) -> str:
    """The test, with the sizes of requests and replies if it has or may have them (the name may be
    unknown)."""
    test = values.get("test", "")
    if test in TESTS - REQUEST_TESTS | {"KV_RR"}:
        return test
    return f"{test} {values.get('req', '')}/{values.get('reply', '')} bytes".strip()


def _fairness(values: Values) -> str:
    """Between the flows of the group; one flow alone is fair to itself."""
    return UNKNOWN if values.get("instances") == "1" else numbers.figure(values.get("fairness", ""))


def _figure(values: Values, name: str) -> str:
    return numbers.figure(values.get(name, ""))


def _milliseconds(values: Values, name: str) -> str:
    return numbers.milliseconds(values.get(name, ""))


def _percentile(values: Values, name: str) -> str:
    """With `~` if it rests on few slower values."""
    text = _figure(values, name)
    return f"~{text}" if text != UNKNOWN and is_doubtful(values, name) else text


def _several(*names: str, show: Callable[[Values, str], str] = _figure) -> Callable[[Values], str]:
    """A cell with several values; unknown if all of them are."""

    def cell(values: Values) -> str:
        texts = [show(values, name) for name in names]
        return " / ".join(texts) if {*texts} != {UNKNOWN} else UNKNOWN

    return cell


def _latencies(
    *names: str, show: Callable[[Values, str], str] = _figure
) -> Callable[[Values], str]:
    """The same; of a stream they are the times that calls of send() took."""
    several = _several(*names, show=show)

    def cell(values: Values) -> str:
        text = several(values)
        is_of_calls = text != UNKNOWN and values.get("test", "") in TESTS - TIMED_TESTS
        return f"{text} (of send calls)" if is_of_calls else text

    return cell


_PERCENTS = {f"p{each:g}Latency".replace(".", ""): each for each in formulas.PERCENTILES}


def is_doubtful(values: Values, name: str) -> bool:
    """Whether this percentile rests on fewer than ten slower values: it is above latencyTail, which
    is that of the flow with the fewest latencies. netperf does not report how many it has."""
    known_percent = numbers.parse(values.get("latencyTail", ""))
    return known_percent is not None and _PERCENTS[name] > known_percent


# More reasons would be a wall of text before the table.
_MAX_REASONS = 2

# The cells of rows that need more than their column, for a group.
_CELLS: Mapping[str, Callable[[Values], str]] = {
    "Test": _test,
    "ca": _control,
    "min/avg/max Rates": _several("rateMin", "rateMean", "rateMax"),
    "fairness": _fairness,
    "min/mean/max Latencies": _latencies("minLatency", "meanLatency", "maxLatency"),
    "p50/p90/p99 Latencies": _latencies("p50Latency", "p90Latency", "p99Latency", show=_percentile),
    "p99.9/p99.99/p99.999 Latencies": _latencies(
        "p999Latency", "p9999Latency", "p99999Latency", show=_percentile
    ),
    "oneWayMin/Mean/Max": _several("oneWayMin", "oneWayMean", "oneWayMax", show=_milliseconds),
    "ping p50/p95/max": _several("pingP50", "pingP95", "pingMax", show=_milliseconds),
}
_MARKED: Mapping[str, Callable[[Values], bool]] = {
    "status": lambda values: values.get("status", OK) != OK,
    "ca": _has_other_control,
}
