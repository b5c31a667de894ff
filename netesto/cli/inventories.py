"""The hosts of a command line, with the warnings about their file."""

from collections.abc import Mapping
from pathlib import Path

from netesto.cli import printing
from netesto.controller import inventory
from netesto.controller.inventory import Inventory
from netesto.errors import UsageError

# What `hosts install` writes, and the other actions read.
HOSTS_FILE = Path("hosts.toml")


def load(
    text: str, *, aliases: Mapping[str, str] | None = None, insecure: bool = False
) -> Inventory:
    """These hosts; the warnings about them are printed."""
    found = inventory.load(text, aliases=aliases, insecure=insecure)
    for warning in found.warnings:
        printing.err(f"warning: {warning}")
    return found


def named(text: str | None, action: str) -> str:
    """The HOSTS of an action of `hosts`: those given, or the hosts file here. UsageError without
    either."""
    if text is None and not HOSTS_FILE.exists():
        raise UsageError(
            f"no hosts given, and no {HOSTS_FILE} here",
            remedy=f"Write: netesto hosts {action} host1,root@host2",
        )
    return text or str(HOSTS_FILE)
