"""Queues and interfaces at every tick: backlog, drops, marks, bytes, packets, errors.

A compressed file (gzip) of JSON objects, one per line: what is sampled, then the samples. Each tick
can be read without later ones. See docs/data-formats.md.
"""

import contextlib
import json
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from netesto.collectors.base import Recording, Warn, count
from netesto.collectors.clock import Clock, instant
from netesto.collectors.queues import INTERFACE_COUNTS, QDISC_COUNTS, QueueReading, Queues
from netesto.errors import OutputError
from netesto.files import compressed, jsontext
from netesto.measured import CounterSamples, InstalledQdisc, LinkSamples
from netesto.model import SAME_CLOCK, ClockOffset

FORMAT = "netesto link samples 1"

# The largest count of the kernel.
_MOST = 2**64


# The node of an agent itself.
OWN = ""


class LinkRecording(Recording):
    """Samples the outgoing interfaces of watched groups, and all interfaces of other nodes."""

    def __init__(self, path: Path, clock: Clock, warn: Warn) -> None:
        super().__init__(path, clock, warn)
        self._queues: dict[str, Queues] = {}
        self._sampled: dict[str, object] = {}
        self._devices: set[str] = set()
        header = {"format": FORMAT, "qdisc": QDISC_COUNTS, "interface": INTERFACE_COUNTS}
        self._lines = [json.dumps(header)]
        # A window of 4 KiB holds some lines, which is enough to find what repeats. With the default
        # each host of a lab would take a quarter of a megabyte for it.
        self._compressor = zlib.compressobj(level=1, wbits=28, memLevel=5)

    def watch(self, what: Mapping[str, Any]) -> None:
        """Sample the interface by which packets of `group` to its `peer` leave, or all interfaces
        in the network `namespace` of another `node`; unless the first tick is still to come at
        once, too, because what is counted until the next tick would have no beginning."""
        node = what.get("node", OWN)
        with self._warning_of(node):
            if node not in self._queues:
                self._queues[node] = Queues(what.get("namespace", ""))
            if node != OWN:
                self._sample(node, _all_but_loopback)
                return
            device = self._queues[OWN].device_to(ip_address(what["peer"]))
            self._lines.append(json.dumps({"group": what["group"], "device": device}))
            if device not in self._devices:
                self._devices.add(device)
                self._sample(OWN, device.__eq__)

    def look(self) -> bytes:
        for node in self._queues:
            self._sample(node, _all_but_loopback if node else self._devices.__contains__)
        return self._piece()

    def last(self) -> bytes:
        return self.look() + self._compressor.flush()

    def close(self) -> None:
        super().close()
        for asked in self._queues.values():
            asked.close()

    def _warning_of(self, node: str) -> contextlib.AbstractContextManager[None]:
        return self._warning(f"samples of queues {f'of {node} ' if node else ''}are missing")

    def _sample(self, node: str, is_wanted: Callable[[str], bool]) -> None:
        if self.is_held:
            return
        with self._warning_of(node):
            before_s = self._clock.now()
            found = self._queues[node].read(is_wanted)
            self._lines += self._formatted(node, (before_s + self._clock.now()) / 2, found)

    def _formatted(self, node: str, time_s: float, found: QueueReading) -> Iterator[str]:
        sampled = list(found.qdiscs), list(found.interfaces)
        if sampled != self._sampled.get(node):
            self._sampled[node] = sampled
            qdiscs = [asdict(qdisc) for qdisc in found.qdiscs]
            yield json.dumps({"node": node, "qdiscs": qdiscs, "interfaces": sampled[1]})
        counts = [*found.qdiscs.values()], [*found.interfaces.values()]
        yield json.dumps([round(time_s, 6), node, *counts], separators=(",", ":"))

    def _piece(self) -> bytes:
        if not self._lines:
            return b""
        text = "".join(f"{line}\n" for line in self._lines)
        self._lines.clear()
        return self._compressor.compress(text.encode()) + self._compressor.flush(zlib.Z_SYNC_FLUSH)


def _all_but_loopback(device: str) -> bool:
    return device != "lo"


