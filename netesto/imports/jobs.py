"""Converts job files of the testing harness into scripts: a macro for each section, loops in its
order.

Nothing of a job file is run: its commands become arguments of DO_CLIENT, settings, or the names of
commands that the agents' owners may allow. What has no counterpart stays as a comment.
"""

import math
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TypeAlias

from netesto import units
from netesto.errors import UsageError
from netesto.imports import commands
from netesto.imports.ini import Section

SOURCE, SERVER = "$source", "$server"

# Used elsewhere, or without a meaning here: hosts come from the list, tests are those of iperf3.
_IGNORED = frozenset(
    {"type", "src", "dst", "enabled", "iterations", "src-cmd", "dst-cmd", "profile"}
)
_OUTPUTS = {
    f"{when}-{end}-cmd": (when, host)
    for when in ("pre", "post")
    for end, host in (("src", SOURCE), ("dst", SERVER))
}
_NETEM = ("netem-lat", "netem-loss", "netem-limit")
_SWEEPS = {"lat-sweep": "netem", "limit-sweep": "buffers"}
_GRO_HW = re.compile(r"ethtool\s+(?:-K|--offload|--features)\s+\S+\s+rx-gro-hw\s+(on|off)")
_SYSCTL = re.compile(r"sysctl\s+(?:-q\s+)?(?:-w|--write)\s+(.+)")
_SETTING = re.compile(r"([\w.\-/]+)\s*=\s*(\"[^\"]*\"|'[^']*'|[^=]*?)(?=\s+[\w.\-/]+\s*=|\s*$)")
_CORES = re.compile(r"\d+(?:-\d+)?(?:[,+]\d+(?:-\d+)?)*")
_PLAIN = re.compile(r"[A-Za-z0-9_.:+/%=,-]+")
_REPETITIONS_MAX = 100_000
# Of a command in a script.
_NAME_MAX = 80
_WIDTH = 90
# A smaller value means a missing unit.
_PLAUSIBLE_BPS = 1e6
_PLAUSIBLE_BUFFER_BYTES = 4096
_TRUE = frozenset({"", "true", "yes", "1", "on"})
_FALSE = frozenset({"false", "no", "0", "off"})

# The order of arguments: what, how long, how.
_ORDER = (
    "test", "tool", "ca", "dur", "omit", "interval", "parallel", "zerocopy", "skiprx", "pacing",
    "bitrate", "len", "mss", "dscp", "localBuffer", "remoteBuffer", "cpu", "cores",
)  # fmt: skip

# What iperf3 does unless it is told otherwise; the congestion control is that of Linux.
_UNSAID = {"ca": "cubic", "dur": "10"}

Warn = Callable[[str], None]
# A program, and its arguments.
_Words: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobHost:
    """A host of the list: its name in scripts, its profile, and its other columns."""

    name: str
    profile: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Job:
    """A section, read; `off` says why it is not run, "" if it is. `netem` are the words of
    SET_NETEM, `factors` those of the sweep around it."""

    section: Section
    macro: str
    off: str
    iterations: int
    arguments: Mapping[str, str]
    before: tuple[str, ...]
    after: tuple[str, ...]
    pacing: str
    netem: Sequence[str]
    factors: Sequence[str]
    profile: str
    comments: tuple[str, ...]


def script(
    source: str, sections: Sequence[Section], hosts: Sequence[JobHost], *, warn: Warn
) -> str:
    """The text of the script for a job file called `source`. UsageError if it has no section;
    `warn` receives what has no counterpart."""
    if not sections:
        raise UsageError(f"{source}: no section", remedy="A test begins with its name: [iperf3]")
    names: set[str] = set()
    listed = hosts or tuple(_named_hosts(sections))
    called = _names_of(sections)
    jobs = [_job(source, section, names, listed, called=called, warn=warn) for section in sections]
    variables = _host_variables(jobs)
    lines = [
        *_head(source, jobs, listed, variables),
        *(line for job in jobs for line in _macro(job)),
        "# ---- the runs, in the order of the job file: section, host, iteration",
        *(line for job in jobs for line in ("", *_loop(job, variables[job.profile]))),
    ]
    return "".join(f"{line}\n" for line in lines)


def _named_hosts(sections: Sequence[Section]) -> Iterator[JobHost]:
    """The destinations that sections name, if there is no list."""
    named = (section.keys.get("dst", "") for section in sections)
    usable = dict.fromkeys(name for name in named if re.fullmatch(r"[A-Za-z0-9_.:-]+", name))
    yield from (JobHost(name) for name in usable or ("server1",))


