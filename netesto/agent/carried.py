"""The links of a lab that programs carry: what happens on them is recorded with an experiment."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from netesto import emulator
from netesto.agent import asking
from netesto.errors import AgentError, ProcessError
from netesto.measured import LINK_LOSSES, LINK_STATES, OF_NODES


@dataclass(frozen=True, slots=True)
class CarriedLink:
    """A link, by its ends, and the socket of its program."""

    a: str
    b: str
    socket: str

    def __str__(self) -> str:
        return f"{self.a} - {self.b}"


def parse(text: str) -> tuple[CarriedLink, ...]:
    """The links that the option --carried of an agent names."""
    return tuple(CarriedLink(*each.split(":", 2)) for each in text.split(",") if each)


async def ask(link: CarriedLink, *words: str) -> str:
    """The answer of the program. AgentError if there is none."""
    try:
        return await asking.output(emulator.program(), "tell", link.socket, *words)
    except (AgentError, ProcessError) as error:
        raise AgentError(
            f"link {link}: the program that carries it has ended, or does not answer:"
            f" {str(error).rpartition(': ')[2].strip()}"
        ) from None


class StateRecording:
    """The states and losses of carried links during an experiment, in files of its `folder`."""

    def __init__(self, links: Sequence[CarriedLink], folder: Path) -> None:
        self._links = links
        self._folder = folder
        self._before: dict[CarriedLink, _Counts] = {}

    async def begin(self, interval_s: float) -> None:
        """AgentError if a program has ended."""
        for link in self._links:
            files = []
            for way, sender, receiver in (("to", link.a, link.b), ("from", link.b, link.a)):
                place = self._folder / OF_NODES / sender
                place.mkdir(parents=True, exist_ok=True)
                files += [
                    f"{way}.states={place / LINK_STATES.name(receiver)}",
                    f"{way}.losses={place / LINK_LOSSES.name(receiver)}",
                ]
            interval = f"interval={round(interval_s * 1e12)}"
            self._before[link] = await _recorded(link, interval, *files)

    async def end(self) -> list[str]:
        """Complete the files; a sentence for each link that did not carry all frames as it
        should."""
        faults = []
        for link, before in self._before.items():
            try:
                now = await _recorded(link)
            except AgentError as error:
                faults.append(error.message)
                continue
            if late := now.late - before.late:
                faults.append(
                    f"link {link}: {late} frames were lost because its program was late: this"
                    " machine is too slow for them"
                )
            if refused := now.refused - before.refused:
                faults.append(f"link {link}: an interface refused {refused} frames: it was down")
            if now.unlisted:
                faults.append(
                    f"link {link}: {now.unlisted} lost frames are not in the files of losses"
                )
        self._before.clear()
        return faults


@dataclass(frozen=True, slots=True)
class _Counts:
    """Frames since the program began: those that came faster than it took them, and those that an
    interface did not take from it; and lost ones for which the files had no place."""

    late: int
    refused: int
    unlisted: int


async def _recorded(link: CarriedLink, *words: str) -> _Counts:
    """End the files, and begin those that the words say, if any."""
    lines = [line.split() for line in (await ask(link, "record", *words)).splitlines()]
    late, refused, unlisted = (
        sum(int(count) for each, count in lines if each == name)
        for name in ("late", "refused", "unlisted")
    )
    return _Counts(late, refused, unlisted)
