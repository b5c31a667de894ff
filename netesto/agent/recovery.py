"""The state folder of an agent. One agent uses it at a time, and first recovers from a killed one.

STATE/lock      held by the agent
STATE/journal   changes to undo (agent.journal)
STATE/spool/    files that no controller has confirmed yet (agent.spool)
STATE/ages.json how long they have been there (agent.ages)
STATE/servers/  output of lasting traffic servers
"""

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from netesto.agent import access, leftovers, putback
from netesto.agent.journal import Journal
from netesto.errors import WorldError

log = logging.getLogger(__name__)


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
                f"{state}: another agent has this folder", remedy="Give each its own --state."
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
    for life in journal.remains().lives:
        ended = leftovers.end(life)
        journal.ended(life)
        if ended:
            log.warning("processes of a killed agent ended", extra={"count": len(ended)})
    undone, _ = await putback.restore(journal)
    if undone:
        log.warning("settings of a killed agent put back", extra={"count": undone})
