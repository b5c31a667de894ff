"""What interfaces count, held against what sockets sent: which of it may be called packets.

Where segmentation offload works below an interface's counters they count pieces of up to 64 kB; and
whatever else the interface carried is in them.
"""

from dataclasses import dataclass

from netesto.results import flows, numbers
from netesto.results.evidence import GroupEvidence

# By how much the interface may count fewer or more packets than the sockets sent segments.
TOLERANCE = 0.10
# ... and how many more, whatever the flows sent: the tool's control connection, neighbours asked
# for. Pings are known.
OTHER_PACKETS = 50


@dataclass(frozen=True, slots=True)
class Counted:
    """Packets that the client's interface counted in the direction of the data, and segments that
    the sender's sockets sent, with and without data, retransmissions included."""

    packets: int
    segments: int
    again: int
    pings: int

    @property
    def fault(self) -> str:
        """Why the packets are not those of the flows; "" if they are."""
        told = (
            f"the client's interface counted {self.packets} packets, where the flows' sockets sent "
            f"{self.segments} segments"
        )
        if self.packets < self.segments * (1 - TOLERANCE):
            return f"{told} (segmentation offload works below the counters)"
        most = self.segments * (1 + TOLERANCE) + self.pings + OTHER_PACKETS
        return f"{told} (others used it, too)" if self.packets > most else ""


def counted(evidence: GroupEvidence) -> Counted | None:
    """None where one of them is not known.

    Where the server sends (TCP_MAERTS) the data arrives at the client: its received packets.
    """
    test = evidence.request.test
    way = "rx" if flows.is_reverse(test) else "tx"
    packets = (evidence.counters or {}).get(f"{way}_packets")
    good = flows.good(evidence)
    if packets is None or not good or not flows.is_seen_whole(test):
        return None
    sent = [flows.sender_samples(test, flow) for flow in good]
    segments = numbers.total(flows.total(each, lambda s: s.segments_out) for each in sent)
    again = numbers.total(flows.total(each, lambda s: s.total_retransmits) for each in sent)
    if not segments or again is None:
        return None
    return Counted(packets, int(segments), int(again), len(evidence.pings))


def percent(found: Counted) -> str:
    """The classic retransPkts%: 100·retransmissions / packets of the interface, 2 decimals.

    "" where these are not the flows' packets.
    """
    if found.fault or not found.packets:
        return ""
    return numbers.fixed(100 * found.again / found.packets, 2)
