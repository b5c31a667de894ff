"""How the command line reaches an agent that is up."""

from netesto.model import Endpoint
from netesto.transport import client
from netesto.transport.client import AgentClient

# How long it may take to answer the first call.
CONNECT_TIMEOUT_S = 5.0


async def connect(endpoint: Endpoint) -> AgentClient:
    """The agent of a host. AgentError if it does not answer."""
    return await client.connect(
        endpoint.agent, host=endpoint.host, timeout=CONNECT_TIMEOUT_S, tls=endpoint.tls
    )
