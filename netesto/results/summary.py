"""Summaries of many runs, in the form of their tools' own tables."""

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

from netesto.flowspec import FlowSpec
from netesto.measured import CPU_STATES
from netesto.results import csvfile, imported, numbers, repeated, store, tablerows
from netesto.results.columns import REPETITION, SEVERITY, WARNINGS
from netesto.results.evidence import DAMAGED, OK, PARTIAL
from netesto.results.imported import Core, CpuFile, FileRemark, ImportedRun, Side
from netesto.results.severity import Severity
from netesto.units import counted

Kind: TypeAlias = Literal["harness", "iperf-lab"]
Pool: TypeAlias = Literal["ok", "all"]
SIDES: tuple[Side, ...] = ("sender", "receiver")

_GIGA = 1e9
# The units of our own rates: the first one that the mean reaches is used.
_UNITS = (("Gbps", 1e9), ("Mbps", 1e6), ("kbps", 1e3))
# The columns besides factors that make our own groups of one name different tests.
_REQUESTED = ("ca", "test", "req", "reply", "instances", "parallel")
# The columns in which the runs of a matrix differ.
_MATRIX = frozenset({"mtu", "zerocopy", "parallel"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRun:
    """One run. `reason` is why it failed, "" if it did not; then it has numbers. Imported ones are
    shown as their tools show them."""

    test: str
    host: str
    file: str
    reason: str
    bps: float | None
    retransmits: float | None
    congestion_control: str = ""
    mss: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    cpu: tuple[CpuFile, ...] = ()
    is_imported: bool = False


@dataclass(frozen=True, slots=True)
class Data:
    """The content of a results folder: its runs, and the mpstat files that belong to none.
    `damaged` are experiments of ours whose runs are left out because their raw data are."""

    runs: Sequence[ResultRun]
    loose: Sequence[CpuFile]
    are_files: bool
    is_harness: bool
    findings: Sequence[FileRemark] = ()
    damaged: Sequence[int] = ()


OwnLoads: TypeAlias = Callable[[Path], Mapping[int, tuple[CpuFile, ...]]]
"""The load of CPUs during each group of an experiment, from its folder."""


def read(folder: Path, own_loads: OwnLoads) -> Data:
    """The runs of a results folder, imported ones or ours. ResultsError if it cannot be read."""
    imported_runs, orphans = imported.joined(imported.runs(folder), imported.read_loose(folder))
    known = {run.exp for run in imported_runs}
    rows = csvfile.by_experiment(csvfile.read(folder / store.TABLE))
    omitted = repeated.of(folder)
    factors = store.factors(folder)
    # Unfinished cells have them only in exp.csv.
    names = dict.fromkeys([*(name for cell in factors.values() for name in cell), *_REQUESTED])
    own = [
        (run, {name: ({**run.columns, **factors.get(exp, {})}).get(name, "") for name in names})
        for exp, exp_rows in rows.items()
        if exp not in known and exp not in omitted
        for run in _own(
            [tablerows.with_own_values(folder, row) for row in exp_rows],
            own_loads(folder / str(exp)),
        )
    ]
    return Data(
        runs=[*map(_imported, imported_runs), *_told_apart(own)],
        loose=orphans,
        are_files=bool(imported_runs) and all(run.form != "harness" for run in imported_runs),
        is_harness=any(run.form == "harness" for run in imported_runs),
        findings=imported.read_findings(folder),
        damaged=[
            exp
            for exp, exp_rows in rows.items()
            if exp not in known and any(row.get("status") == DAMAGED for row in exp_rows)
        ],
    )


def _imported(run: ImportedRun) -> ResultRun:
    return ResultRun(
        test=run.section,
        host=run.host,
        file=run.file.rpartition("/")[2],
        reason=run.reason,
        bps=run.sent_bps,
        retransmits=run.retransmits,
        congestion_control=run.congestion_control,
        mss="" if run.mss_bytes is None else str(run.mss_bytes),
        columns=run.columns,
        cpu=tuple(run.cpu.values()),
        is_imported=True,
    )


def _own(
    rows: Sequence[Mapping[str, str]], loads: Mapping[int, tuple[CpuFile, ...]]
) -> Iterator[ResultRun]:
    """The groups of an experiment of ours: the goodput of each."""
    for row in rows:
        if csvfile.is_aggregate(row) or row.get("status") == DAMAGED:
            continue
        rate = numbers.parse(row.get("rate", ""))
        # Of the sender of the data; the other end may report its own.
        sender = (
            "remoteRetrans" if FlowSpec(test=row.get("test", "")).is_reverse else "localRetrans"
        )
        counts = (numbers.parse(row.get(name, "")) for name in (sender, "retrans_total"))
        again = next((number for number in counts if number is not None), None)
        yield ResultRun(
            test=row.get("expName", ""),
            host=row.get("server", ""),
            file=row["exp"],
            reason=_reason(row, rate),
            bps=None if rate is None else rate * 1e6,
            retransmits=again,
            congestion_control=row.get("effCa", ""),
            mss=numbers.short(numbers.parse(row.get("effMss", "")), 0),
            columns=row,
            cpu=loads.get(int(row["exp"].partition(".")[2] or 0), ()),
        )


def _reason(row: Mapping[str, str], rate: float | None) -> str:
    """Why a group failed. If some of its flows did, the others are not what was requested; nor if
    a warning invalidates it."""
    if row.get(SEVERITY) == Severity.INVALIDATES:
        return f"invalid: {row.get('warning') or 'see its warnings'}"
    status = row.get("status", "")
    if status == PARTIAL:
        return f"{row.get('flowsFailed') or 'some'} of {row.get('instances')} flows failed"
    return "" if rate is not None else status if status != OK else "no rate"


def _told_apart(runs: Sequence[tuple[ResultRun, Mapping[str, str]]]) -> Iterator[ResultRun]:
    """Runs with their factors, except repetitions, and with what was requested of their groups, in
    the names of their tests, if these differ."""
    values: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for run, factors in runs:
        for name, value in factors.items():
            if value:
                values[run.test, name][value] = None
    for run, factors in runs:
        differing = [
            # exp.csv has numbers of requested values with a decimal.
            f"{name}={value.removesuffix('.0') if name in _REQUESTED else value}"
            for name, value in factors.items()
            if name != REPETITION and value and len(values[run.test, name]) > 1
        ]
        yield replace(run, test=" ".join([run.test, *differing]))


def fitting(data: Data) -> tuple[Kind, str]:
    """The suitable kind of table, and why."""
    if data.are_files:
        return "iperf-lab", "they were imported from files of single runs"
    if data.is_harness:
        return "harness", "they were imported from a tree of the testing harness"
    for name in sorted(_MATRIX):
        if len({run.columns.get(name, "") for run in data.runs} - {""}) > 1:
            return "iperf-lab", f"runs differ in {name}"
    return "harness", "it is the table of tests and hosts"


# ---- harness -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SummaryCell:
    """All runs of one test to one host, and the mpstat files that count."""

    test: str
    host: str
    runs: Sequence[ResultRun]
    cpu: Sequence[CpuFile]

    @cached_property
    def gbit_per_s(self) -> list[float]:
        """Of the runs that did not fail."""
        return [run.bps / _GIGA for run in self.good if run.bps is not None]

    @cached_property
    def good(self) -> list[ResultRun]:
        return [run for run in self.runs if not run.reason and run.bps is not None]

    @property
    def failed(self) -> int:
        return len(self.runs) - len(self.good)

    @cached_property
    def mean(self) -> float:
        # Exact, because means of text outputs often lie between two decimals, and rounding would
        # depend on the order of summation.
        return statistics.mean(self.gbit_per_s)

    @cached_property
    def deviation(self) -> float:
        """The sample standard deviation; 0 for one run."""
        return statistics.stdev(self.gbit_per_s) if len(self.gbit_per_s) > 1 else 0.0

    @property
    def is_own(self) -> bool:
        """Whether its throughputs are shown with 3 significant digits, not as the harness does."""
        return not any(run.is_imported for run in self.runs)

    def in_unit(self) -> tuple[Callable[[float], str], str]:
        """What writes its throughputs, given in Gbit/s, and their unit."""
        if not self.is_own:
            return "{:.1f}".format, "Gbps"
        bps = self.mean * _GIGA
        unit, size = next((each for each in _UNITS if bps >= each[1]), _UNITS[-1])
        decimals = _decimals(bps / size)
        return lambda value: f"{value * _GIGA / size:.{decimals}f}", unit

    @property
    def retransmits(self) -> int | None:
        """The mean without its decimals; None if no run reports them."""
        known = [run.retransmits for run in self.good if run.retransmits is not None]
        return int(statistics.fmean(known)) if known else None

    def cores(self, side: Side) -> dict[str, dict[str, float]]:
        """The fields of each core whose sum is not 0: means, with one decimal."""
        pooled: dict[str, list[Core]] = defaultdict(list)
        for file in self.cpu:
            if file.side == side:
                for core in file.cores:
                    pooled[core.cpu].append(core)
        return {
            cpu: _fields(cores) for cpu, cores in pooled.items() if sum(c.samples for c in cores)
        }


def _decimals(value: float) -> int:
    """How many show 3 significant digits."""
    return max(0, 2 - math.floor(math.log10(value))) if value > 0 else 1


def _fields(cores: Sequence[Core]) -> dict[str, float]:
    samples = sum(core.samples for core in cores)
    parts = [part for core in cores for part in (core.sums, core.rests) if part]
    # Exact, as the means of throughputs.
    sums = [sum(map(Fraction, values)) for values in zip(*parts, strict=True)]
    named = zip(CPU_STATES, sums, strict=True)
    return {name: float(f"{float(total / samples):.1f}") for name, total in named if total}


def total(fields: Mapping[str, float]) -> float:
    """The load of a core: the sum of its shown fields except idle."""
    return math.fsum(value for name, value in fields.items() if name != "idle")


def cells(data: Data, pool: Pool) -> list[SummaryCell]:
    """The cells, sorted by host, then test."""
    by_cell: dict[tuple[str, str], list[ResultRun]] = defaultdict(list)
    for run in data.runs:
        by_cell[run.host, run.test].append(run)
    loose: dict[tuple[str, str], list[CpuFile]] = defaultdict(list)
    for file in data.loose:
        loose[file.host, file.section].append(file)
    found = []
    for (host, test), runs in sorted(by_cell.items()):
        cpu = [file for run in runs if pool == "all" or not run.reason for file in run.cpu]
        if pool == "all":
            cpu += loose[host, test]
        found.append(SummaryCell(test, host, runs, sorted(cpu, key=lambda file: file.file)))
    return found


def harness_text(found: Sequence[SummaryCell]) -> str:
    """The two parts of the harness's own summary."""
    lines: list[str] = []
    for cell in found:
        lines += _part_one(cell)
    for host, cells in by_host(found).items():
        lines.append(f"IP Address: {host}")
        lines += map(_part_two, cells)
    return "".join(f"{line}\n" for line in lines)


def by_host(found: Sequence[SummaryCell]) -> dict[str, list[SummaryCell]]:
    """The cells with a result of each host, by their means, the highest first."""
    hosts: dict[str, list[SummaryCell]] = defaultdict(list)
    for cell in found:
        if cell.good:
            hosts[cell.host].append(cell)
    return {host: sorted(own, key=lambda cell: -cell.mean) for host, own in hosts.items()}


def _part_one(cell: SummaryCell) -> Iterator[str]:
    yield f"Test {cell.test} to Host: {cell.host}   (num tests: {len(cell.good)})"
    failed = f"   failed: {cell.failed} of {len(cell.runs)}" if cell.failed else ""
    if cell.good:
        rates = cell.gbit_per_s
        write, unit = cell.in_unit()
        yield (
            f"       Throughput:   Mean: {write(cell.mean)} {unit}"
            f"   Min: {write(min(rates))} {unit}  Max: {write(max(rates))} {unit}"
            f"   STDEV: {write(cell.deviation)}   Retr: {_or_unknown(cell.retransmits)}{failed}"
        )
    else:
        yield f"       Throughput:{failed}"
    for side in SIDES:
        name = f"{side.capitalize():>11}"
        for cpu, fields in cell.cores(side).items():
            shown = "   ".join(f"{key:<4}: {value:>4.1f}" for key, value in fields.items())
            yield f"{name} CPU {cpu}:   {shown}   Total:{total(fields):.1f}"


def _part_two(cell: SummaryCell) -> str:
    rates = cell.gbit_per_s
    shown, unit = cell.in_unit()
    return (
        f"    Test Name: {cell.test}, Ave Throughput: {shown(cell.mean)} {unit}"
        f" (std: {shown(cell.deviation)}, min: {shown(min(rates))}, max: {shown(max(rates))}),"
        f"  Retr: {_or_unknown(cell.retransmits)}"
    )


def _or_unknown(value: int | None) -> str:
    return numbers.UNKNOWN if value is None else str(value)


_NUMBERS = ("runs", "failed", "mean", "min", "max", "stdev", "retr")


def harness_rows(found: Sequence[SummaryCell]) -> list[dict[str, str]]:
    """A row for each cell, side and core; one without these where no CPU is known."""
    rows = []
    for cell in found:
        values = {
            name: "" if value is None else f"{value}" for name, value in _values(cell).items()
        }
        cores: list[tuple[str, str, Mapping[str, float]]] = [
            (side, cpu, fields) for side in SIDES for cpu, fields in cell.cores(side).items()
        ]
        for side, cpu, fields in cores or [("", "", {})]:
            shares = {name: f"{fields[name]:.1f}" if name in fields else "" for name in CPU_STATES}
            named = {"test": cell.test, "host": cell.host, "side": side, "cpu": cpu}
            rows.append(named | values | shares)
    return rows


def _values(cell: SummaryCell) -> dict[str, float | int | None]:
    """The numbers of a cell, by _NUMBERS."""
    rates = cell.gbit_per_s
    measured: list[float | None] = [None] * 4
    if rates:
        exact = (cell.mean, min(rates), max(rates), cell.deviation)
        form = ".3g" if cell.is_own else ".1f"
        measured = [float(f"{value:{form}}") for value in exact]
    return dict(
        zip(_NUMBERS, (len(cell.runs), cell.failed, *measured, cell.retransmits), strict=True)
    )


def harness_json(found: Sequence[SummaryCell]) -> str:
    """Host → test → the numbers of the cell, and side → core → field."""
    nested: dict[str, dict[str, object]] = {}
    for cell in found:
        cpu = {side: cores for side in SIDES if (cores := cell.cores(side))}
        nested.setdefault(cell.host, {})[cell.test] = _values(cell) | {"cpu": cpu}
    return json.dumps(nested, indent=2, ensure_ascii=False) + "\n"


# ---- iperf-lab -----------------------------------------------------------------------------------

LAB_COLUMNS = ("file", "mtu", "zerocopy", "P", "gbps", "retrans", "status", "ca", "mss")


def lab_rows(data: Data) -> list[dict[str, str]]:
    """A row for each run, by MTU, then file."""
    rows = []
    for run in data.runs:
        is_good = not run.reason and run.bps is not None
        again = run.retransmits if is_good else None
        values = (
            run.file,
            run.columns.get("mtu", ""),
            run.columns.get("zerocopy", ""),
            run.columns.get("P") or run.columns.get("parallel", ""),
            _gbps(run) if is_good else "",
            "" if again is None else f"{again:.0f}",
            OK if is_good else f"failed: {run.reason}",
            run.congestion_control,
            run.mss,
        )
        rows.append(dict(zip(LAB_COLUMNS, values, strict=True)))
    return sorted(rows, key=lambda row: (numbers.parse(row["mtu"]) or 0.0, row["file"].encode()))


def _gbps(run: ResultRun) -> str:
    value = (run.bps or 0.0) / _GIGA
    return f"{value:.{3 if run.is_imported else max(3, _decimals(value))}f}"


# ---- what is not in the tables -------------------------------------------------------------------


def failures(data: Data) -> Iterator[str]:
    """Each run that failed, in words."""
    for run in data.runs:
        if run.reason:
            yield f"{run.test} to {run.host}, {run.file}: {run.reason}"


def warned(data: Data) -> Iterator[str]:
    """Each run with warnings that matter, in words."""
    for run in data.runs:
        # Those that invalidate are failures.
        if (found := run.columns.get(SEVERITY, "")) == Severity.AFFECTS:
            count = int(numbers.parse(run.columns.get(WARNINGS, "")) or 1)
            more = f" ({counted(count, 'warning')})" if count > 1 else ""
            first = run.columns.get("warning", "")
            yield f"{run.test} to {run.host}, {run.file}: {found}: {first}{more}"


def excluded(data: Data) -> int:
    """How many mpstat files `--pool ok` leaves out."""
    failed: Iterable[ResultRun] = (run for run in data.runs if run.reason)
    return sum(len(run.cpu) for run in failed) + len(data.loose)
