"""Consoles of rich, whose reader may go away: `netesto run … | head` ends no run and changes no
status; and on which no text that they are given acts as a terminal's command.
"""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from netesto.printable import printable

# Output that no person's terminal shows has room for everything.
UNLIMITED_WIDTH = 400


class LastingConsole(Console):
    """A console that falls silent when nobody reads it; rich's own would end the program."""

    def on_broken_pipe(self) -> None:
        """Say nothing from now on."""
        self.quiet = True

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As rich does it, but for control characters in the text that it is given."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


def to_stderr() -> Console:
    """For what goes on while a run goes, warnings and errors."""
    return LastingConsole(stderr=True, highlight=False)


def to_stdout() -> Console:
    """For data: as wide as the terminal, or as it must be where there is none."""
    console = LastingConsole(highlight=False)
    if console.is_terminal:
        return console
    return LastingConsole(highlight=False, width=UNLIMITED_WIDTH)
