"""`netesto run` and `netesto plan`: from arguments to a request."""

import argparse
from functools import partial
from pathlib import Path

from netesto import grounds
from netesto.cli import display, displayed, printing
from netesto.cli.display import Display
from netesto.controller.inventory import Inventory, load, parse_map
from netesto.deploy import target
from netesto.errors import UsageError
from netesto.language.dryrun import Printer
from netesto.language.plan import is_plan
from netesto.language.steps import LabRequest
from netesto.model import MAX_ITERATIONS
from netesto.run import labcommands, labs, start, status
from netesto.run.request import OnFailure, RunRequest, Shown
from netesto.run.settings import (
    RunSettings,
    library_path,
    parse_definitions,
    repeated_definitions,
)


def run(options: argparse.Namespace) -> int:
    """Run a script, or print its steps."""
    asked = _request(options)
    if options.dry_run:
        watcher = display.to_stderr(plain=options.plain, quiet=options.quiet)
        printer = Printer(printing.out, form=options.dry_run)
        with start.plan(asked, watcher, printer.show) as plan:
            printer.finish(plan.head)
        return status.OK
    return displayed.run(asked, partial(start.run, asked))


def plan(options: argparse.Namespace) -> int:
    """Write the plan of a script."""
    _check_plan(options)
    asked = RunRequest(
        script=options.script, settings=_settings(options), fields=options.fields, lab=_lab(options)
    )
    watcher = Display(quiet=False)
    out = None if options.output == Path("-") else options.output
    with start.plan(asked, watcher) as made, printing.into(out) as file:
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
    _check_plan(options)
    return RunRequest(
        script=options.script,
        settings=_settings(options),
        out=options.out,
        fields=options.fields,
        ground=ground,
        kernel=options.kernel,
        hosts=hosts,
        own_agents=options.ssh is not None,
        bundle=options.bundle,
        lab=_lab(options),
        aliases=aliases,
        family=options.family,
        jobs=options.jobs,
        resume=options.resume,
        on_failure=on_failure,
        agreed=options.yes,
        force=options.force,
        wait_s=options.wait,
        max_wall_s=options.max_wall,
        commands=options.commands,
        max_stall_s=options.max_stall,
        shown=Shown(
            plain=options.plain,
            quiet=options.quiet,
            debug=options.debug,
            verbosity=options.verbose,
        ),
        pages=not options.no_pages,
        packs=options.pack,
        on=options.on or "",
        budget_s=options.budget,
        insecure=options.insecure,
        warnings=(*repeated_definitions(options.definitions), *(hosts.warnings if hosts else ())),
    )


def _check_plan(options: argparse.Namespace) -> None:
    """UsageError if an option contradicts a plan."""
    if not is_plan(Path(options.script)):
        return
    given = {
        "-D": options.definitions,
        "--lib": options.libraries,
        "--seed": options.seed is not None,
        "--lab": options.lab,
        "--memory": options.memory is not None,
        "--fields": options.fields,
        "--max-iterations": options.max_iterations != MAX_ITERATIONS,
    }
    for option in (name for name, is_given in given.items() if is_given):
        raise UsageError(
            f"{options.script} is a plan: {option} has no effect on it",
            remedy=f"Make another plan: netesto plan {option} … SCRIPT -o {options.script}",
        )
