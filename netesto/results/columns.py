"""Which values of a group are measured (a failed group has none of them), and which are names.

Meaning and unit of each are told in fields.txt and docs/results.md.
"""

from collections.abc import Mapping

# What became of the group.
OUTCOME: tuple[str, ...] = ("status", "flowsFailed")

_LATENCIES = ("min", "max", "mean", "p50", "p90", "p99", "p999", "p9999")

# Facts of the host and measurements of the flows, under the names that `canonical` gives.
MEASURED: frozenset[str] = frozenset(
    {
        "cwnd", "rtt", "pingRtt", "unacked", "rate", "rateMin", "rateMax", "retransPkts%",
        "retransSegs%", "data-segs-out", "localRetrans", "remoteRetrans", "lost", "retrans",
        "retrans-total", "localCpu", "remoteCpu", "tcpRmem", "tcpWmem", "tso", "gso", "lro", "gro",
        "adaptive-rx", "rx-frames", "tx-frames",
        "client-rx-packets", "client-tx-packets", "client-rx-bytes", "client-tx-bytes",
        "client-tx-packet-len", "client-rx-packet-len",
        "effCa", "effMss", "startSkew", "sampleInterval", "fairness", *OUTCOME,
        *(f"{which}Latency" for which in _LATENCIES),
    }
)  # fmt: skip

# Texts even where they look like numbers: an experiment may be called 2017, a kernel 6.10; and the
# numbers of experiment and group, which are whole.
NAMES: frozenset[str] = frozenset(
    {"exp", "expNumber", "expName", "group", "test", "testType", "testNote", "desc", "kernel",
     "host", "fullHost", "server", "fullServer", "tool", "status", "ca", "effCa"}
)  # fmt: skip

# Units of columns, as in fields.txt; a column without one counts or names something.
UNITS: Mapping[str, str] = {
    **dict.fromkeys(("dur", "delay"), "s"),
    **dict.fromkeys(("rate", "rateMin", "rateMax"), "Mbit/s"),
    **dict.fromkeys(("rtt", "pingRtt", *(f"{which}Latency" for which in _LATENCIES)), "µs"),
    **dict.fromkeys(("startSkew", "sampleInterval"), "ms"),
    **dict.fromkeys(("localCpu", "remoteCpu"), "%"),
    **dict.fromkeys(("req", "reply", "effMss", "tcpRmem", "tcpWmem"), "bytes"),
    **dict.fromkeys(("client-rx-packet-len", "client-tx-packet-len"), "bytes"),
    **dict.fromkeys(("cwnd", "localRetrans", "remoteRetrans"), "segments"),
    **dict.fromkeys(("lost", "retrans", "retrans-total", "data-segs-out"), "segments"),
}

# Texts, whatever they look like: no number is in them.
TEXTS: frozenset[str] = frozenset(
    {"expName", "test", "desc", "kernel", "host", "server", "tool", "status", "ca", "effCa",
     "tso", "gso", "lro", "gro"}
)  # fmt: skip

# Numbers that tell experiments and their groups apart.
NUMBERS: frozenset[str] = frozenset({"exp", "expNumber", "group"})
