"""Parsers of the command line: their errors are UsageErrors, and shells complete their paths."""

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from netesto.cli import values
from netesto.errors import UsageError
from netesto.text.nearest import hint
from netesto.transport.addresses import NO_PORTS

_CHOICE = re.compile(r"argument (\S+): invalid choice: '?(.*?)'? \(choose from (.*)\)")

# Options of earlier versions, and what to do instead.
_REMOVED = {"--insecure": NO_PORTS}


class Parser(argparse.ArgumentParser):
    """Raises UsageError where argparse would print and exit."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """As in argparse, but the parser of the command itself refuses unknown arguments, because
        it knows similar options."""
        found, left = super().parse_known_args(args, namespace)
        for word in left:
            if word.startswith("-") and word != "-":
                option = word.partition("=")[0]
                raise UsageError(
                    f"{self._where}unknown option {option}",
                    remedy=_REMOVED.get(option)
                    or hint(option, self._options(), otherwise=self._help),
                )
        if left:
            raise UsageError(f"{self._where}unexpected argument {left[0]!r}", remedy=self._help)
        return found, left

    def error(self, message: str) -> NoReturn:
        choice = _CHOICE.fullmatch(message)
        if choice is not None:
            what, word, listed = choice.groups()
            words = re.findall(r"[\w-]+", listed)
            name = what.lower() if what.isupper() else f"{what} value"
            remedy = hint(word, words, otherwise=f"Values: {', '.join(words)}.")
            if not self._where and Path(word).exists():
                remedy = f"Write: {self.prog} {'show' if Path(word).is_dir() else 'run'} {word}"
            raise UsageError(f"{self._where}unknown {name} {word!r}", remedy=remedy)
        raise UsageError(message, remedy=f"{self.format_usage().strip()}\n{self._help}")

    def _options(self) -> list[str]:
        return [
            word
            for action in self._actions
            if action.help != argparse.SUPPRESS
            for word in action.option_strings
            if word.startswith("--")
        ]

    @property
    def _where(self) -> str:
        """The command, for a message that begins with the program's name."""
        command = self.prog.partition(" ")[2]
        return f"{command}: " if command else ""

    @property
    def _help(self) -> str:
        return f"See '{self.prog} --help'"


# argparse gives the collection of sub-commands no public name.
Commands: TypeAlias = "argparse._SubParsersAction[Parser]"  # noqa: SLF001
Actions: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001

# How a shell completes an argument that names a file or a folder: the functions that shtab calls
# in completions/, which `make completions` makes.
_FILES: Mapping[str, str] = {"bash": "_shtab_compgen_files", "zsh": "_files"}
FOLDERS: Mapping[str, str] = {"bash": "_shtab_compgen_dirs", "zsh": "_files -/"}


def add_path(
    command: argparse.ArgumentParser, *names: str, complete: Mapping[str, str] = _FILES, **how: Any
) -> None:
    """A file (with `FOLDERS` a folder) that shells complete: a Path, unless `type` is given. An
    empty text is refused: as a Path it would be the current directory."""
    kind = values.nonempty(how.pop("type", Path))
    argument = command.add_argument(*names, type=kind, **how)
    argument.complete = dict(complete)  # type: ignore[attr-defined]  # read by shtab, not argparse


def add_flag(command: argparse._ActionsContainer, *names: str, what: str) -> None:
    command.add_argument(*names, action="store_true", help=what)


def add_command(
    commands: Commands, name: str, what: str, example: str, function: str = ""
) -> argparse.ArgumentParser:
    """A command. `function` runs it, of a module of `netesto.cli`; each action of a command has its
    own."""
    command = commands.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}.",
        epilog=f"example: {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    # It is accepted after the command, too, where people add it.
    command.add_argument(
        "--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS
    )
    command.set_defaults(function=function)
    return command


def add_action(actions: Actions, name: str, what: str, function: str) -> argparse.ArgumentParser:
    action = actions.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.")
    action.set_defaults(function=function)
    return action
