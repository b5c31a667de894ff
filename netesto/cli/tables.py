"""Rows of exp.csv as a table for the terminal."""

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from netesto.cli import console
from netesto.results import numbers

# Column of exp.csv, heading, right-aligned. What fits beside each other in 100 columns and answers
# the first questions; `exp.csv` and the page have the rest.
SHOWN = (
    ("exp", "exp", False),
    ("expName", "name", False),
    ("host", "host", False),
    ("server", "server", False),
    ("ca", "ca", False),
    ("dur", "dur s", True),
    ("delay", "delay s", True),
    ("rate", "rate Mbit/s", True),
    ("rtt", "rtt ms", True),
    ("cwnd", "cwnd", True),
    ("retransSegs%", "retrans %", True),
    ("status", "status", False),
)


def print_rows(rows: Sequence[Mapping[str, str]]) -> None:
    """Print the rows to standard output; aggregates (N.0) bold, what is not ok red."""
    shown = [column for column in SHOWN if any(row.get(column[0], "").strip() for row in rows)]
    table = Table(box=None, pad_edge=False, header_style="dim")
    for _, heading, right in shown:
        table.add_column(heading, justify="right" if right else "left", no_wrap=True)
    for row in rows:
        style = "bold" if row.get("exp", "").endswith(".0") else ""
        table.add_row(*(_cell(row, name) for name, _, _ in shown), style=style)
    console.to_stdout().print(table)


def _cell(row: Mapping[str, str], name: str) -> Text:
    value = row.get(name, "").strip()
    if name == "rtt" and (rtt_us := numbers.parse(value)) is not None:
        value = f"{rtt_us / 1000:.2f}"
    wrong = name == "status" and value not in {"", "ok"}
    return Text(value, style="red" if wrong else "")
