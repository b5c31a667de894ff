"""The numbers that experiments get, for Ports that count them by themselves."""


class ExperimentCounter:
    """A Port's part that gives experiments their numbers; `last` is the one taken last."""

    def __init__(self, last: int) -> None:
        self._counter = last

    def next_experiment(self) -> int:
        self._counter += 1
        return self._counter

    def previous_experiment(self) -> int:
        return self._counter

    def round_counter(self) -> None:
        self._counter = rounded_counter(self._counter)


def rounded_counter(counter: int) -> int:
    """The counter after NEXT_COUNTER: the next number that is taken begins a new ten.

    `counter` is the last number taken. After 13 the next experiment is 20; after 19 it is 30,
    because 20 would have come anyway.
    """
    return ((counter + 1) // 10 + 1) * 10 - 1
