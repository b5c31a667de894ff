"""Formulas for columns of an experiment's aggregate row, from the texts of its groups, with keys in
canonical spelling. Pure."""

import math
from collections.abc import Sequence

from netesto.model import FlowSpec
from netesto.results import formulas, numbers
from netesto.results.formulas import Values


def _number(values: Values, key: str) -> float | None:
    return numbers.parse(values.get(key, ""))


def retransmitted_segments_percent(groups: Sequence[Values]) -> str:
    """100·Σretrans_total / Σdata_segs_out over the groups where both are known."""
    pairs = ((_number(each, "retrans-total"), _number(each, "data-segs-out")) for each in groups)
    return formulas.percent(pairs, decimals=3)


def retransmitted_packets_percent(groups: Sequence[Values]) -> str:
    """100·Σretrans_total / Σpackets in the direction of the data, over the groups whose
    retransPkts% is known; "" if the packets of a group are not its own."""
    pairs = []
    for values in groups:
        is_reverse = FlowSpec(test=values.get("test", "")).is_reverse
        sent = _number(values, "client-rx-packets" if is_reverse else "client-tx-packets")
        again = _number(values, "retrans-total")
        if again is not None and sent is not None and not values.get("retransPkts%"):
            return ""
        pairs.append((again, sent))
    return formulas.percent(pairs, decimals=2)


def latency_tail(groups: Sequence[Values]) -> str:
    """The minimum over the groups."""
    return min(
        (text for each in groups if (text := each.get("latencyTail"))), key=float, default=""
    )


def lost_percent(groups: Sequence[Values]) -> str:
    """100·Σlost / Σsent."""
    pairs = ((_number(each, "udpLost"), _number(each, "udpSent")) for each in groups)
    return formulas.percent(pairs, decimals=4)


def fairness(groups: Sequence[Values]) -> str:
    """Jain's index over all flows of all groups, 3 decimals.

    Not a mean of the groups' indexes: two groups of one flow each are perfectly fair in
    themselves. A group of n flows with sum S and index J has Σx² = S²/(n·J). Empty if the groups
    ran different tests, or not at the same time: then their rates are not shares of one capacity;
    if that is so within a group; and if all flows but one failed.
    """
    count, rates, squares = 0.0, [], []
    failed = math.fsum(_number(values, "flowsFailed") or 0.0 for values in groups)
    kinds = set()
    for values in groups:
        rate, index = _number(values, "rate"), _number(values, "fairness")
        instances = _number(values, "instances")
        if rate and index is None:
            return ""
        if rate is None or instances is None:
            continue
        good = instances - (_number(values, "flowsFailed") or 0.0)
        kinds.add(tuple(values.get(key, "") for key in ("test", "delay", "dur")))
        count += good
        # Flows that got nothing have no index among themselves.
        if index:
            rates.append(rate)
            squares.append(rate * rate / (good * index))
    is_alone = failed and count == 1
    if len(kinds) != 1 or is_alone or count <= 0 or math.fsum(squares) <= 0:
        return ""
    return numbers.fixed(math.fsum(rates) ** 2 / (count * math.fsum(squares)), 3)
