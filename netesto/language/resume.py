"""What a script claims of SWEEP cells that are passed over: judged again, from earlier results."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from netesto.errors import Place
from netesto.language import ports
from netesto.language.dryrun import DryRun

# The columns of the experiments that an earlier run finished a cell with, in their order; None for
# a cell that is still to be run.
Earlier: TypeAlias = Callable[[Mapping[str, str]], Sequence[Mapping[str, str]] | None]


@dataclass(frozen=True, slots=True)
class PassedCell:
    """A cell that is passed over, the claims that are false of what was measured in it, and the
    flows that the script asks for there now."""

    cell: Mapping[str, str]
    failures: list[str] = field(default_factory=list)
    flows: list[ports.DoClient] = field(default_factory=list, compare=False)

    @property
    def name(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.cell.items())


class PassedOver(DryRun):
    """A dry run in which experiments of cells that are passed over have the columns that they were
    measured with, and others none; so only what is claimed of the former is judged."""

    def __init__(self, earlier: Earlier) -> None:
        super().__init__()
        self.cells: list[PassedCell] = []
        self._earlier = earlier
        self._current: PassedCell | None = None
        self._columns: Iterator[Mapping[str, str]] = iter(())
        # Whose experiment was processed last: claims behind a cell are about it, too.
        self._processed: PassedCell | None = None

    def is_cell_done(self, cell: Mapping[str, str]) -> bool:
        """Its body is interpreted; a cell within one that is passed over belongs to that."""
        if self._current is None:
            columns = self._earlier(cell)
            if columns is not None:
                self._current, self._columns = PassedCell(dict(cell)), iter(columns)
                self.cells.append(self._current)
        return False

    def cell_finished(self, cell: Mapping[str, str]) -> None:
        if self._current is not None and self._current.cell == cell:
            self._current = None

    def remote(self, command: ports.RemoteCommand) -> None:
        super().remote(command)
        if self._current is not None and isinstance(command, ports.DoClient):
            self._current.flows.append(command)

    def process_experiment(
        self, exp: int, notes: ports.ExperimentNotes
    ) -> Mapping[str, str] | ports.Expected:
        super().process_experiment(exp, notes)
        self._processed = self._current
        return {} if self._current is None else next(self._columns, {})

    def assert_failed(self, message: str, place: Place) -> None:
        assert self._processed is not None, "only what was measured has columns"
        self._processed.failures.append(f"{place.file}:{place.line}: {message}")
