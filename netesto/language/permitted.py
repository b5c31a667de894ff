"""Checks SET_ commands as agents do, and names that may be misspelled, before a run, so that errors
have a place.

An agent checks again; both use the same tables.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

from netesto import units
from netesto.errors import NotAllowedError, Place
from netesto.hostsettings import Setting
from netesto.language import steps
from netesto.language.commands import REMOTE
from netesto.language.scope import MisuseError
from netesto.limits.needs import KNOWN, Need, unmet
from netesto.schema.kinds import Kind
from netesto.text.nearest import nearest

# Ethernet's, of 1500 bytes: what TCP sends where nothing says otherwise.
_FULL_PACKET_BYTES = 1514
# Qdiscs whose limit is a number of bytes, and not of packets.
_LIMITED_IN_BYTES = ("tbf", "bfifo")


# Arguments of SET_LINK that are read as LAB reads them.
_RATES = frozenset({"rate", "police"})


def check(settings: Iterable[Setting]) -> None:
    """MisuseError unless a script may make the settings of a SET_ command."""
    for error in misuses(settings):
        raise error


def misuses(settings: Iterable[Setting]) -> Iterator[MisuseError]:
    """The errors of settings that no script may make so."""
    for setting in settings:
        try:
            setting.check()
        except NotAllowedError as error:
            near, remedy = setting.blamed(error)
            yield MisuseError(error.message, near=near, remedy=_sentence(remedy))


def slips(command: steps.RemoteCommand) -> Iterator[tuple[str, Place]]:
    """What is hardly intended, as warnings with their places: names that no known kernel has and
    that are like one that kernels have (a module may be called so: only hosts know), queues that
    drop all that TCP sends, flows that may end before their first sample or that use no link."""
    if limit := _tiny_limit(command):
        message = (
            f"limit={limit}: less than a full packet ({_FULL_PACKET_BYTES} bytes); all are dropped"
        )
        yield message, command.place.narrowed("limit=")
    if isinstance(command, steps.DoClient) and command.flow.interval_s > command.flow.duration_s:
        message = (
            f"interval={units.format_time(command.flow.interval_s)}: longer than the flow; its"
            " sockets and queues may not be sampled: RTT, congestion window and backlog are then"
            " unknown"
        )
        yield message, command.place.narrowed("interval=")
    if isinstance(command, steps.DoClient) and command.host == command.server:
        message = (
            f"host={command.host} server={command.host}: both ends are one host; its flows pass the"
            " loopback interface, and no link or queue of a path"
        )
        yield message, command.place.narrowed("server=")
    for need in dict.fromkeys(chain.from_iterable(command.needs.values())):
        if message := slip(need):
            yield message, command.place.narrowed(need.near)
    yield from _rates_in_bytes(command)


def slip(need: Need) -> str:
    """The warning of a name that no known kernel has, and that is like one; "" without one."""
    meant = [nearest(each.name, KNOWN[each.kind] or ()) for each in unmet([need], KNOWN)]
    return f"unknown {need}: did you mean {meant[0]}?" if meant and meant[0] else ""


def _rates_in_bytes(command: steps.RemoteCommand) -> Iterator[tuple[str, Place]]:
    """Warnings of rates whose unit is bytes per second."""
    for argument in REMOTE[command.name].arguments:
        if argument.kind not in {Kind.RATE, Kind.WORDS} and argument.name not in _RATES:
            continue
        for word in command.arguments.get(argument.name, "").replace(",", " ").split():
            if message := units.bytes_slip(word):
                place = command.place.narrowed(f"{argument.name}=", f"{argument.alias}=")
                yield f"{argument.name}={message}", place


def _tiny_limit(command: steps.RemoteCommand) -> str:
    """The limit of a queue in bytes if it is smaller than a full packet, else ""."""
    limit: str = command.arguments.get("limit", "")
    has_bytes = command.arguments.get("qdisc") in _LIMITED_IN_BYTES
    is_tiny = limit.isdecimal() and int(limit) < _FULL_PACKET_BYTES
    return limit if command.name == "SET_QDISC" and has_bytes and is_tiny else ""


def _sentence(text: str) -> str:
    end = "" if text.endswith("?") else "."
    return f"{text[:1].upper()}{text[1:]}{end}" if text else ""
