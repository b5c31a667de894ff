"""Rows of exp.csv as a table for the terminal."""

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from netesto.cli import console
from netesto.results import numbers
from netesto.results.columns import column

# The headings of the columns that answer the first questions and fit beside each other in 100
# characters; `exp.csv` and the page have the rest.
SHOWN: Mapping[str, str] = {
    "exp": "exp", "expName": "name", "host": "host", "server": "server", "ca": "ca",
    "dur": "dur s", "delay": "delay s", "rate": "rate Mbit/s", "rtt": "rtt ms", "cwnd": "cwnd",
    "retransSegs%": "retrans %", "status": "status",
}  # fmt: skip


def print_rows(rows: Sequence[Mapping[str, str]]) -> None:
    """Print the rows to standard output; aggregates (N.0) bold, what is not ok red."""
    shown = [name for name in SHOWN if any(row.get(name, "").strip() for row in rows)]
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in shown:
        is_number = column(name).unit or column(name).holds == "number"
        table.add_column(SHOWN[name], justify="right" if is_number else "left", no_wrap=True)
    for row in rows:
        style = "bold" if row.get("exp", "").endswith(".0") else ""
        table.add_row(*(_cell(row, name) for name in shown), style=style)
    console.to_stdout().print(table)


def _cell(row: Mapping[str, str], name: str) -> Text:
    value = row.get(name, "").strip()
    if column(name).in_ms and (value_us := numbers.parse(value)) is not None:
        value = f"{value_us / 1000:.2f}"
    wrong = name == "status" and value not in {"", "ok"}
    return Text(value, style="red" if wrong else "")
