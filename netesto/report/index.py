"""The index of a results folder: every row of exp.csv, to be sorted and filtered in the browser."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from netesto.report import neighbours, rendering
from netesto.report.neighbours import PAGE
from netesto.results import csvfile, durable, numbers, store
from netesto.results.columns import MEASURED
from netesto.results.evidence import OK
from netesto.results.fields import canonical

# Shown at first, with whatever differs from experiment to experiment; a button shows the others.
MAIN_COLUMNS: tuple[str, ...] = (
    "exp", "expName", "status", "test", "ca", "instances", "dur", "rate", "rateMin", "rateMax",
    "fairness", "rtt", "pingRtt", "retransPkts%",
)  # fmt: skip

# Asked for, and different from group to group as a rule: no factor of a study.
_NO_FACTORS = frozenset(
    {"exp", "group", "instance", "host", "server", "kernel", "delay", "desc", "tool"}
)

Row = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the index. `is_main`: shown at first."""

    name: str
    is_main: bool
    is_number: bool


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment's rows; `page` is the link to its page, "" if it has none."""

    number: str
    page: str
    status: str
    whole: Row
    groups: Sequence[Row]


def write(folder: Path) -> None:
    """Write exp.html beside exp.csv, and link the experiments' pages to their neighbours.

    ResultsError if exp.csv cannot be read or the page cannot be written.
    """
    rows = csvfile.read(folder / store.TABLE)
    html = rendering.render(
        "index.html.j2",
        title=folder.resolve().name,
        columns=columns(rows),
        experiments=experiments(rows, folder),
        shown=shown,
    )
    durable.replace(folder / PAGE, html, lasting=False)
    neighbours.relink(folder)


def columns(rows: Sequence[Row]) -> list[Column]:
    """The columns that hold anything; exp and status first."""
    filled = [name for name in (rows[0] if rows else ()) if any(row[name] for row in rows)]
    first = [name for name in ("exp", "status") if name in filled]
    whole = [row for row in rows if _is_aggregate(row)]
    return [
        Column(
            name,
            is_main=name in MAIN_COLUMNS or _is_factor(name, whole),
            is_number=all(_looks_like_number(row[name]) for row in rows),
        )
        for name in first + [name for name in filled if name not in first]
    ]


def _is_factor(name: str, whole: Sequence[Row]) -> bool:
    """True for what was set, and set differently from experiment to experiment."""
    if canonical(name) in MEASURED or name in _NO_FACTORS:
        return False
    return len({row[name] for row in whole}) > 1


def _looks_like_number(text: str) -> bool:
    """True also for nothing, and for the first of several numbers: "60+..."."""
    return not text or numbers.parse(text.removesuffix("+...")) is not None


def shown(text: str) -> str:
    """A cell without the zeros that say nothing: "60.0" is "60", "43333.787" stays."""
    number = numbers.parse(text)
    return text if number is None or text[-1] in "KMG" else numbers.short(number, 3)


def experiments(rows: Sequence[Row], folder: Path) -> list[Experiment]:
    """The rows of each experiment together, in the order of exp.csv."""
    by_number: dict[str, list[Row]] = {}
    for row in rows:
        by_number.setdefault(row["exp"].partition(".")[0], []).append(row)
    found = []
    for number, own in by_number.items():
        has_page = number.isdecimal() and (folder / number / PAGE).is_file()
        whole = next((row for row in own if _is_aggregate(row)), own[0])
        found.append(
            Experiment(
                number=number,
                page=f"{number}/{PAGE}" if has_page else "",
                status=whole.get("status") or OK,
                whole=whole,
                groups=[row for row in own if row is not whole],
            )
        )
    return found


def _is_aggregate(row: Row) -> bool:
    return row["exp"].endswith(".0")
