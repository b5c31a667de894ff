"""Rows of exp.csv as a table for the terminal."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

from netesto.cli import console
from netesto.flowspec import TIMED_TESTS
from netesto.results import csvfile, numbers, severity
from netesto.results.columns import SEVERITY, WARNINGS, column, distinguishes
from netesto.results.table import is_doubtful
from netesto.text.printable import printable

Row = Mapping[str, str]

# The headings of the most important columns, which fit into 100 characters; `exp.csv` and the page
# have the rest.
SHOWN: Mapping[str, str] = {
    "exp": "exp", "expName": "name", "host": "host", "server": "server", "ca": "ca",
    "dur": "dur s", "delay": "delay s", "rate": "rate Mbit/s", "rtt": "rtt ms", "cwnd": "cwnd",
    "p50Latency": "p50 ms", "p99Latency": "p99 ms", "retransSegs%": "retrans %",
    "status": "status", WARNINGS: "warnings",
}  # fmt: skip
# How many experiments have their first warning below the table.
_WARNED_MAX = 10
# These make room for factors if they are the same in all rows.
_ROOM = ("expName", "host", "server", "dur", "delay")
_LATENCIES = ("p50Latency", "p99Latency")
# The columns that a narrow terminal omits, in this order, and the widths to which it cuts texts: a
# number is never cut.
_LEFT_OUT = ("cwnd", "delay", "dur", "server", "host", "rtt", "p50Latency", "expName",
             "retransSegs%", "p99Latency", "ca")  # fmt: skip
_CUT, _LEAST = ("status", "expName", "host", "server"), 10
_GAP = 2


def print_rows(rows: Sequence[Row]) -> None:
    """Print the rows to standard output; aggregates (N.0) in bold, failures in red. The only group
    of an experiment has a row if its status, the reason of a failure, is not the aggregate's."""
    whole = [row for row in rows if csvfile.is_aggregate(row)]
    statuses = defaultdict(list)
    for row in rows:
        statuses[number_of(row)].append(row.get("status"))
    repeated = {
        number_of(row) for row in whole if statuses[number_of(row)] == [row.get("status")] * 2
    }
    shown_rows = [
        row for row in rows if csvfile.is_aggregate(row) or number_of(row) not in repeated
    ]
    names = {name: None for row in rows for name in row}
    # Values that differ between the groups of an experiment do not distinguish experiments.
    factors = [
        name
        for name in names
        if name not in SHOWN
        and distinguishes(name, whole)
        and not any(row.get(name, "").endswith("+...") for row in whole)
    ]
    shown = [
        name
        for name in SHOWN
        if any(_text(row, name) for row in shown_rows)
        and not (factors and name == "cwnd")
        and not (factors and name in _ROOM and len({row.get(name) for row in rows}) == 1)
    ]
    shown[1:1] = factors
    cells = {name: [_cell(row, name) for row in shown_rows] for name in shown}
    needed = {
        name: max(cell_len(SHOWN.get(name, name)), *(cell.cell_len for cell in column_cells))
        for name, column_cells in cells.items()
    }
    output = console.to_stdout()
    widths = _fitting(needed, output.width)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name, width in widths.items():
        is_number = column(name).unit or column(name).holds == "number"
        justify: JustifyMethod = "right" if is_number else "left"
        table.add_column(SHOWN.get(name, name), justify=justify, no_wrap=True, width=width)
    for place, row in enumerate(shown_rows):
        style = "bold" if csvfile.is_aggregate(row) and len(whole) < len(shown_rows) else ""
        table.add_row(*(cells[name][place] for name in widths), style=style)
    # Lines that are still too wide wrap.
    output.width = max(output.width, _total(widths))
    output.print(table)
    warned = [row for row in whole if severity.matters(row.get(SEVERITY))]
    for row in warned[:_WARNED_MAX]:
        text = f"{number_of(row)}, {row[SEVERITY]}: {row.get('warning', '')}"
        output.print(Text(printable(text), style="yellow"))
    if len(warned) > _WARNED_MAX:
        output.print(Text(f"{len(warned) - _WARNED_MAX} more experiments with warnings"))
    if absent := [SHOWN.get(name, name) for name in shown if name not in widths]:
        output.print(Text(f"columns without room: {', '.join(absent)}", style="dim"))


def _fitting(needed: Mapping[str, int], room: int) -> dict[str, int]:
    """The columns that a terminal of this width has room for, with their widths."""
    kept = dict(needed)
    for name in (*_LEFT_OUT, ""):
        widths = {key: min(width, _LEAST) if key in _CUT else width for key, width in kept.items()}
        if _total(widths) <= room:
            break
        kept.pop(name, None)
    for name in _CUT:
        if name in widths:
            widths[name] += max(0, min(kept[name] - widths[name], room - _total(widths)))
    return widths


def _total(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + _GAP * (len(widths) - 1)


def number_of(row: Row) -> str:
    """The number of a row's experiment; "" if it has none."""
    return row.get("exp", "").split(".", 1)[0]


def _text(row: Row, name: str) -> str:
    # The latencies of a stream are the durations of calls of send().
    if name in _LATENCIES and row.get("test") not in TIMED_TESTS:
        return ""
    return row.get(name, "").strip()


def _cell(row: Row, name: str) -> Text:
    value = _text(row, name)
    if (column(name).in_ms or name in _LATENCIES) and (us := numbers.parse(value)) is not None:
        mark = "~" if name in _LATENCIES and is_doubtful(row, name) else ""
        value = f"{mark}{us / 1000:.2f}"
    elif name not in SHOWN:
        value = numbers.trimmed(value)
    wrong = name == "status" and value not in {"", "ok"}
    return Text(printable(value), style="red" if wrong else "")
