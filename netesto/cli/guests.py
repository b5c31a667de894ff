"""Kernels for the grounds `uml` and `sim`: `netesto kernel build|list`."""

import argparse
import asyncio

from netesto.cli import printing
from netesto.grounds import GROUNDS
from netesto.lab import kernelbuild, kernels
from netesto.lab.kernels import Kernel
from netesto.run import status
from netesto.run.workers import LocalWorkers, need_dask


def build(options: argparse.Namespace) -> int:
    """Build the kernel for simulated time."""
    made = kernelbuild.build(options.source, progress=printing.err)
    printing.out(f"{made.name}  {made.path}")
    return status.OK


def work(options: argparse.Namespace) -> int:
    """Carry out cells for a scheduler."""
    need_dask()
    from netesto.run import cluster, onworker, sidebyside

    address = cluster.address_of(options.address, insecure=options.insecure)
    try:
        asyncio.run(
            onworker.serve(
                address.text,
                LocalWorkers(options.jobs or sidebyside.default_jobs()),
                # Whoever reaches a worker can run programs on it.
                host="127.0.0.1" if address.is_local else None,
                port=options.port,
                security=address.security,
                say=printing.err,
            )
        )
    except onworker.NO_SCHEDULER as error:
        raise cluster.no_scheduler(address, error) from error
    return status.OK


def show_list(_: argparse.Namespace) -> int:
    """The available kernels."""
    installed = kernels.installed()
    usual = {each: kernels.find(each) for each in GROUNDS.values() if each.has_guests}
    for found in installed:
        printing.out(
            f"{found.kind}  {found.name:32} {found.path}{_note(found, usual[found.ground])}"
        )
    for ground, kernel in usual.items():
        if kernel is None:
            printing.out(f"{ground}  none; {kernels.missing(ground).remedy}")
    return status.OK


def _note(kernel: Kernel, usual: Kernel | None) -> str:
    """When a kernel is used, if not by default."""
    if kernel == usual:
        return ""
    made = f", of {kernel.source}" if kernel.is_own else ""
    return f"  (only with --kernel{made})"
