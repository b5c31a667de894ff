"""The faults that tests inject into runs, the expected outcome of each, and the table of both.

Each run measures three experiments in a lab; the fault comes in the second. The test of a fault
compares everything that its row of the table says.
"""

import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from netesto.results import manifest

OK, FAILED, WORLD, INTERRUPTED, KILLED = 0, 1, 3, 130, -9

# The output of the run, and its count, at which the fault is injected.
MOMENTS = {
    "the experiment begins": ("experiment 2 of 3", 1),
    "in mid-flow": ("#1.1: 2 s", 1),
    "data is fetched": ("#1.1: ended", 2),
}
BEGIN, MIDDLE, FETCH = MOMENTS

# Machines also fail when nothing flows.
BETWEEN = "between experiments"
OF_MACHINES = {**MOMENTS, BETWEEN: ("experiment 1: ok", 1)}

# The conditions that decide between several outcomes of a fault, because a test cannot hit the last
# moment at which the fault matters. The results folder shows which one applies.
UNTOUCHED = "untouched"
NO_RESULT = "the flow's result had not arrived"
COMPLETE = "it was complete"
ENDED = "the flow had ended"

# The moments of faults that exist beforehand.
START, BEFORE = "the tool is started", "before the run"

UNDER_NOHUP = "controller under nohup"

# Each host of the machines has an agent of its own; the hosts of a lab have threads of one.
ON_MACHINES = ("agent of the client", "agent of the server")
OF_LAB, LOOP = "agent of the lab", "event loop"

# The agents exist for this run only.
BROUGHT = "with `--ssh`"

AGAIN = "connected again; nothing was lost"

# The traffic tools, at both ends of a flow, and what collects data beside it.
FLOWING = (
    "netperf",
    "netserver",
    "iperf3 client",
    "iperf3 server",
    "native client",
    "native server",
)
COLLECTORS = ("ping", "tcpdump")
TOOLS = FLOWING + COLLECTORS
OF_TOOLS = (("SIGKILL",), ("SIGTERM",), ("SIGSTOP", "SIGCONT"), ("SIGSTOP",))
END = "the result is read"
AT_TOOLS = (START, MIDDLE, END)

# By how much a clock is set.
STEPS_S = {"+1 h": 3600.0, "-1 h": -3600.0, "+0.5 s": 0.5}

# The lease of an agent is 30 s, from when it notices, after 2 to 3.5 s, that the controller is
# silent: when that goes on, one of two agents may have ended it, and the other one not.
WITHIN_LEASE, AT_THE_END_OF_LEASE, BEYOND_LEASE = "8 s", "33 s", "40 s"

# To the end of the run.
FOR_GOOD = "for good"

# Longer than keepalive pings take to notice a silent peer, 3.5 s, also on a busy machine.
FROZEN_S = 8.0

