"""What a run does when something measured has failed."""

from dataclasses import dataclass

from netesto.errors import UsageError


@dataclass(frozen=True, slots=True)
class OnFailure:
    """`--on-failure`: end the run there, or run the part of the script again, so many times.

    Neither: the run goes on, and its exit status reports it. What failed stays on disk in any
    case.
    """

    stops: bool = False
    retries: int = 0

    def __str__(self) -> str:
        if self.stops:
            return "stop"
        return f"retry={self.retries}" if self.retries else "continue"

    @classmethod
    def parse(cls, text: str) -> "OnFailure":
        """`stop`, `continue` or `retry=N`. UsageError for anything else."""
        kind, _, number = text.partition("=")
        if text == "stop":
            return cls(stops=True)
        if text == "continue":
            return cls()
        if kind == "retry" and number.isdecimal():
            return cls(retries=int(number))
        raise UsageError(
            f"--on-failure {text}: not known", remedy="It is stop, continue or retry=N."
        )


CONTINUE = OnFailure()
