"""The traffic tools, their capabilities, and the choice of a tool for a flow."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from netesto.errors import MissingError
from netesto.flowspec import LINK_TESTS, OPTIONS, RULES, FlowSpec
from netesto.schema import registered
from netesto.schema.described import differing
from netesto.schema.registered import Registered
from netesto.traffic.base import Tool
from netesto.traffic.iperf3 import Iperf3
from netesto.traffic.native import Native
from netesto.traffic.netperf import Netperf

NOT_INSTALLED = "is not installed at both hosts"

_INSTALLATION = {
    "netperf": "In Debian: apt install netperf",
    "iperf3": "In Debian: apt install iperf3",
    "native": "It is compiled when netesto is installed: install a C compiler (in Debian: apt"
    " install gcc libc6-dev), then netesto once more.",
}

# In the order in which `tool=auto` prefers them; then those of other distributions.
TOOLS = Registered(registered.TOOLS, Tool, (Netperf(), Iperf3(), Native()))


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)


def every_extra() -> frozenset[str]:
    """What some version of a tool can do."""
    return frozenset(f"{tool.name} {option}" for tool in TOOLS.values() for option in tool.extras)


def choose(
    flow: FlowSpec,
    available: Collection[str],
    extras: Collection[str] = (),
    unusable: Mapping[str, str] | None = None,
    versions: Collection[tuple[str, str]] = (),
) -> Tool:
    """The tool that makes `flow`, among those `available` at both hosts: the one it names or, for
    "auto", the first that can. `extras` are those of `every_extra` that the versions at both hosts
    can do; `unusable` tools are installed, and not available for a reason; `versions` are those of
    the tools at the hosts, each with its name. MissingError names what is missing."""
    if flow.tool != "auto" and flow.tool not in TOOLS:
        raise MissingError(f"{flow.tool}: no such traffic tool", remedy=f"Tools: {_list(TOOLS)}.")
    for rule in RULES:
        if broken := rule.broken(flow):
            raise MissingError(broken, remedy=rule.remedy)
    for name in differing(flow):
        option = OPTIONS[name]
        # STRESS_LINK gives its test what it needs.
        if flow.test not in option.tests | option.ignored | LINK_TESTS:
            raise MissingError(
                f"no tool can do {flow.test} with {option.name}",
                remedy=f"It is for {_list(sorted(option.tests - LINK_TESTS))}.",
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
    remedy = installation(absent[0]) if absent else ""
    raise MissingError(
        "; ".join(f"{name} {lacks[name]}" for name in candidates),
        remedy=f"tool={able[0]} can." if able else remedy,
    )


def installation(name: str) -> str:
    """How to install a tool."""
    if name in _INSTALLATION:
        return _INSTALLATION[name]
    return (
        f"Install {TOOLS.provider(name)}, and what it needs, where the agents of both hosts find"
        " it; `netesto hosts install` installs netesto alone."
    )


def _lacks_of_versions(
    versions: Collection[tuple[str, str]], tool: Tool, test: str
) -> Iterator[str]:
    """Why installed versions of a tool cannot run a test that others can."""
    for name, version in versions:
        if name == tool.name and (lack := tool.cannot(test, version)):
            yield lack


def not_honoured(tool: Tool, flow: FlowSpec) -> list[str]:
    """What a tool does not honour of a flow, in words; versions of it with these extras do.
    Everything that it has not declared is not honoured."""
    found = set()
    for name in differing(flow):
        option = OPTIONS[name]
        if option.by == "tool" and flow.test in option.tests:
            condition = tool.honours.get(name)
            found.add(option.name if condition is None else condition(flow))
    return sorted(found - {""})


def to_blame(flow: FlowSpec, message: str) -> list[str]:
    """The words of DO_CLIENT that a message of `choose` is about."""
    near = [word for rule in RULES if rule.broken(flow) == message for word in rule.near]
    said = set(re.split(r", |; | with | cannot do ", message))
    for name in differing(flow):
        option = OPTIONS[name]
        words = {
            option.name,
            *(tool.honours[name](flow) for tool in TOOLS.values() if name in tool.honours),
        }
        if words & said:
            near += [f"{each}=" for each in (option.name, option.alias) if each]
    return near


def _lack(tool: Tool, flow: FlowSpec, available: Collection[str], extras: Collection[str]) -> str:
    if flow.test not in tool.tests:
        return f"cannot do {flow.test}"
    missing = [name for name in not_honoured(tool, flow) if f"{tool.name} {name}" not in extras]
    # It is more helpful that another version supports the option.
    others = [name for name in missing if name in tool.extras]
    if missing and missing == others and tool.name in available:
        return f"of this version cannot do {_list(others)}"
    if missing:
        return f"cannot do {flow.test} with {_list(missing)}"
    if tool.name not in available:
        return NOT_INSTALLED
    return ""
