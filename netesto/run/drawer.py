"""When pages are drawn during a run.

Those of a guest are drawn outside, while the next experiment runs inside: inside it would take
twice as long, and in simulated time everything would wait for it.
"""

import math
import time
from pathlib import Path

from netesto import report
from netesto.errors import NetestoError
from netesto.results import store
from netesto.system import interrupts

# Between two checks for complete experiments.
LOOK_S = 0.25

# An index that took a second is not drawn again for so many seconds.
PAUSE = 10


class Index:
    """Draws the index of a results folder again while experiments are added to it.

    The more experiments there are, the longer it takes; some hundred short experiments would spend
    most of their run on it. So some are drawn together, and `finish_index` draws the last ones.
    """

    def __init__(self) -> None:
        self._due_s = -math.inf

    def update(self, folder: Path) -> None:
        """Draw the index unless it is too early. ResultsError as `report.index.write`."""
        from netesto.report import index

        began_s = time.monotonic()
        if began_s >= self._due_s:
            index.write(folder, is_final=False)
            ended_s = time.monotonic()
            self._due_s = ended_s + PAUSE * (ended_s - began_s)


def finish_index(folder: Path, *, is_changed: bool) -> None:
    """Draw the index of a results folder after its run, if it is older than exp.csv or `is_changed`
    otherwise."""
    from netesto.report import index
    from netesto.report.neighbours import PAGE

    table, page = folder / store.TABLE, folder / PAGE
    if not table.exists():
        return
    # Without an index, the run was interrupted before there was time for pages.
    if page.exists() and (is_changed or page.stat().st_mtime_ns <= table.stat().st_mtime_ns):
        index.write(folder)


class Drawer:
    """Draws the missing pages in a results folder that a guest writes to. That of a part needs no
    index (`has_index`): the run that adopts it draws one."""

    def __init__(self, folder: Path, *, has_index: bool = True) -> None:
        self._folder = folder
        self._has_index = has_index
        self._looked_s = 0.0
        self._drawn: set[int] = set()
        self._index = Index()
        self._rows = 0
        self._error: NetestoError | None = None

    def look(self) -> None:
        """Draw the pages that can be drawn now, if it is time to check; called often."""
        now_s = time.monotonic()
        if now_s - self._looked_s < LOOK_S:
            return
        if not self._looked_s:
            # Import while the guest starts.
            report.warm_up()
        # An experiment is complete before its rows exist.
        if self._rows != self._table_bytes():
            self._draw()
        self._looked_s = time.monotonic()

    def finish(self, *, within_s: float) -> bool:
        """Draw the other pages after the guest has ended; return False if there was no time for
        that, or a second Ctrl-C. Raises the first error of all drawing."""
        is_ending = interrupts.is_shutting_down()
        try:
            with interrupts.hurried():
                is_done = self._draw(time.monotonic() + within_s)
        except KeyboardInterrupt:
            if not is_ending:
                raise
            is_done = False
        if self._error is not None:
            raise self._error
        if is_done and self._has_index:
            finish_index(self._folder, is_changed=False)
        return is_done

    def _draw(self, latest_s: float = math.inf) -> bool:
        if self._error is not None:
            return False
        try:
            return self._draw_pages(latest_s)
        except NetestoError as error:
            # The guest continues measuring; `netesto report` draws missing pages.
            self._error = error
            return False

    def _draw_pages(self, latest_s: float) -> bool:
        from netesto.report import page
        from netesto.report.neighbours import PAGE

        for exp in store.experiments(self._folder):
            folder = self._folder / str(exp)
            if exp not in self._drawn and not (folder / PAGE).exists():
                if time.monotonic() >= latest_s:
                    return False
                page.write(folder)
            self._drawn.add(exp)
        rows = self._table_bytes()
        if rows != self._rows:
            if self._has_index:
                if time.monotonic() >= latest_s:
                    return False
                self._index.update(self._folder)
            self._rows = rows
        return True

    def _table_bytes(self) -> int:
        """The size of exp.csv, which only grows."""
        table = self._folder / store.TABLE
        return table.stat().st_size if table.exists() else 0
