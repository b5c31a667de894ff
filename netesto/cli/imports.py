"""Measurements of other tools, for the command line: `netesto import` and `netesto summary`."""

import argparse
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from netesto.cli import folders, printing
from netesto.controller import hostlist, watched
from netesto.errors import UsageError
from netesto.imports import folder as importing
from netesto.imports import ini
from netesto.imports import jobs as job_files
from netesto.lab import coursefile
from netesto.lab import topology as topologies
from netesto.language import check as checking
from netesto.report import index, summarypage
from netesto.report.expscript import tables
from netesto.results import affected, cases, completions, derive, steady, stress, tracetable
from netesto.results import summary as summaries
from netesto.results.store import Store
from netesto.run import settings, status

_T = TypeVar("_T")

_TIMED = "TCP_FLOWS, TCP_MESSAGES and GBN_MESSAGES measure them, and requests at a rate."
_SHOWN_FAILURES = 20
_SHOWN_IGNORED = 5


def results(options: argparse.Namespace) -> int:
    """Import results; FAILED if runs of them had failed."""
    request = importing.ImportRequest(
        paths=options.paths, pattern=options.name, is_copy=options.copy
    )
    found = importing.find(request, out=options.out)
    with Store(options.out) as store:
        wanted = settings.fields_of(store, None).with_names(importing.columns_of(found))
        columns = store.take_fields(wanted)
        done = importing.bring(
            store,
            found,
            columns,
            settings.claimable(columns),
            request,
            argv=("netesto", *options.words),
        )
        index.write(store.folder)
    _tell(done, options)
    return status.FAILED if done.failed else status.OK


def _tell(done: importing.Imported, options: argparse.Namespace) -> None:
    numbers = done.experiments
    span = f" ({numbers[0]} to {numbers[-1]})" if len(numbers) > 1 else ""
    printing.out(f"imported {len(numbers)} runs{span}; {done.known} had been imported before")
    if done.failed:
        printing.err(f"{done.failed} of them failed: their rows have the reason and no numbers")
    for kind, count in sorted(done.findings.items()):
        printing.err(f"finding: {kind} {count}")
    if done.ignored:
        named = ", ".join(done.ignored[:_SHOWN_IGNORED])
        more = ", …" if len(done.ignored) > _SHOWN_IGNORED else ""
        printing.err(f"{len(done.ignored)} other files were ignored: {named}{more}")
    printing.out(f"results  {options.out}")


def jobs(options: argparse.Namespace) -> int:
    """Write a job file as a script."""
    sections = ini.read(options.file, printing.warn)
    listed = [] if options.hostlist is None else hostlist.read(options.hostlist)
    hosts = [job_files.JobHost(host.name, host.profile, host.facts) for host in listed]
    text = job_files.script(str(options.file), sections, hosts, warn=printing.warn)
    _tell_errors(text, Path("the script") if options.out is None else options.out)
    printing.deliver(text, options.out)
    return status.OK


def _tell_errors(script: str, name: Path) -> None:
    """Print the errors of a script as warnings: the user is going to edit it."""
    for found in checking.check([name], library_path=(), definitions={}, read=lambda _: script):
        if found.severity == "error":
            printing.err(replace(found, severity="warning"))


def topology(options: argparse.Namespace) -> int:
    """Write a topology of the course as a topology file."""
    found = coursefile.read(options.file, warn=printing.warn)
    text = "".join(coursefile.toml(found, options.file.name))
    # What a lab would refuse is refused here.
    topologies.load(options.file, text=text)
    printing.deliver(text, options.out)
    return status.OK


