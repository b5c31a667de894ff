"""The cells of a SWEEP: every combination of its factors, each made when it runs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from netesto.language.ports import REPETITION


@dataclass(frozen=True, slots=True)
class Cells:
    """`order` are their places in the given order: the last factor changes fastest, the repetition
    slowest. A million cells take the memory of a million numbers at most, and none before it runs.
    """

    factors: Mapping[str, Sequence[object]]
    repetitions: Sequence[object]
    order: Sequence[int]

    def __iter__(self) -> Iterator[dict[str, str]]:
        """Each factor's value, and `rep`."""
        return map(self._cell, self.order)

    def _cell(self, place: int) -> dict[str, str]:
        chosen = dict.fromkeys(self.factors, "")
        for name, values in reversed(list(self.factors.items())):
            place, index = divmod(place, len(values))
            chosen[name] = str(values[index])
        return chosen | {REPETITION: str(self.repetitions[place])}
