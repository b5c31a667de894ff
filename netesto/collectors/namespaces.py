"""Reads from other network namespaces, in a thread that enters one and ends."""

import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")

# <sched.h>
_CLONE_NEWNET = 0x40000000

# Named network namespaces: ip-netns(8).
FOLDER = Path("/run/netns")


def within(namespace: str, look: Callable[[], Found]) -> Found:
    """The result of `look` in a named network namespace. OSError from `look`, or from entering
    it."""
    found: list[Found] = []
    faults: list[OSError] = []

    def enter() -> None:
        try:
            _enter(FOLDER / namespace)
            found.append(look())
        except OSError as error:
            faults.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if faults:
        raise faults[0]
    return found[0]


def _enter(namespace: Path) -> None:
    # os.setns is in Python 3.12.
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(descriptor, _CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(namespace))
    finally:
        os.close(descriptor)
