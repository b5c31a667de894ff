"""The values of a group, as key and text, from its evidence."""

from collections.abc import Mapping, Sequence

from netesto.results import formulas, numbers
from netesto.results.columns import COLUMNS, canonical, column
from netesto.results.formulas import Group


def values(group: Group, columns: Mapping[str, str]) -> dict[str, str]:
    """Every key of a group. `columns` (OTHER, SWEEP) fill keys that the group has no value for."""
    row = {each.name: each.value(group) for each in COLUMNS.values() if each.fill is not None}
    return with_columns(row | dict.fromkeys(damaged_keys(group), ""), columns)


def counted_once(groups: Sequence[Group]) -> dict[str, str]:
    """The values of an experiment from counters that its groups may share."""
    good = [group for group in groups if group.good]
    found = {each.name: each.once(good) for each in COLUMNS.values() if each.once is not None}
    return {
        name: value if isinstance(value, str) else numbers.fixed(value, 1)
        for name, value in found.items()
        if value is not None
    }


def mean_rates(groups: Sequence[Group]) -> dict[str, float]:
    """For each rate, the data of all flows divided by the time from the first start to the last
    end."""
    good = [group for group in groups if group.good]
    found = {
        each.name: formulas.mean_rate(good, each.rate)
        for each in COLUMNS.values()
        if each.rate is not None
    }
    return {name: rate for name, rate in found.items() if rate is not None}


def damaged_keys(group: Group) -> frozenset[str]:
    """The keys that are empty because their data are damaged. A sum or a mean without one of its
    flows would be wrong: a single damaged file empties it for the whole group.
    """
    lost = group.damaged
    return frozenset(each.name for each in COLUMNS.values() if not lost.isdisjoint(each.sources))


def with_columns(row: Mapping[str, str], columns: Mapping[str, str]) -> dict[str, str]:
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
