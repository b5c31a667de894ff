"""The facts of a host before any change there, from the reply of `onhost.look`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from netesto.transport.addresses import AGENT_SOCKET, USER_SOCKET

# Below the home folder: the packages of agents for one run.
CACHE = "/.cache/netesto"

# The tools that flows, observations and settings run.
TOOLS = ("ip", "tc", "ss", "sysctl", "ping", "iperf3", "netperf", "tcpdump", "ethtool")


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The places of an agent. `root`: for the whole host, else for one user."""

    root: bool
    prefix: str
    config: str
    unit: str
    state: str
    socket: str

    @property
    def launcher(self) -> str:
        return f"{self.prefix}/netesto-agent"

    @property
    def record(self) -> str:
        """The record of an installation, written before its changes."""
        return f"{self.prefix}/installed.json"

    @property
    def lock(self) -> str:
        """One installation at a time."""
        return f"{self.prefix}/.lock"

    @property
    def alive(self) -> str:
        """Locked by the supervisor of an agent, where there is no systemd."""
        return f"{self.prefix}/agent.lock"

    @property
    def memory(self) -> str:
        """The agent's cache until the next boot (collectors.capabilities)."""
        return f"{self.socket.rpartition('/')[0]}/qdiscs.json"

    @property
    def log(self) -> str:
        return f"{self.state}.log"


ROOT = Places(
    root=True,
    prefix="/opt/netesto",
    config="/etc/netesto/agent.toml",
    unit="/etc/systemd/system/netesto-agent.service",
    state="/var/lib/netesto/agent",
    socket=str(AGENT_SOCKET),
)


def of_user(home: str) -> Places:
    """The places below a home folder."""
    return Places(
        root=False,
        prefix=f"{home}/.local/share/netesto",
        config=f"{home}/.config/netesto/agent.toml",
        unit=f"{home}/.config/systemd/user/netesto-agent.service",
        state=f"{home}/.local/state/netesto/agent",
        socket=f"{home}/{USER_SOCKET}",
    )


def watched(places: Places) -> list[str]:
    """The files that an installation writes outside of its own folder."""
    return [places.config, places.unit]


def written(places: Places) -> list[str]:
    """What an installation puts on a host."""
    return [*watched(places), places.record, places.state]


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """An installation by its record. `changed` are files and folders that were changed since;
    `unfetched` are runs with unfetched measurements."""

    record: Mapping[str, Any]
    changed: tuple[str, ...] = ()
    runs: bool = True
    unfetched: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A host. `python` is "" if no interpreter there can run an agent, and `python_version` is then
    the one that there is. `addresses`: those that ssh reaches, IPv4 and IPv6. `noexec`: folders
    from which no library can be loaded. `absent`: folders that an installation would be in, and
    that do not exist. `made_above_cache`: we have made the folder that the cache is in."""

    system: str = "Linux"
    machine: str = "x86_64"
    libc: str = "glibc-2.36"
    python: str = "/usr/bin/python3"
    python_version: str = "3.11"
    pip: bool = False
    group: str = ""
    user: str = "root"
    home: str = "/root"
    sudo: bool = False
    systemd: bool = True
    user_systemd: bool = False
    manager: str = "apt-get"
    tools: frozenset[str] = frozenset(TOOLS)
    addresses: tuple[str, ...] = ()
    free_bytes: int = 1 << 40
    noexec: frozenset[str] = frozenset()
    existing: frozenset[str] = frozenset()
    installed: Installed | None = None
    cached: frozenset[str] = frozenset()
    made_above_cache: bool = False
    absent: frozenset[str] = frozenset()
    places: Places = field(default=ROOT)

    @property
    def cache(self) -> str:
        """The folder of the packages of agents for one run."""
        return f"{self.home}{CACHE}"


def request() -> dict[str, object]:
    """What `onhost.look` is to look at."""
    kinds = {"root": ROOT, "user": of_user("~")}
    return {
        "do": "look",
        "tools": TOOLS,
        "libraries": [*(places.prefix for places in kinds.values()), f"~{CACHE}"],
        "records": {name: places.record for name, places in kinds.items()},
        "watched": {name: watched(places) for name, places in kinds.items()},
        "written": [path for places in kinds.values() for path in written(places)],
    }


def parse(reply: Mapping[str, Any]) -> Facts:
    """The facts in a reply of `onhost.look`."""
    is_root = reply["uid"] == 0 or reply["sudo"]
    kind = "root" if is_root else "user"
    same = (
        "system", "machine", "libc", "python", "python_version", "pip", "group", "user",
        "home", "sudo", "systemd", "user_systemd", "manager",
    )  # fmt: skip
    return Facts(
        **{name: reply[name] for name in same},
        tools=frozenset(reply["tools"]),
        addresses=tuple(reply["addresses"]),
        free_bytes=reply["free_bytes"][kind],
        noexec=frozenset(reply["noexec"]),
        existing=frozenset(reply["existing"][kind]),
        installed=_installed(reply["installed"][kind]),
        cached=frozenset(reply["cached"]),
        made_above_cache=reply["made_above_cache"],
        absent=frozenset(reply["absent"]),
        places=ROOT if is_root else of_user(reply["home"]),
    )


def _installed(record: Mapping[str, Any] | None) -> Installed | None:
    if record is None:
        return None
    found = ("changed", "runs", "unfetched")
    return Installed(
        record={name: value for name, value in record.items() if name not in found},
        changed=tuple(record["changed"]),
        runs=record["runs"],
        unfetched=tuple(record["unfetched"] or ()),
    )


def lacking(facts: Facts) -> Sequence[str]:
    """The tools that are missing."""
    return [tool for tool in TOOLS if tool not in facts.tools]
