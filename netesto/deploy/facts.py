"""The facts of a host before any change there, from the reply of `onhost.look`, and the packages
that have the tools it lacks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from netesto.transport.addresses import AGENT_SOCKET, USER_SOCKET

# Below the home folder: the packages of agents for one run.
CACHE = "/.cache/netesto"

# The tools that flows, observations and settings run.
TOOLS = ("ip", "tc", "ss", "sysctl", "ping", "iperf3", "netperf", "tcpdump", "ethtool")

# What installs packages, and those of tools whose names differ from the tool's. Debian's are known
# to remote/install-packages; netperf is in none of these distributions.
_MANAGERS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "dnf": ("dnf install -y -q",
            {"ip": "iproute", "tc": "iproute-tc", "ss": "iproute", "sysctl": "procps-ng",
             "ping": "iputils"}),
    "zypper": ("zypper --non-interactive install",
               {"ip": "iproute2", "tc": "iproute2", "ss": "iproute2", "sysctl": "procps",
                "ping": "iputils", "iperf3": "iperf"}),
    "pacman": ("pacman -S --noconfirm --needed",
               {"ip": "iproute2", "tc": "iproute2", "ss": "iproute2", "sysctl": "procps-ng",
                "ping": "iputils"}),
    "apk": ("apk add",
            {"ip": "iproute2", "tc": "iproute2", "ss": "iproute2", "sysctl": "procps",
             "ping": "iputils"}),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPlaces:
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


ROOT = AgentPlaces(
    root=True,
    prefix="/opt/netesto",
    config="/etc/netesto/agent.toml",
    unit="/etc/systemd/system/netesto-agent.service",
    state="/var/lib/netesto/agent",
    socket=str(AGENT_SOCKET),
)


def of_user(home: str) -> AgentPlaces:
    """The places below a home folder."""
    return AgentPlaces(
        root=False,
        prefix=f"{home}/.local/share/netesto",
        config=f"{home}/.config/netesto/agent.toml",
        unit=f"{home}/.config/systemd/user/netesto-agent.service",
        state=f"{home}/.local/state/netesto/agent",
        socket=f"{home}/{USER_SOCKET}",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """An installation by its record. `changed` are files and folders that were changed since."""

    record: Mapping[str, Any]
    changed: Sequence[str] = ()
    runs: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A host. `python` is "" if no interpreter there can run an agent, and `python_version` is then
    the one that there is. `addresses`: those that ssh reaches, IPv4 and IPv6; `interfaces`: the
    global addresses of each. `noexec`: folders from which no library can be loaded. `absent`:
    folders that an installation would be in, and that do not exist. `made_above_cache`: we have
    made the folder that the cache is in."""

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
    interfaces: Mapping[str, Sequence[str]] = field(default_factory=dict)
    free_bytes: int = 1 << 40
    noexec: frozenset[str] = frozenset()
    existing: frozenset[str] = frozenset()
    installed: Installation | None = None
    cached: frozenset[str] = frozenset()
    made_above_cache: bool = False
    absent: frozenset[str] = frozenset()
    places: AgentPlaces = field(default=ROOT)

    @property
    def cache(self) -> str:
        """The folder of the packages of agents for one run."""
        return f"{self.home}{CACHE}"


def request() -> dict[str, object]:
    """What `onhost.look` is to look at: for a user who may become root, or another."""
    kinds = {"root": ROOT, "user": of_user("~")}
    return {"do": "look", "tools": TOOLS} | {
        name: {
            "libraries": [places.prefix, f"~{CACHE}"],
            "record": places.record,
            # What an installation writes outside of its own folder, and all that it writes.
            "watched": [places.config, places.unit],
            "written": [places.config, places.unit, places.record, places.state],
        }
        for name, places in kinds.items()
    }


def parse(reply: Mapping[str, Any]) -> Facts:
    """The facts in a reply of `onhost.look`."""
    same = dict(reply)
    is_root, found = same.pop("is_root"), same.pop("installed")
    for name in ("tools", "noexec", "existing", "cached", "absent"):
        same[name] = frozenset(same[name])
    return Facts(
        **(same | {"addresses": tuple(same["addresses"])}),
        installed=None if found is None else Installation(**found),
        places=ROOT if is_root else of_user(reply["home"]),
    )


def lacking(facts: Facts) -> Sequence[str]:
    """The tools that are missing."""
    return [tool for tool in TOOLS if tool not in facts.tools]


def has_package(manager: str, tool: str) -> bool:
    """Whether a package manager is known to have a tool."""
    return manager == "apt-get" or (manager in _MANAGERS and tool != "netperf")


def installing(manager: str, tools: Iterable[str]) -> list[str]:
    """What installs tools; not for apt-get, which remote/install-packages calls."""
    words, packages = _MANAGERS[manager]
    return [*words.split(), *sorted({packages.get(tool, tool) for tool in tools})]
