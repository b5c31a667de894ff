"""The traffic tools there are, and which of them makes a flow."""

from collections.abc import Collection, Mapping

from netesto.errors import MissingError
from netesto.model import REQUEST_TESTS, GroupRequest
from netesto.traffic.base import Tool
from netesto.traffic.iperf3 import Iperf3
from netesto.traffic.netperf import Netperf

# What iperf3 takes (MAX_MSS in its source); and what one packet of IP and UDP holds.
LARGEST_IPERF3_MSS = 9216
LARGEST_DATAGRAM = 65_507

NOT_INSTALLED = "is not installed at both hosts"

# In the order in which `tool=auto` prefers them.
TOOLS: Mapping[str, Tool] = {"netperf": Netperf(), "iperf3": Iperf3()}


def asked_options(request: GroupRequest) -> frozenset[str]:
    """What a request asks of a tool beyond a plain flow, in words for the user.

    `ecn` is not among them: no tool sets it, it is a setting of the hosts.
    """
    is_udp = request.test.startswith("UDP")
    largest = request.length_bytes or 0
    if request.test in REQUEST_TESTS:
        largest = max(largest, request.request_bytes, request.reply_bytes)
    asked = {
        "parallel": request.parallel > 1,
        "bitrate": request.bitrate_bps is not None,
        "len": request.length_bytes is not None,
        "mss": request.mss_bytes is not None,
        f"zerocopy={request.zerocopy}": request.zerocopy != "0",
        "dscp": request.dscp is not None,
        "cpu of the client": request.client_cpu is not None,
        "cpu of the server alone": request.client_cpu is None and request.server_cpu is not None,
        "omit": request.omit_s > 0,
        f"mss above {LARGEST_IPERF3_MSS}": (request.mss_bytes or 0) > LARGEST_IPERF3_MSS,
        "mss of datagrams": request.mss_bytes is not None and is_udp,
        "len of requests": request.length_bytes is not None and request.test in REQUEST_TESTS,
        f"datagrams above {LARGEST_DATAGRAM} bytes": is_udp and largest > LARGEST_DATAGRAM,
        "different buffers": request.local_buffer_bytes != request.remote_buffer_bytes,
    }
    return frozenset(option for option, is_asked in asked.items() if is_asked)


def choose(
    test: str,
    asked: str,
    available: Collection[str],
    *,
    options: frozenset[str] = frozenset(),
) -> Tool:
    """The tool for `test` among those `available` at both hosts.

    `asked` is a tool's name or "auto": the first that can do the test with these `options`.
    MissingError names what is missing.
    """
    if asked != "auto" and asked not in TOOLS:
        raise MissingError(f"{asked}: no such traffic tool", remedy=f"There are: {_list(TOOLS)}.")
    candidates = tuple(TOOLS.values()) if asked == "auto" else (TOOLS[asked],)
    lacks = {tool.name: _lack(tool, test, available, options) for tool in candidates}
    for tool in candidates:
        if not lacks[tool.name]:
            return tool
    others = [
        tool.name
        for tool in TOOLS.values()
        if tool.name not in lacks and not _lack(tool, test, available, options)
    ]
    absent = [name for name, lack in lacks.items() if lack == NOT_INSTALLED]
    remedy = f"In Debian: apt install {absent[0]}" if absent else ""
    raise MissingError(
        "; ".join(f"{name} {lack}" for name, lack in lacks.items()),
        remedy=f"tool={others[0]} can." if others else remedy,
    )


def _lack(tool: Tool, test: str, available: Collection[str], options: frozenset[str]) -> str:
    if test not in tool.tests:
        return f"cannot do {test}"
    if missing := options - tool.options:
        return f"cannot do {test} with {_list(sorted(missing))}"
    if tool.name not in available:
        return NOT_INSTALLED
    return ""


def _list(names: Collection[str]) -> str:
    return ", ".join(names)
