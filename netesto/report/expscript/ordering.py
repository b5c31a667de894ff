"""Sort: the order of the selected rows."""

from dataclasses import replace

import numpy as np

from netesto.errors import ScriptError
from netesto.report.expscript import numerals
from netesto.report.expscript.csvcells import Floats, Integers
from netesto.report.expscript.dataset import EXP, Column, View
from netesto.report.expscript.lines import items
from netesto.units import Kind


def sort(view: View, text: str) -> View:
    """Order the selection: `a,-b` is by a, then by b downwards; equal rows keep their order.

    Numbers come before rates, times (100mbit before 1gbit) and texts; missing cells, `*` and `...`
    come last, upwards and downwards. ScriptError for an unknown column.
    """
    keys = items(text)
    if not keys:
        raise ScriptError(
            "Sort: no column", remedy="Sort=bw,-rate sorts by bw, then rate downwards"
        )
    rows = view.rows
    for key in reversed(keys):
        # A name that begins with `-` is found as well.
        descending = key.startswith("-") and key not in view.data.names
        name = key[1:].strip() if descending else key
        column = view.column(name, what="Sort").take(rows)
        numbers = view.data.ids.order(column) if name == EXP else column.numbers
        rows = rows[_order(column, numbers, descending=descending)]
    return replace(view, rows=rows)


def _order(column: Column, numbers: Floats, *, descending: bool) -> Integers:
    sign = -1 if descending else 1
    texts = column.texts
    places = _places({texts[row] for row in np.flatnonzero(~column.numeric).tolist()})
    found = [places.get(text, (0, 0.0)) for text in texts]
    missing = np.array(
        [not text.strip() or text in numerals.SIGNS for text in texts], dtype=np.bool_
    ) | (column.numeric & np.isnan(numbers))
    value = np.where(column.numeric, numbers, [place for _, place in found]) * sign
    kind = np.array([kind for kind, _ in found], dtype=np.intp) * sign
    return np.lexsort((np.where(missing, 0, value), np.where(missing, 0, kind), missing))


def _places(texts: set[str]) -> dict[str, tuple[int, float]]:
    """After the numbers come rates, then times, both by size, then other texts."""
    ranks = {text: (3, float(rank)) for rank, text in enumerate(sorted(texts))}
    quantities = {text: numerals.quantity(text) for text in texts}
    kinds = {Kind.RATE: 1, Kind.TIME: 2}
    return ranks | {
        text: (kinds[one.kind], float(one.value)) for text, one in quantities.items() if one
    }
