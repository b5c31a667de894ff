"""Which packages of a distribution have the tools that an agent starts."""

from collections.abc import Iterable, Mapping

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


def has_package(manager: str, tool: str) -> bool:
    """Whether a package manager is known to have a tool."""
    return manager == "apt-get" or (manager in _MANAGERS and tool != "netperf")


def command(manager: str, tools: Iterable[str]) -> list[str]:
    """What installs tools; not for apt-get, which remote/install-packages calls."""
    words, packages = _MANAGERS[manager]
    return [*words.split(), *sorted({packages.get(tool, tool) for tool in tools})]
