"""An agent's settings: from the command line, then agent.toml, then defaults of the host."""

import logging
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from netesto.agent import commands
from netesto.agent.commands import Allowed
from netesto.agent.limits import AgentLimits, absent
from netesto.agent.limits import read as read_limits
from netesto.agent.reread import Reread
from netesto.errors import UsageError
from netesto.files import texts
from netesto.text.nearest import hint
from netesto.transport.addresses import AGENT_SOCKET, NO_PORTS

log = logging.getLogger(__name__)

# This folder survives a crash of the machine, and with it results that are not yet fetched.
DEFAULT_STATE = Path("/var/lib/netesto/agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """`host` is the agent's name, `device` the interface it tests through ("": the host's
    defaults). Members of `group` may use its Unix sockets ("": nobody else). `limits` is the table
    [limits], `commands` are those of [commands]."""

    listen: tuple[str, ...] = (f"unix:{AGENT_SOCKET}",)
    group: str = ""
    state: Path = DEFAULT_STATE
    host: str = ""
    device: str = ""
    limits: AgentLimits = field(default_factory=AgentLimits)
    commands: Mapping[str, Allowed] = field(default_factory=dict)


# The keys of a changed file that apply at the agent's next start only.
_AT_THE_START = ("listen", "group", "state", "host")

# Keys of earlier versions.
_REMOVED = ("clients", "tls")


class ConfigFile(Reread[Config]):
    """The agent.toml at `path` as it is now, as `read_it` gives it with the options of the command
    line; None: there is none."""

    def __init__(self, path: Path | None, read_it: Callable[[], Config]) -> None:
        super().__init__(path, read_it, what="agent.toml", changed=_note)
        _note_absent(self.now())


def _note(before: Config, after: Config) -> None:
    for key in _AT_THE_START:
        if getattr(before, key) != getattr(after, key):
            log.warning("applies at the next start of the agent", extra={"key": key})
    _note_absent(after)


def _note_absent(config: Config) -> None:
    """Log the interfaces of a configuration that this host does not have."""
    named = (("device", (config.device,)), ("interfaces", config.limits.interfaces or ()))
    for key, names in named:
        for name in absent(filter(None, names)):
            log.warning("no such interface", extra={"interface": name, "key": key})


def read(path: Path) -> Config:
    """The settings in an agent.toml. UsageError names what is wrong with it."""
    text, table = _parsed(path)
    known = {each.name for each in fields(Config)}
    for key in table.keys() - known:
        if key in _REMOVED:
            raise UsageError(f"{path}{_line(text, key)}: {key}: removed", remedy=NO_PORTS)
        raise _unknown(f"{path}{_line(text, key)}", key, known)
    allowed_commands = _commands(path, text, table)
    listen = table.get("listen", [*Config().listen])
    if isinstance(listen, str):
        listen = [listen]
    if not isinstance(listen, list) or not all(isinstance(entry, str) for entry in listen):
        raise UsageError(f"{path}: listen: an address or a list of addresses is required")
    strings = {key: table.get(key, "") for key in ("group", "state", "host", "device")}
    for key, text in strings.items():
        if not isinstance(text, str):
            raise UsageError(f"{path}: {key}: a string is required")
    try:
        limits = read_limits(table.get("limits", {}))
    except (ValueError, TypeError) as error:
        raise UsageError(f"{path}: {error}") from None
    return Config(
        listen=tuple(listen),
        group=strings["group"],
        state=Path(strings["state"]) if strings["state"] else DEFAULT_STATE,
        host=strings["host"],
        device=strings["device"],
        limits=limits,
        commands=allowed_commands,
    )


def read_commands(path: Path) -> Mapping[str, Allowed]:
    """The commands of a file that contains only [commands]. UsageError names what is wrong."""
    text, table = _parsed(path)
    for key in table.keys() - {"commands"}:
        raise UsageError(
            f"{path}{_line(text, key)}: {key}: only [commands] belongs in a file of commands",
            remedy="The agents of a lab have no other settings: leave it out.",
        )
    return _commands(path, text, table)


def _parsed(path: Path) -> tuple[str, dict[str, Any]]:
    """The text of a TOML file, and its table. UsageError if it cannot be read."""
    text = texts.read(path)
    try:
        return text, tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: {error}") from None


def _commands(path: Path, text: str, table: Mapping[str, Any]) -> Mapping[str, Allowed]:
    listed = table.get("commands", {})
    entries = listed.items() if isinstance(listed, dict) else ()
    for name, entry in entries:
        for key in entry.keys() - commands.KEYS if isinstance(entry, dict) else ():
            where = f"{path}{_line(text, f'commands.{name}', key)}: commands.{name}"
            raise _unknown(where, key, commands.KEYS)
    try:
        return commands.read(listed)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{path}: {error}") from None


def _unknown(where: str, key: str, known: Iterable[str]) -> UsageError:
    remedy = hint(key, known, otherwise=f"Keys: {', '.join(sorted(known))}")
    return UsageError(f"{where}: unknown key {key!r}", remedy=remedy)


def _line(text: str, *keys: str) -> str:
    """The line of the last of these keys, each nested in the one before, as ":3"; "" if it is not
    in the usual form."""
    end = 0
    for key in keys:
        found = re.compile(rf"^[ \t]*\[*[ \t]*{re.escape(key)}[ \t]*[]=.]", re.MULTILINE).search(
            text, end
        )
        if found is None:
            return ""
        end = found.end()
    return f":{text.count(chr(10), 0, end) + 1}"
