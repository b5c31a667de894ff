"""Changes to this host and how to undo them, on disk before each change is made.

One JSON object per line, append-only, so that a kill at any instant leaves it readable:

    {"change": 3, "setting": {"type": "Sysctl", …}, "thing": {"type": "KernelFile", …},
     "undo": [{"type": "Write", …}, …], "interface": 0, "boot": "…", "namespace": 4026531840}
    {"made": 3, "shows": "2"}         what the kernel shows of the thing since; with another value,
                                      somebody else changed it
    {"undoing": 3}                    several steps begin: it is between two states
    {"undone": 3}                     or left to somebody else, or not made at all
    {"kept": {"type": "KernelFile", …}, "boot": "…", "namespace": 4026531840}
                                      all changes of it until here stay on the host
    {"left": "sysctl …"}              a difference to report to a controller
    {"told": 1}                       a controller has the first of these
    {"life": "5e0f…", "boot": "…"}    processes of this agent carry NETESTO_LIFE=5e0f… (recovery)

Changes of another boot no longer exist, and those in another network namespace cannot be undone
from here: both are ignored. An entry that this version does not understand is kept, and reported
whenever changes are put back.

The agent reads the file once, when it starts: what it has made itself it undoes even if the file is
deleted or truncated meanwhile.
"""

