"""A machine that goes on behind what is wrong, so that one dry run finds more than one mistake."""

from collections.abc import Collection

from netesto.errors import ScriptError
from netesto.language import lines, ports
from netesto.language.machine import MAX_DEPTH, Machine, Steps
from netesto.language.scope import Frame, MisuseError

# A loop repeats the mistakes in it; after so many, what follows is seldom worth the wait.
MAX_MISTAKES = 1000


class ForgivingMachine(Machine):
    """Tells `report` of a statement that is wrong, and carries out the next one.

    A budget that is used up (loops, macros within each other) ends it nevertheless.
    """

    def __init__(
        self, port: ports.Port, *, seed: int, max_iterations: int, report: lines.Report
    ) -> None:
        super().__init__(port, seed=seed, max_iterations=max_iterations)
        self._report = report
        self._mistakes = 0
        self._is_spent = False

    def run(self, steps: Steps, frame: Frame) -> None:
        self._is_spent = self._is_spent or self._depth >= MAX_DEPTH
        for step in steps:
            try:
                super().run((step,), frame)
            except ScriptError as error:
                self._mistakes += 1
                if self._is_spent or self._mistakes > MAX_MISTAKES:
                    raise
                self._report(error)

    def finish_left(self, where: str, *, since: Collection[int] = ()) -> None:
        # What finishes an experiment may be the line that is wrong.
        if not self._mistakes:
            super().finish_left(where, since=since)

    def spend(self, iterations: int = 1) -> None:
        try:
            super().spend(iterations)
        except MisuseError:
            self._is_spent = True
            raise