def read(path: Path, *, offset: ClockOffset = SAME_CLOCK) -> dict[str, LinkSamples]:
    """The samples in a file by node, in chronological order; an incomplete last line is ignored.

    `offset` is that of the file's clock from the one that the samples use. OutputError if the file
    is invalid.
    """
    try:
        return _samples(compressed.read(path).rpartition(b"\n")[0].splitlines(), offset)
    except (zlib.error, MemoryError, *jsontext.INVALID) as error:
        raise OutputError(f"{path}: not a file of link samples: {error}") from None


# The instants and the counts of a qdisc, or of an interface.
Rows: TypeAlias = list[tuple[float, tuple[int | None, ...]]]


def _samples(lines: Sequence[bytes], offset: ClockOffset) -> dict[str, LinkSamples]:
    if not lines:
        return {}
    header = jsontext.parse(lines[0])
    devices: dict[int, str] = {}
    # By node: the qdiscs and the interfaces that its next samples have counts of, and their rows.
    sampled: dict[str, tuple[list[Any], list[Any]]] = {}
    rows: dict[str, tuple[dict[Any, Rows], dict[Any, Rows]]] = {}
    for line in lines[1:]:
        entry = jsontext.parse(line)
        if isinstance(entry, list):
            at_s, node = offset.controllers(instant(entry[0])), str(entry[1])
            for keys, known, counts in zip(sampled[node], rows[node], entry[2:], strict=True):
                for key, each in zip(keys, counts, strict=True):
                    row = tuple(None if value is None else count(value) for value in each)
                    known.setdefault(key, []).append((at_s, row))
        elif "group" in entry:
            devices[int(entry["group"])] = str(entry["device"])
            rows.setdefault(OWN, ({}, {}))
        else:
            node = str(entry["node"])
            sampled[node] = ([*map(_qdisc, entry["qdiscs"])], [*map(str, entry["interfaces"])])
            rows.setdefault(node, ({}, {}))
    return {
        node: LinkSamples(
            qdiscs={key: _counted(header["qdisc"], each) for key, each in qdiscs.items()},
            interfaces={key: _counted(header["interface"], each) for key, each in others.items()},
            devices=devices if node == OWN else {},
        )
        for node, (qdiscs, others) in rows.items()
    }


def _counted(names: Iterable[str], rows: Rows) -> CounterSamples:
    columns = zip(*(counts for _, counts in rows), strict=True)
    times = tuple(at_s for at_s, _ in rows)
    return CounterSamples(times, dict(zip(names, columns, strict=True)))


def joined(parts: Iterable[Mapping[str, LinkSamples]]) -> dict[str, LinkSamples]:
    """The samples in several files, one for each start of the sampler."""
    of_node: defaultdict[str, list[LinkSamples]] = defaultdict(list)
    for part in parts:
        for node, samples in part.items():
            of_node[node].append(samples)
    return {
        node: LinkSamples(
            qdiscs=_joined([each.qdiscs for each in found]),
            interfaces=_joined([each.interfaces for each in found]),
            devices={group: name for each in found for group, name in each.devices.items()},
        )
        for node, found in of_node.items()
    }


K = TypeVar("K")


def _joined(parts: Sequence[Mapping[K, CounterSamples]]) -> dict[K, CounterSamples]:
    whole: dict[K, CounterSamples] = {}
    for key, more in (item for part in parts for item in part.items()):
        known = whole.setdefault(key, more)
        if known is not more:
            first, second = sorted((known, more), key=lambda each: each.time_s[0])
            nothing = (None,) * len(second.time_s)
            counts = {
                name: column + second.counts.get(name, nothing)
                for name, column in first.counts.items()
            }
            whole[key] = CounterSamples(first.time_s + second.time_s, counts)
    return whole


def _qdisc(entry: Mapping[str, Any]) -> InstalledQdisc:
    rate_bps = entry["rate_bps"]
    if rate_bps is not None and not 0 <= float(rate_bps) < _MOST:
        raise ValueError(f"{rate_bps} is not a rate")
    return InstalledQdisc(
        device=str(entry["device"]),
        kind=str(entry["kind"]),
        handle=str(entry["handle"]),
        parent=str(entry["parent"]),
        rate_bps=None if rate_bps is None else float(rate_bps),
        is_lossless=entry.get("is_lossless") is True,
    )
