"""A summary as a page: its table, and the usual figures."""

import statistics
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from netesto.report import drawing, looks, plotting, spread, ticks
from netesto.report.expscript import page, tables
from netesto.report.expscript.page import (
    Block,
    ChoiceBlock,
    PageHeading,
    Paragraph,
    PlotBlock,
    TableBlock,
)
from netesto.report.expscript.tables import Table
from netesto.report.figures import (
    Axis,
    Chart,
    Kind,
    Layer,
    LegendEntry,
    Panel,
    Plot,
    Style,
    ValueMark,
)
from netesto.report.ticks import Scale, Tick
from netesto.results import summary
from netesto.results.completions import Times
from netesto.results.summary import Data

_STYLE = Style(width_px=1100, height_px=520, axis_in=7.5)
# Names of tests are long: with more of them, each gets more room.
_PX_FOR_TEST = 26
_BAR = 0.7
_TEXTS = frozenset({"test", "host", "side", "file", "zerocopy", "status", "ca"})


def harness(
    data: Data, cells: Sequence[summary.SummaryCell], rows: Sequence[Mapping[str, str]], title: str
) -> str:
    """The page of the table of tests and hosts: for each host its throughputs as bars."""
    plots = [
        _of_host(host, cells_of_host) for host, cells_of_host in summary.by_host(cells).items()
    ]
    return _render(title, plots, rows, data)


def lab(data: Data, rows: Sequence[Mapping[str, str]], title: str) -> str:
    """The page of the table of runs: throughput and retransmits over the number of streams."""
    plots = [
        plot
        for name, unit in (("gbps", "Throughput (Gbit/s)"), ("retrans", "Retransmits (segments)"))
        if (plot := _over_streams(rows, name, unit)) is not None
    ]
    return _render(title, plots, rows, data)


def rows(found: Sequence[Mapping[str, str]], title: str) -> str:
    """The page of a table alone; its first column has names."""
    first = next(iter(found[0]))
    return page.render(title, [TableBlock(table(found, texts=[first]), "table")])


def completions(
    parts: Mapping[str, Mapping[str, Times]], found: Sequence[Mapping[str, str]], title: str
) -> str:
    """The page of the durations of transfers: how many took longer than each time, for each part of
    them, one of which is shown at a time; and the table."""
    charts = {part: _exceeding(part, cases) for part, cases in parts.items()}
    shown = [(part, chart) for part, chart in charts.items() if chart is not None]
    choices = tuple(
        (part, PlotBlock(chart, svg, f"slower-{part}"))
        for (part, chart), svg in zip(shown, drawing.draw(each for _, each in shown), strict=True)
    )
    texts = [name for name in found[0] if name in {"part", "µs"}]
    blocks: list[Block] = [ChoiceBlock("Transfers", choices, "slower")] if choices else []
    return page.render(title, [*blocks, TableBlock(table(found, texts=texts), "table")])


def _exceeding(part: str, cases: Mapping[str, Times]) -> Chart | None:
    """The complementary distribution of each case; None without a time."""
    layers = [
        Layer(case, looks.of_line(place), "steps", *spread.exceeding(times[times > 0]))
        for place, (case, times) in enumerate(cases.items())
        if (times > 0).any()
    ]
    if not layers:
        return None
    which = "" if part == "all" else f" ({part} by losses)"
    counts = ", ".join(f"{case} {len(times):,}" for case, times in cases.items())
    return Chart(
        f"Durations of transfers{which}",
        "microseconds",
        "share that took longer",
        tuple(layers),
        1.0,
        (f"Both axes are logarithmic. Transfers: {counts}.",),
        "log",
    )


def table(found: Sequence[Mapping[str, str]], *, texts: Collection[str]) -> Table:
    """Rows whose columns contain numbers, except those of `texts`."""
    names = list(found[0]) if found else []
    headings = tables.headings(names, numeric=set(names) - set(texts))
    return Table(headings, tuple(tables.row(row[name] for name in names) for row in found))


