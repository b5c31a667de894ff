"""grpc.aio's server, without a bug that lets one request end it, and with a report of its end.

Its loop decodes the method of every request that no registered handler takes: a `:path` that is
not UTF-8 raises there, and the server ends while the process lives on. Here no such request reaches
that loop. Core itself compares the bytes of registered methods, so only other requests are
affected, and all of them get the same reply as before: the method is unknown.
"""

import asyncio
from collections.abc import Sequence
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
    """Answers requests with unknown methods, and keeps them from its loop."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._replies: set[asyncio.Task[None]] = set()

    def _serving_task_crash_handler(self, loop: "asyncio.Task[None]") -> None:
        """The server's loop ended: by `stop`, or by a fault."""
        if not loop.cancelled() and (error := loop.exception()) is not None:
            self.failure.set_exception(error)

    def _make_request_call_future(self, method: bytes | None) -> "asyncio.Future[Any]":
        """The next request with this method. None, which stands for all methods that are not
        registered, gives a future that never has a result."""
        if method is None:
            return asyncio.create_task(self._refuse_unknown())
        future: asyncio.Future[Any] = super()._make_request_call_future(method)
        return future

    async def _refuse_unknown(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            request = await self._request_call()
            # As in the loop itself, except that `resolve_handler` below has no handler for it.
            reply = cygrpc._handle_rpc("", self, (), request, loop, False)  # noqa: SLF001 - see above
            task = asyncio.create_task(cygrpc._schedule_rpc_coro(reply, request, loop, ""))  # noqa: SLF001 - see above
            self._replies.add(task)
            task.add_done_callback(self._replied)

    def resolve_handler(self, _: object) -> None:
        """No handler for this request."""

    def _replied(self, reply: "asyncio.Task[None]") -> None:
        self._replies.discard(reply)
        if not reply.cancelled():
            # The caller may be gone, or may have sent metadata that cannot be decoded.
            reply.exception()
