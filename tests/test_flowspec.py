"""An option of a flow is a field of FlowSpec: its value in a script arrives everywhere."""

import json
from dataclasses import asdict, fields, replace
from ipaddress import ip_address
from itertools import pairwise
from statistics import fmean

import pytest
from language.language_asked import Asked, run

from netesto.flowspec import FIELDS, OPTIONS, FlowSpec, Option, fault
from netesto.language import steps
from netesto.language.arguments import value_of
from netesto.language.commands import DO_CLIENT_ARGUMENTS
from netesto.language.spool import record_of
from netesto.model import GroupRequest
from netesto.proto import messages as pb
from netesto.results import manifest
from netesto.schema.kinds import Kind
from netesto.transport import codec
from results import samples

# Values that fit together: a flow lasts longer than what it omits, and the samples have two flows.
FITTING = {"test": "TCP_FLOWS", "dur": "1m", "instances": "2"}
OF_KIND = {Kind.FLAG: "1", Kind.WORD: "dctcp", Kind.PROCESSORS: "0-2,1+4", Kind.CORES: "2,3"}


def text(option: Option) -> str:
    """A value that is not the default."""
    if option.choices:
        return next(each for each in reversed(option.choices) if each != option.default)
    return OF_KIND.get(option.kind) or f"{max(3, option.low or 0):g}"


# DO_TRACE sets it, whatever a script says.
OF_TRACES = frozenset({"trace"})

# Every option with a value of its own.
WORDS = [
    f"{argument}={FITTING.get(argument) or text(OPTIONS[names[0]])}"
    for argument, names in FIELDS.items()
    if argument not in OF_TRACES
]
SCRIPT = f"DO_CLIENT host=a server=b {' '.join(WORDS)}\n"


def flow_of(script: str) -> FlowSpec:
    port = Asked()
    run(script, port)
    (command,) = port.commands
    assert isinstance(command, steps.DoClient)
    return command.flow


def request() -> GroupRequest:
    return GroupRequest(
        **asdict(flow_of(SCRIPT)) | {"trace": '{"peers": ["b"]}'},
        exp=1,
        group=1,
        exp_name="x",
        client="a",
        server="b",
        client_address=ip_address("192.0.2.1"),
        server_address=ip_address("2001:db8::1"),
    )


def test_every_field_is_an_argument():
    arguments = {argument.name for argument in DO_CLIENT_ARGUMENTS}
    named = [name for argument in arguments & FIELDS.keys() for name in FIELDS[argument]]
    assert sorted(named) == sorted({field.name for field in fields(FlowSpec)} - OF_TRACES)


def test_every_option_has_a_sentence_for_the_manual():
    assert [name for name, option in OPTIONS.items() if not option.sentence] == []


def test_the_default_of_an_option_is_one_of_its_values():
    shown = {
        name: value_of(option, option.default)
        for name, option in OPTIONS.items()
        if option.default is not None
    }
    assert shown == {name: getattr(FlowSpec(), name) for name in shown}


def test_a_value_out_of_range_is_reported_with_its_field():
    assert fault(FlowSpec(parallel=129)) == (
        "parallel=129 is out of range: at least 1 and at most 128"
    )


def test_a_step_of_a_plan_has_the_options_that_differ_from_their_defaults():
    port = Asked()
    run("DO_CLIENT host=a server=b test=UDP_RR dur=20 interval=100ms cpu=0,1+3\n", port)
    assert record_of(port.commands[0])["flow"] == {
        "test": "UDP_RR", "interval_s": 0.1, "client_cpus": [0], "server_cpus": [1, 3],
    }  # fmt: skip


def test_a_manifest_has_the_options_that_differ_from_their_defaults(tmp_path):
    asked = replace(samples.PLAIN, test="TCP_RR", parallel=4, dscp=46, is_held=True)
    evidence = samples.experiment(samples.group(samples.instance(), asked=asked))
    path = tmp_path / manifest.NAME
    manifest.write(samples.manifest(evidence), path)
    # What people look for is always there.
    assert json.loads(path.read_text())["groups"][0]["request"] == {
        "exp": 1, "group": 1, "exp_name": "Exp", "test": "TCP_RR", "tool": "netperf",
        "client": "a", "server": "b", "client_address": "10.0.0.1", "server_address": "10.0.0.2",
        "duration_s": 2.0, "parallel": 4, "dscp": 46, "seed": 0, "is_held": True,
    }  # fmt: skip


def test_without_options_a_flow_has_the_defaults_of_its_fields():
    assert flow_of("DO_CLIENT host=a server=b\n") == FlowSpec()


def test_every_option_of_a_script_is_in_the_flow():
    flow, plain = flow_of(SCRIPT), FlowSpec()
    names = {field.name for field in fields(FlowSpec)} - OF_TRACES
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