# `make test` injects these, one of each kind; `make reliability` the others.
TELLING = frozenset(
    {
        "agent of the client: SIGKILL, in mid-flow",
        "agent of the lab: SIGKILL, in mid-flow",
        "agent of the lab: SIGSTOP SIGCONT, in mid-flow",
        "event loop of the client: stopped 8 s, in mid-flow",
        "event loop of the client: stopped for good, in mid-flow",
        "iperf3 server: SIGKILL",
        "controller: SIGKILL, in mid-flow",
        "machines: disk of the results full, before the run",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """`signs` are sent to `target`, one after the other, at `moment`.

    second    the status of the second experiment; "" means no row
    instead   its status under other conditions; the first that applies counts
    third     the status of the third experiment
    said      a part of the run's output
    """

    target: str
    signs: tuple[str, ...]
    moment: str
    second: str
    third: str
    said: str
    status: int
    on_failure: str = "continue"
    instead: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        option = "" if self.on_failure == "continue" else f", --on-failure {self.on_failure}"
        return f"{self.target}: {' '.join(self.signs)}, {self.moment}{option}"

    @property
    def is_on_machines(self) -> bool:
        return self.target in {"machines", *ON_MACHINES}

    @property
    def begins(self) -> bool:
        """Whether the run begins although the fault comes before it."""
        return self.moment != BEFORE or bool(self.second)


def agents() -> Iterator[Fault]:
    """An agent is killed, terminated, or frozen for a while. On machines another one is started
    after its end, as supervisors do."""
    lost = {"SIGKILL": "agent lost", "SIGTERM": "agent lost: the agent was asked to end"}
    targets = (*ON_MACHINES, OF_LAB)
    for target, (sign, said), moment in itertools.product(targets, lost.items(), MOMENTS):
        # Data that has arrived is safe, and so is an experiment that has not begun at the agent.
        yield Fault(
            target=target,
            signs=(sign,),
            moment=moment,
            second="partial" if moment == FETCH else "failed",
            instead={ENDED: "partial"} if moment == MIDDLE else {UNTOUCHED: "ok"},
            third="ok",
            said=said,
            status=FAILED,
        )
    for target, moment in itertools.product(targets, MOMENTS):
        yield Fault(
            target=target,
            signs=("SIGSTOP", "SIGCONT"),
            moment=moment,
            second="ok",
            third="ok",
            said="connected again; nothing was lost",
            status=OK,
        )
    for target in targets:
        yield Fault(
            target=target,
            signs=("SIGKILL",),
            moment=MIDDLE,
            second="failed",
            instead={ENDED: "partial"},
            third="",
            said="the run ends here",
            status=FAILED,
            on_failure="stop",
        )
    # That of the other host goes on, and so do the flow and its samples.
    for target, moment in itertools.product(("client", "server"), MOMENTS):
        yield Fault(
            target=f"{LOOP} of the {target}",
            signs=("stopped", WITHIN_LEASE),
            moment=moment,
            second="ok",
            third="ok",
            said="experiment 3",
            status=OK,
        )
    # The agent of the lab notices that it does not go on, and ends. The flow does not need its
    # server's.
    for target in ("client", "server"):
        yield Fault(
            target=f"{LOOP} of the {target}",
            signs=("stopped", FOR_GOOD),
            moment=MIDDLE,
            second="failed",
            instead={ENDED: "partial"},
            third="ok",
            said="has been blocked for 20 s",
            status=FAILED,
        )


def tools() -> Iterator[Fault]:
    """A tool is killed, terminated, or stopped, for a while or for good."""
    for target, signs, moment in itertools.product(TOOLS, OF_TOOLS, AT_TOOLS):
        if signs == ("SIGSTOP",) and moment != MIDDLE:
            # It takes until its deadline, always for the same reason.
            continue
        # The server of native sends its result at the end of its window, and is not asked for it.
        is_over = (target, moment) == ("native server", END)
        goes_on = "SIGCONT" in signs or is_over
        fails = not goes_on and target not in COLLECTORS
        yield Fault(
            target=target,
            signs=signs,
            moment=moment,
            second="partial" if fails else "ok",
            third="ok",
            said="experiment" if goes_on else said_of_tool(target, signs),
            status=FAILED if fails else OK,
        )


def said_of_tool(target: str, signs: tuple[str, ...]) -> str:
    """What is reported of a tool that does not go on."""
    [sign] = signs
    name = tool_of(target)
    if target == "ping":
        end = "at the end, being stopped or hung" if sign == "SIGSTOP" else "early"
        return f"was ended by {'SIGKILL' if sign == 'SIGSTOP' else sign} {end}"
    if target == "tcpdump":
        # It exits 0 on SIGTERM, once it listens.
        return f"tcpdump was ended by {'' if sign == 'SIGTERM' else 'SIGKILL'}"
    if sign == "SIGSTOP":
        return f"{name} still ran after 16 s, ended"
    if (target, sign) == ("iperf3 client", "SIGTERM"):
        # At its start it has no handler yet; later it reports "interrupt".
        return "#1.1 failed: iperf3"
    is_client = target in {"netperf", "iperf3 client", "native client"}
    return f"{name} was ended by {sign}" if is_client else f"#1.1 failed: {name}"


def tool_of(target: str) -> str:
    """The value of `tool=` of flows that a tool belongs to, or that a collector observes."""
    name = target.partition(" ")[0]
    return name if name in {"iperf3", "native"} else "netperf"


def controllers() -> Iterator[Fault]:
    """The run is interrupted, once or twice, or killed."""
    asked = (("SIGINT",), ("SIGTERM",), ("SIGHUP",), ("SIGINT", "SIGINT"), ("SIGHUP", "SIGHUP"))
    for signs, moment in itertools.product(asked, MOMENTS):
        second, instead = {
            BEGIN: ("failed", {UNTOUCHED: "", ENDED: "partial"}),
            MIDDLE: ("failed", {ENDED: "partial"}),
            FETCH: ("partial", {NO_RESULT: "failed"}),
        }[moment]
        if signs == ("SIGINT", "SIGINT"):
            # A second Ctrl-C does not wait for data, but all may have arrived before it.
            instead = {NO_RESULT: "failed"} if moment == FETCH else {}
            instead[COMPLETE] = second
            second = ""
        yield Fault(
            target="controller",
            signs=signs,
            moment=moment,
            second=second,
            instead=instead,
            third="",
            said="interrupted",
            status=INTERRUPTED,
        )
    yield Fault(
        target=UNDER_NOHUP,
        signs=("SIGHUP", "SIGHUP"),
        moment=MIDDLE,
        second="ok",
        third="ok",
        said="experiment 3",
        status=OK,
    )
    for moment in MOMENTS:
        yield Fault(
            target="controller",
            signs=("SIGSTOP", WITHIN_LEASE, "SIGCONT"),
            moment=moment,
            second="ok",
            third="ok",
            said=AGAIN,
            status=OK,
        )
    for stopped, said in ((AT_THE_END_OF_LEASE, "joining again"), (BEYOND_LEASE, "agent lost")):
        yield Fault(
            target="controller",
            signs=("SIGSTOP", stopped, "SIGCONT"),
            moment=FETCH,
            second="partial",
            instead={UNTOUCHED: "ok"},
            third="ok",
            said=said,
            status=FAILED,
        )
    # The flow ended meanwhile, and the agent had written so before it gave the controller up.
    yield Fault(
        target="controller",
        signs=("SIGSTOP", BEYOND_LEASE, "SIGCONT"),
        moment=MIDDLE,
        second="partial",
        third="ok",
        said="agent lost",
        status=FAILED,
    )
    for moment in MOMENTS:
        yield Fault(
            target="controller",
            signs=("SIGKILL",),
            moment=moment,
            second="",
            third="",
            said="",
            status=KILLED,
        )


def unfit_tools() -> Iterator[Fault]:
    """In the second experiment another program replaces the client's tool under its name."""
    reasons = {
        "prints 100 MB": "#1.1 failed: netperf",
        "prints no result": "#1.1 failed: netperf",
        "prints binary data": "#1.1 failed: netperf",
        "fails at once": "#1.1 failed: netperf",
        "is killed by a signal": "#1.1 failed: netperf",
        "hangs": "#1.1 failed:",
    }
    for what, said in reasons.items():
        yield Fault(
            target="netperf",
            signs=(what,),
            moment=START,
            second="failed",
            third="ok",
            said=said,
            status=FAILED,
        )


def between_machines() -> Iterator[Fault]:
    """Faults of machines and of the network between them. The run is on h1 and h2."""

    def fault(
        what: str,
        second: str,
        third: str,
        said: str,
        status: int,
        moment: str = MIDDLE,
        instead: Mapping[str, str] = MappingProxyType({}),
    ) -> Fault:
        return Fault(
            target="machines",
            signs=(what,),
            moment=moment,
            second=second,
            instead=instead,
            third=third,
            said=said,
            status=status,
        )

    for seconds in (1, 3, 8):
        yield fault(f"data network cut for {seconds} s", "ok", "ok", "experiment 3", OK)
    yield fault("data network cut for 20 s", "failed", "ok", "still ran after", FAILED)
    yield fault("data network cut for 60 s", "failed", "failed", "still ran after", FAILED)
    for seconds, said in ((1, "experiment 3"), (3, "experiment 3"), (8, AGAIN), (20, AGAIN)):
        yield fault(f"management network cut for {seconds} s", "ok", "ok", said, OK)
    yield fault("management network cut for 40 s", "partial", "ok", "agent lost", FAILED)
    yield fault(f"management network cut for 20 s, {BROUGHT}", "ok", "ok", AGAIN, OK)
    yield fault(
        f"management network cut for 40 s, {BROUGHT}", "partial", "ok", "agent lost", FAILED
    )
    yield fault(f"ssh process killed, {BROUGHT}", "ok", "ok", AGAIN, OK)
    late = {ENDED: "partial"}
    yield fault("host killed and started again", "failed", "ok", "agent lost", FAILED, instead=late)
    yield fault("host rebooted", "failed", "ok", "agent lost", FAILED, instead=late)
    yield fault("host rebooted", "ok", "ok", "its agent is back", OK, BETWEEN)
    yield fault(
        "host rebooted after a run that was cut off", "ok", "ok", "experiment 3", OK, BEFORE
    )
    yield fault("second controller at the hosts", "ok", "ok", "in use by", OK)
    yield fault("second run in the results folder", "ok", "ok", "another run", OK)
    room = "Make room"
    yield fault("disk of the host full", "partial", "partial", "No space left", FAILED)
    yield fault("disk of the host read-only", "partial", "failed", "Read-only", FAILED)
    yield fault("disk of the results full", "", "", room, WORLD)
    yield fault("results folder read-only", "", "", "read-only", WORLD)
    yield fault("disk of the host full", "", "", "are free on the disk", WORLD, BEFORE)
    yield fault("disk of the results full", "", "", room, WORLD, BEFORE)
    yield fault("results folder read-only", "", "", "read-only", WORLD, BEFORE)
    changed = "another program has changed it, to 0"
    yield fault("setting of the host changed by another program", "partial", "partial", changed,
                FAILED)  # fmt: skip
    deleted = "its data are not complete: another program has deleted"
    yield fault("data of the host deleted", "partial", "ok", deleted, FAILED)
    yield fault("journal of the host deleted", "ok", "ok", "experiment 3", OK)
    yield fault("journal of the host emptied", "ok", "ok", "experiment 3", OK)
    not_put_back = "was not put back when the agent was lost; to undo it: sysctl -w"
    yield fault("journal of the host deleted, its agent killed and started again", "failed", "ok",
                not_put_back, FAILED, instead=late)  # fmt: skip
    yield fault("host killed for good", "failed", "failed", "it may still have: sysctl", FAILED,
                instead=late)  # fmt: skip
    for what in ("moved", "replaced"):
        replaced = "another program has moved, deleted or replaced it, to"
        yield fault(f"results folder {what}", "", "", replaced, WORLD)
    written = "exp.csv: another program has written or deleted it"
    yield fault("results folder written by another program", "ok", "ok", written, WORLD)
    for whose, step in itertools.product(("client", "server", "controller"), STEPS_S):
        told = f"the system's time was set by {STEPS_S[step]:+.1f}"
        yield fault(f"clock of the {whose} set by {step}", "partial", "ok", told, FAILED)
    for whose in ("client", "server"):
        told = "the system's time was set by +3600.0"
        yield fault(f"clock of the {whose} set by +1 h and back", "partial", "ok", told, FAILED)
    yield fault("agent of another protocol", "", "", "protocol 99", WORLD, BEFORE)


FAULTS = {
    fault.name: fault
    for fault in (*agents(), *tools(), *unfit_tools(), *controllers(), *between_machines())
}


def injected(*, on_machines: bool) -> list[Any]:
    """The names of the faults with a run of their own, as parameters of tests: one of each kind
    tells."""
    return [
        pytest.param(name, marks=() if name in TELLING else pytest.mark.thorough)
        for name, fault in FAULTS.items()
        if fault.is_on_machines == on_machines
        and not (fault.target in TOOLS and fault.signs in OF_TOOLS)
    ]


def of_tools() -> dict[str, list[Fault]]:
    """The faults of tools that one run has, in its experiments from the second on; by its name."""
    found: dict[str, list[Fault]] = {}
    for fault in tools():
        found.setdefault(f"{fault.target}: {' '.join(fault.signs)}", []).append(fault)
    return found


def expected(fault: Fault, facts: Collection[str]) -> str:
    """The status that the second experiment has to have."""
    others = (status for fact, status in fault.instead.items() if fact in facts)
    return next(others, fault.second)


def facts_in(out: Path, said: str, *, client: str) -> Iterator[str]:
    """Which condition decides the outcome of the second experiment."""
    whole, then = out / "2", said.partition("experiment 2 of 3")[2]
    if "#1.1: ended" in then.partition("experiment 3 of 3")[0]:
        yield ENDED
    if not whole.exists():
        if "#1.1" not in then:
            yield UNTOUCHED
        return
    if not manifest.read(whole / manifest.NAME).reasons:
        yield UNTOUCHED
    if not (whole / "raw" / client / "flow.1.1.out").exists():
        yield NO_RESULT
    yield COMPLETE


_ABOVE = """\
# Reliability

Each row is a test (`tests/reliability`). It injects the fault into the second of three experiments of
a run, in a lab or on two machines that are reached by ssh, and compares everything that the row says. `make test`
injects one of each kind, `make reliability` all others, and writes this page. *Left behind* counts namespaces, processes
and sockets in a lab, and settings and holds on machines; if the controller was killed, those that remain
after `netesto clean`. *Untouched* means that the fault came before the experiment had begun on that host, or after all
of its data had arrived. If a row has two outcomes, the test derives the expected one from the results folder.

A run with a fault of a tool has it at each of the moments, in an experiment each, and one experiment before and after
them. Beside the flow of that tool runs one of another tool, which must end well: the experiment is *partial*. The flow that
failed has no result, and the reason is in its row and in a warning. *The result is read*: the flow has lasted for its
duration, and the other end was stopped before, so that the result is still on its way. A tool that is stopped for good
ends with its deadline, 15 s after the end of its flow; ping and tcpdump end 2 s after they were asked to. What they
have not seen is in no column, and a warning names it. The exit status of the run is the greatest of its rows.

A controller ends within 5 s of the signal, and within 1 s of a second Ctrl-C. `make reliability`
also kills agents, guests and runs on each ground (`tests/system/test_system_killed.py`). `make chance` ends 200 runs
with random signals at random instants, on running agents, in labs and in guests
(`tests/system/test_system_instants.py`), and shows that an agent still responds after 100,000 random, mutated and
truncated streams and messages, with 1,000 silent connections and 100 messages of the maximum size open, and takes less
than 200 MB (`tests/agent/test_agent_hostile.py`). `make test` does the same with 15 runs and 2,000 streams.

Outside of labs an agent calls itself every 3 s over gRPC's own socket. After two calls in a row without a reply it puts
the host back and ends, and its supervisor starts it again: since grpcio 1.84, a request with a `:path` that is
not UTF-8 leaves a server of gRPC deaf while its process lives on. An agent that was stopped for 20 s lives on
(`tests/agent/test_agent_daemon.py`). The agent of a lab, unless its time is simulated, looks every 5 s whether the event loop
of each of its hosts runs. If one has not for 20 s, the other hosts are put back, the agent ends, and another one puts that
host back and serves all. The reason names the host.

`--soak 500` runs 500 experiments (`make reliability`: 100), and compares the memory and the
descriptors of controller and agents at the end with those at the beginning.

A reboot destroys, without notice, the processes of a host, its network with all settings, /run and /tmp; the host
returns with another boot id and with its monotonic clock at zero. The machines of a test share one
clock: to set that of one machine is to change the time that the agent or the controller reads there. What was measured
by a clock that was set is then in no column, and what was not is there.

| fault | moment | left behind | finished experiments | the experiment | the run continues | message | exit status |
|---|---|---|---|---|---|---|---|
"""  # noqa: E501 - a table of Markdown has long lines


def table() -> str:
    """docs/reliability.md."""
    return "\n".join([*_ABOVE.splitlines(), *map(_row, FAULTS.values())]) + "\n"


def _row(fault: Fault) -> str:
    what = ", ".join(fault.signs)
    if fault.target != "machines":
        what = f"{fault.target}: {what}"
    if fault.on_failure != "continue":
        what += f" (`--on-failure {fault.on_failure}`)"
    instead = (f"({status or 'no row'} if {fact})" for fact, status in fault.instead.items())
    second = " ".join([fault.second or "no row", *instead])
    message = f"“… {fault.said} …”" if fault.said else "none (the shell reports it)"
    status = str(fault.status) if fault.status >= 0 else "137 (killed)"
    if fault.instead.get(UNTOUCHED) == "ok":
        status = "1 (0 if untouched)"
    finished = "intact" if fault.begins else "none"
    cells = (what, fault.moment, "nothing", finished, second, _goes_on(fault), message, status)
    return f"| {' | '.join(cells)} |"


def _goes_on(fault: Fault) -> str:
    if fault.third:
        return "yes" if fault.third == "ok" else f"yes; the next experiment is {fault.third}, too"
    if not fault.begins:
        return "no; it does not start"
    return "no; it cannot write its results" if fault.status == WORLD else "no, as requested"


if __name__ == "__main__":
    print(table(), end="")  # noqa: T201 - `make reliability` writes it to the page
