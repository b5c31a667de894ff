"""Where a test that kills or interrupts whole runs starts netesto."""

import contextlib
import csv
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from needs import kernel_or_reason
from whole_runs import command

from netesto.system import process

# Longer than any working start takes.
PATIENCE_S = 400

# Whoever starts a guest does the same for both kernels: the story of the one for real time takes
# as long again.
UML = pytest.param("uml", marks=[pytest.mark.uml, pytest.mark.thorough])
SIM = pytest.param("sim", marks=pytest.mark.sim)
LAB = pytest.param("lab", marks=pytest.mark.lab)

GUESTS = [SIM, UML]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a test runs netesto: a ground, a results folder, and a folder for temporary files."""

    ground: str
    folder: Path
    temporary: Path

    @property
    def out(self) -> Path:
        # The starter of guests lets a command write where it was started, if that is its name.
        return self.folder / "results"

    @property
    def commands(self) -> Path:
        """The commands that scripts may run."""
        return self.folder / "commands.toml"

    @property
    def output(self) -> Path:
        """What the last run printed."""
        return self.folder / "output"

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "TMPDIR": str(self.temporary)}

    def words(self, script: str, *, draws: bool = False) -> list[str]:
        """The command line that runs a script's text here, with a time limit."""
        path = self.folder / "script.nts"
        path.write_text(script)
        # What this machine does besides may slow a lab down; that is not what is asked here.
        options = ["--force", "--plain", "--ground", self.ground, "--seed", "1"]
        options += [] if draws else ["--no-pages"]
        if "DO_COMMAND" in script:
            options += ["--commands", str(self.commands)]
        bound = ("--max-wall", str(PATIENCE_S))
        return command("run", *options, *bound, "--out", str(self.out), str(path))

    def netesto(self, argv: list[str]) -> int:
        """The exit status of a command in the results folder; what it prints is in `output`."""
        self.output.write_text("")
        self.out.mkdir(exist_ok=True)
        with process.background(
            argv, stdout=self.output, env=self.environment, cwd=self.out
        ) as child:
            return child.wait(PATIENCE_S)

    @contextlib.contextmanager
    def running(self, script: str, text: str) -> Iterator[process.Child]:
        """The script's run, once it has printed `text`."""
        self.output.write_text("")
        # Runs in a lab that draw are interrupted in test_system_instants.
        with process.background(
            self.words(script, draws=self.ground != "lab"),
            stdout=self.output,
            env=self.environment,
            ready=lambda: text in self.output.read_text(),
            timeout=PATIENCE_S,
        ) as run:
            yield run

    @property
    def statuses(self) -> list[str]:
        """The rows of exp.csv."""
        with (self.out / "exp.csv").open(newline="") as file:
            return [row["status"] for row in csv.DictReader(file)]

    @property
    def experiments(self) -> list[str]:
        """The folders of experiments."""
        return sorted(path.name for path in self.out.iterdir() if path.name[0].isdecimal())


@contextlib.contextmanager
def place_on(ground: str, factory: pytest.TempPathFactory) -> Iterator[Place]:
    # pytest's own folders have names too long for a socket's path.
    with tempfile.TemporaryDirectory(prefix="netesto-test-") as temporary:
        yield Place(ground, factory.mktemp(ground), Path(temporary))


def skip_unless_possible(ground: str, lab_obstacle: str) -> None:
    if ground != "lab":
        kernel_or_reason("sim" if ground == "sim" else "uml")
    elif lab_obstacle:
        pytest.skip(f"lab: {lab_obstacle}")
