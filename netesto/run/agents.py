"""Connections of a run to its agents."""

import asyncio

from netesto.controller.host import Connect
from netesto.errors import AgentError, LabError
from netesto.lab import agents
from netesto.lab.agents import Nursery
from netesto.lab.netns import Lab
from netesto.lab.plan import LabPlan
from netesto.model import Endpoint
from netesto.transport import client
from netesto.transport.client import AgentClient, Reopen

# The timeout of the first call.
CONNECT_TIMEOUT_S = 5.0

# How long to try to restore a cut connection: the time that an agent may take to return.
PATIENCE_S = 60.0


async def connect(
    endpoint: Endpoint, *, reopen: Reopen | None = None, machine_hosts: int = 1
) -> AgentClient:
    """The agent of a host, one of `machine_hosts` on its machine. AgentError if it does not
    respond. `reopen` is called before each attempt to reach it again."""
    return await client.connect(
        endpoint.agent,
        host=endpoint.host,
        timeout=CONNECT_TIMEOUT_S,
        patience_s=PATIENCE_S,
        reopen=reopen,
        machine_hosts=machine_hosts,
    )


def of_lab(lab: Lab, nursery: Nursery, plan: LabPlan) -> Connect:
    """Connects to the agents of a lab, and restarts one that was killed."""
    turn = asyncio.Lock()

    async def connected(endpoint: Endpoint) -> AgentClient:
        async def start_again() -> None:
            async with turn:
                try:
                    await asyncio.to_thread(
                        agents.start_again, lab.record, endpoint.host, nursery, plan
                    )
                except LabError as error:
                    raise AgentError(error.message, host=endpoint.host) from error

        await start_again()
        return await connect(endpoint, reopen=start_again, machine_hosts=len(lab.record.hosts))

    return connected
