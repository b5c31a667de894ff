"""Commands that act otherwise in a lab: DO_COMMAND runs what `run --commands FILE` allows, keep=1
keeps nothing, and a qdisc may be followed by the limits of a link."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from netesto.agent import commands as allowed
from netesto.agent import config
from netesto.errors import NotAllowedError, ScriptError, UsageError
from netesto.hostsettings import Command
from netesto.lab.topology import Topology
from netesto.language import steps
from netesto.language.plan import Warned
from netesto.run import behindlinks, labs


def warnings(
    network: Topology,
    commands: Sequence[steps.RemoteCommand],
    *,
    aliases: Mapping[str, str],
    file: Path | None,
) -> list[Warned]:
    """Warnings of commands that have no effect in a lab, or less than expected. Without a `file`
    it allows no DO_COMMAND. UsageError if it has no host that an alias names."""
    found = behindlinks.warnings(
        network, commands, labs.inventory(network, commands, aliases=aliases)
    )
    for command in commands:
        if isinstance(command, steps.Configure) and command.kept:
            text = (
                f"{command.name}: keep={command.arguments['keep']} has no effect beyond the lab,"
                " whose hosts are removed with it"
            )
            found.append(Warned(text, command.place.narrowed("keep=")))
            break
    if file is None:
        for command, wanted in _own_commands(commands):
            text = (
                f"DO_COMMAND name={wanted.name}: in a lab it needs `netesto run --commands FILE`,"
                " with a table [commands] that allows it"
            )
            found.append(Warned(text, command.place))
            break
    return found


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
        for command, each in _own_commands([wanted]):
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


def _own_commands(
    commands: Sequence[steps.RemoteCommand],
) -> Iterator[tuple[steps.RemoteCommand, Command]]:
    for command in commands:
        for setting in command.settings if isinstance(command, steps.Configure) else ():
            if isinstance(setting, Command):
                yield command, setting
