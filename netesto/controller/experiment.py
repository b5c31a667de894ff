"""An experiment while it runs: its groups, their flows, and the reports of agents on them."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from netesto.collectors.cgroup import Quota
from netesto.collectors.clock import SystemTime
from netesto.collectors.ping import UNMEASURED
from netesto.controller import rawfiles
from netesto.controller.wallclock import Stopwatch
from netesto.files import jsontext
from netesto.flowspec import COMPLETION_TESTS, TRACE_TESTS
from netesto.model import Event, GroupRequest, Ports
from netesto.results.evidence import OK
from netesto.results.severity import Severity, severity
from netesto.traffic.native import COMPLETION_S

# Hosts are not trusted, and their clocks known to milliseconds.
RECORD_SLACK_S = 1.0


def _longest_s(request: GroupRequest) -> float:
    """From the start of a flow to the end of the pings after it. The last transfer may begin at the
    end of the duration, and has its time."""
    waiting_s = COMPLETION_S if request.test in COMPLETION_TESTS else 0.0
    return request.spread_s + request.whole_s + waiting_s + request.idle_s


@dataclass(slots=True)
class FlowState:
    """One instance of a group, on the controller's clock. `status` is "" while it runs."""

    instance: int
    asked_start_s: float | None = None
    started_s: float | None = None
    ended_s: float | None = None
    status: str = ""
    last_lines: str = ""


@dataclass(slots=True)
class GroupState:
    """One DO_CLIENT. It is over when its files are complete, or its client is lost.

    `held`: it waits for START_FLOWS. `ready`: its flows are prepared.
    `accepted`: the client's agent will report how it ends. `released`: the server has forgotten it.
    `left`: it was ended here, and its client may not know.
    """

    request: GroupRequest
    ports: Ports
    full_host: str
    full_server: str
    flows: list[FlowState]
    held: bool = False
    ready: bool = False
    accepted: bool = False
    complete: bool = False
    released: bool = False
    left: bool = False
    # Those of a trace; of others the server alone.
    peers: tuple[str, ...] = ()

    @property
    def is_over(self) -> bool:
        return self.complete and self.released

    @property
    def hosts(self) -> frozenset[str]:
        return frozenset({self.request.client, *self.servers})

    @property
    def servers(self) -> tuple[str, ...]:
        """The hosts that expect the group."""
        return self.peers or (self.request.server,)

    def label(self, instance: int) -> str:
        """The name of a flow in displays."""
        request = self.request
        return f"{request.control} {request.client}→{request.server} #{request.group}.{instance}"

    def set_start(self, start_s: float) -> None:
        """Set the instant from which the group's delay counts."""
        for flow in self.flows:
            flow.asked_start_s = start_s + self.request.delay_s

    def fail(self, reason: str, time_s: float) -> None:
        """Mark every flow that has not ended as failed at `time_s` with `reason`."""
        for flow in self.flows:
            if not flow.status:
                flow.status, flow.ended_s = reason, time_s

    def observe(self, event: Event, time_s: float) -> None:
        """Record an event of the client's agent; `time_s` is its time on the controller's clock."""
        if event.kind == "complete":
            self.fail("the agent reported no result of this flow", time_s)
            self.complete = True
            return
        if event.kind == "ready":
            self.ready = True
            return
        if not 1 <= event.instance <= len(self.flows):
            return
        flow = self.flows[event.instance - 1]
        if event.kind == "started":
            flow.started_s = time_s
        elif event.kind in {"ended", "failed"} and not flow.status:
            flow.status = OK if event.kind == "ended" else event.text or "failed"
            flow.last_lines, flow.ended_s = event.last_lines, time_s


def _has_beginning(names: Sequence[str], path: str) -> bool:
    """Whether one of the sorted names begins with a path."""
    at = bisect_left(names, path)
    return at < len(names) and names[at].startswith(path)


def overall_status(flows: Sequence[str], reasons: Collection[str]) -> str:
    """The status of an experiment, from the statuses of its flows and other reasons for doubt."""
    good = [status == OK for status in flows]
    if good and not any(good):
        return "failed"
    return OK if all(good) and not reasons else "partial"


