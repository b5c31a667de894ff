"""The columns of results: what each is called, in which unit it counts, how groups are aggregated,
what it means, and where the page of an experiment shows it.

The dimensions that ASSERT knows, the table of the page, fields.txt and the manual derive from it
(`make docs` writes both files). `results.columns` says how each column is computed.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Literal, TypeAlias

Operation: TypeAlias = Literal["one", "all", "avg", "sum", "min", "max", "sumRateDur"]
# When the page has a row; None: never, but a composed row may show the column.
Row: TypeAlias = Literal["always", "if known"] | None


@dataclass(frozen=True, slots=True)
class Description:
    """A column as users know it.

    `operation` aggregates the groups of an experiment in the default fields.txt; a column without
    one is only in key:value files. `unit` is that of headings; `page_unit` says more, in the table
    of a page. fields.txt has `meaning` behind the unit, unless it begins with the unit itself; the
    manual has `details` as well. Values are from `least` to `most`; None: without a limit.
    """

    name: str
    operation: Operation | None = None
    unit: str = ""
    meaning: str = ""
    _: KW_ONLY
    details: str = ""
    page_unit: str = ""
    row: Row = None
    least: int | None = 0
    most: int | None = None

    @property
    def counts(self) -> str:
        """The unit of the numbers, also if headings do not have it."""
        return self.unit or self.page_unit


@dataclass(frozen=True, slots=True)
class Composed:
    """A row of the page that `results.table` makes from several columns."""

    name: str
    unit: str = ""
    row: Row = "always"


def canonical(name: str) -> str:
    """One spelling of a name: the classic file writes `adaptive_rx`, ethtool `adaptive-rx`."""
    return name.replace("_", "-")


def description(name: str) -> Description:
    """The description of a column; of one that is not in the table, its name."""
    return DESCRIPTIONS.get(canonical(name)) or Description(name)


# By the title of a block of the page, in the order of its rows. A block without rows is not shown.
BLOCKS: Mapping[str, tuple[Description | Composed, ...]] = {
    "Flows": (
        Description(
            "exp", "one",
            meaning="number of the experiment, a point, number of the group (0: all groups)",
        ),
        Description("expNumber", "one", meaning="number of the experiment: exp before the point"),
        Description("expName", "one", meaning="name of the experiment"),
        Description("desc", "one", meaning="from DESC: description"),
        Description(
            "group", "one",
            meaning="number of the group: 1, 2 … for each DO_CLIENT; 0 for all of them",
            row="always",
        ),
        Description(
            "status", "one",
            meaning="ok, partial (some flows failed), damaged (raw data), or why all failed",
            row="always",
        ),
        Description(
            "flowsFailed", "sum", meaning="flows that failed; excluded from all other numbers",
        ),
        Description("warnings", "sum", meaning="warnings about the experiment, or about the group"),
        Description(
            "severity", "one", meaning="of the worst of them: invalidates, affects or note",
        ),
        Description("warning", "one", meaning="the first of the worst ones"),
        Composed("Test"),
        Description("test", "one", meaning="TCP_STREAM, TCP_RR …"),
        Description("req", "one", "bytes", "bytes of a request"),
        Description("reply", "one", "bytes", "bytes of a reply"),
        Description("tool", "all", meaning="the program that generated the traffic", row="always"),
        Description("host", "one", meaning="the client", row="always"),
        Description("fullHost", meaning="the client, with its domain"),
        Description("server", "one", meaning="the server", row="always"),
        Description("fullServer", meaning="the server, with its domain"),
        Description("kernel", "one", meaning="kernel release of the client"),
        Description(
            "instances", "one", meaning="flows in the group", page_unit="flows", row="always",
        ),
        Description("instance", "one", meaning="number of the group's first flow"),
        Description("dur", "one", "s", "requested duration", row="always"),
        Description(
            "delay", "one", "s", "from the common start to the flow's start, as requested",
            row="always",
        ),
        Description(
            "ca", "all", meaning="requested congestion control (see effCa); datagrams have none",
            details="The page has both, and marks one that differs from the requested one.",
            row="always",
        ),
        Description(
            "effCa", "all", meaning="congestion control that the sender's kernel really used",
            details="Several values are joined by `/`.",
        ),
        Description("ecn", "one", meaning="1 or 0: ECN as requested with ecn=, or from OTHER"),
        Description(
            "parallel", "all", meaning="connections in each flow",
            page_unit="connections in each flow",
        ),
        Description(
            "bitrate", "all", "Mbit/s",
            "rate of each flow that the traffic tool kept to, as requested",
            details="Empty without a limit.",
        ),
        Description(
            "pacing", "all", "Mbit/s",
            "rate of each connection that the kernel kept to, as requested",
            details="Empty without a limit.",
        ),
        Description(
            "zerocopy", "all", meaning="sendfile, msg or 0: how data was sent without copying it",
        ),
        Description("omit", "all", "s", "time at the start that is excluded"),
        Description(
            "effMss", "one", "bytes", "segment size that the sender's kernel really used",
            details="Several values are joined by `/`.",
            row="if known",
        ),
        Description(
            "mtu", "all", "bytes", "MTU of the client's interface",
            details="That of the test interface when the group began; it replaces a factor `mtu`"
            " with another value.",
        ),
    ),
    "Rates and latencies": (
        Composed("min/avg/max Rates", "Mbit/s"),
        Description(
            "rate", "sumRateDur", "Mbit/s", "goodput: sum of the flows that ran together",
            details="As the traffic tool reports it: data of all flows / time from the first start"
            " to the last end (if a time is unknown: the sum of the flows). The same applies to"
            " sentRate, reverseRate and transactionRate.",
        ),
        Description("rateMin", "min", "Mbit/s", "slowest flow"),
        Description("rateMean", meaning="mean of the flows", page_unit="Mbit/s"),
        Description("rateMax", "max", "Mbit/s", "fastest flow"),
        Description(
            "fairness", "avg",
            meaning="Jain's index of flows of one kind at the same time: 1 is equal",
            page_unit="Jain's index", row="if known", most=1,
        ),
        Composed("min/mean/max Latencies", "µs"),
        Description(
            "minLatency", "min", "µs",
            "of a transaction or transfer (for a stream: of a send call)",
            details="The shortest of any flow.",
        ),
        Description("maxLatency", "max", "µs", details="The longest of any flow."),
        Description(
            "meanLatency", "avg", "µs",
            details="Mean over the flows, with equal weights; of a trace over the hosts, and"
            " `netesto summary --as trace` has the mean over all requests.",
        ),
        Composed("p50/p90/p99 Latencies", "µs"),
        Description(
            "p50Latency", "avg", "µs", "half of the transactions were faster",
            details="As all percentiles, the mean over the flows, with equal weights.",
        ),
        Description("p90Latency", "avg", "µs", details="90 % were faster."),
        Description("p99Latency", "avg", "µs", details="99 % were faster."),
        Composed("p99.9/p99.99/p99.999 Latencies", "µs", row="if known"),
        Description("p999Latency", "avg", "µs", "99.9 % were faster"),
        Description("p9999Latency", "avg", "µs", "99.99 % of the transactions were faster"),
        Description("p99999Latency", "avg", "µs", "99.999 % were faster"),
        Description(
            "latencyTail", "min", "%",
            "the highest percentile with ten slower latencies in each flow; above it, few decide",
        ),
        Description(
            "latencies", "sum", meaning="transactions or transfers that the percentiles are of",
            row="if known",
        ),
        Description(
            "unfinished", "sum", meaning="transfers that were not completed; in no percentile",
            row="if known",
        ),
        Description(
            "transactionRate", "sumRateDur", "1/s", "transactions: sum of the flows, as rate",
            row="if known",
        ),
        Description(
            "reverseRate", "sumRateDur", "Mbit/s",
            "goodput from the server to the client (TCP_BIDI): sum of the flows, as rate",
            row="if known",
        ),
    ),
    "UDP": (
        Description(
            "sentRate", "sumRateDur", "Mbit/s", "what the senders of UDP_STREAM sent",
            details="[Datagrams at both ends](measurements.md#udp) explains this block.",
            row="if known",
        ),
        Description(
            "udpSent", "sum", meaning="datagrams sent", page_unit="datagrams", row="if known",
        ),
        Description(
            "udpSkipped", "sum",
            meaning="datagrams that the sender was too late for, and did not send",
            page_unit="datagrams", row="if known",
        ),
        Description(
            "udpLost", "sum", meaning="datagrams that did not arrive",
            page_unit="datagrams", row="if known",
        ),
        Description(
            "udpLost%", "avg", meaning="%    100 x udpLost / udpSent, of the sums over groups",
            page_unit="% of datagrams", row="if known", most=100,
        ),
        Description(
            "udpDropped", "sum",
            meaning="datagrams, of those lost, that found the receiver's socket full",
            page_unit="datagrams", row="if known",
        ),
        Description(
            "udpReordered", "sum", meaning="datagrams behind one that was sent later (RFC 4737)",
            page_unit="datagrams", row="if known",
        ),
        Description(
            "udpDuplicates", "sum", meaning="copies of datagrams that had arrived",
            page_unit="datagrams", row="if known",
        ),
        Description(
            "udpMarked", "sum", meaning="datagrams that arrived with the mark CE (ecn=1; RFC 3168)",
            page_unit="datagrams", row="if known",
        ),
        Description("udpJitter", "avg", "µs", "interarrival jitter (RFC 3550)", row="if known"),
        Composed("oneWayMin/Mean/Max", "ms", row="if known"),
        # The clocks of two hosts differ.
        Description(
            "oneWayMin", "min", "µs", "one-way delay of datagrams, if clocks allow it", least=None,
        ),
        Description("oneWayMean", "avg", "µs", "mean one-way delay", least=None),
        Description("oneWayMax", "max", "µs", "greatest one-way delay", least=None),
        Description(
            "oneWayBound", "max", "µs", "error of the clocks in one-way delays",
            row="if known", least=None,
        ),
    ),
    "TCP": (
        Description(
            "rtt", "avg", "µs", "round-trip time that TCP measured: mean of its samples",
            details="The smoothed RTT of the sender's TCP: mean of each flow's samples, then over"
            " the flows, as cwnd.",
            row="always",
        ),
        Description(
            "pingRtt", "avg", "µs", "round-trip time of ping while the flows ran",
            details="Mean of the pings sent while the group's flows ran.",
            row="always",
        ),
        Description(
            "cwnd", "avg", "segments", "congestion window: mean of the samples of each flow",
            details="Then over the flows; only samples of connected sockets, because before the"
            " handshake and after the end a socket has the kernel's defaults.",
            row="always",
        ),
        Description(
            "unacked", meaning="segments in flight: mean of the samples of each flow",
            details="As cwnd.",
            page_unit="segments",
        ),
        Description(
            "localRetrans", "sum", "segments",
            "segments retransmitted by the client, as the traffic tool reports",
            details="Sum of the flows. netperf and iperf3 read them when they stop sending:"
            " segments retransmitted while buffers drain are in retrans_total alone; iperf3"
            " excludes those during `omit`.",
            row="always",
        ),
        Description(
            "remoteRetrans", "sum", "segments",
            "segments retransmitted by the server, as the traffic tool reports",
            details="As localRetrans.",
            row="always",
        ),
        Description(
            "lost", "sum", "segments",
            "segments marked lost: maximum over the samples of each flow",
            details="Marked at one instant; summed over flows. (The classic tool used the last"
            " value, which is read after the end of the flow and meaningless.)",
            page_unit="segments, at worst", row="always",
        ),
        Description(
            "retrans", "sum", "segments",
            "segments retransmitted, not yet acknowledged: maximum of each flow",
            details="As lost.",
            page_unit="segments, at worst", row="always",
        ),
        Description(
            "retrans_total", "sum", "segments",
            "segments retransmitted in all, as the sender's kernel reports",
            details="From start to end (`tcpi_total_retrans`); sum of the flows. SYNs count. The"
            " kernel reports final counts when a socket ends, but not if the tool resets the"
            " connection, as native does: then the last value that the tool read counts if it is"
            " larger.",
            row="always",
        ),
        Description(
            "data_segs_out", "sum", "segments",
            "segments with data that the senders sent, retransmissions included",
            details="From start to end (`tcpi_data_segs_out`, Linux 4.6); sum of the flows. As for"
            " retrans_total, a larger value that native read counts.",
        ),
        Description(
            "retransSegs%", "avg",
            meaning="%    100 x retrans_total / data_segs_out, of the sums over groups",
            page_unit="% of data segments", row="always", most=100,
        ),
        Description(
            "retransPkts%", "avg",
            meaning="%    100 x retrans_total / client-tx-packets; empty unless these are the"
            " flows'",
            page_unit="% of packets", row="always", most=100,
        ),
        Description("retransPktsReason", meaning="why retransPkts% is empty"),
        Description(
            "tcpi_busy_time", "avg", "µs", "a flow had data to send: mean of the flows",
            details="From start to end, the time in which the sender had data that was not"
            " acknowledged, or to be sent (`tcpi_busy_time`, Linux 4.10).",
        ),
        Description(
            "rwnd_limited", "avg", "µs", "of that, the sender waited for the receive window",
            details="`tcpi_rwnd_limited`. The buffers, not the path, then limited the rate. From a"
            " quarter of tcpi_busy_time on, a warning says so: \"held back by its send buffer for"
            " 53 % of its time\".",
        ),
        Description(
            "sndbuf_limited", "avg", "µs",
            "of that, the send buffer was full of unacknowledged data",
            details="`tcpi_sndbuf_limited`; as rwnd_limited. A lower bound: Linux begins to count"
            " when it sends the last data of a full buffer (`tcp_cwnd_validate`); if all data was"
            " sent before the buffer was full, as with a small `localBuffer`, this is 0.",
        ),
    ),
    "Latency under load": (
        Description(
            "pingIdle", "avg", "µs", "ping before the flows: median",
            details="[Latency before, under and after load](measurements.md#latency-under-load)"
            " explains this block.",
            row="if known",
        ),
        Composed("ping p50/p95/max", "ms", row="if known"),
        Description("pingP50", "avg", "µs", "ping while the flows ran: median"),
        Description("pingP95", "avg", "µs", "95 % of the pings were faster"),
        Description("pingMax", "max", "µs", "slowest ping while the flows ran"),
        Description("pingAfter", "avg", "µs", "ping after the flows: median", row="if known"),
        Description(
            "pingLost", "sum", meaning="echo requests without a reply",
            page_unit="echo requests", row="if known",
        ),
        Description(
            "rpm", "min", meaning="round trips a minute under load, by ping",
            page_unit="round trips/min", row="if known",
        ),
    ),
    "Queues on the path": (
        Description(
            "backlog", "avg", "bytes",
            "in the longest queue on the path of the data: mean while flows ran",
            details="Mean of the samples (without `omit`), of the queue with the highest mean.",
            row="if known",
        ),
        Description(
            "backlogMax", "max", "bytes", "in a queue on the path: maximum of the samples",
            row="if known",
        ),
        Description(
            "queueDelay", "avg", "µs",
            "backlog / rate of the queue's shaper; empty without a shaper",
            details="Of its mean backlog, of the queue with the highest value. A shaper is tbf, or"
            " cake with a bandwidth; also empty if a longer queue is behind one whose rate is not"
            " known (htb, hfsc).",
            row="if known",
        ),
        Description(
            "queueDrops", "max", "packets",
            "packets that queues on the path dropped, of other flows as well",
            details="By all queues on the path (of TCP_BIDI: in both directions) while flows ran."
            " A super-packet of segmentation offload counts as one: several segments are then lost"
            " by one drop, unless LAB has `offload=off`.",
            page_unit="packets, or super-packets", row="if known",
        ),
        Description(
            "queueMarks", "max", "packets",
            "packets that they marked (ECN), of other flows as well",
            details="With CE; counted as queueDrops.",
            page_unit="packets, or super-packets", row="if known",
        ),
        Description(
            "maxLinkUtil%", "max", "%",
            "utilisation of the busiest direction of a link of the lab",
            details="Of all links, also those that the group does not use; see links.csv.",
            row="if known", most=None,
        ),
        Description(
            "sharedFlows", "max", "flows",
            "most flows on one direction of a link of the lab",
            details="Of the flows whose ways are known (ways.csv), also if they ran one after the"
            " other.",
            row="if known",
        ),
        Description(
            "uplinkVariation", "avg", "",
            "how unevenly flows use the uplinks of a pod of a fat tree",
            details="The coefficient of variation of the numbers of flows on the links from a pod"
            " to the cores: of the pod with the largest one. 0: all have as many.",
            row="if known",
        ),
    ),
    "Links that a program carries": (
        Description(
            "linkFrames", "max", "frames",
            "frames that links which lose or are protected put on the wire",
            details="Copies included; of links that a program carries. Without loss and protection"
            " those of all of them.",
            row="if known",
        ),
        Description(
            "linkLost", "max", "frames", "frames that they lost on the wire", row="if known",
        ),
        Description(
            "linkLoss%", "avg", "%", "linkLost as a share of linkFrames", row="if known", most=None,
        ),
        Description(
            "linkResent", "max", "frames", "copies of lost frames that they sent", row="if known",
        ),
        Description(
            "linkGivenUp", "max", "frames", "frames that their receivers gave up", row="if known",
        ),
        Description(
            "linkPaused%", "avg", "%", "time in which a sender was paused by its receiver",
            details="Of the direction that paused longest.",
            row="if known", most=None,
        ),
    ),
    "Captured packets": (
        Description(
            "pktRetrans", "sum", "segments",
            "segments retransmitted, by packets captured at the hosts that send",
            details="[From packets](measurements.md#from-packets) captured at the sender"
            " (`DO_TCPDUMP`); sum of the flows. Empty unless captures contain every flow of the"
            " group completely, from its SYN to its end.",
            row="if known",
        ),
        Description(
            "pktTimeouts", "sum", "segments", "segments, of those, sent again by a timeout",
            row="if known",
        ),
        Description(
            "pktSpurious", "sum", "segments",
            "segments, of those, that need not have been sent again",
            row="if known",
        ),
        Description(
            "pktRtt", "avg", "µs", "RTT of data and their ACKs, by captured packets",
            details="Mean of each flow's samples, then over the flows.",
            row="if known",
        ),
        Description(
            "synSkew", "max", "ms",
            "captured first SYN minus requested start: the largest deviation of a flow",
            details="Empty if pktRetrans is; with tool=native the SYN of most tests is sent before"
            " the start.",
            least=None,
        ),
        Description("dataSkew", "max", "ms", "the same of the first packet with data", least=None),
    ),
    "CPU and interface of the client": (
        Description(
            "localCpu", "avg", "%", "of the client's CPUs",
            details="Of all CPUs: as netperf reports (unless it reports more than 100), else the"
            " mean of the samples under load (iperf3 reports the share of one core that its own"
            " process used, which is a different quantity). Hosts of a lab share one machine: the"
            " value is that of the whole machine. Empty in simulated time, in which computing"
            " takes none.",
            row="always",
        ),
        Description(
            "remoteCpu", "avg", "%", "of the server's CPUs",
            details="As localCpu.",
            row="always",
        ),
        Description(
            "localCores", "avg", "%", "load of the processors that cores= names at the client",
            details="Mean of the samples over time and cores under load; empty without `cores`.",
        ),
        Description("remoteCores", "avg", "%", "the same at the server"),
        Description(
            "client-tx-packets", "sum", meaning="packets it sent",
            details="By the client's interface; counted as client-rx-packets.",
            page_unit="packets", row="always",
        ),
        Description(
            "client-tx-bytes", "sum", meaning="bytes it sent", page_unit="bytes", row="always",
        ),
        Description(
            "client-tx-packet-len", "avg", "bytes", "bytes per packet sent, mean",
            details="Of client-tx-bytes and client-tx-packets.",
            row="always",
        ),
        Description(
            "client-rx-packets", "sum",
            meaning="packets the client's interface received during the group",
            details="Counters after minus before; they include other traffic and other groups on"
            " the interface. The aggregate row counts each interface once.",
            page_unit="packets", row="always",
        ),
        Description(
            "client-rx-bytes", "sum", meaning="bytes it received", page_unit="bytes", row="always",
        ),
        Description(
            "client-rx-packet-len", "avg", "bytes", "bytes per packet received, mean",
            details="Of client-rx-bytes and client-rx-packets.",
            row="always",
        ),
    ),
    "Offloads of the client": (
        Description(
            "tso", "one", meaning="on or off: TCP segmentation offload at the client", row="always",
        ),
        Description("gso", "one", meaning="on or off: generic segmentation offload", row="always"),
        Description("lro", "one", meaning="on or off: large receive offload", row="always"),
        Description("gro", "one", meaning="on or off: generic receive offload", row="always"),
        Description(
            "rx-frames", "avg", meaning="packets   receive coalescing",
            page_unit="packets", row="always",
        ),
        Description(
            "tx-frames", "avg", meaning="packets   transmit coalescing",
            page_unit="packets", row="always",
        ),
        Description(
            "adaptive-rx", "avg", meaning="1 or 0: adaptive receive coalescing", row="always",
        ),
        Description("tcpRmem", "min", "bytes", "third value of net.ipv4.tcp_rmem at the client"),
        Description("tcpWmem", "min", "bytes", "third value of net.ipv4.tcp_wmem at the client"),
    ),
    "Start and sampling": (
        Description(
            "startSkew", "max", "ms",
            "achieved minus requested start: the largest deviation of a flow",
            row="if known", least=None,
        ),
        Description(
            "sampleInterval", "avg", "ms",
            "between two samples of a flow's socket, as achieved: mean",
            details="Of each flow, then over the flows.",
            row="if known",
        ),
        Description(
            "sampleIntervalP99", "max", "ms",
            "99 % of a flow's intervals are not longer: of its worst flow",
            row="if known",
        ),
        Description(
            "sampleIntervalWorst", "max", "ms",
            "the longest interval between two samples of any flow",
            row="if known",
        ),
    ),
    "From OTHER and SWEEP": (
        Description("testType", "one", meaning="from OTHER: family of tests"),
        Description("testNote", "one", meaning="from OTHER: any text"),
        Description("netem", "one", meaning="from OTHER: delay set with netem, ms"),
        Description("qdisc", "one", meaning="from OTHER: qdisc of the bottleneck"),
        Description("bw", "one", meaning="from OTHER: rate of the bottleneck"),
        Description("buffers", "one", meaning="from OTHER: buffer of the bottleneck"),
        Description("rep", "one", meaning="number of the repetition of SWEEP"),
    ),
}  # fmt: skip

DESCRIPTIONS: Mapping[str, Description] = {
    canonical(each.name): each
    for block in BLOCKS.values()
    for each in block
    if isinstance(each, Description)
}
"""By their canonical names."""
