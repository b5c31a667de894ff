"""A run in one go, on a ground that this process can reach."""

import contextlib
import gc
import itertools
import platform
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from netesto import report, units
from netesto.controller import preflight, wallclock
from netesto.controller.controller import Controller
from netesto.controller.host import Connect, holder
from netesto.controller.inventory import Inventory
from netesto.controller.run import RunNetwork, RunOnHosts
from netesto.errors import AgentError, LabError, NetestoError, ScriptError, StoppedError, UsageError
from netesto.lab import carrying, drawing, leftovers, netns, plan, probe
from netesto.lab.agents import Nursery
from netesto.lab.netns import Lab
from netesto.lab.topology import Topology
from netesto.language import steps
from netesto.language.plan import Totals
from netesto.model import Endpoint
from netesto.results.manifest import PathRecord
from netesto.results.store import Store
from netesto.run import agents, behindlinks, earlier, labs, status
from netesto.run.drawer import Index
from netesto.run.executor import Executor
from netesto.run.session import RunEnd, RunSession, tell
from netesto.run.settings import claimable
from netesto.system import interrupts, proc
from netesto.transport.client import AgentClient


def run(session: RunSession) -> RunEnd:
    """A whole script, or one part of it, with the agents of its ground."""
    proc.take_memory_from_one_arena()
    if session.request.hosts is not None:
        return session.held(lambda held, results: _Whole(held, results, None).run())
    # Before there are threads. Importing an agent's modules takes a moment, in a guest most of a
    # run's start: this process has most of them already, and all agents inherit them.
    from netesto.agent import nursery

    # The time of earlier imports depends on the version of Python.
    wallclock.await_moment(session.ground)
    with nursery.forked() as orders:
        starter = Nursery(orders)
        return session.held(lambda held, results: _Whole(held, results, starter).run())


