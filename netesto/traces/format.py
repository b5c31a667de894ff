"""The trace file of the course CS 145, read and written.

Line 1 has `HOST ADDRESS …` of the memcached hosts, and may be blank. Then, in order of time (µs):

    HOST TIME 0 KEY VALUE                        a request: set
    HOST TIME 1 KEY                              a request: get
    HOST TIME 2 ADDRESS DURATION FLOWLET GAP     a flow of that duration, in flowlets if that is > 0
    HOST TIME 3 ADDRESS BYTES                    a flow of that size (ours)
"""

import functools
import math
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from netesto.errors import Place, ScriptError, UsageError
from netesto.files import atomic, texts
from netesto.text.nearest import hint
from netesto.traces import addresses
from netesto.traces.addresses import Addresses

MOST_EVENTS = 10**7

# 116 days: a time of that size in µs keeps its three decimals in a float.
MOST_US = 1e13

# Of memcached's text protocol.
LONGEST_KEY = 250
LARGEST_VALUE = 2**20


# Named tuples: there may be millions, and a frozen dataclass takes four times as long to make.
class Request(NamedTuple):
    """A request of a host to the store of its key: a set if it has a value, else a get."""

    time_us: float
    host: str
    key: str
    value: str | None = None

    @property
    def kind(self) -> Literal["set", "get"]:
        return "get" if self.value is None else "set"

    @property
    def end_us(self) -> float:
        return self.time_us


class Flow(NamedTuple):
    """A flow of a duration or, with `size_bytes`, of a size.

    `destination` is a host; an address if none is known that it belongs to. With `flowlet_us` the
    flow sends for that time, is silent for `gap_us`, and so on.
    """

    time_us: float
    host: str
    destination: str
    duration_us: float
    flowlet_us: float = 0.0
    gap_us: float = 0.0
    size_bytes: int = 0

    @property
    def kind(self) -> Literal["flow"]:
        return "flow"

    @property
    def end_us(self) -> float:
        return self.time_us + self.duration_us


Event: TypeAlias = Request | Flow


@dataclass(frozen=True, slots=True)
class Trace:
    """What hosts do, in order of time. `stores` are the memcached hosts, in the order of line 1."""

    stores: tuple[str, ...]
    events: tuple[Event, ...]

    @property
    def requests(self) -> tuple[Request, ...]:
        return tuple(event for event in self.events if isinstance(event, Request))

    @property
    def flows(self) -> tuple[Flow, ...]:
        return tuple(event for event in self.events if isinstance(event, Flow))

    @property
    def hosts(self) -> tuple[str, ...]:
        """Stores, senders and destinations, in the order met."""
        met = dict.fromkeys(self.stores)
        for event in self.events:
            met[event.host] = None
            if isinstance(event, Flow):
                met[event.destination] = None
        return tuple(met)

    @property
    def end_us(self) -> float:
        """The end of the last event; a request ends at its time, a flow of a size, too."""
        return max((event.end_us for event in self.events), default=0.0)

    def of(self, host: str) -> tuple[Event, ...]:
        """The events of a host."""
        return tuple(event for event in self.events if event.host == host)


def store_of(key: str, stores: Sequence[str]) -> str:
    """The store of a key."""
    return stores[zlib.crc32(key.encode()) % len(stores)]


# ---- reading -----------------------------------------------------------------------------------


def read(path: Path, hosts: Addresses | None = None, *, text: str = "") -> Trace:
    """The trace in a file; `text` is its content, if known.

    Hosts and addresses must be among `hosts`. Without these every host name is known, and an
    address means the host that line 1 says, or hK if it is 10.0.0.K; if line 1 shows another of the
    course's ways of assignment, it means the host by that. Other destinations remain addresses.
    ScriptError with line and column, UsageError if the file cannot be read.
    """
    return _TraceReader(str(path), text or texts.read(path), hosts).trace()


