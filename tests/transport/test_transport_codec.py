import math
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto import hostsettings
from netesto.errors import AgentError
from netesto.flowspec import OPTIONS, FlowSpec
from netesto.hostsettings import Applied, Qdisc, Setting
from netesto.model import (
    CaptureRequest,
    ClockReading,
    Event,
    FileEntry,
    GroupRequest,
    HostInfo,
    HostState,
    Ports,
)
from netesto.proto import messages as pb
from netesto.text.printable import printable
from netesto.transport import codec
from netesto.transport.faults import Fault

# Field 127 with the value 1.
NEWER_FIELD = b"\xf8\x07\x01"

# What fits into the fields of agent.proto; text without lone surrogates, as everywhere.
whole = st.integers(0, 2**32 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]))
for kind, strategy in {
    int: whole,
    str: text,
    float: st.floats(allow_nan=False),
}.items():
    st.register_type_strategy(kind, strategy)


# What JSON has for options: finite numbers, and processors that there can be.
OPTION_VALUES = {
    float: st.floats(allow_nan=False, allow_infinity=False),
    tuple: st.lists(st.integers(0, 8191)).map(tuple),
}


def any_of(kind):
    """Values of a dataclass in which every field, with a default or not, takes any value."""
    values: dict[str, Any] = dict.fromkeys((field.name for field in fields(kind)), ...)
    if issubclass(kind, FlowSpec):
        values |= {
            name: OPTION_VALUES[option.kind.type]
            for name, option in OPTIONS.items()
            if option.kind.type in OPTION_VALUES
        }
    return st.builds(kind, **values)


# JSON has only finite numbers.
SETTINGS = st.one_of(*(any_of(each) for each in hostsettings.KINDS.values())).filter(
    lambda setting: (
        math.isfinite(getattr(setting, "delay_ms", 0) or 0)
        and math.isfinite(getattr(setting, "loss_percent", 0) or 0)
        and math.isfinite(getattr(setting, "rto_min_ms", 0) or 0)
    )
)
st.register_type_strategy(Setting, SETTINGS)


@pytest.mark.parametrize(
    "kind",
    [
        GroupRequest, Ports, CaptureRequest, Applied, HostInfo, HostState, Event, FileEntry,
        ClockReading, Fault,
    ],
)  # fmt: skip
@given(data=st.data())
def test_value_survives(kind, data):
    value = data.draw(any_of(kind))
    message = getattr(pb, kind.__name__)
    content = codec.encode(message, value).SerializeToString()
    assert codec.decode_request(kind, message.FromString(content)) == value


@given(any_of(GroupRequest), any_of(Ports), st.none() | st.floats(allow_nan=False))
def test_start_survives(request_made, ports, start_at_s):
    message = codec.from_start(request_made, ports, start_at_s).SerializeToString()
    assert codec.to_start(pb.StartRequest.FromString(message)) == (request_made, ports, start_at_s)


@given(SETTINGS)
def test_setting_survives(setting):
    message = codec.from_setting(setting).SerializeToString()
    assert codec.to_setting(pb.Setting.FromString(message)) == setting


@given(any_of(Fault))
def test_fault_survives(fault):
    texts = {name: printable(getattr(fault, name)) for name in ("message", "remedy", "holder")}
    assert codec.decode_fault(codec.encode_fault(fault)) == replace(fault, **texts)


def test_what_an_agent_says_acts_on_no_terminal_and_has_an_end():
    said = codec.encode(pb.Applied, Applied(Qdisc("\x1b[31ma"), "b\rc", "d" * 100_000))
    shown = Applied(Qdisc("␛[31ma"), "b␍c", "d" * codec.TEXT_MAX)
    assert codec.decode_reply(Applied, said) == shown


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_none_is_reported_with_its_host(number):
    message = pb.ClockReading(received_s=number)
    with pytest.raises(AgentError, match=r"^h1: ClockReading: the agent reports .* instead of a n"):
        codec.decode_reply(ClockReading, message, host="h1")


def test_a_fault_of_a_newer_agent_is_still_reported():
    content = pb.Fault(kind="later", message="text").SerializeToString()
    assert codec.decode_fault(content) == Fault("agent", "text")


def test_event_of_a_kind_that_only_a_newer_agent_knows_is_left_out():
    assert codec.to_event(pb.Event(kind="later", text="text")) is None


