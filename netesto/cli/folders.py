"""Results folders for the command line: `netesto report` and `netesto show`."""

import argparse
import contextlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from netesto.cli import printing, tables
from netesto.controller import digest, record
from netesto.errors import ResultsError, UsageError
from netesto.imports import evidence as imports_evidence
from netesto.report import index, page
from netesto.results import (
    certainty,
    csvfile,
    derive,
    imported,
    integrity,
    manifest,
    packed,
    repeated,
    runs,
    store,
    tablerows,
)
from netesto.results.evidence import ExperimentEvidence
from netesto.results.fields import Fields
from netesto.results.manifest import Manifest
from netesto.results.store import Store
from netesto.run import settings, status


def report(options: argparse.Namespace) -> int:
    """Rebuild every derived file from the raw data; FAILED if raw data is damaged."""
    must_be_results(options.folder)
    with Store(options.folder) as results:
        existing = results.experiments()
        chosen = _chosen(options.experiments, existing)
        for exp in options.experiments:
            # Its page is wanted, which is a file of its folder.
            packed.unpack(results.whole(exp))
        old = csvfile.by_experiment(csvfile.salvage(results.folder / store.TABLE))
        # Rows without a folder cannot be rebuilt.
        kept = {exp: rows for exp, rows in old.items() if exp not in existing}
        if kept:
            numbers = ", ".join(map(str, sorted(kept)))
            printing.warn(f"experiments without a folder keep their rows: {numbers}")
        manifests = {exp: _manifest(results.whole(exp)) for exp in existing}
        columns = settings.fields_of(results, options.fields).with_names(
            [
                *(
                    name
                    for asked in manifests.values()
                    if isinstance(asked, Manifest)
                    for name in asked.columns
                ),
                *(name for rows in kept.values() for row in rows for name in row if row[name]),
            ]
        )
        before = columns
        with contextlib.suppress(UsageError):  # --fields repairs a damaged file
            before = results.fields() or columns
        same = {field.name for field in columns.columns if field in before.columns}
        rebuilt = {
            exp: _rebuilt(
                results.whole(exp), asked, columns, old.get(exp, []), same, draw=exp in chosen
            )
            for exp, asked in manifests.items()
            if exp in chosen or not _is_done(results.whole(exp), columns, old.get(exp, []))
        }
        # Imported experiments, possibly thousands, get pages only on request.
        kept |= {exp: old[exp] for exp in existing if exp not in rebuilt}
        rows = kept | {exp: own for exp, (own, _) in rebuilt.items()}
        results.write_fields(columns)
        results.rewrite(columns, [row for exp in sorted(rows) for row in rows[exp]])
        index.write(results.folder)
    return status.FAILED if any(is_damaged for _, is_damaged in rebuilt.values()) else status.OK


def _is_done(folder: Path, columns: Fields, old: Sequence[Mapping[str, str]]) -> bool:
    """Whether an experiment was imported, and exp.csv has its rows."""
    is_imported = (folder / imported.NAME).is_file()
    return is_imported and bool(old) and all(tuple(row) == columns.names for row in old)


def _manifest(folder: Path) -> Manifest | ResultsError:
    """An experiment's manifest, or the damage to it."""
    try:
        return manifest.read(folder / manifest.NAME)
    except ResultsError as error:
        return error


def _rebuilt(
    folder: Path,
    asked: Manifest | ResultsError,
    columns: Fields,
    old: Sequence[Mapping[str, str]],
    same: Collection[str],
    *,
    draw: bool,
) -> tuple[list[Mapping[str, str]], bool]:
    """`_rebuild`; a packed experiment gets no page, and stays packed."""
    if not packed.is_packed(folder):
        return _rebuild(folder, asked, columns, old, same, draw=draw)
    try:
        with packed.opened(folder) as inside:
            rebuilt = _rebuild(inside, asked, columns, old, same, draw=None)
            packed.pack(inside, folder)
            return rebuilt
    except ResultsError as error:
        printing.warn(error.message)
        return [tablerows.damaged_row(columns.names, int(folder.name))], True


