"""Carries a plan out in this machine's kernel, and takes it back: a lab in network namespaces.

Everything goes through the netlink of ip(8) and tc(8) in batches: one process makes all
namespaces, one all cables, one or two fill a namespace. This process itself never enters a
namespace, so it may have threads of any kind.
"""

import contextlib
import os
import re
import selectors
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from time import monotonic

from netesto import interrupts, proc, process
from netesto.collectors import capabilities
from netesto.errors import LabError, MissingError, ProcessError, UsageError
from netesto.lab import commands, queueing, records, teardown, ways
from netesto.lab import nursery as nurseries
from netesto.lab.nursery import Starter
from netesto.lab.plan import Namespace, Plan
from netesto.lab.records import NAMESPACE_FOLDER, HostRecord, Record
from netesto.model import Endpoint
from netesto.proc import ProcessIdentity

# Each is done in milliseconds; the deadline is for a kernel that hangs.
COMMAND_TIMEOUT_S = 30.0

# Milliseconds; a second where the kernel puts it off.
CARRIER_TIMEOUT_S = 10.0

# An agent imports its libraries first, and on a small machine many do so at once.
AGENT_TIMEOUT_S = 60.0

# sun_path holds 108 bytes with its NUL; a longer name fails only at bind.
SOCKET_PATH_MAX = 107

# Namespaces are filled side by side: the kernel, not this process, does the work.
BUILDERS = 4

TOOLS: Mapping[str, str] = {
    "ip": "iproute2",
    "tc": "iproute2",
    "sysctl": "procps",
    "ethtool": "ethtool",
    "nsenter": "util-linux",
}

