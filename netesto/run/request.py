"""The request for a run, its policy on failures, and its watcher."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from netesto.controller.inventory import Inventory
from netesto.controller.observer import Observer
from netesto.errors import UsageError
from netesto.grounds import Ground
from netesto.language.steps import LabRequest
from netesto.run.settings import RunSettings


@dataclass(frozen=True, slots=True)
class OnFailure:
    """`--on-failure`: end the run, or repeat the part of the script up to this many times.
    Otherwise the run continues, and its exit status reports the failure. Failed experiments stay on
    disk in any case.
    """

    stops: bool = False
    retries: int = 0

    def __str__(self) -> str:
        if self.stops:
            return "stop"
        return f"retry={self.retries}" if self.retries else "continue"

    @classmethod
    def parse(cls, text: str) -> "OnFailure":
        """`stop`, `continue` or `retry=N`. UsageError for anything else."""
        kind, _, number = text.partition("=")
        if text == "stop":
            return cls(stops=True)
        if text == "continue":
            return cls()
        if kind == "retry" and number.isdecimal():
            return cls(retries=int(number))
        raise UsageError(
            f"--on-failure {text}: invalid value", remedy="Write stop, continue or retry=N."
        )


CONTINUE = OnFailure()


@dataclass(frozen=True, slots=True)
class Shown:
    """How much of a run is shown."""

    plain: bool = False
    quiet: bool = False
    debug: bool = False
    verbosity: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """The request for a run.

    `script` is a path of a script or a plan, or "-" for standard input. `hosts` are real ones,
    which get `own_agents` for this run if requested, with packages also of `bundle`; `lab` is
    built in place of the script's own, `aliases` are names in the script for hosts. `run` is the
    name of the run that has started this one (run.job), in a guest or for a part of the script.
    `wait_s` is how long hosts that are in use are waited for. `commands` is a file of those that a
    lab allows. `warnings` are about the command line. Without `pages` none are drawn, nor an index.
    `packs`: finished cells of a SWEEP are kept as one file for each experiment. `on` is the address
    of the scheduler of a cluster that carries out the parts of the script, `insecure` permits one
    that anybody can use. After `budget_s` no repetition begins that only certainty needs; until
    then they go to the cells with the widest intervals.
    """

    script: str
    settings: RunSettings
    out: Path | None = None
    fields: Path | None = None
    ground: Ground | None = None
    kernel: str | None = None
    hosts: Inventory | None = None
    own_agents: bool = False
    bundle: Path | None = None
    lab: LabRequest | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    family: int = 4
    jobs: int | None = None
    run: str = ""
    resume: bool = False
    on_failure: OnFailure = CONTINUE
    agreed: bool = False
    force: bool = False
    wait_s: float | None = None
    max_wall_s: float | None = None
    commands: Path | None = None
    max_stall_s: float | None = None
    shown: Shown = Shown()
    pages: bool = True
    packs: bool = False
    on: str = ""
    budget_s: float | None = None
    insecure: bool = False
    warnings: tuple[str, ...] = ()


class Watcher(Observer, Protocol):
    """A person at a terminal, or a log."""

    @property
    def experiments(self) -> Sequence[int]:
        """The numbers of those that have ended."""

    @property
    def differences(self) -> Sequence[str]:
        """The differences left on hosts."""

    def start(self) -> None:
        """Begin to show events as they happen."""

    def stop(self) -> None:
        """Stop showing events."""

    def error(self, text: str) -> None:
        """An error that ended the run."""

    def agrees(self, question: str) -> bool:
        """The answer to a question; True without a terminal."""

    def expect(self, *, experiments: int, seconds: float) -> None:
        """The number of experiments, and the estimated duration of the run."""

    def parts(self, running: Sequence[str], *, done: int, of: int, left_s: float | None) -> None:
        """The number of parts that run side by side now, and how many have ended."""
