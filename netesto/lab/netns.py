"""Builds a plan in this machine's kernel, and takes it down: a lab in network namespaces.

ip(8) and tc(8) run in batches: one process makes all namespaces, one all cables, one or two fill a
namespace. What the kernel has as a file or tells by netlink takes no process, but a thread that
enters the namespace and ends.
"""

import contextlib
import os
import platform
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path

from netesto import emulator
from netesto.collectors import capabilities, delays
from netesto.collectors.namespaces import within
from netesto.collectors.queues import Queues
from netesto.errors import LabError, MissingError, ProcessError, UsageError
from netesto.grounds import elsewhere
from netesto.lab import aliases, carrying, commands, records, teardown, ways
from netesto.lab.agents import Nursery, started
from netesto.lab.plan import LabPlan, Namespace
from netesto.lab.records import LabHost, Record
from netesto.links import made
from netesto.model import Endpoint
from netesto.system import interrupts, proc, process
from netesto.transport.addresses import SOCKET_PATH_MAX_BYTES

# Commands take milliseconds; the timeout is for a kernel that hangs.
COMMAND_TIMEOUT_S = 30.0

# Milliseconds, or a second if the kernel defers it.
CARRIER_TIMEOUT_S = 10.0

# Namespaces are filled in parallel: the kernel does the work.
BUILDERS = 4

# ip opens a file for each end of a cable and closes none of them; a process may usually open 1024.
CABLES_AT_ONCE = 50

# By which a program makes TAP devices.
TUN = "/dev/net/tun"

TOOLS: Mapping[str, str] = {
    "ip": "iproute2",
    "tc": "iproute2",
    "ethtool": "ethtool",
    "nsenter": "util-linux",
    "unshare": "util-linux",
}

# Buckets of a namespace's own table of TCP connections (128 KB). For each sample of sockets the
# kernel walks the whole table, which takes 15 µs; with a shared one of 262,144 buckets, 150 to 500
# µs. Even among 131,072 connections, most of them in TIME_WAIT, one is found in a few steps.
OWN_BUCKETS = 16384

# With a slightly larger shared table there is little to gain. Guests have at most 32,768 buckets.
LARGE_BUCKETS = 65536

_SYSCTLS = Path("/proc/sys")
_SHARED_BUCKETS = _SYSCTLS / "net/ipv4/tcp_ehash_entries"

# Runs a command in a namespace that ends with it. Namespaces created from there have their own
# tables.
_WITH_OWN_TABLES = (
    *("unshare", "--net", "/bin/sh", "-c"),
    f'echo {OWN_BUCKETS} > /proc/sys/net/ipv4/tcp_child_ehash_entries && exec "$0" "$@"',
)

