"""Scripts for the command line: `netesto check` and `netesto fmt`."""

import argparse
import contextlib
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

from netesto.cli import printing
from netesto.controller import preflight, requests
from netesto.controller.inventory import load, parse_map
from netesto.errors import ScriptError, UsageError, WorldError
from netesto.files import atomic
from netesto.language import check as checking
from netesto.language import interpreter, parser, printer
from netesto.language.finding import merged
from netesto.language.plan import STANDARD_INPUT
from netesto.language.steps import LabRequest, RemoteCommand, Requirement
from netesto.run import labcommands, labs, settings, status
from netesto.units import counted

_STANDARD_INPUT = Path("-")


def check(options: argparse.Namespace) -> int:
    """Every error and warning that can be found without running."""
    aliases = parse_map(options.map)
    hosts = None
    if options.hosts:
        hosts = load(options.hosts, aliases=aliases)
        for warning in hosts.warnings:
            printing.warn(warning)
    # With real hosts their names count, and LAB only has to be valid.
    of_lab = aliases if hosts is None else {}
    refusing: list[Callable[[RemoteCommand], None]] = [requests.check_possible]
    if options.commands is not None:
        labcommands.check_ground("hosts" if options.hosts else "")
        refusing.append(labcommands.checker(options.commands))

    def refuse(command: RemoteCommand) -> None:
        for each in refusing:
            each(command)

    def unmet(requirement: Requirement, lab: LabRequest | None) -> list[str]:
        """What a REQUIRE needs, and neither these hosts nor else those of the LAB can have."""
        available = hosts.endpoints if hosts else labs.network(lab).hosts if lab else ()
        return preflight.unmet(requirement, {}, count=len(available))

    def lab_hosts(lab: LabRequest) -> list[str]:
        return [*labs.inventory(labs.network(lab), [], aliases=of_lab).endpoints, *of_lab]

    findings = checking.check(
        options.scripts,
        library_path=settings.library_path(options.libraries),
        definitions=settings.parse_definitions(options.definitions),
        hosts=None if hosts is None else [*hosts.endpoints, *aliases],
        lab_hosts=lab_hosts,
        lab_text=labs.text_of,
        lab_warnings=lambda lab, commands: labcommands.warnings(
            labs.network(lab), commands, aliases=of_lab, file=options.commands
        ),
        unmet=unmet,
        known=lambda script: settings.column_knowledge(settings.fields_for(options.fields, script)),
        refuse=refuse,
        max_iterations=options.max_iterations,
        read=_read,
    )
    for warning in settings.repeated_definitions(options.definitions):
        printing.warn(warning)
    for finding in merged(findings):
        printing.err(finding)
    errors = sum(finding.severity == "error" for finding in findings)
    warnings = len(findings) - errors
    if not findings:
        printing.out("no errors or warnings")
    else:
        printing.err(f"{counted(errors, 'error')}, {counted(warnings, 'warning')}")
    return status.WRONG if errors else status.OK


def format_scripts(options: argparse.Namespace) -> int:
    """Print scripts in the standard format, rewrite them, or report which are not in it."""
    if options.write and _STANDARD_INPUT in options.scripts:
        raise UsageError("standard input cannot be written", remedy="Without -w it is printed.")
    outcome = status.OK
    for path in options.scripts:
        try:
            is_formed = _format(path, write=options.write, check=options.check)
        except ScriptError as error:
            # Continue with the others.
            printing.err(error)
            outcome = status.WRONG
        else:
            outcome = max(outcome, status.OK if is_formed else status.FAILED)
    return outcome


def _format(path: Path, *, write: bool, check: bool) -> bool:
    """Whether a script is accepted: False if only its format is checked, and it differs."""
    try:
        text = _read(path)
    except OSError as error:
        raise settings.unread(path, error) from error
    file = STANDARD_INPUT if path == _STANDARD_INPUT else str(path)
    formed = printer.print_script(parser.parse(text, file=file))
    if check:
        if formed != text:
            printing.err(f"{path} is not in the standard format")
        return formed == text
    if not write:
        if printing.is_terminal(sys.stdout):
            printing.out(formed, end="")
        else:
            printing.deliver(formed, None)
    elif formed != text:
        _rewrite(path, formed)
        printing.out(f"formatted {path}")
    return True


def _rewrite(path: Path, text: str) -> None:
    """Replace a script atomically; a symbolic link to it stays."""
    target = path.resolve()
    try:
        was = target.stat()
        with atomic.replaced(target, lasting=True) as file:
            file.write(text.encode())
            # Only root can change the owner of a file; for others it is already right.
            with contextlib.suppress(PermissionError):
                os.fchown(file.fileno(), was.st_uid, was.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(was.st_mode))
    except OSError as error:
        raise WorldError(f"{path}: cannot write: {error.strerror or error}") from error


def _read(path: Path) -> str:
    """The text of a script. OSError if it cannot be read, ScriptError if it is not a script."""
    if path == _STANDARD_INPUT:
        return settings.standard_input()
    return interpreter.read_script(path)
