"""`netesto run` and `netesto plan`: from arguments to a request, and from its end to a status."""

import argparse
import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

from netesto import grounds, log
from netesto.cli import console, printing, tables
from netesto.cli.display import Display
from netesto.controller.inventory import Inventory, load, parse_map
from netesto.deploy import target
from netesto.errors import UsageError
from netesto.language.dryrun import Printer
from netesto.language.plan import is_plan
from netesto.language.steps import LabRequest
from netesto.model import MAX_ITERATIONS
from netesto.results import tablerows
from netesto.run import labcommands, labs, start, status
from netesto.run.request import OnFailure, RunRequest
from netesto.run.session import RunEnd
from netesto.run.settings import (
    RunSettings,
    library_path,
    parse_definitions,
    repeated_definitions,
)


def run(options: argparse.Namespace) -> int:
    """Run a script, or print its steps."""
    asked = _request(options)
    display = Display(console.to_stderr(), plain=options.plain, quiet=options.quiet)
    if options.dry_run:
        printer = Printer(printing.out, form=options.dry_run)
        with start.plan(asked, display, printer.show) as plan:
            printer.finish(plan.head.totals)
        return status.OK
    configure_log(options.verbose)
    end = start.run(asked, display)
    # The reader may be gone; that must not affect the measurements.
    with contextlib.suppress(BrokenPipeError):
        _tell(end, display, quiet=options.quiet, pages=asked.pages)
    return end.status


def plan(options: argparse.Namespace) -> int:
    """Write the plan of a script."""
    _check_plan(options, is_part=False)
    asked = RunRequest(
        script=options.script, settings=_settings(options), fields=options.fields, lab=_lab(options)
    )
    display = Display(console.to_stderr(), plain=True, quiet=False)
    out = None if options.output == Path("-") else options.output
    with start.plan(asked, display) as made, printing.into(out) as file:
        made.write(file)
    return status.OK


def _settings(options: argparse.Namespace) -> RunSettings:
    return RunSettings(
        libraries=library_path(options.libraries),
        definitions=parse_definitions(options.definitions),
        max_iterations=options.max_iterations,
        seed=options.seed,
        memory_mb=options.memory,
    )


def _lab(options: argparse.Namespace) -> LabRequest | None:
    """The LAB of --lab, if there is one. UsageError if it cannot be built."""
    if not options.lab:
        return None
    asked = labs.parse_spec(options.lab)
    labs.network(asked)
    return asked


def _request(options: argparse.Namespace) -> RunRequest:
    """UsageError if the options name no ground, or two, or something else that is invalid."""
    on_failure = OnFailure.parse(options.on_failure)
    if options.hosts is not None and options.ssh is not None:
        raise UsageError(
            "--ssh and --hosts exclude each other",
            remedy="--ssh starts agents for this run; --hosts names agents that run already.",
        )
    if options.bundle is not None and options.ssh is None:
        raise UsageError(
            "--bundle needs --ssh",
            remedy="It has the packages of the agents that --ssh starts.",
        )
    ground = grounds.find(options.ground)
    real = next((name for name in ("hosts", "ssh") if getattr(options, name) is not None), "")
    if not real:
        if options.wait is not None:
            raise UsageError(
                "--wait needs --hosts or --ssh",
                remedy="A lab has hosts of its own, for which no run has to wait.",
            )
        if ground is not None and not ground.is_built:
            raise UsageError(
                f"--ground {ground} needs --hosts or --ssh",
                remedy="Name them, or a file of them: --hosts host1,host2. See docs/hosts.md.",
            )
    elif (ground is not None and ground.is_built) or options.kernel is not None:
        raise UsageError(
            f"--{real} selects real hosts and excludes --ground and --kernel",
            remedy=f"Leave out --{real}, and the script's LAB is built on this machine.",
        )
    if options.commands is not None:
        labcommands.check_ground(real)
    aliases = parse_map(options.map)
    hosts: Inventory | None = None
    if options.hosts is not None:
        hosts = load(options.hosts, aliases=aliases)
    elif options.ssh is not None:
        hosts = load(options.ssh, aliases=aliases)
        for endpoint in hosts.endpoints.values():
            target.of(endpoint)
    _check_plan(options, is_part=bool(options.run))
    return RunRequest(
        script=options.script,
        settings=_settings(options),
        out=options.out,
        fields=options.fields,
        ground=ground,
        kernel=options.kernel,
        hosts=hosts,
        brought=options.ssh is not None,
        bundle=options.bundle,
        lab=_lab(options),
        aliases=aliases,
        family=options.family,
        jobs=options.jobs,
        run=options.run or "",
        resume=options.resume,
        on_failure=on_failure,
        agreed=options.yes,
        force=options.force,
        wait_s=options.wait,
        max_wall_s=options.max_wall,
        commands=options.commands,
        max_stall_s=options.max_stall,
        shown=tuple(_shown(options)),
        pages=not options.no_pages,
        warnings=(*repeated_definitions(options.definitions), *(hosts.warnings if hosts else ())),
    )


def _check_plan(options: argparse.Namespace, *, is_part: bool) -> None:
    """UsageError if an option contradicts a plan."""
    if not is_plan(Path(options.script)):
        return
    given = {
        "-D": options.definitions,
        "--lib": options.libraries,
        "--seed": options.seed is not None,
        "--lab": options.lab,
        "--memory": options.memory is not None,
        # A run passes the columns of its results folder to its parts.
        "--fields": options.fields and not is_part,
        "--max-iterations": options.max_iterations != MAX_ITERATIONS,
    }
    for option in (name for name, is_given in given.items() if is_given):
        raise UsageError(
            f"{options.script} is a plan: {option} has no effect on it",
            remedy=f"Make another plan: netesto plan {option} … SCRIPT -o {options.script}",
        )


def _shown(options: argparse.Namespace) -> Iterator[str]:
    """The options that select how much of a run is shown."""
    if options.plain:
        yield "--plain"
    if options.quiet:
        yield "--quiet"
    if options.debug:
        yield "--debug"
    yield from ["--verbose"] * options.verbose


def _tell(end: RunEnd, display: Display, *, quiet: bool, pages: bool) -> None:
    if end.out is None:
        return
    if display.experiments and not quiet:
        printing.out()
        if rows := tablerows.of(end.out, display.experiments):
            tables.print_rows(rows)
            printing.out()
        if pages and len(display.pages) == 1:
            printing.out(f"page     {display.pages[0]}")
        printing.out(f"results  {end.out}/{'exp.html' if pages else 'exp.csv'}")
    for failure in end.failures:
        printing.err(f"netesto: {failure}")
    if end.status == status.INTERRUPTED:
        printing.err("netesto: interrupted; what was measured is kept")


def configure_log(verbosity: int) -> None:
    """Log to stderr at the level given by -v; the display already shows warnings of the log."""
    levels = (logging.ERROR, logging.INFO, logging.DEBUG)
    log.configure(level=levels[min(verbosity, 2)])
