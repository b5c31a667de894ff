"""The TCP counters of a host since its boot: segments, retransmissions, timeouts."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from netesto.collectors import hostfacts
from netesto.measured import Counters

# They count all flows of a network namespace, including those of other programs.
NAMES = (
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


def now() -> dict[str, int]:
    """NAMES of the network namespace of this thread. OSError if they cannot be read."""
    return parse("".join(hostfacts.contents(_NET / name) for name in ("snmp", "netstat")))


def parse(text: str) -> dict[str, int]:
    """NAMES in the text of the two files; those that the kernel lacks are omitted.

    Names are in one line, values in the next: `Tcp: InSegs OutSegs`, `Tcp: 12 34`.
    """
    found = dict(_pairs(text.splitlines()))
    return {name: found[name] for name in NAMES if name in found}


def _pairs(lines: Sequence[str]) -> Iterator[tuple[str, int]]:
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        if names.startswith(("Tcp:", "TcpExt:")):
            yield from zip(names.split()[1:], map(int, values.split()[1:]), strict=False)


COUNTERS = Counters(
    name="tcp",
    title="Retransmissions of hosts",
    sentence="Segments that TCP on a host retransmitted, and (dashed) its timeouts, per second, of"
    " all its flows.",
    units={
        "OutSegs": "segments",
        "RetransSegs": "segments",
        "TCPTimeouts": "timeouts",
        "TCPSpuriousRTOs": "timeouts",
        "TCPLossProbes": "probes",
        "TCPFastRetrans": "segments",
    },
    drawn=("RetransSegs", "TCPTimeouts"),
    read=now,
)
