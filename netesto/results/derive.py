"""All files that are derived from an experiment's evidence: the same bytes each time."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from netesto.model import GroupRequest
from netesto.results import (
    aggregate,
    keyvalue,
    links,
    packetfile,
    series,
    severity,
    store,
    tablerows,
)
from netesto.results.evidence import ExperimentEvidence
from netesto.results.fields import Fields
from netesto.results.formulas import MeasuredGroup, Values
from netesto.results.manifest import Manifest

# Incremented when a column is computed differently from the same data.
FORMULAS = "9"
_KEY = "formulas"


def derive(
    folder: Path,
    evidence: ExperimentEvidence,
    manifest: Manifest,
    fields: Fields,
    known: Fields | None = None,
    *,
    with_series: bool = True,
) -> list[Mapping[str, str]]:
    """Write the derived files of the experiment into `folder`; its rows for exp.csv, N.0 first.

    The files: all.exp.out, one h1-h2-G.exp.out for each group and, unless no page is to be drawn,
    series.json, and packets.json if there are captures; of a lab those of results.links, too.
    `known` are the keys of all.exp.out (None: the columns of exp.csv). ResultsError if they cannot
    be written.
    """
    groups = _groups(evidence, manifest)
    found = [aggregate.values(each, manifest.columns) for each in groups]
    for group, values in zip(groups, found, strict=True):
        keyvalue.write(folder / group_file(group.request), values)
    rows = [
        _aggregate(fields, found, groups, manifest),
        *(
            aggregate.group_row(fields, values, [group], columns=manifest.columns)
            for group, values in zip(groups, found, strict=True)
        ),
    ]
    row = rows[0] if known is None else _aggregate(known, found, groups, manifest)
    marks = tablerows.checksum_of_groups(rows[1:]) | {_KEY: FORMULAS}
    keyvalue.write(folder / store.DERIVED, row | marks)
    links.write(folder, evidence.links)
    if with_series:
        series.write(series.build(evidence), folder / "series.json")
        packetfile.write(folder, evidence.captures, evidence.started_s)
    return list[Mapping[str, str]](rows)


def formulas(folder: Path) -> set[str]:
    """Those by which the experiments of a results folder were computed; "" if they do not say it,
    and none for experiments without derived files."""
    each = (tablerows.derived(folder / str(exp)) for exp in store.experiments(folder))
    return {known.get(_KEY, "") for known in each if known}


def aggregate_row(
    evidence: ExperimentEvidence, manifest: Manifest, fields: Fields
) -> Mapping[str, str]:
    """Row N.0 with these columns."""
    groups = _groups(evidence, manifest)
    found = [aggregate.values(each, manifest.columns) for each in groups]
    return _aggregate(fields, found, groups, manifest)


def _groups(evidence: ExperimentEvidence, manifest: Manifest) -> list[MeasuredGroup]:
    return [
        MeasuredGroup(
            each, manifest.description, severity.of_group(manifest.warnings, each.request.group)
        )
        for each in evidence.groups
    ]


def _aggregate(
    fields: Fields, found: Sequence[Values], groups: Sequence[MeasuredGroup], manifest: Manifest
) -> dict[str, str]:
    # The columns that the script sets, also of an experiment without a group.
    names = {"expName": manifest.exp_name, "desc": manifest.description}
    columns = {key: text for key, text in names.items() if text} | dict(manifest.columns)
    return aggregate.row(
        fields, found, groups, exp=manifest.exp, columns=columns, least_status=manifest.status
    )


def group_file(request: GroupRequest) -> str:
    """`client1-server1-2.exp.out`"""
    return f"{request.client}-{request.server}-{request.group}.exp.out"
