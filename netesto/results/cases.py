"""Experiments by what distinguishes them, and how long the transfers of each case took."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

import numpy as np

from netesto.errors import OutputError, ResultsError
from netesto.results import completions, manifest, store
from netesto.results.completions import Times
from netesto.results.manifest import Manifest

_REPETITION = "rep"
_FILES = ("completions.", "times.")


def name(known: Manifest, factors: Mapping[str, str]) -> str:
    """What an experiment is a case of: the factors of its SWEEP but for repetitions, of a single
    one its value; without any its description, else its name."""
    # The order of the script is that of the columns.
    keys = sorted(factors, key=[*known.columns, *factors].index)
    own = {key: factors[key] for key in keys if key != _REPETITION}
    if len(own) == 1:
        return next(iter(own.values()))
    if own:
        return " ".join(f"{key}={value}" for key, value in own.items())
    return known.description or known.exp_name


def times(folder: Path) -> tuple[dict[str, Times], list[str]]:
    """The times of all transfers and transactions of each case, in the order of the experiments;
    and what could not be read, in words."""
    found: dict[str, list[Times]] = defaultdict(list)
    faults: list[str] = []
    factors = store.factors(folder)
    for exp in store.experiments(folder):
        try:
            known = manifest.read(folder / str(exp) / manifest.NAME)
        except ResultsError as error:
            faults.append(error.message)
            continue
        for path in _files(known):
            try:
                part = _read(folder / str(exp) / path, known.files[path])
            except (OSError, OutputError) as error:
                faults.append(str(error))
            else:
                found[name(known, factors.get(exp, {}))].append(part)
    return {case: np.concatenate(parts) for case, parts in found.items()}, faults


def _files(known: Manifest) -> Iterator[str]:
    yield from (path for path in sorted(known.files) if PurePosixPath(path).name.startswith(_FILES))


def _read(path: Path, sha256: str) -> Times:
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
            raise OutputError(f"{path}: is damaged (its SHA-256 differs)")
    return completions.read(path)
