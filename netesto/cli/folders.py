"""Results folders for the command line: `netesto report` and `netesto show`."""

import argparse
from collections.abc import Mapping
from pathlib import Path

from netesto.cli import printing, settings, status, tables
from netesto.controller import digest
from netesto.errors import UsageError
from netesto.report import index, page
from netesto.results import csvfile, derive, manifest, store
from netesto.results.store import Store


def report(options: argparse.Namespace) -> int:
    """Rebuild every derived file from the raw data."""
    _must_be_results(options.folder)
    with Store(options.folder) as results:
        there = results.experiments()
        manifests = {exp: manifest.read(results.whole(exp) / manifest.NAME) for exp in there}
        columns = settings.fields_of(results, options.fields).with_names(
            name for asked in manifests.values() for name in asked.columns
        )
        chosen = _chosen(options.experiments, there)
        rows: list[Mapping[str, str]] = []
        for exp, asked in manifests.items():
            folder = results.whole(exp)
            evidence = digest.evidence(folder, asked)
            rows += derive.derive(folder, evidence, asked, columns)
            if exp in chosen:
                page.write(folder)
                printing.out(f"rebuilt {folder}")
        results.write_fields(columns)
        results.rewrite(columns, rows)
        index.write(results.folder)
    return status.OK


def show(options: argparse.Namespace) -> int:
    """The table of a results folder, in the terminal."""
    _must_be_results(options.folder)
    rows = csvfile.read(options.folder / store.TABLE)
    if options.experiment is not None:
        number = str(options.experiment)
        rows = [row for row in rows if row["exp"].split(".", 1)[0] == number]
        _chosen([options.experiment], store.experiments(options.folder))
    tables.print_rows(rows)
    return status.OK


def _must_be_results(folder: Path) -> None:
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder")
    if not (folder / store.TABLE).is_file() and not store.experiments(folder):
        raise UsageError(f"{folder}: no results here", remedy="A results folder holds exp.csv.")


def _chosen(asked: list[int], there: list[int]) -> list[int]:
    """The experiments asked for; all if none was named. UsageError for one that is not there."""
    for exp in asked:
        if exp not in there:
            known = ", ".join(map(str, there)) or "none"
            raise UsageError(f"no experiment {exp}", remedy=f"There are: {known}.")
    return asked or there
