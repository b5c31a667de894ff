"""What this machine can do: its traffic tools, each asked for its version once, and its kernel."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from netesto import process
from netesto.collectors import capabilities
from netesto.collectors.capabilities import Capabilities
from netesto.errors import MissingError, OutputError, ProcessError
from netesto.traffic.base import Tool

log = logging.getLogger(__name__)

_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Installed:
    """A tool of this machine. `extras`: what this version can do and not all versions can."""

    version: str
    extras: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Abilities:
    """The installed tools by name, and what the kernel can do."""

    tools: Mapping[str, Installed]
    kernel: Capabilities


def abilities(known: Mapping[str, Tool]) -> Abilities:
    """What this machine can do with those of the `known` tools that are installed."""
    kernel = capabilities.probe()
    if kernel.unknown:
        log.warning("qdiscs unknown", extra={"reason": kernel.unknown})
    found = {name: _installed(tool) for name, tool in known.items()}
    return Abilities({name: each for name, each in found.items() if each is not None}, kernel)


class Tools:
    """The installed ones of `known`, and the kernel they use. If what they can do is not `found`
    yet, the first call finds it out, for all others."""

    def __init__(self, known: Mapping[str, Tool], found: Abilities | None = None) -> None:
        self._known = known
        self._found = found
        self._asked: asyncio.Task[Abilities] | None = None

    async def found(self) -> Abilities:
        """What this machine can do."""
        if self._found is None:
            if self._asked is None:
                self._asked = asyncio.create_task(asyncio.to_thread(abilities, self._known))
            self._found = await asyncio.shield(self._asked)
        return self._found

    async def version(self, name: str) -> str:
        """The version of a tool, "" if it is not installed."""
        installed = (await self.found()).tools.get(name)
        return installed.version if installed else ""

    async def get(self, name: str) -> Tool:
        """The tool as its installed version needs it. MissingError if the tool is unknown; one that
        is not installed fails when it is started."""
        tool = self._known.get(name)
        if tool is None:
            raise MissingError(f"{name}: no such traffic tool")
        version = await self.version(name)
        return tool.for_version(version) if version else tool


def _installed(tool: Tool) -> Installed | None:
    try:
        version = tool.parse_version(_printed(tool.version_command()))
        text = _printed(tool.help_command()) if tool.extras else ""
    except (ProcessError, OutputError):
        return None
    return Installed(version, tuple(key for key in tool.extras if tool.extras[key].search(text)))


def _printed(argv: Sequence[str]) -> str:
    finished = process.run(argv, timeout=_TIMEOUT_S, check=False)
    return finished.stdout + finished.stderr
