"""Who may reach an agent, which acts as root on its host.

A Unix socket is guarded by the file system: mode 0600, and the folder it is in. Over TCP an agent
listens on loopback addresses only, until enrolment and TLS exist, and answers the addresses in
clients.txt alone, if it was given one.
"""

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path

from netesto.errors import UsageError
from netesto.model import Address
from netesto.transport.addresses import TcpAddress, UnixAddress, parse


def listen_address(text: str) -> UnixAddress | TcpAddress:
    """The address to listen on. UsageError if it is invalid, or an agent may not listen there."""
    address = parse(text)
    if isinstance(address, UnixAddress):
        if not address.path.parent.is_dir():
            raise UsageError(f"{address}: no folder {address.path.parent}")
        return address
    host = "127.0.0.1" if address.host == "localhost" else address.host
    try:
        is_loopback = ip_address(host).is_loopback
    except ValueError:
        raise UsageError(
            f"cannot listen on {address}: invalid address {host!r}",
            remedy="Write an address of this host, such as 127.0.0.1.",
        ) from None
    if not is_loopback:
        raise UsageError(
            f"cannot listen on {address}: until enrolment and TLS exist, an agent listens on"
            " loopback or a Unix socket",
            remedy="Reach it through ssh: ssh -L 12870:127.0.0.1:12870 HOST",
        )
    return TcpAddress(host, address.port)


@dataclass(frozen=True, slots=True)
class Clients:
    """The networks that may connect by TCP; None: all."""

    networks: tuple[IPv4Network | IPv6Network, ...] | None = None

    def admits(self, address: Address) -> bool:
        """True if a controller at this address may connect."""
        return self.networks is None or any(address in network for network in self.networks)


def read_clients(path: Path) -> Clients:
    """The clients.txt at `path`. UsageError names a line without a valid address or network."""
    try:
        return parse_clients(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not UTF-8 text", remedy="Save it as UTF-8.") from None


def parse_clients(text: str, name: str) -> Clients:
    """One address or network a line; `#` starts a comment. `name` is the file's, for errors."""
    networks = []
    for number, line in enumerate(text.splitlines(), start=1):
        entry = line.partition("#")[0].strip()
        if not entry:
            continue
        try:
            networks.append(ip_network(entry))
        except ValueError as error:
            raise UsageError(f"{name}:{number}: {error}") from None
    return Clients(tuple(networks))
