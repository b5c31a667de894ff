"""Groups to rows of exp.csv: the seven operations of fields.txt, and how numbers are written."""

import math
from collections.abc import Collection, Mapping, Sequence

from netesto.results import flows, numbers
from netesto.results import groups as group_values
from netesto.results.columns import MEASURED, NAMES
from netesto.results.evidence import OK
from netesto.results.fields import Field, Fields, canonical

Values = Mapping[str, str]

PARTIAL = group_values.PARTIAL
FAILED = group_values.FAILED
DAMAGED = group_values.DAMAGED


def group_row(fields: Fields, values: Values, *, columns: Values | None = None) -> dict[str, str]:
    """The row of one group, N.1, N.2 …: every operation on one value. `values` is from `groups`."""
    row = _cells(fields, [values], columns or {})
    return row | _special(fields, {"exp": values["exp"], "status": values.get("status", "")})


def row(
    fields: Fields,
    groups: Sequence[Values],
    *,
    exp: int,
    columns: Values | None = None,
    least_status: str = OK,
    damaged: Collection[str] = (),
) -> dict[str, str]:
    """The aggregate row N.0. A failed group has no measurements, so none enters any operation.

    `columns` are OTHER and SWEEP, written as they are. `least_status`: what the experiment is even
    if all its flows are well (data of a host may be missing, or damaged). `damaged`: the keys that
    a group lacks because its data are damaged; over the other groups they would mean another thing.
    """
    cells = _cells(fields, groups, columns or {})
    lacking = {canonical(key) for key in damaged}
    cells |= {name: "" for name in cells if canonical(name) in lacking}
    found = status(groups)
    overall = least_status if found == OK or least_status == DAMAGED else found
    whole = {"exp": f"{exp}.0", "expNumber": str(exp), "group": "0", "status": overall}
    return cells | _special(fields, whole)


def status(groups: Sequence[Values]) -> str:
    """ok if all groups are; failed if no flow of any ended well; else partial."""
    states = [values.get("status", OK) for values in groups]
    if all(state == OK for state in states):
        return OK
    return PARTIAL if any(state in {OK, PARTIAL, DAMAGED} for state in states) else FAILED


def _special(fields: Fields, values: Values) -> dict[str, str]:
    return {name: value for name, value in values.items() if name in fields.names}


def _cells(fields: Fields, groups: Sequence[Values], columns: Values) -> dict[str, str]:
    looked_up = [{canonical(key): text for key, text in values.items()} for values in groups]
    written = {canonical(key): text for key, text in columns.items()}
    return {field.name: _cell(field, looked_up, written) for field in fields.columns}


def _cell(field: Field, groups: Sequence[Values], columns: Values) -> str:
    """One cell. Keys of `groups` and `columns` are canonical."""
    name = canonical(field.name)
    if name == "retransPkts%":
        return _retransmitted_packets_percent(groups)
    if name == "retransSegs%":
        return _retransmitted_segments_percent(groups)
    if name == "fairness":
        return _fairness(groups)
    texts = [text for values in groups if (text := values.get(name, "").strip())]
    column = "" if name in MEASURED else columns.get(name, "")
    if column and all(group_values.same(text, column) for text in texts):
        return column
    if field.operation == "sumRateDur":
        return _sum_rate_dur(name, groups)
    return combine(field, texts)


def combine(field: Field, texts: Sequence[str]) -> str:
    """The operation of `field` on the texts of its groups, those that are not empty.

    An operation on numbers that meets a text gives the distinct values, as `all` does: nothing is
    lost, and nothing is invented.
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
    if not all(group_values.same(first, text) for text in texts):
        return f"{first}+..."
    number = None if canonical(name) in NAMES else numbers.parse(first)
    return first if number is None else numbers.fixed(number, 1)


def _sum_rate_dur(name: str, groups: Sequence[Values]) -> str:
    """Σ(rate·dur) / max(dur) over the groups that have a rate.

    Total goodput when flows run for different times: bits of all, over the time of the longest.
    """
    pairs = []
    for values in groups:
        rate, dur = numbers.parse(values.get(name, "")), numbers.parse(values.get("dur", ""))
        if rate is not None and dur is not None:
            pairs.append((rate, dur))
    longest = max((dur for _, dur in pairs), default=0.0)
    if longest <= 0:
        return ""
    return numbers.fixed(math.fsum(rate * dur for rate, dur in pairs) / longest, 3)


def _retransmitted_segments_percent(groups: Sequence[Values]) -> str:
    """`groups.retransmitted_segments_percent`, of keys in canonical spelling."""
    return group_values.retransmitted_segments_percent(
        {
            "retrans_total": values.get("retrans-total", ""),
            "data_segs_out": values.get("data-segs-out", ""),
        }
        for values in groups
    )


def _retransmitted_packets_percent(groups: Sequence[Values]) -> str:
    """100·Σretrans_total / Σpackets in the direction of the data, 2 decimals, over the groups whose
    retransPkts% is known; "" if a group's packets are not its own."""
    pairs = []
    for values in groups:
        is_reverse = flows.is_reverse(values.get("test", ""))
        sent = "client-rx-packets" if is_reverse else "client-tx-packets"
        again, count = (
            numbers.parse(values.get("retrans-total", "")),
            numbers.parse(values.get(sent, "")),
        )
        if again is None or count is None:
            continue
        if not values.get("retransPkts%", ""):
            return ""
        pairs.append((again, count))
    whole = math.fsum(count for _, count in pairs)
    return numbers.fixed(100 * math.fsum(again for again, _ in pairs) / whole, 2) if whole else ""


def _fairness(groups: Sequence[Values]) -> str:
    """Jain's index over all flows of all groups, 3 decimals.

    Not a mean of the groups' indexes: two groups of one flow each are perfectly fair in
    themselves. A group of n flows with sum S and index J has Σx² = S²/(n·J). Empty if the groups
    did different tests, or not at the same time: then their rates are no shares of one thing.
    """
    count, whole, squares = 0.0, [], []
    kinds = set()
    for values in groups:
        rate, index = (
            numbers.parse(values.get("rate", "")),
            numbers.parse(values.get("fairness", "")),
        )
        instances = numbers.parse(values.get("instances", ""))
        failed = numbers.parse(values.get("flowsFailed", "")) or 0.0
        if rate is None or not index or instances is None:
            continue
        kinds.add(tuple(values.get(key, "") for key in ("test", "delay", "dur")))
        count += instances - failed
        whole.append(rate)
        squares.append(rate * rate / ((instances - failed) * index))
    if len(kinds) != 1 or count <= 0 or math.fsum(squares) <= 0:
        return ""
    return numbers.fixed(math.fsum(whole) ** 2 / (count * math.fsum(squares)), 3)
