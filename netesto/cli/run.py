"""`netesto run`: a dry run first, then the ground, then the script, then what came of it."""

import argparse
import contextlib
import logging
import os
import platform
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from netesto import __version__, log, paths, report
from netesto.cli import console, grounds, labs, status, tables
from netesto.cli.display import Display
from netesto.cli.grounds import Choice
from netesto.controller import preflight, record
from netesto.controller.controller import Controller, Ground
from netesto.controller.inventory import Inventory, load
from netesto.errors import NetestoError, ScriptError, UsageError
from netesto.lab import drawing, guest, kernels, leftovers, plan, probe
from netesto.lab.netns import Lab
from netesto.lab.topology import Topology
from netesto.language import ports
from netesto.language.dryrun import DryRun
from netesto.language.interpreter import Interpreter
from netesto.model import Endpoint
from netesto.report import index, page
from netesto.results import fields, runs, store
from netesto.results.manifest import PathRecord
from netesto.results.runs import RunRecord
from netesto.results.store import Store
from netesto.transport import client
from netesto.transport.client import AgentClient

# How long an agent that is up may take to answer the first call.
CONNECT_TIMEOUT_S = 5.0

# Enough bits that two runs do not share a seed, few enough to type again.
SEED_BITS = 31


@dataclass(frozen=True, slots=True)
class Script:
    """A script to run: a file, or the text of standard input."""

    name: str
    file: str
    text: str
    path: Path | None

    @classmethod
    def read(cls, name: str) -> "Script":
        """The script called `name`, "-" for standard input. UsageError if it cannot be read."""
        if name == "-":
            return cls("stdin", "<standard input>", sys.stdin.read(), None)
        path = Path(name)
        try:
            return cls(path.stem, name, path.read_text(encoding="utf-8"), path)
        except OSError as error:
            raise UsageError(f"{name}: {error.strerror}") from error
        except UnicodeDecodeError:
            raise UsageError(f"{name}: not a text file (UTF-8)") from None

    def run(self, interpreter: Interpreter) -> None:
        """Interpret the script."""
        if self.path is not None:
            interpreter.run_file(self.path)
        else:
            interpreter.run_text(self.text, file=self.file)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the command line says to the language."""

    libraries: tuple[Path, ...]
    definitions: Mapping[str, str]
    seed: int
    max_iterations: int

    @classmethod
    def of(cls, options: argparse.Namespace) -> "Settings":
        """The settings that the options ask for; a seed is chosen where none was given."""
        seed = getattr(options, "seed", None)
        return cls(
            libraries=tuple(library_path(options.libraries)),
            definitions=parse_definitions(options.definitions),
            seed=secrets.randbits(SEED_BITS) if seed is None else seed,
            max_iterations=options.max_iterations,
        )

    def interpreter(self, port: ports.Port) -> Interpreter:
        """An interpreter that asks `port`."""
        return Interpreter(
            port,
            library_path=self.libraries,
            seed=self.seed,
            definitions=self.definitions,
            max_iterations=self.max_iterations,
        )


def parse_definitions(texts: Sequence[str]) -> dict[str, str]:
    """`-D name=value` as a mapping. UsageError where there is no `=`."""
    definitions = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"-D {text}: not NAME=VALUE", remedy="example: -D dur=60")
        definitions[name] = value
    return definitions


def library_path(folders: Sequence[Path]) -> list[Path]:
    """Where SOURCE looks after the script's folder and the working directory."""
    named = [Path(part) for part in os.environ.get("NETESTO_LIB", "").split(os.pathsep) if part]
    return [*folders, *named, paths.library_folder()]


def run(options: argparse.Namespace) -> int:
    """Run a script, or show what it would do."""
    script = Script.read(options.script)
    settings = Settings.of(options)
    out = options.out or Path("results") / script.name
    counter = store.counter(out)
    if options.dry_run:
        shown = DryRun(print, form=options.dry_run, counter=counter)
        script.run(settings.interpreter(shown))
        shown.finish()
        for warning in shown.warnings:
            place = f"{warning.place.file}:{warning.place.line}"
            print(f"warning: {place}: {warning.message}", file=sys.stderr)
        return status.OK
    # Whatever is wrong with the script shows here, before anything is touched.
    resolved: list[str] = []
    rehearsal = DryRun(resolved.append, counter=counter)
    interpreter = settings.interpreter(rehearsal)
    script.run(interpreter)
    run_record = RunRecord(
        name=runs.name_at(time.time()),
        argv=tuple(sys.argv),
        script_path=script.file,
        script=script.text,
        resolved="\n".join(resolved),
        seed=settings.seed,
        started=record.utc(time.time()),
        sources={file.path: file.text for file in interpreter.finish().files[1:]},
        versions={
            "netesto": __version__,
            "python": platform.python_version(),
            "kernel": platform.release(),
        },
    )
    choice = grounds.choose(options, rehearsal, script.file)
    if choice.ground in {"uml", "sim"} and guest.ground_inside() is None:
        return _inside(choice, options, script=script, seed=settings.seed, out=out)
    session = _Session(
        options,
        script=script,
        settings=settings,
        rehearsal=rehearsal,
        run_record=run_record,
        choice=choice,
        out=out,
    )
    return session.run()


