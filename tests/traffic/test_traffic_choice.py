"""The tool of a test is the requested one, or the first that supports it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from netesto import traffic
from netesto.errors import MissingError
from netesto.flowspec import OPTIONS, TESTS, TRAFFIC_TOOLS, FlowSpec
from netesto.model import Ports
from netesto.schema.registered import Registered
from netesto.traffic import choice
from netesto.traffic.base import pinned
from netesto.traffic.iperf3 import Iperf3
from results.samples import PLAIN

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
        "no tool can do TCP_STREAM with size\n"
        "It is for GBN_MESSAGES, KV_RR, TCP_FLOWS, TCP_MESSAGES."
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


@pytest.mark.parametrize("name", TRAFFIC_TOOLS)
def test_every_tool_honours_a_plain_flow(name):
    tool = traffic.TOOLS[name]
    assert {test: traffic.not_honoured(tool, FlowSpec(test=test)) for test in tool.tests} == {
        test: [] for test in tool.tests
    }


def test_what_a_tool_does_not_honour_is_named_in_order():
    flow = FlowSpec(
        test="TCP_STREAM",
        parallel=2,
        bitrate_bps=1e6,
        zerocopy="msg",
        server_cpus=(1, 2),
        local_buffer_bytes=1000,
        mss_bytes=9217,
        dscp=1,
        instances=7,
    )
    assert {name: traffic.not_honoured(tool, flow) for name, tool in traffic.TOOLS.items()} == {
        "netperf": ["bitrate", "cpu sets", "mss", "parallel", "zerocopy"],
        "iperf3": ["different buffers", "mss above 9216", "zerocopy=msg"],
        "native": [],
    }


def test_an_option_that_a_tool_has_not_declared_is_not_honoured():
    tool = replace(Iperf3(), version="3.18")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Iperf3, "honours", {})
        flow = FlowSpec(test="TCP_STREAM", dscp=46, interval_s=0.3)
        assert traffic.not_honoured(tool, flow) == ["dscp", "interval"]


@pytest.mark.parametrize("name", TRAFFIC_TOOLS)
def test_a_tool_declares_only_options_that_there_are_and_that_are_a_tools(name):
    declared = traffic.TOOLS[name].honours.keys()
    assert {each for each in declared if each not in OPTIONS or OPTIONS[each].by != "tool"} == set()


PORTS = Ports(control=(12865,), data=(12900,))
# What a flow of a test needs beside the test: sizes, and a gap.
NEEDED: dict[str, dict[str, Any]] = {
    "UDP_RR": {"request_bytes": 64, "reply_bytes": 64},
    # Not its default.
    "KV_RR": {"size_bytes": 500},
    "TCP_FLOWS": {"size_bytes": 500, "gap_s": 0.5},
    "TCP_MESSAGES": {"size_bytes": 500, "gap_s": 0.5},
    "GBN_MESSAGES": {"size_bytes": 500, "gap_s": 0.5},
}
# Values of each kind; those that are in an option's range are tried.
VALUES: dict[type, list[Any]] = {
    bool: [True, False],
    tuple: [(1,), (1, 2)],
    str: ["bbr"],
    int: [0, 1, 8, 100, 1400, 10_000, 100_000],
    float: [0.0, 0.4, 8.0, 30.0, 1000.0, 10e6],
}


def other_values(name, held):
    """Values of an option that differ from the one that a flow has."""
    option = OPTIONS[name]
    values = option.choices or VALUES[option.kind.type]
    return [value for value in values if value != held and not option.fault(value)]


def command(tool, flow):
    """All that a flow is made of: the client's command, and the server's."""
    request = replace(PLAIN, **{name: getattr(flow, name) for name in OPTIONS})
    client = tool.client_command(request, PORTS, 1, folder=Path("/somewhere"))
    server = [] if tool.lasting_server else pinned(request.server_cpus)
    return client, server


FLIPPED = [
    (tool, test, name)
    for tool in TRAFFIC_TOOLS
    for test in sorted(traffic.TOOLS[tool].tests)
    for name, option in OPTIONS.items()
    if option.by == "tool" and test in option.tests
]


@pytest.mark.parametrize(("tool", "test", "name"), FLIPPED)
def test_an_option_changes_the_command_of_a_tool_or_the_tool_is_refused(tool, test, name):
    driver = traffic.TOOLS[tool]
    plain = FlowSpec(test=test, tool=tool, **NEEDED.get(test, {}))
    without = command(driver, plain)
    flows = [replace(plain, **{name: value}) for value in other_values(name, getattr(plain, name))]
    assert flows
    for flow in flows:
        try:
            traffic.choose(flow, TRAFFIC_TOOLS, traffic.every_extra())
        except MissingError:
            continue
        assert command(driver, flow) != without, flow


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_of_other_tests_is_refused_or_known_to_change_nothing(name):
    option = OPTIONS[name]
    held = getattr(FlowSpec(), name)
    for test in TESTS - option.tests - option.ignored:
        plain = FlowSpec(test=test, **NEEDED.get(test, {}))
        for value in other_values(name, held):
            with pytest.raises(MissingError, match=r"^no tool can do "):
                traffic.choose(
                    replace(plain, **{name: value}), TRAFFIC_TOOLS, traffic.every_extra()
                )
    for test in option.ignored:
        plain = FlowSpec(test=test, **NEEDED.get(test, {}))
        for tool in (each for each in traffic.TOOLS.values() if test in each.tests):
            for value in other_values(name, held):
                flow = replace(plain, **{name: value})
                assert (name, command(tool, flow)) == (name, command(tool, plain))


def test_tools_are_registered_under_their_names():
    assert [tool.name for tool in traffic.TOOLS.values()] == list(traffic.TOOLS)


def test_the_language_knows_the_tools_that_there_are_drivers_for():
    assert tuple(traffic.TOOLS) == tuple(TRAFFIC_TOOLS)


def test_where_it_was_not_compiled_native_is_missing_with_what_to_do():
    with pytest.raises(MissingError) as caught:
        traffic.choose(FlowSpec(test="TCP_FLOWS", size_bytes=1, count=1), ["netperf", "iperf3"])
    assert "native is not installed at both hosts" in caught.value.message
    assert "install a C compiler" in caught.value.remedy


ADDED = """\
from netesto.traffic.iperf3 import Iperf3

class Added(Iperf3):
    name = "added"

TOOL = Added()
"""


def test_a_tool_of_another_package_comes_last_and_is_missing_where_a_host_lacks_it(
    tmp_path, monkeypatch
):
    info = tmp_path / "added_tools-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: added-tools\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[tests.tools]\nadded = added_tools:TOOL\n")
    (tmp_path / "added_tools.py").write_text(ADDED)
    monkeypatch.syspath_prepend(tmp_path)
    tools = Registered("tests.tools", traffic.Tool, traffic.TOOLS.own.values())
    monkeypatch.setattr(choice, "TOOLS", tools)
    flow = FlowSpec(test="TCP_STREAM")
    named = replace(flow, tool="added")
    found = [traffic.choose(each, tools) for each in (flow, named)]
    assert [tool.name for tool in (*found, traffic.choose(flow, ["added"]))] == [
        "netperf", "added", "added",
    ]  # fmt: skip
    with pytest.raises(MissingError) as caught:
        traffic.choose(named, [])
    assert str(caught.value) == (
        "added is not installed at both hosts\n"
        "Install added-tools, and what it needs, where the agents of both hosts find it;"
        " `netesto hosts install` installs netesto alone."
    )
