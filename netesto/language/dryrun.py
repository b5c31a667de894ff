"""Prints the steps of a plan."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

from netesto.errors import Place
from netesto.language import steps
from netesto.language.duration import NOTHING, Timeline
from netesto.language.plan import Head, Totals
from netesto.units import counted, format_time

_SPECIAL = re.compile(r'[ \t"#\\]')

Form: TypeAlias = Literal["plain", "json"]


class Printer:
    """Prints the commands of a plan, each with the moment when it begins: the flows and waits
    before it, of RAND_WAIT the mean."""

    def __init__(self, write: Callable[[str], None], *, form: Form = "plain") -> None:
        self._write = write
        self._form = form
        self._clock = Timeline(NOTHING)
        self._unknown = 0

    def show(self, step: steps.Step) -> None:
        """Print the next step."""
        match step:
            case steps.RemoteCommand():
                if isinstance(step, steps.DoClient) and step.flow.lasts_until_done:
                    self._unknown += 1
                self._print(step.name, step, step.arguments, step.place)
            case steps.ProcessExperiment(exp=exp, notes=notes, place=place):
                arguments = {"exp": str(exp), "expName": notes.exp_name}
                if notes.description:
                    arguments["desc"] = notes.description
                self._print("PROCESS_EXP", step, arguments | dict(notes.columns), place)
            case steps.Echo(text=text) if self._form == "plain":
                self._write(f"# {text}")
        self._clock.take(step)

    def finish(self, head: Head) -> None:
        """Print the totals."""
        totals, least = head.totals, head.at_least
        if self._form == "json":
            summary = {
                "experiments": totals.experiments,
                "flows": totals.flows,
                "seconds": round(totals.seconds, 1),
            }
            if least is not None:
                summary["experiments_at_least"] = least.experiments
                summary["seconds_at_least"] = round(least.seconds, 1)
            if self._unknown:
                summary["of_unknown_duration"] = self._unknown
            self._write(json.dumps({"summary": summary}))
        else:
            most = "at most " if least is not None else ""
            self._write(f"# {most}{_totals_text(totals)}{self._beside()}")
            for until in head.untils:
                self._write(f"# {until}")
            if least is not None:
                self._write(f"# at least {_totals_text(least)}")

    def _beside(self) -> str:
        if not self._unknown:
            return ""
        commands = counted(self._unknown, "DO_CLIENT")
        needs = "needs" if self._unknown == 1 else "need"
        return f", and as long as {commands} with count= and without dur= {needs}"

    def _print(
        self,
        name: str,
        step: steps.RemoteCommand | steps.ProcessExperiment,
        arguments: Mapping[str, str],
        place: Place,
    ) -> None:
        at = f"{place.file}:{place.line}"
        if self._form == "json":
            remote = step if isinstance(step, steps.RemoteCommand) else None
            fields = {
                "command": name,
                "host": remote.host if remote else "",
                "args": dict(arguments),
                "at": at,
                "exp": step.exp,
                "group": remote.group if remote else 0,
            }
            self._write(json.dumps(fields))
        else:
            words = [f"{key}={quoted(text)}" for key, text in arguments.items()]
            self._write(f"{' '.join([name, *words])}  # {format_time(self._clock.now_s)}, {at}")


def quoted(text: str) -> str:
    """`text` as a word of a script that has this value."""
    text = text.replace("$", "$$")
    if text and _SPECIAL.search(text) is None:
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' if text else ""


def _totals_text(totals: Totals) -> str:
    return (
        f"{counted(totals.experiments, 'experiment')}, {counted(totals.flows, 'flow')},"
        f" about {format_time(_whole(totals.seconds))}"
    )


def _whole(seconds: float) -> float:
    """An estimate without insignificant digits."""
    return round(seconds) if seconds >= 1 else round(seconds, 1)
