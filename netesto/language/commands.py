"""The table of commands: their arguments with type, range and default.

The defaults of the classic commands are those of the classic tool, because scripts depend on them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from netesto.flowspec import FIELDS, LINK_TESTS, MAX_SECONDS, OPTIONS, TRACE_TESTS, Option
from netesto.language.hostcommands import HOST_COMMANDS
from netesto.language.specification import COMMON, EXPERIMENT, Specification, by_name, remote
from netesto.limits.allowed import INT_MAX
from netesto.schema.kinds import Argument, Kind

SERVER = Argument("server", Kind.HOST, required=True)

# What DO_CLIENT takes beside the options of the flow, each behind one of these ("": the first).
_OF_COMMAND = {
    "": replace(SERVER, sentence="the host at the other end"),
    "stats": Argument(
        "group",
        Kind.INTEGER,
        "number of the group; 0: the next one",
        default="0",
        low=0,
        high=1_000_000,
    ),
    "tool": Argument("hold", Kind.FLAG, "1: wait for START_FLOWS", default="0"),
}


def _of_client(option: Option) -> Option | None:
    """An argument of DO_CLIENT; None if it belongs to DO_TRACE. STRESS_LINK has its own test."""
    if option.tests <= TRACE_TESTS:
        return None
    if option is OPTIONS["test"]:
        kept = tuple(test for test in option.choices if test not in TRACE_TESTS | LINK_TESTS)
        return replace(option, choices=kept)
    return option


DO_CLIENT_ARGUMENTS: tuple[Argument, ...] = (
    _OF_COMMAND[""],
    *(
        argument
        for name, fields in FIELDS.items()
        for argument in (_of_client(OPTIONS[fields[0]]), _OF_COMMAND.get(name))
        if argument is not None
    ),
)
# What a trace says of its flows, and netesto of the processes that play it, is no argument.
DO_TRACE_ARGUMENTS: tuple[Argument, ...] = (
    Argument(
        "file",
        Kind.TEXT,
        "a trace, beside the script: `netesto trace make` makes one. Either `file` or `workload`",
    ),
    Argument(
        "workload",
        Kind.TEXT,
        "a workload, beside the script, of which the run's seed makes the trace: the same for all"
        " repetitions, unless `seed` differs",
    ),
    Argument("seed", Kind.TEXT, "joins the run's seed for `workload`: `seed=$rep`"),
    Argument("protocol", Kind.WORD, "of flows", choices=("tcp", "udp"), default="tcp"),
    Argument(
        "bitrate",
        Kind.TEXT,
        "rate of the payload of each flow; by default 0.915 (tcp) or 0.95 (udp) of the rate of the"
        " first link to the hosts of its flows; if several have different rates it is needed."
        " `none`: as much as TCP takes",
    ),
    Argument(
        "drain",
        Kind.TIME,
        "how long receivers listen after the last event: what queues still hold then is dropped",
        default="10",
        low=0,
        high=MAX_SECONDS,
    ),
    replace(
        OPTIONS["congestion_control"],
        sentence="congestion control of flows and requests",
        default="cubic",
    ),
    Argument(
        "kv",
        Kind.WORD,
        "the store: netesto's own, or memcached, which must be installed",
        choices=("native", "memcached"),
        default="native",
    ),
    OPTIONS["stats"],
    OPTIONS["interval_s"],
    Argument("hold", Kind.FLAG, "1: wait for START_FLOWS", default="0"),
)


REMOTE = by_name(
    remote(
        "DO_SERVER",
        Argument("order", Kind.INTEGER, default="0", low=0, high=1),
        Argument("start", Kind.FLAG, default="0"),
    ),
    remote("DO_CLIENT", *DO_CLIENT_ARGUMENTS),
    Specification(name="DO_TRACE", arguments=(*COMMON[1:], *DO_TRACE_ARGUMENTS)),
    remote(
        "STRESS_LINK",
        Argument("to", Kind.HOST, required=True),
        Argument("frames", Kind.SIZE, default="100M", low=1, high=100_000_000),
        Argument("size", Kind.SIZE, default="1518", low=64, high=65_535),
        Argument("interval", Kind.TIME, low=1e-9, high=MAX_SECONDS),
    ),
    remote("SHOW_LINK", Argument("to", Kind.HOST, required=True)),
    remote("GET_DATA"),
    *HOST_COMMANDS,
    remote(
        "DO_TCPDUMP",
        SERVER,
        Argument("packets", Kind.INTEGER, default="10000", low=1, high=INT_MAX),
        Argument("snap", Kind.INTEGER, default="0", low=0, high=262_144),
    ),
    remote("CLOSE"),
    remote("EXIT"),
)

# Local commands that take key=value words.
LOCAL_KEYED = by_name(
    Specification(name="PROCESS_EXP", arguments=(EXPERIMENT,)),
    Specification(
        name="WAIT_FLOWS", arguments=(Argument("timeout", Kind.TIME, low=0, high=MAX_SECONDS),)
    ),
    Specification(
        name="START_FLOWS", arguments=(Argument("lead", Kind.TIME, default="0.2", low=0, high=60),)
    ),
)


@dataclass(frozen=True, slots=True)
class LocalUsage:
    """A local command: how it is written, and how many words it takes (`most` None: any number)."""

    text: str
    least: int = 0
    most: int | None = None


LOCAL: Mapping[str, LocalUsage] = {
    "SET": LocalUsage("SET name=value", 1, 1),
    "SET_EXP": LocalUsage("SET_EXP name=expression", 1),
    "DEFAULT": LocalUsage("DEFAULT name=value", 1, 1),
    "HOST_SUFFIX": LocalUsage("HOST_SUFFIX suffix", 1, 1),
    "SOURCE": LocalUsage("SOURCE file", 1, 1),
    "RUN": LocalUsage("RUN macro[,repetitions] name=value …", 1),
    "WAIT": LocalUsage("WAIT seconds", 1, 1),
    "RAND_WAIT": LocalUsage("RAND_WAIT seconds, or RAND_WAIT from to", 1, 2),
    "DESC": LocalUsage("DESC text"),
    "OTHER": LocalUsage("OTHER column=value,column=value"),
    "ECHO": LocalUsage("ECHO words"),
    "PROCESS_EXP": LocalUsage("PROCESS_EXP [exp=number]"),
    "NEXT_COUNTER": LocalUsage("NEXT_COUNTER", 0, 0),
    "DEBUG": LocalUsage("DEBUG 0/1/F/T", 1, 1),
    "DEBUG_DISABLE": LocalUsage("DEBUG_DISABLE", 0, 0),
    "DEBUG_RESTORE": LocalUsage("DEBUG_RESTORE", 0, 0),
    "END": LocalUsage("END", 0, 0),
    "REQUIRE": LocalUsage("REQUIRE ca=bbr qdisc=fq tool=netperf kernel>=6.1 hosts=4", 1),
    "ASSERT": LocalUsage("ASSERT expression [: message]", 1),
    "WAIT_FLOWS": LocalUsage("WAIT_FLOWS [timeout=seconds]"),
    "START_FLOWS": LocalUsage("START_FLOWS [lead=0.2]"),
    "LAB": LocalUsage("LAB topology name=value …, or LAB file=path", 1),
}

# Words that begin or end a block; they cannot come from a variable.
STRUCTURE = (
    "BEGIN", "FOR", "IF", "IF_DEF", "ELSE", "SWEEP", "DONE", "BEGIN_COMMENT", "END_COMMENT",
)  # fmt: skip

ALL_NAMES: tuple[str, ...] = (*STRUCTURE, *LOCAL, *REMOTE)
