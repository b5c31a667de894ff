"""A controller that only connects: `tunnelled.py ADDRESS` writes the local socket of its tunnel,
and for each line that it reads the agent's name, or why it does not answer."""

import asyncio
import sys

from netesto.errors import AgentError
from netesto.transport.client import connect

PATIENCE_S = 60.0


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def main() -> None:
    async with await connect(sys.argv[1], host="h1", timeout=PATIENCE_S) as agent:
        assert agent.tunnel is not None
        say(str(agent.tunnel.local.path))
        while await asyncio.to_thread(sys.stdin.readline):
            try:
                say((await agent.info()).host)
            except AgentError as error:
                say(error.message)


asyncio.run(main())
