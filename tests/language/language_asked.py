"""A port that keeps what it was asked, and how a test runs a script on it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from netesto.errors import Place, ScriptError
from netesto.language import ports
from netesto.language.counter import rounded_counter
from netesto.language.interpreter import Interpreter

LIBRARY = Path(__file__).parents[2] / "lib"


class Asked:
    """A port that takes everything and keeps it; `columns` is what PROCESS_EXP gives back."""

    def __init__(self, columns: Mapping[str, str] | None = None, counter: int = 0) -> None:
        self.commands: list[ports.RemoteCommand] = []
        self.echoed: list[str] = []
        self.waited: list[Any] = []
        self.warned: list[str] = []
        self.failed: list[str] = []
        self.processed: list[tuple[int, ports.ExperimentNotes]] = []
        self.flows: list[tuple[str, float | None]] = []
        self.labs: list[ports.LabRequest] = []
        self.required: list[tuple[str, str, str]] = []
        self.finished: list[Mapping[str, str]] = []
        self.done: list[Mapping[str, str]] = []
        self.parts: list[str] = []
        self.named: list[tuple[str, bool]] = []
        # What it answers when parts end: whether to run them again.
        self.again: list[bool] = []
        self.columns = columns or {}
        self.counter = counter
        self.error: ScriptError | None = None

    @property
    def sent(self) -> list[str]:
        """Commands with the words that matter in most tests."""
        return [f"{each.name} {each.host} exp={each.exp}" for each in self.commands]

    @property
    def message(self) -> str:
        """What the script failed with, and where."""
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

    def remote(self, command: ports.RemoteCommand) -> None:
        self.commands.append(command)

    def lab(self, request: ports.LabRequest) -> None:
        self.labs.append(request)

    def require(self, requirements: Sequence[ports.Requirement]) -> None:
        self.required += [(each.what, each.operator, each.value) for each in requirements]

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)

    def random_wait(self, seconds: float, *, mean_s: float) -> None:
        self.waited.append((seconds, mean_s))

    def wait_flows(self, exp: int, timeout_s: float | None) -> None:
        self.flows.append((f"wait {exp}", timeout_s))

    def start_flows(self, lead_s: float) -> None:
        self.flows.append(("start", lead_s))

    def process_experiment(self, exp: int, notes: ports.ExperimentNotes) -> Mapping[str, str]:
        self.processed.append((exp, notes))
        return self.columns

    def need_column(self, name: str, place: Place, *, factor: bool) -> None:
        self.named.append((f"{place.line}:{place.column} {name}", factor))

    def claim(self, claim: ports.Claim) -> None:
        raise AssertionError("here columns have values")

    def assert_failed(self, message: str, place: Place) -> None:
        self.failed.append(f"{place.line}: {message}")

    def is_cell_done(self, cell: Mapping[str, str]) -> bool:
        return cell in self.done

    def cell_finished(self, cell: Mapping[str, str]) -> None:
        self.finished.append(cell)

    def enter_part(self, name: str, cell: Mapping[str, str]) -> None:
        self.parts.append(name)

    def leave_part(self, *, whole: bool) -> bool:
        self.parts.append("whole" if whole else "broken off")
        return self.again.pop(0) if self.again else False

    def echo(self, text: str) -> None:
        self.echoed.append(text)

    def warn(self, message: str, place: Place) -> None:
        self.warned.append(f"{place.line}: {message}")


def run(text: str, port: Any, **options: Any) -> Interpreter:
    """Run a text on a port; a ScriptError is kept in `port.error`."""
    given: dict[str, Any] = {"library_path": [LIBRARY], "seed": 1, "definitions": {}} | options
    interpreter = Interpreter(port, **given)
    try:
        interpreter.run_text(text, "test.nts")
    except ScriptError as error:
        port.error = error
    return interpreter
