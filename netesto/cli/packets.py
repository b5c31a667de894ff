"""Captures for the command line: `netesto packets`."""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from netesto.cli import printing
from netesto.errors import UsageError
from netesto.packets import capture
from netesto.packets.found import Capture
from netesto.report import packetflows, packetpage
from netesto.report.expscript import tables
from netesto.report.packetpage import Captures
from netesto.run import status


def packets(options: argparse.Namespace) -> int:
    """Analyse the flows of captures; FAILED if a file is damaged. One that cannot be read, or lacks
    the flow, does not keep others from being analysed."""
    found: list[tuple[str, Capture]] = []
    errors: list[UsageError] = []
    for path in options.files:
        try:
            found.append((str(path), _read(path, options.flow)))
        except UsageError as error:
            errors.append(error)
    if found:
        printing.deliver(_FORMS[options.form](found, options.flow), options.out)
    for name, each in found:
        for text in (*each.damage, *each.remarks):
            printing.err(f"{name}: {text}")
    for each_error in errors[:-1]:
        printing.err(f"netesto: {each_error}")
    if errors:
        raise errors[-1]
    return status.FAILED if any(each.damage for _, each in found) else status.OK


def _read(path: Path, flow: int | None) -> Capture:
    try:
        found = capture.read(path, only=flow)
    except OSError as error:
        raise UsageError(f"{path}: cannot read: {error.strerror}") from error
    if flow is None:
        return found
    chosen = tuple(each for each in found.flows if each.number == flow)
    if not chosen:
        last = max((each.number for each in found.flows), default=0)
        known = f"there are flows 1 to {last}" if last else "it has none"
        raise UsageError(f"{path}: no flow {flow}: {known}")
    return replace(found, flows=chosen)


def _text(captures: Captures, flow: int | None) -> str:
    parts = []
    for name, each in captures:
        shown = (
            tables.as_text(packetpage.table(each))
            if flow is None
            else "\n".join(map(packetpage.details, each.flows))
        )
        parts.append(f"{name}: {packetflows.headline(each)}\n{shown if each.flows else ''}")
    return "\n".join(parts)


_FORMS: Mapping[str, Callable[[Captures, int | None], str]] = {
    "text": _text,
    "json": lambda captures, _: packetpage.as_json(captures),
    "csv": lambda captures, _: packetpage.as_csv(captures),
    "html": lambda captures, _: packetpage.render(captures),
}
