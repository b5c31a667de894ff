"""The input of the interpretation: text, definitions, libraries, and columns."""

import os
import re
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from netesto.errors import UsageError
from netesto.files import paths
from netesto.language.plan import STANDARD_INPUT, Plan, SourceFile
from netesto.language.steps import ColumnKnowledge, LabRequest, Step
from netesto.results import csvfile, fields
from netesto.results.fields import Fields
from netesto.results.store import FIELDS, TABLE, Store
from netesto.run import labs
from netesto.text.nearest import hint

# Enough bits that two runs do not share a seed, few enough to type.
SEED_BITS = 31

_WORD = re.compile(r"(?<![A-Za-z0-9_])[A-Za-z_]\w*")


def standard_input() -> str:
    """The script on standard input. UsageError if it is closed, ScriptError if it is not UTF-8."""
    from netesto.language.interpreter import read_stream

    if sys.stdin is None:
        raise UsageError("standard input is closed: there is no script")
    return read_stream(sys.stdin.buffer, name=STANDARD_INPUT)


def read(name: str) -> SourceFile:
    """The script called `name`, "-" for standard input. UsageError if it cannot be read."""
    if name == "-":
        text = standard_input()
        if not text.strip():
            raise UsageError(
                "standard input is empty: there is no script",
                remedy="Write: netesto run SCRIPT; see 'netesto --help'",
            )
        return SourceFile(STANDARD_INPUT, text)
    from netesto.language.interpreter import read_script

    must_be_text(name)
    try:
        return SourceFile(name, read_script(Path(name)))
    except OSError as error:
        raise unread(Path(name), error) from error


def unread(path: Path, error: OSError) -> UsageError:
    """The error of a script that cannot be read, with a similar one."""
    if path.is_dir():
        remedy = f"Name a script in it: {path}/NAME.nts"
    elif path.exists() or not path.parent.is_dir():
        remedy = "Scripts are named by their paths from the working folder."
    else:
        there = {file.name for file in path.parent.iterdir() if file.is_file()}
        otherwise = f"It is not in {path.parent.resolve()}; scripts are named by their paths."
        remedy = hint(path.name, there, otherwise=otherwise)
    return UsageError(f"{path}: {error.strerror or error}", remedy=remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """The settings of an interpretation. Without a seed, one is chosen; without the memory of a
    guest, it follows from the script."""

    libraries: Sequence[Path]
    definitions: Mapping[str, str]
    max_iterations: int
    seed: int | None = None
    memory_mb: int | None = None

    def plan(
        self,
        script: SourceFile,
        columns: Fields,
        *,
        counter: int = 0,
        lab: LabRequest | None = None,
        watch: Callable[[Step], None] | None = None,
    ) -> Plan:
        """The plan of a script (see language.draft); with `watch`, which gets every step, without
        its steps. ScriptError if it is wrong."""
        # The interpreter takes a moment to import, and a plan does not need it.
        from netesto.language import planner
        from netesto.language.draft import Draft

        draft = Draft(
            seed=secrets.randbits(SEED_BITS) if self.seed is None else self.seed,
            counter=counter,
            columns=column_knowledge(columns),
            lab=lab,
            lab_text=labs.text_of,
            memory_mb=lambda asked: self.memory_mb or labs.memory_mb(asked),
            watch=watch,
            keep=watch is None,
        )
        return planner.make(
            script,
            draft,
            library_path=self.libraries,
            definitions=self.definitions,
            max_iterations=self.max_iterations,
        )


def fields_for(asked: Path | None, script: Path | None, out: Path | None = None) -> Fields:
    """The columns of a run of `script` (None: standard input) into `out`, without those of the
    script itself: from the requested file, else from a fields.txt beside the script, else from one
    in the working folder, else those with which exp.csv was begun there (by --fields, or by a
    version with other columns), else ours. UsageError if the file is wrong."""
    if asked is not None:
        return fields.load(asked)
    folders = [Path()] if script is None else [script.parent, Path()]
    for path in (folder / FIELDS for folder in folders):
        if path.is_file():
            return fields.load(path)
    ours = fields.load(paths.fields_file())
    if out is None or csvfile.read_header(out / TABLE) is None or not (out / FIELDS).is_file():
        return ours
    own = fields.load(out / FIELDS)
    return ours if own.columns[: len(ours.columns)] == ours.columns else own


def fields_of(results: Store, asked: Path | None) -> Fields:
    """The columns for rebuilding a results folder: those of the requested file, else its own."""
    if asked is not None:
        return fields.load(asked)
    return results.fields() or fields.load(paths.fields_file())


def claimable(columns: Fields) -> Fields:
    """The columns that ASSERT may use: these, and our other measured ones."""
    return columns.with_added(fields.load(paths.fields_file()).columns)


def column_knowledge(columns: Fields) -> ColumnKnowledge:
    """The information about a run's columns for the language."""
    return ColumnKnowledge(columns, claimable(columns).kinds())


def are_ours(columns: Fields) -> bool:
    """Whether columns come from netesto's own fields.txt."""
    return Path(columns.source).samefile(paths.fields_file())


def parse_definitions(texts: Sequence[str]) -> dict[str, str]:
    """`-D name=value` as a mapping. UsageError where there is no `=`."""
    definitions = {}
    for text in texts:
        must_be_text(text)
        name, equals, value = text.partition("=")
        if not equals or not (name.isidentifier() and name.isascii()):
            raise UsageError(f"-D {text}: not NAME=VALUE", remedy="Write: -D dur=60")
        definitions[name] = value
    return definitions


def repeated_definitions(texts: Sequence[str]) -> list[str]:
    """A warning for each name that `-D` is given twice."""
    by_name: dict[str, list[str]] = {}
    for text in texts:
        by_name.setdefault(text.partition("=")[0], []).append(text)
    return [
        f"-D {name} is given {len(given)} times; {given[-1]} counts"
        for name, given in by_name.items()
        if len(given) > 1
    ]


def unused_definitions(definitions: Mapping[str, str], sources: Iterable[str]) -> list[str]:
    """A warning for each name that `-D` sets and that none of these scripts contains outside of
    comments."""
    lines = (line.partition("#")[0] for source in sources for line in source.splitlines())
    used = {word for line in lines for word in _WORD.findall(line)}
    return [
        f"-D {name}={value}: the script has no variable {name}. {hint(name, used)}".rstrip()
        for name, value in definitions.items()
        if name not in used
    ]


def must_be_text(word: str) -> None:
    """UsageError if a word of the command line is not text: the results could not record it."""
    try:
        word.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(
            f"{word}: not text in the encoding of this shell",
            remedy="Names and values are UTF-8; in another locale set PYTHONUTF8=1.",
        ) from None


def library_path(folders: Sequence[Path]) -> list[Path]:
    """The folders that SOURCE searches after the script's folder and the working directory.
    UsageError if a requested folder does not exist."""
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(
                f"--lib {folder}: no such folder", remedy="It names a folder of libraries."
            )
    named = [Path(part) for part in os.environ.get("NETESTO_LIB", "").split(os.pathsep) if part]
    return [*folders, *named, paths.library_folder()]