import contextlib
import json
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from netesto import hostsettings
from netesto.agent import steps, things
from netesto.agent.steps import Step
from netesto.agent.things import Thing
from netesto.errors import AgentError
from netesto.files import jsontext
from netesto.hostsettings import Setting
from netesto.schema import tagged
from netesto.system import proc

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChangeScope:
    """Where a change applies: a boot of the kernel and a network namespace."""

    boot: str
    namespace: int

    @classmethod
    def here(cls) -> Self:
        return cls(proc.boot_id(), Path("/proc/thread-self/ns/net").stat().st_ino)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a `thing` by a setting, to be undone by these steps. `shows` is what the kernel
    showed after it; None if an agent was killed before, or while it undid it. `interface` is the
    index of the interface that the steps name, which may get another name; 0 if they name none."""

    number: int
    setting: Setting
    thing: Thing
    undo: tuple[Step, ...]
    shows: str | None = None
    interface: int = 0

    def is_ours(self, now: str) -> bool:
        """Whether the thing is still as this change, the last one of it, has made it."""
        return self.shows is None or self.thing.is_same(self.shows, now)


@dataclass(frozen=True, slots=True)
class Remains:
    """The remaining work of a journal: changes to undo, the last first, lives of agents to end,
    sentences for a controller, and the numbers of lines that only another version understands."""

    changes: tuple[Change, ...] = ()
    lives: tuple[str, ...] = ()
    highest_number: int = 0
    left: tuple[str, ...] = ()
    unread: tuple[int, ...] = ()


class Journal:
    """The journal of one agent at `path`. At most one process has it open (recovery.claim).

    If the disk cannot be written, no change begins (AgentError), but those made are undone: their
    state is known in memory, and on disk as soon as it can be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ground = ChangeScope.here()
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        self._entries = replay(text.splitlines(), self._ground)
        self._number = self._entries.highest
        self._file = path.open("ab", buffering=0)
        # End a line that a kill cut short.
        self._unwritten = b"\n" if text and not text.endswith("\n") else b""

    def close(self) -> None:
        """Close it, and empty it if nothing is left to undo."""
        with self._file:
            if self.remains() == Remains(highest_number=self._number):
                with contextlib.suppress(OSError):
                    self._file.truncate(0)

    def begin(
        self, setting: Setting, thing: Thing, undo: Sequence[Step], *, interface: int = 0
    ) -> int:
        """Note a change before it is made; its number. On return it is on disk, where the next
        agent finds it."""
        self._check_place()
        self._number += 1
        entry = {
            "change": self._number,
            "setting": tagged.record(setting),
            "thing": tagged.record(thing),
            "undo": [tagged.record(step) for step in undo],
            "interface": interface,
            **asdict(self._ground),
        }
        try:
            self._append(entry)
        except AgentError:
            self.undone(self._number)
            raise
        return self._number

    def note_made(self, number: int, shows: str) -> None:
        """Note what the kernel shows after a change."""
        self._note({"made": number, "shows": shows})

    def undoing(self, number: int) -> None:
        """Note that the first of several steps begins that undo a change. After a kill between
        them, the kernel shows neither what the change made nor what was before."""
        self._note({"undoing": number})

    def undone(self, number: int) -> None:
        """Note that a change is undone, was not made, or is no longer ours to undo."""
        self._note({"undone": number})

    def note_kept(self, thing: Thing) -> None:
        """Note that the current state of a thing stays on the host: no change of it is undone."""
        self._append({"kept": tagged.record(thing), **asdict(self._ground)})

    def note_left(self, sentence: str) -> None:
        """Note a difference to the state before a run, until `note_told` says that a controller has
        it."""
        self._note({"left": sentence})

    def note_told(self, count: int) -> None:
        """Note that a controller has the first `count` sentences about differences."""
        if count:
            self._note({"told": count})

    def live(self, life: str) -> None:
        """Note the mark that this agent's processes will carry."""
        self._append({"life": life, "boot": self._ground.boot})

    def ended(self, life: str) -> None:
        """Note that no process of this life is left."""
        self._note({"ended": life})

    def remains(self) -> Remains:
        """What is left to undo and to end here."""
        return self._entries.remains()

    def _check_place(self) -> None:
        """AgentError if the file at the path is no longer the open one."""
        with contextlib.suppress(OSError):
            if os.path.samestat(self._path.stat(), os.fstat(self._file.fileno())):
                return
        raise AgentError(
            f"{self._path}: another program has deleted or replaced it",
            remedy="Restart the agent: it makes a change only after it has recorded it on disk.",
        )

    def _append(self, entry: dict[str, object]) -> None:
        """AgentError if it is not on disk on return."""
        self._entries.note(entry)
        self._unwritten += json.dumps(entry).encode() + b"\n"
        try:
            while self._unwritten:
                self._unwritten = self._unwritten[self._file.write(self._unwritten) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise AgentError(
                f"{self._path}: {error.strerror}",
                remedy="The agent makes a change only after it has recorded it on disk.",
            ) from None

    def _note(self, entry: dict[str, object]) -> None:
        """Append something that has already happened: a failure of the disk must not stop anything
        else."""
        try:
            self._append(entry)
        except AgentError as error:
            log.error("journal not written", extra={"reason": error.message})  # noqa: TRY400 - the reason says it all


class Known:
    """What the entries of a journal leave to do on this ground."""

    def __init__(self, ground: ChangeScope) -> None:
        self.highest = 0
        self._ground = ground
        self._changes: dict[int, Change] = {}
        self._lives: dict[str, None] = {}
        self._differences: list[str] = []
        self._unread: list[int] = []

    def read(self, line: int, entry: Any) -> None:
        """Note an entry that an agent, perhaps of another version, has written in this line."""
        try:
            self.note(entry)
        except ValueError as error:
            if not isinstance(entry, dict) or self._may_be_here(entry):
                self._unread.append(line)
                log.error("journal not read", extra={"line": line, "reason": str(error)})  # noqa: TRY400 - the reason says it all

    def note(self, entry: Any) -> None:
        """ValueError if it is no entry of this version."""
        changes = self._changes
        match entry:
            case {"change": int(number)}:
                self.highest = max(self.highest, number)
                change = _as_change(number, entry)
                if self._is_here(entry):
                    changes[number] = change
            case {"made": int(number), "shows": str(shows)}:
                if number in changes:
                    changes[number] = replace(changes[number], shows=shows)
            case {"undoing": int(number)}:
                if number in changes:
                    changes[number] = replace(changes[number], shows=None)
            case {"undone": int(number)}:
                changes.pop(number, None)
            case {"kept": found}:
                thing = tagged.read(found, things.KINDS)
                if self._is_here(entry):
                    self._changes = {n: each for n, each in changes.items() if each.thing != thing}
            case {"left": str(sentence)}:
                self._differences.append(sentence)
            case {"told": int(count)}:
                del self._differences[: max(0, count)]
            case {"life": str(life), "boot": str(boot)}:
                if boot == self._ground.boot:
                    self._lives[life] = None
            case {"ended": str(life)}:
                self._lives.pop(life, None)
            case _:
                raise ValueError(f"{entry!r:.100} is no entry")

    def _is_here(self, entry: Mapping[str, object]) -> bool:
        here = self._ground
        return (entry.get("boot", ""), entry.get("namespace", 0)) == (here.boot, here.namespace)

    def _may_be_here(self, entry: dict[str, object]) -> bool:
        return self._is_here(asdict(self._ground) | entry)

    def remains(self) -> Remains:
        changes = tuple(reversed(self._changes.values()))
        left, unread = tuple(self._differences), tuple(self._unread)
        return Remains(changes, tuple(self._lives), self.highest, left, unread)


def replay(lines: Iterable[str], ground: ChangeScope) -> Known:
    """What a journal's lines leave to do on this ground.

    A line that a kill cut short was not on disk, so its change was not made.
    """
    known = Known(ground)
    for number, line in enumerate(lines, start=1):
        with contextlib.suppress(ValueError):
            known.read(number, jsontext.parse(line))
    return known


def _as_change(number: int, entry: Mapping[str, Any]) -> Change:
    match entry:
        case {"setting": setting, "undo": list(undo), "thing": thing, "interface": int(interface)}:
            return Change(
                number,
                hostsettings.read(setting),
                tagged.read(thing, things.KINDS),
                tuple(tagged.read(each, steps.KINDS) for each in undo),
                interface=interface,
            )
    raise ValueError(f"{entry!r:.100} is no change")
