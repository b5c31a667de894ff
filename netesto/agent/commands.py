"""Commands that the owner of a host allows scripts to run: the table [commands] of agent.toml.

    [commands.rings]
    run = ["ethtool", "-G", "eth1", "rx", "{rx}"]
    parameters = { rx = "1-8192" }     whole numbers; or a list of words: ["on", "off"]
    timeout = "5s"
    output = "64K"

The argument list is fixed except for its `{parameters}`, and does not pass through a shell.
"""

import asyncio
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from netesto import units
from netesto.agent import limits
from netesto.errors import AgentError, NotAllowedError, ProcessError
from netesto.limits.amounts import FILE
from netesto.system import process
from netesto.text.nearest import hint
from netesto.text.printable import printable

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,39}")
_PARAMETER = re.compile(r"\{([A-Za-z_]\w{0,39})\}", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,:/+-]{0,99}")
_RANGE = re.compile(r"(\d{1,15})-(\d{1,15})")

# Of a command in [commands].
KEYS = frozenset({"run", "parameters", "timeout", "output"})

# Controllers do not wait longer than this for a setting.
LONGEST_S = 25.0
# The space in a reply after the status.
LARGEST_OUTPUT = 3_800

# How long a process that a command has left behind may take to leave its group (setsid).
LEAVING_S = 0.2

# The reply to a command that ended well.
FINE = "exit status 0"

# The longest character in UTF-8.
_UTF8_BYTES = 4

Values: TypeAlias = range | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """A command that scripts may run. `output` is how many of its last characters are kept."""

    run: tuple[str, ...]
    parameters: Mapping[str, Values]
    timeout_s: float = 10.0
    output: int = LARGEST_OUTPUT

    def argv(self, values: Sequence[str]) -> list[str]:
        """The argument list with these values, each "name=value". NotAllowedError if a parameter
        does not accept its value."""
        given = dict(value.split("=", 1) for value in values if "=" in value)
        if len(given) < len(values) or given.keys() != self.parameters.keys():
            names = " ".join(f"{name}=" for name in self.parameters) or "none"
            raise NotAllowedError("wrong parameters", remedy=f"It takes {names}.")
        for name, text in given.items():
            takes = self.parameters[name]
            is_number = isinstance(takes, range) and text.isascii() and text.isdecimal()
            if (int(text) if is_number and len(text) < 16 else text) not in takes:
                words = (
                    f"{takes.start} to {takes.stop - 1}"
                    if isinstance(takes, range)
                    else ", ".join(takes)
                )
                raise NotAllowedError(f"{name}={text}: not allowed", remedy=f"It takes {words}.")
        return [_PARAMETER.sub(lambda match: given[match[1]], word) for word in self.run]


def read(table: object) -> dict[str, Allowed]:
    """The commands of a table [commands]. ValueError says what is wrong with it."""
    if not isinstance(table, dict):
        raise ValueError("commands: a table for each is required: [commands.NAME]")  # noqa: TRY004 - as the others
    found = {}
    for name, entry in table.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"commands: invalid name {name!r}")
        try:
            found[name] = _allowed(entry)
        except (ValueError, TypeError) as error:
            raise ValueError(f"commands.{name}: {error}") from None
    return found


def _allowed(entry: object) -> Allowed:
    if not isinstance(entry, dict) or not entry.keys() <= KEYS:
        raise ValueError(f"a table with {', '.join(sorted(KEYS))} is required")
    argv = entry.get("run")
    if not isinstance(argv, list) or not argv or not all(isinstance(each, str) for each in argv):
        raise ValueError("run: a list of strings is required")
    parameters = {name: _values(name, text) for name, text in entry.get("parameters", {}).items()}
    used = {name for word in argv for name in _PARAMETER.findall(word)}
    if used != parameters.keys():
        raise ValueError(f"parameters: run has {', '.join(sorted(used)) or 'none'}")
    if _PARAMETER.search(argv[0]):
        raise ValueError("run: the program cannot be a parameter")
    try:
        timeout_s = limits.seconds(str(entry.get("timeout", "10s")))
    except ValueError as error:
        raise ValueError(f"timeout: {error}") from None
    output = units.parse_size(str(entry.get("output", LARGEST_OUTPUT)))
    if timeout_s > LONGEST_S:
        raise ValueError(f"timeout: at most {LONGEST_S:g} s")
    return Allowed(
        run=tuple(argv),
        parameters=parameters,
        timeout_s=timeout_s,
        output=min(output, LARGEST_OUTPUT),
    )


def _values(name: str, text: object) -> Values:
    if isinstance(text, str) and (match := _RANGE.fullmatch(text)):
        return range(int(match[1]), int(match[2]) + 1)
    if isinstance(text, list) and all(isinstance(e, str) and _WORD.fullmatch(e) for e in text):
        return tuple(text)
    raise ValueError(f'parameters.{name}: a range, such as "1-8192", or a list of words')


def argv(commands: Mapping[str, Allowed], name: str, values: Sequence[str]) -> list[str]:
    """The argument list of a command with these values. NotAllowedError if there is no such
    command, or it does not accept them."""
    if name not in commands:
        listed = f"Commands here: {', '.join(commands)}." if commands else ""
        remedy = hint(name, commands, otherwise=listed)
        raise NotAllowedError(
            f"command {name} is not allowed",
            remedy=remedy or f"To allow it, write in {FILE}: [commands.{name}]",
        )
    try:
        return commands[name].argv(values)
    except NotAllowedError as error:
        raise NotAllowedError(f"command {name}: {error.message}", remedy=error.remedy) from None


async def run(commands: Mapping[str, Allowed], name: str, values: Sequence[str]) -> str:
    """Run an allowed command; return its exit status and the end of its output. AgentError if it
    cannot be run or takes too long."""
    words = argv(commands, name, values)
    allowed = commands[name]
    try:
        ended, printed = await _finished(words, allowed)
    except ProcessError as error:
        raise AgentError(f"command {name}: {error}") from None
    except TimeoutError:
        raise AgentError(
            f"command {name}: still running after {allowed.timeout_s:g} s, ended"
        ) from None
    text = printable(printed.strip())[-allowed.output :]
    return ended + (f": {text}" if text else "")


def is_fine(said: str) -> bool:
    """Whether a command exited 0 and left nothing behind, by what `run` returned."""
    return said.partition(":")[0] == FINE


async def _finished(words: Sequence[str], allowed: Allowed) -> tuple[str, str]:
    """How a command ended, and the end of its output, of which no more is ever in memory. What it
    leaves in its process group is ended. TimeoutError if it takes too long; it is then ended."""
    most, end = allowed.output * _UTF8_BYTES, b""
    job = await process.start(words)
    try:
        async with asyncio.timeout(allowed.timeout_s):
            async for piece in job.pieces():
                end = (end + piece)[-most:]
            ended = f"exit status {await job.wait()}"
        # A program that becomes a daemon leaves the group only when it runs for the first time.
        if not await process.wait_until_async(
            lambda: not process.has_group(job.pid), timeout=LEAVING_S
        ):
            ended += ", and what it had left running in its process group was ended"
    finally:
        await job.end(signal.SIGKILL)
    return ended, end.decode(errors="replace")
