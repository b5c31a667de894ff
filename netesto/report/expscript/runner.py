"""Runs script files and command-line words: variables, loops, and the places of errors."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from netesto.errors import Place, ResultsError, ScriptError
from netesto.files import atomic
from netesto.report.expscript import ids, lines, numerals, page
from netesto.report.expscript.dataset import EXP
from netesto.report.expscript.lines import JoinedLine
from netesto.report.expscript.session import ReportSession

# This nesting of files is well below Python's own limit.
SOURCES_MAX = 100

_FOR = re.compile(r"(?P<name>[A-Za-z_]\w*)\s+in\s+(?P<values>.*)", re.DOTALL)
_DISTINCT = re.compile(r"distinct\((?P<column>.*)\)")
_CONDITION = re.compile(r"(?P<left>.*?)(?P<operator>==|!=)(?P<right>.*)", re.DOTALL)
_OPENING = frozenset({"for", "if"})
_INSIDE = frozenset({"endfor", "endif", "else"})


class _EndReached(Exception):  # noqa: N818 - the end of a script is no error
    """`end` stops everything, including the scripts that sourced this one."""


@dataclass(frozen=True, slots=True)
class Report:
    """A finished page, and the files that its script writes: plots, tables, the log."""

    html: str
    files: Mapping[Path, bytes]

    def write_files(self) -> None:
        """Write the files, each completely or not at all. ResultsError if one cannot be written."""
        for path, content in self.files.items():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                with atomic.written(path) as file:
                    file.write(content)
            except OSError as error:
                raise ResultsError(
                    f"{path}: cannot write: {error.strerror}",
                    remedy="-o FILE writes the page to another place.",
                ) from error


class Runner:
    """Runs one script, or the words of one command line. Nothing is written yet.

    `warn` receives each warning as `file:line: what; what would be right`; with `strict` the
    first one is an error. With `explain`, `tell` receives the effect of each step on the rows,
    which the page shows, too. `out` is the destination of the page: links and files are relative to
    its folder, or without it to the current one.
    """

    def __init__(
        self,
        *,
        warn: Callable[[str], None] = lambda _: None,
        tell: Callable[[str], None] = lambda _: None,
        strict: bool = False,
        explain: bool = False,
        out: Path | None = None,
    ) -> None:
        self._tell_warning = warn
        self._tell_step = tell
        self._strict = strict
        self._explain = explain
        self._place = Place("command line", 1)
        self._variables: dict[str, str] = {}
        # The variables that hold an id: those of loops over the column exp.
        self._of_ids: set[str] = set()
        # The running files, each sourced by the previous one, and their variables.
        self._sources: list[tuple[Path, dict[str, str]]] = []
        self._logged: list[str] = []
        self.session = ReportSession(
            warn=self._warn,
            step=self._step,
            explain=explain,
            folder=None if out is None else out.parent,
        )

    def run_script(self, path: Path, variables: Mapping[str, str]) -> Report:
        """Run a script file; `$name` in it is replaced by the variables. ScriptError, with its
        place, if the script is wrong."""
        self.session.title = path.stem
        with self._until_the_end():
            self._source(path, variables)
        return self._report()

    def run_words(self, words: Sequence[str]) -> Report:
        """Run the words of a classic command line, from left to right.

        `--file=SCRIPT,var=val` sources a file, every other word is a line of a script. ScriptError
        as in run_script.
        """
        with self._until_the_end():
            for number, word in enumerate(words, start=1):
                place = Place("command line", number, 1, max(1, len(word)), word)
                self._execute(JoinedLine(_as_line(word, place), place))
        return self._report()

    def _report(self) -> Report:
        session = self.session
        if session.is_empty_of_rows:
            self._warn("no rows are selected; the page is empty", where=session.title)
        return Report(page.render(session.title, session.blocks), dict(session.files))

    @contextmanager
    def _until_the_end(self) -> Iterator[None]:
        try:
            yield
        except _EndReached:
            self._logged.append("end")
        if self.session.log is not None:
            text = "".join(f"{line}\n" for line in self._logged)
            self.session.files[self.session.log] = text.encode(errors="backslashreplace")

    # ---- lines ---------------------------------------------------------------------------

    def _source(self, path: Path, variables: Mapping[str, str]) -> None:
        """Run a file; variables are its own."""
        own = (path.resolve(), dict(variables))
        if own in self._sources:
            way = [known for known, _ in self._sources[self._sources.index(own) :]]
            through = "".join(f", through {one.name}" for one in way[1:])
            raise ScriptError(
                f"{path} sources itself{through}",
                remedy="This would never end; a script may source itself with other variables, if"
                " an If ends it.",
            )
        if len(self._sources) >= SOURCES_MAX:
            raise ScriptError(
                f"{path}: more than {SOURCES_MAX} nested files",
                remedy="Source the files one after the other, from one script.",
            )
        outer, self._variables = self._variables, dict(variables)
        self._sources.append(own)
        self._run(lines.read(path, warn=self._warn))
        self._sources.pop()
        self._variables = outer

    def _run(self, block: Sequence[JoinedLine]) -> None:
        position = 0
        while position < len(block):
            line = block[position]
            if line.word in _OPENING:
                middle, end = _extent(block, position)
                with self._at(line.place):
                    bodies = block[position + 1 : middle], block[middle + 1 : end]
                    self._run_nested(line, *bodies)
                position = end
            else:
                self._execute(line)
            position += 1

    def _execute(self, line: JoinedLine) -> None:
        with self._at(line.place):
            command = lines.command(self._replaced(line.text), line.place)
            if command is not None:
                try:
                    self._do(*command)
                except RecursionError:
                    raise ScriptError(
                        f"{command[0]}: too deeply nested", remedy="Write it in several steps."
                    ) from None

    def _do(self, key: str, value: str) -> None:
        match key.lower():
            case "source":
                self._source_command(value)
            case "set":
                self._variables |= lines.assignments([value])
            case "default":
                self._variables = lines.assignments([value]) | self._variables
            case "end":
                raise _EndReached
            case word if word in _OPENING | _INSIDE:
                raise ScriptError(
                    f"unmatched {key}",
                    remedy="In a script file, For=… ends with EndFor, If=… with EndIf.",
                )
            case _:
                self.session.do(key, value)

    def _source_command(self, value: str) -> None:
        name, *rest = (part.strip() for part in value.split(","))
        if not name:
            raise ScriptError("source names no file", remedy="Write: source=FILE,name=value,…")
        path = Path(name)
        beside = Path(self._place.file).parent / name
        if not path.exists() and beside.exists():
            path = beside
        self._source(path, lines.assignments([part for part in rest if part]))

    # ---- blocks --------------------------------------------------------------------------

    def _run_nested(
        self, line: JoinedLine, body: Sequence[JoinedLine], otherwise: Sequence[JoinedLine]
    ) -> None:
        command = lines.command(self._replaced(line.text), line.place)
        value = "" if command is None else command[1].strip()
        if line.word == "for":
            name, values = self._loop(value)
            for one in values:
                self._variables[name] = one
                self._run(body)
        else:
            named = re.findall(r"\$\{?([A-Za-z_]\w*)", line.text)
            is_true = _holds(value, has_ids=not self._of_ids.isdisjoint(named))
            self._run(body if is_true else otherwise)

    def _loop(self, value: str) -> tuple[str, list[str]]:
        """The variable of a loop and its values."""
        match = _FOR.fullmatch(value)
        if match is None:
            raise ScriptError(
                f"For: {value!r} is not of the form NAME in VALUES",
                remedy="Write: For = bw in 10mbit, 100mbit   or: For = ca in distinct(ca)",
            )
        distinct = _DISTINCT.fullmatch(match["values"].strip())
        self._of_ids.discard(match["name"])
        if distinct is None:
            return match["name"], lines.items(match["values"])
        view, column = self.session.view, distinct["column"].strip()
        if column == EXP:
            self._of_ids.add(match["name"])
        texts = view.column(column, what="For").take(view.rows).texts
        return match["name"], [text for text in dict.fromkeys(texts) if text.strip()]

    # ---- places --------------------------------------------------------------------------

    @contextmanager
    def _at(self, place: Place) -> Iterator[None]:
        """Give errors this place, or add it to the chain of an error that has one."""
        outer, self._place = self._place, place
        try:
            yield
        except ScriptError as error:
            chain = error.chain
            if error.place is not None and error.place != place:
                chain = (f"{place.file}:{place.line}: {place.text.strip()}", *chain)
            raise ScriptError(
                error.message, place=error.place or place, remedy=error.remedy, chain=chain
            ) from None
        finally:
            self._place = outer

    def _replaced(self, text: str) -> str:
        def unknown(name: str) -> None:
            self._warn(f"unknown variable ${name} is left as it is; $$ writes a dollar sign")

        return lines.replace_variables(text, self._variables, unknown=unknown)

    def _warn(self, text: str, *, where: str = "") -> None:
        if self._strict:
            raise ScriptError(text, remedy="This is a warning, which --strict makes an error.")
        line = f"{where or f'{self._place.file}:{self._place.line}'}: {text}"
        self._logged.append(f"warning: {line}")
        self._tell_warning(line)

    def _step(self, text: str) -> None:
        line = f"{self._place.file}:{self._place.line}: {text}"
        self._logged.append(line)
        if self._explain:
            self._tell_step(line)


def _as_line(word: str, place: Place) -> str:
    """A word of the command line as a line of a script."""
    key, equals, value = word.partition("=")
    if key == "--file" and value.strip():
        return f"source={value}"
    if key == "--file" or (word.startswith("-") and not equals):
        raise ScriptError(
            f"{key!r} has no value", place=place, remedy="Write: --file=SCRIPT,name=value,…"
        )
    return word


def _extent(block: Sequence[JoinedLine], start: int) -> tuple[int, int]:
    """The positions of the else of the block that begins at `start` (its end if it has none), and
    of its end. ScriptError without an end."""
    word = block[start].word
    depth, middle = 0, None
    for position in range(start, len(block)):
        now = block[position].word
        depth += (now == word) - (now == f"end{word}")
        if depth == 0:
            return position if middle is None else middle, position
        if now == "else" and word == "if" and depth == 1 and middle is None:
            middle = position
    raise ScriptError(
        f"{block[start].text!r} is not closed",
        place=block[start].place,
        remedy=f"A line End{word.capitalize()} ends it.",
    )


def _holds(condition: str, *, has_ids: bool) -> bool:
    """`a == b`, `a != b`, or a text that is neither empty nor 0 nor off.

    With `has_ids` 1.10 is group 10 of experiment 1, and not 1.1.
    """
    match = _CONDITION.fullmatch(condition)
    if match is None:
        return condition.lower() not in {"", "0", "off"}
    left, right = match["left"].strip(), match["right"].strip()
    are_ids = has_ids and ids.pair(left) is not None and ids.pair(right) is not None
    is_same = left == right if are_ids else numerals.same(left, right)
    return is_same == (match["operator"] == "==")
