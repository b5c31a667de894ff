"""A run whose parts run side by side, each in a guest of its own."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from netesto import process
from netesto.cli import grounds, sidebyside, status
from netesto.cli.session import End, Session
from netesto.cli.settings import Script, Settings
from netesto.cli.sidebyside import SideBySide, Task
from netesto.controller.onfailure import OnFailure
from netesto.lab import drawing
from netesto.lab.kernels import Kernel
from netesto.language.parts import Rehearsal
from netesto.results.fields import Fields
from netesto.results.runs import RunRecord
from netesto.results.store import FIELDS, Store


class Parted(Session):
    """Starts the parts of the script that are not done yet."""

    def __init__(
        self,
        options: argparse.Namespace,
        *,
        rehearsal: Rehearsal,
        run_record: RunRecord,
        fields: Fields,
        out: Path,
        kernel: Kernel,
        script: Script,
        settings: Settings,
        jobs: int,
        counter: int,
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
        self._kernel = kernel
        self._jobs = jobs
        self._counter = counter

    def carry_out(self, results: Store) -> End:
        network = grounds.network(self.options, self.rehearsal, self.script.file)
        results.reserve(self._counter, self.rehearsal.last_number)
        tasks = sidebyside.tasks(
            self.rehearsal,
            results.folder,
            run=self.record,
            start=self._counter,
            is_done=lambda part: (
                self.options.resume
                and bool(part.cell)
                and results.finished_cell(self.script.name, part.cell) is not None
            ),
        )
        self.display.say(drawing.draw(network))
        at_once = min(self._jobs, len(tasks))
        self.display.say(
            f"{len(tasks)} parts of the script, each in a guest of its own, {at_once} at once;"
            f" seed {self.record.seed}"
        )
        self.tell_warnings()
        for text in self.rehearsal.echoes:
            self.display.echo(text)
        if not tasks:
            return End(status.OK, ground=self._kernel.kind)
        return SideBySide(
            tasks,
            command=self._command,
            script=self.script.text.encode() if self.script.path is None else b"",
            run=self.record.name,
            results=results,
            display=self.display,
            jobs=at_once,
            on_failure=OnFailure.parse(self.options.on_failure),
        ).run()

    def _command(self, task: Task) -> Sequence[str]:
        """This command line again, for one part; what comes last wins."""
        own = {
            "--ground": self._kernel.kind,
            "--kernel": self._kernel.name,
            "--seed": str(self.record.seed),
            "--out": str(task.folder),
            "--part": str(task.assignment),
            # Those of the run's folder may be some more than the script's.
            "--fields": str(self.out / FIELDS),
        }
        words = [word for pair in own.items() for word in pair]
        return process.python("netesto", *self.options.words, *words, "--plain")
