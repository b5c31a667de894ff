"""The traffic tools of this host, found by asking each for its version once."""

import asyncio
from collections.abc import Mapping

from netesto import process
from netesto.errors import MissingError, OutputError, ProcessError
from netesto.traffic.base import Tool

_VERSION_TIMEOUT_S = 5.0


class Tools:
    """The installed ones of `known`. The first call asks all of them at the same time."""

    def __init__(self, known: Mapping[str, Tool]) -> None:
        self._known = known
        self._asked: asyncio.Task[dict[str, str]] | None = None

    async def versions(self) -> dict[str, str]:
        """The versions of the installed tools, by name."""
        if self._asked is None:
            self._asked = asyncio.create_task(self._ask())
        return dict(await asyncio.shield(self._asked))

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

    async def _ask(self) -> dict[str, str]:
        versions = await asyncio.gather(*(_version(tool) for tool in self._known.values()))
        return {
            name: version for name, version in zip(self._known, versions, strict=True) if version
        }


async def _version(tool: Tool) -> str:
    try:
        finished = await process.run_async(
            tool.version_command(), timeout=_VERSION_TIMEOUT_S, check=False
        )
        return tool.parse_version(finished.stdout + finished.stderr)
    except (ProcessError, OutputError):
        return ""
