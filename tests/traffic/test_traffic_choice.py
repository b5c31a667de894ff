"""The tool of a test is the requested one, or the first that supports it."""

from dataclasses import replace

import pytest

from netesto import traffic
from netesto.errors import MissingError
from netesto.model import TRAFFIC_TOOLS, FlowSpec
from netesto.traffic.choice import OPTIONS

BOTH = ("iperf3", "netperf")


def test_auto_prefers_netperf():
    assert traffic.choose(FlowSpec(test="TCP_STREAM"), BOTH).name == "netperf"


def test_auto_takes_iperf3_where_netperf_is_missing():
    assert traffic.choose(FlowSpec(test="TCP_STREAM"), ["iperf3"]).name == "iperf3"


def test_auto_takes_the_tool_that_can_do_what_is_asked():
    tool = traffic.choose(FlowSpec(test="TCP_STREAM", bitrate_bps=1e6), BOTH)
    assert tool.name == "iperf3"


def test_a_tool_asked_for_by_name_is_taken():
    assert traffic.choose(FlowSpec(test="UDP_STREAM", tool="iperf3"), BOTH).name == "iperf3"


def test_a_tool_that_cannot_do_the_test_is_named_with_one_that_can():
    with pytest.raises(MissingError) as caught:
        traffic.choose(FlowSpec(tool="iperf3"), BOTH)
    assert str(caught.value) == "iperf3 cannot do TCP_RR\ntool=netperf can."


def test_a_tool_that_cannot_do_the_options_is_named_with_them():
    flow = FlowSpec(test="TCP_STREAM", tool="netperf", mss_bytes=1000, omit_s=1.0)
    with pytest.raises(MissingError) as caught:
        traffic.choose(flow, ["netperf"])
    assert str(caught.value) == "netperf cannot do TCP_STREAM with mss, omit"


def test_the_default_request_is_too_large_for_a_datagram_and_the_remedy_has_one_that_fits():
    with pytest.raises(MissingError) as caught:
        traffic.choose(FlowSpec(test="UDP_RR", tool="netperf"), BOTH)
    assert str(caught.value) == (
        "no tool can do UDP_RR with datagrams above 65507 bytes\n"
        "Write: req=64 reply=64 (without req a request has 1 MB)"
    )


def test_an_option_of_other_tests_is_no_tools_fault():
    with pytest.raises(MissingError) as caught:
        traffic.choose(FlowSpec(test="TCP_STREAM", size_bytes=1000), BOTH)
    assert str(caught.value) == (
        "no tool can do TCP_STREAM with size\nIt is for KV_RR, TCP_FLOWS, TCP_MESSAGES."
    )


@pytest.mark.parametrize("sizes", [{"request_bytes": 100}, {"reply_bytes": 100}])
def test_a_key_value_store_has_values_of_a_size_and_neither_req_nor_reply(sizes):
    assert traffic.choose(FlowSpec(test="KV_RR"), ["native"]).name == "native"
    with pytest.raises(MissingError) as caught:
        traffic.choose(FlowSpec(test="KV_RR", **sizes), ["native"])
    assert str(caught.value) == (
        "no tool can do KV_RR with req or reply\nsize= is the size of its values."
    )


def test_a_datagram_that_has_no_room_for_its_number_is_left_to_netperf():
    flow = FlowSpec(test="UDP_STREAM", length_bytes=15)
    assert traffic.choose(flow, [*BOTH, "native"]).name == "netperf"
    with pytest.raises(MissingError) as caught:
        traffic.choose(replace(flow, tool="native"), ["native"])
    assert str(caught.value) == "native cannot do UDP_STREAM with datagrams below 16 bytes"


def test_what_only_some_versions_can_do_needs_one_of_them_at_both_hosts():
    flow = FlowSpec(test="TCP_STREAM", tool="iperf3", skip_receive=True)
    assert traffic.choose(flow, ["iperf3"], ["iperf3 skiprx"]).name == "iperf3"
    with pytest.raises(MissingError) as caught:
        traffic.choose(flow, ["iperf3", "native"])
    assert str(caught.value) == "iperf3 of this version cannot do skiprx\ntool=native can."


@pytest.mark.parametrize(
    ("option", "value"), [("pacing", {"pacing_bps": 1e6}), ("skiprx", {"skip_receive": True})]
)
def test_some_versions_of_iperf3_can_do_options_of_tcp_for_datagrams(option, value):
    flow = FlowSpec(test="UDP_STREAM", **value)
    assert traffic.choose(flow, [*BOTH, "native"], [f"iperf3 {option}"]).name == "iperf3"
    with pytest.raises(MissingError) as caught:
        traffic.choose(replace(flow, tool="iperf3"), ["iperf3", "native"])
    assert str(caught.value) == f"iperf3 of this version cannot do {option}"


def test_what_no_version_here_can_do_is_left_to_the_next_tool():
    flow = FlowSpec(test="TCP_STREAM", pacing_bps=1e6)
    assert traffic.choose(flow, ["iperf3", "native"]).name == "native"


def test_a_missing_tool_is_named():
    with pytest.raises(MissingError) as caught:
        traffic.choose(FlowSpec(test="TCP_STREAM", tool="netperf"), [])
    assert str(caught.value) == (
        "netperf is not installed at both hosts\nIn Debian: apt install netperf"
    )


def test_every_tool_and_its_lack_is_named_when_none_fits():
    with pytest.raises(MissingError) as caught:
        traffic.choose(FlowSpec(), ["iperf3"])
    assert str(caught.value) == (
        "netperf is not installed at both hosts; iperf3 cannot do TCP_RR;"
        " native is not installed at both hosts\n"
        "In Debian: apt install netperf"
    )


def test_an_unknown_tool_is_answered_with_those_there_are():
    with pytest.raises(MissingError) as caught:
        traffic.choose(FlowSpec(tool="ttcp"), BOTH)
    assert str(caught.value) == "ttcp: no such traffic tool\nTools: netperf, iperf3, native."


def test_a_plain_flow_needs_no_option():
    assert traffic.needed_options(FlowSpec()) == ()


def test_options_that_a_flow_needs_are_named():
    flow = FlowSpec(
        test="TCP_STREAM",
        parallel=2,
        bitrate_bps=1e6,
        zerocopy="msg",
        server_cpus=(1, 2),
        local_buffer_bytes=1000,
    )
    assert [option.name for option in traffic.needed_options(flow)] == [
        "bitrate",
        "cpu sets",
        "different buffers",
        "parallel",
        "zerocopy=msg",
    ]


def test_options_are_in_the_order_of_their_names():
    assert [option.name for option in OPTIONS] == sorted(option.name for option in OPTIONS)


def test_options_name_tools_that_there_are():
    assert {tool for option in OPTIONS for tool in option.tools.split()} <= {*TRAFFIC_TOOLS}


def test_tools_are_registered_under_their_names():
    assert [tool.name for tool in traffic.TOOLS.values()] == list(traffic.TOOLS)


def test_the_language_knows_the_tools_that_there_are_drivers_for():
    assert tuple(traffic.TOOLS) == TRAFFIC_TOOLS


def test_where_it_was_not_compiled_native_is_missing_with_what_to_do():
    with pytest.raises(MissingError) as caught:
        traffic.choose(FlowSpec(test="TCP_FLOWS", size_bytes=1, count=1), ["netperf", "iperf3"])
    assert "native is not installed at both hosts" in caught.value.message
    assert "install a C compiler" in caught.value.remedy
