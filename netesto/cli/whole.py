"""A run in one go, on a ground that this process can reach."""

import argparse
import contextlib
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from netesto import interrupts, report, units
from netesto.cli import agents, grounds, labs, printing, status
from netesto.cli.grounds import Choice
from netesto.cli.session import End, Session
from netesto.cli.settings import Script, Settings, claimable
from netesto.cli.sidebyside import Assignment
from netesto.controller import preflight, requests
from netesto.controller.controller import Controller, Ground
from netesto.controller.inventory import Inventory, load
from netesto.controller.onfailure import CONTINUE, OnFailure
from netesto.errors import LabError, NetestoError, ScriptError, StoppedError, UsageError
from netesto.lab import drawing, leftovers, plan, probe
from netesto.lab.netns import Lab
from netesto.lab.nursery import Nursery, Starter
from netesto.lab.topology import Topology
from netesto.language import ports
from netesto.language.parts import OnePart, Rehearsal
from netesto.results.fields import Fields
from netesto.results.manifest import PathRecord
from netesto.results.runs import RunRecord
from netesto.results.store import Store

_GROUNDS: Mapping[str, str] = {
    "lab": "namespaces on this machine's kernel,",
    "uml": "namespaces in a user-mode kernel,",
    "sim": "namespaces in simulated time, kernel",
}


