"""The result of a part whose guest ended before it: a failed experiment, with the reason."""

import time
from collections import defaultdict
from dataclasses import replace
from ipaddress import IPv4Address

from netesto import traffic
from netesto.controller import digest, requests
from netesto.controller.controller import columns_of
from netesto.errors import GuestError
from netesto.flowspec import FlowSpec
from netesto.lab import drawing, guest
from netesto.language import steps
from netesto.language.plan import Plan
from netesto.model import SAME_CLOCK, HostInfo, Ports
from netesto.results import derive, integrity, manifest, runs
from netesto.results.evidence import FAILED
from netesto.results.manifest import GroupRecord, HostRecord, InstanceRecord, Manifest
from netesto.results.store import Store
from netesto.run import behindlinks, labs, status
from netesto.run.session import RunSession
from netesto.run.settings import claimable

# Hosts of a guest that has ended have none.
_NO_ADDRESS = IPv4Address(0)


def record(session: RunSession, results: Store, error: GuestError) -> None:
    """Give the first experiment of the part that has no results, which the guest ended in, its
    rows: its flows failed. What the guest had written of it stays there. The run's record gets the
    failure."""
    found = _unfinished(session.plan, results)
    if found is not None:
        _fail(session, results, *found, error)
    own = runs.read(session.out, session.record.name) or session.record
    results.write_run(
        replace(
            own,
            ground=session.ground.name,
            ended=runs.utc(time.time()),
            exit_status=status.FAILED,
            failures=(*own.failures, error.message),
        )
    )


def _unfinished(
    plan: Plan, results: Store
) -> tuple[list[steps.DoClient], steps.ProcessExperiment] | None:
    """The flows and the end of the first experiment without results."""
    flows: dict[int, list[steps.DoClient]] = defaultdict(list)
    for step in plan.steps():
        match step:
            case steps.DoClient(exp=exp):
                flows[exp].append(step)
            case steps.ProcessExperiment(exp=exp) if flows[exp]:
                if not results.whole(exp).exists():
                    return flows[exp], step
            case _:
                """It belongs to no result."""
    return None


def _fail(
    session: RunSession,
    results: Store,
    flows: list[steps.DoClient],
    end: steps.ProcessExperiment,
    error: GuestError,
) -> None:
    exp, now_s = end.exp, time.time()
    folder = results.take_over(exp)
    head = session.plan.head
    network = behindlinks.network_of(head)
    inventory = labs.inventory(network, head.commands, aliases=session.request.aliases)
    groups = tuple(
        _group(
            each,
            requests.in_simulation(each.flow) if session.ground.is_simulated else each.flow,
            client=inventory.find(each.host).host,
            server=inventory.find(each.server).host,
            error=error,
        )
        for each in flows
    )
    names = {name for group in groups for name in (group.request.client, group.request.server)}
    found = Manifest(
        exp=exp,
        exp_name=flows[0].exp_name,
        description=end.notes.description,
        status=FAILED,
        run=session.record.name,
        started=runs.utc(now_s),
        ended=runs.utc(now_s),
        started_s=now_s,
        ended_s=now_s,
        started_monotonic_s=time.monotonic(),
        ended_monotonic_s=time.monotonic(),
        ground=session.ground.name,
        simulated_time=session.ground.is_simulated,
        topology=drawing.draw(network),
        groups=groups,
        hosts={name: _host(name, head.memory_mb * 2**20) for name in sorted(names)},
        files=integrity.hashes(folder),
        columns=columns_of(end.notes),
        facts=guest.facts(head.memory_mb, session.kernel_hash),
        reasons=(error.message,),
    )
    evidence = digest.evidence(folder, found)
    manifest.write(found, folder / manifest.NAME)
    rows = derive.derive(folder, evidence, found, session.fields, claimable(session.fields))
    results.complete(exp)
    results.append(rows)


def _group(
    command: steps.DoClient, flow: FlowSpec, *, client: str, server: str, error: GuestError
) -> GroupRecord:
    tool = traffic.choose(flow, tuple(traffic.TOOLS), traffic.every_extra())
    flow = replace(flow, tool=tool.name)
    nowhere = (0,) * flow.instances
    return GroupRecord(
        request=requests.between(command, flow, (client, _NO_ADDRESS), (server, _NO_ADDRESS)),
        ports=Ports(control=nowhere, data=nowhere),
        full_host=command.host,
        full_server=command.server,
        instances=tuple(
            InstanceRecord(
                instance=number,
                status=error.message.partition("\n")[0].rstrip(":"),
                asked_interval_ms=flow.interval_s * 1000,
                last_lines=error.message.partition("\n")[2],
            )
            for number in range(1, flow.instances + 1)
        ),
    )


def _host(name: str, memory_bytes: int) -> HostRecord:
    """What is known of a host of a guest."""
    info = HostInfo(
        host=name,
        version="",
        kernel="",
        cpus=1,
        memory_bytes=memory_bytes,
        device="",
        addresses=(),
        tools={},
        congestion_controls=(),
        qdiscs=(),
    )
    return HostRecord(info=info, clock=SAME_CLOCK)
