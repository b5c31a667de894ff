"""Whether the raw files of an experiment are unchanged: the manifest holds their SHA-256."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from netesto.results.evidence import DAMAGED
from netesto.results.manifest import Manifest

# Where hosts' files are, in an experiment's folder; see `store.Store.place`.
_FOLDERS = ("raw", "0", "1")


@dataclass(frozen=True, slots=True)
class Damage:
    """A file, by its path in the experiment's folder, and its fault."""

    path: str
    fault: str

    def __str__(self) -> str:
        return f"{self.path}: {self.fault}"


def check(folder: Path, manifest: Manifest) -> tuple[Damage, ...]:
    """Files that are damaged, missing, or were not there when the experiment ended."""
    found = [
        Damage(path, fault)
        for path, sha256 in sorted(manifest.files.items())
        if (fault := _fault(folder / path, sha256))
    ]
    new = (path for path in _files_of(folder) if path not in manifest.files)
    return (*found, *(Damage(path, "was not there when the experiment ended") for path in new))


def _files_of(folder: Path) -> Iterator[str]:
    return (
        path.relative_to(folder).as_posix()
        for part in _FOLDERS
        for path in sorted((folder / part).rglob("*"))
        if not path.is_dir()
    )


def hashes(folder: Path) -> dict[str, str]:
    """The hashes of the raw files that are in an experiment's folder now, by their paths there."""
    return {path: sha256_of(folder / path) for path in _files_of(folder)}


def is_unchanged(folder: Path, manifest: Manifest, path: str) -> bool:
    """Whether a file of the manifest exists and is unchanged since the experiment ended."""
    return path in manifest.files and not _fault(folder / path, manifest.files[path])


def marked(manifest: Manifest, damage: Sequence[Damage], doubts: Iterable[str] = ()) -> Manifest:
    """The manifest for the experiment's page; the file is not changed.

    `doubts`: warnings about the data, some of which an older netesto did not give.
    """
    new = tuple(text for text in doubts if text not in manifest.warnings)
    found = replace(manifest, warnings=(*manifest.warnings, *new))
    if not damage:
        return found
    reasons = tuple(f"{each}; nothing is computed from it" for each in damage)
    return replace(found, status=DAMAGED, reasons=(*reasons, *found.reasons))


def sha256_of(path: Path) -> str:
    """The hash of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fault(path: Path, sha256: str) -> str:
    try:
        # A device or a pipe has no end.
        if path.exists() and not path.is_file():
            return "is not a file"
        is_same = sha256_of(path) == sha256
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return "" if is_same else "is damaged (its SHA-256 differs)"
