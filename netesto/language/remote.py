"""Remote commands: resolves sticky host, exp and expName, group numbers and defaults."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypedDict

from netesto.errors import Place, written_line
from netesto.flowspec import (
    COMPLETION_TESTS,
    INCOMPLETE,
    OPTIONS,
    UDP_TESTS,
    UNTIL_DONE_S,
    FlowSpec,
)
from netesto.hostsettings import (
    LinkAttribute,
    Sysctl,
)
from netesto.language import permitted, steps
from netesto.language.arguments import flow, read, value_of, without_torn
from netesto.language.commands import REMOTE
from netesto.language.draft import Draft
from netesto.language.plan import seed_of
from netesto.language.scope import MisuseError, NoExperimentError
from netesto.language.specification import Given
from netesto.language.steps import REPETITION
from netesto.schema.kinds import Value
from netesto.traces import addresses, workload
from netesto.traces import format as trace_format
from netesto.traces.format import Trace
from netesto.traces.played import REQUESTS, SAMPLED_MOST, parts, unsampled
from netesto.traces.workload import Workload

CLASSIC_NAME = "Exp"
# The value for a stream where request tests have their size.
DEFAULT_REQUEST, DEFAULT_REQUEST_BYTES = "1M", 1_000_000
# Of IPv4 and TCP, without options (RFC 6691).
_TCP_HEADERS_BYTES = 40
# With LAB, which the classic tool did not have: that of Linux, which everybody expects.
LAB_CONTROL = "cubic"
# That of START_FLOWS.
TRACE_LEAD_S = 0.2
# All of a trace may be at its time 0.
SHORTEST_TRACE_S = 0.001
# These run at both ends; with all others the receiver of the data uses cubic (the classic rule).
SYMMETRIC_CONGESTION_CONTROLS = frozenset({"dctcp", "nv"})


class Common(TypedDict):
    """What every remote command has."""

    name: str
    host: str
    exp: int
    exp_name: str
    place: Place
    chain: tuple[str, ...]
    suffix: str
    arguments: dict[str, str]


@dataclass(slots=True)
class Notes:
    """The notes of DESC, OTHER and SWEEP for later experiments."""

    description: str = ""
    other: Mapping[str, str] = field(default_factory=dict)
    cells: list[Mapping[str, str]] = field(default_factory=list)

    def cell(self) -> dict[str, str]:
        """The running SWEEP cell with the outer ones: their factors, and `rep`, `rep2`, …"""
        whole: dict[str, str] = {}
        for depth, cell in enumerate(self.cells, start=1):
            named = dict(cell)
            repetition = named.pop(REPETITION)
            whole |= named | {REPETITION if depth == 1 else f"{REPETITION}{depth}": repetition}
        return whole

    def of_experiment(self, exp_name: str) -> steps.ExperimentNotes:
        """The notes of an experiment with this name."""
        return steps.ExperimentNotes(
            exp_name=exp_name,
            description=self.description,
            columns={**self.other, **self.factors()},
            cell=self.cell(),
        )

    def factors(self) -> dict[str, str]:
        """The factors of the running SWEEP cell and of the outer ones."""
        named = (pair for cell in self.cells for pair in cell.items())
        return {name: value for name, value in named if name != REPETITION}


@dataclass(slots=True)
class Begun:
    """An experiment that has begun and is not processed: its name, hosts and groups.

    `flows` is the last command that started flows in it, `notes` are the script's at that time, and
    `has_waited` is whether it has waited for them.
    """

    name: str
    hosts: set[str] = field(default_factory=set)
    groups: set[int] = field(default_factory=set)
    last_group: int = 0
    flows: steps.DoClient | None = None
    notes: steps.ExperimentNotes = field(default_factory=steps.ExperimentNotes)
    has_waited: bool = False


class Remote:
    """The state that remote commands share."""

    def __init__(self, draft: Draft, notes: Notes) -> None:
        self._draft = draft
        self._notes = notes
        self.has_sent = False
        # Whether the script has LAB, and the MTU of all its links, if that is known.
        self.has_lab = False
        self.lab_mtu: int | None = None
        # The MTUs that SET_LINK has set, by host.
        self._mtus: dict[str, int] = {}
        # The first setting at each place that no flow has followed yet, and the places of others.
        self._idle_settings: dict[Place, steps.Configure] = {}
        self._used_settings: set[Place] = set()
        self._exited: dict[str, Place] = {}
        # Hosts that CLOSE has released, and the experiments in which they had taken part.
        self._released: dict[tuple[str, int], Place] = {}
        self.suffix = ""
        self.exp = 0
        self.exp_name = CLASSIC_NAME
        self._host = ""
        self._fetched: set[tuple[str, int]] = set()
        # Experiments that are not processed yet, in the order of their start, and the numbers of
        # processed ones.
        self.open: dict[int, Begun] = {}
        self._processed: set[int] = set()
        # Captures of a later test, with the requested experiment number (None: any).
        self.captures: list[tuple[int | None, steps.DoTcpdump]] = []
        # Whether flows wait for START_FLOWS.
        self.has_held = False
        self.has_flows_since_process = False
        self._has_flows = False
        # Reads the file that a script names: its path, and its text.
        self.read_file: Callable[[str, str], tuple[Path, str]] = _unreadable
        self._workloads: dict[Path, Workload] = {}

    def send(self, name: str, words: tuple[str, ...], place: Place, chain: tuple[str, ...]) -> None:
        """Resolve a remote command and pass it to the draft."""
        self.has_sent = True
        words, torn = without_torn(REMOTE[name], words)
        for pair in torn:
            written = " ".join(pair)
            message = f"`{written}` is {''.join(pair)} with a space in it: {name} ignores it"
            self._draft.warn(message, place.narrowed(pair[0]), once=(written, place))
        given = read(REMOTE[name], words)
        if name == "DO_TRACE":
            self._trace(given, place, chain)
            return
        takes_number = name in {"DO_SERVER", "DO_CLIENT", "STRESS_LINK"}
        host = self._resolve_host(given)
        asked = given.values.get("exp")
        if name == "STRESS_LINK" and asked is None:
            asked = "COUNTER"
        exp = self.resolve_exp(asked, takes_number=takes_number)
        exp_name = given.texts.get("expName", self.exp_name)
        texts = {"host": host, "exp": str(exp), "expName": exp_name}
        texts |= {key: text for key, text in given.texts.items() if key not in texts}
        common = Common(
            name=name,
            host=host,
            exp=exp,
            exp_name=exp_name,
            place=place,
            chain=chain,
            suffix=self.suffix,
            arguments=texts,
        )
        command = self._make(given, common)
        if command is not None:
            self._warn_of_released(command)
            for message, where in permitted.slips(command):
                self._draft.warn(message, where, chain, once=(message, chain[:1] or where))
        if isinstance(command, steps.DoTcpdump) and exp not in self.open:
            requested = given.values.get("exp")
            self.captures.append((requested if isinstance(requested, int) else None, command))
        elif isinstance(command, steps.DoServer | steps.DoClient):
            self._begin(command)
            self._draft.do(command)
        elif command is not None:
            self._note_setting(command)
            self._draft.do(command)
        # Only the values of commands that are sent are sticky.
        self._host, self.exp, self.exp_name = host, exp, exp_name

    def _warn_of_released(self, command: steps.RemoteCommand) -> None:
        """Warn of a command to a host whose agent EXIT has ended, or that CLOSE has released during
        the command's experiment."""
        named = [command.host]
        if isinstance(command, steps.DoClient):
            named.append(command.server)
        for host in named:
            if before := self._exited.get(host):
                self._draft.warn(
                    f"EXIT ended the agent of {host} before ({before.file}:{before.line})",
                    command.place,
                    once=("exited", command.place),
                )
            elif (before := self._released.get((host, command.exp))) and isinstance(
                command, steps.DoServer | steps.DoClient | steps.DoTcpdump
            ):
                self._draft.warn(
                    f"CLOSE released {host} before ({before.file}:{before.line}): it does no more"
                    f" for experiment {command.exp}",
                    command.place,
                    once=("released", command.place),
                )
        if isinstance(command, steps.Exit):
            self._exited[command.host] = command.place
        if isinstance(command, steps.Close):
            for exp, begun in self.open.items():
                if command.host in begun.hosts:
                    self._released[command.host, exp] = command.place

    def _note_setting(self, command: steps.RemoteCommand) -> None:
        """Remember a setting that changes nothing unless a flow follows."""
        if not isinstance(command, steps.Configure):
            return
        for setting in command.settings:
            if isinstance(setting, LinkAttribute) and setting.name == "mtu":
                # Another interface of the host may have a larger one.
                least = self._mtus.get(command.host, self.lab_mtu or 0) if setting.to else 0
                self._mtus[command.host] = max(int(setting.value), least)
        is_lasting = command.kept or all(
            each.removes or not each.is_for_flows for each in command.settings
        )
        if command.place in self._used_settings or is_lasting:
            return
        if self._draft.is_idle():
            self._idle_settings.setdefault(command.place, command)
        else:
            self._used_settings.add(command.place)

    def finish_settings(self) -> None:
        """The script has ended: warn of settings that no flow has followed."""
        for command in self._idle_settings.values() if self._has_flows else ():
            message = f"{command.name}: no flow follows, so it changes no result"
            self._draft.warn(message, command.place, command.chain)

    def full_name(self, host: str) -> str:
        """`host` with the suffix, if it needs one. Addresses have a `.` or a `:`."""
        if not self.suffix or "." in host or ":" in host:
            return host
        return f"{host}.{self.suffix}"

    def resolve_exp(self, requested: object, *, takes_number: bool) -> int:
        """The number of the experiment that a command belongs to; 0 if there is none yet."""
        if isinstance(requested, int):
            return requested
        if takes_number and (requested == "COUNTER" or (requested is None and not self.exp)):
            return self._draft.next_experiment()
        if self.exp or requested is None:
            return self.exp
        previous = self._draft.previous_experiment()
        if takes_number and not previous:
            raise MisuseError(
                "exp=PREV, but no experiment has run",
                near=("exp=",),
                remedy="Use exp=COUNTER for the first.",
            )
        return previous

    def finish(self, exp: int) -> str:
        """PROCESS_EXP: group numbers begin again at 1. The name that the experiment has from its
        first command; MisuseError for an unknown experiment."""
        if exp not in self.open:
            raise MisuseError(
                f"experiment {exp} is already processed"
                if exp in self._processed
                else f"no experiment {exp} to process",
                near=("exp=",),
                remedy="PROCESS_EXP comes after the DO_SERVER and DO_CLIENT of its experiment.",
            )
        self._processed.add(exp)
        self.has_flows_since_process = False
        return self.open.pop(exp).name

    def _begin(self, command: steps.DoServer | steps.DoClient) -> None:
        """Note the experiment of a command, and send the captures that wait for it."""
        exp = command.exp
        if exp not in self.open:
            if exp in self._processed:
                self._draft.warn(
                    f"experiment {exp} is already processed: run refuses to write to it again."
                    " Take the next number with exp=COUNTER.",
                    command.place,
                    once=("processed", command.place),
                )
            self.open[exp] = Begun(command.exp_name)
            for requested, capture in self.captures:
                if requested in {None, exp}:
                    # It is executed now instead of at its place.
                    self._warn_of_released(capture)
                    texts = {"exp": str(exp), "expName": command.exp_name}
                    arguments = dict(capture.arguments) | texts
                    self._draft.do(
                        replace(capture, exp=exp, exp_name=command.exp_name, arguments=arguments)
                    )
            self.captures = [each for each in self.captures if each[0] not in {None, exp}]
        begun = self.open[exp]
        begun.hosts.update(command.hosts)
        if isinstance(command, steps.DoClient):
            self.has_held = self.has_held or command.hold
            begun.flows, begun.notes = command, self._notes.of_experiment(begun.name)
            begun.groups.add(command.group)
            begun.last_group = max(begun.last_group, command.group)
            begun.has_waited = False
            self.has_flows_since_process = self._has_flows = True
            self._used_settings.update(self._idle_settings)
            self._idle_settings.clear()

    def _resolve_host(self, given: Given) -> str:
        host = given.texts.get("host")
        if host is not None:
            return self.full_name(host)
        if not self._host:
            raise MisuseError(
                "missing host=, and no earlier command names one", remedy="Write: host=name"
            )
        return self._host

    def _next_group(self, exp: int, requested: int) -> int:
        begun = self.open.get(exp) or Begun("")
        group = requested or begun.last_group + 1
        if group in begun.groups:
            raise MisuseError(
                f"group {group} of experiment {exp} is taken by an earlier DO_CLIENT",
                near=("group=",),
                remedy="Leave group out to get the next free number.",
            )
        return group

    # ---- the commands; None if there is nothing to send ----------------------------------------

    def _make(self, given: Given, common: Common) -> steps.RemoteCommand | None:
        match common["name"]:
            case "DO_SERVER":
                self._fetched.clear()
                order, start = given.values["order"], given.values["start"]
                return steps.DoServer(**common, order=order, start=start)
            case "DO_CLIENT":
                return self._client(given, common)
            case "STRESS_LINK":
                return self._stress(given, common)
            case "SHOW_LINK":
                common["arguments"]["to"] = to = self.full_name(given.texts["to"])
                return steps.ShowLink(**common, to=to)
            case "GET_DATA":
                return self._get_data(common)
            case "DO_TCPDUMP":
                return self._tcpdump(given, common)
            case "CLOSE":
                return steps.Close(**common)
            case "EXIT":
                return steps.Exit(**common)
            case name:
                asked_of = REMOTE[name].settings
                assert asked_of is not None, f"{name} is executed nowhere"
                settings = asked_of(given)
                permitted.check(settings)
                # The fields of sysctls are separated by spaces.
                values = {each.name: each.value for each in settings if isinstance(each, Sysctl)}
                common["arguments"] |= {**given.open_arguments, **values}
                return steps.Configure(**common, settings=settings)

    def _client(self, given: Given, common: Common) -> steps.DoClient:
        texts = common["arguments"]
        derived: dict[str, Value] = {}
        if self.has_lab and "test" not in given.written and given.values["req"] != "S":
            raise MisuseError(
                "DO_CLIENT: missing test=",
                remedy="With LAB it has no default: test=TCP_STREAM for a bulk transfer,"
                " test=TCP_RR for requests.",
            )
        if self.has_lab and "ca" not in given.written:
            texts["ca"] = derived["congestion_control"] = LAB_CONTROL
        if 0 < given.values["dur"] <= given.values["omit"]:
            raise MisuseError(
                f"omit={texts['omit']} is not less than dur={texts['dur']}",
                near=("omit=",),
                remedy="It must be less than dur.",
            )
        # The first begins immediately, but not that of a Poisson process.
        gaps = (given.values.get("count") or 1) - (texts.get("arrivals") != "poisson")
        last_s = gaps * (given.values.get("gap") or 0)
        if last_s >= given.values["dur"]:
            about = "about " if texts.get("arrivals") == "poisson" else ""
            raise MisuseError(
                f"count={texts['count']} gap={texts['gap']}: the last transfer begins after "
                f"{about}{last_s:g} s, and none begins after dur={texts['dur']}",
                near=("count=", "gap="),
                remedy=f"dur={math.ceil(last_s * 1.1) + 1} leaves time for all.",
            )
        is_counted = texts["test"] in COMPLETION_TESTS and given.values.get("count")
        if is_counted and not given.values.get("gap") and "dur" not in given.written:
            texts["dur"], derived["duration_s"] = f"{UNTIL_DONE_S:g}", UNTIL_DONE_S
        if given.values["req"] == "S":
            texts["req"], derived["request_bytes"] = DEFAULT_REQUEST, DEFAULT_REQUEST_BYTES
            texts["test"] = "TCP_STREAM" if texts["test"] == "TCP_RR" else texts["test"]
            derived["test"] = texts["test"]
        is_symmetric = texts["ca"] in SYMMETRIC_CONGESTION_CONTROLS or texts["test"] == "TCP_BIDI"
        if is_symmetric and "remoteCa" not in texts and texts["test"] not in UDP_TESTS:
            derived["reverse_congestion_control"] = texts["ca"]
        asked = flow(given, **derived)
        for rule in INCOMPLETE:
            if broken := rule.broken(asked):
                raise MisuseError(broken, near=rule.near, remedy=rule.remedy)
        texts["server"] = self.full_name(texts["server"])
        self._warn_of_segments(given, common)
        group = self._next_group(common["exp"], given.values["group"])
        texts["group"] = str(group)
        self._fetched.clear()
        return steps.DoClient(
            **common,
            group=group,
            server=texts["server"],
            flow=asked,
            hold=given.values["hold"],
        )

    def _stress(self, given: Given, common: Common) -> steps.DoClient:
        """An experiment with one flow, in virtual time."""
        common["arguments"]["to"] = to = self.full_name(given.texts["to"])
        flow = FlowSpec(
            test="LINK_STRESS",
            tool="native",
            count=int(given.values["frames"]),
            size_bytes=int(given.values["size"]),
            gap_s=given.values.get("interval") or 0.0,
        )
        group = self._next_group(common["exp"], 0)
        return steps.DoClient(**common, group=group, server=to, flow=flow)

    def _trace(self, given: Given, place: Place, chain: tuple[str, ...]) -> None:
        """DO_TRACE: a group for each host's flows, and one for its requests, all of which start
        together."""
        if not self.has_lab:
            raise MisuseError(
                "DO_TRACE needs a LAB: its hosts have one clock",
                remedy="Write before it, for example: LAB fattree k=4 rate=1mbit",
            )
        exp = self.resolve_exp(given.values.get("exp"), takes_number=True)
        exp_name = given.texts.get("expName", self.exp_name)
        bitrate_bps, is_paced = _bitrate(given)
        trace = self._trace_of(given, place)
        if given.texts["protocol"] == "tcp" and (others := unsampled(trace)):
            message = (
                f"{others} of {len(trace.flows)} flows are not sampled as sockets: at most"
                f" {SAMPLED_MOST} are at a time"
            )
            self._draft.warn(message, place, chain, once=(message, place))
        played = list(
            parts(
                trace,
                drain_s=given.values["drain"],
                store=given.texts["kv"],
                is_paced=is_paced,
            )
        )
        if not played:
            raise MisuseError("a trace without flows and requests", near=("file=", "workload="))
        for host, kind, part in played:
            test = "TRACE_KV" if kind == REQUESTS else f"TRACE_{given.texts['protocol'].upper()}"
            group = self._next_group(exp, 0)
            texts = {"host": host, "exp": str(exp), "expName": exp_name, "group": str(group)}
            texts |= {key: text for key, text in given.texts.items() if key not in texts}
            command = steps.DoTrace(
                name="DO_TRACE",
                host=self.full_name(host),
                exp=exp,
                exp_name=exp_name,
                place=place,
                chain=chain,
                suffix=self.suffix,
                arguments=texts | {kind: str(part.count)},
                group=group,
                server=self.full_name(part.peers[0]),
                peers=tuple(map(self.full_name, part.peers)),
                flow=FlowSpec(
                    test=test,
                    tool="native",
                    congestion_control=FlowSpec().congestion_control
                    if test in UDP_TESTS
                    else given.texts["ca"],
                    bitrate_bps=None if kind == REQUESTS else bitrate_bps,
                    duration_s=max(part.end_us / 1e6 + part.drain_s, SHORTEST_TRACE_S),
                    stats=given.values["stats"],
                    interval_s=given.values["interval"],
                    trace=part.text,
                ),
                hold=True,
            )
            self._warn_of_released(command)
            self._begin(command)
            self._draft.do(command)
        self._fetched.clear()
        self.exp, self.exp_name = exp, exp_name
        if not given.values["hold"]:
            self._draft.do(steps.StartFlows(lead_s=TRACE_LEAD_S))
            self.has_held = False

    def _trace_of(self, given: Given, place: Place) -> Trace:
        """The trace that a DO_TRACE plays."""
        named = [name for name in ("file", "workload") if name in given.texts]
        if len(named) != 1:
            raise MisuseError(
                "DO_TRACE: one of file= and workload= is required",
                near=[f"{name}=" for name in named],
            )
        [kind] = named
        path, text = self.read_file(given.texts[kind], place.file)
        if kind == "file":
            hosts = addresses.of_file(self._draft.topology_text)
            return trace_format.read(path, hosts, text=text)
        if path not in self._workloads:
            self._workloads[path] = workload.read(path, text=text)
        words = f"trace {given.texts[kind]} {given.texts.get('seed', '')}"
        return workload.generate(self._workloads[path], seed_of(self._draft.seed, words))

    def _warn_of_segments(self, given: Given, common: Common) -> None:
        """Warn of an `mss` with which a segment does not fit into the MTU of an end."""
        mss, texts = given.values.get("mss"), common["arguments"]
        ends = (common["host"], texts["server"])
        mtus = [self._mtus.get(each, self.lab_mtu) for each in ends]
        least = min([mtu for mtu in mtus if mtu is not None], default=None)
        if mss is None or least is None or mss <= least - _TCP_HEADERS_BYTES:
            return
        message = (
            f"mss={texts['mss']}: the MTU is {least} bytes, so TCP sends segments of"
            f" {least - _TCP_HEADERS_BYTES} bytes at most"
        )
        place, chain = common["place"].narrowed("mss="), common["chain"]
        self._draft.warn(message, place, chain, once=(message, place, written_line(place, chain)))

    def _get_data(self, common: Common) -> steps.GetData | None:
        if not common["exp"]:
            raise NoExperimentError("GET_DATA")
        key = (common["host"], common["exp"])
        if key in self._fetched:
            return None
        self._fetched.add(key)
        return steps.GetData(**common)

    def _tcpdump(self, given: Given, common: Common) -> steps.DoTcpdump:
        texts = common["arguments"]
        if texts["server"] != steps.EVERYBODY:
            texts["server"] = self.full_name(texts["server"])
        return steps.DoTcpdump(
            **common,
            server=texts["server"],
            packets=given.values["packets"],
            snap_bytes=given.values["snap"],
        )


def _unreadable(name: str, from_file: str) -> tuple[Path, str]:
    raise MisuseError(f"cannot read {name}, which {from_file} names")


def _bitrate(given: Given) -> tuple[float | None, bool]:
    """The rate of a DO_TRACE's flows, None by default; and whether they have one."""
    text = given.texts.get("bitrate")
    if text == "none":
        if given.texts["protocol"] == "udp":
            raise MisuseError(
                "bitrate=none: datagrams need a rate",
                near=("bitrate=",),
                remedy="Leave it out, or write for example: bitrate=1mbit",
            )
        return None, False
    if text is None:
        return None, True
    return float(str(value_of(OPTIONS["bitrate_bps"], text))), True