_GROUNDS: Mapping[str, str] = {
    "lab": "namespaces on this machine's kernel,",
    "uml": "namespaces in a user-mode kernel,",
    "sim": "namespaces in simulated time, kernel",
}


def _inside(
    choice: Choice, options: argparse.Namespace, *, script: Script, seed: int, out: Path
) -> int:
    """The whole run again, in a guest kernel of the kind chosen."""
    kernel = kernels.need("uml" if choice.ground == "uml" else "sim")
    if not options.quiet:
        why = f"; {choice.reason}" if choice.reason else ""
        print(f"ground {choice.ground}: starting kernel {kernel.version}{why}", file=sys.stderr)
    return grounds.run_inside(kernel, options, out=out, seed=seed, script=script.text)


@dataclass(frozen=True, slots=True)
class _End:
    """How a run ended."""

    status: int
    failures: tuple[str, ...] = ()
    ground: str = ""
    hosts: Mapping[str, str] = field(default_factory=dict)


class _Session:
    """One real run, from the ground to the exit status."""

    def __init__(
        self,
        options: argparse.Namespace,
        *,
        script: Script,
        settings: Settings,
        rehearsal: DryRun,
        run_record: RunRecord,
        choice: Choice,
        out: Path,
    ) -> None:
        self._options = options
        self._script = script
        self._settings = settings
        self._rehearsal = rehearsal
        self._record = run_record
        self._choice = choice
        self._out = out
        self._fields = fields.load(paths.fields_file())
        self._display = Display(console.to_stderr(), plain=options.plain, quiet=options.quiet)

    def run(self) -> int:
        """The exit status. Errors before the first experiment are raised."""
        configure_log(self._options.verbose)
        self._fields.check_extra(self._rehearsal.columns)
        end = _End(status.FAILED)
        with Store(self._out) as results:
            results.check_columns(self._fields)
            self._tell_of_missing_rows(results)
            results.write_run(self._record)
            try:
                with self._display:
                    end = self._on_ground(results)
            except KeyboardInterrupt:
                end = _End(status.INTERRUPTED)
                raise
            except NetestoError as error:
                end = _End(status.of(error), (error.message,))
                raise
            finally:
                results.write_run(self._ended(end))
        # Nobody may read it any more; what was measured does not depend on that.
        with contextlib.suppress(BrokenPipeError):
            self._tell(end)
        return end.status

    def _tell_of_missing_rows(self, results: Store) -> None:
        """A run that was killed between an experiment's folder and its rows left this."""
        missing = results.without_rows()
        if missing:
            numbers = ", ".join(map(str, missing))
            self._display.warn(
                f"experiments without rows in exp.csv: {numbers};"
                f" netesto report {results.folder} adds them"
            )

    def _ended(self, end: _End) -> RunRecord:
        return replace(
            self._record,
            ended=record.utc(time.time()),
            exit_status=end.status,
            failures=end.failures,
            experiments=tuple(self._display.experiments),
            ground=end.ground,
            hosts=dict(end.hosts),
        )

    # ---- the ground ----------------------------------------------------------------------

    def _on_ground(self, results: Store) -> _End:
        # matplotlib takes a second to import: now, and not while flows run.
        report.warm_up()
        with self._ground() as (inventory, ground):
            controller = Controller(
                inventory=inventory,
                store=results,
                fields=self._fields,
                connect=_connect,
                observer=self._display,
                render=page.write,
                index=index.write,
                name=self._record.name,
                ground=ground,
                script=self._script.name,
                resume=self._options.resume,
                family=self._options.family,
            )
            with controller:
                controller.open_hosts()
                controller.check_ready(self._rehearsal.commands)
                totals = self._rehearsal.totals()
                self._display.expect(experiments=totals.experiments, seconds=totals.seconds)
                return self._interpret(controller, ground, inventory)

    @contextlib.contextmanager
    def _ground(self) -> Iterator[tuple[Inventory, Ground]]:
        aliases = labs.parse_map(self._options.map)
        if self._options.hosts is not None:
            inventory = load(self._options.hosts, aliases=aliases)
            preflight.check_hosts(self._rehearsal.commands, inventory)
            yield inventory, Ground(kind="hosts")
            return
        network = grounds.network(self._options, self._rehearsal, self._script.file)
        named = Inventory(
            [Endpoint(host=name, agent="") for name in network.hosts], aliases=aliases
        )
        preflight.check_hosts(self._rehearsal.commands, named)
        self._display.doing("building the lab")
        if removed := leftovers.clean():
            self._display.say(f"removed what a killed run left behind ({len(removed)} things)")
        with labs.up(network) as lab:
            where = f"{_GROUNDS[self._choice.ground]} {platform.release()}"
            self._display.say(f"{self._choice.ground}: {where}")
            text = drawing.draw(network)
            self._display.say(text)
            for note in plan.notes(network):
                self._display.say(note)
            inventory = Inventory(list(lab.endpoints.values()), aliases=aliases)
            measured = self._measure(lab, network, inventory)
            try:
                yield inventory, Ground(kind=self._choice.ground, topology=text, paths=measured)
            finally:
                self._keep_unfetched(lab)

    def _keep_unfetched(self, lab: Lab) -> None:
        """What a killed agent had measured would go away with the lab: bring it home."""
        for host, folder in labs.unfetched(lab).items():
            place = self._out / "runs" / f"{self._record.name}-unfetched" / host
            try:
                shutil.copytree(folder, place)
            except OSError as error:
                self._display.warn(f"{host}: what it measured is lost: {error}")
                continue
            self._display.warn(f"{host}: what it measured and could not deliver is in {place}")

    def _measure(self, lab: Lab, network: Topology, inventory: Inventory) -> tuple[PathRecord, ...]:
        """Measure the paths that flows will take, before they do."""
        self._display.doing("measuring the paths")
        pairs = {
            (inventory.find(command.host).host, inventory.find(command.server).host): None
            for command in self._rehearsal.commands
            if isinstance(command, ports.DoClient)
        }
        found = probe.measure(lab, network, pairs, family=self._options.family)
        for path in found:
            self._display.say(path.describe())
        if not self._options.force:
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

    def _interpret(self, controller: Controller, ground: Ground, inventory: Inventory) -> _End:
        outcome = status.OK
        failures: tuple[str, ...] = ()
        self._display.say(f"seed {self._settings.seed}")
        interpreter = self._settings.interpreter(controller)
        try:
            self._script.run(interpreter)
        except KeyboardInterrupt:
            self._display.say("interrupted: keeping what was measured, putting hosts back")
            with _deaf():
                controller.interrupt("interrupted", interpreter.notes())
            outcome = status.INTERRUPTED
        except NetestoError as error:
            if not controller.has_open_experiments:
                raise
            with _deaf():
                controller.interrupt(error.message, interpreter.notes())
            self._display.error(str(error))
            # What was measured is on disk, with the reason: a failed measurement, unless the
            # script itself is to blame.
            outcome = status.WRONG if isinstance(error, ScriptError) else status.FAILED
            failures = (error.message,)
        if outcome == status.OK and controller.failures:
            outcome = status.FAILED
        return _End(
            outcome,
            failures=(*failures, *controller.failures),
            ground=ground.kind,
            hosts={name: endpoint.agent for name, endpoint in inventory.endpoints.items()},
        )

    def _tell(self, end: _End) -> None:
        if self._display.rows and not self._options.quiet:
            print()
            tables.print_rows(self._display.rows)
            print()
            if len(self._display.pages) == 1:
                print(f"page     {self._display.pages[0]}")
            print(f"results  {self._out}/exp.html")
        for failure in end.failures:
            print(f"netesto: {failure}", file=sys.stderr)
        if end.status == status.INTERRUPTED:
            print("netesto: interrupted; what was measured is kept", file=sys.stderr)


def configure_log(verbosity: int) -> None:
    """Log to stderr as often as -v was given: warnings of the log are on the display already."""
    levels = (logging.ERROR, logging.INFO, logging.DEBUG)
    log.configure(level=levels[min(verbosity, 2)], stream=sys.stderr)


async def _connect(endpoint: Endpoint) -> AgentClient:
    return await client.connect(endpoint.agent, host=endpoint.host, timeout=CONNECT_TIMEOUT_S)


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """While things are put back, a second Ctrl-C waits: every step has a deadline of its own."""
    previous = {number: signal.signal(number, signal.SIG_IGN) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
