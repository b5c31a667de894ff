"""Which packages of a distribution have the tools that an agent starts."""

from collections.abc import Iterable, Mapping, Sequence

# Packages of tools, if their names differ from the tool's. Debian's are known to
# remote/install-packages; netperf is in none of these distributions.
_PACKAGES: Mapping[str, Mapping[str, str]] = {
    "dnf": {"ip": "iproute", "tc": "iproute-tc", "ss": "iproute", "sysctl": "procps-ng",
            "ping": "iputils"},
    "zypper": {"ip": "iproute2", "tc": "iproute2", "ss": "iproute2", "sysctl": "procps",
               "ping": "iputils", "iperf3": "iperf"},
    "pacman": {"ip": "iproute2", "tc": "iproute2", "ss": "iproute2", "sysctl": "procps-ng",
               "ping": "iputils"},
    "apk": {"ip": "iproute2", "tc": "iproute2", "ss": "iproute2", "sysctl": "procps",
            "ping": "iputils"},
}  # fmt: skip
_INSTALLERS: Mapping[str, Sequence[str]] = {
    "dnf": ("dnf", "install", "-y", "-q"),
    "zypper": ("zypper", "--non-interactive", "install"),
    "pacman": ("pacman", "-S", "--noconfirm", "--needed"),
    "apk": ("apk", "add"),
}


def has_package(manager: str, tool: str) -> bool:
    """Whether a package manager is known to have a tool."""
    return manager == "apt-get" or bool(_packages(manager, [tool]))


def command(manager: str, tools: Iterable[str]) -> list[str]:
    """What installs tools; not for apt-get, which remote/install-packages calls."""
    return [*_INSTALLERS[manager], *_packages(manager, tools)]


def _packages(manager: str, tools: Iterable[str]) -> list[str]:
    known = _PACKAGES.get(manager)
    if known is None:
        return []
    return sorted({known.get(tool, tool) for tool in tools if tool != "netperf"})
