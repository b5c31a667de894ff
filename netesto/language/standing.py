"""The settings of hosts that still apply, and must be repeated when their steps are skipped."""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from netesto.language.steps import Configure

V = TypeVar("V")


class Standing(Generic[V]):
    """The settings that apply, each with a value, in the order in which they must be repeated."""

    def __init__(self) -> None:
        self._steps: dict[Hashable, list[tuple[Hashable, V]]] = {}
        # Where qdiscs were added and deleted one by one, all steps must be repeated.
        self._one_by_one: set[Hashable] = set()

    def __iter__(self) -> Iterator[V]:
        for steps in self._steps.values():
            for _, value in steps:
                yield value

    def copy(self) -> "Standing[V]":
        """The same settings, apart from later ones."""
        other = Standing[V]()
        other._steps = {target: [*steps] for target, steps in self._steps.items()}
        other._one_by_one = {*self._one_by_one}
        return other

    def add(self, command: Configure, mark: Hashable, value: V) -> None:
        """Remember it, and forget what it replaces. Commands with equal marks do the same."""
        target = command.target
        self.replace(command)
        if not command.is_assignment:
            self._one_by_one.add(target)
        steps = self._steps.setdefault(target, [])
        if target not in self._one_by_one:
            # A setting that every cell of a SWEEP makes counts once: the last time.
            steps[:] = [step for step in steps if step[0] != mark]
        steps.append((mark, value))

    def replace(self, command: Configure) -> None:
        """Forget what a command replaces."""
        if not command.is_change:
            self._steps.pop(command.target, None)
            self._one_by_one.discard(command.target)
