"""Runs scripts: finds and parses files, and passes their steps to the draft of a plan.

The interpreter owns the run's random generator: RAND_WAIT draws from it, `SWEEP order=random`
shuffles by its seed. The same script, definitions and seed give the same steps.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from netesto.errors import Place, ScriptError
from netesto.files import texts
from netesto.language import ast
from netesto.language.commands import ALL_NAMES
from netesto.language.draft import Draft
from netesto.language.lines import Report, read, refuse
from netesto.language.machine import EndOfScript, Level, Machine
from netesto.language.parser import parse
from netesto.language.plan import (
    BEGINNING,
    MAKE_AGAIN,
    STANDARD_INPUT,
    Head,
    Plan,
    SourceFile,
)
from netesto.language.scope import MisuseError, check_name
from netesto.language.walk import Walk
from netesto.model import MAX_ITERATIONS
from netesto.text.nearest import hint, nearest

# No script is this long; /dev/zero is.
MAX_BYTES = 10_000_000

_COMMAND = re.compile(r"[A-Z_]+")


class NoScriptError(MisuseError):
    """SOURCE names a file that is not a script."""


class NoSourceError(MisuseError):
    """SOURCE names a missing file."""


class Interpreter:
    """One run. `library_path` is searched by SOURCE after the file's own folder and the working
    directory; `definitions` are globals set before the script; loops may run `max_iterations`
    times in all. The error of a statement is passed to `forgive`; if that returns, the next one
    runs. With `kept`, SOURCE reads these instead of files, by the file that contains it and its
    word. `attempts` are the parts of the script that are repeated."""

    def __init__(
        self,
        draft: Draft,
        *,
        library_path: Sequence[Path],
        definitions: Mapping[str, str],
        max_iterations: int = MAX_ITERATIONS,
        forgive: Report = refuse,
        kept: Mapping[tuple[str, str], SourceFile] | None = None,
        attempts: Mapping[str, int] | None = None,
    ) -> None:
        self._library_path = tuple(library_path)
        self._definitions = dict(definitions)
        self._max_iterations = max_iterations
        self._sources = kept
        self._machine = Machine(draft, max_iterations=max_iterations)
        self._machine.attempts = attempts or {}
        self._machine.remote.read_file = self._read_file
        self._walk = Walk(self._machine, self._source, forgive=forgive)
        self._files: dict[Path, SourceFile] = {}
        self._resolved: dict[tuple[str, str], str] = {}
        for name, value in definitions.items():
            self._machine.scope.set(check_name(name), value)

    def run_text(self, text: str, file: str = STANDARD_INPUT) -> None:
        """Run the text of a script; `file` names it in messages."""
        self._files[Path(file).resolve()] = SourceFile(file, text)
        try:
            self._walk.run_file(parse(text, file=file).body)
        except EndOfScript:
            self._machine.finish()
            self._machine.draft.round_counter()
        else:
            self._machine.finish()

    @property
    def macros(self) -> frozenset[str]:
        """The macros that were run."""
        return frozenset(self._machine.ran)

    def plan(self, *, like: Head | None = None) -> Plan:
        """The plan of what was interpreted so far (`like`: see Draft.plan)."""
        return self._machine.draft.plan(
            sources=tuple(self._files.values()),
            found=tuple((file, word, path) for (file, word), path in self._resolved.items()),
            definitions=self._definitions,
            max_iterations=self._max_iterations,
            like=like,
        )

    def _read_file(self, name: str, from_file: str) -> tuple[Path, str]:
        """The path and the text of a file that is no script: beside the script, or in the working
        directory. It is among the sources of the plan."""
        kept = self._sources.get((from_file, name)) if self._sources is not None else None
        path = Path(kept.path) if kept else beside(name, from_file=from_file)
        key = path.resolve()
        if key not in self._files:
            text = kept.text if kept else texts.read(path, most_mib=1024)
            self._files[key] = SourceFile(str(path), text, is_script=False)
        self._resolved[from_file, name] = self._files[key].path
        return path, self._files[key].text

    def _source(self, name: str, row: ast.LineLayout) -> None:
        from_file = row.line.file
        kept = self._sources.get((from_file, name)) if self._sources is not None else None
        if self._sources is None:
            path = find_source(name, from_file=from_file, library_path=self._library_path)
        elif kept is not None:
            path = Path(kept.path)
        else:
            raise MisuseError(
                f"SOURCE {name}: the plan does not have this file",
                near=(name,),
                remedy=MAKE_AGAIN,
            )
        key = path.resolve()
        known = self._files.get(key)
        self._resolved[from_file, name] = known.path if known else str(path)
        if known:
            return
        try:
            text = read_sourced(path, name) if kept is None else kept.text
        except OSError as error:
            raise MisuseError(
                f"cannot read {path}: {error.strerror}",
                near=(name,),
                remedy="SOURCE takes a script that this user may read.",
            ) from error
        self._files[key] = SourceFile(str(path), text)
        self._machine.stack.append(Level(row, "SOURCE", name, {}))
        try:
            # A file sourced inside of a macro does not see the macro's arguments.
            self._walk.run_file(parse(text, file=str(path)).body)
        except ScriptError as error:
            error.chain = error.chain or self._machine.chain()
            raise
        finally:
            self._machine.stack.pop()


def read_script(path: Path) -> str:
    """The text of a script. OSError if it cannot be read, ScriptError if it is too long, or not
    UTF-8."""
    with path.open("rb") as file:
        return read_stream(file, name=str(path))


def read_sourced(path: Path, name: str) -> str:
    """The text of a script that another one names as `name`. If it is not a script, MisuseError
    without its content: a script may name any file, and its author must not see files of others.
    """
    try:
        text = read_script(path)
        rows = read(text, file=str(path))
        first = next((row for row in rows if isinstance(row, ast.LineLayout) and row.words), None)
    except ScriptError as error:
        line = error.place.line if error.place is not None else 1
        # The parentheses contain a byte of the file.
        wrong = f"{error.message.partition(' (')[0]}, line {line}"
    else:
        if first is None or _begins_script(first):
            return text
        wrong = f"line {first.line.number} does not begin with a command"
    raise NoScriptError(
        f"SOURCE {name}: not a script: {wrong}",
        near=(name,),
        remedy="Its text is not shown. A script is UTF-8 text and begins with a command,"
        " such as SET or BEGIN.",
    ) from None


def _begins_script(row: ast.LineLayout) -> bool:
    """Whether the first word of a file is a command, or meant to be one."""
    word = row.words[0].text
    if word in ALL_NAMES or word.startswith(("$", "HOST_SUFFIX=")):
        return True
    return _COMMAND.fullmatch(word) is not None and nearest(word, ALL_NAMES) is not None


def read_stream(file: BinaryIO, *, name: str) -> str:
    """The text of a script that is read from an open file; `name` is for messages."""
    data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ScriptError(
            f"longer than {MAX_BYTES // 10**6} MB", place=Place(name, 1), remedy="Is this a script?"
        )
    if data.startswith(BEGINNING):
        raise ScriptError(
            "this is a plan, not a script",
            place=Place(name, 1),
            remedy="Only 'netesto run' takes a plan, as a file: netesto run plan.json",
        )
    return decoded(data, file=name)


def decoded(data: bytes, *, file: str) -> str:
    """The text of a script in `data`. ScriptError if it is not UTF-8, or has a NUL, which would be
    in exp.csv and ends strings of other programs."""
    try:
        text = data.decode("utf-8-sig")
        if "\0" not in text:
            return text
        raise UnicodeDecodeError("utf-8", data, data.index(0), data.index(0) + 1, "NUL")
    except UnicodeDecodeError as error:
        before = data[: error.start].split(b"\n")
        line = data[error.start - len(before[-1]) :].split(b"\n", 1)[0]
        shown = line.decode("utf-8", "replace").rstrip("\r")
        column = len(before[-1].decode("utf-8", "replace")) + 1
        raise ScriptError(
            f"not UTF-8 text (byte {data[error.start]:#04x})",
            # A line that is not printed cannot move the caret or control the terminal.
            place=Place(
                file, len(before), column, 1, re.sub(r"[^\t\x20-\x7e\xa0-\uffff]", "·", shown)
            ),
            remedy="Is this a script? Then save it as UTF-8.",
        ) from None


def find_source(name: str, *, from_file: str, library_path: Sequence[Path]) -> Path:
    """The file of a SOURCE: beside the file that names it, in the working directory, then in the
    libraries. NoSourceError suggests a similar file."""
    folders = [Path(from_file).parent, Path(), *library_path]
    for folder in folders:
        if "\0" not in name and os.path.isfile(folder / name):  # noqa: PTH113 - never raises
            return folder / name
    there = {entry for folder in folders for entry in _entries(folder)}
    looked = ", ".join(dict.fromkeys(str(folder) for folder in folders))
    raise NoSourceError(
        f"SOURCE {name}: no such file",
        near=(name,),
        remedy=hint(name, there, otherwise=f"Looked in {looked}."),
    )


def beside(name: str, *, from_file: str) -> Path:
    """A file that a script names: beside it, or in the working directory. MisuseError suggests a
    similar one."""
    folders = [Path(from_file).parent, Path()]
    for folder in folders:
        if "\0" not in name and os.path.isfile(folder / name):  # noqa: PTH113 - never raises
            return folder / name
    there = {entry for folder in folders for entry in _entries((folder / name).parent)}
    looked = ", ".join(dict.fromkeys(str(folder) for folder in folders))
    raise MisuseError(
        f"{name}: no such file",
        near=(name,),
        remedy=hint(Path(name).name, there, otherwise=f"Looked in {looked}."),
    )


def _entries(folder: Path) -> list[str]:
    """The files in a folder; none if it cannot be read."""
    try:
        return [path.name for path in folder.iterdir() if path.is_file()]
    except OSError:
        return []
