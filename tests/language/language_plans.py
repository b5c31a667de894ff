"""Plans for tests, and their steps in words."""

from collections.abc import Iterable
from typing import Any

from language_asked import LIBRARY

from netesto.language.draft import Draft
from netesto.language.plan import Plan, SourceFile
from netesto.language.planner import make
from netesto.language.steps import (
    Claim,
    Echo,
    EnterPart,
    LeavePart,
    ProcessExperiment,
    RemoteCommand,
    StartFlows,
    Step,
    Wait,
    WaitFlows,
)

# A macro that is an experiment of its own.
ONE = """\
BEGIN one
    SET exp=COUNTER
    DO_CLIENT host=a server=b exp=$exp ca=$ca dur=$dur test=TCP_RR
    SET exp=PREV
    WAIT_FLOWS
    PROCESS_EXP exp=$exp
END one
SET dur=10
"""
SWEEP = "SWEEP ca=reno,bbr DO\nRUN one\nDONE\n"


def planned(text: str, **options: Any) -> Plan:
    given: dict[str, Any] = {"library_path": [LIBRARY], "definitions": {}} | options
    names = ("library_path", "definitions", "max_iterations")
    own = {name: given.pop(name) for name in names if name in given}
    return make(SourceFile("test.nts", text), Draft(**{"seed": 1} | given), **own)


def in_words(steps: Iterable[Step]) -> list[str]:
    """Steps in words that are enough in most tests."""
    return [_words_of(step) for step in steps]


def _words_of(step: Step) -> str:
    match step:
        case RemoteCommand():
            return f"{step.name} {step.host} exp={step.exp}"
        case Wait():
            return f"wait {step.seconds:g}"
        case WaitFlows():
            return f"flows {step.exp}"
        case StartFlows():
            return f"start {step.lead_s:g}"
        case ProcessExperiment():
            return f"process {step.exp}"
        case Claim():
            return f"claim {step.exp}: {step.text}"
        case Echo():
            return f"echo {step.text}"
        case EnterPart():
            return f"enter {step.index}"
        case LeavePart():
            return f"leave {step.index}{'' if step.whole else ' broken off'}"
    raise AssertionError(step)
