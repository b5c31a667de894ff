"""Rows of exp.csv from groups: the seven operations of fields.txt, and how numbers are written."""

import math
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from netesto.results import formulas, numbers
from netesto.results.columns import canonical, column
from netesto.results.evidence import DAMAGED, FAILED, OK, PARTIAL
from netesto.results.fields import Field, Fields
from netesto.results.formulas import Values
from netesto.results.groups import same


def group_row(fields: Fields, values: Values, *, columns: Values) -> dict[str, str]:
    """The row of one group, N.1, N.2 …: each operation on one value. `values` is from `groups`."""
    row = _cells(fields, [values], columns)
    return row | _special(fields, {"exp": values["exp"], "status": values.get("status", "")})


def row(
    fields: Fields,
    groups: Sequence[Values],
    *,
    exp: int,
    columns: Values | None = None,
    once: Values | None = None,
    mean_rates: Mapping[str, float] | None = None,
    least_status: str = OK,
    damaged: Collection[str] = (),
) -> dict[str, str]:
    """The aggregate row N.0. A failed group has no measurements, so none enters any operation.

    `columns` are OTHER and SWEEP, written unchanged. `once` are values of shared counters, which
    are not an operation on those of groups. `mean_rates`: the data of all flows divided by the time
    from the first start to the last end. `least_status`: the status of an experiment whose flows
    are all ok (data of a host may be missing, or damaged). `damaged`: the keys that are unknown
    because data of a group are damaged, and that would have another meaning over the other groups.
    """
    cells = _cells(fields, groups, columns or {}, mean_rates or {})
    counted = {canonical(key): text for key, text in (once or {}).items()}
    cells |= {name: counted[canonical(name)] for name in cells if canonical(name) in counted}
    unknown = {canonical(key) for key in damaged}
    cells |= {name: "" for name in cells if canonical(name) in unknown}
    found = status(groups)
    overall = least_status if found == OK or least_status == DAMAGED else found
    whole = {"exp": f"{exp}.0", "expNumber": str(exp), "group": "0", "status": overall}
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
    groups: Sequence[Values],
    columns: Values,
    mean_rates: Mapping[str, float] = MappingProxyType({}),
) -> dict[str, str]:
    looked_up = [{canonical(key): text for key, text in values.items()} for values in groups]
    written = {canonical(key): text for key, text in columns.items()}
    return {
        field.name: _cell(field, looked_up, written, mean_rates.get(column(field.name).name))
        for field in fields.columns
    }


def _cell(field: Field, groups: Sequence[Values], columns: Values, mean_rate: float | None) -> str:
    """One cell. Keys of `groups` and `columns` are canonical."""
    name, known = canonical(field.name), column(field.name)
    if known.overall is not None:
        return known.overall(groups)
    texts = [text for values in groups if (text := values.get(name, "").strip())]
    written = "" if known.is_measured else columns.get(name, "")
    if written and all(same(text, written) for text in texts):
        return written
    if field.operation == "sumRateDur":
        return _sum_rate_dur(name, groups, mean_rate)
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
            return numbers.fixed(min(known), 1)
        case "max":
            return numbers.fixed(max(known), 1)
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
    latest end. With equal delays that time is max(dur); of one group it is the group's rate. It is
    `mean_rate` if flows ran at other times, or for longer (transfers), or if the duration of one of
    several groups was unknown.
    """
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
    is_span_known = len(found) == 1 or len(known) == len(found)
    if mean_rate is not None and (
        not is_span_known or (rate is not None and formulas.is_other(rate, mean_rate))
    ):
        rate = mean_rate
    return "" if rate is None else numbers.fixed(rate, 3)