class _TraceReader:
    """Reads one text, line by line."""

    def __init__(self, file: str, text: str, hosts: Addresses | None) -> None:
        self._file = file
        self._lines = text.split("\n")
        self._hosts = hosts
        self._destinations: dict[str, str] = {}
        self._declared: dict[str, None] = {}

    def trace(self) -> Trace:
        stores = self._stores()
        before = 0.0
        events: list[Event] = []
        for number, line in enumerate(self._lines):
            fields = line.split()
            if not fields or number == 0:
                continue
            if len(events) == MOST_EVENTS:
                raise self._wrong(
                    number, 0, f"more than {MOST_EVENTS:,} events", "Split the trace."
                )
            event = self._event(number, fields)
            if event.time_us < before:
                raise self._wrong(
                    number, 1, f"time {fields[1]} is before that of the line above",
                    "Sort the lines by their second field.",
                )  # fmt: skip
            before = event.time_us
            if isinstance(event, Request) and not stores:
                raise self._wrong(
                    number, 2, "a request, but line 1 names no memcached host",
                    "Line 1: HOST ADDRESS of each memcached host, for example: h5 10.0.0.5",
                )  # fmt: skip
            events.append(event)
        return Trace(stores, tuple(events))

    def _stores(self) -> tuple[str, ...]:
        fields = self._lines[0].split()
        if len(fields) % 2:
            raise self._wrong(
                0, len(fields) - 1, f"{fields[-1]} without its partner: pairs HOST ADDRESS required"
            )
        stores: list[str] = []
        for at in range(0, len(fields), 2):
            host, address = fields[at : at + 2]
            self._check_host(0, at, host)
            if host in stores:
                raise self._wrong(0, at, f"memcached host {host} twice")
            stores.append(host)
            self._check_form(0, at + 1, address)
            if self._hosts is not None:
                meant = self._host_of(0, at + 1, address)
                if meant != host:
                    raise self._wrong(
                        0, at + 1, f"{address} is the address of {meant}, not of {host}"
                    )
            elif self._destinations.setdefault(address, host) != host:
                raise self._wrong(0, at + 1, f"{address} is the address of two hosts")
        return tuple(stores)

    def _event(self, number: int, fields: Sequence[str]) -> Event:
        self._check_host(number, 0, fields[0])
        self._check_count(number, fields, 3, "HOST TIME KIND …", at_least=True)
        time_us = self._number(number, 1, fields[1], "time")
        match fields[2]:
            case "0":
                self._check_count(number, fields, 5, "HOST TIME 0 KEY VALUE")
                self._check_key(number, fields[3])
                if len(fields[4].encode()) > LARGEST_VALUE:
                    raise self._wrong(number, 4, f"value of more than {LARGEST_VALUE:,} bytes")
                return Request(time_us, fields[0], fields[3], fields[4])
            case "1":
                self._check_count(number, fields, 4, "HOST TIME 1 KEY")
                self._check_key(number, fields[3])
                return Request(time_us, fields[0], fields[3])
            case "2":
                self._check_count(number, fields, 7, "HOST TIME 2 ADDRESS DURATION FLOWLET GAP")
                destination = self._destination(number, fields)
                duration, flowlet, gap = (
                    self._number(number, at, fields[at], what)
                    for at, what in ((4, "duration"), (5, "flowlet"), (6, "gap"))
                )
                return Flow(time_us, fields[0], destination, duration, flowlet, gap)
            case "3":
                self._check_count(number, fields, 5, "HOST TIME 3 ADDRESS BYTES")
                destination = self._destination(number, fields)
                size = self._number(number, 4, fields[4], "bytes")
                if not size >= 1 or size != int(size):
                    raise self._wrong(number, 4, f"bytes {fields[4]}: not a whole number above 0")
                return Flow(time_us, fields[0], destination, 0.0, size_bytes=int(size))
            case kind:
                raise self._wrong(number, 2, f"kind {kind}: 0 (set), 1 (get), 2 or 3 (flow)")

    def _destination(self, number: int, fields: Sequence[str]) -> str:
        host = self._host_of(number, 3, fields[3])
        if host == fields[0]:
            raise self._wrong(number, 3, f"a flow from {host} to itself")
        return host

    def _host_of(self, number: int, at: int, address: str) -> str:
        found = self._destinations.get(address)
        if found is None:
            self._check_form(number, at, address)
            found = self._name_of(number, at, address)
            self._destinations[address] = found
        return found

    def _name_of(self, number: int, at: int, address: str) -> str:
        if self._hosts is None:
            return self._supposed(address)
        host = self._hosts.host_of(address)
        if host is None:
            shown = ", ".join(list(self._hosts.hosts or {"10.0.0.1": ""})[:8])
            raise self._wrong(
                number, at, f"no host has the address {address}", f"Addresses: {shown} …"
            )
        return host

    def _supposed(self, address: str) -> str:
        """The host of an address if all ways of assignment that agree with line 1 name the same."""
        numbered = addresses.host_numbered
        if numbered in self._ways:
            host = numbered(address)
            # 10.0.1.4 is h260 in one way, and h4 in another.
            if host is not None and (address.startswith("10.0.0.") or host in self._senders):
                return host
        found = {host for way in self._ways if (host := way(address)) is not None}
        return found.pop() if len(found) == 1 else address

    @functools.cached_property
    def _ways(self) -> Sequence[Callable[[str], str | None]]:
        ways = (addresses.host_numbered, addresses.by_switch, addresses.mixed)
        listed = self._listed.items()
        return [way for way in ways if all(way(address) == host for address, host in listed)]

    @functools.cached_property
    def _listed(self) -> Mapping[str, str]:
        """Addresses and hosts of line 1."""
        fields = self._lines[0].split()
        return dict(zip(fields[1::2], fields[::2], strict=True))

    @functools.cached_property
    def _senders(self) -> set[str]:
        return {line.split(None, 1)[0] for line in self._lines if line.strip()}

    def _check_host(self, number: int, at: int, host: str) -> None:
        if host in self._declared:
            return
        hosts = self._hosts
        if hosts is not None and not hosts.is_open and hosts.address_of(host) is None:
            names = hosts.names
            otherwise = f"Hosts: {', '.join(names[:20])}." if names else "Hosts: h1, h2, …"
            raise self._wrong(
                number, at, f"unknown host {host}", hint(host, names, otherwise=otherwise)
            )
        self._declared[host] = None

    def _check_form(self, number: int, at: int, address: str) -> None:
        try:
            IPv4Address(address)
        except ValueError:
            raise self._wrong(number, at, f"{address} is not an IPv4 address") from None

    def _check_key(self, number: int, key: str) -> None:
        if len(key.encode()) > LONGEST_KEY or not key.isprintable():
            raise self._wrong(
                number, 3, f"a key has at most {LONGEST_KEY} bytes, and no control characters"
            )

    def _check_count(
        self, number: int, fields: Sequence[str], count: int, form: str, *, at_least: bool = False
    ) -> None:
        if len(fields) < count:
            raise self._wrong(number, len(fields), f"missing field: {form}")
        if len(fields) > count and not at_least:
            raise self._wrong(number, count, f"unexpected field: {form}")

    def _number(self, number: int, at: int, text: str, what: str) -> float:
        try:
            # float() reads "1_000", "nan" and "infinity" as well.
            found = float(text) if _NUMBER.fullmatch(text) else math.nan
        except ValueError:
            found = math.nan
        if found < 0:
            raise self._wrong(number, at, f"{what} {text} is negative")
        if not found <= MOST_US:
            raise self._wrong(number, at, f"{what} {text}: not a number from 0 to {MOST_US:.0e}")
        return found

    def _wrong(self, number: int, at: int, message: str, remedy: str = "") -> ScriptError:
        """ScriptError at a field of a line; behind its last one if that is missing."""
        line = self._lines[number].rstrip("\r")
        spans = [found.span() for found in re.finditer(r"\S+", line)]
        start, end = spans[at] if at < len(spans) else (len(line), len(line) + 1)
        place = Place(self._file, number + 1, start + 1, end - start, line)
        return ScriptError(message, place=place, remedy=remedy)


