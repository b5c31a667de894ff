"""The faults that are injected into runs, what each run must come to, and the table of them.

Each run measures three experiments in a lab; the fault comes in the second. What the table says of
a fault is what its test compares.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

OK, FAILED, WORLD, INTERRUPTED, KILLED = 0, 1, 3, 130, -9

# What the run has printed, and how often, when the fault comes.
MOMENTS = {
    "the experiment begins": ("experiment 2 of 3", 1),
    "in mid-flow": ("#1.1: 2 s", 1),
    "data is fetched": ("#1.1: ended", 2),
}
BEGIN, MIDDLE, FETCH = MOMENTS

# Longer than pings take to notice that nobody answers.
FROZEN_S = 4.5

# Those that every `make test` injects: one of each kind.
TELLING = frozenset(
    {
        "agent of the client: SIGKILL, in mid-flow",
        "agent of the server: SIGKILL, the experiment begins",
        "agent of the client: SIGSTOP SIGCONT, in mid-flow",
        "netserver: SIGKILL, in mid-flow",
        "controller: SIGKILL, in mid-flow",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """`signs` are sent to `target`, one after the other, at `moment`.

    second    the statuses that the second experiment may have; "" is: no row
    third     that of the third
    said      a part of what the run tells
    """

    target: str
    signs: tuple[str, ...]
    moment: str
    second: tuple[str, ...]
    third: str
    said: str
    status: int
    on_failure: str = "continue"

    @property
    def name(self) -> str:
        option = "" if self.on_failure == "continue" else f", --on-failure {self.on_failure}"
        return f"{self.target}: {' '.join(self.signs)}, {self.moment}{option}"


def agents() -> Iterator[Fault]:
    """An agent is killed, told to end, or frozen for a while."""
    lost = {"SIGKILL": "agent lost", "SIGTERM": "agent lost: the agent was asked to end"}
    targets = ("agent of the client", "agent of the server")
    for target, (sign, said), moment in itertools.product(targets, lost.items(), MOMENTS):
        # Data that has arrived is whole; an agent may be back before it is asked for anything.
        possible = {BEGIN: ("failed", "ok"), MIDDLE: ("failed",), FETCH: ("partial", "ok")}
        second = possible[moment]
        yield Fault(
            target=target,
            signs=(sign,),
            moment=moment,
            second=second,
            third="ok",
            said=said,
            status=FAILED,
        )
    for target, moment in itertools.product(targets, MOMENTS):
        yield Fault(
            target=target,
            signs=("SIGSTOP", "SIGCONT"),
            moment=moment,
            second=("ok",),
            third="ok",
            said="connected again; nothing was lost",
            status=OK,
        )
    for target in targets:
        yield Fault(
            target=target,
            signs=("SIGKILL",),
            moment=MIDDLE,
            second=("failed",),
            third="",
            said="the run ends here",
            status=FAILED,
            on_failure="stop",
        )


def tools() -> Iterator[Fault]:
    """A traffic tool is killed, told to end, or frozen for a while."""
    for target, sign in itertools.product(("netperf", "netserver"), ("SIGKILL", "SIGTERM")):
        yield Fault(
            target=target,
            signs=(sign,),
            moment=MIDDLE,
            second=("failed",),
            third="ok",
            said="#1.1 failed: netperf",
            status=FAILED,
        )


def controllers() -> Iterator[Fault]:
    """The run is interrupted, once or twice, or killed."""
    asked = (("SIGINT",), ("SIGTERM",), ("SIGHUP",), ("SIGINT", "SIGINT"), ("SIGHUP", "SIGHUP"))
    for signs, moment in itertools.product(asked, MOMENTS):
        yield Fault(
            target="controller",
            signs=signs,
            moment=moment,
            second=("partial", "failed", "ok", ""),
            third="",
            said="interrupted",
            status=INTERRUPTED,
        )
    for moment in MOMENTS:
        yield Fault(
            target="controller",
            signs=("SIGKILL",),
            moment=moment,
            second=("ok", ""),
            third="",
            said="",
            status=KILLED,
        )


FAULTS = {fault.name: fault for fault in (*agents(), *tools(), *controllers())}


_ABOVE = """\
# Reliability

Each line is a test (`tests/reliability`): it injects the fault into the second of three experiments of
a run in a lab, and compares all that the line says. `make reliability` runs them all and writes this
page. *Left behind* is what remains of namespaces, processes and sockets; after a controller was killed,
what remains after `netesto clean`. Cuts of the network between machines are in `tests/machines`.

| fault | moment | left behind | finished experiments | the experiment | goes on | told | exit status |
|---|---|---|---|---|---|---|---|
"""  # noqa: E501 - a table of Markdown has long lines


def table() -> str:
    """docs/reliability.md."""
    lines = _ABOVE.splitlines()
    for fault in FAULTS.values():
        what = f"{fault.target}: {', '.join(fault.signs)}"
        if fault.on_failure != "continue":
            what += f" (`--on-failure {fault.on_failure}`)"
        goes_on = "yes" if fault.third else "ends, as asked"
        second = " or ".join(each or "no row" for each in fault.second)
        told = f"“… {fault.said} …”" if fault.said else "by the shell"
        status = str(fault.status) if fault.status >= 0 else "that of the signal"
        if fault.status == FAILED and "ok" in fault.second:
            status = "1; 0 if it is ok"
        cells = (what, fault.moment, "nothing", "whole", second, goes_on, told, status)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")  # noqa: T201 - `make reliability` writes it to the page
