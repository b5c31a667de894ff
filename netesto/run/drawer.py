"""Draws pages outside of a guest, while the next experiment runs inside.

Inside it would take twice as long, and in simulated time everything would wait for it.
"""

import math
import time
from pathlib import Path

from netesto import report
from netesto.errors import NetestoError
from netesto.results import store

# Between two checks for complete experiments.
LOOK_S = 0.25


class Drawer:
    """Draws the missing pages in a results folder that a guest writes to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._looked_s = 0.0
        self._drawn: set[int] = set()
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
        """Draw the rest after the guest has ended; return False if there was no time for all.
        Raises the first error of all drawing."""
        is_done = self._draw(time.monotonic() + within_s)
        if self._error is not None:
            raise self._error
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
        from netesto.report import index, page
        from netesto.report.neighbours import PAGE

        for exp in store.experiments(self._folder):
            folder = self._folder / str(exp)
            if time.monotonic() > latest_s:
                return False
            if exp not in self._drawn and not (folder / PAGE).exists():
                page.write(folder)
            self._drawn.add(exp)
        rows = self._table_bytes()
        if rows != self._rows:
            index.write(self._folder)
            self._rows = rows
        return True

    def _table_bytes(self) -> int:
        """The size of exp.csv, which only grows."""
        table = self._folder / store.TABLE
        return table.stat().st_size if table.exists() else 0
