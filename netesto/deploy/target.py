"""A host that the user's own ssh reaches."""

from dataclasses import dataclass

from netesto.errors import UsageError
from netesto.model import Endpoint
from netesto.transport import addresses, ssh
from netesto.transport.addresses import SshAddress


@dataclass(frozen=True, slots=True)
class Target:
    """A host by its name here, whatever the machine calls itself."""

    name: str
    address: SshAddress

    def ssh(self, *options: str) -> list[str]:
        """The command that runs another there, given as the next word."""
        first, *rest = ssh.argv(self.address)
        return [first, "-o", "ConnectTimeout=10", *options, *rest]


def of(endpoint: Endpoint) -> Target:
    """The host of an agent. UsageError if it is not reached by ssh."""
    address = addresses.parse(endpoint.agent)
    if not isinstance(address, SshAddress):
        raise UsageError(
            f"host {endpoint.host}: its agent is at {endpoint.agent}, which ssh does not reach",
            remedy=f'Write agent = "ssh://{endpoint.host}".',
        )
    return Target(endpoint.host, address)
