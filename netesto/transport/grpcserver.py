"""grpc.aio's server, without a bug that lets one request end it, and with a report of its end.

Its loop decodes the method of every request that no registered handler takes: a `:path` that is
not UTF-8 raises there, and the server ends while the process lives on. Here no such request reaches
that loop. Core itself compares the bytes of registered methods, so only other requests are
affected, and all of them get the same reply as before: the method is unknown.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from grpc._cython import cygrpc
from grpc.aio import _server


class Server(_server.Server):
    """A server for registered handlers."""

    def __init__(self, options: Sequence[tuple[str, int]]) -> None:
        # Not super().__init__: all it does is to make the AioServer that is replaced here.
        self._loop = cygrpc.get_working_loop()
        self._server = _AioServer(self._loop, None, (), (), tuple(options), None)

    async def ended(self) -> None:
        """Raise the error that ended the server's loop, if any: then no call is answered, and
        neither `stop` nor `wait_for_termination` would return."""
        await asyncio.shield(self._server.failure)

    async def stop(self, grace: float | None) -> None:
        """Stop the server, unless its loop has ended."""
        if not self._server.failure.done():
            await super().stop(grace)


class _AioServer(cygrpc.AioServer):  # type: ignore[misc]  # no types for Cython
    """Answers all requests in tasks of its own, one for each method, and keeps them from its loop.

    The loop waits for the next request of any method, and does so again after each request: with
    twenty methods that takes longer than to answer it.
    """

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._handlers: dict[str, object] = {}
        self._replies: set[asyncio.Task[None]] = set()

    def add_registered_method_handlers(self, handlers: Mapping[str, object]) -> None:
        super().add_registered_method_handlers(handlers)
        self._handlers.update(handlers)

    def _serving_task_crash_handler(self, loop: "asyncio.Task[None]") -> None:
        """The server's loop ended: by `stop`, or by a fault."""
        if not loop.cancelled() and (error := loop.exception()) is not None:
            self.failure.set_exception(error)

    def _make_request_call_future(self, method: bytes | None) -> "asyncio.Future[None]":
        """A future without a result: an error when the server stops. None stands for all methods
        that are not registered."""
        return asyncio.create_task(self._serve(method))

    async def _serve(self, method: bytes | None) -> None:
        loop = asyncio.get_running_loop()
        name = "" if method is None else method.decode()
        while True:
            if method is None:
                request = await self._request_call()
            else:
                request = await self._request_registered_call(method)
            # As in the loop itself.
            reply = cygrpc._handle_rpc(name, self, (), request, loop, False)  # noqa: SLF001 - see above
            task = asyncio.create_task(cygrpc._schedule_rpc_coro(reply, request, loop, name))  # noqa: SLF001 - see above
            self._replies.add(task)
            task.add_done_callback(self._replied)

    def resolve_handler(self, details: Any) -> object | None:
        """The handler of a request; None if its method is unknown."""
        return self._handlers.get(details.method)

    def _replied(self, reply: "asyncio.Task[None]") -> None:
        self._replies.discard(reply)
        if not reply.cancelled():
            # The caller may be gone, or may have sent metadata that cannot be decoded.
            reply.exception()
