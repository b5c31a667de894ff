"""An experiment as one file, N.zip, in place of its folder: a study of ten thousand cells has some
70 files in each."""

import contextlib
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

from netesto.errors import ResultsError
from netesto.files import atomic
from netesto.results import durable
from netesto.system import owned

SUFFIX = ".zip"


def path_of(folder: Path) -> Path:
    """The file that is in place of an experiment's folder, if it is packed."""
    return folder.with_name(f"{folder.name}{SUFFIX}")


def is_packed(folder: Path) -> bool:
    """Whether an experiment is one file."""
    return not folder.exists() and path_of(folder).is_file()


def pack(folder: Path, into: Path | None = None) -> Path:
    """Keep an experiment's folder as one file, beside it or in the place of the folder `into`, and
    remove the folder; the file. The same content gives the same bytes."""
    path = path_of(into or folder)
    with (
        durable.writing(path),
        atomic.replaced(path, lasting=True) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made,
    ):
        for each in sorted(folder.rglob("*")):
            name = each.relative_to(folder).as_posix()
            if each.is_dir():
                made.writestr(zipfile.ZipInfo(f"{name}/"), b"")
            else:
                made.writestr(zipfile.ZipInfo(name), each.read_bytes(), zipfile.ZIP_DEFLATED)
    shutil.rmtree(folder)
    return path


def unpack(folder: Path) -> None:
    """Have an experiment as a folder again."""
    with opened(folder) as inside, durable.writing(folder):
        if inside == folder:
            return
        fresh = folder.with_name(f".{folder.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.copytree(inside, fresh)
        fresh.rename(folder)
        path_of(folder).unlink()


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Path]:
    """The folder of an experiment; of a packed one a temporary folder with the same content.
    ResultsError if the file is damaged."""
    if not is_packed(folder):
        yield folder
        return
    with owned.temporary_folder() as temporary:
        inside = temporary / folder.name
        try:
            with zipfile.ZipFile(path_of(folder)) as file:
                file.extractall(inside)
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise ResultsError(f"{path_of(folder)}: cannot be read: {error}") from error
        yield inside


def text(path: Path) -> str:
    """The content of a file in an experiment's folder, packed or not. OSError, or ValueError if it
    is not text."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if not is_packed(path.parent):
            raise
    try:
        with zipfile.ZipFile(path_of(path.parent)) as file:
            return file.read(path.name).decode()
    except (KeyError, zipfile.BadZipFile) as error:
        raise OSError(f"{path_of(path.parent)}: {error}") from error
