"""Scripts for the command line: `netesto check` and `netesto fmt`."""

import argparse
import sys
from pathlib import Path

from netesto.cli import run, status
from netesto.controller.inventory import load
from netesto.errors import UsageError
from netesto.lab import topology
from netesto.language import check as checking
from netesto.language import interpreter, parser, printer
from netesto.language.ports import LabRequest


def check(options: argparse.Namespace) -> int:
    """Every error and warning that can be found without running."""
    hosts = list(load(options.hosts).endpoints) if options.hosts else None
    findings = checking.check(
        options.scripts,
        library_path=run.library_path(options.libraries),
        definitions=run.parse_definitions(options.definitions),
        hosts=hosts,
        lab_hosts=_lab_hosts,
    )
    for finding in findings:
        print(finding, file=sys.stderr)
    errors = sum(finding.severity == "error" for finding in findings)
    warnings = len(findings) - errors
    if not findings:
        print("nothing found wrong")
    else:
        print(f"{_count(errors, 'error')}, {_count(warnings, 'warning')}", file=sys.stderr)
    return status.WRONG if errors else status.OK


def _lab_hosts(request: LabRequest) -> tuple[str, ...]:
    return topology.build(request.topology, request.settings).hosts


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_scripts(options: argparse.Namespace) -> int:
    """Print scripts in the usual form, or write them so."""
    for path in options.scripts:
        text = _read(path)
        formed = printer.print_script(parser.parse(text, file=str(path)))
        if not options.write:
            sys.stdout.write(formed)
        elif formed != text:
            path.write_text(formed, encoding="utf-8")
            print(f"formatted {path}")
    return status.OK


def _read(path: Path) -> str:
    try:
        return interpreter.read_script(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
