"""The key:value files of an experiment: one line per key, the value extends to the end of the
line."""

from collections.abc import Mapping
from pathlib import Path

from netesto.errors import ResultsError
from netesto.results import durable, packed


def write(path: Path, values: Mapping[str, str]) -> None:
    """Write `values` in their order. White space in a value becomes single spaces."""
    lines = [f"{key}:{' '.join(value.split())}\n" for key, value in values.items()]
    durable.replace(path, "".join(lines), lasting=False)


def read(path: Path) -> dict[str, str]:
    """The values that `write` wrote. ResultsError names a line that is not key:value."""
    try:
        lines = packed.text(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ResultsError(f"{path}: cannot be read: {error}") from error
    values: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        key, colon, value = line.partition(":")
        if not colon:
            raise ResultsError(f"{path}:{number}: {line!r} is not key:value")
        values[key] = value
    return values
