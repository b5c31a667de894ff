"""Estimates the duration of a script: its flows and waits, and the work around them."""

from dataclasses import dataclass, field

from netesto.flowspec import FlowSpec
from netesto.language import steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds of work in addition to flows and waits.

    lab_s         to start, to build a lab and to measure its paths, once
    setting_s     a setting of a host (SET_QDISC and the like), or another small request to an agent
    server_s      DO_SERVER: the host's statistics
    client_s      DO_CLIENT: ports at the server, acceptance at the client
    stats_s       the client's statistics, at its first DO_CLIENT of an experiment
    start_s       from a DO_CLIENT that was accepted to the start of its flows
    end_s         from the end of the last flow until the controller knows
    data_s        GET_DATA
    experiment_s  PROCESS_EXP: digest, tables, and a page with empty graphs
    group_s       what each group adds to that
    flow_s        what each flow adds: starting and ending its tool, its files, its line in graphs
    sample_s      what each sample of a flow's sockets adds, at either end
    """

    lab_s: float = 0.0
    setting_s: float = 0.0
    server_s: float = 0.0
    client_s: float = 0.0
    stats_s: float = 0.0
    start_s: float = 0.0
    end_s: float = 0.0
    data_s: float = 0.0
    experiment_s: float = 0.0
    group_s: float = 0.0
    flow_s: float = 0.0
    sample_s: float = 0.0


# netperf ends a TCP_CRR later than requested: its server waits for another connection.
CRR_LATE_S = 4.0

# The sockets of a flow are sampled at its client and at its server.
ENDS = 2

# In simulated time work takes no time; the short delay of starts (start_s) is negligible.
NOTHING = Costs()

# Measured with scripts/rate-tests.nts in a lab on two cores of a mostly idle server: the
# calls of the controller were timed, and lines laid through them by least squares over the 29
# experiments of 1 to 96 flows of 2 s; what samples cost, over flows of 20 s. The constants of an
# experiment and a group were then set so that whole runs agree (estimated and real: rate-tests
# dur=2 180 and 174 s, vs-tests dur=2 75 and 70 s, ca-tests dur=6 74 and 74 s). Costs depend on the
# machine and its load: if everything takes twice as long, an experiment with one flow of 2 s takes
# 3.4 s instead of 2.7 s, one of a minute 61.4 s instead of 60.7 s. `bench/overhead` measures their
# accuracy.
REAL_TIME = Costs(
    lab_s=1.9,
    setting_s=0.02,
    server_s=0.05,
    client_s=0.027,
    stats_s=0.055,
    start_s=0.12,
    end_s=0.12,
    data_s=0.035,
    experiment_s=0.2,
    group_s=0.028,
    flow_s=0.0115,
    sample_s=0.00005,
)


@dataclass(slots=True)
class _OpenExperiment:
    """An experiment that is not processed yet. `end_s` is when its last flow ends, of those whose
    duration is known; `is_open`: another one runs until it is done."""

    end_s: float = 0.0
    is_open: bool = False
    groups: int = 0
    flows: int = 0
    samples: float = 0.0
    clients_with_stats: set[str] = field(default_factory=set)


class Timeline:
    """A clock that the steps of a script advance. `now_s` counts from its begin."""

    def __init__(self, costs: Costs) -> None:
        self.now_s = 0.0
        self._costs = costs
        self._open: dict[int, _OpenExperiment] = {}
        self._held: list[steps.DoClient] = []

    def take(self, step: steps.Step) -> None:
        """A step is executed."""
        match step:
            case steps.DoClient():
                self._accept(step)
            case steps.DoServer():
                self.now_s += self._costs.server_s
            case steps.GetData():
                self.now_s += self._costs.data_s
            case steps.RemoteCommand():
                self.now_s += self._costs.setting_s
            case steps.Wait(mean_s=mean_s):
                self.now_s += mean_s
            case steps.WaitFlows(exp=exp, timeout_s=timeout_s):
                self._wait_flows(exp, timeout_s)
            case steps.StartFlows(lead_s=lead_s):
                self._start_held(lead_s)
            case steps.ProcessExperiment(exp=exp):
                self._process(exp)

    def left_s(self, exp: int) -> float:
        """How long the started flows of an experiment still run, as far as it is known."""
        return max(0.0, self._open.get(exp, _OpenExperiment()).end_s - self.now_s)

    def is_idle(self) -> bool:
        """Whether all flows have ended, none waits for its start, and that is certain."""
        ended = (each.end_s <= self.now_s and not each.is_open for each in self._open.values())
        return not self._held and all(ended)

    def lab(self) -> None:
        """A lab is built, and its paths are measured."""
        self.now_s += self._costs.lab_s

    def _start_held(self, lead_s: float) -> None:
        """Flows that were held start, `lead_s` from now."""
        for command in self._held:
            self._run(command, self.now_s + lead_s)
        self._held.clear()

    def _wait_flows(self, exp: int, timeout_s: float | None) -> None:
        """Advance to the end of the experiment's last flow, or by `timeout_s`."""
        if exp not in self._open:
            return
        self._open[exp].is_open = False
        known_s = max(self.now_s, self._open[exp].end_s + self._costs.end_s)
        self.now_s = known_s if timeout_s is None else min(known_s, self.now_s + timeout_s)
        # After the timeout no flow runs any more.
        self._open[exp].end_s = min(self._open[exp].end_s, self.now_s)

    def _process(self, exp: int) -> None:
        """The experiment is processed, when its flows have ended."""
        self._wait_flows(exp, None)
        experiment, costs = self._open.pop(exp, _OpenExperiment()), self._costs
        self.now_s += costs.experiment_s + costs.group_s * experiment.groups
        self.now_s += costs.flow_s * experiment.flows + costs.sample_s * experiment.samples

    def _accept(self, command: steps.DoClient) -> None:
        experiment, flow = self._open.setdefault(command.exp, _OpenExperiment()), command.flow
        self.now_s += self._costs.client_s
        if flow.stats and command.host not in experiment.clients_with_stats:
            experiment.clients_with_stats.add(command.host)
            self.now_s += self._costs.stats_s
        experiment.groups += 1
        experiment.flows += flow.instances
        duration_s = _known_s(flow)
        samples_each = ENDS * flow.parallel * duration_s / flow.interval_s
        experiment.samples += flow.instances * samples_each
        if command.hold:
            self._held.append(command)
        else:
            self._run(command, self.now_s + self._costs.start_s)

    def _run(self, command: steps.DoClient, start_s: float) -> None:
        experiment = self._open.setdefault(command.exp, _OpenExperiment())
        late_s = CRR_LATE_S if command.flow.test == "TCP_CRR" else 0.0
        start_s += command.flow.delay_s + command.flow.spread_s + command.flow.idle_s
        end_s = start_s + _known_s(command.flow) + late_s + command.flow.idle_s
        experiment.end_s = max(experiment.end_s, end_s)
        experiment.is_open = experiment.is_open or command.flow.lasts_until_done


def _known_s(flow: FlowSpec) -> float:
    """The duration of a flow, as far as it is known."""
    return 0.0 if flow.lasts_until_done else flow.whole_s
