"""How flows start: each when its DO_CLIENT is accepted, or many at one instant (START_FLOWS)."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Sequence

from netesto.controller.experiment import Experiment, GroupState
from netesto.controller.hosts import Hosts
from netesto.controller.observer import Observer
from netesto.controller.progress import Progress
from netesto.controller.wallclock import await_moment
from netesto.errors import AgentError, MissingError
from netesto.grounds import Ground
from netesto.transport import channel

# START_FLOWS tells clients that are ready an instant at least so far ahead, in simulated time that
# far, and so much further for each pace (transport.channel) by which a large lab is slower.
RELEASE_LEAD_S = 0.2
SAMPLED_FIRST_S = 0.1
SAMPLED_EACH_PACE_S = 0.05

# A group that is not ready by then fails, and the others start.
READY_TIMEOUT_S = 60.0


class Starter:
    """Starts flows on the hosts of a run."""

    def __init__(
        self, hosts: Hosts, progress: Progress, observer: Observer, *, ground: Ground
    ) -> None:
        self._hosts = hosts
        self._progress = progress
        self._observer = observer
        self._ground = ground
        self._clock = progress.clock

    async def start_held(self, lead_s: float) -> float | None:
        """START_FLOWS: make all held groups ready, and let them start at one instant, which is
        returned (None: nothing starts): as soon as the last one is ready, but not before `lead_s`
        from now."""
        held = [(experiment, group) for experiment, group in self._progress.groups() if group.held]
        await_moment(self._ground)
        begun_s = self._clock.now()
        self._observer.doing("making flows ready")
        accepted_s = await asyncio.gather(*(self._start_or_mark_partial(*pair) for pair in held))
        accepting_s = max(accepted_s, default=begun_s) - begun_s
        deadline_s = self._clock.now() + READY_TIMEOUT_S
        await self._progress.until(
            lambda: all(group.ready or group.complete for _, group in held),
            deadline_s=lambda: deadline_s,
        )
        for experiment, group in held:
            if not group.ready and not group.complete:
                reason = f"{group.request.client}: not ready within {READY_TIMEOUT_S:g} s"
                self._progress.end(experiment, group, reason)
        ahead_s = await self._ahead_s(
            {name for _, group in held if not group.complete for name in group.hosts}, accepting_s
        )
        # All start together, when the last of the pings that precede some has shown an idle path.
        idle_s = max((group.request.idle_s for _, group in held), default=0.0)
        start_s = max(begun_s + lead_s, self._clock.now() + ahead_s) + idle_s
        waiting: dict[tuple[int, str], list[GroupState]] = defaultdict(list)
        for experiment, group in held:
            if not group.complete:
                self._set_start(experiment, group, start_s)
                for name in dict.fromkeys((group.request.client, *group.servers)):
                    waiting[experiment.exp, name].append(group)
        await asyncio.gather(
            *(
                self._release_at(name, self._progress.experiments[exp], groups, start_s)
                for (exp, name), groups in waiting.items()
            )
        )
        return start_s if waiting else None

    async def _ahead_s(self, hosts: Collection[str], accepting_s: float) -> float:
        """How far ahead an instant has to be for all hosts to know it in time, if the last of them
        has accepted its flows within `accepting_s`. Clocks are measured on this occasion."""
        if self._ground.is_simulated:
            return SAMPLED_FIRST_S
        begun_s = self._clock.now()
        # A host that is lost now does not start its flows either.
        await asyncio.gather(*(self._hosts.held[name].measure_clock() for name in hosts))
        # To do what is told takes longer than to tell a time, and of 200 hosts of a lab a third of
        # the time to accept flows. What keeps a machine busy comes and goes.
        told_s = max(RELEASE_LEAD_S, accepting_s / 3, 2 * (self._clock.now() - begun_s))
        # The hosts of a large lab take samples first, one after the other.
        machine_hosts = len(self._hosts.inventory.endpoints) if self._ground.on_one_machine else 1
        return told_s + SAMPLED_EACH_PACE_S * (channel.pace(machine_hosts) - 1)

    async def _start_or_mark_partial(self, experiment: Experiment, group: GroupState) -> float:
        """When the client had accepted the group; 0 if it does not."""
        try:
            await self.start(experiment, group, None)
        except (AgentError, MissingError) as error:
            experiment.mark_partial(error.message)
            return 0.0
        return self._clock.now()

    async def _release_at(
        self, name: str, experiment: Experiment, groups: Sequence[GroupState], start_s: float
    ) -> None:
        """Let groups that are ready start at their client, and be observed at their server."""
        host = self._hosts.held[name]
        numbers = [group.request.group for group in groups]
        try:
            await host.agent.begin(experiment.exp, numbers, host.to_agent_clock(start_s))
        except AgentError as error:
            for group in groups:
                self._progress.end(experiment, group, error.message)
            experiment.mark_partial(error.message)

    async def start(self, experiment: Experiment, group: GroupState, start_s: float | None) -> None:
        client = self._hosts.held[group.request.client]
        group.held = False
        experiment.started.add(client.name)
        at_s = None if start_s is None else client.to_agent_clock(start_s)
        try:
            await client.agent.start(group.request, group.ports, at_s)
        except (AgentError, MissingError) as error:
            self._progress.end(experiment, group, error.message)
            raise
        group.accepted = True
        if start_s is not None:
            self._set_start(experiment, group, start_s)

    def _set_start(self, experiment: Experiment, group: GroupState, start_s: float) -> None:
        group.set_start(start_s)
        for flow in group.flows:
            self._observer.flow_accepted(
                experiment.exp,
                group.label(flow.instance),
                start_s=start_s + group.request.delay_s,
                duration_s=None if group.request.lasts_until_done else group.request.whole_s,
            )
