"""What a kernel for simulated time is made of: its options, each with its reason, and its seed."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

# Reason -> options switched on, on top of the architecture's own defaults.
WANTED: Mapping[str, Sequence[str]] = {
    "simulated time: idle time is skipped, and timers fire at their exact nanosecond": (
        "UML_TIME_TRAVEL_SUPPORT",
        "HIGH_RES_TIMERS",
        "NO_HZ_IDLE",
    ),
    "an experiment's wall time is the kernel's own work, so make that fast": (
        "CC_OPTIMIZE_FOR_PERFORMANCE",
    ),
    "the machine's own files are the guest's, and what the guest writes stays in its memory": (
        "HOSTFS",
        "OVERLAY_FS",
        "TMPFS",
        "TMPFS_XATTR",
        "PROC_FS",
        "SYSFS",
        "DEVTMPFS",
        "UNIX98_PTYS",
    ),
    "the management console names the process that spins": ("MCONSOLE", "MAGIC_SYSRQ"),
    "a probe can read what this kernel has": ("IKCONFIG", "IKCONFIG_PROC"),
    "hosts of a lab are namespaces": (
        "NAMESPACES",
        "UTS_NS",
        "IPC_NS",
        "USER_NS",
        "PID_NS",
        "NET_NS",
        "SYSVIPC",
    ),
    "IP, and routes with several next hops": (
        "NET",
        "INET",
        "IP_MULTICAST",
        "IP_ADVANCED_ROUTER",
        "IP_MULTIPLE_TABLES",
        "IP_ROUTE_MULTIPATH",
        "SYN_COOKIES",
        "IPV6",
        "IPV6_MULTIPLE_TABLES",
        "NET_L3_MASTER_DEV",
        "MPTCP",
        "MPTCP_IPV6",
    ),
    "agents are reached over Unix sockets; captures read packet sockets": ("UNIX", "PACKET"),
    "socket samples come from the diag interface": (
        "INET_DIAG",
        "INET_TCP_DIAG",
        "INET_UDP_DIAG",
        "INET_RAW_DIAG",
        "INET_DIAG_DESTROY",
        "UNIX_DIAG",
        "PACKET_DIAG",
        "NETLINK_DIAG",
    ),
    "links and switches": (
        "NETDEVICES",
        "NET_CORE",
        "VETH",
        "BRIDGE",
        "IFB",
        "TUN",
        "DUMMY",
        "VLAN_8021Q",
        "MACVLAN",
        "IPVLAN",
        "NET_VRF",
        "BONDING",
    ),
    "every congestion control": (
        "TCP_CONG_ADVANCED",
        "TCP_CONG_BBR",
        "TCP_CONG_BIC",
        "TCP_CONG_CDG",
        "TCP_CONG_CUBIC",
        "TCP_CONG_DCTCP",
        "TCP_CONG_HSTCP",
        "TCP_CONG_HTCP",
        "TCP_CONG_HYBLA",
        "TCP_CONG_ILLINOIS",
        "TCP_CONG_LP",
        "TCP_CONG_NV",
        "TCP_CONG_SCALABLE",
        "TCP_CONG_VEGAS",
        "TCP_CONG_VENO",
        "TCP_CONG_WESTWOOD",
        "TCP_CONG_YEAH",
    ),
    "every queueing discipline": (
        "NET_SCHED",
        "NET_SCH_CAKE",
        "NET_SCH_CBS",
        "NET_SCH_CHOKE",
        "NET_SCH_CODEL",
        "NET_SCH_DRR",
        "NET_SCH_ETF",
        "NET_SCH_ETS",
        "NET_SCH_FQ",
        "NET_SCH_FQ_CODEL",
        "NET_SCH_FQ_PIE",
        "NET_SCH_GRED",
        "NET_SCH_HFSC",
        "NET_SCH_HHF",
        "NET_SCH_HTB",
        "NET_SCH_INGRESS",
        "NET_SCH_MQPRIO",
        "NET_SCH_MULTIQ",
        "NET_SCH_NETEM",
        "NET_SCH_PIE",
        "NET_SCH_PLUG",
        "NET_SCH_PRIO",
        "NET_SCH_QFQ",
        "NET_SCH_RED",
        "NET_SCH_SFB",
        "NET_SCH_SFQ",
        "NET_SCH_SKBPRIO",
        "NET_SCH_TAPRIO",
        "NET_SCH_TBF",
        "NET_SCH_TEQL",
    ),
    "classifiers and actions: traffic sorted into classes, marked, mirrored to an ifb": (
        "BPF_SYSCALL",
        "NET_CLS_ACT",
        "NET_CLS_BASIC",
        "NET_CLS_BPF",
        "NET_CLS_FLOW",
        "NET_CLS_FLOWER",
        "NET_CLS_FW",
        "NET_CLS_MATCHALL",
        "NET_CLS_ROUTE4",
        "NET_CLS_U32",
        "NET_EMATCH",
        "NET_EMATCH_META",
        "NET_EMATCH_U32",
        "NET_ACT_BPF",
        "NET_ACT_CSUM",
        "NET_ACT_GACT",
        "NET_ACT_GATE",
        "NET_ACT_MIRRED",
        "NET_ACT_NAT",
        "NET_ACT_PEDIT",
        "NET_ACT_POLICE",
        "NET_ACT_SIMP",
        "NET_ACT_SKBEDIT",
        "NET_ACT_SKBMOD",
        "NET_ACT_VLAN",
    ),
}

# Reason -> options switched off.
UNWANTED: Mapping[str, Sequence[str]] = {
    "everything is built in: one file, nothing to load": ("MODULES",),
    "no numbers from the machine's own randomness: a run must repeat": ("HW_RANDOM", "UML_RANDOM"),
    "checks and symbols for kernel developers cost wall time": (
        "CC_OPTIMIZE_FOR_SIZE",
        "DEBUG_KERNEL",
        "DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT",
        "FTRACE",
        "BSD_PROCESS_ACCT",
        "CGROUPS",
        "SECCOMP",
    ),
    "no disks": ("BLK_DEV", "EXT4_FS", "REISERFS_FS", "ISO9660_FS", "QUOTA", "NLS"),
    "no hardware": ("ETHERNET", "WIRELESS", "WLAN", "HID", "HID_SUPPORT", "SOUND", "SUSPEND"),
    "no ways out of the guest": ("UML_NET", "PPP", "SLIP"),
    "no device of its own in every new namespace": ("IPV6_SIT",),
    "no 256 old terminals in /dev": ("LEGACY_PTYS",),
}

# Without these there is no ground `sim` at all; other options may be missing in other versions.
ESSENTIAL = (
    "UML_TIME_TRAVEL_SUPPORT",
    "HIGH_RES_TIMERS",
    "HOSTFS",
    "OVERLAY_FS",
    "TMPFS",
    "NET_NS",
    "VETH",
    "INET_TCP_DIAG",
    "NET_SCH_NETEM",
    "NET_SCH_TBF",
)

# Put before every source file of the kernel, which stays untouched.
SEED_HEADER = Path(__file__).with_name("repeatable.h").read_text(encoding="utf-8")

# The files that are compiled with one of the header's parts (kbuild's per-file flags): random
# numbers; the clock, system calls, and waiting; what asks for chance on the network.
SEED_FLAGS = (
    "CFLAGS_random.o=-DNETESTO_RANDOM_C",
    "CFLAGS_time.o=-DNETESTO_TIME_C",
    "CFLAGS_syscall.o=-DNETESTO_SYSCALL_C",
    "CFLAGS_select.o=-DNETESTO_SELECT_C",
    *(
        f"CFLAGS_{name}.o=-DNETESTO_CHANCE_C"
        for name in (
            *("sch_netem", "sch_red", "sch_gred", "sch_choke", "sch_sfb", "sch_sfq", "sch_pie"),
            *("sch_fq_pie", "sch_cake", "sch_hhf", "act_gact", "tcp_bbr", "tcp_cdg", "tcp_nv"),
        )
    ),
)


# The kernel's version names when and where it was built, and random.c stirs it in. Fixed, so that
# two machines with one compiler build one kernel.
BUILD_NAMES = (
    "KBUILD_BUILD_TIMESTAMP=Thu Jan  1 00:00:00 UTC 1970",
    "KBUILD_BUILD_VERSION=1",
    "KBUILD_BUILD_USER=netesto",
    "KBUILD_BUILD_HOST=netesto",
)


def fragment() -> str:
    """The options as lines of a kernel configuration, to be appended to the defaults."""
    return "".join(
        f"# {reason}\n" + "".join(f"CONFIG_{name}={value}\n" for name in names)
        for value, group in (("y", WANTED), ("n", UNWANTED))
        for reason, names in group.items()
    )


def recipe() -> str:
    """A name for exactly these options and what is put into the build: kernels of one recipe behave
    alike."""
    text = "\0".join((fragment(), SEED_HEADER, *SEED_FLAGS, *BUILD_NAMES))
    return sha256(text.encode()).hexdigest()[:12]


def lacking(config: str) -> list[str]:
    """The wanted options that a finished configuration does not have built in."""
    present = set(config.splitlines())
    return [
        name for names in WANTED.values() for name in names if f"CONFIG_{name}=y" not in present
    ]
