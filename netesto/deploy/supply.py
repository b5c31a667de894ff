"""Packages for hosts of another kind than this machine: downloaded here, for all of them once.

A controller has a package index more often than its hosts have.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

from netesto.deploy import payload, plan
from netesto.deploy.facts import Facts
from netesto.deploy.payload import Packages
from netesto.deploy.plan import WantedHost
from netesto.errors import AgentError, ProcessError

Say: TypeAlias = Callable[[str], None]
Kept: TypeAlias = Callable[[str, str, Say], Awaitable[list[Packages]]]


class Supply:
    """What hosts are to have, with packages that fit each. `say` is told of downloads."""

    def __init__(self, wanted: WantedHost, say: Say, *, kept: Kept = payload.cached) -> None:
        self._wanted = wanted
        self._say = say
        self._download = kept
        # Why packages for a kind of host cannot be downloaded.
        self._failed: dict[str, str] = {}
        # The first host of a kind downloads, the others find what it got.
        self._lock = asyncio.Lock()

    async def to(self, facts: Facts) -> WantedHost:
        """What this host is to have. AgentError if no pip is of use, here or there."""
        async with self._lock:
            wanted = self._wanted
            if wanted.offline or not _is_known(facts) or plan.has_packages(facts, wanted):
                return wanted
            kind = f"Python {facts.python_version} on {facts.machine}"
            if kind not in self._failed:
                try:
                    found = await self._download(facts.python_version, facts.machine, self._say)
                except ProcessError as error:
                    self._failed[kind] = error.message
                else:
                    self._wanted = replace(wanted, packages=[*wanted.packages, *found])
                    return self._wanted
            if facts.pip:
                return wanted
            raise AgentError(
                f"no packages for {kind}, no pip there, and here {self._failed[kind]}",
                remedy=plan.bundle(facts),
            )


def _is_known(facts: Facts) -> bool:
    """Whether there are wheels for such hosts."""
    return facts.python != "" and facts.libc.startswith("glibc-")