def _rebuild(
    folder: Path,
    asked: Manifest | ResultsError,
    columns: Fields,
    old: Sequence[Mapping[str, str]],
    same: Collection[str],
    *,
    draw: bool | None,
) -> tuple[list[Mapping[str, str]], bool]:
    """Derive an experiment's files again from its undamaged data; also its page, with `draw` or if
    its rows differ from those in exp.csv, unless `draw` is None. The rows, and whether the data is
    damaged.

    Report damage, and changes in the columns `same`. If the manifest itself is damaged, nothing can
    be derived, and everything stays except the page.
    """
    try:
        if isinstance(asked, ResultsError):
            raise asked
        damage = integrity.check(folder, asked)
        damaged = [each.path for each in damage]
        evidence = evidence_of(folder, asked, damaged)
        if (run := imported.read(folder)) is not None:
            imports_evidence.update(folder, run, damaged=damaged)
    except ResultsError as error:
        printing.warn(error.message)
        if draw is not None:
            page.write_damaged(folder, error.message)
        row = tablerows.damaged_row(columns.names, int(folder.name))
        return [row], True
    for each in damage:
        printing.warn(f"{folder}/{each}")
    marked = integrity.marked(asked, damage, record.doubts(evidence))
    rows = derive.derive(folder, evidence, marked, columns, settings.claimable(columns))
    is_new = list(map(dict, old)) != list(map(dict, rows))
    if _were_altered(old, rows, same):
        printing.warn(
            f"experiment {asked.exp}: its rows in {store.TABLE} differed from its data; rebuilt"
        )
    if draw or (is_new and draw is not None):
        page.write(folder, marked)
        printing.out(f"rebuilt {folder}")
    return rows, bool(damage)


def evidence_of(folder: Path, asked: Manifest, damaged: Sequence[str]) -> ExperimentEvidence:
    """The evidence of an experiment, of our own or imported."""
    run = imported.read(folder)
    if run is None:
        return digest.evidence(folder, asked, damaged=damaged)
    return imports_evidence.of(folder, run, asked, damaged=damaged)


def _were_altered(
    old: Sequence[Mapping[str, str]], rows: Sequence[Mapping[str, str]], same: Collection[str]
) -> bool:
    """Whether the old rows of exp.csv differ from the new ones, in common columns with the same
    aggregation: other columns may be new or requested."""
    if not old:
        return False
    both = [name for name in rows[0] if name in old[0] and name in same]
    return [[row.get(name) for name in both] for row in old] != [
        [row[name] for name in both] for row in rows
    ]


def show(options: argparse.Namespace) -> int:
    """The table of a results folder, in the terminal."""
    must_be_results(options.folder)
    rows = csvfile.read(options.folder / store.TABLE)
    warn_of_altered(options.folder)
    omitted = set(map(str, repeated.of(options.folder)))
    rows = [row for row in rows if tables.number_of(row) not in omitted]
    if options.experiment is not None:
        # A table may be there without the folders of its experiments.
        existing = {*store.experiments(options.folder), *csvfile.by_experiment(rows)}
        _chosen([options.experiment], sorted(existing))
        number = str(options.experiment)
        rows = [row for row in rows if tables.number_of(row) == number]
    tables.print_rows(rows)
    if options.experiment is None:
        for sentence in certainty.sentences(runs.certainty(runs.records(options.folder))):
            printing.out(sentence)
    return status.OK


def warn_of_altered(folder: Path) -> None:
    """Warn of experiments whose rows in exp.csv differ from those derived from their data, and of
    those whose rows are omitted."""
    for text in [*tablerows.altered(folder), *repeated.warnings(folder)]:
        printing.warn(text)


def must_be_results(folder: Path) -> None:
    """UsageError, with the remedy, if a folder is not one of results."""
    if not folder.is_dir():
        raise UsageError(
            f"{folder}: {'not a folder' if folder.exists() else 'no such folder'}",
            remedy="A run's results are in results/SCRIPT, or in --out.",
        )
    if store.is_experiment(folder):
        whole = folder.resolve()
        raise UsageError(
            f"{folder}: this is the folder of an experiment",
            remedy=f"Name its results folder first: {whole.parent} {whole.name}",
        )
    if not (folder / store.TABLE).is_file() and not store.experiments(folder):
        inside = sorted(str(table.parent) for table in folder.glob(f"*/{store.TABLE}"))
        raise UsageError(
            f"{folder}: no results here",
            remedy=f"Name one of: {', '.join(inside[:8])}."
            if inside
            else "A results folder holds exp.csv.",
        )


def _chosen(asked: list[int], existing: list[int]) -> list[int]:
    """The requested experiments; all if none is named. UsageError for one that does not exist."""
    for exp in asked:
        if exp not in existing:
            known = ", ".join(map(str, existing)) or "none"
            raise UsageError(f"no experiment {exp}", remedy=f"Experiments: {known}.")
    return asked or existing
