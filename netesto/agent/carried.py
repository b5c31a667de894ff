"""The links of a lab that programs carry: what happens on them is recorded with an experiment."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from netesto import emulator
from netesto.agent import asking
from netesto.errors import AgentError, ProcessError


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
        self._late: dict[CarriedLink, int] = {}

    async def begin(self, interval_s: float) -> None:
        """AgentError if a program has ended."""
        for link in self._links:
            self._late[link] = await _late(link)
            files = [
                f"{way}.{kind}={self._folder / name}"
                for way, ends in (("to", (link.a, link.b)), ("from", (link.b, link.a)))
                for kind, name in (
                    ("states", f"link.{'.'.join(ends)}.jsonl"),
                    ("losses", f"losses.{'.'.join(ends)}.csv"),
                )
            ]
            await ask(link, "record", f"interval={round(interval_s * 1e12)}", *files)

    async def end(self) -> list[str]:
        """Complete the files; a sentence for each link that did not carry all frames as it
        should."""
        faults = []
        for link, before in self._late.items():
            try:
                await ask(link, "record")
                late = await _late(link) - before
            except AgentError as error:
                faults.append(error.message)
                continue
            if late:
                faults.append(
                    f"link {link}: {late} frames were lost because its program was late: this"
                    " machine is too slow for them"
                )
        self._late.clear()
        return faults


async def _late(link: CarriedLink) -> int:
    """The frames that came faster than the program took them, since it began."""
    lines = (await ask(link, "state")).splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("late "))
