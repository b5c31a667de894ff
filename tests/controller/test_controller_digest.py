"""Which samples are of which flow."""

import json
import socket
import struct
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

from netesto.collectors import socketfile
from netesto.controller import digest
from netesto.model import Ports
from netesto.results import aggregate, series
from netesto.results.evidence import InstanceEvidence
from netesto.results.formulas import MeasuredGroup
from results import samples

STREAM = replace(samples.PLAIN, tool="native", parallel=2)
FAILED = InstanceEvidence(
    instance=1, status="failed before", asked_start_s=0.0, started_s=0.0, ended_s=2.0, result=None
)


def test_samples_of_another_server_with_the_same_port_are_not_of_the_flow(tmp_path: Path):
    """Two servers have reserved port 13000 for parallel streams of one client, whose own ports are
    not known."""
    (tmp_path / "raw/a").mkdir(parents=True)
    recorder = socketfile.Recorder(0)
    recorder.add(1.5, 1.5, [_socket(14000, "10.0.0.2"), _socket(15000, "::ffff:10.0.0.3")])
    (tmp_path / FILE).write_bytes(recorder.end())
    other = replace(STREAM, group=2, server="c", server_address=ip_address("10.0.0.3"))
    known = [samples.group(FAILED, asked=each) for each in (STREAM, other)]
    asked = samples.manifest(samples.experiment(*known), files={FILE: ""})
    ports = Ports(control=(1,), data=(13000,))
    asked = replace(asked, groups=tuple(replace(each, ports=ports) for each in asked.groups))
    found = digest.evidence(tmp_path, asked).groups
    assert [
        [sample.local_port for each in group.instances for sample in each.client_samples]
        for group in found
    ] == [[14000], [15000]]


FILE = "raw/a/sockets.bin.gz"


def _socket(port: int, server: str) -> bytes:
    """What the kernel reports of a socket of the client, connected to port 13000 of a server."""
    peer = ip_address(server)
    family = socket.AF_INET if peer.version == 4 else socket.AF_INET6
    found = struct.pack("=BBBB", family, 1, 0, 0) + struct.pack(">HH", port, 13000)
    found += bytes(16) + peer.packed.ljust(16, b"\0")
    found = found.ljust(72, b"\0")
    return struct.pack("=IHHII", 16 + len(found), 20, 2, 1, 1) + found


def test_cpu_usage_is_that_of_the_samples_half_under_load(tmp_path: Path):
    """The flow is to run from 0.4 to 2.4 s; then its process waits until 4.4 s."""
    flow = replace(FAILED, started_s=0.4, ended_s=4.4)
    (tmp_path / "raw/a").mkdir(parents=True)
    # Until each second, of all 100 ticks so many more were busy: 1, 2, 3 …
    busy = [sum(range(each + 1)) for each in range(6)]
    lines = [
        json.dumps(
            {"time_s": each, "ticks": {"0": [busy[each], 0, 0, 100 * each - busy[each], *[0] * 6]}}
        )
        for each in range(6)
    ]
    (tmp_path / CPU).write_text("".join(f"{line}\n" for line in lines))
    told = samples.manifest(
        samples.experiment(samples.group(flow, asked=samples.PLAIN)), files={CPU: ""}
    )
    (group,) = digest.evidence(tmp_path, told).groups
    assert [each.busy_percent for each in group.client_cpu] == [(1.0,), (2.0,)]


CPU = "raw/a/cpu.jsonl"


def test_cpu_usage_is_unknown_in_simulated_time():
    (group, *_) = samples.two_flows().groups
    columns = aggregate.values(MeasuredGroup(digest.without_cpu(group)), {})
    assert (columns["localCpu"], columns["remoteCpu"], columns["rate"] != "") == ("", "", True)


STATES, LOSSES = "raw/s1/link.s2.jsonl", "raw/s1/losses.s2.csv"
HEADER = "time_s,number,copy,bytes,protocol,source,sport,destination,dport,tcp_seq,payload"


def test_a_flow_knows_when_links_lost_its_data_and_the_page_has_the_states_of_links(
    tmp_path: Path,
):
    """The server of the flow listens at port 13000; the second frame is an acknowledgement, the
    third of another flow."""
    (tmp_path / "raw/s1").mkdir(parents=True)
    client, server = samples.PLAIN.client_address, samples.PLAIN.server_address
    lost = [
        f"0.25,7,0,1514,tcp,{client},4000,{server},13000,1,1448",
        f"0.50,8,0,66,tcp,{client},4000,{server},13000,1449,0",
        f"0.75,9,0,1514,tcp,{client},4001,{server},13001,1,1448",
    ]
    (tmp_path / LOSSES).write_text("\n".join([HEADER, *lost, ""]))
    names = ("wire_frames", "wire_lost", "resent", "given_up", "drops", "marks", "tx_bytes")
    states = [
        {"time_s": at, "protect": "ordered", "loss_set": 0.1, "rx_bytes": 1514 * at,
         "paused_s": 0.001 * at, "stalled_s": 0, **dict.fromkeys(names, 3 * at)}
        for at in (0, 1, 2)
    ]  # fmt: skip
    (tmp_path / STATES).write_text("".join(f"{json.dumps(each)}\n" for each in states))
    known = samples.group(FAILED, asked=samples.PLAIN)
    asked = samples.manifest(samples.experiment(known), files={STATES: "", LOSSES: ""})
    ports = Ports(control=(1,), data=(13000,))
    asked = replace(asked, groups=tuple(replace(each, ports=ports) for each in asked.groups))
    found = digest.evidence(tmp_path, asked)
    [group] = found.groups
    assert [flow.lost_s for flow in group.instances] == [(0.25,)]
    drawn = {
        each.name: [[*host.values[name]] for host in each.hosts for name in each.drawn]
        for each in series.build(found).counters
    }
    assert drawn == {
        "linklost": [[None, 3.0, 3.0], [None, 3.0, 3.0]],
        "linkcopies": [[None, 3.0, 3.0]],
        "linkbuffers": [[0, 1514, 3028], [0, 3, 6]],
        "linkpauses": [[None, 1000.0, 1000.0], [None, 0.0, 0.0]],
    }
