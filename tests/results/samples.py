"""Synthetic evidence for tests: flows whose samples look like those of a kernel and a tool."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from netesto.measured import CpuSample, GoodputInterval, PingSample, SocketSample, TransferResult
from netesto.model import ClockOffset, GroupRequest, HostInfo, Ports
from netesto.packets.found import CapturedFlow, Rtt
from netesto.results import aggregate
from netesto.results.certainty import CellEnd, ColumnMean
from netesto.results.evidence import OK, ExperimentEvidence, GroupEvidence, InstanceEvidence
from netesto.results.fields import Fields
from netesto.results.formulas import MeasuredGroup
from netesto.results.manifest import GroupRecord, HostRecord, InstanceRecord, Manifest, PathRecord
from netesto.results.runs import RunRecord

BEGIN_S = 1_795_176_900.0
LEAD_S = 0.25


PLAIN = GroupRequest(
    exp=1,
    group=1,
    exp_name="Exp",
    test="TCP_STREAM",
    tool="netperf",
    client="a",
    server="b",
    client_address=ip_address("10.0.0.1"),
    server_address=ip_address("10.0.0.2"),
    duration_s=2.0,
)


def request(*, group=1, client="client1", server="server1", **other) -> GroupRequest:
    values: dict[str, Any] = {
        "exp": 12,
        "exp_name": "1s2c1fs",
        "server_address": ip_address("10.0.0.9"),
        "duration_s": 24.0,
        "congestion_control": "cubic",
    }
    return replace(PLAIN, group=group, client=client, server=server, **(values | other))


def sample(time_s: float, **values) -> SocketSample:
    return SocketSample(**({"time_s": time_s, "local_port": 40001, "peer_port": 5001} | values))


def instance(number: int = 1, *, rate_bps: float = 50e6, **values) -> InstanceEvidence:
    """A flow that succeeded, without samples unless given."""
    asked_s = BEGIN_S + LEAD_S
    standard: dict[str, Any] = {
        "status": OK,
        "asked_start_s": asked_s,
        "started_s": asked_s + 0.001,
        "ended_s": asked_s + 24.0,
        "result": TransferResult(rate_bps=rate_bps, elapsed_s=24.0),
    }
    return InstanceEvidence(instance=number, **(standard | values))


def failed(number: int = 1, reason: str = "netperf exited 1: no control connection", **values):
    return instance(
        number,
        **({"status": reason, "result": None, "started_s": None, "ended_s": None} | values),
    )


def set_clock(path: Path) -> str:
    """The hash of a record, written to `path`, of a host whose system time somebody set."""
    path.write_text('{"system_ahead_s": null}')
    return hashlib.sha256(path.read_bytes()).hexdigest()


def group(*instances: InstanceEvidence, asked: GroupRequest | None = None, **values):
    asked = asked or request(instances=len(instances))
    standard: dict[str, Any] = {
        "full_host": f"{asked.client}.lab",
        "full_server": f"{asked.server}.lab",
        "kernel": "6.18.44",
        "tool_version": "2.7.0",
    }
    return GroupEvidence(request=asked, instances=instances, **(standard | values))


def values(evidence: GroupEvidence, *, desc: str = "", columns: Mapping[str, str] | None = None):
    """The keys of a group."""
    return aggregate.values(MeasuredGroup(evidence, desc), columns or {})


def row(columns: Fields, *each: GroupEvidence) -> dict[str, str]:
    """The aggregate row of an experiment with these groups."""
    return aggregate.row(
        columns, [values(one) for one in each], [*map(MeasuredGroup, each)], exp=12
    )


def experiment(*groups: GroupEvidence, duration_s: float = 25.0) -> ExperimentEvidence:
    return ExperimentEvidence(
        exp=12,
        exp_name="1s2c1fs",
        started_s=BEGIN_S,
        ended_s=BEGIN_S + duration_s,
        groups=groups,
    )


# ---- flows that look real ------------------------------------------------------------------


def captured(again: int = 0, **values) -> CapturedFlow:
    """A complete flow as a capture at its sender shows it."""
    known: dict[str, Any] = {
        "number": 1,
        "protocol": "TCP",
        "source": "10.0.0.1:40000",
        "destination": "10.0.0.2:5201",
        "source_port": 40000,
        "destination_port": 5201,
        "start_s": BEGIN_S + LEAD_S,
        "lasted_s": 4.0,
        "packets": 30_000,
        "bytes": 40_000_000,
        "size": 40_000_000,
        "rate_bps": 80e6,
        "side": "sender",
        "is_whole": True,
        "rtt": Rtt(samples=9, min_ms=40, median_ms=41, mean_ms=42, max_ms=60),
        "segments_again": again,
        "by_kind": {"fast": again, "timeout": 0, "spurious": 0},
    } | values
    return CapturedFlow(**known)


def wave(number: int, step: int) -> float:
    """A wobble between -1 and 1 that differs from flow to flow and is the same in every run."""
    return math.sin(step * 0.7 + number * 1.3) * math.cos(step * 0.11 + number)


def lively(number: int, asked: GroupRequest, *, rate_bps: float, rtt_ms: float = 45.0):
    """A flow with samples every 0.2 s: slow start, a sawtooth, losses now and then."""
    start_s = BEGIN_S + LEAD_S + asked.delay_s + 0.0013 * number
    steps = int(asked.duration_s / 0.2)
    samples, intervals, acked, again = [], [], 0, 0
    for step in range(steps):
        time_s = start_s + 0.2 * (step + 1)
        growth = min(1.0, (step + 1) / 6)
        tooth = 0.75 + 0.25 * ((step + 7 * number) % 23) / 23
        lost = 9 if step > 6 and (step + 7 * number) % 23 == 0 else 0
        again += lost
        now_bps = rate_bps * growth * (1 + 0.12 * wave(number, step)) * (0.6 + 0.4 * tooth)
        acked += int(now_bps * 0.2 / 8)
        samples.append(
            SocketSample(
                time_s=time_s + 0.004 * wave(number, step * 3),
                local_port=40000 + number,
                peer_port=5000 + number,
                congestion_control=asked.congestion_control,
                cwnd=int(10 + 300 * growth * tooth),
                mss_bytes=1448,
                rtt_ms=rtt_ms * (0.7 + 0.3 * tooth) + wave(number, step),
                min_rtt_ms=rtt_ms * 0.7,
                unacked=int(290 * growth * tooth),
                lost=lost,
                retransmits=min(lost, 2),
                total_retransmits=again,
                segments_out=acked // 1448 + again + 2,
                data_segments_out=acked // 1448 + again,
                bytes_sent=acked + 1448 * again,
                bytes_acked=acked,
            )
        )
        intervals.append(GoodputInterval(time_s - 0.2, time_s, now_bps))
    result = TransferResult(
        rate_bps=sum(interval.rate_bps for interval in intervals) / max(1, len(intervals)),
        elapsed_s=asked.duration_s,
        intervals=tuple(intervals),
        local_cpu_percent=2.5 + number % 3,
        remote_cpu_percent=3.1,
        local_retransmits=again,
        remote_retransmits=0,
        min_latency_us=16.0,
        mean_latency_us=275.29 + number,
        max_latency_us=23396.0,
        p50_latency_us=25.0,
        p90_latency_us=753.0,
        p99_latency_us=1541.0,
        mss_bytes=1448,
    )
    return instance(
        number,
        asked_start_s=BEGIN_S + LEAD_S + asked.delay_s,
        started_s=start_s,
        ended_s=start_s + asked.duration_s,
        result=result,
        client_samples=tuple(samples),
    )


def lively_group(asked: GroupRequest, *, rate_bps: float = 45e6, good: int | None = None):
    good = asked.instances if good is None else good
    flows = [lively(n, asked, rate_bps=rate_bps / asked.instances) for n in range(1, good + 1)]
    flows += [
        failed(
            n,
            "netperf exited 1: could not establish the control connection",
            last_lines="establish control: are you sure there is a netserver listening on "
            f"<server1> at port {12865 + n}?\nConnection refused",
        )
        for n in range(good + 1, asked.instances + 1)
    ]
    ticks = range(int(asked.duration_s))
    start_s = BEGIN_S + LEAD_S + asked.delay_s
    return group(
        *flows,
        asked=asked,
        pings=tuple(
            PingSample(start_s + tick + 0.5, 40.4 + 8 * abs(wave(3, tick))) for tick in ticks
        ),
        client_cpu=tuple(
            CpuSample(start_s + tick, (12 + 5 * wave(1, tick), 20 + 9 * wave(2, tick)))
            for tick in ticks
        ),
        server_cpu=tuple(CpuSample(start_s + tick, (35.0, 41.0)) for tick in ticks),
        counters=_counters(flows),
        features={
            "tso": "on", "gso": "on", "lro": "off", "gro": "on", "rx-frames": "44",
            "tx-frames": "16", "adaptive-rx": "1", "tcpRmem": "6291456", "tcpWmem": "4194304",
        },
    )  # fmt: skip


def _counters(flows: list[InstanceEvidence]) -> dict[str, int]:
    """The counters of an interface that carried only these flows, in full-size packets."""
    lasts = [flow.client_samples[-1] for flow in flows if flow.client_samples]
    packets = sum(each.segments_out or 0 for each in lasts)
    size = sum(each.bytes_sent or 0 for each in lasts)
    return {
        "rx_packets": packets // 2,
        "tx_packets": packets,
        "rx_bytes": packets // 2 * 66,
        "tx_bytes": size + packets * 66,
    }


def two_flows() -> ExperimentEvidence:
    """The paper's first experiment: cubic all the time, bbr enters and leaves."""
    first = request(group=1, client="client1", congestion_control="cubic")
    second = request(
        group=2, client="client2", congestion_control="bbr", delay_s=8.0, duration_s=8.0
    )
    return experiment(lively_group(first, rate_bps=70e6), lively_group(second, rate_bps=40e6))


