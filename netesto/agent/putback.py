"""Puts back the changes that the journal holds, unless somebody else has changed the same since."""

import logging
import os
import shlex
import socket
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from netesto.agent import asking, interfaces, metrics, middles, qdiscs
from netesto.agent.journal import Change, Journal, Run, Step, Write
from netesto.errors import NetestoError, ProcessError
from netesto.system import process

log = logging.getLogger(__name__)

# Things that are not files of the kernel (`shown`).
QDISC, LINK, ROUTE, KERNEL = "qdisc ", "link ", "route ", "kernel "

# A command in the network namespace that the kernel began with.
_IN_FIRST = ("nsenter", "--net=/proc/1/ns/net")

_SYSCTLS = "/proc/sys/"

# The kernel adds the default congestion control to it.
_ALLOWED = frozenset(
    {
        "/proc/sys/net/ipv4/tcp_allowed_congestion_control",
        f"{KERNEL}net.ipv4.tcp_allowed_congestion_control",
    }
)

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
            journal.left(sentence)

    is_foreign: dict[str, bool] = {}
    for noted in journal.remains().changes:
        change = _renamed(noted)
        if change is None:
            journal.undone(noted.number)
            log.info("setting gone with its interface", extra={"setting": noted.what})
            continue
        if change.undo is None:
            tell(f"{change.what}: not put back: another version of netesto changed it")
            log.error("setting not put back", extra={"setting": change.what, "reason": left[-1]})
            continue
        if change.thing not in is_foreign:
            now = await shown(change.thing)
            is_foreign[change.thing] = now is not None and not is_ours(change, now)
            if now is not None and is_foreign[change.thing]:
                tell(changed_since(change, now, "left as it is"))
                log.warning("setting left", extra={"setting": change.what, "now": now})
        if is_foreign[change.thing]:
            journal.undone(change.number)
            continue
        if in_steps := len(change.undo) > 1:
            journal.undoing(change.number)
        if await undo(change.what, change.undo) and await _holds(change):
            journal.undone(change.number)
            undone += 1
            continue
        if in_steps and (now := await shown(change.thing)) is not None:
            journal.made(change.number, now)
        tell(f"{change.what}: not put back; the log of the agent has the reason")
    return undone, left


async def _holds(change: Change) -> bool:
    """Whether the kernel shows what was written back; a file that is gone shows nothing."""
    match change.undo:
        case (Write(path, text),):
            now = await shown(path)
            wanted = replace(change, thing=path, shows=" ".join(text.split()))
            if now is not None and not is_ours(wanted, now):
                extra = {"setting": change.what, "wanted": text, "now": now}
                log.error("setting not put back", extra=extra)
                return False
    return True


async def shown(thing: str) -> str | None:
    """What the kernel shows of a thing, which is the path of its file, `qdisc DEVICE`, `link DEVICE
    ATTRIBUTE`, `limits NAMESPACE DEVICE`, `route ADDRESS` or `kernel SYSCTL`; None if there is
    none."""
    try:
        match thing.split(" "):
            case ["link", device, name]:
                return (await interfaces.shown(device))[name].partition(" ")[0]
            case ["limits", _, _]:
                return await middles.shown(thing)
            case ["route", address]:
                return await metrics.shown(address)
            case ["kernel", name]:
                return await shown_of_kernel(name)
            case ["qdisc", device]:
                return qdiscs.described(await qdiscs.root(device))
        return fields(Path(thing)) if thing else None
    except (OSError, NetestoError, KeyError, ValueError):
        return None


async def shown_of_kernel(name: str) -> str:
    """A sysctl of the whole kernel. AgentError if there is none."""
    return " ".join((await asking.output(*_IN_FIRST, "sysctl", "-n", name)).split())


def of_kernel(name: str, value: str) -> Run:
    """How to set a sysctl of the whole kernel."""
    return Run((*_IN_FIRST, "sysctl", "-q", "-w", f"{name}={value}"))


def is_ours(change: Change, now: str) -> bool:
    """Whether a thing is still as this change, the last one of it, has made it."""
    if change.thing in _ALLOWED and change.shows is not None:
        return set(change.shows.split()) <= set(now.split())
    return change.shows is None or now == change.shows


def _renamed(change: Change) -> Change | None:
    """The change, at the name that its interface has now; None if there is no such interface."""
    device = device_of(change.thing)
    if not change.interface or index(device) == change.interface:
        return change
    try:
        name = socket.if_indextoname(change.interface)
    except OSError:
        return None
    undo = change.undo and tuple(_at(name, step) for step in change.undo)
    kind, _, rest = change.thing.partition(f" {device}")
    return replace(change, thing=f"{kind} {name}{rest}", undo=undo)


def device_of(thing: str) -> str:
    """The interface of ours that a thing belongs to; "" if it is another thing."""
    return thing.split(" ")[1] if thing.startswith((QDISC, LINK)) else ""


def _at(device: str, step: Step) -> Step:
    if isinstance(step, Run) and "dev" in step.argv:
        behind = step.argv.index("dev") + 1
        return Run((*step.argv[:behind], device, *step.argv[behind + 1 :]))
    if isinstance(step, Run) and step.argv[:2] == ("ethtool", "-K"):
        return Run((*step.argv[:2], device, *step.argv[3:]))
    return step


def index(device: str) -> int:
    """The index of an interface; 0 if there is none of this name."""
    try:
        return socket.if_nametoindex(device)
    except (OSError, ValueError):
        return 0


def changed_since(change: Change, now: str, what_happens: str) -> str:
    """A sentence that somebody else has changed a thing; for a qdisc with its kind."""
    is_qdisc = change.thing.startswith(QDISC)
    value = (now.partition(" ")[0] or "the kernel's own qdisc") if is_qdisc else now
    return f"{change.what}: another program changed it since, to {value}, which is {what_happens}"


async def undo(what: str, steps: Iterable[Step]) -> bool:
    """Return whether a change is undone now, or was gone already."""
    for step in steps:
        try:
            await do(step)
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


async def do(step: Step) -> None:
    match step:
        case Write(path, text):
            _write(Path(path), text)
        case Run(argv):
            await process.run_async(argv, timeout=asking.TIMEOUT_S)


def words(step: Step) -> str:
    """A step as a command of a shell."""
    match step:
        case Write(path, text) if path.startswith(_SYSCTLS):
            name = path.removeprefix(_SYSCTLS).replace("/", ".")
            return shlex.join(("sysctl", "-w", f"{name}={text}"))
        case Write(path, text):
            return f"echo {shlex.quote(text)} > {shlex.quote(path)}"
        case Run(argv):
            return shlex.join(argv)


def _write(path: Path, text: str) -> None:
    # One write: the kernel takes each as a whole value. Never creates.
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def fields(path: Path) -> str:
    """A kernel file's value, its fields separated by single spaces."""
    return " ".join(path.read_text(encoding="utf-8").split())