class _Whole:
    """The ground, the agents, the plan, and the results as they come."""

    def __init__(self, session: RunSession, results: Store, nursery: Nursery | None) -> None:
        head = session.plan.head
        if not session.is_part:
            results.check_free(head.counter, head.last_number)
        self._passed = earlier.pass_over(session, results, nested=True)
        self._session = earlier.without_numbers(session, self._passed)
        self._rounds = earlier.rounds_of(self._session, results, self._passed)
        self._request = session.request
        self._watcher = session.watcher
        self._head = head
        # What it carries out itself; commands of the head may be of other parts.
        self._own = session.plan.commands()
        self._results = results
        self._nursery = nursery

    # ---- the ground ----------------------------------------------------------------------

    def run(self) -> RunEnd:
        render, write_index = _pages() if self._request.pages else (_nothing, _nothing)
        with self._network() as (inventory, network, connect):
            controller = Controller(
                RunOnHosts(
                    inventory=inventory,
                    store=self._results,
                    connect=connect,
                    observer=self._watcher,
                    network=network,
                    name=self._session.record.name,
                    family=self._request.family,
                    tools=frozenset(command.flow.tool for command in _flows(self._own)),
                ),
                fields=self._session.fields,
                claimable=claimable(self._session.fields),
                render=render,
                index=write_index,
            )
            with controller:
                controller.open_hosts(
                    self._head.commands,
                    self._head.requirements,
                    wait_s=self._request.wait_s,
                )
                left, is_simulated = self._remaining_totals, self._session.ground.is_simulated
                seconds = left.simulated_s if is_simulated else left.seconds
                # Otherwise it is known only at the end.
                if self._head.at_least is None:
                    self._watcher.expect(experiments=left.experiments, seconds=seconds)
                return self._execute(controller, inventory)

    @property
    def _remaining_totals(self) -> Totals:
        """The totals of the script without the skipped parts."""
        whole, passed = self._head.totals, self._passed.parts
        skipped = [part for part in self._head.parts if part.index in passed]
        return replace(
            whole,
            experiments=whole.experiments - sum(map(len, passed.values())),
            seconds=whole.seconds - sum(part.seconds for part in skipped),
            simulated_s=whole.simulated_s - sum(part.simulated_s for part in skipped),
        )

    @contextlib.contextmanager
    def _network(self) -> Iterator[tuple[Inventory, RunNetwork, Connect]]:
        ground = self._session.ground
        if self._request.hosts is not None:
            suffixes = preflight.suffixes(self._head.commands)
            inventory = self._request.hosts.with_suffixes(suffixes)
            if not self._request.agreed:
                self._ask(inventory)
            with (
                self._with_agents(inventory)
                if self._request.own_agents
                else contextlib.nullcontext((inventory, agents.connect)) as (up, connect)
            ):
                yield up, RunNetwork(ground=ground), connect
            return
        network = behindlinks.network_of(self._head)
        self._watcher.doing("building the lab")
        self._tidy_up()
        assert self._nursery is not None, "a lab is built only where there is one"
        planned = labs.inventory(network, self._head.commands, aliases=self._request.aliases)
        network = behindlinks.with_changes(network, self._head.commands, planned)
        built = labs.plan_of(network)
        with netns.up(built, nursery=self._nursery, allowed=self._request.commands) as lab:
            self._watcher.say(f"{ground}: {ground.kernel_words} {platform.release()}")
            # Independent of the computation for building it.
            wallclock.await_moment(ground)
            text = drawing.draw(network)
            self._watcher.say(text)
            for note in plan.notes(built):
                self._watcher.say(note)
            pairs = _all_pairs(self._head.commands, planned, network)
            hosts = labs.endpoints(lab, built, pairs, ground=ground)
            inventory = planned.at(hosts)
            measured = self._measure(lab, built, _pairs(self._own, planned))
            try:
                connect = agents.of_lab(lab, self._nursery, built)
                network_up = RunNetwork(
                    ground=ground,
                    topology=text,
                    paths=measured,
                    links=labs.links_of(built),
                    ways=labs.tracer(lab, built),
                    show_link=partial(carrying.describe, lab.record),
                    clock=self._nursery.clock,
                )
                yield inventory, network_up, connect
            finally:
                self._keep_unfetched(lab)

    @contextlib.contextmanager
    def _with_agents(self, inventory: Inventory) -> Iterator[tuple[Inventory, Connect]]:
        """The hosts, each with an agent for this run."""
        from netesto.deploy import once, target

        self._watcher.doing("starting agents on the hosts")
        hosts = [target.of(each) for each in inventory.endpoints.values()]
        with once.agents(
            hosts,
            holder=holder(),
            bundle=self._request.bundle,
            wait_s=self._request.wait_s,
            say=self._watcher.say,
            warn=self._watcher.warn,
        ) as brought:

            async def connect(endpoint: Endpoint) -> AgentClient:
                """Connect to the agent of a host, and start it again if it was lost."""
                host = brought[endpoint.host]
                await host.come_back()
                there = replace(endpoint, agent=f"unix:{host.socket}")
                try:
                    return await agents.connect(there, reopen=host.come_back)
                except AgentError as error:
                    raise host.refusal() or error from None

            yield inventory.at([each.endpoint for each in brought.values()]), connect

    def _tidy_up(self) -> None:
        try:
            if removed := leftovers.clean():
                self._watcher.say(f"removed leftovers of a killed run ({len(removed)} items)")
        except LabError as error:
            # Our lab has other names.
            self._watcher.warn(f"leftovers of a killed run cannot be removed: {error.message}")

    def _ask(self, inventory: Inventory) -> None:
        """Ask at the terminal before settings of real hosts change."""
        # What each host keeps: the names of sysctls and module parameters, and `qdisc`.
        changed: dict[str, dict[str, None]] = {}
        for command in self._head.commands:
            if isinstance(command, steps.Configure):
                kept = changed.setdefault(inventory.find(command.host).host, {})
                kept.update(dict.fromkeys(command.kept))
        if not changed:
            return
        seconds = units.format_time(round(self._remaining_totals.seconds))
        those = "; ".join(f"{host}: {', '.join(kept)}" for host, kept in changed.items() if kept)
        up_to = "up to " if self._head.at_least is not None else ""
        but = f" except those that hosts keep ({those})" if those else ""
        question = (
            f"This takes {up_to}about {seconds} and changes settings of {', '.join(changed)},"
            f" which are put back at the end{but}. Continue? [Y/n] "
        )
        if not self._watcher.agrees(question):
            raise UsageError("cancelled", remedy="Use --yes to run without this question.")

    def _keep_unfetched(self, lab: Lab) -> None:
        """Keep the measurements of a killed agent, which would be removed with the lab."""
        for host, folder in labs.unfetched(lab).items():
            place = self._session.out / "runs" / f"{self._session.record.name}-unfetched" / host
            try:
                shutil.copytree(folder, place)
            except OSError as error:
                # copytree reports the files that it could not copy as a list, in one error.
                wrong = error.strerror or f"{len(error.args[0])} files cannot be written to {place}"
                self._watcher.warn(f"{host}: data that was not fetched is lost: {wrong}")
                continue
            self._watcher.warn(f"{host}: data that was not fetched is in {place}")

    def _measure(
        self, lab: Lab, built: plan.LabPlan, pairs: Mapping[tuple[str, str], None]
    ) -> tuple[PathRecord, ...]:
        """Measure the paths of flows before the flows."""
        self._watcher.doing("measuring the paths")
        found = probe.measure(lab, built, pairs, family=self._request.family)
        for path in found:
            self._watcher.say(path.describe())
        if not self._request.force:
            probe.refuse(found)
        return tuple(found)

    # ---- the plan ------------------------------------------------------------------------

    def _execute(self, controller: Controller, inventory: Inventory) -> RunEnd:
        outcome = status.OK
        failures: tuple[str, ...] = ()
        self._watcher.say(f"seed {self._head.seed}")
        tell(self._watcher, self._session.plan.head.warnings)
        executor = Executor(
            self._session,
            controller,
            self._results,
            passed=self._passed.parts,
            rounds=self._rounds,
        )
        try:
            executor.run()
        except StoppedError as error:
            self._watcher.say(error.message)
            executor.interrupt("the run was stopped")
        except KeyboardInterrupt:
            interrupts.begin_shutdown()
            self._watcher.say("interrupted: keeping what was measured, putting hosts back")
            try:
                with interrupts.hurried():
                    executor.interrupt("interrupted", in_haste=True)
            except KeyboardInterrupt:
                self._watcher.say("interrupted again: what hosts still have is not fetched")
            outcome = status.INTERRUPTED
        except NetestoError as error:
            if not controller.open_experiments:
                raise
            executor.interrupt(error.message)
            self._watcher.error(str(error))
            # The measurements are on disk, with the reason: a failed measurement, unless it is an
            # error of the script.
            outcome = status.WRONG if isinstance(error, ScriptError) else status.FAILED
            failures = (error.message,)
        if outcome == status.OK and executor.failures:
            outcome = status.FAILED
        return RunEnd(
            outcome,
            failures=(*failures, *executor.failures),
            ground=self._session.ground.name,
            hosts={name: endpoint.agent for name, endpoint in inventory.endpoints.items()},
            settings=controller.settings_in_no_manifest(),
            certainty=self._rounds.ends(),
        ).with_failures(self._passed.failures)


