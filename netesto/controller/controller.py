"""The controller: answers the language's port by asking agents, and turns data into results."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from netesto.controller import digest, preflight, record
from netesto.controller.background import Background
from netesto.controller.experiment import Experiment
from netesto.controller.host import Connect
from netesto.controller.inventory import Inventory
from netesto.controller.observer import Observer
from netesto.controller.onfailure import CONTINUE, OnFailure
from netesto.controller.run import Run
from netesto.errors import NetestoError, Place, ScriptError, StoppedError, WorldError
from netesto.language import ports
from netesto.results import derive, manifest
from netesto.results.evidence import OK
from netesto.results.fields import Fields
from netesto.results.manifest import PathRecord
from netesto.results.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Where a run happens, as its results tell it: the kind, the lab's drawing, its paths."""

    kind: str
    topology: str = ""
    paths: tuple[PathRecord, ...] = ()


class Controller:
    """Satisfies language.ports.Port. Its methods run in the script's thread.

    Use it with `with`: leaving it lets every agent go, and each puts its host back.
    `fields` are the columns of exp.csv, `claimable` what ASSERT may speak of.
    `render` makes the page of an experiment's folder, `index` that of the results folder. `name`
    is the run's, `script` the script's. With `resume`, SWEEP cells that an earlier run of the
    script finished well in this results folder are passed over. `on_failure` says what becomes of
    the run when something measured fails; StoppedError ends it.
    """

    def __init__(
        self,
        *,
        inventory: Inventory,
        store: Store,
        fields: Fields,
        claimable: Fields,
        connect: Connect,
        observer: Observer,
        render: Callable[[Path], None],
        index: Callable[[Path], None],
        name: str,
        ground: Ground,
        script: str = "",
        resume: bool = False,
        family: int = 4,
        on_failure: OnFailure = CONTINUE,
    ) -> None:
        self.failures: list[str] = []
        self._on_failure = on_failure
        # The part of the script that runs, which attempt it is, and what had failed before it.
        self._part = ""
        self._attempts = 1
        self._failures_before = 0
        self._store = store
        self._fields = fields
        self._claimable = claimable
        self._observer = observer
        self._render = render
        self._index = index
        self._name = name
        self._script = script
        self._resume = resume
        # The experiments of the part that runs: number, SWEEP cell, and whether all was well.
        self._measured: list[tuple[int, Mapping[str, str], bool]] = []
        self._family = family
        self._inventory = inventory
        self._ground = ground
        self._background = Background()
        self._never = threading.Event()
        self._run = Run(
            inventory=inventory,
            store=store,
            connect=connect,
            observer=observer,
            family=family,
            name=name,
            ground=ground.kind,
        )

    def __enter__(self) -> Self:
        self._background.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._background.call(self._run.close_all())
        finally:
            self._background.__exit__(kind, error, traceback)

    # ---- before the script ---------------------------------------------------------------

    def open_hosts(self) -> None:
        """Hold every host of the inventory. AgentError names what cannot be reached or is held."""
        self._background.call(self._run.open_all())

    def check_ready(
        self,
        commands: Sequence[ports.RemoteCommand],
        requirements: Sequence[ports.Requirement] = (),
    ) -> None:
        """Refuse, before any traffic, what a dry run's commands and REQUIREs need and hosts lack.

        MissingError tells all of it at once.
        """
        names = preflight.host_names(commands)
        for name in names:
            self._background.call(self._run.host(name))
        infos = {name: host.info for name, host in self._run.hosts.items()}
        preflight.check(commands, self._inventory, infos, requirements, family=self._family)

    # ---- language.ports.Port -------------------------------------------------------------

    def next_experiment(self) -> int:
        return self._store.next_counter()

    def previous_experiment(self) -> int:
        return self._store.counter()

    def round_counter(self) -> None:
        self._store.round_counter()

    def remote(self, command: ports.RemoteCommand) -> None:
        try:
            self._background.call(self._run.carry_out(command))
        except WorldError as error:
            error.message = f"{error.message} (asked at {command.place})"
            raise

    def lab(self, request: ports.LabRequest) -> None:
        """The lab was built, or the inventory read, before the script began."""

    def require(self, requirements: Sequence[ports.Requirement]) -> None:
        """`check_ready` has looked at them."""

    def wait(self, seconds: float) -> None:
        if seconds > 0:
            self._observer.doing(f"waiting {seconds:.3g} s")
            self._never.wait(seconds)

    def random_wait(self, seconds: float, *, mean_s: float) -> None:
        del mean_s
        self.wait(seconds)

    def wait_flows(self, exp: int, timeout_s: float | None) -> None:
        self._background.call(self._run.wait_flows(exp, timeout_s))

    def start_flows(self, lead_s: float) -> None:
        self._background.call(self._run.start_held(lead_s))

    def need_column(self, name: str, place: Place, *, factor: bool) -> None:
        """A dry run has looked at it."""

    def process_experiment(self, exp: int, notes: ports.ExperimentNotes) -> Mapping[str, str]:
        experiment = self._run.experiments.get(exp)
        if experiment is None:
            raise ScriptError(
                f"there is no experiment {exp} to process",
                remedy="PROCESS_EXP comes after the DO_SERVER and DO_CLIENT of its experiment",
            )
        self._background.call(self._run.fetch_rest(experiment))
        columns = self._process(experiment, notes)
        self._stop_at_failure()
        return columns

    def claim(self, claim: ports.Claim) -> None:
        """The language judges it here: the values are known."""

    def assert_failed(self, message: str, place: Place) -> None:
        self.failures.append(f"{place.file}:{place.line}: {message}")
        self._observer.warn(f"{place.file}:{place.line}: assertion failed: {message}")
        self._stop_at_failure()

    def _stop_at_failure(self) -> None:
        if self.failures and self._on_failure.stops:
            raise StoppedError(f"the run ends here: {self.failures[-1]}")

    def is_cell_done(self, cell: Mapping[str, str]) -> bool:
        return self._resume and self._store.finished_cell(self._script, cell) is not None

    def cell_finished(self, cell: Mapping[str, str]) -> None:
        # Those of cells within this one are its own, too.
        own = [each for each in self._measured if cell.items() <= each[1].items()]
        if all(is_well for _, _, is_well in own):
            self._store.note_cell(self._script, cell, [exp for exp, _, _ in own])

    def enter_part(self, name: str, cell: Mapping[str, str]) -> None:
        del cell
        self._measured.clear()
        self._part, self._failures_before = name, len(self.failures)

    def leave_part(self, *, whole: bool) -> bool:
        failures = self.failures[self._failures_before :]
        if not whole or not failures or self._attempts > self._on_failure.retries:
            self._attempts = 1
            return False
        self._attempts += 1
        del self.failures[self._failures_before :]
        self._observer.warn(f"{self._part}: {'; '.join(failures)}; running it again")
        return True

    def echo(self, text: str) -> None:
        self._observer.echo(text)

    def warn(self, message: str, place: Place) -> None:
        """The rehearsal has told it."""

    # ---- results -------------------------------------------------------------------------

    @property
    def has_open_experiments(self) -> bool:
        """True while an experiment has begun and is not processed."""
        return bool(self._run.experiments)

    def interrupt(self, reason: str, notes: ports.ExperimentNotes) -> None:
        """End everything now and keep what was measured: each open experiment stays partial."""
        self._background.call(self._run.abort())
        for experiment in list(self._run.experiments.values()):
            experiment.reasons.append(reason)
            try:
                self._background.call(self._run.fetch_rest(experiment))
                self._process(experiment, notes)
            except NetestoError as error:
                self._observer.warn(f"experiment {experiment.exp}: {error.message}")

    def _process(self, experiment: Experiment, notes: ports.ExperimentNotes) -> Mapping[str, str]:
        self._observer.doing("results")
        folder = experiment.folder
        asked = record.manifest(
            experiment,
            self._run.known_hosts,
            run=self._name,
            ground=self._ground.kind,
            topology=self._ground.topology,
            paths=self._ground.paths,
            description=notes.description,
            columns=_columns(notes),
            ended_s=self._run.clock.now(),
        )
        evidence = digest.evidence(folder, asked)
        found = record.with_evidence(asked, evidence)
        for text in record.doubts(evidence):
            self._observer.warn(f"experiment {asked.exp}: {text}")
        manifest.write(found, folder / manifest.NAME)
        rows = derive.derive(folder, evidence, found, self._fields, self._claimable)
        self._render(folder)
        del self._run.experiments[experiment.exp]
        whole = self._store.complete(experiment.exp)
        self._store.append(rows)
        self._index(self._store.folder)
        self._measured.append((experiment.exp, notes.cell, found.status == OK))
        if found.status != OK:
            self.failures.append(f"experiment {experiment.exp}: {found.status}")
        self._observer.experiment_ended(experiment.exp, found.status, rows, str(whole / "exp.html"))
        if self._claimable.names == self._fields.names:
            return rows[0]
        return derive.aggregate_row(evidence, found, self._claimable)


def _columns(notes: ports.ExperimentNotes) -> dict[str, str]:
    """What the script says the columns are: OTHER, the factors of a SWEEP, and its repetition."""
    repetition = {"rep": notes.cell["rep"]} if "rep" in notes.cell else {}
    return {**notes.columns, **repetition}
