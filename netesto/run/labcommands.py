"""Commands that DO_COMMAND runs in a lab, whose hosts allow those of `run --commands FILE`."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from netesto.agent import commands as allowed
from netesto.agent import config
from netesto.errors import NotAllowedError, ScriptError, UsageError
from netesto.hostsettings import Command
from netesto.language import steps
from netesto.language.plan import Warned


def warnings(commands: Sequence[steps.RemoteCommand]) -> list[Warned]:
    """A warning, at the first DO_COMMAND, that a lab allows none without a file."""
    return [
        Warned(
            f"DO_COMMAND name={wanted.name}: in a lab it needs `netesto run --commands FILE`,"
            " with a table [commands] that allows it",
            command.place,
        )
        for command, wanted in [*_wanted(commands)][:1]
    ]


def check_ground(real: str) -> None:
    """UsageError if an option `real` names hosts that have files of their own."""
    if real:
        raise UsageError(
            f"--commands is for labs, and --{real} names real hosts",
            remedy="The agent of a host runs what [commands] of its own agent.toml allows.",
        )


def checker(file: Path) -> Callable[[steps.RemoteCommand], None]:
    """A function that raises ScriptError for a command that the file does not allow, or not with
    these values. UsageError if the file cannot be read."""
    known = config.read_commands(file)

    def check(wanted: steps.RemoteCommand) -> None:
        for command, each in _wanted([wanted]):
            try:
                allowed.argv(known, each.name, each.values)
            except NotAllowedError as error:
                raise ScriptError(
                    f"{file}: {error.message}",
                    place=command.place,
                    remedy=error.remedy,
                    chain=command.chain,
                ) from None

    return check


def _wanted(
    commands: Sequence[steps.RemoteCommand],
) -> Iterator[tuple[steps.RemoteCommand, Command]]:
    for command in commands:
        for setting in command.settings if isinstance(command, steps.Configure) else ():
            if isinstance(setting, Command):
                yield command, setting