def test_field_that_only_a_newer_agent_knows_is_left_out():
    applied = Applied(Qdisc("a"), "b", "c")
    content = codec.encode(pb.Applied, applied).SerializeToString() + NEWER_FIELD
    assert codec.decode(Applied, pb.Applied.FromString(content)) == applied


def test_option_that_only_a_newer_controller_knows_is_refused():
    request = pb.StartRequest(ports=pb.Ports.FromString(NEWER_FIELD))
    request.request.client_address = request.request.server_address = "192.0.2.1"
    with pytest.raises(
        AgentError, match="it has an option that this agent does not know"
    ) as caught:
        codec.to_start(request)
    assert caught.value.remedy == "Install the controller's version of netesto on the host."


def group(**options):
    return pb.GroupRequest(client_address="192.0.2.1", server_address="192.0.2.2", options=options)


def test_an_option_that_a_request_does_not_have_has_its_default():
    assert codec.decode_request(GroupRequest, group(dscp="46")) == replace(
        codec.decode_request(GroupRequest, group()), dscp=46
    )


def test_a_request_has_the_options_that_differ_from_their_defaults():
    asked = replace(
        codec.decode_request(GroupRequest, group()),
        duration_s=20,
        bitrate_bps=1e6,
        client_cpus=(1, 2),
        ecn=False,
    )
    assert codec.encode(pb.GroupRequest, asked).options == {
        "bitrate_bps": "1000000.0", "client_cpus": "[1, 2]", "ecn": "false",
    }  # fmt: skip


def test_an_option_that_the_agent_does_not_know_is_refused():
    with pytest.raises(AgentError) as caught:
        codec.decode_request(GroupRequest, group(later="1"))
    assert str(caught.value) == (
        "request not understood: it has an option that this agent does not know: later\n"
        "Install the controller's version of netesto on the host."
    )


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("dscp", "true", "not a whole number"),
        ("dscp", "1.5", "not a whole number"),
        ("dscp", '"46"', "not a whole number"),
        ("dscp", "null", "not a whole number"),
        ("ecn", "1", "not 0 or 1"),
        ("zerocopy", "1", "not one word"),
        ("omit_s", "[1]", "not a time"),
        ("omit_s", "9" * 400, "not a time"),
        ("omit_s", "Infinity", "Infinity is not a finite number"),
        ("omit_s", "1e999", "1e999 is not a finite number"),
        ("client_cpus", "[-1]", "not a set of processors, or two"),
        ("client_cpus", "1", "not a set of processors, or two"),
    ],
)
def test_an_option_of_another_kind_is_refused_by_name(name, text, said):
    with pytest.raises(AgentError) as caught:
        codec.decode_request(GroupRequest, group(**{name: text}))
    assert str(caught.value) == f"request not understood: {name}: {said}"


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "9" * 5000])
def test_an_option_that_is_no_json_is_refused_by_name(text):
    with pytest.raises(AgentError, match=r"^request not understood: dscp: "):
        codec.decode_request(GroupRequest, group(dscp=text))


def test_invalid_address_is_refused():
    message = pb.CaptureRequest(peer="192.0.2")
    with pytest.raises(AgentError, match=r"^request not understood: invalid address '192\.0\.2'$"):
        codec.decode(CaptureRequest, message)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Expecting value: line 1 column 1 (char 0)"),
        ("{}", "{} is none of Sysctl, Module"),
        ('{"type": "Later"}', "{'type': 'Later'} is none of Sysctl, Module"),
        ('{"type": "Sysctl", "name": "a"}', "Sysctl needs more than name"),
        ('{"type": "Sysctl", "name": "a", "value": 1}', "Sysctl.value: 1 is not str"),
        ('{"type": "Qdisc", "kind": "fq", "options": ["a", 1]}', "Qdisc.options: 1 is not str"),
        ('{"type": "Netem", "delay_ms": NaN}', "NaN is not a finite number"),
        ('{"type": "Netem", "delay_ms": 1, "later": 1}', "Netem has no 'later'"),
    ],
)
def test_setting_that_is_not_understood_is_refused(text, why):
    with pytest.raises(AgentError) as caught:
        codec.to_setting(pb.Setting(setting=text))
    assert caught.value.message.startswith(f"setting not understood: {why}")