_FAILED_LINE = re.compile(r"^Command failed -:(\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Lab:
    """A running lab, and its record in the folder `state`."""

    record: Record
    state: Path

    @property
    def id(self) -> str:
        """Its name on this machine, the prefix of its namespaces."""
        return self.record.lab

    @property
    def endpoints(self) -> dict[str, Endpoint]:
        """Every host that scripts may name, with its addresses."""
        return {
            name: Endpoint(
                host=name,
                agent=f"unix:{host.socket}",
                addresses={address.version: address for address in map(ip_address, host.addresses)},
            )
            for name, host in self.record.hosts.items()
        }

    @property
    def missing(self) -> list[str]:
        """The missing namespaces."""
        standing = teardown.identities(self.record.namespaces)
        return [name for name in self.record.namespaces if name not in standing]

    def command(self, node: str, argv: Sequence[str]) -> list[str]:
        """The command that runs `argv` at a host, router or switch. UsageError if the name is
        unknown."""
        namespaces = self.record.nodes
        if node not in namespaces:
            known = ", ".join(namespaces)
            raise UsageError(f"lab {self.id}: no host {node}", remedy=f"Nodes: {known}.")
        words = [process.program(argv[0]), *argv[1:]] if argv else []
        return ["ip", "netns", "exec", namespaces[node], *words]

    def shell(self, node: str, argv: Sequence[str]) -> list[str]:
        """`command` for a person: names of hosts resolve to their addresses, in a separate mount
        namespace that ends with the command; aliases, as words, stand for hosts and addresses."""
        named = self.record.aliases
        argv = [self._address_of(word) if word in named else word for word in argv]
        [*enter, program] = self.command(named.get(node, node), argv[:1])
        files = Path(self.record.files)
        if not files.is_dir():
            return [*enter, program, *argv[1:]]
        names = records.names_of(self.record)
        with contextlib.suppress(OSError):
            records.write_names(self.record)
        put = f"mount --bind {shlex.quote(str(names))} /etc/hosts 2>/dev/null"
        return [*enter, "/bin/sh", "-c", f'{put}; exec "$@"', "sh", program, *argv[1:]]

    def _address_of(self, alias: str) -> str:
        """The IPv4 address of the host that an alias means; a real address of the lab is itself."""
        if alias in self.record.places:
            return alias
        return str(self.endpoints[self.record.aliases[alias]].addresses[4])

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder while the body runs. It is one of the lab's files, so it goes with the lab if it
        is not removed before."""
        files = Path(self.record.files)
        files.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Anybody may write to a folder in memory.
        if files.lstat().st_uid != os.getuid():
            raise LabError(f"{files}: belongs to another user")
        with tempfile.TemporaryDirectory(dir=files) as folder:
            yield Path(folder)

    def exec(
        self, node: str, argv: Sequence[str], *, timeout: float, check: bool = True
    ) -> process.CompletedCommand:
        """Run a command at a node to its end. Errors as in `process.run`."""
        return process.run(self.command(node, argv), timeout=timeout, check=check)


@contextlib.contextmanager
def up(
    plan: LabPlan,
    *,
    state: Path = records.STATE_FOLDER,
    agents: bool = True,
    nursery: Nursery | None = None,
    allowed: Path | None = None,
) -> Iterator[Lab]:
    """A lab while the body runs; it is taken down after an error and after Ctrl-C, too.

    `nursery` starts its agents (default: a new one), which allow the commands of an agent.toml
    `allowed`. MissingError if the kernel lacks what the plan needs (nothing was built then),
    LabError if it cannot be built.
    """
    with _standing(plan, state, nursery, allowed, has_agents=agents) as (lab, _):
        yield lab


@contextlib.contextmanager
def _standing(
    plan: LabPlan, state: Path, nursery: Nursery | None, allowed: Path | None, *, has_agents: bool
) -> Iterator[tuple[Lab, Nursery | None]]:
    """The lab of `up`, and the nursery of its agents."""
    check(plan)
    lab = Lab(_record(plan, state), state)
    _refuse_taken(lab.record)
    with records.living(state, lab.id):
        is_recorded = False
        try:
            with interrupts.undisturbed():
                records.create(state, lab.record)
                is_recorded = True
            if has_agents or plan.program_links:
                _make_folders(lab.record)
            _build(plan, lab.record)
            with contextlib.ExitStack() as stack:
                if has_agents:
                    agents = started(lab.record, nursery, plan, allowed)
                    nursery = stack.enter_context(agents)
                yield lab, nursery
        except BaseException as first:
            if is_recorded:
                try:
                    _take_down_whatever_comes(lab)
                except LabError as second:
                    # It may be a consequence of the first, which is reported.
                    first.add_note(f"{second}\n`netesto clean` removes what is left.")
            raise
        _take_down_whatever_comes(lab)


def bring_up(plan: LabPlan, *, state: Path = records.STATE_FOLDER) -> Lab:
    """A lab that outlives this process until `take_down`. Errors as in `up`."""
    # Until it is complete, it ends with this process.
    with _standing(plan, state, None, None, has_agents=True) as (lab, nursery):
        assert nursery is not None, "it has agents"
        nursery.let_stay()
        return replace(lab, record=records.let_stay(state, lab.record))


def attach(lab: str, *, state: Path = records.STATE_FOLDER) -> Lab:
    """A lab that was brought up before. UsageError if the name is not recorded."""
    path = records.path_of(state, lab)
    if not path.exists():
        known = ", ".join(record.lab for record in records.read_all(state))
        raise UsageError(f"no lab {lab}", remedy=f"Labs: {known}." if known else "No lab is up.")
    return Lab(records.read(path), state)


def take_down(lab: Lab) -> list[str]:
    """Remove the lab; return what was removed, in words. A missing lab is not an error."""
    with interrupts.undisturbed():
        return teardown.take_down(lab.state, lab.record)


def _take_down_whatever_comes(lab: Lab) -> None:
    """Take it down, unless it should stay, even if the first request to end arrives now."""
    if records.is_to_stay(lab.state, lab.id):
        return
    try:
        take_down(lab)
    except KeyboardInterrupt:
        take_down(lab)
        raise


# ---- before anything is built ----------------------------------------------------------------


def check(plan: LabPlan) -> None:
    """MissingError or LabError if this machine cannot build the plan, with the part that needs it.
    Changes nothing."""
    if os.geteuid() != 0:
        raise LabError(
            "a lab in this machine's kernel needs root: it creates network namespaces",
            remedy="Run it with sudo. A lab of `netesto run --ground uml` needs no root.",
        )
    if not (proc.has_capability(proc.CAP_SYS_ADMIN) and proc.has_capability(proc.CAP_NET_ADMIN)):
        raise LabError(
            "a lab in this machine's kernel needs CAP_SYS_ADMIN and CAP_NET_ADMIN, which this"
            " container does not have: it creates network namespaces",
            remedy="Start the container with --privileged. A lab of `netesto run --ground uml`"
            " needs no capability.",
        )
    if plan.program_links:
        emulator.program()
        if not Path(TUN).exists():
            raise MissingError(
                f"{TUN}: not in this kernel ({platform.release()}), or this container",
                remedy="A link that the program carries (protect=, emulator=program) needs it;"
                " `--ground uml` and `--ground sim` have it.",
            )
    without_offload = any(map(commands.offload_words, plan.namespaces))
    for tool, package in TOOLS.items():
        if (tool != "ethtool" or without_offload) and shutil.which(tool) is None:
            raise MissingError(f"{tool}: not found", remedy=f"In Debian: apt install {package}")
    if plan.links:
        check_kernel(plan, capabilities.probe())


def check_kernel(plan: LabPlan, kernel: capabilities.Capabilities) -> None:
    """MissingError if the kernel lacks a qdisc of the plan. If its qdiscs are unknown, building the
    lab will show it."""
    if kernel.qdiscs is None:
        return
    for link in plan.topology.links:
        each = [made.direction(link.sent_by(node), plan.maker) for node in (link.a, link.b)]
        for kind in dict.fromkeys(kind for one in each for kind in one.kinds):
            if kind not in kernel.qdiscs:
                wanted = made.wanted_by(link.settings, kind)
                raise MissingError(
                    f"qdisc {kind}: not in this kernel ({kernel.kernel})"
                    + elsewhere(kind, proc.ground_inside()),
                    remedy=f"{wanted} needs it, on the link {link.a} - {link.b}.",
                )


# ---- building --------------------------------------------------------------------------------


def _record(plan: LabPlan, state: Path) -> Record:
    sockets = records.SOCKET_FOLDER / plan.prefix
    hosts = {
        namespace.node.name: LabHost(
            namespace=namespace.name,
            socket=str(sockets / namespace.node.name),
            device=namespace.device,
            addresses=tuple(map(str, namespace.addresses.values())),
        )
        for namespace in plan.namespaces
        if namespace.node.agent
    }
    for host in hosts.values():
        if len(os.fsencode(host.socket)) > SOCKET_PATH_MAX_BYTES:
            raise LabError(f"{host.socket}: longer than a socket's {SOCKET_PATH_MAX_BYTES} bytes")
    return Record(
        lab=plan.prefix,
        topology=plan.topology.name,
        owner=os.getpid(),
        namespaces=tuple(namespace.name for namespace in plan.namespaces),
        sockets=str(sockets),
        files=str(records.files_of(state, plan.prefix)),
        hosts=hosts,
        places={
            str(address.ip): (namespace.node.name, end.name)
            for namespace in plan.namespaces
            for end in namespace.interfaces
            for address in end.addresses
            if address.version == 4
        },
        aliases=dict(aliases.of(plan.topology)),
        routers=tuple(
            node.name for node in plan.topology.nodes if node.kind == "router" and node.forwards
        ),
    )


def _refuse_taken(record: Record) -> None:
    """LabError if something already has the lab's names: the teardown would remove it."""
    paths = [records.NAMESPACE_FOLDER / name for name in record.namespaces]
    for path in (*paths, Path(record.sockets), Path(record.files)):
        if path.exists():
            raise LabError(f"lab {record.lab}: {path} exists already", remedy="netesto lab status")


def _build(plan: LabPlan, record: Record) -> None:
    derived = _make_namespaces(plan)
    with ThreadPoolExecutor(BUILDERS) as builders:
        # Threads are useless on one processor; in simulated time they also bring chance.
        each = builders.map if len(os.sched_getaffinity(0)) > 1 else map
        # New interfaces take their sysctls from `default`, so these come first.
        list(each(partial(_set_sysctls, derived), plan.namespaces))
        cables = commands.cable_lines(plan)
        for begin in range(0, len(cables), CABLES_AT_ONCE):
            _batch(["ip"], cables[begin : begin + CABLES_AT_ONCE])
        list(each(_fill, plan.namespaces))
        carrying.start(plan, record)
        for build in (_wait_until_up, _add_choices):
            list(each(build, plan.namespaces))
    ways.check(plan, record)


def _make_folders(record: Record) -> None:
    for folder in (Path(record.sockets), Path(record.files)):
        try:
            folder.mkdir(mode=0o700, parents=True)
        except OSError as error:
            raise LabError(f"{folder}: {error.strerror}") from error


def _make_namespaces(plan: LabPlan) -> dict[str, str]:
    """Create the namespaces, with separate TCP tables if the shared one is large. Return sysctls
    that undo what else the kernel derives from a table's size."""
    lines = [f"netns add {namespace.name}" for namespace in plan.namespaces]
    buckets = shared_buckets()
    if buckets < LARGE_BUCKETS:
        _batch(["ip"], lines)
        return {}
    _batch(["ip"], lines, through=_WITH_OWN_TABLES)
    # tcp_set_hashinfo in net/ipv4/tcp_ipv4.c
    return {
        "net.ipv4.tcp_max_tw_buckets": str(buckets // 2),
        "net.ipv4.tcp_max_syn_backlog": str(buckets // 128),
    }


def shared_buckets() -> int:
    """The size of the table of TCP connections that namespaces share; 0 before Linux 6.1, in which
    there is no other."""
    try:
        return abs(int(_SHARED_BUCKETS.read_text(encoding="ascii")))
    except FileNotFoundError:
        return 0


def _set_sysctls(derived: Mapping[str, str], namespace: Namespace) -> None:
    def write() -> None:
        for name, value in {**derived, **namespace.sysctls}.items():
            (_SYSCTLS / name.replace(".", "/")).write_text(value, encoding="ascii")

    with _building(namespace):
        within(namespace.name, write)


def _fill(namespace: Namespace) -> None:
    _batch(["ip", "-netns", namespace.name], commands.ip_lines(namespace))
    _batch(["tc", "-netns", namespace.name], commands.tc_lines(namespace))
    with _building(namespace):
        for end in namespace.interfaces:
            if end.direction.delay_ns is not None:
                delays.make_exact(namespace.name, end.name, end.direction.delay_ns)
    for device, words in commands.offload_words(namespace).items():
        ethtool = [process.program("ethtool"), "-K", device, *words]
        _run(["nsenter", f"--net={records.NAMESPACE_FOLDER / namespace.name}", *ethtool])


def _wait_until_up(namespace: Namespace) -> None:
    """Wait until every interface carries packets, some time after `up`."""
    names = {end.name for end in namespace.interfaces}
    with _building(namespace), contextlib.closing(Queues(namespace.name)) as kernel:
        if not process.wait_until(lambda: names <= kernel.up(), timeout=CARRIER_TIMEOUT_S):
            down = ", ".join(sorted(names - kernel.up()))
            raise LabError(f"{namespace.name}: not up after {CARRIER_TIMEOUT_S:g} s: {down}")


def _add_choices(namespace: Namespace) -> None:
    _batch(["ip", "-netns", namespace.name], commands.choice_lines(namespace))


@contextlib.contextmanager
def _building(namespace: Namespace) -> Iterator[None]:
    """What the kernel refuses in a namespace is a LabError."""
    try:
        yield
    except OSError as error:
        what = error.filename or namespace.name
        raise LabError(f"cannot build the lab: {what}: {error.strerror}") from error


def _run(argv: Sequence[str]) -> process.CompletedCommand:
    try:
        return process.run(argv, timeout=COMMAND_TIMEOUT_S)
    except ProcessError as error:
        raise LabError(f"cannot build the lab: {' '.join(argv)}: {error}") from error


def _batch(tool: Sequence[str], lines: Sequence[str], *, through: Sequence[str] = ()) -> None:
    """Execute `lines` by ip or tc, run `through` a command; LabError with the failed line and the
    reason."""
    if not lines:
        return
    argv = [*through, *tool, "-batch", "-"]
    try:
        stdin = "".join(f"{line}\n" for line in lines)
        finished = process.run(argv, timeout=COMMAND_TIMEOUT_S, check=False, stdin=stdin)
    except ProcessError as error:
        raise LabError(f"cannot build the lab: {error}") from error
    if finished.status != 0:
        complaint = _complaint(tool, lines, finished.stderr)
        if "Failed to load TC action module" in complaint:
            raise MissingError(
                f"policing: not in this kernel ({platform.release()})"
                + elsewhere("police", proc.ground_inside()),
                remedy=f"police= needs it: {complaint}",
            )
        raise LabError(f"cannot build the lab: {complaint}")


def _complaint(tool: Sequence[str], lines: Sequence[str], stderr: str) -> str:
    """The failed command, as typed by hand, and the reason."""
    failed = _FAILED_LINE.search(stderr)
    line = f" {lines[int(failed[1]) - 1]}" if failed else ""
    reason = " ".join(_FAILED_LINE.sub("", stderr).split())
    return f"{' '.join(tool)}{line}: {reason}"
