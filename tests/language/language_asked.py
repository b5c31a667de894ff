"""A draft of a plan that records its calls, and a way to run a script on it."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from netesto.errors import Place, ScriptError
from netesto.language import steps
from netesto.language.claims import falsehood
from netesto.language.draft import rounded_counter
from netesto.language.interpreter import Interpreter
from netesto.language.plan import Until

LIBRARY = Path(__file__).parents[2] / "lib"


class Asked:
    """A draft that takes everything and keeps it; ASSERT finds `columns`."""

    def __init__(self, columns: Mapping[str, str] | None = None, counter: int = 0) -> None:
        self.seed = 1
        self.topology_text = ""
        self.commands: list[steps.RemoteCommand] = []
        self.echoed: list[str] = []
        self.waited: list[Any] = []
        self.warned: list[str] = []
        self.failed: list[str] = []
        self.processed: list[tuple[int, steps.ExperimentNotes]] = []
        self.flows: list[tuple[str, float | None]] = []
        self.labs: list[steps.LabRequest] = []
        self.required: list[tuple[str, str, str]] = []
        self.finished: list[Mapping[str, str]] = []
        self.parts: list[str] = []
        self._cells: list[Mapping[str, str]] = []
        self._told: list[object] = []
        self.named: list[str] = []
        self.columns = columns or {}
        self.counter = counter
        self.error: ScriptError | None = None

    @property
    def sent(self) -> list[str]:
        """Commands with the words that matter in most tests."""
        return [f"{each.name} {each.host} exp={each.exp}" for each in self.commands]

    @property
    def message(self) -> str:
        """The error of the script, and its place."""
        assert self.error is not None, "the script did not fail"
        assert self.error.place is not None, "the error has no place"
        return f"{self.error.place.line}:{self.error.place.column}: {self.error.message}"

    def next_experiment(self) -> int:
        self.counter += 1
        return self.counter

    def previous_experiment(self) -> int:
        return self.counter

    def round_counter(self) -> None:
        self.counter = rounded_counter(self.counter)

    def do(self, step: steps.Step) -> None:
        match step:
            case steps.RemoteCommand():
                self.commands.append(step)
            case steps.Wait(seconds=seconds, mean_s=mean_s):
                self.waited.append(seconds if seconds == mean_s else (seconds, mean_s))
            case steps.WaitFlows(exp=exp, timeout_s=timeout_s):
                self.flows.append((f"wait {exp}", timeout_s))
            case steps.StartFlows(lead_s=lead_s):
                self.flows.append(("start", lead_s))
            case steps.ProcessExperiment(exp=exp, notes=notes):
                self.processed.append((exp, notes))
            case steps.Claim():
                if said := falsehood(step, self.columns):
                    self.failed.append(said.removeprefix("test.nts:"))
            case steps.Echo(text=text):
                self.echoed.append(text)

    def left_s(self, exp: int) -> float:
        return 0.0

    def is_idle(self) -> bool:
        return True

    def lab(self, request: steps.LabRequest) -> None:
        self.labs.append(request)

    def require(self, requirements: Sequence[steps.Requirement]) -> None:
        self.required += [(each.what, each.operator, each.value) for each in requirements]

    def need_column(self, name: str, place: Place, *, is_factor: bool = False) -> None:
        self.named.append(f"{place.line}:{place.column} {name}")

    def column_kinds(self) -> None:
        return None

    def check_means(self, names: Iterable[str]) -> None:
        """Columns are not checked."""

    def enter_part(
        self, name: str, cell: Mapping[str, str], *, attempt: int, until: Until | None = None
    ) -> None:
        self.parts.append(name)
        self._cells.append(cell)

    def end_repetition(self) -> None:
        """Repetitions are not compared."""

    def leave_part(self, *, whole: bool) -> None:
        cell = self._cells.pop()
        self.parts.append("whole" if whole else "broken off")
        if whole and cell:
            self.finished.append(cell)

    def warn(
        self, message: str, place: Place, chain: tuple[str, ...] = (), *, once: object = None
    ) -> None:
        if once is None or once not in self._told:
            self._told.append(once)
            self.warned.append(f"{place.line}: {message}")


def run(text: str, port: Any, **options: Any) -> Interpreter:
    """Run a text on a port; a ScriptError is kept in `port.error`."""
    given: dict[str, Any] = {"library_path": [LIBRARY], "definitions": {}} | options
    port.seed = given.pop("seed", 1)
    interpreter = Interpreter(port, **given)
    try:
        interpreter.run_text(text, "test.nts")
    except ScriptError as error:
        port.error = error
    return interpreter
