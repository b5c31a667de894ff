"""The hosts of a run: each is opened when it is first needed, and held until it is released."""

import asyncio
import functools
from collections import defaultdict
from collections.abc import Mapping

from netesto.collectors.clock import Clock
from netesto.controller.host import Connect, HostConnection, HostListener
from netesto.controller.inventory import ONE_EACH, Inventory
from netesto.controller.readiness import Peers, Visited
from netesto.errors import AgentBusyError, AgentError, NetestoError
from netesto.model import Endpoint

# The number of hosts that are prepared, or asked for data, at once.
AT_ONCE = 16


class Hosts:
    """The hosts of an inventory. Agents show `run` as the name of what holds them; `listener` gets
    what happens at them. `shares_clock`: the agents have `clock`, too."""

    def __init__(
        self,
        inventory: Inventory,
        *,
        connect: Connect,
        clock: Clock,
        listener: HostListener,
        run: str,
        shares_clock: bool,
    ) -> None:
        self.inventory = inventory
        self.connect = connect
        self.run = run
        # By the name in the inventory.
        self.held: dict[str, HostConnection] = {}
        # Including those that were released: manifests contain them.
        self.known: dict[str, HostConnection] = {}
        self._connection_of = functools.partial(
            HostConnection, clock=clock, listener=listener, shares_clock=shares_clock
        )
        self._tickets: Mapping[str, str] = {}
        self._opening: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def open_all(self) -> None:
        """Hold all hosts of the inventory at once. AgentError names the first that fails."""
        opening = [asyncio.create_task(self.ready(name)) for name in self.inventory.endpoints]
        try:
            await asyncio.gather(*opening)
        except BaseException:
            # A host that opens only now would not be released.
            for task in opening:
                task.cancel()
            await asyncio.gather(*opening, return_exceptions=True)
            raise

    async def hold_free(self, tickets: Mapping[str, str]) -> list[tuple[Endpoint, AgentBusyError]]:
        """Hold all hosts of the inventory except those in use; return these, with the errors that
        name the holder. Other errors reappear when all are opened. `tickets` are the places in
        their queues, by host."""
        self._tickets = tickets
        endpoints = self.inventory.endpoints
        errors = await asyncio.gather(*map(self._tried, endpoints))
        return [
            (endpoint, error)
            for endpoint, error in zip(endpoints.values(), errors, strict=True)
            if isinstance(error, AgentBusyError)
        ]

    async def open_and_examine(self, peers: Peers) -> list[Visited]:
        """Hold all hosts of the inventory at once, and ask each what may be wrong there and on the
        paths to its `peers`. Errors are among what is told."""

        async def examined(name: str, error: NetestoError | None) -> Visited:
            endpoint = self.inventory.endpoints[name]
            try:
                if error is not None:
                    raise error
                host = await self.ready(name)
                state = await host.examine(wanted[name])
                status = await host.agent.status()
            except NetestoError as reason:
                return Visited(endpoint=endpoint, error=reason)
            return Visited(
                endpoint=endpoint, info=host.info, clock=host.offset, state=state, status=status
            )

        names = [*self.inventory.endpoints]
        errors = await asyncio.gather(*map(self._tried, names))
        wanted = peers(self.inventory)
        return list(await asyncio.gather(*map(examined, names, errors)))

    async def _tried(self, name: str) -> NetestoError | None:
        """Open a host; the error if it cannot be."""
        try:
            await self.ready(name)
        except NetestoError as error:
            return error
        return None

    async def ready(self, name: str) -> HostConnection:
        """The connection to the host that a script calls `name`; opened when first needed. Waits
        while it is cut, or lost and about to be back."""
        connection = await self.connection(name)
        await connection.ready()
        return connection

    async def connection(self, name: str) -> HostConnection:
        """The connection to the host that a script calls `name`, in whatever state it is."""
        endpoint = self.inventory.find(name)
        # Commands that run together may need a host at once that CLOSE has released.
        async with self._opening[endpoint.host]:
            return self.held.get(endpoint.host) or await self._open(endpoint)

    async def _open(self, endpoint: Endpoint) -> HostConnection:
        connection = self._connection_of(endpoint, connect=self.connect)
        self.held[endpoint.host] = connection
        try:
            await connection.open(run=self.run, ticket=self._tickets.get(endpoint.host, ""))
        except BaseException as error:
            del self.held[endpoint.host]
            await connection.close()
            if isinstance(error, AgentBusyError) and (twin := self._twin(connection)):
                raise AgentError(
                    f"same agent as {twin}", host=connection.name, remedy=ONE_EACH
                ) from None
            raise
        self.known[endpoint.host] = connection
        connection.endpoint = self.inventory.learn(endpoint.host, connection.info.addresses)
        return connection

    def _twin(self, connection: HostConnection) -> str:
        """The host that we hold and that has the same agent, "" if there is none."""
        identity = connection.identity
        same = (name for name, each in self.held.items() if each.identity == identity)
        return next(same, "") if identity else ""

    async def close_all(self, *, timeout_s: float | None = None) -> None:
        """Release all hosts; each puts its settings back. One that takes longer than `timeout_s`
        continues by itself, and is reported."""
        connections = [*self.held.values()]
        self.held.clear()
        closing = {asyncio.create_task(each.close()): each for each in connections}
        if not closing:
            return
        _, late = await asyncio.wait(closing, timeout=timeout_s)
        for task in late:
            task.cancel()
            closing[task].note_unconfirmed("no time was left")
        for result in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(result, Exception):
                raise result
