"""Measurements of agents that no controller has fetched: where they are, and fetching them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from netesto.controller.host import Connect, holder
from netesto.controller.inventory import Inventory
from netesto.errors import AgentError, NetestoError, ResultsError
from netesto.files import atomic
from netesto.model import RUN_NAME, Endpoint, FileEntry, Unfetched
from netesto.results import durable, integrity
from netesto.transport import files
from netesto.transport.base import Connection


@dataclass(slots=True)
class Fetched:
    """The experiments that came from a host, each with its folder and bytes; the `error` that ended
    it, if one did."""

    host: str
    experiments: list[tuple[Unfetched, Path]]
    error: NetestoError | None = None


async def fetch(inventory: Inventory, out: Path, *, connect: Connect) -> list[Fetched]:
    """Fetch measurements that no controller has fetched into OUT/runs/RUN-unfetched/HOST/EXP.

    An agent removes its own files of an experiment when all of them are on our disk, compared by
    SHA-256. Until then the folder is called EXP.part; another call fetches the rest. Existing files
    with other content are not overwritten.
    """
    return list(
        await asyncio.gather(*(_fetch(each, out, connect) for each in inventory.endpoints.values()))
    )


async def _fetch(endpoint: Endpoint, out: Path, connect: Connect) -> Fetched:
    fetched = Fetched(endpoint.host, [])
    try:
        async with await connect(endpoint) as agent:
            async for each, place in _bring(agent, endpoint.host, out):
                fetched.experiments.append((each, place))
    except NetestoError as error:
        fetched.error = error
    return fetched


async def _bring(agent: Connection, host: str, out: Path) -> AsyncIterator[tuple[Unfetched, Path]]:
    """Each experiment when it is here, with its folder."""
    by_run: dict[str, list[Unfetched]] = {}
    status = await agent.status()
    if status.holder:
        # AgentBusyError, unless the connection of the holder is cut: then wait for the end of its
        # hold, because it has data, too.
        async with contextlib.aclosing(agent.hold(holder(), status.run)) as events:
            await anext(events)
        status = await agent.status()
    for each in status.unfetched:
        if not RUN_NAME.fullmatch(each.run):
            raise AgentError(f"reports a run with an invalid name: {each.run!r}", host=host)
        by_run.setdefault(each.run, []).append(each)
    for run, experiments in by_run.items():
        async with contextlib.aclosing(agent.hold(holder(), run)) as events:
            await anext(events)
            for each in experiments:
                folder = out / "runs" / f"{run}-unfetched" / host / str(each.exp)
                await _ship(agent, host, each.exp, folder)
                _settle(folder, out)
                await agent.confirm(each.exp)
                yield each, folder


async def _ship(agent: Connection, host: str, exp: int, folder: Path) -> None:
    """Fetch the files of an experiment that an earlier call did not. Until all of them are here,
    the folder is called EXP.part."""
    entries = (await agent.finish(exp)).files
    files.check(entries, host)
    part = folder.with_name(f"{folder.name}.part")
    missing = _begin(folder, part, entries, host)
    await files.ship(agent, exp, missing, lambda each: part / each.path, host=host, lasting=True)
    with durable.writing(folder):
        part.rename(folder)


def _begin(
    folder: Path, part: Path, entries: Sequence[FileEntry], host: str
) -> Sequence[FileEntry]:
    """The files that earlier calls have not fetched; what they have is in `part` from now on."""
    fetched = folder if folder.exists() else part
    durable.make_folder(fetched)
    with durable.writing(fetched):
        missing = [each for each in entries if not _is_here(fetched / each.path, each, host)]
        fetched.rename(part)
    return missing


def _is_here(path: Path, entry: FileEntry, host: str) -> bool:
    """Whether an earlier call has fetched a file. ResultsError if it has another content."""
    if path.exists() and integrity.sha256_of(path) != entry.sha256:
        raise ResultsError(
            f"{path}: exists, with other content than on {host}",
            remedy="Choose another folder with --out.",
        )
    return path.exists()


def _settle(folder: Path, out: Path) -> None:
    """Make the folders of an experiment survive a power failure."""
    above: Sequence[Path] = [each for each in folder.parents if each.is_relative_to(out)]
    below = [each for each in folder.rglob("*") if each.is_dir()]
    with durable.writing(folder):
        for each in (*below, folder, *above):
            atomic.sync_folder(each)