def summary(options: argparse.Namespace) -> int:
    """The table of a results folder, as text or as data."""
    folders.must_be_results(options.folder)
    if options.skip is not None and options.kind != "steady":
        raise UsageError("--skip is an option of --as steady")
    if options.by is not None and options.kind != "completions":
        raise UsageError("--by is an option of --as completions")
    if options.kind in _CASES:
        printing.deliver(_CASES[options.kind](options), options.out)
        return status.OK
    folders.warn_of_altered(options.folder)
    if derive.formulas(options.folder) - {derive.FORMULAS}:
        printing.warn(
            "another version of netesto computed experiments here, some values possibly otherwise: "
            f"`netesto report {options.folder}` rebuilds them"
        )
    data = summaries.read(options.folder, watched.of)
    for exp in data.damaged:
        printing.warn(
            f"experiment {exp} is left out: its raw data are damaged, see 'netesto report'"
        )
    kind = options.kind
    if kind is None:
        kind, reason = summaries.fitting(data)
        printing.err(f"summary: as {kind}, because {reason}")
    if options.names and kind == "iperf-lab":
        raise UsageError("--names: the rows of iperf-lab are files, not cases")
    data = _with_names(data, options)
    text = _FORMS[kind](data, options)
    failures = list(summaries.failures(data))
    for line in failures[:_SHOWN_FAILURES]:
        printing.err(f"failed: {line}")
    if len(failures) > _SHOWN_FAILURES:
        printing.err(f"failed: {len(failures) - _SHOWN_FAILURES} more")
    warned = list(summaries.warned(data))
    for line in warned[:_SHOWN_FAILURES]:
        printing.err(f"warning: {line}")
    if len(warned) > _SHOWN_FAILURES:
        printing.err(f"warning: {len(warned) - _SHOWN_FAILURES} more runs")
    if kind == "harness" and options.pool == "ok" and (left := summaries.excluded(data)):
        printing.err(f"{left} mpstat files of failed runs, or of no run, are excluded (--pool ok)")
    printing.deliver(text, options.out)
    return status.OK


def _with_names(data: summaries.Data, options: argparse.Namespace) -> summaries.Data:
    """The runs with the names of `--names` for their tests."""
    names: Mapping[str, str] = options.names or {}
    _renamed({run.test: None for run in data.runs}, options)
    runs = [replace(run, test=names.get(run.test, run.test)) for run in data.runs]
    return replace(data, runs=runs)


def _completions(options: argparse.Namespace) -> str:
    if options.by:
        return _by_affected(options)
    times, count, faults = cases.times(options.folder)
    _tell_incomplete(times, count, faults)
    found, failed = _cases(times, options, "completion times", _TIMED), _renamed(count, options)
    if options.format == "csv":
        return completions.to_csv(found)
    table = completions.table(found, failed, marks=options.format == "text")
    rows = [dict(zip(("µs", *found), row, strict=True)) for row in table]
    return _formatted(rows, options, functools.partial(summarypage.completions, {"all": found}))


def _by_affected(options: argparse.Namespace) -> str:
    """A table for each part of the transfers, and how many there are."""
    transfers, count, faults = cases.by_affected(options.folder)
    _tell_incomplete({case: each.times for case, each in transfers.items()}, count, faults)
    found = _cases(transfers, options, "completion times", _TIMED)
    parts = {
        part: {case: each.part(part) for case, each in found.items()} for part in affected.PARTS
    }
    if options.format == "csv":
        return completions.parts_to_csv(parts)
    if options.format != "text":
        rows = [
            dict(zip(("part", "µs", *found), (part, *row), strict=True))
            for part, times in parts.items()
            for row in (*completions.table(times), *(affected.counts(found) * (part == "all")))
        ]
        return _formatted(rows, options, functools.partial(summarypage.completions, parts))
    tables_of = {f"{part} (µs)": completions.table(parts[part], marks=True) for part in parts}
    tables_of["transfers"] = affected.counts(found)
    return "\n".join(
        _formatted([dict(zip((title, *found), row, strict=True)) for row in table], options)
        for title, table in tables_of.items()
    )


