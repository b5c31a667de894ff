"""Consoles of rich that tolerate a closed pipe (`netesto run … | head` neither ends a run nor
changes its status), and that print no control characters.
"""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from netesto.text.printable import printable

# Output that does not go to a terminal has room for everything.
UNLIMITED_WIDTH = 400


class LastingConsole(Console):
    """A console that falls silent when its reader is gone; rich's own would end the program."""

    def on_broken_pipe(self) -> None:
        """Say nothing from now on."""
        self.quiet = True

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As in rich, but without control characters."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


def to_stderr() -> Console:
    """For progress, warnings and errors."""
    return LastingConsole(stderr=True, highlight=False)


def to_stdout() -> Console:
    """For data: as wide as the terminal, or as necessary without one."""
    console = LastingConsole(highlight=False)
    if console.is_terminal:
        return console
    return LastingConsole(highlight=False, width=UNLIMITED_WIDTH)