class Whole(Session):
    """The ground, the agents, the script, and the results as they come."""

    def __init__(
        self,
        options: argparse.Namespace,
        *,
        script: Script,
        settings: Settings,
        rehearsal: Rehearsal,
        run_record: RunRecord,
        fields: Fields,
        choice: Choice,
        out: Path,
        part: Assignment | None,
    ) -> None:
        super().__init__(
            options,
            rehearsal=rehearsal,
            run_record=run_record,
            fields=fields,
            out=out,
            script=script,
            settings=settings,
        )
        self._choice = choice
        self._part = part
        self._starter: Starter | None = None
        # A part that fails is run again by the process that started it, in a new guest.
        self._on_failure = CONTINUE if part else OnFailure.parse(options.on_failure)

    def run(self) -> int:
        if self.options.hosts is not None:
            return super().run()
        # Before there are threads. Importing what an agent needs takes a moment, in a guest most of
        # a run's start: this process has most of it already, and all agents have it from here.
        from netesto.agent import nursery

        with nursery.forked() as orders:
            self._starter = Nursery(orders)
            return super().run()

    # ---- the ground ----------------------------------------------------------------------

    def carry_out(self, results: Store) -> End:
        render, write_index = _pages()
        with self._ground() as (inventory, ground):
            controller = Controller(
                inventory=inventory,
                store=results,
                fields=self.fields,
                claimable=claimable(self.fields),
                connect=agents.connect,
                observer=self.display,
                render=render,
                index=write_index,
                name=self.record.name,
                ground=ground,
                script=self.script.name,
                resume=self.options.resume,
                family=self.options.family,
                on_failure=self._on_failure,
            )
            with controller:
                controller.open_hosts()
                controller.check_ready(self.rehearsal.commands, self.rehearsal.requirements)
                totals = self.rehearsal.totals()
                seconds = totals.simulated_s if ground.kind == "sim" else totals.seconds
                self.display.expect(experiments=totals.experiments, seconds=seconds)
                return self._interpret(controller, ground, inventory)

    @contextlib.contextmanager
    def _ground(self) -> Iterator[tuple[Inventory, Ground]]:
        aliases = labs.parse_map(self.options.map)
        suffixes = preflight.suffixes(self.rehearsal.commands)
        if self.options.hosts is not None:
            inventory = load(self.options.hosts, aliases=aliases).with_suffixes(suffixes)
            if not self.options.yes and sys.stdin.isatty() and sys.stderr.isatty():
                self._ask(inventory)
            yield inventory, Ground(kind="hosts")
            return
        network = grounds.network(self.options, self.rehearsal, self.script.file)
        self.display.doing("building the lab")
        self._tidy_up()
        assert self._starter is not None, "a lab is built only where there is one"
        with labs.up(network, self._starter) as lab:
            where = f"{_GROUNDS[self._choice.ground]} {platform.release()}"
            self.display.say(f"{self._choice.ground}: {where}")
            text = drawing.draw(network)
            self.display.say(text)
            for note in plan.notes(network):
                self.display.say(note)
            inventory = Inventory(list(lab.endpoints.values()), aliases=aliases, suffixes=suffixes)
            measured = self._measure(lab, network, inventory)
            try:
                yield inventory, Ground(kind=self._choice.ground, topology=text, paths=measured)
            finally:
                self._keep_unfetched(lab)

    def _tidy_up(self) -> None:
        try:
            if removed := leftovers.clean():
                self.display.say(f"removed what a killed run left behind ({len(removed)} things)")
        except LabError as error:
            # Our lab has names of its own.
            self.display.warn(f"what a killed run left behind cannot be removed: {error.message}")

    def _ask(self, inventory: Inventory) -> None:
        """Before settings of real hosts change, the person at the terminal agrees."""
        changed = {
            inventory.find(command.host).host: None
            for command in self.rehearsal.commands
            if requests.settings(command)
        }
        if not changed:
            return
        seconds = units.format_time(round(self.rehearsal.totals().seconds))
        self.display.stop()
        printing.err(
            f"This takes about {seconds} and changes settings of {', '.join(changed)},"
            " which are put back at the end. Go on? [Y/n] ",
            end="",
            flush=True,
        )
        if sys.stdin.readline().strip().lower() not in {"", "y", "yes"}:
            raise UsageError("not run: you said no", remedy="--yes does not ask.")
        self.display.start()

    def _keep_unfetched(self, lab: Lab) -> None:
        """What a killed agent had measured would go away with the lab: bring it home."""
        for host, folder in labs.unfetched(lab).items():
            place = self.out / "runs" / f"{self.record.name}-unfetched" / host
            try:
                shutil.copytree(folder, place)
            except OSError as error:
                self.display.warn(f"{host}: what it measured is lost: {error}")
                continue
            self.display.warn(f"{host}: what it measured and could not deliver is in {place}")

    def _measure(self, lab: Lab, network: Topology, inventory: Inventory) -> tuple[PathRecord, ...]:
        """Measure the paths that flows will take, before they do."""
        self.display.doing("measuring the paths")
        pairs = {
            (inventory.find(command.host).host, inventory.find(command.server).host): None
            for command in self.rehearsal.commands
            if isinstance(command, ports.DoClient)
        }
        found = probe.measure(lab, network, pairs, family=self.options.family)
        for path in found:
            self.display.say(path.describe())
        if not self.options.force:
            probe.refuse(found)
        return tuple(
            PathRecord(
                source=path.source,
                destination=path.destination,
                asked_rtt_ms=path.asked_rtt_ms,
                measured_rtt_ms=path.measured_rtt_ms,
                asked_rate_bps=path.asked_rate_bps,
                measured_rate_bps=path.measured_rate_bps,
            )
            for path in found
        )

    # ---- the script ----------------------------------------------------------------------

    def _interpret(self, controller: Controller, ground: Ground, inventory: Inventory) -> End:
        outcome = status.OK
        failures: tuple[str, ...] = ()
        self.display.say(f"seed {self.settings.seed}")
        self.tell_warnings()
        port: ports.Port = controller
        if self._part is not None:
            part = self._part
            port = OnePart(controller, index=part.index, start=part.start, before=part.before)
        interpreter = self.settings.interpreter(port)
        try:
            self.script.run(interpreter)
        except StoppedError as error:
            self.display.say(error.message)
            controller.interrupt("the run was stopped", interpreter.notes())
        except KeyboardInterrupt:
            interrupts.heed()
            self.display.say("interrupted: keeping what was measured, putting hosts back")
            try:
                with interrupts.hurried():
                    controller.interrupt("interrupted", interpreter.notes())
            except KeyboardInterrupt:
                self.display.say("interrupted again: what hosts still have is not brought home")
            outcome = status.INTERRUPTED
        except NetestoError as error:
            if not controller.has_open_experiments:
                raise
            controller.interrupt(error.message, interpreter.notes())
            self.display.error(str(error))
            # What was measured is on disk, with the reason: a failed measurement, unless the
            # script itself is to blame.
            outcome = status.WRONG if isinstance(error, ScriptError) else status.FAILED
            failures = (error.message,)
        if outcome == status.OK and controller.failures:
            outcome = status.FAILED
        return End(
            outcome,
            failures=(*failures, *controller.failures),
            ground=ground.kind,
            hosts={name: endpoint.agent for name, endpoint in inventory.endpoints.items()},
        )


def _pages() -> tuple[Callable[[Path], None], Callable[[Path], None]]:
    """What draws an experiment's page, and the index; ready to do so."""
    if grounds.draws_outside():
        return _nothing, _nothing
    # matplotlib takes a second to import: now, and not while flows run.
    report.warm_up()
    from netesto.report import index, page

    return page.write, index.write


def _nothing(_: Path) -> None:
    """Somebody else draws."""
