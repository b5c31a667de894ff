from dataclasses import fields
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto.errors import AgentError
from netesto.model import (
    Applied,
    CaptureRequest,
    ClockReading,
    Event,
    FileEntry,
    GroupRequest,
    HostInfo,
    ModuleParameter,
    Netem,
    Ports,
    Qdisc,
    Sysctl,
)
from netesto.proto import agent_pb2 as pb
from netesto.transport import codec
from netesto.transport.faults import Fault

# What fits into the fields of agent.proto; text without lone surrogates, as everywhere.
whole = st.integers(0, 2**32 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]))
for kind, strategy in {
    int: whole,
    str: text,
    float: st.floats(allow_nan=False),
}.items():
    st.register_type_strategy(kind, strategy)


def any_of(kind):
    """Values of a dataclass in which every field, with a default or not, takes any value."""
    return st.builds(kind, **dict.fromkeys((field.name for field in fields(kind)), ...))


@given(any_of(GroupRequest))
def test_group_request_survives(request_made):
    message = codec.from_group_request(request_made).SerializeToString()
    assert codec.to_group_request(pb.GroupRequest.FromString(message)) == request_made


@given(any_of(GroupRequest), any_of(Ports), st.none() | st.floats(allow_nan=False))
def test_start_survives(request_made, ports, start_at_s):
    message = codec.from_start(request_made, ports, start_at_s).SerializeToString()
    assert codec.to_start(pb.StartRequest.FromString(message)) == (request_made, ports, start_at_s)


@given(any_of(CaptureRequest))
def test_capture_request_survives(capture):
    message = codec.from_capture_request(capture).SerializeToString()
    assert codec.to_capture_request(pb.CaptureRequest.FromString(message)) == capture


@given(any_of(Sysctl) | any_of(Qdisc) | any_of(Netem) | any_of(ModuleParameter))
def test_setting_survives(setting):
    message = codec.from_setting(setting).SerializeToString()
    assert codec.to_setting(pb.Setting.FromString(message)) == setting


@given(any_of(Applied))
def test_applied_survives(applied):
    message = codec.from_applied(applied).SerializeToString()
    assert codec.to_applied(pb.Applied.FromString(message)) == applied


@given(any_of(HostInfo))
def test_host_info_survives(info):
    message = codec.from_host_info(info).SerializeToString()
    assert codec.to_host_info(pb.HostInfo.FromString(message)) == info


@given(any_of(Event))
def test_event_survives(event):
    message = codec.from_event(event).SerializeToString()
    assert codec.to_event(pb.Event.FromString(message)) == event


@given(any_of(FileEntry))
def test_file_entry_survives(entry):
    message = codec.from_file_entry(entry).SerializeToString()
    assert codec.to_file_entry(pb.FileEntry.FromString(message)) == entry


@given(any_of(ClockReading))
def test_clock_reading_survives(reading):
    message = codec.from_clock_reading(reading).SerializeToString()
    assert codec.to_clock_reading(pb.ClockReading.FromString(message)) == reading


@given(any_of(Fault))
def test_fault_survives(fault):
    assert codec.decode_fault(codec.encode_fault(fault)) == fault


def test_fault_of_a_newer_agent_is_still_told():
    content = pb.Fault(kind="later", message="text").SerializeToString()
    assert codec.decode_fault(content) == Fault("agent", "text")


def test_address_that_is_none_is_refused():
    message = codec.from_capture_request(
        CaptureRequest(exp=1, host="h1", peer=ip_address("192.0.2.1"), packets=1)
    )
    message.peer = "192.0.2"
    with pytest.raises(AgentError, match=r"^request not understood: '192\.0\.2' is no address$"):
        codec.to_capture_request(message)


def test_setting_of_no_kind_is_refused():
    with pytest.raises(AgentError, match="a setting of no kind this agent knows"):
        codec.to_setting(pb.Setting())


def test_event_of_a_kind_unknown_is_refused():
    with pytest.raises(AgentError, match="an event of the kind 'later'"):
        codec.to_event(pb.Event(kind="later"))
