"""An event loop in a separate thread, for callers that are not asynchronous.

The script runs in the main thread, where Ctrl-C arrives; all calls of agents run in this loop.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Collection, Coroutine
from typing import Self, TypeVar

T = TypeVar("T")

# The timeouts for cancelled work, and for a loop that hangs.
CLOSE_TIMEOUT_S = 2.0

# The timeout for work that still runs at the end, and is cancelled.
CANCEL_TIMEOUT_S = 0.4


class Background:
    """The loop and its thread. Use it with `with`; leaving it cancels what is still running."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="agents", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.call(self._cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_TIMEOUT_S)
        if not self._thread.is_alive():
            self._loop.close()

    def begin(self, work: Coroutine[object, object, T]) -> concurrent.futures.Future[T]:
        """Run `work` in the loop, after earlier work."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, work: Coroutine[object, object, T]) -> T:
        """Run `work` in the loop and wait for its result; Ctrl-C cancels it."""
        future = self.begin(work)
        try:
            return future.result()
        except BaseException:
            self.cancel([future])
            raise

    @staticmethod
    def cancel(futures: Collection[concurrent.futures.Future[T]]) -> None:
        """Cancel all work, and wait briefly until it has ended."""
        for future in futures:
            future.cancel()
        concurrent.futures.wait(futures, timeout=CLOSE_TIMEOUT_S)

    @staticmethod
    async def _cancel_all() -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        if others:
            # A task that waits for a hanging peer ends with the process.
            await asyncio.wait(others, timeout=CANCEL_TIMEOUT_S)
