"""The controller's end of a hold, which outlives its connections.

After a cut it joins the hold again until its patience ends. Meanwhile calls wait; requests that the
cut interrupted are repeated, with the same number. Repeated events are passed on once.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeAlias, TypeVar

from netesto.errors import ConnectionLostError, HoldEndedError
from netesto.model import Event
from netesto.transport.base import Stamp

Answer = TypeVar("Answer")

# The replies of a stream that begins or joins a hold: its token, and an event.
Replies: TypeAlias = AsyncGenerator[tuple[str, Event | None], None]

# Between two attempts to join again, or to repeat a request.
RETRY_S = 0.2


class Holding:
    """A hold whose stream `join(token, seen)` opens: a new one without a token.

    `patience_s` is how long attempts to restore a cut connection continue; with 0 a cut ends the
    hold immediately. `on_cut` is called with the reason when one is noticed, and with "" when it is
    over.
    """

    def __init__(
        self,
        join: Callable[[str, int], Replies],
        *,
        patience_s: float,
        on_cut: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.token = ""
        self._join = join
        self._patience_s = patience_s
        self._on_cut = on_cut
        self._acknowledged = 0
        self._numbers = itertools.count(1)
        self._pending: set[int] = set()
        # Not while the connection is cut.
        self._is_joined = asyncio.Event()
        self._is_joined.set()
        self._is_given_up = asyncio.Event()

    async def events(self) -> AsyncGenerator[Event, None]:
        """The events of the hold, each once. ConnectionLostError when the patience has ended,
        HoldEndedError if the agent no longer knows it."""
        deadline_s: float | None = None
        is_over = False
        try:
            while not is_over:
                try:
                    async with contextlib.aclosing(
                        self._join(self.token, self._acknowledged)
                    ) as replies:
                        async for token, event in replies:
                            self.token = token
                            if deadline_s is not None:
                                deadline_s = None
                                self._is_joined.set()
                                self._on_cut("")
                            if event is not None and event.sequence > self._acknowledged:
                                self._acknowledged = event.sequence
                                yield event
                    is_over = True
                except ConnectionLostError as error:
                    if deadline_s is None:
                        deadline_s = _now() + (self._patience_s if self.token else 0.0)
                        self._is_joined.clear()
                        self._on_cut(error.message)
                    if _now() >= deadline_s or self._is_given_up.is_set():
                        raise
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._is_given_up.wait(), RETRY_S)
        finally:
            # Waiting calls check the state themselves.
            self._is_given_up.set()
            self._is_joined.set()

    async def call(self, ask: Callable[[Stamp], Awaitable[Answer]]) -> Answer:
        """The reply to a call, also if the connection is cut meanwhile. HoldEndedError if the hold
        is over, after `events` has raised it."""
        number = next(self._numbers)
        self._pending.add(number)
        deadline_s: float | None = None
        try:
            while True:
                await self._is_joined.wait()
                stamp = Stamp(
                    call=number, pending=min(self._pending), acknowledged=self._acknowledged
                )
                try:
                    return await ask(stamp)
                except ConnectionLostError:
                    deadline_s = deadline_s or _now() + self._patience_s
                    if self._is_given_up.is_set() or not self.token or _now() >= deadline_s:
                        raise
                except HoldEndedError:
                    await self.ended()
                    raise
                # The stream notices, too, now or a moment later.
                await asyncio.sleep(RETRY_S)
        finally:
            self._pending.discard(number)

    async def ended(self) -> None:
        """Wait until the stream has noticed the end of the hold, too: whoever reads it can then say
        what that costs."""
        with contextlib.suppress(TimeoutError):
            patience_s = self._patience_s if self.token else 0.0
            await asyncio.wait_for(self._is_given_up.wait(), patience_s)

    @property
    def is_cut(self) -> bool:
        """Whether the connection is cut, and is being made again."""
        return not self._is_joined.is_set()

    def give_up(self) -> None:
        """Stop joining: a present or later cut ends the hold."""
        self._is_given_up.set()


def _now() -> float:
    return asyncio.get_running_loop().time()
