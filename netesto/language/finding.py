"""What is wrong in a script, and where."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from netesto.errors import Place, ScriptError

Severity: TypeAlias = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or (a warning) that looks so. Prints as an error of a run does."""

    message: str
    place: Place
    severity: Severity = "error"
    remedy: str = ""
    chain: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        message = f"{self.severity}: {self.message}"
        error = ScriptError(message, place=self.place, remedy=self.remedy, chain=self.chain)
        return str(error)
