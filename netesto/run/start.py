"""From a script to its end: a dry run first, then the ground, then the script, then the results."""

import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from netesto import __version__
from netesto.errors import ScriptError, UsageError
from netesto.lab import guest, kernels
from netesto.language.dryrun import DryRun, Form
from netesto.language.interpreter import Interpreter
from netesto.language.parts import Rehearsal
from netesto.results import durable, runs, store
from netesto.results.runs import RunRecord
from netesto.run import grounds, sidebyside
from netesto.run.grounds import Choice
from netesto.run.request import Request, Watcher
from netesto.run.session import End, Session, tell
from netesto.run.settings import Script, are_ours, fields_for, known, unused_definitions
from netesto.run.sidebyside import Assignment


def show(request: Request, watcher: Watcher, *, write: Callable[[str], None], form: Form) -> None:
    """Write every command that the script would have hosts carry out, and carry out none."""
    script = Script.read(request.script)
    fields = fields_for(request.fields, script.path)
    shown = DryRun(write, form=form, counter=_counter(_out(request, script)), known=known(fields))
    interpreter = request.settings.interpreter(shown)
    script.run(interpreter)
    grounds.check_script(request, shown, script.file)
    if grounds.named(request) == "sim":
        grounds.check_tests(shown.commands)
    shown.finish()
    if not are_ours(fields):
        watcher.say(f"columns of exp.csv: {fields.source}")
    _warn(request, watcher, interpreter)
    tell(watcher, [*shown.warnings, *grounds.warnings(request, shown, script.file)])


def run(request: Request, watcher: Watcher) -> End:
    """Run a script, or a part of it. Errors before the first experiment are raised."""
    script = Script.read(request.script)
    out = _out(request, script)
    counter = _counter(out)
    fields = fields_for(request.fields, script.path)
    # Whatever is wrong with the script shows here, before anything is touched.
    resolved: list[str] = []
    rehearsal = Rehearsal(resolved.append, counter=counter, known=known(fields))
    interpreter = request.settings.interpreter(rehearsal)
    script.run(interpreter)
    grounds.check_script(request, rehearsal, script.file)
    if not request.part:
        _check_numbers(rehearsal, out, resume=request.resume)
    part = Assignment.parse(request.part) if request.part else None
    session = Session(
        request=request,
        script=script,
        rehearsal=rehearsal,
        record=RunRecord(
            name=part.run if part else runs.name_at(time.time()),
            argv=tuple(os.fsencode(word).decode("utf-8", "backslashreplace") for word in sys.argv),
            script_path=script.file,
            script=script.text,
            resolved="\n".join(resolved),
            seed=request.settings.seed,
            started=runs.utc(time.time()),
            sources={file.path: file.text for file in interpreter.finish().files[1:]},
            versions={
                "netesto": __version__,
                "python": platform.python_version(),
                "kernel": platform.release(),
            },
        ),
        fields=fields.with_names(rehearsal.columns),
        ground="",
        out=out,
        watcher=watcher,
    )
    if part is not None and part.script != sidebyside.digest(session.record):
        raise UsageError(
            f"{script.file}, or a file it reads, was changed while it ran",
            remedy="What was measured is kept; --resume runs the cells that are left.",
        )
    choice = grounds.choose(request, rehearsal, script.file)
    if choice.ground == "sim":
        grounds.check_tests(rehearsal.commands)
    if part is None and guest.ground_inside() is None:
        _warn(request, watcher, interpreter)
        tell(watcher, grounds.warnings(request, rehearsal, script.file))
    session = replace(session, ground=choice.ground)
    jobs = _jobs(request, choice, rehearsal)
    if choice.ground not in {"uml", "sim"} or guest.ground_inside() is not None:
        # Drawing and the wire take half a second to import, for nothing where a guest does it all.
        from netesto.run import whole

        return whole.run(session)
    # Here, for a guest takes seconds to say so.
    kernel = choice.kernel or kernels.need("uml" if choice.ground == "uml" else "sim")
    why = f"; {choice.reason}" if choice.reason else ""
    watcher.say(f"ground {choice.ground}: kernel {kernel.version}{why}")
    if jobs is None:
        name = part.name(rehearsal) if part else None
        outcome = grounds.run_inside(
            kernel, request, watcher=watcher, out=out, part=name, script=script.text
        )
        return End(outcome, is_told=True)
    from netesto.run import parted

    versions = {**session.record.versions, "kernel": kernel.version}
    record = replace(session.record, jobs=jobs, versions=versions)
    return parted.run(replace(session, record=record), kernel, jobs=jobs, counter=counter)


def _out(request: Request, script: Script) -> Path:
    return request.out or Path("results") / script.name


def _counter(out: Path) -> int:
    """The number of the last experiment in a results folder that can be written to."""
    durable.check_folder(out)
    return store.counter(out)


def _warn(request: Request, watcher: Watcher, interpreter: Interpreter) -> None:
    """Of what looks wrong on the command line."""
    sources = [file.text for file in interpreter.finish().files]
    unused = unused_definitions(request.settings.definitions, sources)
    for warning in (*request.warnings, *unused):
        watcher.warn(warning)


def _check_numbers(rehearsal: Rehearsal, out: Path, *, resume: bool) -> None:
    """ScriptError if the script gives an experiment the number of one that is there already: what
    is measured is not written to again."""
    found = {exp: f"experiment {exp} is processed already" for exp in rehearsal.rewriting}
    # Cells that an earlier run has finished are passed over, and their numbers with them.
    if not resume:
        found |= {
            exp: f"experiment {exp} exists already in {out}"
            for exp in rehearsal.numbered
            if store.bears(out, exp)
        }
    for exp, message in found.items():
        command = rehearsal.rewriting.get(exp) or rehearsal.numbered[exp]
        raise ScriptError(
            f"{message}, and is not overwritten",
            place=command.place.narrowed("exp="),
            remedy="Take a new number with exp=COUNTER, or another folder with --out.",
            chain=command.chain,
        )


def _jobs(request: Request, choice: Choice, rehearsal: Rehearsal) -> int | None:
    """How many parts of the script run side by side; None if it runs as one.

    In simulated time parts are always apart: their results do not depend on how many run at once,
    and so not on whether it is one.
    """
    if request.part or guest.ground_inside() is not None:
        return None
    if choice.ground not in {"uml", "sim"}:
        if request.jobs is not None and request.jobs > 1:
            raise grounds.crowded(request.jobs, choice.ground)
        return None
    if all(part.is_idle for part in rehearsal.parts):
        return None
    if rehearsal.entangled:
        if request.jobs is not None and request.jobs > 1:
            raise UsageError(
                f"--jobs {request.jobs}: experiment {rehearsal.entangled} belongs to more than one"
                " repetition or cell",
                remedy="Without --jobs the script runs as one. Or let every repetition have its own"
                " experiment, from exp=COUNTER to PROCESS_EXP.",
            )
        return None
    if request.jobs is None and choice.ground == "sim":
        return sidebyside.default_jobs()
    return request.jobs
