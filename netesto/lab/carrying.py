"""The programs that carry links of a lab: one process for each, in the namespace of the links.

It ends with the processes of this namespace (teardown), whatever becomes of the run. Agents reach
it by its socket, which is in the folder of the lab's sockets.
"""

import contextlib
import os
import secrets
import select
from pathlib import Path

from netesto import emulator
from netesto.errors import LabError, ProcessError
from netesto.lab import plan as plan_of_links
from netesto.lab.plan import Carried, Plan
from netesto.lab.records import NAMESPACE_FOLDER, Record
from netesto.system import process

READY_TIMEOUT_S = 20.0


def start(plan: Plan, record: Record) -> None:
    """Start the programs, each of which is ready. LabError if one cannot be started."""
    for link in plan.carried:
        _start(plan, record, link)


def words(plan: Plan, record: Record) -> str:
    """The ends and the socket of each link that is carried, for agents: `a:b:SOCKET,…`."""
    return ",".join(f"{link.a}:{link.b}:{_control(record, link)}" for link in plan.carried)


def _control(record: Record, link: Carried) -> Path:
    return Path(record.sockets) / plan_of_links.socket_name(link.taps[0])


def _start(plan: Plan, record: Record, link: Carried) -> None:
    log = Path(record.files) / f".{link.taps[0]}.log"
    reader, writer = os.pipe()
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, reader)
        try:
            argv = [
                *("nsenter", f"--net={NAMESPACE_FOLDER / plan.links}"),
                *(emulator.program(), "carry", f"tap={','.join(link.taps)}"),
                f"control={_control(record, link)}",
                # Where the random numbers of the kernel repeat, its losses do.
                f"seed={secrets.randbits(63)}",
                f"ready={writer}",
                *emulator.words(link.there, link.back),
            ]
            process.launch(argv, stdout=log, pass_fds=[writer])
        except ProcessError as error:
            raise LabError(f"link {link.a} - {link.b}: its program cannot start: {error}") from None
        finally:
            os.close(writer)
        select.select([reader], [], [], READY_TIMEOUT_S)
        os.set_blocking(reader, False)
        with contextlib.suppress(BlockingIOError):
            if os.read(reader, 1):
                return
    said = log.read_text(encoding="utf-8", errors="replace").strip()
    raise LabError(f"link {link.a} - {link.b}: its program is not ready: {said}")