def _tell_incomplete(
    found: Mapping[str, completions.Times], failed: Mapping[str, int], faults: Sequence[str]
) -> None:
    _warn(faults)
    for case, count in failed.items():
        done = len(found.get(case, ()))
        printing.err(f"failed: {case}: {count} of {count + done} did not complete")


def _warn(faults: Sequence[str]) -> None:
    for fault in faults:
        printing.warn(fault)


def _cases(
    found: Mapping[str, _T], options: argparse.Namespace, what: str, remedy: str
) -> dict[str, _T]:
    """The cases with the names of `--names`. UsageError if there are none."""
    if not found:
        raise UsageError(f"{options.folder}: no {what} here", remedy=remedy)
    return _renamed(found, options)


def _renamed(found: Mapping[str, _T], options: argparse.Namespace) -> dict[str, _T]:
    """Cases with the names of `--names`, in its order."""
    return cases.renamed(found, options.names or {})


def _traces(options: argparse.Namespace) -> str:
    played, faults = cases.traces(options.folder)
    _warn(faults)
    found = _cases(played, options, "trace", "DO_TRACE plays one.")
    return (
        tracetable.text(found)
        if options.format == "text"
        else _formatted([*tracetable.rows(found)], options)
    )


def _steady(options: argparse.Namespace) -> str:
    skip = steady.SKIP if options.skip is None else options.skip
    found, faults = cases.steady_rates(options.folder, folders.evidence_of, skip)
    _warn(faults[:_SHOWN_FAILURES])
    if len(faults) > _SHOWN_FAILURES:
        printing.warn(f"{len(faults) - _SHOWN_FAILURES} more")
    if not any(found.values()):
        raise UsageError(
            f"{options.folder}: no flow has an interval of 1 s between its first {skip} and its"
            f" last {skip}",
            remedy="Run longer flows, or leave out fewer intervals with --skip.",
        )
    named = _renamed(found, options)
    if options.format == "csv":
        return steady.to_csv(named)
    return _formatted(steady.rows(named), options)


def _formatted(
    rows: Sequence[Mapping[str, str]],
    options: argparse.Namespace,
    page: Callable[[Sequence[Mapping[str, str]], str], str] = summarypage.rows,
) -> str:
    """Rows in the requested format; `page` makes the page, from rows and a title."""
    match options.format:
        case "json":
            return json.dumps(list(rows), indent=2, ensure_ascii=False) + "\n"
        case "html":
            return page(rows, f"Summary of {options.folder.resolve().name}")
        case _:
            write = tables.as_csv if options.format == "csv" else tables.as_text
            return write(summarypage.table(rows, texts=rows[0] if rows else ()))


def _harness(data: summaries.Data, options: argparse.Namespace) -> str:
    cells = summaries.cells(data, options.pool)
    match options.format:
        case "json":
            return summaries.harness_json(cells)
        case "text":
            return summaries.harness_text(cells)
        case _:
            rows = summaries.harness_rows(cells)
            return _formatted(rows, options, functools.partial(summarypage.harness, data, cells))


def _lab(data: summaries.Data, options: argparse.Namespace) -> str:
    page = functools.partial(summarypage.lab, data)
    return _formatted(summaries.lab_rows(data), options, page)


_FORMS: Mapping[str, Callable[[summaries.Data, argparse.Namespace], str]] = {
    "harness": _harness,
    "iperf-lab": _lab,
}


def _stress(options: argparse.Namespace) -> str:
    tests, faults = cases.stress_tests(options.folder)
    _warn(faults)
    found = _cases(tests, options, "stress test of a link", "STRESS_LINK makes one.")
    match options.format:
        case "text":
            return stress.to_text(found)
        case "json":
            return stress.to_json(found)
        case "csv":
            return stress.to_csv(found)
        case _:
            return _formatted([stress.texts(row) for row in stress.rows(found)], options)


_CASES: Mapping[str, Callable[[argparse.Namespace], str]] = {
    "stress": _stress,
    "completions": _completions,
    "steady": _steady,
    "trace": _traces,
}