def _of_host(host: str, cells: Sequence[summary.SummaryCell]) -> Plot:
    marks = tuple(
        ValueMark(
            float(place),
            cell.mean,
            low=max(0.0, cell.mean - cell.deviation),
            high=cell.mean + cell.deviation,
        )
        for place, cell in enumerate(cells)
    )
    labels = tuple(Tick(float(place), cell.test) for place, cell in enumerate(cells))
    most = max(mark.high or mark.y for mark in marks)
    width_px = max(_STYLE.width_px, _PX_FOR_TEST * len(cells))
    return _plot(
        "bars",
        f"Throughput of each test to {host}",
        (
            Axis("", Scale(-0.6, len(cells) - 0.4, labels)),
            Axis("Throughput (Gbit/s)", ticks.linear(0.0, most)),
        ),
        [LegendEntry("mean", 0, marks)],
        replace(_STYLE, width_px=width_px, legend="none"),
    )


def _over_streams(rows: Sequence[Mapping[str, str]], name: str, unit: str) -> Plot | None:
    """A line for each MTU and zerocopy; None if no run has both numbers."""
    values: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row[name] and row["P"].isdecimal():
            factors = (("MTU", row["mtu"]), ("zerocopy", row["zerocopy"]))
            label = ", ".join(f"{what} {text}" for what, text in factors if text)
            values[label or "all runs"][float(row["P"])].append(float(row[name]))
    if not values:
        return None
    traces = [
        LegendEntry(label, place, tuple(_marks(points)))
        for place, (label, points) in enumerate(values.items())
    ]
    every = [mark for trace in traces for mark in trace.marks]
    streams = sorted({mark.x for mark in every})
    labels = tuple(Tick(each, f"{each:g}") for each in streams)
    margin = (streams[-1] - streams[0]) * 0.05 or 0.5
    return _plot(
        "line",
        f"{unit.partition(' (')[0]} over parallel streams",
        (
            Axis("Parallel streams", Scale(streams[0] - margin, streams[-1] + margin, labels)),
            Axis(unit, ticks.linear(0.0, max(mark.high or mark.y for mark in every) or 1.0)),
        ),
        traces,
    )


def _marks(points: Mapping[float, Sequence[float]]) -> Iterator[ValueMark]:
    for x, values in sorted(points.items()):
        mean = statistics.fmean(values)
        if len(values) > 1:
            spread = statistics.stdev(values)
            yield ValueMark(x, mean, low=max(0.0, mean - spread), high=mean + spread)
        else:
            yield ValueMark(x, mean)


def _plot(
    kind: Kind,
    title: str,
    axes: tuple[Axis, Axis],
    traces: Sequence[LegendEntry],
    style: Style = _STYLE,
) -> Plot:
    return Plot(
        kind=kind,
        titles=(title,),
        x=axes[0],
        left=axes[1],
        panels=(Panel("", tuple(traces)),),
        style=style,
        bar_width=_BAR,
        remarks=("Error bars are the mean ± the standard deviation of the runs.",),
    )


def _render(
    title: str, plots: Sequence[Plot], found: Sequence[Mapping[str, str]], data: Data
) -> str:
    failures = list(summary.failures(data))
    count = f"{len(data.runs)} runs"
    blocks: list[Block] = [
        Paragraph(f"{count}, {len(failures)} of them failed." if failures else f"{count}.")
    ]
    for number, plot in enumerate(plots, start=1):
        blocks.append(PlotBlock(plot, plotting.draw_svg(plot), f"figure{number}"))
    blocks.append(TableBlock(table(found, texts=_TEXTS), "table"))
    if failures:
        blocks.append(PageHeading("Runs that failed", 2, "failed"))
        blocks += [Paragraph(text) for text in failures]
    if data.findings:
        blocks.append(PageHeading("Findings", 2, "findings"))
        lines = (tables.row((each.file, each.kind, each.detail)) for each in data.findings)
        shown = Table(tables.headings(("file", "kind", "detail")), tuple(lines))
        blocks.append(TableBlock(shown, "table-findings"))
    return page.render(title, blocks)
