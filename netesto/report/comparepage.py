"""The presentation of a comparison: its table, its summary in words, and the page."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from netesto.report import plotting, ticks
from netesto.report.compare import ALPHA, FAILED_RUNS, ComparedMeasure, Comparison, Verdict
from netesto.report.context import Reference
from netesto.report.expscript import page, tables
from netesto.report.expscript.page import Block, PageHeading, Paragraph, PlotBlock, TableBlock
from netesto.report.expscript.tables import Table, TableCell, TableRow
from netesto.report.figures import Axis, LegendEntry, Panel, Plot, Style, ValueMark
from netesto.report.ticks import Scale, Tick
from netesto.results.columns import column
from netesto.units import format_rate

# Floats end near here; a p below is shown as such.
SMALLEST_P = 1e-300

_NUMERIC = (
    "base median", "new median", "of medians", "change", "95 % interval", "p", "runs", "failed",
)  # fmt: skip
# Of which the change is the median, by whether runs are paired.
_RATIOS = {False: "all ratios of a run of new to a run of base", True: "the ratios of pairs"}
_MARKS = {Verdict.WORSE: "loss", Verdict.NOT_COMPARABLE: "latency", Verdict.BETTER: "rate"}
# In this order in the legend; the place of each chooses its colour and marker.
_DRAWN = (Verdict.CANNOT_TELL, Verdict.WORSE, Verdict.BETTER, Verdict.EQUIVALENT)
_STYLE = Style(width_px=1100, height_px=460, axis_in=7.5)


def table(comparison: Comparison, findings: Sequence[ComparedMeasure]) -> Table:
    """Findings as a table: the factors that vary, medians and how these differ, the change of
    Hodges and Lehmann, its interval, p, verdict."""
    varying = _varying(comparison)
    names = [comparison.factors[place] for place in varying]
    shown = [*tables.headings([*names, "measure"]), *tables.headings(_NUMERIC, numeric=_NUMERIC)]
    return Table(
        (*shown, *tables.headings(["verdict"])),
        tuple(_row([one.cell[place] for place in varying], one) for one in findings),
    )


def _varying(comparison: Comparison) -> list[int]:
    """The places of the factors that distinguish cells; the others are the same in all of them."""
    return [
        place
        for place in range(len(comparison.factors))
        if len({one.cell[place] for one in comparison.judged}) > 1
    ]


def _row(factors: Sequence[str], one: ComparedMeasure) -> TableRow:
    change = one.change
    between = None if change is None else change.interval
    is_failures = one.measure == FAILED_RUNS
    texts = [
        *factors,
        _with_unit(one.measure),
        _median(one.measure, one.base),
        _median(one.measure, one.new),
        _of_medians(one),
        "" if change is None else percent(change.part),
        "" if between is None else f"{percent(between.low)} … {percent(between.high)}",
        "" if change is None and not is_failures else _probability(one.p),
        f"{one.runs[0]}/{one.runs[1]}",
        f"{one.failed[0]}/{one.failed[1]}" if any(one.failed) else "",
        f"{one.verdict.value}: {one.reason}" if one.reason else one.verdict.value,
    ]
    last = TableCell(texts[-1], mark=_MARKS.get(one.verdict, ""))
    return TableRow((*map(TableCell, texts[:-1]), last), mark="cubic")


def _is_rate(measure: str) -> bool:
    return column(measure).unit == "Mbit/s"


def _with_unit(measure: str) -> str:
    unit = column(measure).unit
    return f"{measure} ({unit})" if unit and not _is_rate(measure) else measure


def _median(measure: str, values: Sequence[float]) -> str:
    """Rates have the unit in which people say them."""
    if not values:
        return ""
    median = float(np.median(values))
    return format_rate(median * 1e6) if _is_rate(measure) else f"{median:.5g}"


def _of_medians(one: ComparedMeasure) -> str:
    """The change from one median to the other."""
    if one.change is None:
        return ""
    base, new = float(np.median(one.base)), float(np.median(one.new))
    return percent(new / base - 1 if base else math.inf if new else 0.0)


def _probability(p: float) -> str:
    """The text of p, never 0."""
    return f"{p:.2g}" if p >= SMALLEST_P else f"< {SMALLEST_P:g}"


def percent(part: float) -> str:
    """0.0512 is +5.1 %; a change from 0 has no percentage."""
    if part == math.inf:
        return "from 0"
    digits = 0 if abs(part) >= 10 else 1
    text = f"{part * 100:+.{digits}f}"
    return f"{'0.0' if float(text) == 0 else text} %"


# ---- in words ----------------------------------------------------------------------------


def headline(comparison: Comparison) -> str:
    """The verdict on all, as a sentence."""
    verdict, total = comparison.verdict, len(comparison.judged)
    having = len(comparison.having(verdict))
    within = f"{comparison.threshold_percent:g} %"
    if not total:
        return "Not comparable: nothing to compare."
    several = f"{having} of {total} comparisons" if total > 1 else "the only comparison"
    show = "show" if having > 1 else "shows"
    match verdict:
        case Verdict.WORSE:
            return f"Worse: {several} {show} that new is worse than base."
        case Verdict.NOT_COMPARABLE:
            return f"Not comparable: {several} could not be made."
        case Verdict.CANNOT_TELL:
            return (
                f"Cannot tell: in {several} the runs show neither a difference of {within} or more"
                " nor equivalence."
            )
        case Verdict.BETTER:
            return f"Better: {several} {show} that new is better, and none that it is worse."
        case _:
            return f"Equivalent: new is within {within} of base in {several}."


def summary(comparison: Comparison) -> list[str]:
    """The text after the table in a terminal: sentences, the verdict last."""
    counts = Counter(one.verdict for one in comparison.judged)
    verdicts = ", ".join(f"{counts[each]} {each.value}" for each in Verdict if counts[each])
    total = counts.total()
    sentences = list(comparison.remarks)
    if comparison.only_new:
        count = len(comparison.only_new)
        sentences.append(
            f"{count} experiment{'s are' if count > 1 else ' is'} in new only, and not compared."
        )
    if any(
        one.change and _of_medians(one) != percent(one.change.part) for one in comparison.judged
    ):
        sentences.append(
            f"change is the median of {_RATIOS[comparison.is_paired]} (Hodges and Lehmann), not the"
            " ratio of the two medians, which is under `of medians`."
        )
    if (beside := _beside(comparison)) != "":
        sentences.append(beside)
    if total > 1:
        sentences.append(f"{total} comparisons: {verdicts}.")
    return [*sentences, headline(comparison)]


def _beside(comparison: Comparison) -> str:
    """The results of measures that are not judged."""
    counts = Counter((one.measure, one.verdict) for one in comparison.unjudged)
    cells = Counter(one.measure for one in comparison.unjudged)
    found = [
        f"{measure} looks {verdict.value} in {count} of {cells[measure]}"
        for (measure, verdict), count in counts.items()
        if verdict in {Verdict.WORSE, Verdict.BETTER}
    ]
    if not found:
        return ""
    return f"Not judged: {', '.join(found)}. --metric COLUMN judges a measure."


def render(comparison: Comparison) -> str:
    """The page."""
    within = f"{comparison.threshold_percent:g} %"
    *sentences, verdict = summary(comparison)
    blocks: list[Block] = [
        Paragraph(verdict),
        *(Paragraph(sentence) for sentence in reversed(sentences)),
        Paragraph(f"Base: {comparison.base}. New: {comparison.new}."),
    ]
    for title, verdicts in (
        ("Worse", [Verdict.WORSE]),
        ("Not comparable", [Verdict.NOT_COMPARABLE]),
        ("Cannot tell", [Verdict.CANNOT_TELL]),
        ("Better or equivalent", [Verdict.BETTER, Verdict.EQUIVALENT]),
    ):
        _add(blocks, title, table(comparison, comparison.having(*verdicts)))
    for number, plot in enumerate(plots(comparison), start=1):
        if number == 1:
            blocks.append(PageHeading("Changes", 2, "changes"))
        blocks.append(PlotBlock(plot, plotting.draw_svg(plot), f"change{number}"))
    _add(blocks, "Other measures, not judged", table(comparison, comparison.unjudged))
    _add(blocks, "Only in new", _cells_table(comparison.factors, comparison.only_new))
    blocks.append(PageHeading("How to read this", 2, "method"))
    blocks += [Paragraph(text) for text in _method(within, is_paired=comparison.is_paired)]
    names = f"{Path(comparison.base).name} and {Path(comparison.new).name}"
    return page.render(f"{names}: {comparison.verdict.value}", blocks)


def _add(blocks: list[Block], title: str, shown: Table) -> None:
    if shown.rows:
        name = title.lower().replace(",", "").replace(" ", "-")
        blocks.append(PageHeading(title, 2, name))
        blocks.append(TableBlock(shown, f"table-{name}"))


def _method(within: str, *, is_paired: bool) -> tuple[str, ...]:
    test = "Wilcoxon's signed-rank test" if is_paired else "the Mann-Whitney test"
    what = (
        "Medians exclude failed runs. The change is not their ratio, but the median"
        f" of {_RATIOS[is_paired]} (Hodges and Lehmann); its 95 % interval and p are those of"
        f" {test}, so that its sign cannot contradict p. "
        + (
            ""
            if is_paired
            else "The test assumes that both have the same spread; with equally many runs this"
            " hardly matters. "
        )
        + "Each interval is that of its comparison alone; p is"
        " corrected for the number of comparisons (Holm)."
    )
    verdicts = (
        f"Worse and better: p below {ALPHA:g}, and a change of {within} or more. Equivalent: the"
        f" whole interval is within {within}. Cannot tell: neither; the given number of runs would"
        f" detect a change of {within} in 80 of 100 cases, if their variance stays the same."
        " Not comparable: one side has no run that can be compared. Shares of failed runs are"
        " compared by Fisher's exact test."
    )
    return what, verdicts


def plots(comparison: Comparison) -> list[Plot]:
    """One for each measure: a point for each cell whose change is a percentage."""
    varying = _varying(comparison)
    cells: dict[str, dict[str, int]] = {}
    marks: dict[tuple[str, Verdict], list[ValueMark]] = {}
    for one in (*comparison.judged, *comparison.unjudged):
        change = one.change
        if change is None or change.part == math.inf:
            continue
        label = ", ".join(one.cell[place] or "none" for place in varying)
        places = cells.setdefault(one.measure, {})
        mark = ValueMark(float(places.setdefault(label, len(places))), change.part * 100)
        between = change.interval
        if between is not None and between.high < math.inf:
            mark = replace(mark, low=between.low * 100, high=between.high * 100)
        marks.setdefault((one.measure, one.verdict), []).append(mark)
    bound = comparison.threshold_percent
    return [
        _plot(
            measure, list(places), {each: marks.get((measure, each), []) for each in _DRAWN}, bound
        )
        for measure, places in cells.items()
    ]


def _plot(
    measure: str, cells: Sequence[str], marks: Mapping[Verdict, Sequence[ValueMark]], bound: float
) -> Plot:
    every = [mark for some in marks.values() for mark in some]
    ends = [end for mark in every for end in (mark.y, mark.low, mark.high) if end is not None]
    labels = tuple(Tick(float(place), cell) for place, cell in enumerate(cells))
    traces = (
        LegendEntry(verdict.value, place, tuple(some))
        for place, (verdict, some) in enumerate(marks.items())
        if some
    )
    return Plot(
        kind="scatter",
        titles=(f"{measure}: change from base to new",),
        x=Axis("", Scale(-0.6, len(cells) - 0.4, labels)),
        left=Axis("Change (%)", ticks.linear(min(-bound, *ends), max(bound, *ends))),
        panels=(Panel("", tuple(traces)),),
        style=_STYLE,
        across=(Reference(0.0, ""), Reference(bound, f"±{bound:g} %"), Reference(-bound, "")),
        remarks=("Bars are the 95 % interval of each change, if there are enough runs for one.",),
    )


def _cells_table(factors: Sequence[str], cells: Sequence[tuple[str, ...]]) -> Table:
    filled = [place for place in range(len(factors)) if any(cell[place] for cell in cells)]
    return Table(
        tables.headings(factors[place] for place in filled),
        tuple(tables.row(cell[place] for place in filled) for cell in cells),
    )