@dataclass(slots=True)
class Experiment:
    """What the controller knows of an experiment. `folder` is the one in the results folder.
    `system` is the time of this machine. `started` are the hosts whose agents have begun it. `lost`
    are those of them that were lost since, with the reasons: they take no further part in it."""

    exp: int
    exp_name: str
    folder: Path
    started_s: float
    started_monotonic_s: float
    stopwatch: Stopwatch
    system: SystemTime
    groups: dict[int, GroupState] = field(default_factory=dict)
    hosts: set[str] = field(default_factory=set)
    pending_data: set[str] = field(default_factory=set)
    files: dict[str, str] = field(default_factory=dict)
    _reasons: dict[str, None] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)
    lost: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    # The statistics that hosts have taken: 0 before, 1 after.
    described: list[tuple[int, str]] = field(default_factory=list)
    # That of this machine's processors at its begin.
    quota: Quota | None = None
    # There may be thousands of groups.
    _groups_at: dict[str, list[GroupState]] = field(default_factory=dict)

    def add(self, group: GroupState) -> None:
        """Make a group one of the experiment's."""
        self.groups[group.request.group] = group
        for host in group.hosts:
            self._groups_at.setdefault(host, []).append(group)

    def groups_at(self, host: str) -> Sequence[GroupState]:
        """The groups of `host`, as client or server."""
        return self._groups_at.get(host, ())

    @property
    def flows(self) -> Iterator[FlowState]:
        for group in self.groups.values():
            yield from group.flows

    @property
    def is_over(self) -> bool:
        """Whether every group that was started is over."""
        return all(group.is_over for group in self.groups.values() if not group.held)

    def is_over_at(self, host: str) -> bool:
        """Whether every group of `host` that was started is over."""
        return all(group.is_over for group in self.groups_at(host) if not group.held)

    @property
    def expected_end_s(self) -> float:
        """When the last flow is due to end, and the pings after it; of transfers, when the last one
        would be given up."""
        ends = [
            (flow.asked_start_s or self.started_s) + _longest_s(group.request)
            for group in self.groups.values()
            for flow in group.flows
        ]
        return max(ends, default=self.started_s)

    @property
    def status(self) -> str:
        """ok, partial (some flows failed, or data is missing), or failed (no flow ended well)."""
        return overall_status([flow.status for flow in self.flows], self._reasons)

    @property
    def reasons(self) -> list[str]:
        """Why it differs from the request, each reason once."""
        return list(self._reasons)

    def mark_partial(self, reason: str) -> None:
        """Note why it differs from the request: one that invalidates what was measured is in the
        rows of all groups, too."""
        if not self.has_noted(reason):
            self._reasons[reason] = None
            if severity(reason) is Severity.INVALIDATES:
                self.warnings.append(reason)

    def has_noted(self, reason: str) -> bool:
        """Whether it is partial for this reason already."""
        return reason in self._reasons

    def learn(
        self, host: str, lines: Iterable[str], own_time: Callable[[float], float], *, now_s: float
    ) -> Iterator[tuple[GroupState, FlowState]]:
        """The flows of a lost client that had ended well by its own record (events.jsonl): they
        are as measured. `own_time` is the controller's clock at a time of the host's."""
        for entry in jsontext.lines(lines):
            match entry:
                case {
                    "kind": "started" | "ended" as kind,
                    "group": int(group_number),
                    "instance": int(instance),
                    "time_s": float(time_s),
                } if group_number in self.groups:
                    group = self.groups[group_number]
                case _:
                    continue
            at_s = own_time(time_s)
            is_possible = self.started_s - RECORD_SLACK_S <= at_s <= now_s + RECORD_SLACK_S
            if group.request.client != host or not is_possible:
                continue
            for flow in group.flows:
                if flow.instance == instance and flow.status in self.lost.values():
                    if kind == "started":
                        flow.started_s = at_s
                    else:
                        flow.status, flow.ended_s = OK, at_s
                        yield group, flow

    def missing(self) -> Iterator[str]:
        """Sentences on the data that hosts owe and that did not come, of those whose data came."""
        owed: dict[str, dict[str, None]] = {host: {} for host in sorted(self.hosts)}
        without_pings = {
            host
            for host, mark, _ in (text.partition(f": {UNMEASURED}") for text in self.warnings)
            if mark
        }
        for group in self.groups.values():
            good = [flow.instance for flow in group.flows if flow.status == OK]
            for host, names in rawfiles.owed(group.request, good).items():
                owed[host].update(dict.fromkeys(f"raw/{host}/{name}" for name in names))
            client = group.request.client
            is_pinged = group.request.test not in TRACE_TESTS and good
            if is_pinged and client not in without_pings:
                owed[client][f"raw/{client}/ping."] = None
        for order, host in self.described:
            owed[host][f"{order}/{host}.info"] = None
        found = sorted(self.files)
        for host, paths in owed.items():
            if host in self.lost or host in self.pending_data:
                continue
            lost = [path for path in paths if not _has_beginning(found, path)]
            if lost:
                named = ", ".join(path.removeprefix(f"raw/{host}/").rstrip(".") for path in lost)
                yield f"{host}: its data are not complete: another program has deleted {named}"

    @property
    def is_left(self) -> bool:
        """Whether it has failed, and none of its flows runs."""
        return bool(self._reasons) and self.is_over

    def use(self, host: str) -> None:
        """Note that `host` takes part: its data are fetched before the experiment is processed."""
        self.hosts.add(host)
        self.pending_data.add(host)
