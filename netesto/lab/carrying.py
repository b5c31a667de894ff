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
from netesto.emulator import linkstate
from netesto.emulator.linkstate import LinkState
from netesto.errors import LabError, OutputError, ProcessError
from netesto.lab import plan as plan_of_links
from netesto.lab.plan import LabPlan, ProgramLink
from netesto.lab.records import NAMESPACE_FOLDER, Record
from netesto.system import proc, process

READY_TIMEOUT_S = 20.0


def start(plan: LabPlan, record: Record) -> None:
    """Start the programs, each of which is ready. LabError if one cannot be started."""
    for link in plan.program_links:
        _start(plan, record, link)


def words(plan: LabPlan, record: Record) -> str:
    """The ends and the socket of each link that is carried, for agents: `a:b:SOCKET,…`."""
    return ",".join(f"{link.a}:{link.b}:{_control(record, link)}" for link in plan.program_links)


def _control(record: Record, link: ProgramLink) -> Path:
    return Path(record.sockets) / plan_of_links.socket_name(link.taps[0])


def states(record: Record) -> list[LinkState]:
    """The links of a lab that programs carry, in the order of their sockets, as they are now.
    LabError if a program does not answer."""
    sockets = sorted(Path(record.sockets).glob(".tap*"))
    return [_state(socket) for socket in sockets]


def _state(socket: Path) -> LinkState:
    try:
        answer = process.run(
            [emulator.program(), "tell", str(socket), "state"], timeout=READY_TIMEOUT_S
        )
        return linkstate.read(answer.stdout)
    except (ProcessError, OutputError) as error:
        raise LabError(f"the program of {socket} does not answer: {error}") from None


def describe(record: Record, a: str, b: str) -> str:
    """The state of the link between two nodes, what the first sends first. LabError if no program
    carries it."""
    for state in states(record):
        if {a, b} == set(state.ends):
            ways = (a, b), (b, a)
            return "\n".join(line for way in ways for line in linkstate.lines(state, *way))
    raise LabError(f"no program carries the link {a} - {b}", remedy="emulator=program: one does.")


def _start(plan: LabPlan, record: Record, link: ProgramLink) -> None:
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
                f"ends={link.a},{link.b}",
                # Then system calls are what a link costs: it makes fewer (ring.h).
                f"simulated={int(proc.is_in_simulated_time())}",
                *emulator.words(link.forward, link.reverse),
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
