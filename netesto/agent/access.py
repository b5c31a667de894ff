"""Who may reach an agent, which acts as root on its host.

A Unix socket is guarded by the file system: mode 0600, and the folder it is in. Over TCP an agent
listens on loopback addresses only, until enrolment and TLS exist.
"""

from ipaddress import ip_address

from netesto.errors import UsageError
from netesto.transport.addresses import TcpAddress, UnixAddress, parse


def listen_address(text: str) -> UnixAddress | TcpAddress:
    """The address to listen on. UsageError if it is none, or an agent may not listen there."""
    address = parse(text)
    if isinstance(address, UnixAddress):
        if not address.path.parent.is_dir():
            raise UsageError(f"{address}: there is no folder {address.path.parent}")
        return address
    host = "127.0.0.1" if address.host == "localhost" else address.host
    try:
        is_loopback = ip_address(host).is_loopback
    except ValueError:
        raise UsageError(
            f"cannot listen on {address}: {host} is no address",
            remedy="write an address of this host, such as 127.0.0.1",
        ) from None
    if not is_loopback:
        raise UsageError(
            f"cannot listen on {address}: until enrolment and TLS exist, an agent listens on"
            " loopback or a Unix socket",
            remedy="reach it through ssh: ssh -L 12870:127.0.0.1:12870 HOST",
        )
    return TcpAddress(host, address.port)
