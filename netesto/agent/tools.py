"""The traffic tools of this host, found by asking each for its version once."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from netesto import process
from netesto.errors import MissingError, OutputError, ProcessError
from netesto.traffic.base import Tool

_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class _Installed:
    """A tool that was found; without a version it was not."""

    version: str
    extras: tuple[str, ...] = ()


class Tools:
    """The installed ones of `known`. The first call asks all of them at the same time."""

    def __init__(self, known: Mapping[str, Tool]) -> None:
        self._known = known
        self._asked: asyncio.Task[dict[str, _Installed]] | None = None

    async def versions(self) -> dict[str, str]:
        """The versions of the installed tools, by name."""
        return {name: found.version for name, found in (await self._installed()).items()}

    async def extras(self) -> tuple[str, ...]:
        """What the installed versions can do and not all versions can: `TOOL OPTION`."""
        installed = await self._installed()
        return tuple(f"{name} {each}" for name, found in installed.items() for each in found.extras)

    async def version(self, name: str) -> str:
        """The version of a tool, "" if it is not installed."""
        return (await self.versions()).get(name, "")

    async def get(self, name: str) -> Tool:
        """The tool as its installed version needs it. MissingError if the tool is unknown; one that
        is not installed fails when it is started."""
        tool = self._known.get(name)
        if tool is None:
            raise MissingError(f"{name}: no such traffic tool")
        version = await self.version(name)
        return tool.for_version(version) if version else tool

    async def _installed(self) -> dict[str, _Installed]:
        if self._asked is None:
            self._asked = asyncio.create_task(self._ask())
        return await asyncio.shield(self._asked)

    async def _ask(self) -> dict[str, _Installed]:
        found = await asyncio.gather(*map(_look, self._known.values()))
        return {name: each for name, each in zip(self._known, found, strict=True) if each.version}


async def _look(tool: Tool) -> _Installed:
    try:
        version = tool.parse_version(await _printed(tool.version_command()))
        text = await _printed(tool.help_command()) if tool.extras else ""
    except (ProcessError, OutputError):
        return _Installed("")
    return _Installed(version, tuple(key for key in tool.extras if tool.extras[key].search(text)))


async def _printed(argv: Sequence[str]) -> str:
    finished = await process.run_async(argv, timeout=_TIMEOUT_S, check=False)
    return finished.stdout + finished.stderr