_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", re.ASCII)


# ---- writing -----------------------------------------------------------------------------------


def write(trace: Trace, path: Path, hosts: Addresses | None = None) -> None:
    """Write a trace to a file, at once. UsageError if a host has no address among `hosts`, by
    default 10.0.0.K for hK."""
    atomic.replace(path, list(lines(trace, hosts)))


def lines(trace: Trace, hosts: Addresses | None = None) -> Iterator[str]:
    """The lines of a trace's file, each with its end."""
    found = _addresses(trace.hosts, hosts or Addresses())
    yield " ".join(f"{host} {found[host]}" for host in trace.stores) + "\n"
    for event in trace.events:
        start = f"{event.host} {decimal(event.time_us)}"
        if isinstance(event, Request):
            value = "" if event.value is None else f" {event.value}"
            yield f"{start} {int(event.value is None)} {event.key}{value}\n"
        elif event.size_bytes:
            yield f"{start} 3 {found[event.destination]} {event.size_bytes}\n"
        else:
            yield (
                f"{start} 2 {found[event.destination]} {decimal(event.duration_us)} "
                f"{decimal(event.flowlet_us)} {decimal(event.gap_us)}\n"
            )


def _addresses(names: Iterable[str], hosts: Addresses) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for name in names:
        # The destination of a trace that was read without hosts.
        address = hosts.address_of(name) or (name if name[:1].isdecimal() else None)
        if address is None:
            raise UsageError(
                f"host {name}: no address", remedy="Name its topology file with --topology."
            )
        found[name] = address
    return found


def decimal(number: float) -> str:
    """A number of µs, without decimals that say nothing."""
    return str(number).removesuffix(".0")
