"""Rows of exp.csv from groups: the values of each, the seven operations of fields.txt, and how
numbers are written."""

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR

from netesto.results import numbers, overall
from netesto.results.columns import COLUMNS, Column, column
from netesto.results.evidence import DAMAGED, FAILED, OK, PARTIAL
from netesto.results.fields import Field, Fields
from netesto.results.formulas import MeasuredGroup, Values
from netesto.schema.columns import canonical


def values(group: MeasuredGroup, columns: Values) -> dict[str, str]:
    """Every key of a group. `columns` (OTHER, SWEEP) fill keys that the group has no value for."""
    row = {
        each.name: "" if _is_damaged(each, group) else each.value(group)
        for each in COLUMNS.values()
        if each.is_of_groups
    }
    return _with_columns(row, columns)


def _is_damaged(known: Column, group: MeasuredGroup) -> bool:
    """Whether a value is empty because data are damaged. A sum or a mean without one of its flows
    would be wrong: a single damaged file empties it for the whole group.
    """
    return not group.damaged.isdisjoint(known.sources)


def _with_columns(row: Values, columns: Values) -> dict[str, str]:
    """`row` with the columns of OTHER and SWEEP as written. A measured value, or one that differs
    from the column, stays: a factor `ca=cubic` does not rename the group of the same experiment
    that ran bbr.
    """
    filled = dict(row)
    keys = {canonical(key): key for key in row}
    for name, text in columns.items():
        if column(name).is_measured:
            continue
        key = keys.get(canonical(name), name)
        if not filled.get(key) or same(filled[key], text):
            filled[key] = text
    return filled


def same(one: str, other: str) -> bool:
    """Equal as numbers if both are ("1M", "1000000.0"), else as texts."""
    first, second = numbers.parse(one), numbers.parse(other)
    return one.strip() == other.strip() if None in (first, second) else first == second


def group_row(
    fields: Fields, found: Values, groups: Sequence[MeasuredGroup] = (), *, columns: Values
) -> dict[str, str]:
    """The row of one group, N.1, N.2 …: each operation on one value. `found` are its `values`."""
    row = _cells(fields, [found], groups, columns)
    return row | _special(fields, {"exp": found["exp"], "status": found.get("status", "")})


def row(
    fields: Fields,
    found: Sequence[Values],
    groups: Sequence[MeasuredGroup] = (),
    *,
    exp: int,
    columns: Values | None = None,
    least_status: str = OK,
) -> dict[str, str]:
    """The aggregate row N.0, from the groups and the `values` of each. A failed group has no
    measurements, so none enters any operation.

    `columns` are OTHER and SWEEP, written unchanged. `least_status`: the status of an experiment
    whose flows are all ok (data of a host may be missing, or damaged).
    """
    cells = _cells(fields, found, groups, columns or {}, is_whole=True)
    state = status(found)
    state = least_status if state == OK or least_status == DAMAGED else state
    whole = {"exp": f"{exp}.0", "expNumber": str(exp), "group": "0", "status": state}
    return cells | _special(fields, whole)


def status(groups: Sequence[Values]) -> str:
    """ok if all groups are; failed if all flows of all groups failed; else partial."""
    states = [values.get("status", OK) for values in groups]
    if all(state == OK for state in states):
        return OK
    return PARTIAL if any(state in {OK, PARTIAL, DAMAGED} for state in states) else FAILED


def _special(fields: Fields, values: Values) -> dict[str, str]:
    return {name: value for name, value in values.items() if name in fields.names}


def _cells(
    fields: Fields,
    found: Sequence[Values],
    groups: Sequence[MeasuredGroup],
    columns: Values,
    *,
    is_whole: bool = False,
) -> dict[str, str]:
    looked_up = [{canonical(key): text for key, text in values.items()} for values in found]
    written = {canonical(key): text for key, text in columns.items()}
    return {
        field.name: _cell(field, looked_up, groups, written, is_whole=is_whole)
        for field in fields.columns
    }


def _cell(
    field: Field,
    found: Sequence[Values],
    groups: Sequence[MeasuredGroup],
    columns: Values,
    *,
    is_whole: bool,
) -> str:
    """One cell. Keys of `found` and `columns` are canonical. In the row of the whole experiment
    what groups may share counts once, and what is damaged in one of them is empty: over the others
    it would have another meaning."""
    name, known = canonical(field.name), column(field.name)
    if (known.overall or is_whole) and any(_is_damaged(known, group) for group in groups):
        return ""
    overall_ = None if known.overall is None else known.overall(groups)
    if isinstance(overall_, str):
        return overall_
    if overall_ is not None and is_whole:
        return numbers.fixed(overall_, 1)
    texts = [text for values in found if (text := values.get(name, "").strip())]
    written = "" if known.is_measured else columns.get(name, "")
    if written and all(same(text, written) for text in texts):
        return written
    if field.operation == "sumRateDur":
        mean = overall.mean_rate(groups, known.rate) if is_whole and known.rate else None
        return _sum_rate_dur(name, found, mean)
    return combine(field, texts)


def combine(field: Field, texts: Sequence[str]) -> str:
    """The operation of `field` on the texts of its groups; empty ones are skipped.

    A numeric operation on a text gives the distinct values, as `all` does.
    """
    texts = [text for text in texts if text.strip()]
    if not texts:
        return ""
    if field.operation == "one":
        return _one(field.name, texts)
    found = [numbers.parse(text) for text in texts]
    known = [number for number in found if number is not None]
    if field.operation == "all" or len(known) < len(texts):
        return "/".join(dict.fromkeys(texts))
    match field.operation:
        case "avg":
            return numbers.fixed(math.fsum(known) / len(known), 3)
        case "min":
            return numbers.outward(min(known), ROUND_FLOOR)
        case "max":
            return numbers.outward(max(known), ROUND_CEILING)
        case _:
            return numbers.fixed(math.fsum(known), 1)


def _one(name: str, texts: Sequence[str]) -> str:
    first = texts[0]
    if not all(same(first, text) for text in texts):
        return f"{first}+..."
    is_name = column(name).holds in {"text", "name"}
    number = None if is_name else numbers.parse(first)
    return first if number is None else numbers.fixed(number, 1)


def _sum_rate_dur(name: str, groups: Sequence[Values], mean_rate: float | None) -> str:
    """Σ(rate·dur) / the scheduled time of the groups with a rate.

    The total goodput of flows that run at different times: all bits, from the minimum delay to the
    latest end. With equal delays that time is max(dur); of one group it is the group's rate. If it
    is known when flows ran, it is `mean_rate`: the same over the time that they really took.
    """
    if mean_rate is not None:
        return numbers.fixed(mean_rate, 3)
    found = [
        (rate, numbers.parse(values.get("dur", "")), numbers.parse(values.get("delay", "")) or 0.0)
        for values in groups
        if (rate := numbers.parse(values.get(name, ""))) is not None
    ]
    known = [(rate, dur, delay) for rate, dur, delay in found if dur is not None]
    begin = min((delay for _, _, delay in known), default=0.0)
    span = max((delay + dur for _, dur, delay in known), default=0.0) - begin
    rate = math.fsum(rate * dur for rate, dur, _ in known) / span if span > 0 else None
    if len(found) == 1:
        rate = found[0][0]
    return "" if rate is None else numbers.fixed(rate, 3)
