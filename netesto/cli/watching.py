"""`netesto lab watch`: what the TCP of a lab's hosts sends and retransmits, every second."""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.live import Live
from rich.table import Table

from netesto.cli import console, printing
from netesto.collectors import namespaces
from netesto.collectors.counters import tcp
from netesto.emulator import linkstate
from netesto.errors import LabError, UsageError
from netesto.lab import carrying, records
from netesto.lab.netns import Lab
from netesto.run import status

INTERVAL_S = 1.0

# The columns and the kernel's counters. The kernel counts retransmitted segments separately.
_SHOWN: Mapping[str, str] = {
    "sent/s": "OutSegs",
    "retransmitted/s": "RetransSegs",
    "timeouts/s": "TCPTimeouts",
}

Counters = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Second:
    """The rates of a host's TCP counters, per second, in the order of `_SHOWN`; and the segments
    that it has retransmitted since the watch began."""

    host: str
    rates: tuple[float, ...]
    retransmitted: int

    @property
    def words(self) -> tuple[str, ...]:
        return (self.host, *(f"{rate:.0f}" for rate in self.rates), str(self.retransmitted))


def watch(lab: Lab, hosts: Sequence[str], *, plain: bool) -> int:
    """Show each second of these hosts (none: all) until the lab ends; the exit status."""
    known = lab.record.hosts
    spaces = {host: known[host].namespace for host in hosts or known}
    seconds = _seconds(lab, spaces)
    screen = console.to_stdout()
    if screen.is_terminal and not plain:
        with Live(console=screen, auto_refresh=False) as live:
            for second in seconds:
                live.update(_table(lab.id, second), refresh=True)
    else:
        printing.out(_line("time", ("host", *_SHOWN, "total")), flush=True)
        for second in seconds:
            clock = time.strftime("%H:%M:%S", time.localtime())
            for each in second:
                printing.out(_line(clock, each.words), flush=True)
    printing.err(f"lab {lab.id} was removed")
    return status.OK


def watch_links(lab: Lab, *, plain: bool) -> int:
    """Show each second of the links that programs carry until the lab ends; the exit status.
    UsageError if there are none."""
    states = carrying.states(lab.record)
    if not states:
        raise UsageError(
            f"lab {lab.id}: no program carries a link", remedy="LAB … emulator=program: one does."
        )
    screen = console.to_stdout()
    with (
        Live(console=screen, auto_refresh=False)
        if screen.is_terminal and not plain
        else (contextlib.nullcontext()) as live
    ):
        while True:
            lines = [
                line
                for state in states
                for way in (state.ends, state.ends[::-1])
                for line in linkstate.lines(state, *way)
            ]
            if live is None:
                clock = time.strftime("%H:%M:%S", time.localtime())
                printing.out("\n".join([clock, *lines]), flush=True)
            else:
                live.update("\n".join(lines), refresh=True)
            time.sleep(INTERVAL_S)
            try:
                states = carrying.states(lab.record)
            except LabError:
                states = []
            if not states:
                break
    printing.err(f"lab {lab.id} was removed")
    return status.OK


def _line(clock: str, words: Sequence[str]) -> str:
    host, sent, retransmitted, timeouts, total = words
    return f"{clock:8}  {host:12}  {sent:>8}  {retransmitted:>15}  {timeouts:>10}  {total:>8}"


def _table(name: str, second: Sequence[Second]) -> Table:
    table = Table(title=f"TCP in lab {name}; Ctrl-C to quit", box=None, title_justify="left")
    table.add_column("host")
    for heading in (*_SHOWN, "total"):
        table.add_column(heading, justify="right")
    for each in second:
        table.add_row(*each.words, style="yellow" if each.rates[1] else None)
    return table


def _seconds(lab: Lab, spaces: Mapping[str, str]) -> Iterator[list[Second]]:
    """The rates of each host in one second after the other, while the lab is up. `spaces` are the
    hosts' namespaces."""
    first: dict[str, Counters] = {}
    before: Mapping[str, Counters] = {}
    then_s = time.monotonic()
    while _is_up(lab):
        now_s, now = time.monotonic(), _counters(spaces)
        first = {**now, **first}
        passed = []
        for host in (each for each in now if each in before):
            differences = [now[host][name] - before[host][name] for name in _SHOWN.values()]
            rates = tuple(each / (now_s - then_s) for each in differences)
            total = now[host]["RetransSegs"] - first[host]["RetransSegs"]
            passed.append(Second(host, rates, total))
        if passed:
            yield passed
        before, then_s = now, now_s
        time.sleep(max(INTERVAL_S - (time.monotonic() - now_s), 0.0))


def _counters(spaces: Mapping[str, str]) -> dict[str, Counters]:
    """The counters of each host, except those that are not built yet or gone."""
    found: dict[str, Counters] = {}
    for host, namespace in spaces.items():
        try:
            found[host] = namespaces.within(namespace, tcp.now)
        except OSError:
            continue
    return found


def _is_up(lab: Lab) -> bool:
    """Whether the lab is recorded, by a live process or permanently."""
    try:
        record = records.read(records.path_of(lab.state, lab.id))
    except LabError:
        return False
    return not records.is_abandoned(lab.state, record)
