"""Kernels for the grounds `uml` and `sim`: `netesto kernel build|list`."""

import argparse
import sys

from netesto.cli import status
from netesto.lab import kernels


def kernel(options: argparse.Namespace) -> int:
    """`netesto kernel …`."""
    return _build(options) if options.action == "build" else _list()


def _build(options: argparse.Namespace) -> int:
    made = kernels.build(options.source, progress=_progress)
    print(f"{made.name}  {made.path}")
    return status.OK


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _list() -> int:
    there = kernels.installed()
    for found in there:
        print(f"{found.kind}  {found.name:32} {found.path}")
    for ground in ("uml", "sim"):
        if kernels.find(ground) is None:
            print(f"{ground}  none; {kernels.missing(ground).remedy}")
    return status.OK
