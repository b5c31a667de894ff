"""The recipe of a kernel for simulated time: its options (kernel.config), its seed (repeatable.h),
its mapping of programs' memory (memory.h), its switches between processes (switches.h), the links
of its labs (wire.h), and the place of its own memory (physmem.h)."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files

# Without these there is no ground `sim` at all; other options may be missing in other versions.
ESSENTIAL = (
    "UML_TIME_TRAVEL_SUPPORT",
    "HIGH_RES_TIMERS",
    "HZ",
    "HOSTFS",
    "OVERLAY_FS",
    "TMPFS",
    "NET_NS",
    "VETH",
    "INET_TCP_DIAG",
    "NET_SCH_NETEM",
    "NET_SCH_TBF",
)

# The sequences of random numbers in the kernel (repeatable.h), and the source files, in any folder,
# that draw from each. All others share one with programs.
SEQUENCES: Mapping[str, Sequence[str]] = {
    "chance": (
        *("sch_netem", "sch_red", "sch_gred", "sch_choke", "sch_sfb", "sch_sfq", "sch_pie"),
        *("sch_fq_pie", "sch_cake", "sch_hhf", "act_gact", "act_sample", "cls_flow", "em_meta"),
        *("tcp_bbr", "tcp_cdg", "tcp_nv"),
    ),
    "stack": (
        *("secure_seq", "flow_dissector", "stream", "neighbour", "net_namespace", "syncookies"),
        *("inet_hashtables", "inet_connection_sock", "tcp_ipv4", "tcp_input", "tcp_fastopen"),
        *("tcp_ipv6", "tcp_output", "tcp_timer", "veth", "br_device"),
        *("udp", "datagram", "inetpeer", "ip_output", "icmp", "igmp", "route", "addrconf"),
        *("mcast", "inet6_hashtables", "ip6_flowlabel", "output_core", "token", "subflow"),
    ),
    "places": ("util", "binfmt_elf"),
    "others": ("shmem", "fork", "rhashtable", "af_unix", "af_netlink", "af_packet", "uuid"),
}

# The headers that are included before some source files alone, and the words that do it: make
# compiles in the folder of objects.
WIRE_HEADER, PHYSMEM_HEADER = "netesto-wire.h", "netesto-physmem.h"
BEFORE: Mapping[str, Sequence[str]] = {"sch_netem": ("-include", WIRE_HEADER)}

# On ARCH=um the ticks in a second have a default, and no prompt. A second definition adds one.
PROMPTS = """\
config HZ
	int "Ticks in a second"

"""

# The files that are compiled with one of the headers' parts (kbuild's per-file flags): the kernel's
# own memory; random numbers; the clock, system calls, and waiting; memory; switches; and the files
# with a sequence.
SEED_FLAGS = (
    f"CFLAGS_um_arch.o=-DNETESTO_SBRK_C -include {PHYSMEM_HEADER}",
    f"CFLAGS_mem.o=-DNETESTO_SBRK_C -include {PHYSMEM_HEADER}",
    f"CFLAGS_physmem.o=-DNETESTO_PHYSMEM_C -include {PHYSMEM_HEADER}",
    "CFLAGS_random.o=-DNETESTO_RANDOM_C",
    "CFLAGS_time.o=-DNETESTO_TIME_C",
    "CFLAGS_syscall.o=-DNETESTO_SYSCALL_C",
    "CFLAGS_select.o=-DNETESTO_SELECT_C",
    "CFLAGS_trap.o=-DNETESTO_TRAP_C",
    "CFLAGS_tlb.o=-DNETESTO_TLB_C",
    "CFLAGS_mmu.o=-DNETESTO_MMU_C",
    # One of the files with this name belongs to the side of the machine, which has no header.
    (
        "CFLAGS_process.o=-DNETESTO_PROCESS_C "
        "-Dget_fp_registers=netesto_get_fp -Dput_fp_registers=netesto_put_fp"
    ),
    "CFLAGS_memory.o=-DNETESTO_MEMORY_C",
    "CFLAGS_vma.o=-DNETESTO_VMA_C",
    "CFLAGS_um_vdso.o=-DNETESTO_UM_VDSO_C",
    "CFLAGS_hostfs_kern.o=-DNETESTO_HOSTFS_C",
    *(
        f"CFLAGS_{file}.o=-DNETESTO_OWN={sequence}{' '.join(('', *BEFORE.get(file, ())))}"
        for sequence, sources in SEQUENCES.items()
        for file in sources
    ),
)

# The kernel's version contains the time and place of the build, and random.c mixes it in. Fixed, so
# that two machines with the same compiler build the same kernel.
BUILD_NAMES = (
    "KBUILD_BUILD_TIMESTAMP=Thu Jan  1 00:00:00 UTC 1970",
    "KBUILD_BUILD_VERSION=1",
    "KBUILD_BUILD_USER=netesto",
    "KBUILD_BUILD_HOST=netesto",
)


def fragment() -> str:
    """The options on top of the architecture's defaults, as lines of a kernel configuration. Their
    comments belong to the recipe."""
    return _text("kernel.config")


def menu(given: str) -> str:
    """A source's top Kconfig, where options that this architecture sets by itself have a prompt, so
    that `fragment` sets them."""
    return given.replace("\nsource ", f"\n{PROMPTS}source ", 1)


def seed_header() -> str:
    """The header that is included before every source file of the kernel, whose sources stay
    untouched."""
    return "".join(map(_text, ("repeatable.h", "memory.h", "switches.h")))


def wire_header() -> str:
    """The header that is included before netem's source file."""
    return _text("wire.h")


def physmem_header() -> str:
    """The header that is included before the source files that find a place for the kernel's
    memory."""
    return _text("physmem.h")


def _text(name: str) -> str:
    return files("netesto.lab").joinpath(name).read_text(encoding="utf-8")


def recipe() -> str:
    """A name for exactly these options and headers: kernels of one recipe behave alike."""
    headers = (seed_header(), wire_header(), physmem_header())
    text = "\0".join((fragment(), PROMPTS, *headers, *SEED_FLAGS, *BUILD_NAMES))
    return sha256(text.encode()).hexdigest()[:12]


def missing(config: str) -> list[str]:
    """The options of the fragment that a finished configuration does not have: that are not built
    in, or have another value."""
    present = set(config.splitlines())
    return [
        line.removeprefix("CONFIG_").partition("=")[0]
        for line in fragment().splitlines()
        if line.startswith("CONFIG_") and not line.endswith("=n") and line not in present
    ]
