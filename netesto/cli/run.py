"""`netesto run`: a dry run first, then the ground, then the script, then what came of it."""

import argparse
import os
import platform
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from netesto import __version__
from netesto.cli import grounds, printing, sidebyside, status
from netesto.cli.grounds import Choice
from netesto.cli.settings import (
    Script,
    Settings,
    are_ours,
    fields_for,
    known,
    repeated_definitions,
    unused_definitions,
)
from netesto.cli.sidebyside import Assignment
from netesto.errors import ScriptError, UsageError
from netesto.lab import guest, kernels
from netesto.language.dryrun import DryRun, Warned
from netesto.language.interpreter import Interpreter
from netesto.language.parts import Rehearsal
from netesto.results import durable, runs, store
from netesto.results.runs import RunRecord


def run(options: argparse.Namespace) -> int:
    """Run a script, or show what it would do."""
    grounds.check_options(options)
    script = Script.read(options.script)
    settings = Settings.of(options)
    out = options.out or Path("results") / script.name
    durable.check_folder(out)
    counter = store.counter(out)
    fields = fields_for(options.fields, script.path)
    if options.dry_run:
        shown = DryRun(printing.out, form=options.dry_run, counter=counter, known=known(fields))
        interpreter = settings.interpreter(shown)
        script.run(interpreter)
        grounds.check_script(options, shown, script.file)
        if grounds.named(options) == "sim":
            grounds.check_tests(shown.commands)
        shown.finish()
        if not are_ours(fields):
            printing.err(f"columns of exp.csv: {fields.source}")
        _warn_of_definitions(options, settings, interpreter)
        _warn([*shown.warnings, *grounds.warnings(options, shown, script.file)])
        return status.OK
    # Whatever is wrong with the script shows here, before anything is touched.
    resolved: list[str] = []
    rehearsal = Rehearsal(resolved.append, counter=counter, known=known(fields))
    interpreter = settings.interpreter(rehearsal)
    script.run(interpreter)
    grounds.check_script(options, rehearsal, script.file)
    if not options.part:
        _check_numbers(rehearsal, out, resume=options.resume)
    fields = fields.with_names(rehearsal.columns)
    part = Assignment.parse(options.part) if options.part else None
    run_record = RunRecord(
        name=part.run if part else runs.name_at(time.time()),
        argv=tuple(os.fsencode(word).decode("utf-8", "backslashreplace") for word in sys.argv),
        script_path=script.file,
        script=script.text,
        resolved="\n".join(resolved),
        seed=settings.seed,
        started=runs.utc(time.time()),
        sources={file.path: file.text for file in interpreter.finish().files[1:]},
        versions={
            "netesto": __version__,
            "python": platform.python_version(),
            "kernel": platform.release(),
        },
    )
    if part is not None and part.script != sidebyside.digest(run_record):
        raise UsageError(
            f"{script.file}, or a file it reads, was changed while it ran",
            remedy="What was measured is kept; --resume runs the cells that are left.",
        )
    choice = grounds.choose(options, rehearsal, script.file)
    if choice.ground == "sim":
        grounds.check_tests(rehearsal.commands)
    if part is None and guest.ground_inside() is None:
        _warn_of_definitions(options, settings, interpreter)
        _warn(grounds.warnings(options, rehearsal, script.file))
    in_guests = choice.ground in {"uml", "sim"} and guest.ground_inside() is None
    jobs = _jobs(options, choice, rehearsal)
    if in_guests:
        # Here, for a guest takes seconds to say so.
        kernel = choice.kernel or kernels.need("uml" if choice.ground == "uml" else "sim")
        if not options.quiet:
            why = f"; {choice.reason}" if choice.reason else ""
            printing.err(f"ground {choice.ground}: kernel {kernel.version}{why}")
        if jobs is None:
            name = part.name(rehearsal) if part else None
            return grounds.run_inside(
                kernel, options, out=out, seed=settings.seed, part=name, script=script.text
            )
        from netesto.cli.parted import Parted

        return Parted(
            options,
            rehearsal=rehearsal,
            run_record=replace(
                run_record,
                jobs=jobs,
                versions={**run_record.versions, "kernel": kernel.version},
            ),
            fields=fields,
            out=out,
            kernel=kernel,
            script=script,
            settings=settings,
            jobs=jobs,
            counter=counter,
        ).run()
    # Drawing and the wire take half a second to import, for nothing where a guest does it all.
    from netesto.cli.whole import Whole

    session = Whole(
        options,
        script=script,
        settings=settings,
        rehearsal=rehearsal,
        run_record=run_record,
        fields=fields,
        choice=choice,
        out=out,
        part=part,
    )
    return session.run()


def _warn_of_definitions(
    options: argparse.Namespace, settings: Settings, interpreter: Interpreter
) -> None:
    sources = [file.text for file in interpreter.finish().files]
    for warning in (
        *repeated_definitions(options.definitions),
        *unused_definitions(settings.definitions, sources),
    ):
        printing.err(f"warning: {warning}")


def _warn(warnings: Iterable[Warned]) -> None:
    for warning in warnings:
        place = f"{warning.place.file}:{warning.place.line}"
        printing.err(f"warning: {place}: {warning.message}")


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


def _jobs(options: argparse.Namespace, choice: Choice, rehearsal: Rehearsal) -> int | None:
    """How many parts of the script run side by side; None if it runs as one.

    In simulated time parts are always apart: their results do not depend on how many run at once,
    and so not on whether it is one.
    """
    if options.part or guest.ground_inside() is not None:
        return None
    if choice.ground not in {"uml", "sim"}:
        if options.jobs is not None and options.jobs > 1:
            raise grounds.crowded(options.jobs, choice.ground)
        return None
    if all(part.is_idle for part in rehearsal.parts):
        return None
    if rehearsal.entangled:
        if options.jobs is not None and options.jobs > 1:
            raise UsageError(
                f"--jobs {options.jobs}: experiment {rehearsal.entangled} belongs to more than one"
                " repetition or cell",
                remedy="Without --jobs the script runs as one. Or let every repetition have its own"
                " experiment, from exp=COUNTER to PROCESS_EXP.",
            )
        return None
    if options.jobs is None and choice.ground == "sim":
        return sidebyside.default_jobs()
    asked: int | None = options.jobs
    return asked
