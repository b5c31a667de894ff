"""Measurements come from hosts to the results folder, and are deleted there."""

import asyncio
import contextlib
from pathlib import Path

from netesto.controller.experiment import Experiment
from netesto.controller.host import HostConnection
from netesto.controller.hosts import AT_ONCE, Hosts
from netesto.controller.observer import Observer
from netesto.controller.progress import Progress
from netesto.errors import AgentError, ConnectionLostError
from netesto.model import FileEntry
from netesto.results.severity import invalidates
from netesto.results.store import Store
from netesto.transport import files

# How often the files of an experiment are requested, each time after a cut.
FETCH_ATTEMPTS = 5


class Fetcher:
    """Fetches the data of experiments from the hosts of a run into `store`."""

    def __init__(self, hosts: Hosts, progress: Progress, store: Store, observer: Observer) -> None:
        self._hosts = hosts
        self._progress = progress
        self._store = store
        self._observer = observer

    async def fetch(
        self, experiment: Experiment, name: str, *, places: asyncio.Semaphore | None = None
    ) -> None:
        """Fetch the experiment's files from a host, when its flows there are over. An agent that
        was lost is asked for what it had written until then, when it is back.

        A host that waits for one of the `places` takes no samples any more: those of 200 hosts of
        a lab, five times a second, would keep a processor from what they wait for.
        """
        await self._progress.until_over(
            lambda: experiment.is_over_at(name),
            lambda: min(self._progress.overdue_s(experiment), self._progress.latest_end_s),
        )
        host = self._hosts.held.get(name)
        if host is None or name not in experiment.pending_data:
            return
        self._observer.doing(f"data from {name}")
        await host.ready()
        for attempt in range(1, FETCH_ATTEMPTS + 1):
            losses = host.losses
            try:
                await self._bring(experiment, host, places or contextlib.nullcontext())
                break
            except AgentError as error:
                is_cut = isinstance(error, ConnectionLostError) or host.losses > losses
                if attempt == FETCH_ATTEMPTS or not is_cut:
                    raise
                # After the cut it begins again.
                await host.ready()
        experiment.pending_data.discard(name)
        if name in experiment.lost:
            self._learn(experiment, host)

    def _learn(self, experiment: Experiment, host: HostConnection) -> None:
        """Count flows whose agent was lost after their end, which it had recorded."""
        path = self._store.place(experiment.exp, host.name, "events.jsonl")
        if str(path.relative_to(experiment.folder)) not in experiment.files:
            return
        with path.open(encoding="utf-8", errors="replace") as lines:
            for group, flow in experiment.learn(
                host.name, lines, host.from_agent_clock, now_s=self._progress.clock.now()
            ):
                self._observer.flow_ended(experiment.exp, group.label(flow.instance), flow.status)

    async def _bring(
        self,
        experiment: Experiment,
        host: HostConnection,
        turn: contextlib.AbstractAsyncContextManager[None],
    ) -> None:
        own = experiment.groups_at(host.name)
        if any(each.left and each.request.client == host.name for each in own):
            await host.agent.abort(experiment.exp)
        finished = await host.finish(experiment.exp)
        for text in finished.changed:
            self._progress.mark_partial(experiment, invalidates(f"{host.name}: {text}"))

        def place(entry: FileEntry) -> Path:
            return self._store.place(experiment.exp, host.name, entry.path)

        def keep(entry: FileEntry, path: Path) -> None:
            experiment.files[str(path.relative_to(experiment.folder))] = entry.sha256

        async with turn:
            await files.ship(
                *(host.agent, experiment.exp, finished.files, place),
                host=host.name,
                content=finished.content,
                on_arrival=keep,
            )
            await host.agent.confirm(experiment.exp)

    async def fetch_rest(self, experiment: Experiment) -> None:
        """Fetch, before processing, the data of every host that GET_DATA has not fetched. Hosts
        without flows, as routers, report whether they are still as they were set."""
        places = asyncio.Semaphore(AT_ONCE)
        pending = sorted(experiment.pending_data)
        others = [
            host
            for name, host in self._hosts.held.items()
            if host.settings and name not in experiment.hosts
        ]
        await asyncio.gather(
            *(self._fetch_in_time(experiment, name, places) for name in pending),
            *(self._compare(experiment, host, places) for host in others),
        )

    async def _compare(
        self, experiment: Experiment, host: HostConnection, places: asyncio.Semaphore
    ) -> None:
        try:
            async with places:
                await host.ready()
                finished = await host.agent.finish(experiment.exp)
        except AgentError as error:
            reason = f"whether it is as it was set is unknown: {error.message}"
            experiment.mark_partial(invalidates(reason))
            return
        for text in finished.changed:
            self._progress.mark_partial(experiment, invalidates(f"{host.name}: {text}"))

    async def fetch_open(self) -> None:
        """Fetch the data of all experiments from all hosts at once: none waits for one that does
        not respond."""
        await asyncio.gather(*(self.fetch_all_from(name) for name in self._hosts.held))

    async def fetch_all_from(self, name: str) -> None:
        for experiment in self._progress.experiments.values():
            if name in experiment.pending_data:
                await self._fetch_in_time(experiment, name)

    async def _fetch_in_time(
        self, experiment: Experiment, name: str, places: asyncio.Semaphore | None = None
    ) -> None:
        left_s = (
            max(0.0, self._progress.latest_data_s - self._progress.clock.now())
            if self._progress.is_in_haste
            else None
        )
        try:
            async with asyncio.timeout(left_s):
                await self.fetch(experiment, name, places=places)
        except TimeoutError:
            experiment.mark_partial(f"{name}: its data did not arrive in time")
        except AgentError as error:
            experiment.mark_partial(error.message)
