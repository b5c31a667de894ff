"""Plans for tests, and their steps in words."""

from collections.abc import Iterable
from typing import Any

from language_asked import LIBRARY

from netesto.language import ports
from netesto.language.plan import Plan, SourceFile
from netesto.language.planner import make

# A macro that is an experiment of its own.
ONE = """\
BEGIN one
    SET exp=COUNTER
    DO_CLIENT host=a server=b exp=$exp ca=$ca dur=$dur
    SET exp=PREV
    WAIT_FLOWS
    PROCESS_EXP exp=$exp
END one
SET dur=10
"""
SWEEP = "SWEEP ca=reno,bbr DO\nRUN one\nDONE\n"


def planned(text: str, **options: Any) -> Plan:
    given: dict[str, Any] = {"library_path": [LIBRARY], "seed": 1, "definitions": {}} | options
    return make(SourceFile("test.nts", text), **given)


def told(steps: Iterable[ports.Step]) -> list[str]:
    """Steps in words that are enough in most tests."""
    return [_told(step) for step in steps]


def _told(step: ports.Step) -> str:
    match step:
        case ports.RemoteCommand():
            return f"{step.name} {step.host} exp={step.exp}"
        case ports.Wait():
            return f"wait {step.seconds:g}"
        case ports.WaitFlows():
            return f"flows {step.exp}"
        case ports.StartFlows():
            return f"start {step.lead_s:g}"
        case ports.ProcessExperiment():
            return f"process {step.exp}"
        case ports.Claim():
            return f"claim {step.exp}: {step.text}"
        case ports.Echo():
            return f"echo {step.text}"
        case ports.EnterPart():
            return f"enter {step.index}"
        case ports.LeavePart():
            return f"leave {step.index}{'' if step.whole else ' broken off'}"
    raise AssertionError(step)
