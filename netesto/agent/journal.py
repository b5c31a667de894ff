"""What was changed on this host and how to undo it, on disk before the change is made.

One JSON object a line, only ever appended, so that a kill at any instant leaves it readable:

    {"change": 3, "what": "sysctl …", "boot": "…", "namespace": 4026531840, "undo": [[…], …]}
    {"undone": 3}
    {"life": "5e0f…", "boot": "…"}    processes of this agent carry NETESTO_LIFE=5e0f… (leftovers)

Changes of another boot are gone with it, and those in another network namespace cannot be undone
from here: both are ignored.
"""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeAlias

from netesto import proc


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


@dataclass(frozen=True, slots=True)
class Ground:
    """Where a change is true: this boot of the kernel, this network namespace."""

    boot: str
    namespace: int

    @classmethod
    def here(cls) -> Self:
        return cls(proc.boot_id(), Path("/proc/self/ns/net").stat().st_ino)


@dataclass(frozen=True, slots=True)
class Change:
    """A change to be undone by these steps."""

    number: int
    what: str
    undo: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Remains:
    """What a journal leaves to do: changes to undo, the last first, and lives of agents to end."""

    changes: tuple[Change, ...] = ()
    lives: tuple[str, ...] = ()
    highest_number: int = 0


class Journal:
    """The journal of one agent at `path`. At most one process has it open (recovery.claim)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ground = Ground.here()
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        self._number = replay(text.splitlines(), self._ground).highest_number
        self._file = path.open("a", encoding="utf-8")
        if text and not text.endswith("\n"):
            # End a line that a kill cut short.
            self._file.write("\n")

    def close(self) -> None:
        """Close it, and empty it if nothing is left to undo."""
        if self.remains() == Remains(highest_number=self._number):
            self._file.truncate(0)
        self._file.close()

    def begin(self, what: str, undo: Sequence[Step]) -> int:
        """Note a change before it is made; its number. On return it is on disk."""
        self._number += 1
        entry = {
            "change": self._number,
            "what": what,
            "boot": self._ground.boot,
            "namespace": self._ground.namespace,
            "undo": [_as_json(step) for step in undo],
        }
        self._append(entry)
        return self._number

    def undone(self, number: int) -> None:
        """Note that a change is undone, or was not made."""
        self._append({"undone": number})

    def live(self, life: str) -> None:
        """Note the mark that this agent's processes will carry."""
        self._append({"life": life, "boot": self._ground.boot})

    def ended(self, life: str) -> None:
        """Note that no process of this life is left."""
        self._append({"ended": life})

    def remains(self) -> Remains:
        """What is left to undo and to end here."""
        return replay(self._path.read_text(errors="replace").splitlines(), self._ground)

    def _append(self, entry: dict[str, object]) -> None:
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def replay(lines: Iterable[str], ground: Ground) -> Remains:
    """What a journal's lines leave to do on this ground.

    A line that a kill cut short was not on disk, so its change was not made.
    """
    changes: dict[int, Change] = {}
    lives: dict[str, None] = {}
    highest = 0
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        match entry:
            case {"change": int(number), "what": str(what), "undo": list(undo)}:
                highest = max(highest, number)
                if Ground(entry.get("boot", ""), entry.get("namespace", 0)) == ground:
                    changes[number] = Change(number, what, tuple(map(_as_step, undo)))
            case {"undone": int(number)}:
                changes.pop(number, None)
            case {"life": str(life), "boot": str(boot)} if boot == ground.boot:
                lives[life] = None
            case {"ended": str(life)}:
                lives.pop(life, None)
    return Remains(tuple(reversed(changes.values())), tuple(lives), highest)


def _as_json(step: Step) -> list[str]:
    match step:
        case Write(path, text):
            return ["write", path, text]
        case Run(argv):
            return ["run", *argv]


def _as_step(words: list[str]) -> Step:
    match words:
        case ["write", path, text]:
            return Write(path, text)
        case ["run", *argv]:
            return Run(tuple(argv))
        case _:
            raise ValueError(f"unknown step in a journal: {words}")
