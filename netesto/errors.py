"""The tree of errors. Imports nothing from netesto.

NetestoError
├── ScriptError            the author of a script is wrong            exit status 2
├── UsageError             the command line or a given file is wrong  exit status 2
├── WorldError             the world is not ready                     exit status 3
│   ├── AgentError         a host is wrong: unreachable, lost, refuses
│   │   ├── AgentBusyError      another controller holds it
│   │   ├── ConnectionLostError it does not respond; its hold may continue
│   │   │   └── NoAnswerError       it was reached, but does not respond: frozen, or too busy
│   │   ├── HoldEndedError      the hold is over: restart, or the lease ended
│   │   └── NotAllowedError     no script may do this on a host
│   ├── MissingError       a tool or kernel feature is missing
│   ├── LabError           this machine is wrong: the lab could not be built
│   └── ResultsError       the results folder is wrong: not writable, other columns
├── StoppedError           --on-failure stop: something measured failed  exit status 1
├── ProcessError           a started command failed or took too long
└── OutputError            the parser does not know a tool's output

A flow that fails in an experiment is not an exception, but a result with a reason.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

# Longer lines, messages and chains would push the rest off the screen.
SHOWN_TEXT = 160
SHOWN_MESSAGE = 400
# A remedy may be a long list, such as that of all sysctls.
SHOWN_LIST = 4000
SHOWN_STEPS = 20
# Further lines that one message is about.
SHOWN_LINES = 8

_STEP = re.compile(r"((?P<file>.*?):\d+): (?P<run>RUN\b.*)", re.DOTALL)
_FRAME = re.compile(r"(?P<file>.*?):\d+: (?P<what>\w+(?: [^ (]+)?)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a script. Lines and columns count from 1.

    `text` is the physical line, to be shown; `length` is the number of characters to underline.
    """

    file: str
    line: int
    column: int = 1
    length: int = 1
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def narrowed(self, *words: str) -> "Place":
        """The place of the first of `words` that occurs in the line, otherwise this place. `name=`
        means the value after it."""
        for word in words:
            rest = r"\S*" if word.endswith("=") else r"(?!\S)"
            match = re.search(rf"(?<!\S){re.escape(word)}({rest})", self.text)
            if match is not None:
                start, end = match.span(1) if word.endswith("=") else match.span()
                return replace(self, column=start + 1, length=max(1, end - start))
        return self

    def drawn(self) -> Iterator[str]:
        """The line with the caret below it; only the part around the caret if the line is long."""
        if not self.text:
            return
        column, text = self.column, self.text
        if len(text) > SHOWN_TEXT:
            start = max(0, min(column - 1 - SHOWN_TEXT // 3, len(text) - SHOWN_TEXT))
            end = start + SHOWN_TEXT
            before, behind = "…" if start else "", "…" if end < len(text) else ""
            column += len(before) - start
            text = f"{before}{text[start:end]}{behind}"
        length = max(1, min(self.length, len(text) - column + 1))
        # Tabs stay tabs, so that the caret is below its character.
        indent = "".join("\t" if character == "\t" else " " for character in text[: column - 1])
        yield f"    {text}"
        yield f"    {indent}{'^' * length}"


def _written_at(place: Place, chain: Sequence[str]) -> tuple[int, re.Match[str]] | None:
    """The RUN in `chain` that the author wrote, with its index, if `place` is in a macro of another
    file: the innermost one of the first file that runs a macro."""
    runs = [(index, step) for index, text in enumerate(chain) if (step := _STEP.fullmatch(text))]
    own = [(index, step) for index, step in runs if step["file"] == runs[0][1]["file"]]
    return own[-1] if runs and runs[0][1]["file"] != place.file else None


def _folder_of(step: str) -> str:
    """The folder of the file of a step in a chain."""
    found = _FRAME.match(step)
    return found["file"].rpartition("/")[0] if found else ""


def _folded(steps: Sequence[str]) -> str:
    """Steps within libraries, the innermost first, as one line: their files, macros and loops."""
    found = [match for step in steps if (match := _FRAME.match(step))]
    files = dict.fromkeys(match["file"] for match in found)
    whats = dict.fromkeys(match["what"] for match in found)
    return f"  in {', '.join(files)}: {' < '.join(whats)}"


def told_place(place: Place, chain: Sequence[str], *, columns: bool = True) -> str:
    """A place in a line of text: what the author wrote comes first."""
    text = str(place) if columns else f"{place.file}:{place.line}"
    written = _written_at(place, chain)
    return text if written is None else f"{written[1][1]}, by {text}"


def written_line(place: Place, chain: Sequence[str]) -> str:
    """The line of the author, as `file:line`, that a message at `place` is about."""
    written = _written_at(place, chain)
    return f"{place.file}:{place.line}" if written is None else written[1][1]


def repeated(message: str, lines: Sequence[str]) -> str:
    """A message that is said once for several lines (`file:line`), the first of which is shown
    with it."""
    if len(lines) < 2:
        return message
    file = lines[0].rpartition(":")[0]
    others = [line.removeprefix(f"{file}:") for line in dict.fromkeys(lines) if line != lines[0]]
    shown = ", ".join(others[:SHOWN_LINES]) + (", …" if len(others) > SHOWN_LINES else "")
    also = f"; also line{'s' if len(others) > 1 else ''} {shown}" if others else ""
    return f"{message} ({len(lines)} times{also})"


def shortened(text: str, most: int = SHOWN_MESSAGE) -> str:
    """`text` without the middle of lines longer than `most`: a quoted line may be as long as a
    file."""
    if len(text) <= most:
        return text
    half = most // 2
    return "\n".join(
        line if len(line) <= most else f"{line[:half]} … {line[-half:]}"
        for line in text.split("\n")
    )


class NetestoError(Exception):
    """Root of the tree. The text of every error is meant for the user."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        message = shortened(self.message, SHOWN_LIST)
        return f"{message}\n{shortened(self.remedy, SHOWN_LIST)}" if self.remedy else message


class ScriptError(NetestoError):
    """The author of a script is wrong. Has the place, and the chain of RUN/SOURCE/FOR to it.

    `chain` goes from the outermost command to the innermost, each as `file:line: what (values)`.
    """

    def __init__(
        self,
        message: str,
        *,
        place: Place | None = None,
        remedy: str = "",
        chain: Sequence[str] = (),
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.place = place
        self.chain = tuple(chain)

    def __str__(self) -> str:
        message = shortened(self.message)
        remedy = [shortened(self.remedy, SHOWN_LIST)] if self.remedy else []
        if self.place is None:
            return "\n".join([message, *remedy, *self._steps(self.chain)])
        drawn, chain = list(self.place.drawn()), self.chain
        written = _written_at(self.place, chain)
        if written is None:
            lines = [f"{self.place}: {message}", *drawn, *remedy]
        else:
            index, step = written
            lines = [f"{step[1]}: {message}", f"    {shortened(step['run'])}", *remedy]
            lines += [f"  at {self.place}", *drawn]
            chain = chain[:index] + chain[index + 1 :]
        return "\n".join([*lines, *self._steps(chain)])

    def _steps(self, chain: Sequence[str]) -> Iterator[str]:
        """The chain from the innermost step on; a long one without its middle. The steps within a
        library, in another folder than the script, are one line."""
        steps: list[str] = []
        folder = _folder_of(self.chain[0]) if chain else ""
        for is_own, several in groupby(reversed(chain), lambda step: _folder_of(step) == folder):
            frames = [shortened(step) for step in several]
            is_folded = not is_own and len(frames) > 1
            steps += [_folded(frames)] if is_folded else [f"  in {step}" for step in frames]
        if len(steps) > SHOWN_STEPS:
            half = SHOWN_STEPS // 2
            steps[half:-half] = [f"  … {len(steps) - 2 * half} more …"]
        yield from steps


class UsageError(NetestoError):
    """The command line, or a file named on it, is wrong."""


class WorldError(NetestoError):
    """The world is not ready for what the script needs."""


class AgentError(WorldError):
    """A host is wrong: unreachable, lost, or it refuses a request."""

    def __init__(self, message: str, *, host: str = "", remedy: str = "") -> None:
        super().__init__(f"{host}: {message}" if host else message, remedy=remedy)
        self.host = host


class AgentBusyError(AgentError):
    """Another controller holds the agent; `holder` is its name."""

    def __init__(self, holder: str, *, host: str = "", remedy: str = "") -> None:
        super().__init__(
            f"in use by {holder}",
            host=host,
            remedy=remedy or "netesto run --wait … waits until it is free.",
        )
        self.holder = holder


class ConnectionLostError(AgentError):
    """The connection to an agent was cut, or cannot be made. Its work for us may continue."""


class NoAnswerError(ConnectionLostError):
    """Something listens at the address of an agent, and does not answer."""


class HoldEndedError(AgentError):
    """The agent no longer knows the hold: it was restarted, or the lease has ended."""


class NotAllowedError(AgentError):
    """No script may do this on a host, or not with this value."""


class MissingError(WorldError):
    """A tool or kernel feature that the script needs is missing."""


class LabError(WorldError):
    """This machine is wrong: the lab could not be built or taken down."""


class GuestError(LabError):
    """A guest ended before the command in it had: it crashed, or was ended because it never waited,
    had no memory left, or took too long. Another command may end well."""


class ResultsError(WorldError):
    """The results folder is wrong: not writable, full, or with other columns."""


class StoppedError(NetestoError):
    """An experiment failed, and the run stops then, as requested."""


class ProcessError(NetestoError):
    """A started command failed, or it could not be started."""

    def __init__(self, argv: Sequence[str], message: str) -> None:
        super().__init__(f"{argv[0]}: {message}")


class OutputError(NetestoError):
    """The output of a tool is unknown to its parser."""
