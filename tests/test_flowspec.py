"""An option of a flow is a field of FlowSpec: its value in a script arrives everywhere."""

import json
from dataclasses import asdict, fields, replace
from ipaddress import ip_address
from itertools import pairwise
from statistics import fmean

import pytest
from language.language_asked import Asked, run

from netesto.language import steps
from netesto.language.commands import DO_CLIENT_ARGUMENTS
from netesto.model import FlowSpec, GroupRequest
from netesto.proto import messages as pb
from netesto.results import manifest
from netesto.transport import codec
from results import samples

# Every option with a value of its own.
SCRIPT = """\
DO_CLIENT host=a server=b ca=dctcp dur=1m delay=500ms instances=2 req=64K reply=10 test=TCP_FLOWS \\
    stats=1 localBuffer=1Ki remoteBuffer=2K tool=netperf interval=10ms parallel=4 omit=2 \\
    zerocopy=msg bitrate=10mbit pacing=9mbit rate=7 size=1K count=3 gap=1ms get=50 \\
    arrivals=poisson skiprx=1 \\
    len=128K mss=1000 dscp=46 ecn=1 cpu=0-2,1+4 cores=2,3 idle=3 stagger=2ms
"""


def flow_of(script: str) -> FlowSpec:
    port = Asked()
    run(script, port)
    (command,) = port.commands
    assert isinstance(command, steps.DoClient)
    return command.flow


def request() -> GroupRequest:
    return GroupRequest(
        **asdict(flow_of(SCRIPT)),
        exp=1,
        group=1,
        exp_name="x",
        client="a",
        server="b",
        client_address=ip_address("192.0.2.1"),
        server_address=ip_address("2001:db8::1"),
    )


def test_every_field_is_an_argument():
    named = [name for argument in DO_CLIENT_ARGUMENTS for name in argument.fields.split()]
    assert sorted(named) == sorted(field.name for field in fields(FlowSpec))


def test_without_options_a_flow_has_the_defaults_of_its_fields():
    assert flow_of("DO_CLIENT host=a server=b\n") == FlowSpec()


def test_every_option_of_a_script_is_in_the_flow():
    flow, plain = flow_of(SCRIPT), FlowSpec()
    names = {field.name for field in fields(FlowSpec)}
    assert {name for name in names if getattr(flow, name) != getattr(plain, name)} == names


def test_every_option_arrives_at_the_agent():
    content = codec.encode(pb.GroupRequest, request()).SerializeToString()
    assert codec.decode(GroupRequest, pb.GroupRequest.FromString(content)) == request()


def test_every_option_is_in_the_manifest(tmp_path):
    instances = (samples.instance(1), samples.instance(2))
    evidence = samples.experiment(samples.group(*instances, asked=request()))
    path = tmp_path / manifest.NAME
    manifest.write(samples.manifest(evidence), path)
    assert manifest.read(path).groups[0].request == request()


def test_an_older_manifest_has_the_defaults_of_newer_options(tmp_path):
    evidence = samples.experiment(samples.group(samples.instance()))
    path = tmp_path / manifest.NAME
    manifest.write(samples.manifest(evidence), path)
    older = json.loads(path.read_text())
    del older[manifest.CHECKSUM]
    del older["groups"][0]["request"]["parallel"]
    path.write_text(json.dumps(older))
    assert manifest.read(path).groups[0].request == evidence.groups[0].request


def test_an_older_manifest_has_one_processor_at_each_end(tmp_path):
    evidence = samples.experiment(samples.group(samples.instance()))
    path = tmp_path / manifest.NAME
    manifest.write(samples.manifest(evidence), path)
    older = json.loads(path.read_text())
    del older[manifest.CHECKSUM]
    asked = older["groups"][0]["request"]
    for end, cpu in (("client", 3), ("server", None)):
        del asked[f"{end}_cpus"]
        asked[f"{end}_cpu"] = cpu
    path.write_text(json.dumps(older))
    found = manifest.read(path).groups[0].request
    assert (found.client_cpus, found.server_cpus) == ((3,), ())


def test_staggered_flows_start_the_given_time_apart_half_of_it_more_or_less():
    asked = replace(request(), instances=1000, stagger_s=0.001, seed=1)
    gaps = [after - before for before, after in pairwise(asked.staggered_s)]
    assert (asked.staggered_s[0], len(gaps)) == (0.0, 1000)
    assert (min(gaps), max(gaps), fmean(gaps)) == pytest.approx((0.0005, 0.0015, 0.001), rel=0.05)
    assert asked.staggered_s[-2] <= asked.spread_s


def test_staggered_flows_start_at_instants_of_their_seed():
    first, again, other = (
        replace(request(), stagger_s=0.001, seed=seed).staggered_s for seed in (1, 1, 2)
    )
    assert (first == again, first == other) == (True, False)


def test_flows_without_a_stagger_start_together():
    assert replace(request(), instances=3, stagger_s=None).staggered_s == (0.0,) * 4


def test_what_people_look_for_is_in_front_of_a_request(tmp_path):
    path = tmp_path / manifest.NAME
    manifest.write(samples.manifest(samples.experiment(samples.group(samples.instance()))), path)
    names = list(json.loads(path.read_text())["groups"][0]["request"])
    assert names[:7] == ["exp", "group", "exp_name", "test", "tool", "client", "server"]
