"""The controller: makes agents execute the commands of a script, and turns data into results."""

import functools
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from netesto.controller import digest, readiness, record, waiting
from netesto.controller.background import Background
from netesto.controller.experiment import Experiment
from netesto.controller.readiness import Visited
from netesto.controller.run import RunOnHosts
from netesto.errors import NetestoError, ScriptError
from netesto.hostsettings import Command
from netesto.language import steps
from netesto.results import derive, integrity, links, manifest
from netesto.results.evidence import ExperimentEvidence
from netesto.results.fields import Fields
from netesto.results.manifest import Manifest, SettingRecord
from netesto.system import interrupts

# After a hurried request to end, pages are drawn only within this time.
PAGES_S = 2.0


@dataclass(frozen=True, slots=True)
class Processed:
    """A processed experiment: its status, and the columns that ASSERT may use."""

    exp: int
    status: str
    columns: Mapping[str, str]


class Controller:
    """Executes the commands of a run on its hosts. Methods return when the work is done.

    Use it with `with`: leaving it releases every agent, and each puts its host back.
    `fields` are the columns of exp.csv, `claimable` those that ASSERT may use.
    `render` makes the page of an experiment's folder, `index` that of the results folder.
    """

    def __init__(
        self,
        run: RunOnHosts,
        *,
        fields: Fields,
        claimable: Fields,
        render: Callable[[Path], None],
        index: Callable[[Path], None],
    ) -> None:
        self._run = run
        self._fields = fields
        self._claimable = claimable
        self._render = render
        self._index = index
        self._background = Background()
        # Commands in progress while the script continues.
        self._running: list[Future[None]] = []
        # How many settings of each host are in manifests.
        self._recorded: dict[str, int] = {}
        self._never = threading.Event()
        # The instant from which the next WAIT counts; None: from then on.
        self._since_s: float | None = None

    def __enter__(self) -> Self:
        self._background.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        try:
            if error[0] is None:
                self._settle()
        finally:
            try:
                self._background.call(self._run.close_all())
            finally:
                self._background.__exit__(*error)

    # ---- before the script ---------------------------------------------------------------

    def open_hosts(
        self,
        commands: Sequence[steps.RemoteCommand],
        requirements: Sequence[steps.Requirement] = (),
        *,
        wait_s: float | None = None,
    ) -> None:
        """Hold every host of the inventory, and report, before any traffic, all problems of hosts
        and what the commands and REQUIREs lack there. Wait this long for hosts in use (None: do not
        wait).

        WorldError lists everything at once. The hosts of a lab need no check.
        """
        hosts = self._run.hosts
        if not self._run.ground.is_built:
            if wait_s is not None:
                self._background.call(
                    waiting.until_held(hosts, self._run.observer, timeout_s=wait_s)
                )
            peers = functools.partial(readiness.peers, commands=commands, family=self._run.family)
            opened = self._background.call(hosts.open_and_examine(peers))
        else:
            self._background.call(hosts.open_all())
            opened = [
                Visited(endpoint=host.endpoint, info=host.info) for host in hosts.held.values()
            ]
        found = readiness.problems(
            opened, hosts.inventory, commands, requirements, family=self._run.family
        )
        for text in readiness.texts(each for each in found if each.severity == "warning"):
            self._run.observer.warn(text)
        readiness.refuse(found)

    # ---- steps of a script ---------------------------------------------------------------

    def remote(self, command: steps.RemoteCommand) -> None:
        """Send a command to its agent. Returns as soon as the agent has accepted it.

        Commands that only prepare flows return at once, so that many hosts are prepared at the same
        time. The next command waits for them, and raises the error of the first that failed.
        """
        is_setting = isinstance(command, steps.Configure) and not any(
            isinstance(each, Command) for each in command.settings
        )
        if not is_setting:
            self._since_s = None
        if isinstance(command, steps.DoServer) or (
            isinstance(command, steps.DoClient) and command.hold
        ):
            self._running.append(self._background.begin(self._run.carry_out(command)))
            return
        self._settle()
        self._background.call(self._run.carry_out(command))

    def _settle(self) -> None:
        """Wait for the commands in progress."""
        begun, self._running = self._running, []
        try:
            for future in begun:
                future.result()
        except BaseException:
            self._background.cancel(begun)
            raise

    def wait(self, seconds: float) -> None:
        """Let time pass, unless every open experiment has already failed.

        After START_FLOWS it counts from the common start of the flows, and further waits, with only
        settings between them, from the end of the one before: settings take time, too.
        """
        self._settle()
        now_s = self._run.network.clock.now()
        end_s = (now_s if self._since_s is None else self._since_s) + seconds
        if self._since_s is not None:
            self._since_s = end_s
        if end_s > now_s and not self._run.progress.is_left:
            self._run.observer.doing(f"waiting {seconds:.3g} s")
            self._never.wait(end_s - now_s)

    def wait_flows(self, exp: int, timeout_s: float | None) -> None:
        """Until every flow of the experiment has ended and its files are complete."""
        self._since_s = None
        self._settle()
        self._background.call(self._run.wait_flows(exp, timeout_s))

    def start_flows(self, lead_s: float) -> None:
        """Start all flows held back since the last call, at one instant."""
        self._settle()
        self._since_s = self._background.call(self._run.starter.start_held(lead_s))

    def process_experiment(self, exp: int, notes: steps.ExperimentNotes) -> Processed:
        """Finish an experiment: turn its data into results."""
        self._since_s = None
        self._settle()
        experiment = self._run.progress.experiments.get(exp)
        if experiment is None:
            raise ScriptError(
                f"there is no experiment {exp} to process",
                remedy="PROCESS_EXP comes after the DO_SERVER and DO_CLIENT of its experiment.",
            )
        self._background.call(self._run.fetcher.fetch_rest(experiment))
        for text in experiment.missing():
            self._run.progress.mark_partial(experiment, text)
        if experiment.reasons and not experiment.groups:
            self._drop(experiment)
            return Processed(exp, "failed", {})
        return self._process(experiment, notes, draw=True)

    # ---- results -------------------------------------------------------------------------

    @property
    def open_experiments(self) -> tuple[int, ...]:
        """Experiments that have begun and are not processed."""
        return tuple(self._run.progress.experiments)

    def interrupt(
        self, reason: str, notes: Mapping[int, steps.ExperimentNotes], *, in_haste: bool
    ) -> Iterator[Processed]:
        """End everything now and keep what was measured: each open experiment stays partial. If
        `in_haste`, skip what takes long."""
        latest_s = time.monotonic() + (PAGES_S if in_haste else math.inf)
        begun, self._running = self._running, []
        self._background.cancel(begun)
        self._background.call(self._run.abort(in_haste=in_haste))
        experiments = list(self._run.progress.experiments.values())
        for experiment in experiments:
            experiment.mark_partial(reason)
        self._background.call(self._run.fetcher.fetch_open())
        for experiment in experiments:
            own = notes.get(experiment.exp, steps.ExperimentNotes())
            try:
                if not experiment.groups:
                    self._drop(experiment)
                    continue
                yield self._process(experiment, own, draw=time.monotonic() < latest_s)
            except NetestoError as error:
                self._run.observer.warn(f"experiment {experiment.exp}: {error.message}")

    def settings_in_no_manifest(self) -> dict[str, tuple[SettingRecord, ...]]:
        """What was set, and the commands that ran, behind the last experiment, by host."""
        late = {
            name: tuple(host.settings[self._recorded.get(name, 0) :])
            for name, host in self._run.hosts.known.items()
        }
        return {name: settings for name, settings in late.items() if settings}

    def _drop(self, experiment: Experiment) -> None:
        """Omit an experiment that had no flow yet: nothing was measured."""
        self._run.observer.warn(
            f"experiment {experiment.exp}: omitted, because none of its flows was started:"
            f" {'; '.join(experiment.reasons)}"
        )
        del self._run.progress.experiments[experiment.exp]
        self._run.store.drop(experiment.exp)

    def _process(
        self, experiment: Experiment, notes: steps.ExperimentNotes, *, draw: bool
    ) -> Processed:
        self._run.observer.doing("results")
        folder = experiment.folder
        experiment.system.look()
        self._run.note_throttling(experiment)
        asked = record.manifest(
            experiment,
            self._run.hosts.known,
            run=self._run.hosts.run,
            network=self._run.network,
            description=notes.description,
            columns=columns_of(notes),
            ended_s=self._run.network.clock.now(),
        )
        self._recorded = {name: len(host.settings) for name, host in self._run.hosts.known.items()}
        asked, evidence = self._with_ways(folder, asked, digest.evidence(folder, asked))
        found = record.with_evidence(asked, evidence)
        for text in (*record.sampling_warnings(evidence), *record.doubts(evidence)):
            self._run.observer.warn(f"experiment {asked.exp}: {text}")
        manifest.write(found, folder / manifest.NAME)
        rows = derive.derive(folder, evidence, found, self._fields, self._claimable)
        if draw:
            self._render(folder)
        with interrupts.undisturbed():
            del self._run.progress.experiments[experiment.exp]
            whole = self._run.store.complete(experiment.exp)
            self._run.store.append(rows)
        if draw:
            self._index(self._run.store.folder)
        else:
            self._run.observer.warn(
                f"experiment {experiment.exp}: no time to draw its page;"
                f" netesto report {self._run.store.folder} does"
            )
        self._run.observer.experiment_ended(
            experiment.exp, found.status, rows, str(whole / "exp.html")
        )
        columns = rows[0]
        if self._claimable.names != self._fields.names:
            columns = derive.aggregate_row(evidence, found, self._claimable)
        return Processed(experiment.exp, found.status, columns)

    def _with_ways(
        self, folder: Path, asked: Manifest, evidence: ExperimentEvidence
    ) -> tuple[Manifest, ExperimentEvidence]:
        """The same with the ways of flows through the lab, which is up only now; they are kept as
        raw data."""
        if self._run.network.ways is None:
            return asked, evidence
        flows = list(digest.keys(folder, asked, evidence))
        try:
            found = self._run.network.ways([packets for _, _, packets in flows])
        except NetestoError as error:
            text = f"the ways of its flows are unknown: {error.message}"
            return replace(asked, warnings=(*asked.warnings, text)), evidence
        known = [(*flow, way) for flow, way in zip(flows, found, strict=True) if way is not None]
        if not known:
            return asked, evidence
        path = folder / links.RAW_WAYS
        links.write_ways(path, known)
        files = {**asked.files, links.RAW_WAYS: integrity.sha256_of(path)}
        return (
            replace(asked, files=dict(sorted(files.items()))),
            digest.with_ways(evidence, [way for *_, way in known]),
        )


def columns_of(notes: steps.ExperimentNotes) -> dict[str, str]:
    """Columns that the script sets: OTHER, the factors of a SWEEP, and its repetition."""
    repetition = {"rep": notes.cell["rep"]} if "rep" in notes.cell else {}
    return {**notes.columns, **repetition}