def _job(
    source: str,
    section: Section,
    names: set[str],
    hosts: Sequence[JobHost],
    *,
    called: Mapping[_Words, str],
    warn: Warn,
) -> _Job:
    keys = section.keys
    comments: list[str] = []

    def leave(what: str) -> None:
        comments.append(what)
        warn(f"{source}: [{section.name}]: {what}")

    off = ""
    try:
        flow = commands.parse(keys.get("src-cmd", ""))
    except ValueError as error:
        # Another program, or words that no shell would take.
        flow = commands.ClientCommand({})
        off = f"src-cmd: {error}" if keys.get("src-cmd", "").strip() else "src-cmd is missing"
        leave(f"{off}: the section is left out")
    for word in flow.unknown:
        leave(f"no counterpart for {word!r} in src-cmd")
    if flow.target and not flow.target.startswith("{") and flow.target != keys.get("dst"):
        leave(f"src-cmd names {flow.target}; the flow goes to the host of the loop")
    arguments = {"test": "TCP_STREAM", "tool": "$tool", **_UNSAID, **flow.arguments}
    if not flow.pins_server:
        _pin_server(arguments, keys.get("dst-cmd", ""))
    if watched := keys.get("mpstat", ""):
        if _CORES.fullmatch(watched.replace(" ", "")):
            arguments["cores"] = watched.replace(" ", "").replace(",", "+")
        else:
            leave(f"no counterpart for mpstat = {watched}")
    _doubt(arguments, leave)
    before, after = _hooks(keys, called, leave)
    netem, factors = _netem(keys, leave)
    for key, value in keys.items():
        known = key in _IGNORED or key in _OUTPUTS or key in _NETEM or key in _SWEEPS
        if not known and key not in {"mpstat", "pacing"}:
            leave(f"no counterpart for {key} = {value}")
    return _Job(
        section=section,
        macro=_macro_name(section.name, names),
        off=_off(section, hosts, leave) or _one_line(off),
        iterations=_iterations(section, leave),
        arguments={name: _quoted(text) for name, text in arguments.items()},
        before=before,
        after=after,
        pacing=_rate(keys.get("pacing", ""), leave),
        netem=netem,
        factors=factors,
        profile=keys.get("profile", ""),
        comments=tuple(comments),
    )


def _pin_server(arguments: dict[str, str], command: str) -> None:
    """The CPUs that the server's own command is bound to."""
    if cpu := commands.arguments_of(command).get("cpu", ""):
        client = arguments.get("cpu", "").partition(",")[0]
        arguments["cpu"] = f"{client},{cpu.partition(',')[0]}"


def _macro_name(section: str, names: set[str]) -> str:
    name = re.sub(r"\W", "_", section, flags=re.ASCII)
    name = name if name[:1].isalpha() else f"job_{name}"
    # A command's name has upper-case letters only.
    name = f"job_{name}" if name.isupper() else name
    while name in names:
        name += "_"
    names.add(name)
    return name


def _off(section: Section, hosts: Sequence[JobHost], leave: Warn) -> str:
    value = section.keys.get("enabled", "").lower()
    if value not in _TRUE | _FALSE:
        leave(f"enabled = {value} is neither true nor false: the section is run")
    if value in _FALSE:
        return "enabled = false"
    profile = section.keys.get("profile", "")
    if profile and all(host.profile != profile for host in hosts):
        leave(f"profile = {profile}: no host of the list has it, so that nothing is run")
        return f"no host has the profile {_one_line(profile)}"
    return ""


def _iterations(section: Section, leave: Warn) -> int:
    value = section.keys.get("iterations", "1")
    if not value.isdecimal() or not 0 < int(value[:9]) <= _REPETITIONS_MAX:
        leave(f"iterations = {value} is not a number from 1 to {_REPETITIONS_MAX}: 1 is taken")
        return 1
    return int(value)


def _names_of(sections: Iterable[Section]) -> dict[_Words, str]:
    """The names of commands in scripts: that of the program if all sections call it alike, else
    with its arguments; commands with other arguments are others."""
    every = dict.fromkeys(
        words
        for section in sections
        for key in _OUTPUTS
        for command in _commands(section.keys.get(key, ""))
        if (words := _words(_without_sudo(command)))
    )
    alike = Counter(words[0] for words in every)
    found: dict[_Words, str] = {}
    for words in every:
        name = words[0] if alike[words[0]] == 1 else _slug(" ".join(words))
        while name in found.values():
            name += "_"
        found[words] = name
    return found


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-")[:_NAME_MAX]


def _words(command: str) -> _Words:
    """The name of the program without its path, and its arguments; empty if it has no name that a
    script can use, or the words do not end."""
    try:
        program, *arguments = shlex.split(command)
    except ValueError:
        return ()
    name = PurePath(program).name
    return (name, *arguments) if re.fullmatch(r"[A-Za-z0-9_.-]+", name) else ()


def _commands(text: str) -> list[str]:
    each = re.split(r"\s*(?:;|&&|\n)\s*", text.strip())
    return [command for command in each if command]


