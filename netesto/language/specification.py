"""What a command that takes `key=value` words is: a value that describes itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from netesto.hostsettings import Setting
from netesto.model import LARGEST_EXPERIMENT
from netesto.schema.kinds import Argument, Kind

# host, exp and expName fall back to the ones used last: their defaults are not in this table.
HOST = Argument("host", Kind.HOST)
EXPERIMENT = Argument("exp", Kind.EXPERIMENT, high=LARGEST_EXPERIMENT)
COMMON = (HOST, EXPERIMENT, Argument("expName", Kind.TEXT))

# More arguments than this, or longer ones, come from a loop that went wrong.
MAX_ARGUMENTS = 1000
MAX_VALUE = 10_000


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments of a line: by argument name values, each of the type of its kind, and texts.
    `texts` includes the defaults, `written` are the names of arguments that the line gives;
    `open_arguments` are the keys of a command with open names.
    """

    values: Mapping[str, Any]
    texts: Mapping[str, str]
    open_arguments: Mapping[str, str]
    written: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Specification:
    """A command that takes `key=value` words. `open_names` says what other keys it takes.
    `settings` are those of a host that a line asks for (hostcommands), if that is all it does.
    `sentence` describes it in the manual, whose table of its arguments `make docs` then writes.
    There is one for each command, so its identity is its hash."""

    name: str
    arguments: tuple[Argument, ...]
    open_names: str = ""
    settings: Callable[[Given], tuple[Setting, ...]] | None = None
    sentence: str = ""


def by_name(*commands: Specification) -> Mapping[str, Specification]:
    """Commands by their names."""
    return {each.name: each for each in commands}


def remote(name: str, *arguments: Argument) -> Specification:
    """A command that the agent of `host` executes."""
    return Specification(name=name, arguments=(*COMMON, *arguments))
