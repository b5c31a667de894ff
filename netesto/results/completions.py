"""Durations of transfers and transactions: the table of `netesto summary --as completions`. Pure.

Quantiles are by linear interpolation at (n - 1) p (Hyndman and Fan's type 7, numpy's default), the
standard deviation has n - 1 in its denominator. Incomplete transfers are not included.
"""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from netesto.errors import OutputError
from netesto.results import csvfile, integrity, numbers, systemtime
from netesto.results.manifest import Manifest

Times: TypeAlias = NDArray[np.float64]
"""Microseconds."""

QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999)

# The maximum length of the first line of a file of times, and of a number in it.
_HEADER_BYTES_MAX, _NUMBER_BYTES_MAX = 100, 9


def quantile_name(share: float) -> str:
    """0.9999 → "99.99%"."""
    return f"{round(share * 100, 6):.15g}%"


_SHARES = {quantile_name(share): share for share in QUANTILES}
_ROWS = ("min", "mean", *_SHARES, "max", "std")


def _figures(times: Times) -> list[float]:
    """The values of _ROWS."""
    deviation = np.std(times, ddof=1) if len(times) > 1 else 0.0
    return [times.min(), times.mean(), *np.quantile(times, QUANTILES), times.max(), deviation]


def marked(text: str, count: int, share: float) -> str:
    """The text of a quantile, with a leading `~` if it rests on few values."""
    return f"~{text}" if numbers.is_few(count, share) else text


def table(
    cases: Mapping[str, Times], failed: Mapping[str, int] | None = None, *, marks: bool = False
) -> list[tuple[str, ...]]:
    """A row for each of _ROWS and their count, its name first, with a text for each case: µs with 3
    decimals, "" for a case without times. With `marks`, quantiles that rest on few values have a
    `~`. If some have `failed`, a last row says how many."""

    def cells(times: Times) -> list[str]:
        if not len(times):
            return [""] * len(_ROWS)
        texts = [f"{value:.3f}" for value in _figures(times)]
        return [
            marked(text, len(times), _SHARES[name]) if marks and name in _SHARES else text
            for name, text in zip(_ROWS, texts, strict=True)
        ]

    found = list(zip(_ROWS, *map(cells, cases.values()), strict=True))
    found.append(("count", *(str(len(times)) for times in cases.values())))
    if failed:
        found.append(("failed", *(str(failed.get(case, 0)) for case in cases)))
    return found


def to_csv(cases: Mapping[str, Times]) -> str:
    """The table as CSV: `row,CASE…`."""
    return csvfile.text([("row", *cases)], table(cases))


def parts_to_csv(parts: Mapping[str, Mapping[str, Times]]) -> str:
    """A table for each part as CSV: `part,row,CASE…`."""
    cases = next(iter(parts.values()))
    rows = [(part, *row) for part, times in parts.items() for row in table(times)]
    return csvfile.text([("part", "row", *cases)], rows)


# ---- files (docs/data-formats.md) ----------------------------------------------------------------


def check(folder: Path, known: Manifest, path: str) -> None:
    """OutputError if the times in `completions.G.I.csv` of an experiment are wrong, or may be: the
    kernel takes the ends of transfers from the client's system time, which somebody may have set.
    """
    name = PurePosixPath(path)
    clock = name.with_name(systemtime.NAME)
    if not name.name.startswith("completions.") or str(clock) not in known.files:
        return
    if not integrity.is_unchanged(folder, known, str(clock)):
        raise OutputError(f"{folder / path}: not used: {clock.name} is damaged")
    if systemtime.read(folder / clock) is None:
        raise OutputError(f"{folder / path}: not used: the client's system time was set meanwhile")


def read(path: Path) -> Times:
    """The times in `completions.G.I.csv` or `times.G.I`, of what was completed. OSError;
    OutputError if it is neither."""
    return read_all(path)[0]


def read_all(path: Path) -> tuple[Times, int]:
    """`read`, and the number of incomplete ones."""
    content = path.read_bytes()
    read_as = _of_transactions if content.startswith(b"netesto times ") else _of_transfers
    try:
        return read_as(content)
    except (ValueError, KeyError, UnicodeDecodeError, csv.Error, IndexError) as error:
        raise OutputError(f"{path}: no times: {error}") from error


@dataclass(frozen=True, slots=True)
class CompletedTransfer:
    """A transfer that was completed. `port` is the client's, 0 if an older netesto did not keep
    it."""

    start_s: float
    us: float
    size: int
    retransmits: int
    port: int


def read_transfers(path: Path) -> tuple[list[CompletedTransfer], int]:
    """The transfers in `completions.G.I.csv`, and the number of incomplete ones. OSError;
    OutputError if it is something else."""
    try:
        rows = list(csv.DictReader(io.StringIO(path.read_bytes().decode())))
        found = [
            CompletedTransfer(
                start_s=float(row["start_s"]),
                us=float(row["us"]),
                size=int(row["bytes"]),
                retransmits=int(row["retransmits"]),
                port=int(row.get("port") or 0),
            )
            for row in rows
            if row["status"] == "ok"
        ]
        if not np.isfinite([(each.start_s, each.us) for each in found]).all():
            raise ValueError("a time is not a number")
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise OutputError(f"{path}: no transfers: {error}") from error
    return found, len(rows) - len(found)


def _of_transfers(content: bytes) -> tuple[Times, int]:
    rows = csv.DictReader(io.StringIO(content.decode()))
    found_us = [float(row["us"]) if row["status"] == "ok" else None for row in rows]
    times = np.array([us for us in found_us if us is not None], np.float64)
    if not np.isfinite(times).all():
        raise ValueError("a time is not a number")
    return times, found_us.count(None)


def _of_transactions(content: bytes) -> tuple[Times, int]:
    header, _, numbers = content.partition(b"\n")
    if len(header) > _HEADER_BYTES_MAX or header.split()[2] != b"1":
        raise ValueError(f"{header[:_HEADER_BYTES_MAX]!r}: unknown version")
    data = np.frombuffer(numbers, np.uint8)
    lasts = np.flatnonzero(data < 128)
    if not len(lasts):
        return np.empty(0), 0
    firsts = np.concatenate(([0], lasts[:-1] + 1))
    sizes = lasts - firsts + 1
    if sizes.max() > _NUMBER_BYTES_MAX:
        raise ValueError("a number is too long")
    data = data[: lasts[-1] + 1]
    places = np.arange(len(data)) - np.repeat(firsts, sizes)
    groups = (data & 127).astype(np.uint64) << (7 * places).astype(np.uint64)
    return np.add.reduceat(groups, firsts)[1::2].astype(np.float64) / 1000.0, 0