def request_reply() -> ExperimentEvidence:
    asked = request(test="TCP_RR", request_bytes=10_000, duration_s=10.0)
    return experiment(lively_group(asked, rate_bps=8e6), duration_s=11.0)


def hundred_flows() -> ExperimentEvidence:
    groups = [
        lively_group(
            request(
                group=number,
                client=f"client{number}",
                instances=25,
                congestion_control=control,
                duration_s=60.0,
                delay_s=2.0 * (number - 1),
            ),
            rate_bps=24e6,
        )
        for number, control in enumerate(("cubic", "bbr", "reno", "cubic"), start=1)
    ]
    return experiment(*groups, duration_s=68.0)


def partial() -> ExperimentEvidence:
    one = request(group=1, instances=3, duration_s=12.0)
    two = request(group=2, client="client2", congestion_control="bbr", duration_s=12.0)
    return experiment(
        lively_group(one, rate_bps=60e6, good=2), lively_group(two, good=0), duration_s=13.0
    )


def all_failed() -> ExperimentEvidence:
    return experiment(lively_group(request(instances=2), good=0), duration_s=3.0)


# ---- manifests -----------------------------------------------------------------------------


def manifest(evidence: ExperimentEvidence, **values) -> Manifest:
    """The manifest that goes with evidence."""
    flows = [flow for each in evidence.groups for flow in each.instances]
    good = [flow.status == OK for flow in flows]
    status = OK if all(good) else "partial" if any(good) else "failed"
    hosts = sorted({h for g in evidence.groups for h in (g.request.client, g.request.server)})
    standard: dict[str, Any] = {
        "exp": evidence.exp,
        "exp_name": evidence.exp_name,
        "description": "cubic all the time, bbr from 8 s to the end of its 8 s",
        "status": status,
        "run": "2026-11-20T121459.100Z",
        "started": "2026-11-20T12:15:00.000+00:00",
        "ended": "2026-11-20T12:15:25.000+00:00",
        "started_s": evidence.started_s,
        "ended_s": evidence.ended_s,
        "started_monotonic_s": 1000.0,
        "ended_monotonic_s": 1025.0,
        "ground": "lab",
        "topology": "dumbbell clients=2 servers=1 rate=100mbit",
        "groups": tuple(_record(each) for each in evidence.groups),
        "hosts": {name: _host(name) for name in hosts},
        "files": {
            f"raw/{name}/sockets.bin.gz": "0" * 64 for name in hosts
        } | {"0/client1.sysctl": "1" * 64, "1/client1.sysctl": "2" * 64},
        "paths": (
            PathRecord(
                source="client1",
                destination="server1",
                asked_rtt_ms=40.0,
                measured_rtt_ms=40.3,
                asked_rate_bps=100e6,
                measured_rate_bps=95.6e6,
            ),
        ),
    }  # fmt: skip
    return Manifest(**(standard | values))


