"""An agent's settings: the command line, then agent.toml, then what the host itself suggests."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from netesto.agent import commands
from netesto.agent.commands import Allowed
from netesto.agent.limits import Limits
from netesto.agent.limits import read as read_limits
from netesto.errors import UsageError
from netesto.model import TlsFiles
from netesto.transport import tls
from netesto.transport.addresses import AGENT_SOCKET

# Survives a crash of the machine, so that results not yet fetched do.
DEFAULT_STATE = Path("/var/lib/netesto/agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """`host` is the agent's name, `device` the interface it tests through ("": the host's
    defaults). Members of `group` may use its Unix sockets ("": nobody else). `clients` is a
    clients.txt, `tls` for addresses of TLS. `limits` is the table [limits], `commands` are
    those of [commands]."""

    listen: tuple[str, ...] = (f"unix:{AGENT_SOCKET}",)
    group: str = ""
    state: Path = DEFAULT_STATE
    host: str = ""
    device: str = ""
    clients: Path | None = None
    tls: TlsFiles | None = None
    limits: Limits = field(default_factory=Limits)
    commands: Mapping[str, Allowed] = field(default_factory=dict)


def read(path: Path) -> Config:
    """The settings in an agent.toml. UsageError names what is wrong with it."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: {error}") from None
    known = {each.name for each in fields(Config)}
    for key in table:
        if key not in known:
            raise UsageError(
                f"{path}: unknown key {key!r}", remedy=f"Keys: {', '.join(sorted(known))}"
            )
    listen = table.get("listen", [*Config().listen])
    if isinstance(listen, str):
        listen = [listen]
    if not isinstance(listen, list) or not all(isinstance(entry, str) for entry in listen):
        raise UsageError(f"{path}: listen: an address or a list of addresses is required")
    texts = {key: table.get(key, "") for key in ("group", "state", "host", "device", "clients")}
    for key, text in texts.items():
        if not isinstance(text, str):
            raise UsageError(f"{path}: {key}: a text is required")
    try:
        files = tls.files_of(table["tls"], path.parent) if "tls" in table else None
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", remedy=error.remedy) from None
    try:
        limits = read_limits(table.get("limits", {}))
        allowed_commands = commands.read(table.get("commands", {}))
    except (ValueError, TypeError) as error:
        raise UsageError(f"{path}: {error}") from None
    return Config(
        listen=tuple(listen),
        group=texts["group"],
        state=Path(texts["state"]) if texts["state"] else DEFAULT_STATE,
        host=texts["host"],
        device=texts["device"],
        clients=Path(texts["clients"]) if texts["clients"] else None,
        tls=files,
        limits=limits,
        commands=allowed_commands,
    )
