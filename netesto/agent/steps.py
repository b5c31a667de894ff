"""The steps that change a host, as values of the journal, and how they are carried out."""

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from netesto.agent import asking
from netesto.schema import tagged
from netesto.system import process

_SYSCTLS = "/proc/sys/"


@dataclass(frozen=True, slots=True)
class Write:
    """Write `text` to a file of the kernel."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Run:
    """Run a command to its end."""

    argv: tuple[str, ...]


Step: TypeAlias = Write | Run

KINDS: Mapping[str, type[Step]] = tagged.kinds(Write, Run)


async def do(step: Step) -> None:
    """ProcessError or OSError if it fails."""
    match step:
        case Write(path, text):
            _write(Path(path), text)
        case Run(argv):
            await process.run_async(argv, timeout=asking.TIMEOUT_S)


def words(step: Step) -> str:
    """A step as a command of a shell."""
    match step:
        case Write(path, text) if path.startswith(_SYSCTLS):
            name = path.removeprefix(_SYSCTLS).replace("/", ".")
            return shlex.join(("sysctl", "-w", f"{name}={text}"))
        case Write(path, text):
            return f"echo {shlex.quote(text)} > {shlex.quote(path)}"
        case Run(argv):
            return shlex.join(argv)


def at(device: str, step: Step) -> Step:
    """The step, for the name that its interface has now."""
    if isinstance(step, Run) and "dev" in step.argv:
        behind = step.argv.index("dev") + 1
        return Run((*step.argv[:behind], device, *step.argv[behind + 1 :]))
    if isinstance(step, Run) and step.argv[:2] == ("ethtool", "-K"):
        return Run((*step.argv[:2], device, *step.argv[3:]))
    return step


def _write(path: Path, text: str) -> None:
    # One write: the kernel takes each as a whole value. Never creates.
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
