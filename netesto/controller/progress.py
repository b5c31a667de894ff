"""How far the experiments of a run are: what agents report on them, and waiting for it."""

import asyncio
import math
from collections.abc import Callable, Iterator

from netesto.collectors.clock import Clock
from netesto.controller.experiment import Experiment, GroupState
from netesto.controller.host import RETURN_S, HostConnection
from netesto.controller.observer import Observer
from netesto.errors import AgentError
from netesto.model import Event
from netesto.results.severity import invalidates

# The time in which an agent must report the end of a flow after it was due: a hanging tool gets
# some extra time, the server completes its samples, and the machine may be busy.
OVERDUE_GRACE_S = 30.0

# After this process was stopped, the time until a cut connection is noticed (channel.KEEPALIVE_S);
# and by how much a busy machine may delay it.
RESUMED_S, LATE_S = 5.0, 1.0

# Hosts are not trusted. The longest cut of a connection limits the delay of an event, and further
# warnings, shown by a run or kept with an experiment, are useless.
ABSURD_S = 3600.0
WARNINGS_MAX = 10_000


class Progress:
    """The experiments that have begun and are not processed, by number: another thread removes them
    when they are. `held` finds a host of the run by its name, if it is held."""

    def __init__(
        self, held: Callable[[str], HostConnection | None], *, clock: Clock, observer: Observer
    ) -> None:
        self.experiments: dict[int, Experiment] = {}
        self.clock = clock
        # After an interruption, the instants until which the end of flows, and data, are waited
        # for.
        self.latest_end_s = self.latest_data_s = math.inf
        self._held = held
        self._observer = observer
        self._warnings = self._settings_left = 0
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_in_haste(self) -> bool:
        """Whether a hurried request to end limits all waiting."""
        return self.latest_data_s < math.inf

    @property
    def is_left(self) -> bool:
        """Whether all open experiments have failed already, and no flow runs."""
        return bool(self.experiments) and all(each.is_left for each in self.experiments.values())

    def groups(self) -> Iterator[tuple[Experiment, GroupState]]:
        for experiment in tuple(self.experiments.values()):
            for group in experiment.groups.values():
                yield experiment, group

    # ---- reports of agents ----------------------------------------------------------------

    def on_event(self, host: HostConnection, event: Event) -> None:
        experiment = self.experiments.get(event.exp)
        if event.kind == "warning":
            self.warn(experiment, f"{host.name}: {event.text}")
            return
        if event.kind in {"lost", "changed"}:
            text = f"{host.name}: {event.text}"
            text = invalidates(text) if event.kind == "changed" else text
            if experiment and host.name in experiment.hosts:
                self.mark_partial(experiment, text)
            else:
                self.warn(None, text)
            return
        if event.kind == "left":
            self._settings_left += 1
            if self._settings_left <= WARNINGS_MAX:
                self._observer.warn(f"{host.name}: {event.text}")
                self._observer.setting_left(f"{host.name}: {event.text}")
            return
        group = experiment.groups.get(event.group) if experiment else None
        if experiment is None or group is None or group.request.client != host.name:
            return
        group.observe(event, self._possible_time(experiment, group, host, event))
        if event.kind == "progress":
            # Nobody waits for it: to look at all groups each time takes long if there are many.
            self._observer.flow_progress(event.exp, group.label(event.instance), event.rate_bps)
            return
        if event.kind in {"ended", "failed"}:
            status = "ok" if event.kind == "ended" else event.text
            self._observer.flow_ended(event.exp, group.label(event.instance), status)
        elif event.kind == "complete":
            self._release(experiment, group)
        self._changed.set()

    def _possible_time(
        self, experiment: Experiment, group: GroupState, host: HostConnection, event: Event
    ) -> float:
        """When an event happened. If the time is impossible, the flows fail: no other report of
        this host on them is credible."""
        time_s, now_s = host.from_agent_clock(event.time_s), self.clock.now()
        if abs(time_s - now_s) < ABSURD_S:
            return time_s
        reason = f"{host.name}: reported an event at an impossible time"
        experiment.mark_partial(reason)
        group.fail(reason, now_s)
        return now_s

    def on_lost(self, host: HostConnection, reason: str) -> None:
        if host.is_dismissed:
            return
        text = f"{host.name}: {reason}"
        for experiment in tuple(self.experiments.values()):
            if host.name in experiment.started:
                experiment.lost[host.name] = text
                experiment.mark_partial(text)
                self.end_at(host.name, experiment, text)
            elif host.settings and host.name not in experiment.hosts and experiment.started:
                # A router: flows may have passed it when it was not as it was set.
                reason = f"{text}; what was set there did not hold throughout"
                experiment.mark_partial(invalidates(reason))
        self._observer.warn(text)
        if host.awaited_s:
            wait = f"waiting up to {host.awaited_s:.0f} s for the agent of {host.name}"
            self._observer.doing(f"{wait}: {reason}")
            self._observer.say(wait)
        self._changed.set()

    def on_cut(self, host: HostConnection, reason: str) -> None:
        joining = f"joining again, for up to {RETURN_S:.0f} s"
        said = f"{reason}; {joining}" if reason else "connected again; nothing was lost"
        for experiment in tuple(self.experiments.values()):
            if host.name in experiment.hosts:
                experiment.warnings.append(f"{host.name}: {said}")
        self._observer.warn(f"{host.name}: {said}")
        self._changed.set()

    def on_back(self, host: HostConnection) -> None:
        if host.is_dismissed:
            return
        again = f"; ran again: {'; '.join(host.ran_again)}" if host.ran_again else ""
        self._observer.warn(f"{host.name}: its agent is back, with its settings made again{again}")
        self._changed.set()

    def mark_partial(self, experiment: Experiment, text: str) -> None:
        """Note why an experiment is partial, once: each kind of samples is lost with the sampler,
        and a setting stays changed."""
        if experiment.has_noted(text):
            return
        if len(experiment.reasons) < WARNINGS_MAX:
            experiment.mark_partial(text)
        self.warn(None, text)

    def warn(self, experiment: Experiment | None, text: str) -> None:
        if experiment is not None and len(experiment.warnings) < WARNINGS_MAX:
            experiment.warnings.append(text)
        self._warnings += 1
        if self._warnings <= WARNINGS_MAX:
            is_last = self._warnings == WARNINGS_MAX
            more = " (further warnings of hosts are not shown)" if is_last else ""
            self._observer.warn(f"{text}{more}")

    # ---- the end of flows -----------------------------------------------------------------

    def end(self, experiment: Experiment, group: GroupState, reason: str) -> None:
        """Fail the flows of a group that have not ended: no agent will report on them."""
        group.fail(reason, self.clock.now())
        group.complete = True
        group.held = False
        group.left = group.accepted
        self._release(experiment, group)

    def end_at(self, host: str, experiment: Experiment, reason: str) -> None:
        """End all groups of a host that are not over."""
        for group in experiment.groups_at(host):
            if not group.is_over:
                self.end(experiment, group, reason)

    def _release(self, experiment: Experiment, group: GroupState) -> None:
        task = asyncio.create_task(self._forget(experiment, group))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forget(self, experiment: Experiment, group: GroupState) -> None:
        try:
            for name in group.servers:
                await self._forget_at(name, experiment, group)
        finally:
            group.released = True
            self._changed.set()

    async def _forget_at(self, name: str, experiment: Experiment, group: GroupState) -> None:
        server = self._held(name)
        try:
            if server is not None and server.lost is None:
                await server.agent.forget(experiment.exp, group.request.group)
        except AgentError as error:
            # There is nothing to forget if the agent is gone.
            if server is not None and server.lost is None:
                self.warn(experiment, error.message)

    async def until(self, fact: Callable[[], bool], *, deadline_s: Callable[[], float]) -> bool:
        """Wait for events until `fact()` is true; False if it is not by `deadline_s()`."""
        while not fact():
            self._changed.clear()
            remaining = deadline_s() - self.clock.now()
            if remaining <= 0:
                return False
            try:
                await asyncio.wait_for(self._changed.wait(), remaining)
            except TimeoutError:
                continue
        return True

    async def until_over(
        self,
        is_over: Callable[[], bool],
        deadline_s: Callable[[], float],
        *,
        tolerance_s: float = 0.0,
    ) -> bool:
        """Wait for the end of flows; False if they have not ended by `deadline_s()`.

        This process, or its machine, may have been stopped until `tolerance_s` or more after that:
        what agents have reported meanwhile comes first."""
        if await self.until(is_over, deadline_s=deadline_s):
            return True
        woken_s = self.clock.now()
        if woken_s < deadline_s() + tolerance_s:
            return False
        return await self.until(
            is_over,
            deadline_s=lambda: max(deadline_s(), min(woken_s + RESUMED_S, self.latest_end_s)),
        )

    def overdue_s(self, experiment: Experiment) -> float:
        """Until when the end of its flows must be reported. A cut is limited, and events during it
        are reported afterwards."""
        hosts = [host for name in experiment.hosts if (host := self._held(name))]
        if any(host.is_cut for host in hosts):
            return math.inf
        joined_s = max((host.joined_s for host in hosts), default=0.0)
        return max(experiment.expected_end_s, joined_s) + OVERDUE_GRACE_S