_FAILED_LINE = re.compile(r"^Command failed -:(\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Lab:
    """A lab that is up. `record` is what was written down of it, in the folder `state`."""

    record: Record
    state: Path

    @property
    def id(self) -> str:
        """Its name on this machine, with which the names of its namespaces begin."""
        return self.record.lab

    @property
    def endpoints(self) -> dict[str, Endpoint]:
        """Every host that scripts may name, as the controller reaches it."""
        return {
            name: Endpoint(
                host=name,
                agent=f"unix:{host.socket}",
                addresses={address.version: address for address in map(ip_address, host.addresses)},
            )
            for name, host in self.record.hosts.items()
        }

    def command(self, node: str, argv: Sequence[str]) -> list[str]:
        """The command that runs `argv` at a host, router or switch. UsageError if there is none
        of that name."""
        namespaces = {name.removeprefix(f"{self.id}-"): name for name in self.record.namespaces}
        if node not in namespaces:
            known = ", ".join(namespaces)
            raise UsageError(f"lab {self.id}: no host {node}", remedy=f"There are {known}.")
        words = [process.program(argv[0]), *argv[1:]] if argv else []
        return ["ip", "netns", "exec", namespaces[node], *words]

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder for as long as the body runs. It is among the lab's files: should nobody be left
        to remove it, it goes with the lab."""
        files = Path(self.record.files)
        files.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=files) as folder:
            yield Path(folder)

    def exec(
        self, node: str, argv: Sequence[str], *, timeout: float, check: bool = True
    ) -> process.Finished:
        """Run a command at a node to its end. Errors as in `process.run`."""
        return process.run(self.command(node, argv), timeout=timeout, check=check)


@contextlib.contextmanager
def up(
    plan: Plan,
    *,
    state: Path = records.STATE_FOLDER,
    agents: bool = True,
    nursery: Starter | None = None,
) -> Iterator[Lab]:
    """A lab for as long as the body runs; it goes away after an error and after Ctrl-C too.

    Its agents are started by `nursery`; without one, by a new one.

    MissingError if the kernel lacks what the plan asks for (nothing was built then), LabError if
    it cannot be built.
    """
    check(plan)
    lab = Lab(_record(plan, state), state)
    _refuse_taken(lab.record)
    with records.living(state, lab.id):
        is_recorded = False
        try:
            with interrupts.undisturbed():
                records.create(state, lab.record)
                is_recorded = True
            yield _brought_up(plan, lab, agents=agents, nursery=nursery)
        finally:
            if is_recorded and not records.is_to_stay(state, lab.id):
                _take_down_whatever_comes(lab)


def bring_up(plan: Plan, *, state: Path = records.STATE_FOLDER, agents: bool = True) -> Lab:
    """A lab that stays, also after this process, until `take_down`. Errors as in `up`."""
    # Until it is whole, it is one that goes away with us.
    with up(plan, state=state, agents=agents) as lab:
        return replace(lab, record=records.let_stay(state, lab.record))


def attach(lab: str, *, state: Path = records.STATE_FOLDER) -> Lab:
    """A lab that was brought up before. UsageError if none of that name is recorded."""
    path = records.path_of(state, lab)
    if not path.exists():
        known = ", ".join(record.lab for record in records.read_all(state))
        raise UsageError(f"no lab {lab}", remedy=f"Labs: {known}." if known else "There is none.")
    return Lab(records.read(path), state)


def take_down(lab: Lab) -> list[str]:
    """Remove the lab; what was there, in words. One that is gone already is fine."""
    path = records.path_of(lab.state, lab.id)
    with interrupts.undisturbed():
        # The record has grown since: agents were started.
        record = records.read(path) if path.exists() else lab.record
        return teardown.take_down(lab.state, record)


def _take_down_whatever_comes(lab: Lab) -> None:
    """Also where the request to end, of which there is one, comes as this begins."""
    try:
        take_down(lab)
    except KeyboardInterrupt:
        take_down(lab)
        raise


# ---- before anything is built ----------------------------------------------------------------


def check(plan: Plan) -> None:
    """MissingError or LabError if this machine cannot carry the plan out, with what asked for it.

    Looks, and changes nothing.
    """
    if os.geteuid() != 0:
        raise LabError(
            "a lab in this machine's kernel needs root: it makes network namespaces",
            remedy="Run it with sudo, or with --ground uml, which needs no root.",
        )
    without_offload = any(map(commands.without_offload, plan.namespaces))
    for tool, package in TOOLS.items():
        if (tool != "ethtool" or without_offload) and shutil.which(tool) is None:
            raise MissingError(f"{tool}: not found", remedy=f"In Debian: apt install {package}")
    if any(queueing.kinds(link.settings) for link in plan.topology.links):
        check_kernel(plan, capabilities.probe())


def check_kernel(plan: Plan, kernel: capabilities.Capabilities) -> None:
    """MissingError if the kernel lacks a qdisc of the plan. One that could not be asked passes:
    then the building will tell."""
    if kernel.qdiscs is None:
        return
    for link in plan.topology.links:
        for kind in queueing.kinds(link.settings):
            if kind not in kernel.qdiscs:
                wanted = queueing.wanted_by(link.settings, kind)
                raise MissingError(
                    f"qdisc {kind}: not in this kernel ({kernel.kernel}); `--ground uml` has it",
                    remedy=f"{wanted} asks for it, on the link {link.a} - {link.b}.",
                )


# ---- building --------------------------------------------------------------------------------


def _record(plan: Plan, state: Path) -> Record:
    sockets = records.SOCKET_FOLDER / plan.prefix
    hosts = {
        namespace.node.name: HostRecord(
            namespace=namespace.name,
            socket=str(sockets / namespace.node.name),
            device=namespace.device,
            addresses=tuple(map(str, namespace.addresses.values())),
        )
        for namespace in plan.namespaces
        if namespace.node.agent
    }
    for host in hosts.values():
        if len(os.fsencode(host.socket)) > SOCKET_PATH_MAX:
            raise LabError(f"{host.socket}: longer than a socket's {SOCKET_PATH_MAX} bytes")
    return Record(
        lab=plan.prefix,
        topology=plan.topology.name,
        owner=proc.identity_of(os.getpid()),
        namespaces=tuple(namespace.name for namespace in plan.namespaces),
        sockets=str(sockets),
        files=str(state.resolve() / plan.prefix),
        hosts=hosts,
    )


def _brought_up(plan: Plan, lab: Lab, *, agents: bool, nursery: Starter | None = None) -> Lab:
    """Build a lab that is written down."""
    _build(plan)
    if not agents:
        return lab
    _start_agents(lab, nursery, links=plan.links)
    return replace(lab, record=records.read(records.path_of(lab.state, lab.id)))


def _refuse_taken(record: Record) -> None:
    """LabError if something of that name is there: it is not ours, and we would remove it."""
    paths = [records.NAMESPACE_FOLDER / name for name in record.namespaces]
    for path in (*paths, Path(record.sockets), Path(record.files)):
        if path.exists():
            raise LabError(f"lab {record.lab}: {path} exists already", remedy="netesto lab status")


def _build(plan: Plan) -> None:
    _batch(["ip"], [f"netns add {namespace.name}" for namespace in plan.namespaces])
    with ThreadPoolExecutor(BUILDERS) as builders:
        # One processor has no use for threads; in simulated time they bring chance, too.
        each = builders.map if len(os.sched_getaffinity(0)) > 1 else map
        # Interfaces take their sysctls from `default` as they appear, so these come first.
        _for_each(each, _set_sysctls, plan.namespaces)
        _batch(["ip"], commands.cable_lines(plan))
        _for_each(each, _fill, plan.namespaces)
        _for_each(each, _wait_until_up, plan.namespaces)
        _for_each(each, _add_choices, plan.namespaces)
    ways.check(plan)


def _for_each(
    each: Callable[..., Iterable[None]],
    build: Callable[[Namespace], None],
    namespaces: Iterable[Namespace],
) -> None:
    for _ in each(build, namespaces):
        pass


def _set_sysctls(namespace: Namespace) -> None:
    enter = ["nsenter", f"--net={records.NAMESPACE_FOLDER / namespace.name}"]
    _run([*enter, process.program("sysctl"), "-q", "-w", *commands.sysctl_words(namespace)])


def _fill(namespace: Namespace) -> None:
    _batch(["ip", "-netns", namespace.name], commands.ip_lines(namespace))
    _batch(["tc", "-netns", namespace.name], commands.tc_lines(namespace))
    for device in commands.without_offload(namespace):
        enter = ["nsenter", f"--net={records.NAMESPACE_FOLDER / namespace.name}"]
        _run([*enter, process.program("ethtool"), "-K", device, *commands.OFFLOADS_OFF])


def _wait_until_up(namespace: Namespace) -> None:
    """Until every interface carries packets: the kernel sees to that some time after `up`."""
    names = {end.name for end in namespace.interfaces}
    if not process.wait_until(lambda: names <= _carrying(namespace), timeout=CARRIER_TIMEOUT_S):
        down = ", ".join(sorted(names - _carrying(namespace)))
        raise LabError(f"{namespace.name}: not up after {CARRIER_TIMEOUT_S:g} s: {down}")


def _add_choices(namespace: Namespace) -> None:
    _batch(["ip", "-netns", namespace.name], commands.choice_lines(namespace))


def _carrying(namespace: Namespace) -> set[str]:
    argv = ["ip", "-netns", namespace.name, "-brief", "link", "show", "up"]
    lines = _run(argv).stdout.splitlines()
    columns = (line.split() for line in lines)
    return {name.partition("@")[0] for name, state, *_ in columns if state == "UP"}


def _run(argv: Sequence[str]) -> process.Finished:
    try:
        return process.run(argv, timeout=COMMAND_TIMEOUT_S)
    except ProcessError as error:
        raise LabError(f"cannot build the lab: {' '.join(argv)}: {error}") from error


def _batch(tool: Sequence[str], lines: Sequence[str]) -> None:
    """Have ip or tc carry out `lines`; LabError with the line that failed and the reason."""
    if not lines:
        return
    argv = [*tool, "-batch", "-"]
    try:
        stdin = "".join(f"{line}\n" for line in lines)
        finished = process.run(argv, timeout=COMMAND_TIMEOUT_S, check=False, stdin=stdin)
    except ProcessError as error:
        raise LabError(f"cannot build the lab: {error}") from error
    if finished.status != 0:
        raise LabError(f"cannot build the lab: {_complaint(tool, lines, finished.stderr)}")


def _complaint(tool: Sequence[str], lines: Sequence[str], stderr: str) -> str:
    """What failed, as a person would type it, and why."""
    failed = _FAILED_LINE.search(stderr)
    line = f" {lines[int(failed[1]) - 1]}" if failed else ""
    reason = " ".join(_FAILED_LINE.sub("", stderr).split())
    return f"{' '.join(tool)}{line}: {reason}"


# ---- agents ----------------------------------------------------------------------------------


def _start_agents(lab: Lab, nursery: Starter | None, *, links: str) -> None:
    """Start all agents, write them down, and wait until each says that it is ready."""
    for folder in (Path(lab.record.sockets), Path(lab.record.files)):
        try:
            folder.mkdir(mode=0o700, parents=True)
        except OSError as error:
            raise LabError(f"{folder}: {error.strerror}") from error
    with contextlib.ExitStack() as stack:
        if nursery is None:
            log = Path(lab.record.files) / "nursery.log"
            nursery = stack.enter_context(nurseries.spawned(log))
        selector = stack.enter_context(selectors.DefaultSelector())
        agents: dict[str, ProcessIdentity] = {}
        for host in lab.record.hosts:
            reader, writer = os.pipe()
            stack.callback(os.close, reader)
            try:
                pid = _start_agent(lab, host, nursery, writer, links=links)
            finally:
                os.close(writer)
            if (identity := proc.identity_of(pid)) is not None:
                agents[host] = identity
            selector.register(reader, selectors.EVENT_READ, host)
        records.update(lab.state, replace(lab.record, agents=agents))
        _wait_for_agents(lab, selector)


def _start_agent(lab: Lab, host: str, nursery: Starter, ready: int, *, links: str) -> int:
    record = lab.record.hosts[host]
    folder = Path(lab.record.files) / host
    folder.mkdir()
    listen = ["--listen", f"unix:{record.socket}"]
    return nursery.start(
        [
            *listen,
            *("--state", str(folder)),
            *("--host", host),
            *("--device", record.device),
            *("--links", links),
        ],
        namespace=NAMESPACE_FOLDER / record.namespace,
        log=_log(lab, host),
        ready=ready,
    )


def _log(lab: Lab, host: str) -> Path:
    return Path(lab.record.files) / f"{host}.log"


def _wait_for_agents(lab: Lab, selector: selectors.BaseSelector) -> None:
    """Until each agent has written to its pipe. LabError if one ends instead, or takes too long."""
    waiting = set(lab.record.hosts)
    deadline = monotonic() + AGENT_TIMEOUT_S
    while waiting:
        events = selector.select(deadline - monotonic())
        if not events:
            names = ", ".join(sorted(waiting))
            raise LabError(f"agents not ready after {AGENT_TIMEOUT_S:g} s: {names}")
        for key, _ in events:
            if not os.read(key.fd, 1):
                tail = _log(lab, key.data).read_text(errors="replace")[-500:].strip()
                raise LabError(f"the agent of {key.data} ended before it was ready: {tail}")
            selector.unregister(key.fd)
            waiting.discard(key.data)
