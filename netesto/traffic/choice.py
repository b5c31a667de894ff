"""The traffic tools, their capabilities, and the choice of a tool for a flow."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from netesto.errors import MissingError
from netesto.model import (
    ALWAYS_THERE,
    COMPLETION_TESTS,
    RECEIVERS,
    REQUEST_TESTS,
    STREAM_TESTS,
    TESTS,
    UDP_TESTS,
    FlowSpec,
)
from netesto.traffic.base import Tool
from netesto.traffic.iperf3 import Iperf3
from netesto.traffic.native import Native
from netesto.traffic.netperf import Netperf

# MAX_MSS in the source of iperf3; the payload of the largest packet of IP and UDP.
LARGEST_IPERF3_MSS = 9216
LARGEST_DATAGRAM = 65_507
# What the number and the time in each datagram of native and iperf3 need.
NUMBERED_DATAGRAM = 16
# The limit of memcached, with room for its overhead.
LARGEST_VALUE = 1_000_000
# The default of receivers, and the replacement if it is missing.
_UNCHOSEN = frozenset({RECEIVERS, ALWAYS_THERE})

NOT_INSTALLED = "is not installed at both hosts"

_INSTALLATION = {
    "netperf": "In Debian: apt install netperf",
    "iperf3": "In Debian: apt install iperf3",
    "native": "It is compiled when netesto is installed: install a C compiler (in Debian: apt"
    " install gcc libc6-dev), then netesto once more.",
}

# In the order in which `tool=auto` prefers them.
TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in (Netperf(), Iperf3(), Native())}

_TCP_STREAMS = STREAM_TESTS - {"UDP_STREAM"}
_TCP = TESTS - UDP_TESTS


def _list(names: Collection[str]) -> str:
    return ", ".join(names)


@dataclass(frozen=True, slots=True)
class Option:
    """An option that not every tool supports: its name in messages, its arguments of DO_CLIENT and
    the tools that support it (both separated by spaces), whether a flow has it, the tests for which
    it has a meaning, and what to do if no tool supports it."""

    name: str
    arguments: str
    tools: str
    is_set: Callable[[FlowSpec], object]
    tests: Collection[str] = TESTS
    remedy: str = ""


# The options that tools support; some versions support more (Tool.extras). Unlisted options are
# supported by every tool, or concern none (`stats`). `ecn` of TCP is not listed, either: no tool
# sets it for a flow, and the controller refuses it.
OPTIONS = (
    Option("arrivals, count or gap", "arrivals count gap", "native",
           lambda f: (f.arrivals, f.count, f.gap_s) != ("constant", 0, 0), COMPLETION_TESTS,
           remedy=f"They are for {' and '.join(sorted(COMPLETION_TESTS))}."),
    Option("arrivals=poisson without gap", "arrivals gap", "",
           lambda f: f.arrivals == "poisson" and not f.gap_s),
    Option("bitrate", "bitrate pace", "iperf3 native", lambda f: f.bitrate_bps, STREAM_TESTS),
    Option("cpu sets", "cpu", "iperf3 native",
           lambda f: max(len(f.client_cpus), len(f.server_cpus)) > 1),
    Option(f"datagrams above {LARGEST_DATAGRAM} bytes", "req reply", "",
           lambda f: f.test == "UDP_RR"
           and max(f.request_bytes, f.reply_bytes) > LARGEST_DATAGRAM,
           remedy="Write: req=64 reply=64 (without req a request has 1 MB)"),
    Option(f"datagrams above {LARGEST_DATAGRAM} bytes", "len", "",
           lambda f: f.test == "UDP_STREAM" and (f.length_bytes or 0) > LARGEST_DATAGRAM,
           remedy="Write: len=1400"),
    Option(f"datagrams below {NUMBERED_DATAGRAM} bytes", "len", "netperf",
           lambda f: f.test == "UDP_STREAM" and 0 < (f.length_bytes or 0) < NUMBERED_DATAGRAM),
    Option("different buffers", "localBuffer remoteBuffer", "netperf native",
           lambda f: f.local_buffer_bytes != f.remote_buffer_bytes),
    Option("dscp", "dscp", "netperf iperf3 native", lambda f: f.dscp is not None),
    Option("ecn", "ecn", "native", lambda f: f.test in UDP_TESTS and f.ecn is not None),
    Option("get", "get", "native",
           lambda f: f.get_percent != FlowSpec().get_percent, {"KV_RR"}),
    Option("len", "len", "netperf iperf3 native", lambda f: f.length_bytes, STREAM_TESTS),
    Option("mss", "mss", "iperf3 native", lambda f: f.mss_bytes, _TCP),
    Option(f"mss above {LARGEST_IPERF3_MSS}", "mss", "native",
           lambda f: (f.mss_bytes or 0) > LARGEST_IPERF3_MSS),
    Option("no size", "size test", "",
           lambda f: f.test in COMPLETION_TESTS and f.size_bytes is None),
    Option("omit", "omit", "iperf3 native", lambda f: f.omit_s, STREAM_TESTS | REQUEST_TESTS),
    Option("pacing", "pacing", "native",
           lambda f: f.test != "UDP_STREAM" and f.pacing_bps, _TCP),
    # Of datagrams only some versions of iperf3 can do this, and skiprx.
    Option("pacing", "pacing", "", lambda f: f.test == "UDP_STREAM" and f.pacing_bps),
    Option("parallel", "parallel", "iperf3 native",
           lambda f: f.test != "UDP_STREAM" and f.parallel > 1, STREAM_TESTS),
    Option("parallel", "parallel", "iperf3", lambda f: f.test == "UDP_STREAM" and f.parallel > 1),
    Option("rate", "rate", "native", lambda f: f.requests_per_s, REQUEST_TESTS),
    Option("remoteCa", "remoteCa", "netperf native",
           lambda f: f.reverse_congestion_control
           not in {*_UNCHOSEN, f.congestion_control if f.test in _TCP else ""}, _TCP),
    Option("req or reply", "req reply", "",
           lambda f: f.test == "KV_RR"
           and (f.request_bytes, f.reply_bytes)
           != (FlowSpec().request_bytes, FlowSpec().reply_bytes),
           remedy="size= is the size of its values."),
    Option("size", "size", "native", lambda f: f.size_bytes, COMPLETION_TESTS | {"KV_RR"}),
    Option("skiprx", "skiprx", "native",
           lambda f: f.test != "UDP_STREAM" and f.skip_receive, _TCP_STREAMS),
    Option("skiprx", "skiprx", "", lambda f: f.test == "UDP_STREAM" and f.skip_receive),
    Option(f"values above {LARGEST_VALUE} bytes", "size", "",
           lambda f: f.test == "KV_RR" and (f.size_bytes or 0) > LARGEST_VALUE,
           remedy=f"Write: size={LARGEST_VALUE}"),
    Option("zerocopy", "zerocopy", "",
           lambda f: f.test not in _TCP_STREAMS and f.zerocopy != "0", _TCP_STREAMS),
    Option("zerocopy=msg", "zerocopy", "native",
           lambda f: f.test in _TCP_STREAMS and f.zerocopy == "msg"),
    Option("zerocopy=sendfile", "zerocopy", "iperf3 native",
           lambda f: f.test in _TCP_STREAMS and f.zerocopy == "sendfile"),
)  # fmt: skip


def needed_options(flow: FlowSpec) -> tuple[Option, ...]:
    """What a flow needs of its tool beyond a plain flow."""
    return tuple(option for option in OPTIONS if option.is_set(flow))


# What some version of a tool can do.
EXTRAS = frozenset(f"{tool.name} {option}" for tool in TOOLS.values() for option in tool.extras)


def choose(
    flow: FlowSpec,
    available: Collection[str],
    extras: Collection[str] = (),
    unusable: Mapping[str, str] | None = None,
    versions: Collection[tuple[str, str]] = (),
) -> Tool:
    """The tool that makes `flow`, among those `available` at both hosts: the one it names or, for
    "auto", the first that can. `extras` are those of EXTRAS that the versions at both hosts can do;
    `unusable` tools are installed, and not available for a reason; `versions` are those of the
    tools at the hosts, each with its name. MissingError names what is missing."""
    if flow.tool != "auto" and flow.tool not in TOOLS:
        raise MissingError(f"{flow.tool}: no such traffic tool", remedy=f"Tools: {_list(TOOLS)}.")
    for option in needed_options(flow):
        is_alien = flow.test not in option.tests
        is_anywhere = option.tools or any(f"{name} {option.name}" in EXTRAS for name in TOOLS)
        if is_alien or not is_anywhere:
            tests = f"It is for {_list(sorted(option.tests))}." if is_alien else ""
            raise MissingError(
                f"no tool can do {flow.test} with {option.name}", remedy=option.remedy or tests
            )
    lacks = {
        name: _lack(tool, flow, available, extras)
        or next(_lacks_of_versions(versions, tool, flow.test), "")
        for name, tool in TOOLS.items()
    }
    lacks |= {
        name: why for name, why in (unusable or {}).items() if lacks.get(name) == NOT_INSTALLED
    }
    able = [name for name, lack in lacks.items() if not lack]
    candidates = list(TOOLS) if flow.tool == "auto" else [flow.tool]
    for name in candidates:
        if name in able:
            return TOOLS[name]
    absent = [name for name in candidates if lacks[name] == NOT_INSTALLED]
    remedy = _INSTALLATION[absent[0]] if absent else ""
    raise MissingError(
        "; ".join(f"{name} {lacks[name]}" for name in candidates),
        remedy=f"tool={able[0]} can." if able else remedy,
    )


def _lacks_of_versions(
    versions: Collection[tuple[str, str]], tool: Tool, test: str
) -> Iterator[str]:
    """Why installed versions of a tool cannot run a test that others can."""
    for name, version in versions:
        if name == tool.name and (lack := tool.cannot(test, version)):
            yield lack


def _lack(tool: Tool, flow: FlowSpec, available: Collection[str], extras: Collection[str]) -> str:
    if flow.test not in tool.tests:
        return f"cannot do {flow.test}"
    missing = [
        each.name
        for each in needed_options(flow)
        if tool.name not in each.tools.split() and f"{tool.name} {each.name}" not in extras
    ]
    # It is more helpful that another version supports the option.
    others = [name for name in missing if f"{tool.name} {name}" in EXTRAS]
    if missing and missing == others and tool.name in available:
        return f"of this version cannot do {_list(others)}"
    if missing:
        return f"cannot do {flow.test} with {_list(missing)}"
    if tool.name not in available:
        return NOT_INSTALLED
    return ""
