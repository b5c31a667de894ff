"""The settings that a script may make on a host, and their valid values. Nothing here runs.

These tables limit what a script can do, so that people can run each other's scripts. The agent
refuses everything else, and the language checks the same tables before a run.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from netesto.errors import NotAllowedError
from netesto.limits.needs import Kind
from netesto.text.nearest import nearest
from netesto.units import decimal

Check = Callable[[str], None]
"""Checks a value whose fields are separated by single spaces; ValueError says what is valid."""

INT_MAX = 2**31 - 1
_UINT_MAX = 2**32 - 1

# Names of congestion controls, qdiscs and their options. Some tools take a word with a slash for a
# file.
_NAME = re.compile(r"[a-z0-9_]{1,15}")
_TC_WORD = re.compile(r"[A-Za-z0-9_.,:%+-]{1,64}")
_DEVICE = re.compile(r"[A-Za-z0-9_.:@-]{1,15}")

QDISC_ACTIONS = ("", "add", "replace", "change", "delete")

_COMMON_WORDS = frozenset({"rate", "burst", "limit"})
# Those of them that the usual qdiscs accept in tc(8) of iproute2 6.1.
_TAKEN: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("pfifo_fast", "cake", "htb", "prio"), frozenset[str]()),
    **dict.fromkeys(("pfifo", "bfifo", "fq", "fq_codel", "codel", "pie"), frozenset({"limit"})),
    **dict.fromkeys(("red", "sfq"), frozenset({"burst", "limit"})),
    "netem": frozenset({"rate", "limit"}),
    "tbf": frozenset({"rate", "burst", "limit"}),
}
# The limit of these is a number of packets.
_IN_PACKETS = frozenset({"fq", "fq_codel", "codel", "pie", "sfq"})
_AMOUNT = re.compile(r"[0-9]+(\.[0-9]+)?[A-Za-z]*(/[0-9]+)?")

# The words that other options of these begin with, in tc(8) of iproute2 6.1 and later.
_SHARED = frozenset({"limit", "ecn", "noecn"})
_AVERAGED = frozenset({"min", "max", "avpkt", "burst", "harddrop", "probability"})
_PIE = frozenset({
    "target", "tupdate", "alpha", "beta", "bytemode", "nobytemode",
    "dq_rate_estimator", "no_dq_rate_estimator",
})  # fmt: skip
_FLOWS = frozenset({"flows", "quantum", "memory_limit"})
_WORDS: Mapping[str, frozenset[str]] = {
    "netem": _SHARED | {
        "delay", "latency", "distribution", "uniform", "normal", "pareto", "paretonormal",
        "corrupt", "duplicate", "loss", "drop", "random", "state", "gemodel", "reorder", "gap",
        "rate", "slot", "packets", "bytes", "seed",
    },
    "fq": frozenset({
        "limit", "flow_limit", "quantum", "initial_quantum", "maxrate", "buckets", "pacing",
        "nopacing", "refill_delay", "low_rate_threshold", "orphan_mask", "timer_slack",
        "ce_threshold", "horizon", "horizon_cap", "horizon_drop", "priomap", "bands", "weights",
        "offload_horizon",
    }),
    "codel": _SHARED | {"target", "interval", "ce_threshold"},
    "fq_codel": _SHARED | _FLOWS | {
        "target", "interval", "ce_threshold", "ce_threshold_selector", "drop_batch",
    },
    "pie": _SHARED | _PIE,
    "fq_pie": _SHARED | _PIE | _FLOWS | {"ecn_prob"},
    "red": _SHARED | _AVERAGED | {
        "adaptive", "bandwidth", "nodrop", "qevent", "early_drop", "mark", "block",
    },
    "sfq": _SHARED | _AVERAGED | {
        "perturb", "quantum", "divisor", "flows", "depth", "headdrop", "redflowlimit",
    },
    "tbf": frozenset({
        "limit", "latency", "burst", "buffer", "maxburst", "rate", "mtu", "minburst", "peakrate",
        "overhead", "linklayer", "atm", "adsl", "ethernet",
    }),
}  # fmt: skip
# Words of the command line before the qdisc's name, which the agent writes.
_OF_COMMAND = frozenset({"handle", "parent", "root", "dev", "ingress", "clsact"})

# tc needs one word of each for a token bucket.
_BUCKET = (("rate",), ("burst", "buffer", "maxburst"), ("limit", "latency"))

# netem stores loss in 32 bits and delay in nanoseconds; a smaller value would become 0.
LEAST_LOSS_PERCENT = 100 / 2**32
LEAST_DELAY_MS = 1e-6
# The maximum delay of SET_NETEM, and of a link: netem accepts more, but no test needs more.
MAX_NETEM_DELAY_MS = 3_600_000
MAX_LINK_DELAY_MS = 60_000


def _integers(count: int, low: int, high: int, *, rising: bool = False) -> Check:
    def check(value: str) -> None:
        fields = value.split(" ")
        numbers = [int(field) for field in fields if re.fullmatch(r"-?[0-9]{1,18}", field)]
        if len(numbers) != count or len(fields) != count:
            raise ValueError("a whole number" if count == 1 else f"{count} whole numbers")
        if not all(low <= number <= high for number in numbers):
            raise ValueError(f"from {low} to {high}")
        if rising and numbers != sorted(numbers):
            raise ValueError("minimum, default and maximum, none smaller than the one before")

    return check


def _name(value: str) -> None:
    if not _NAME.fullmatch(value):
        raise ValueError("one name, such as cubic or fq")


def _names(value: str) -> None:
    if not all(_NAME.fullmatch(field) for field in value.split(" ")):
        raise ValueError("names, such as reno,cubic")


def _switch(value: str) -> None:
    if value not in ("0", "1", "Y", "N"):
        raise ValueError("0 or 1")


# The classic range was 2621440 to 67108864; small buffers are worth measuring, too.
_BUFFER = _integers(1, 4096, INT_MAX)
_BUFFERS = _integers(3, 4096, INT_MAX, rising=True)

SYSCTLS: Mapping[str, Check] = {
    "net.core.default_qdisc": _name,
    "net.core.netdev_budget": _integers(1, 1, 100_000),
    "net.core.netdev_max_backlog": _integers(1, 1, 1_000_000),
    "net.core.rmem_default": _BUFFER,
    "net.core.rmem_max": _BUFFER,
    "net.core.wmem_default": _BUFFER,
    "net.core.wmem_max": _BUFFER,
    "net.ipv4.tcp_adv_win_scale": _integers(1, -31, 31),
    "net.ipv4.tcp_allowed_congestion_control": _names,
    "net.ipv4.tcp_autocorking": _integers(1, 0, 1),
    "net.ipv4.tcp_congestion_control": _name,
    "net.ipv4.tcp_dsack": _integers(1, 0, 1),
    "net.ipv4.tcp_early_retrans": _integers(1, 0, 4),
    "net.ipv4.tcp_ecn": _integers(1, 0, 2),
    "net.ipv4.tcp_ecn_fallback": _integers(1, 0, 1),
    "net.ipv4.tcp_frto": _integers(1, 0, 2),
    "net.ipv4.tcp_limit_output_bytes": _integers(1, 0, INT_MAX),
    "net.ipv4.tcp_min_rtt_wlen": _integers(1, 0, 86400),
    "net.ipv4.tcp_min_tso_segs": _integers(1, 1, 255),
    "net.ipv4.tcp_moderate_rcvbuf": _integers(1, 0, 1),
    "net.ipv4.tcp_mtu_probing": _integers(1, 0, 2),
    "net.ipv4.tcp_no_metrics_save": _integers(1, 0, 1),
    "net.ipv4.tcp_notsent_lowat": _integers(1, 0, _UINT_MAX),
    "net.ipv4.tcp_pacing_ca_ratio": _integers(1, 0, 1000),
    "net.ipv4.tcp_pacing_ss_ratio": _integers(1, 0, 1000),
    "net.ipv4.tcp_recovery": _integers(1, 0, 7),
    "net.ipv4.tcp_reordering": _integers(1, 1, 300),
    "net.ipv4.tcp_rmem": _BUFFERS,
    "net.ipv4.tcp_sack": _integers(1, 0, 1),
    "net.ipv4.tcp_shrink_window": _integers(1, 0, 1),
    "net.ipv4.tcp_slow_start_after_idle": _integers(1, 0, 1),
    "net.ipv4.tcp_timestamps": _integers(1, 0, 2),
    "net.ipv4.tcp_tso_win_divisor": _integers(1, 0, 64),
    "net.ipv4.tcp_window_scaling": _integers(1, 0, 1),
    "net.ipv4.tcp_wmem": _BUFFERS,
}

# Those of the whole kernel, which network namespaces lack or may only read (net_core_table and
# ipv4_table of Linux). In a lab they exist where the kernel is the lab's own.
KERNEL_WIDE = frozenset({
    "net.core.default_qdisc", "net.core.netdev_budget", "net.core.netdev_max_backlog",
    "net.core.rmem_default", "net.core.rmem_max", "net.core.wmem_default", "net.core.wmem_max",
    "net.ipv4.tcp_allowed_congestion_control",
})  # fmt: skip

# Their values are names of kernel modules.
NAMING_SYSCTLS: Mapping[str, Kind] = {
    "net.core.default_qdisc": "qdisc",
    "net.ipv4.tcp_allowed_congestion_control": "congestion control",
    "net.ipv4.tcp_congestion_control": "congestion control",
}

MODULE_PARAMETERS: Mapping[str, Mapping[str, Check]] = {
    "tcp_cubic": {
        "fast_convergence": _switch,
        "hystart": _switch,
        # Milliseconds until Linux 5.5; since then microseconds, under the second name.
        "hystart_ack_delta": _integers(1, 0, 1_000_000),
        "hystart_ack_delta_us": _integers(1, 0, 1_000_000),
        "hystart_detect": _integers(1, 0, 3),
        "hystart_low_window": _integers(1, 0, 1_000_000),
        "initial_ssthresh": _integers(1, 0, 1_000_000),
        "tcp_friendliness": _switch,
    },
    "tcp_dctcp": {
        "dctcp_alpha_on_init": _integers(1, 0, 1024),
        "dctcp_clamp_alpha_on_loss": _switch,
        "dctcp_shift_g": _integers(1, 0, 10),
    },
    "tcp_nv": {
        "nv_min_cwnd": _integers(1, 0, 1_000_000),
        "nv_pad": _integers(1, 0, 1_000_000),
        "nv_reset_period": _integers(1, 0, 1_000_000),
    },
}


def allowing_control(name: str) -> str:
    """How a congestion control becomes one that not only root may use."""
    sysctl = "net.ipv4.tcp_allowed_congestion_control"
    return (
        f'As root on the host: modprobe tcp_{name}; sysctl {sysctl}="$(sysctl -n {sysctl}) {name}".'
        " An agent that runs as root may use all."
    )


def check_sysctl(name: str, value: str) -> None:
    """NotAllowedError unless a script may set it so."""
    check = SYSCTLS.get(name)
    if check is None:
        raise NotAllowedError(f"sysctl {name} is not allowed", remedy=_list("Allowed are", SYSCTLS))
    _check(f"sysctl {name}", value, check)


def check_module_parameter(module: str, name: str, value: str) -> None:
    """NotAllowedError unless a script may set it so."""
    parameters = MODULE_PARAMETERS.get(module)
    if parameters is None:
        remedy = _list("Allowed are those of", MODULE_PARAMETERS)
        raise NotAllowedError(f"parameters of module {module} are not allowed", remedy=remedy)
    check = parameters.get(name)
    if check is None:
        remedy = _list(f"Allowed for {module} are", parameters)
        raise NotAllowedError(f"module parameter {module} {name} is not allowed", remedy=remedy)
    _check(f"module parameter {module} {name}", value, check)


def check_qdisc(kind: str, options: Sequence[str], action: str) -> None:
    """NotAllowedError unless tc(8) can interpret these words only as a qdisc."""
    if action not in QDISC_ACTIONS:
        remedy = _list("Actions are", QDISC_ACTIONS[1:])
        raise NotAllowedError(f"qdisc action {action!r} is not allowed", remedy=remedy)
    if not _NAME.fullmatch(kind) and not (action == "delete" and not kind):
        raise NotAllowedError(f"invalid qdisc name {kind!r}")
    for word in options:
        if not _TC_WORD.fullmatch(word):
            raise NotAllowedError(f"qdisc {kind}: the word {word!r} is not allowed")
    for before, word in pairwise(("", *options)):
        # The name of a distribution is that of a file.
        if before != "distribution":
            _check_word(kind, word)
    if action != "delete":
        _check_words(kind, options)


def _check_word(kind: str, word: str) -> None:
    """NotAllowedError for a word that tc does not take behind the name of a qdisc, or that is
    spelled almost like one of its options. (A newer tc has options that are not known here.)"""
    known = _WORDS.get(kind, frozenset[str]())
    if word in known or word in _COMMON_WORDS:
        return
    if word in _OF_COMMAND and kind != "cake":
        raise NotAllowedError(
            f"qdisc {kind} has no option {word}",
            remedy=f"The agent itself writes what comes before {kind}: the interface and root.",
        )
    similar = nearest(word, known) if word.isalpha() else None
    if similar is not None:
        raise NotAllowedError(
            f"qdisc {kind} has no option {word}", remedy=f"Did you mean {similar}?"
        )


def _check_words(kind: str, options: Sequence[str]) -> None:
    for place, word in enumerate(options):
        if word not in _COMMON_WORDS or kind not in _TAKEN:
            continue
        if word not in _TAKEN[kind]:
            taken = ", ".join(sorted(_TAKEN[kind])) or "neither rate, burst nor limit"
            raise NotAllowedError(f"qdisc {kind} has no {word}", remedy=f"It takes {taken}.")
        value = options[place + 1] if place + 1 < len(options) else ""
        if word == "limit" and kind in _IN_PACKETS and not value.isdecimal():
            raise NotAllowedError(
                f"qdisc {kind}: limit {value}", remedy="It takes a number of packets."
            )
        if not _AMOUNT.fullmatch(value):
            raise NotAllowedError(
                f"qdisc {kind}: {word} {value}", remedy="It takes a number, with or without a unit."
            )
    if kind == "tbf":
        for names in _BUCKET:
            if not set(names) & set(options):
                raise NotAllowedError(
                    f"qdisc tbf needs {' or '.join(names)}",
                    remedy="Write: qdisc=tbf rate=10mbit burst=15k limit=100k",
                )


def _within(what: str, value: float | None, low: float, high: float) -> None:
    """NotAllowedError unless a number, if it is given, is in a range."""
    if value is not None and not low <= value <= high:
        raise NotAllowedError(f"{what}; from {low} to {high} are allowed")


def check_netem(delay_ms: float, limit_packets: int, loss_percent: float) -> None:
    """NotAllowedError unless netem accepts these numbers."""
    _within(f"netem: a delay of {decimal(delay_ms)} ms", delay_ms, 0, MAX_NETEM_DELAY_MS)
    if 0 < delay_ms < LEAST_DELAY_MS:
        raise NotAllowedError(f"netem: a delay of {delay_ms:g} ms is less than a nanosecond")
    if 0 < loss_percent < LEAST_LOSS_PERCENT:
        raise NotAllowedError(f"netem: a loss of {loss_percent:g} % is less than 1 in 2^32")
    _within(f"netem: a loss of {loss_percent:g} %", loss_percent, 0, 100)
    if not 1 <= limit_packets <= INT_MAX:
        raise NotAllowedError(f"netem: a limit of {limit_packets} packets; at least 1 is needed")


def _on_or_off(value: str) -> None:
    if value not in {"on", "off"}:
        raise ValueError("on or off")


# With a smaller MTU the kernel removes the IPv6 addresses of an interface.
_MTU = _integers(1, 1280, 65_535)
# GSO_MAX_SIZE of Linux 6: eight packets of maximum length.
_SUPER_PACKET = _integers(1, 1280, 8 * 65_535)

# In the order in which they are set: the sizes of super-packets depend only on earlier ones.
LINK_ATTRIBUTES: Mapping[str, Check] = {
    "mtu": _MTU,
    **dict.fromkeys(("tso", "gso", "gro", "lro", "gro_hw"), _on_or_off),
    **dict.fromkeys(
        ("gso_max_size", "gro_max_size", "gso_ipv4_max_size", "gro_ipv4_max_size"), _SUPER_PACKET
    ),
}


def check_link_attribute(name: str, value: str) -> None:
    """NotAllowedError unless a script may set it so."""
    check = LINK_ATTRIBUTES.get(name)
    if check is None:
        remedy = _list("There are", LINK_ATTRIBUTES)
        raise NotAllowedError(f"attribute {name} of an interface is not allowed", remedy=remedy)
    _check(name, value, check)


def check_route_metrics(
    rto_min_ms: float | None, initcwnd: int | None, initrwnd: int | None
) -> None:
    """NotAllowedError unless a route can have these metrics."""
    # The kernel counts in ticks of 1 to 10 ms; no path has an RTT of a minute.
    _within(f"rto_min: {rto_min_ms or 0:g} ms", rto_min_ms, 1, 60_000)
    _within(f"initcwnd: {initcwnd} segments", initcwnd, 1, 65_535)
    _within(f"initrwnd: {initrwnd} segments", initrwnd, 1, 65_535)


def check_device(device: str) -> None:
    """NotAllowedError unless it is a valid interface name."""
    if not _DEVICE.fullmatch(device):
        raise NotAllowedError(f"invalid interface name {device!r}")


def _check(what: str, value: str, check: Check) -> None:
    try:
        check(value)
    except ValueError as error:
        raise NotAllowedError(f"{what}={value}: not allowed", remedy=f"It takes {error}.") from None


def _list(lead: str, names: Sequence[str] | Mapping[str, object]) -> str:
    return f"{lead}: {', '.join(names)}."