def _record(each: GroupEvidence) -> GroupRecord:
    count = each.request.instances
    ports = tuple(range(5001, 5001 + count))
    return GroupRecord(
        request=each.request,
        ports=Ports(control=ports, data=ports),
        full_host=each.full_host,
        full_server=each.full_server,
        instances=tuple(_flow(each.request, flow) for flow in each.instances),
    )


def _flow(asked: GroupRequest, flow: InstanceEvidence) -> InstanceRecord:
    skew_ms = None
    if flow.started_s is not None and flow.asked_start_s is not None:
        skew_ms = round((flow.started_s - flow.asked_start_s) * 1000, 3)
    seen = flow.client_samples
    return InstanceRecord(
        instance=flow.instance,
        status=flow.status,
        argv=("netperf", "-t", asked.test, "-H", "10.0.0.9", "-l", f"{asked.duration_s:g}"),
        tool_version="2.7.0",
        asked_start_s=flow.asked_start_s,
        started_s=flow.started_s,
        ended_s=flow.ended_s,
        start_skew_ms=skew_ms,
        effective_congestion_control=seen[0].congestion_control if seen else "",
        effective_mss_bytes=1448 if seen else None,
        asked_interval_ms=200.0,
        achieved_interval_ms=200.1 if seen else None,
        achieved_interval_p99_ms=201.7 if seen else None,
        achieved_interval_worst_ms=203.2 if seen else None,
        last_lines=flow.last_lines,
    )


