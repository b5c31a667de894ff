"""The state folder of an agent. One agent uses it at a time, and first recovers from a killed one:
it ends the processes that carry its mark, and undoes what its journal holds.

STATE/lock      held by the agent
STATE/journal   changes to undo (agent.journal)
STATE/spool/    files that no controller has confirmed yet (agent.spool)
STATE/ages.json how long they have been there
STATE/servers/  output of lasting traffic servers
"""

import contextlib
import fcntl
import logging
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from netesto.agent import access, putback
from netesto.agent.journal import Journal
from netesto.collectors import hostfacts
from netesto.errors import WorldError
from netesto.system import proc
from netesto.system.life import holder

log = logging.getLogger(__name__)

LIFE_VARIABLE = "NETESTO_LIFE"

# The time after SIGTERM: tcpdump writes its last packets.
GRACE_S = 2.0


@contextlib.contextmanager
def claim(state: Path) -> Iterator[Journal]:
    """Lock the folder and open its journal. WorldError if another agent has it, or other users may
    write the journal: it says what a later agent undoes, perhaps as root."""
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        _keep_others_out(state)
        lock = os.open(state / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise WorldError(f"{state}: {error.strerror}") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise WorldError(
                f"{state}: another agent has this folder: {holder(state / 'lock')}",
                remedy="Give each its own --state.",
            ) from None
        with contextlib.closing(Journal(state / "journal")) as journal:
            yield journal
    finally:
        os.close(lock)


def _keep_others_out(state: Path) -> None:
    """Take write permission from others, as a container's empty volume has it. WorldError if they
    may have put something there."""
    found = state.stat()
    fault = ""
    if found.st_uid not in {0, os.geteuid()}:
        fault = f"it belongs to the user with number {found.st_uid}"
    elif access.others_can_write(found):
        if any(state.iterdir()):
            fault = "others may write to it"
        else:
            state.chmod(0o700)
    if fault:
        raise WorldError(
            f"{state}: no folder for the state of an agent: {fault}",
            remedy="Name a folder that is this user's alone, or does not exist.",
        )


async def recover(journal: Journal) -> None:
    """End the processes and undo the settings that a killed agent left."""
    # Before the settings, which the processes that still run depend on.
    for mark in journal.remains().lives:
        ended = end_life(mark)
        journal.ended(mark)
        if ended:
            log.warning("processes of a killed agent ended", extra={"count": len(ended)})
    undone, _ = await putback.restore(journal)
    if undone:
        log.warning("settings of a killed agent put back", extra={"count": undone})


def mark() -> str:
    """Mark all processes that this one will start: `NETESTO_LIFE=MARK` is from now on in our own
    environment, so that every process that we or our children start carries it, also one that left
    its process group, and no other process does."""
    chosen = secrets.token_hex(16)
    os.environ[LIFE_VARIABLE] = chosen
    return chosen


@contextlib.contextmanager
def life(journal: Journal, mark: str, *, is_in_lab: bool) -> Iterator[None]:
    """Journal the mark before the body starts a process, and end those that carry it with the body.
    The hosts of a lab have one mark: their processes end with the last host (end_lab)."""
    journal.live(mark)
    try:
        yield
    finally:
        if not is_in_lab:
            end_life(mark)
        journal.ended(mark)


@contextlib.contextmanager
def end_lab(mark: str) -> Iterator[None]:
    """End all processes with the mark that those in the body leave behind."""
    proc.adopt_orphans()
    try:
        yield
    finally:
        end_life(mark, among=proc.descendants)


def end_life(
    mark: str, *, grace_s: float = GRACE_S, among: Callable[[], Iterable[int]] = proc.numbers
) -> list[int]:
    """End every process that carries the mark, first with SIGTERM; return their PIDs. This includes
    processes that they start meanwhile, unless one survives SIGKILL. Processes of other users whose
    environment we may not read are not ours. `among`: the processes that may carry it.
    """
    ended: list[int] = []
    while True:
        # Opening a pidfd takes as long as this check, and most processes are not ours.
        ours = (pid for pid in among() if pid != os.getpid() and carries(pid, mark))
        last = proc.end(ours, grace_s=grace_s, belongs=lambda pid: carries(pid, mark))
        ended += (pid for pid in last.found if pid not in ended)
        if not last.found or last.surviving:
            return ended


def carries(pid: int, mark: str) -> bool:
    """Whether a process carries this mark; one that has ended does not."""
    try:
        variables = hostfacts.contents(f"/proc/{pid}/environ")
    except OSError:
        return False
    return f"\0{LIFE_VARIABLE}={mark}\0" in f"\0{variables}"
