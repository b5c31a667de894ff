"""docs/truth.md: what theory expects, and what the last `make truth` measured."""

import math
from collections.abc import Iterator, Sequence

from measuring import Finding, Measured
from studies import EXACTNESS, Row, Study
from theory import CHANCE, Interval

ABOVE = f"""\
# Truth: links and TCP against theory

A link of a lab is the instrument on which every number rests. This page compares what links do
to packets, and what TCP does over them, with theory. `make truth` runs the scripts, writes this
page, and fails if a row is false. The expected values are formulas, with their sources, and
intervals follow from statistics or from what a ground can do; none was fitted to a measurement
(`tests/truth`).

- **Random events** (losses, copies) lie in an interval that all but {CHANCE:g} of the possible
  outcomes are in.
- **Queues under datagrams that do not respond** are compared, packet by packet, with the
  specification of their qdisc (`tests/truth/reference.py`), or with the state in which they drop
  exactly what is too much.
- **The grounds** differ in exactness:
"""

BELOW = """
Rows with `pair`, `star` and `tree` of one table are measured in one run, side by side: a topology
file joins a host to many others, by one, two or four equal links. `python tests/truth/truth.py
--only NAME --keep FOLDER` repeats a table, and keeps its script, its topology and its results.

A link is the same value in every topology, which a test compares. So each kind is measured at 2, 20
and 200 Mbit/s and 2 Gbit/s on `pair`, and at 20 Mbit/s on `dumbbell` and `tree`. What is missing:
`reorder` on a tree, where no simple formula says who overtakes whom; the equilibrium of PIE above
20 Mbit/s, which takes 20 s to show, so 3 million datagrams at 2 Gbit/s; dualpi2, which the kernels
of `sim` and `uml` (6.1) do not have.
"""

HEADER = "| quantity | link | expected | interval | measured | | source |"


def page(measured: Sequence[Measured]) -> str:
    """The whole page."""
    lines = [ABOVE.rstrip("\n")]
    lines += [f"  - `{ground}`: {exact.why}." for ground, exact in EXACTNESS.items()]
    lines += BELOW.splitlines()
    studies = [each.study for each in measured]
    tested, in_ci = (", ".join(names(studies, run)) for run in ("test", "ci"))
    lines += [
        "",
        f"`make test` measures the table {tested}; `.ci/run` the smallest set with every kind of",
        f"link, in simulated time: {in_ci}.",
    ]
    findings = [finding for each in measured for finding in each.findings]
    true = sum(finding.is_true for finding in findings)
    known = sum(finding.measured is not None for finding in findings)
    lines += [
        "",
        f"{true} of {len(findings)} rows are true; {len(findings) - known} were not measured.",
    ]
    for each in measured:
        lines += ["", *section(each.study, each.findings)]
    return "\n".join(lines) + "\n"


def names(studies: Sequence[Study], run: str) -> list[str]:
    """The studies that this run is the first to measure."""
    return [study.name for study in studies if study.run == run]


def section(study: Study, findings: Sequence[Finding]) -> Iterator[str]:
    """The lines of a study."""
    yield f"## {study.name}"
    yield ""
    if study.ground != "sim":
        yield f"On ground `{study.ground}`."
        yield ""
    yield HEADER
    yield "|---|---|---|---|---|---|---|"
    yield from map(line, findings)


def line(finding: Finding) -> str:
    """A row, with what was measured."""
    interval, unit = finding.row.interval, f" {finding.row.unit}" if finding.row.unit else ""
    quantity, link, expected, limits, source = promised(finding.row)
    measured = finding.reason
    if finding.measured is not None:
        measured = number(finding.measured, interval) + unit
    verdict = "true" if finding.is_true else "**false**"
    if finding.measured is None:
        verdict = "unknown"
    return f"| {quantity} | {link} | {expected} | {limits} | {measured} | {verdict} | {source} |"


def promised(row: Row) -> tuple[str, str, str, str, str]:
    """The cells of a row that no measurement decides."""
    interval, unit = row.interval, f" {row.unit}" if row.unit else ""
    return (
        row.quantity,
        f"`{row.link}`",
        number(interval.expected, interval) + unit,
        f"{number(interval.low, interval)} to {number(interval.high, interval)}",
        row.source,
    )


def number(value: float, interval: Interval) -> str:
    """With as many decimals as show where in the interval it lies."""
    width = interval.high - interval.low
    is_count = all(float(each).is_integer() for each in (value, interval.low, interval.high))
    decimals = 0 if is_count else max(0, 1 - math.floor(math.log10(width or 1)))
    return f"{value:,.{decimals}f}"
