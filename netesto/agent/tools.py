"""What this machine can do: its traffic tools, each asked for its version, and its kernel."""

import asyncio
import contextlib
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from netesto.collectors import capabilities
from netesto.collectors.capabilities import Capabilities
from netesto.errors import MissingError, OutputError, ProcessError
from netesto.system import process
from netesto.traffic.base import Tool

# Controllers wait 5 s for an agent's report on its host (run.agents), even if two tools hang.
_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class InstalledTool:
    """A tool of this machine. `extras`: what this version can do and not all versions can."""

    version: str
    extras: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Abilities:
    """The installed tools by name, and what the kernel can do. `programs`: the files of all known
    tools at that time; `broken`: why an installed tool is not in `tools`."""

    tools: Mapping[str, InstalledTool]
    kernel: Capabilities
    programs: Sequence[int] = ()
    broken: Mapping[str, str] = field(default_factory=dict)


def abilities(known: Mapping[str, Tool]) -> Abilities:
    """What this machine can do with those of the `known` tools that are installed."""
    programs = _programs(known.values())
    tools, broken = {}, {}
    for (name, tool), is_there in zip(known.items(), programs, strict=True):
        try:
            tools[name] = _installed(tool)
        except (ProcessError, OutputError) as error:
            if is_there:
                broken[name] = str(error)
    return Abilities(tools, capabilities.probe(), programs, broken)


def versions(known: Mapping[str, Tool]) -> dict[str, str]:
    """The versions of those of the `known` tools that work on this machine."""
    found = {}
    for name, tool in known.items():
        with contextlib.suppress(ProcessError, OutputError):
            found[name] = tool.parse_version(_printed(tool.version_command()))
    return found


class Tools:
    """The installed tools among `known`, and the kernel they use. If their capabilities are not
    `found` yet, the first call determines them for all later ones."""

    def __init__(self, known: Mapping[str, Tool], found: Abilities | None = None) -> None:
        self._tools = known
        self._abilities = found
        self._search: asyncio.Task[Abilities] | None = None

    async def current(self) -> Abilities:
        """What this machine can do now: tools may have been installed, or replaced."""
        if self._abilities is None or self._abilities.programs != _programs(self._tools.values()):
            if self._search is None or self._search.done():
                self._search = asyncio.create_task(self._find_out())
            return await asyncio.shield(self._search)
        return self._abilities

    async def _find_out(self) -> Abilities:
        self._abilities = await asyncio.to_thread(abilities, self._tools)
        return self._abilities

    async def get(self, name: str) -> tuple[Tool, str]:
        """The driver for the installed version of the tool, and that version. MissingError if the
        tool is unknown; a tool that is not installed has no version, and fails when it is
        started."""
        tool = self._tools.get(name)
        if tool is None:
            raise MissingError(f"{name}: no such traffic tool")
        installed = (self._abilities or await self.current()).tools.get(name)
        return (tool.for_version(installed.version), installed.version) if installed else (tool, "")


def _programs(tools: Iterable[Tool]) -> list[int]:
    """When the file of each tool was changed, in ns; 0 where there is none."""
    paths = [shutil.which(tool.version_command()[0]) for tool in tools]
    return [Path(path).stat().st_ctime_ns if path else 0 for path in paths]


def _installed(tool: Tool) -> InstalledTool:
    version = tool.parse_version(_printed(tool.version_command()))
    text = _printed(tool.help_command()) if tool.extras else ""
    return InstalledTool(
        version, tuple(key for key in tool.extras if tool.extras[key].search(text))
    )


def _printed(argv: Sequence[str]) -> str:
    finished = process.run(argv, timeout=_TIMEOUT_S, check=False)
    return finished.stdout + finished.stderr