def _flows(commands: Iterable[steps.RemoteCommand]) -> list[steps.DoClient]:
    return [command for command in commands if isinstance(command, steps.DoClient)]


def _pairs(
    commands: Iterable[steps.RemoteCommand], inventory: Inventory
) -> dict[tuple[str, str], None]:
    """The hosts between which flows run, each pair once."""
    return {
        (inventory.find(command.host).host, inventory.find(command.server).host): None
        for command in _flows(commands)
    }


def _all_pairs(
    commands: Iterable[steps.RemoteCommand], inventory: Inventory, network: Topology
) -> dict[tuple[str, str], None]:
    """These, and those of a host and the peers of its traces: all of them if it has several links,
    else one, because all of its flows begin on one link."""
    found = _pairs(commands, inventory)
    for command in commands:
        if isinstance(command, steps.DoTrace):
            host = inventory.find(command.host).host
            peers = (inventory.find(peer).host for peer in command.peers)
            others = (peer for peer in peers if peer != host)
            count = None if len(network.links_of(host)) > 1 else 1
            found |= {(host, peer): None for peer in itertools.islice(others, count)}
    return found


def _pages() -> tuple[Callable[[Path], None], Callable[[Path], None]]:
    """The functions that draw an experiment's page and the index, ready to use."""
    if proc.ground_inside() is not None:
        # The process that started the guest draws.
        return _nothing, _nothing
    # matplotlib takes a second to import: do it now, not while flows run.
    report.warm_up()
    from netesto.report import page

    def draw(folder: Path) -> None:
        page.write(folder)
        # Figures are cyclic garbage, which would remain for dozens of pages.
        gc.collect()

    # Modules stay: it need not look at their objects.
    gc.freeze()
    return draw, Index().update


def _nothing(_: Path) -> None:
    """Another process draws."""