def _host(name: str) -> HostRecord:
    info = HostInfo(
        host=name,
        version="1.0",
        kernel="6.18.44",
        cpus=2,
        memory_bytes=8 * 2**30,
        device="eth0",
        addresses=("10.0.0.1",),
        tools={"netperf": "2.7.0", "iperf3": "3.12"},
        congestion_controls=("reno", "cubic", "bbr"),
        qdiscs=("tbf", "htb"),
    )
    return HostRecord(info=info, clock=ClockOffset(offset_s=0.000012, bound_s=0.00008))


def with_other_control(evidence: ExperimentEvidence, used: str) -> ExperimentEvidence:
    """The same, but every kernel used another congestion control than requested."""
    return replace(
        evidence,
        groups=tuple(
            replace(
                each,
                instances=tuple(
                    replace(
                        flow,
                        client_samples=tuple(
                            replace(s, congestion_control=used) for s in flow.client_samples
                        ),
                    )
                    for flow in each.instances
                ),
            )
            for each in evidence.groups
        ),
    )


def certain_run() -> RunRecord:
    """A run of a SWEEP with until=, of one cell."""
    mean = ColumnMean(
        experiment="", column="rate", share_percent=2, count=3, mean=94.1, half_percent=1.5
    )
    end = CellEnd(
        sweep=1, cell={"ca": "reno"}, ended="certain", repetitions=3, failed=0, means=(mean,)
    )
    return RunRecord(
        name="2026-11-20T121500.250Z",
        argv=(),
        script_path="a.nts",
        script="",
        seed=1,
        started="2026-11-20T12:15:00.250Z",
        certainty=(end,),
    )
