"""Puts back the changes that the journal holds, unless somebody else has changed the same since."""

import logging
import socket
from dataclasses import replace

from netesto.agent import steps, things
from netesto.agent.journal import Change, Journal
from netesto.agent.steps import Write
from netesto.agent.things import KernelFile, Thing, show
from netesto.errors import ProcessError

log = logging.getLogger(__name__)

# What tc says if there is nothing left to undo.
_ALREADY_GONE = (
    "handle of zero",
    "No such file",
    "Cannot find device",
    "Invalid handle",
    "No such process",
)


async def restore(journal: Journal) -> tuple[int, list[str]]:
    """Undo what the journal still holds, the last first: how many changes are undone, and a
    sentence for each thing that is not as it was.

    A thing that somebody else has changed since stays as it is. What cannot be undone stays in the
    journal, for the next start. Both are logged, and journaled until a controller has been told.
    """
    undone, left = 0, list[str]()
    known = set(journal.remains().left)

    def tell(sentence: str) -> None:
        left.append(sentence)
        if sentence not in known:
            known.add(sentence)
            journal.note_left(sentence)

    for line in journal.remains().unread:
        tell(f"line {line} of the journal: not put back: another version of netesto wrote it")
    is_foreign: dict[Thing, bool] = {}
    for noted in journal.remains().changes:
        change = _renamed(noted)
        if change is None:
            journal.undone(noted.number)
            log.info("setting gone with its interface", extra={"setting": noted.setting.words})
            continue
        if change.thing not in is_foreign:
            now = await show(change.thing)
            is_foreign[change.thing] = now is not None and not change.is_ours(now)
            if now is not None and is_foreign[change.thing]:
                tell(changed_since(change, now, "left as it is"))
                log.warning("setting left", extra={"setting": change.setting.words, "now": now})
        if is_foreign[change.thing]:
            journal.undone(change.number)
            continue
        if in_steps := len(change.undo) > 1:
            journal.undoing(change.number)
        if await undo(change) and await _holds(change):
            journal.undone(change.number)
            undone += 1
            continue
        if in_steps and (now := await show(change.thing)) is not None:
            journal.note_made(change.number, now)
        tell(f"{change.setting.words}: not put back; the log of the agent has the reason")
    return undone, left


async def _holds(change: Change) -> bool:
    """Whether the kernel shows what was written back; a file that is gone shows nothing."""
    match change.undo:
        case (Write(path, text),):
            file = KernelFile(path)
            now = await show(file)
            if now is not None and not file.is_same(" ".join(text.split()), now):
                extra = {"setting": change.setting.words, "wanted": text, "now": now}
                log.error("setting not put back", extra=extra)
                return False
    return True


def _renamed(change: Change) -> Change | None:
    """The change, at the name that its interface has now; None if there is no such interface."""
    if not change.interface or index(change.thing.interface) == change.interface:
        return change
    try:
        name = socket.if_indextoname(change.interface)
    except OSError:
        return None
    undo = tuple(steps.at(name, step) for step in change.undo)
    return replace(change, thing=things.at(name, change.thing), undo=undo)


def index(device: str) -> int:
    """The index of an interface; 0 if there is none of this name."""
    try:
        return socket.if_nametoindex(device)
    except (OSError, ValueError):
        return 0


def changed_since(change: Change, now: str, what_happens: str) -> str:
    """A sentence that somebody else has changed a thing."""
    return (
        f"{change.setting.words}: another program changed it since,"
        f" to {change.thing.describe(now)}, which is {what_happens}"
    )


async def undo(change: Change) -> bool:
    """Return whether a change is undone now, or was gone already."""
    what = change.setting.words
    for step in change.undo:
        try:
            await steps.do(step)
        except (ProcessError, OSError) as error:
            said = str(error)
            # A program that is missing is "cannot start: No such file or directory".
            if (
                isinstance(error, ProcessError)
                and "cannot start" not in said
                and any(text in said for text in _ALREADY_GONE)
            ):
                continue
            log.error("setting not put back", extra={"setting": what, "reason": str(error)})  # noqa: TRY400 - the reason says it all
            return False
    log.info("setting put back", extra={"setting": what})
    return True
