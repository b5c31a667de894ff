"""Where a run happens. A ground is a class that says in what it differs from the others; plans,
requests and manifests have its name, and nothing else compares names of grounds."""

from collections.abc import Mapping
from typing import ClassVar, Literal

# A token bucket achieves its rate only if it never overflows between two refills. Timers of a busy
# virtual machine are late by some hundred microseconds.
SHAPER_BURST_S = 0.001


class Ground:
    """Where a run happens: by default in a lab of this machine, in real time.

    name             in command lines, plans and manifests
    words            on pages: "measured in …"
    kernel_words     before the release of its kernel, when its lab is built
    is_built         the run builds its hosts, which are as it needs them, and end with it. Others
                     are examined before a run, and keep what a script tells them to keep
    on_one_machine   its hosts share processors, and a clock, with the controller
    in_this_kernel   its hosts share the kernel of the controller's machine, and its quotas
    kernel           of its guests: the distribution's, or one that `netesto kernel build` makes;
                     None if it has none. Parts of a script may run side by side in guests
    is_simulated     time passes only when all processes wait; computing takes none. Parts of a
                     script always run in guests of their own
    shaper_burst_s   what a shaper lets through at once, as time at its rate
    beat_s           the interval, in its time, between signs of life of its guests
    """

    name: ClassVar[str]
    words: ClassVar[str]
    kernel_words: ClassVar[str] = ""
    is_built: ClassVar[bool] = True
    on_one_machine: ClassVar[bool] = True
    in_this_kernel: ClassVar[bool] = False
    kernel: ClassVar[Literal["distribution", "built"] | None] = None
    is_simulated: ClassVar[bool] = False
    shaper_burst_s: ClassVar[float] = SHAPER_BURST_S
    beat_s: ClassVar[float] = 1.0

    def __str__(self) -> str:
        return self.name

    @property
    def has_guests(self) -> bool:
        """Whether its labs are in kernels of their own, and so may run side by side."""
        return self.kernel is not None


class ThisKernel(Ground):
    """Namespaces of the running kernel."""

    name = "lab"
    words = "a lab of network namespaces on one machine"
    kernel_words = "namespaces on this machine's kernel,"
    in_this_kernel = True


class UserMode(Ground):
    """Namespaces of a user-mode kernel."""

    name = "uml"
    words = "a lab inside a user-mode Linux kernel"
    kernel_words = "namespaces in a user-mode kernel,"
    kernel = "distribution"
    # It is a process and has to wait for a processor: at 100 Mbit/s, beside three programs that
    # kept both processors busy, 1 ms gave 86 % of the rate, and 5 ms all of it.
    shaper_burst_s = 0.005


class SimulatedTime(Ground):
    """Namespaces of a user-mode kernel whose time is simulated."""

    name = "sim"
    words = "a lab inside a kernel in simulated time"
    kernel_words = "namespaces in simulated time, kernel"
    kernel = "built"
    is_simulated = True
    # Simulated time passes in bursts.
    beat_s = 0.1


class RealHosts(Ground):
    """The hosts that the user names."""

    name = "hosts"
    words = "real hosts"
    is_built = False
    on_one_machine = False


# What kernels of guests have, Debian's 6.1 and that of simulated time, and others may lack.
GUEST_CONTROLS = (
    "bbr", "bic", "cdg", "dctcp", "westwood", "highspeed", "hybla", "htcp", "vegas", "nv", "veno",
    "scalable", "lp", "yeah", "illinois",
)  # fmt: skip
GUEST_QDISCS = (
    "netem", "tbf", "htb", "fq", "fq_codel", "codel", "cake", "red", "pie", "fq_pie", "sfq", "sfb",
    "choke", "hhf", "drr", "ets", "gred", "hfsc", "prio", "qfq", "plug", "ingress", "multiq",
)  # fmt: skip
GUEST_FEATURES = frozenset({*GUEST_CONTROLS, *GUEST_QDISCS, "police"})

LAB, UML, SIM, HOSTS = ThisKernel(), UserMode(), SimulatedTime(), RealHosts()

GROUNDS: Mapping[str, Ground] = {
    each.name: each
    for each in (
        LAB,
        UML,
        SIM,
        HOSTS,
    )
}


def find(name: str | None) -> Ground | None:
    """The ground of this name; None if there is none, as that of imported measurements."""
    return GROUNDS.get(name or "")


def elsewhere(feature: str, inside: Ground | None) -> str:
    """The ground that has a qdisc, congestion control or action which the kernel of the ground
    `inside` (None: of no guest) lacks, as the end of a message; empty if none has."""
    return f"; `--ground {UML}` has it" if inside is None and feature in GUEST_FEATURES else ""
