"""Integers at many places of a buffer at once, whatever their alignment."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Integers: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

# Padding, so that each integer that begins inside ends inside.
_PADDING = bytes(16)


class Octets:
    """A buffer. Places beyond its end hold zeros; callers must check the bounds."""

    def __init__(self, data: bytes, order: str = ">") -> None:
        self.size = len(data)
        padded = data + _PADDING
        self._views = {
            width: np.ndarray(
                (len(data) + 1,), dtype=f"{order}u{width}", buffer=padded, strides=(1,)
            )
            for width in (1, 2, 4, 8)
        }

    def u8(self, at: Integers) -> Integers:
        return self._read(1, at)

    def u16(self, at: Integers) -> Integers:
        return self._read(2, at)

    def u32(self, at: Integers) -> Integers:
        return self._read(4, at)

    def u64(self, at: Integers) -> NDArray[np.uint64]:
        found: NDArray[np.uint64] = self._views[8][np.minimum(at, self.size)].astype(np.uint64)
        return found

    def _read(self, width: int, at: Integers) -> Integers:
        return self._views[width][np.minimum(at, self.size)].astype(np.int64)
