"""Commands that DO_COMMAND runs in a lab, whose hosts allow those of `run --commands FILE`."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from netesto.agent import commands as allowed
from netesto.agent import config
from netesto.errors import NotAllowedError, ScriptError
from netesto.language import ports
from netesto.language.plan import Warned
from netesto.model import Command


def warnings(commands: Sequence[ports.RemoteCommand]) -> list[Warned]:
    """A warning, at the first DO_COMMAND, that a lab allows none without a file."""
    return [
        Warned(
            f"DO_COMMAND name={wanted.name}: in a lab it needs `netesto run --commands FILE`,"
            " an agent.toml that allows it",
            command.place,
        )
        for command, wanted in [*_wanted(commands)][:1]
    ]


def check(commands: Sequence[ports.RemoteCommand], file: Path) -> None:
    """ScriptError for a command that the file does not allow, or not with these values; UsageError
    if the file cannot be read."""
    wanted = list(_wanted(commands))
    known = config.read(file).commands if wanted else {}
    for command, each in wanted:
        try:
            allowed.argv(known, each.name, each.values)
        except NotAllowedError as error:
            raise ScriptError(
                f"{file}: {error.message}",
                place=command.place,
                remedy=error.remedy,
                chain=command.chain,
            ) from None


def _wanted(
    commands: Sequence[ports.RemoteCommand],
) -> Iterator[tuple[ports.RemoteCommand, Command]]:
    for command in commands:
        for setting in command.settings if isinstance(command, ports.Configure) else ():
            if isinstance(setting, Command):
                yield command, setting