def _without_sudo(command: str) -> str:
    return re.sub(r"^sudo\s+(?:-\S+\s+)*", "", command)


def _hooks(
    keys: Mapping[str, str], called: Mapping[_Words, str], leave: Warn
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The lines for the commands before the first iteration, and after each."""
    found: dict[str, list[str]] = {"pre": [], "post": []}
    for key, (when, host) in _OUTPUTS.items():
        for command in _commands(keys.get(key, "")):
            found[when] += _hook(command, host, called, leave)
    return tuple(found["pre"]), tuple(found["post"])


def _hook(command: str, host: str, called: Mapping[_Words, str], leave: Warn) -> list[str]:
    plain = _without_sudo(command)
    if match := _GRO_HW.fullmatch(plain):
        return [f"SET_LINK host={host} gro_hw={match[1]}"]
    if match := _SYSCTL.fullmatch(plain):
        pairs = _SETTING.findall(match[1])
        if pairs:
            written = (f"{n.replace('/', '.')}={_quoted(_fields(v))}" for n, v in pairs)
            return [f"SET_SYSCTL host={host} {' '.join(written)}"]
    name = called.get(_words(plain), "")
    if not name:
        leave(f"no counterpart for the command {command!r}")
        return []
    leave(f"{command!r} becomes DO_COMMAND name={name}: its agent has to allow it")
    return [f"# {_one_line(command)}", f"DO_COMMAND host={host} name={name}"]


def _fields(value: str) -> str:
    """The fields of a sysctl are separated by commas in a script."""
    return ",".join(value.strip("\"' ").split())


def _rate(text: str, leave: Warn) -> str:
    """A rate as tc(8) reads it; "" if it is none."""
    rate = text.replace(" ", "")
    if not rate:
        return ""
    try:
        rate_bps = units.parse_rate(rate)
    except ValueError:
        leave(f"no counterpart for pacing = {text}")
        return ""
    if rate.lower().endswith("bps"):
        meant = f"{rate[:-3]}bit"
        leave(f"pacing = {text} is {units.format_rate(rate_bps)}: bps are bytes; for bits: {meant}")
    _doubt_rate("pacing", rate, "15gbit", leave)
    return re.sub(r"(?<=\d)[KMGTkmgt]$", r"\g<0>bit", rate)


def _doubt(arguments: Mapping[str, str], leave: Warn) -> None:
    """Warn of values that iperf3 accepts, but that are hardly intended."""
    for name, word in (("pacing", "--fq-rate"), ("bitrate", "-b of all streams")):
        _doubt_rate(word, arguments.get(name, ""), "15G", leave)
    size = arguments.get("localBuffer", "")
    if size and int(size) < _PLAUSIBLE_BUFFER_BYTES:
        leave(f"-w is {size} bytes: write the unit that is meant, as in 256M")


def _doubt_rate(word: str, rate: str, example: str, leave: Warn) -> None:
    if re.fullmatch(r"[\d.]+", rate) and 0 < float(rate) < _PLAUSIBLE_BPS:
        leave(f"{word} is {rate} bit/s: write the unit that is meant, as in {example}")


def _netem(keys: Mapping[str, str], leave: Warn) -> tuple[list[str], list[str]]:
    """The words of SET_NETEM, and the factors of the sweep around it."""
    values: dict[str, str] = {}
    for key in (*_NETEM, *_SWEEPS):
        text = keys.get(key, "").replace(" ", "")
        for suffix in ("ms", "%", "packets"):
            text = ",".join(part.removesuffix(suffix) for part in text.split(","))
        if text and not re.fullmatch(r"\d+(?:\.\d+)?(?:,\d+(?:\.\d+)?)*", text):
            leave(f"no counterpart for {key} = {keys[key]}")
        elif text:
            values[key] = text
    if not values:
        return [], []
    swept = {key: values[key] for key in _SWEEPS if key in values}
    delay = "$netem" if "lat-sweep" in swept else values.get("netem-lat", "0")
    limit = "$buffers" if "limit-sweep" in swept else values.get("netem-limit", "")
    words = [f"netem_delay={delay}"]
    words += [f"limit={limit}"] if limit else []
    words += [f"loss={values['netem-loss']}"] if "netem-loss" in values else []
    return words, [f"{_SWEEPS[key]}={text}" for key, text in swept.items()]


# ---- the text ------------------------------------------------------------------------------------


def _head(
    source: str, jobs: Sequence[_Job], hosts: Sequence[JobHost], variables: Mapping[str, str]
) -> Iterator[str]:
    enabled = [job for job in jobs if not job.off]
    name = _one_line(PurePath(source).name)
    yield f"# {name}: {len(enabled)} tests to each of {len(hosts)} hosts."
    yield "#"
    yield "# Compares   what its sections differ in. Each test is a macro, with its section's name."
    yield "#"
    yield "# Topology   source ──▶ each of the hosts below, one after the other"
    yield "#"
    yield f"# Takes      {_duration(enabled, len(hosts))}."
    yield "# Look at    netesto summary: throughput, retransmits and CPUs of each test and host."
    yield "#"
    yield f"# Made from {name} by `netesto import jobs`. What this iperf3 cannot do, netesto's own"
    yield "# generator may: -D tool=native"
    for host in hosts:
        facts = " ".join(f"{key}={value}" for key, value in host.facts.items() if value)
        if facts:
            yield f"#   {host.name}: {_one_line(facts)}"
    yield ""
    yield "DEFAULT source=source"
    for profile in dict.fromkeys(job.profile for job in enabled):
        names = [host.name for host in hosts if not profile or host.profile == profile]
        yield f"DEFAULT {variables[profile]}={','.join(names)}"
    yield "DEFAULT tool=iperf3"
    yield ""


def _host_variables(jobs: Sequence[_Job]) -> dict[str, str]:
    """The variable of the hosts of each profile."""
    found: dict[str, str] = {}
    for profile in dict.fromkeys(job.profile for job in jobs):
        name = f"hosts_{re.sub(r'[^A-Za-z0-9]', '_', profile)}" if profile else "hosts"
        while name in found.values():
            name += "_"
        found[profile] = name
    return found


def _duration(jobs: Sequence[_Job], hosts: int) -> str:
    seconds = 0.0
    for job in jobs:
        times = [job.arguments.get(name, "0") for name in ("dur", "omit")]
        each = sum(float(text) for text in times if re.fullmatch(r"\d+(?:\.\d+)?", text))
        cells = math.prod(factor.count(",") + 1 for factor in job.factors)
        seconds += each * job.iterations * hosts * cells
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _macro(job: _Job) -> list[str]:
    flow = [f"{name}={job.arguments[name]}" for name in _ORDER if name in job.arguments]
    lines = [f"BEGIN {job.macro}"]
    lines += [f"    # {_one_line(text)}" for text in job.comments]
    lines.append(
        f"    DO_SERVER host={SERVER} exp=COUNTER expName={_quoted(job.section.name)} start=1"
    )
    lines += _wrapped(
        ["DO_CLIENT", f"host={SOURCE}", f"server={SERVER}", "exp=PREV", "stats=1", *flow]
    )
    lines.append("    WAIT_FLOWS")
    lines += [f"    {line}" for line in job.after]
    lines += [f"    GET_DATA host={SOURCE}", f"    GET_DATA host={SERVER}", "    PROCESS_EXP"]
    lines += [f"END {job.macro}", ""]
    return _as_enabled(job, lines)


def _wrapped(words: Sequence[str]) -> list[str]:
    """The lines of a command in a macro; lines do not break within a word, which may contain
    spaces."""
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(word) < _WIDTH:
            lines[-1] += f" {word}"
        else:
            lines[-1] += " \\"
            lines.append(f"    {word}")
    return [f"    {line}" for line in lines]


def _loop(job: _Job, hosts: str) -> list[str]:
    lines = [] if job.off else [f"# [{_one_line(job.section.name)}]"]
    if job.pacing:
        lines.append(f"SET_QDISC host={SOURCE} qdisc=fq other=maxrate,{job.pacing}")
    lines.append(f"FOR server IN ${hosts} DO")
    lines += [f"    {line}" for line in job.before]
    repetitions = f",{job.iterations}" if job.iterations > 1 else ""
    run = [f"RUN {job.macro}{repetitions} server={SERVER}"]
    if job.netem:
        run = [f"SET_NETEM host={SOURCE} {' '.join(job.netem)}", *run]
    if job.factors:
        run = [f"SWEEP {' '.join(job.factors)} DO", *(f"    {line}" for line in run), "DONE"]
    lines += [f"    {line}" for line in run]
    lines.append("DONE")
    if job.netem:
        lines.append(f"SET_NETEM host={SOURCE} netem_delay=0")
    if job.pacing:
        lines.append(f"SET_QDISC host={SOURCE} qdisc=fq action=delete")
    return _as_enabled(job, lines)


def _as_enabled(job: _Job, lines: Sequence[str]) -> list[str]:
    if not job.off:
        return list(lines)
    return [f"# {job.off}", *(f"# {line}" if line else "" for line in lines)]


def _one_line(text: str) -> str:
    """Text for a comment, which a line break would end."""
    return " ".join(text.split())


def _quoted(text: str) -> str:
    """A value of a script: what is not a plain word is quoted."""
    if _PLAIN.fullmatch(text) or text == "$tool":
        return text
    escaped = _one_line(text).replace("\\", "").replace('"', "").replace("$", "$$")
    return f'"{escaped}"'
