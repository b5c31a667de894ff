"""`netesto run`: a dry run first, then the ground, then the script, then what came of it."""

import argparse
import contextlib
import logging
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from netesto import log, paths, report
from netesto.cli import labs, status, tables
from netesto.cli.display import Display
from netesto.controller.controller import Controller, Ground
from netesto.controller.inventory import Inventory, load
from netesto.errors import NetestoError, ScriptError, UsageError
from netesto.lab import topology
from netesto.lab.topology import Topology
from netesto.language import ports
from netesto.language.dryrun import DryRun
from netesto.language.interpreter import Interpreter
from netesto.model import Endpoint
from netesto.report import index, page
from netesto.results import fields
from netesto.results.store import Store
from netesto.transport import client
from netesto.transport.base import Agent

# How long an agent that is up may take to answer the first call.
CONNECT_TIMEOUT_S = 5.0

# Enough bits that two runs do not share a seed, few enough to type again.
SEED_BITS = 31


@dataclass(frozen=True, slots=True)
class Script:
    """A script to run: a file, or the text of standard input."""

    name: str
    file: str
    text: str
    path: Path | None

    @classmethod
    def read(cls, name: str) -> "Script":
        """The script called `name`, "-" for standard input. UsageError if it cannot be read."""
        if name == "-":
            return cls("stdin", "<standard input>", sys.stdin.read(), None)
        path = Path(name)
        try:
            return cls(path.stem, name, path.read_text(), path)
        except OSError as error:
            raise UsageError(f"{name}: {error.strerror}") from error
        except UnicodeDecodeError:
            raise UsageError(f"{name}: not a text file (UTF-8)") from None

    def run(self, interpreter: Interpreter) -> None:
        """Interpret the script."""
        if self.path is not None:
            interpreter.run_file(self.path)
        else:
            interpreter.run_text(self.text, file=self.file)


def run(options: argparse.Namespace) -> int:
    """Run a script, or show what it would do."""
    script = Script.read(options.script)
    definitions = parse_definitions(options.definitions)
    seed = options.seed if options.seed is not None else secrets.randbits(SEED_BITS)

    def interpreter(port: ports.Port) -> Interpreter:
        return Interpreter(
            port,
            library_path=library_path(options.libraries),
            seed=seed,
            definitions=definitions,
            max_iterations=options.max_iterations,
        )

    ...


def parse_definitions(texts: Sequence[str]) -> dict[str, str]:
    """`-D name=value` as a mapping. UsageError where there is no `=`."""
    definitions = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"-D {text}: not NAME=VALUE", remedy="example: -D dur=60")
        definitions[name] = value
    return definitions


def library_path(folders: Sequence[Path]) -> list[Path]:
    """Where SOURCE looks after the script's folder and the working directory."""
    named = [Path(part) for part in os.environ.get("NETESTO_LIB", "").split(os.pathsep) if part]
    return [*folders, *named, paths.library_folder()]
