"""An observer of runs that records its calls."""

from collections.abc import Mapping, Sequence


class Watched:
    """Records what a user would read, one line each."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.echoed: list[str] = []
        self.experiments: list[int] = []
        self.differences: list[str] = []

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def agrees(self, question: str) -> bool:
        self.said.append(question)
        return True

    def expect(self, *, experiments: int, seconds: float) -> None: ...

    def parts(
        self, running: Sequence[str], *, done: int, of: int, left_s: float | None
    ) -> None: ...

    def echo(self, text: str) -> None:
        self.echoed.append(text)

    def say(self, text: str) -> None:
        self.said.append(text)

    def warn(self, text: str) -> None:
        self.said.append(f"warning: {text}")

    def setting_left(self, text: str) -> None:
        self.differences.append(text)

    def error(self, text: str) -> None:
        self.said.append(f"error: {text}")

    def experiment_started(self, exp: int, exp_name: str) -> None: ...

    def doing(self, text: str) -> None: ...

    def flow_accepted(
        self, exp: int, flow: str, *, start_s: float, duration_s: float | None
    ) -> None: ...

    def flow_progress(self, exp: int, flow: str, rate_bps: float) -> None: ...

    def flow_ended(self, exp: int, flow: str, status: str) -> None: ...

    def experiment_ended(
        self, exp: int, status: str, rows: Sequence[Mapping[str, str]], page: str
    ) -> None:
        self.experiments.append(exp)
