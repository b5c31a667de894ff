"""The TCP counters of a host since its boot: segments, retransmissions, timeouts.

A line of the file is a JSON object: `time_s` (UTC) and `counters` by name, as the kernel has them
in /proc/net/snmp (RFC 4022) and /proc/net/netstat (<linux/snmp.h>).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from netesto.collectors import clock, hostfacts
from netesto.collectors.base import Recording, count, entries
from netesto.measured import Counted
from netesto.model import SAME_CLOCK, ClockOffset

# They count all flows of a network namespace, including those of other programs.
COUNTERS = (
    "InSegs", "OutSegs", "RetransSegs", "InErrs", "OutRsts", "ActiveOpens", "PassiveOpens",
    "AttemptFails", "EstabResets",
    "TCPTimeouts", "TCPSpuriousRTOs", "TCPLossProbes", "TCPLossProbeRecovery", "TCPFastRetrans",
    "TCPSlowStartRetrans", "TCPLostRetransmit", "TCPRetransFail", "TCPSynRetrans",
    "TCPSpuriousRtxHostQueues", "TCPDSACKRecv", "TCPDSACKUndo", "TCPFullUndo", "TCPPartialUndo",
    "TCPOFOQueue", "TCPSACKReorder", "TCPRcvCollapsed", "TCPRcvQDrop", "TCPBacklogDrop",
    "TCPDeliveredCE", "TCPZeroWindowDrop", "ListenOverflows", "ListenDrops",
)  # fmt: skip

# /proc/net would be that of the first thread.
_NET = Path("/proc/thread-self/net")


class TcpRecording(Recording):
    """Samples the counters of our network namespace."""

    def look(self) -> bytes:
        line = ""
        with self._warning("the counters of TCP are missing"):
            counters = now()
            entry = {"time_s": round(self._clock.now(), 6), "counters": counters}
            line = json.dumps(entry) + "\n"
        return line.encode()

    def last(self) -> bytes:
        return self.look()


def now() -> dict[str, int]:
    """COUNTERS of the network namespace of this thread. OSError if they cannot be read."""
    return parse("".join(hostfacts.contents(_NET / name) for name in ("snmp", "netstat")))


def parse(text: str) -> dict[str, int]:
    """COUNTERS in the text of the two files; those that the kernel lacks are omitted.

    Names are in one line, values in the next: `Tcp: InSegs OutSegs`, `Tcp: 12 34`.
    """
    found = dict(_pairs(text.splitlines()))
    return {name: found[name] for name in COUNTERS if name in found}


def _pairs(lines: Sequence[str]) -> Iterator[tuple[str, int]]:
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        if names.startswith(("Tcp:", "TcpExt:")):
            yield from zip(names.split()[1:], map(int, values.split()[1:]), strict=False)


def read(path: Path, *, offset: ClockOffset = SAME_CLOCK) -> Counted:
    """The samples in a file; a truncated last line is ignored.

    `offset` is that of the file's clock from the one that the samples use. OutputError names an
    invalid line.
    """
    found = [*entries(path, _entry, what="counters of TCP")]
    times = tuple(offset.controllers(instant_s) for instant_s, _ in found)
    names = dict.fromkeys(name for _, sample in found for name in sample)
    return Counted(times, {name: tuple(sample.get(name) for _, sample in found) for name in names})


def _entry(line: Mapping[str, Any]) -> tuple[float, dict[str, int]]:
    counters = {str(name): count(each) for name, each in line["counters"].items()}
    return clock.instant(line["time_s"]), counters
