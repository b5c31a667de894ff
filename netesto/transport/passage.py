"""Joins two connections: data from each goes to the other."""

import asyncio
import contextlib
from typing import Protocol, TypeAlias


class Reader(Protocol):
    """A source of bytes, such as an asyncio.StreamReader."""

    async def read(self, most: int, /) -> bytes:
        """The next bytes; b"" at the end."""


class Writer(Protocol):
    """A sink of bytes, such as an asyncio.StreamWriter."""

    def write(self, content: bytes, /) -> None:
        """Send bytes, now or later."""

    async def drain(self) -> None:
        """Wait until there is room for more."""

    def close(self) -> None:
        """End the connection when all is sent."""

    async def wait_closed(self) -> None:
        """Wait until it has ended."""


Stream: TypeAlias = tuple[Reader, Writer]

_PIECE_BYTES = 256 * 1024

_CLOSE_S = 1.0


async def join(one: Stream, other: Stream) -> None:
    """Pass bytes both ways until either end closes; then both are closed. OSError of either end is
    raised."""
    ways = [
        asyncio.create_task(_pass(one[0], other[1])),
        asyncio.create_task(_pass(other[0], one[1])),
    ]
    try:
        done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in done:
            way.result()
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for _, writer in (one, other):
            writer.close()
        for _, writer in (one, other):
            with contextlib.suppress(OSError, TimeoutError):
                await asyncio.wait_for(writer.wait_closed(), _CLOSE_S)


async def _pass(reader: Reader, writer: Writer) -> None:
    while content := await reader.read(_PIECE_BYTES):
        writer.write(content)
        await writer.drain()
