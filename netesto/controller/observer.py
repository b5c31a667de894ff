"""The observer of a run: the live display, a log, or nothing."""

from collections.abc import Mapping, Sequence
from typing import Protocol


class Observer(Protocol):
    """What a run reports. Called from more than one thread; must not block or raise."""

    def echo(self, text: str) -> None:
        """What the script prints."""

    def say(self, text: str) -> None:
        """Information: the lab, the choice of ground."""

    def warn(self, text: str) -> None:
        """Something that may influence results."""

    def setting_left(self, text: str) -> None:
        """A difference that is left on a host, for the run's record; `warn` has reported it."""

    def experiment_started(self, exp: int, exp_name: str) -> None:
        """The first command of an experiment."""

    def doing(self, text: str) -> None:
        """The current activity, in a few words."""

    def flow_accepted(
        self, exp: int, flow: str, *, start_s: float, duration_s: float | None
    ) -> None:
        """A flow ("bbr client1→server1 #1") will start at UTC `start_s` and last `duration_s`, or
        (None) until its transfers are done."""

    def flow_progress(self, exp: int, flow: str, rate_bps: float) -> None:
        """A flow's goodput now."""

    def flow_ended(self, exp: int, flow: str, status: str) -> None:
        """A flow ended: "ok" or the reason it failed."""

    def experiment_ended(
        self, exp: int, status: str, rows: Sequence[Mapping[str, str]], page: str
    ) -> None:
        """The experiment's rows for exp.csv (the aggregate first) and the path of its page."""
