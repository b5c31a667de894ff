"""Agents on hosts for the command line: `netesto hosts install|remove|bundle`."""

import argparse
import asyncio
import functools
import platform
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import TypeAlias, TypeVar

from netesto.cli import printing
from netesto.cli.display import Display
from netesto.cli.hosts import HOSTS_FILE
from netesto.controller import ansible, hostsfile
from netesto.controller.inventory import load
from netesto.deploy import payload, plan, remote, target
from netesto.deploy.facts import Facts
from netesto.deploy.plan import HostPlan, WantedHost
from netesto.deploy.supply import Supply
from netesto.deploy.target import Target
from netesto.errors import AgentBusyError, AgentError, NoAnswerError, UsageError, WorldError
from netesto.files import atomic, paths
from netesto.flowspec import ALWAYS_THERE
from netesto.grounds import HOSTS
from netesto.limits import allowed
from netesto.model import Endpoint
from netesto.results import csvfile, tablerows
from netesto.run import agents, status
from netesto.system import owned
from netesto.transport import addresses
from netesto.transport.addresses import AgentAddress, SshAddress

T = TypeVar("T")
Planner: TypeAlias = Callable[[Target, Facts], Awaitable[HostPlan]]

# A flow of this duration shows that tools, ports and addresses work.
PROOF_S = 2
PROOF_WAIT_S = 30.0


def install(options: argparse.Namespace) -> int:
    """Install an agent on each host, test it, and write the hosts file."""
    hosts = _targets(options, "install")
    if options.device:
        allowed.check_device(options.device)
    path = options.hosts or HOSTS_FILE
    _check_writable(path, hosts)
    kept = payload.foreseen if options.dry_run else payload.cached
    supply = Supply(_wanted_host(options), printing.out, kept=kept)

    async def planned(host: Target, facts: Facts) -> HostPlan:
        return plan.install(facts, await supply.to(facts), name=host.name)

    done = _carry_out(hosts, planned, dry=options.dry_run, taken=_other_addresses(path, hosts))
    if options.dry_run:
        return done.tell("", "nothing to do")
    outcome = done.tell("installed", "up to date: nothing to do")
    _write(path, done, options.device)
    return max(outcome, _prove(path, done)) if done.changed else outcome


def remove(options: argparse.Namespace) -> int:
    """Remove the agent of each host, and all that its installation brought."""

    async def planned(_: Target, facts: Facts) -> HostPlan:
        return plan.remove(facts, force=options.force)

    done = _carry_out(_targets(options, "remove"), planned, dry=options.dry_run)
    return done.tell("" if options.dry_run else "removed", "no agent from 'hosts install'")


def bundle(options: argparse.Namespace) -> int:
    """Write the packages of agents into a file."""
    here = (".".join(map(str, sys.version_info[:2])), platform.machine())
    pairs = [
        (python, machine)
        for machine in options.machines or [here[1]]
        for python in options.pythons or [here[0]]
    ]
    for made in asyncio.run(payload.make_bundle(options.output, pairs)):
        glibc = ".".join(map(str, made.glibc))
        printing.out(f"Python {made.python} on {made.machine}, glibc {glibc} or later")
    printing.out(f"bundle   {options.output}")
    return status.OK


def _targets(options: argparse.Namespace, verb: str) -> list[Target]:
    """The hosts that are named, or all of the hosts file. UsageError if there are none."""
    path = options.hosts or HOSTS_FILE
    # A new file gets the named hosts.
    is_needed = options.hosts is not None and not options.names
    known = load(str(path)).endpoints if path.exists() or is_needed else {}
    named = [
        each
        for text in options.names
        for each in ([known[text]] if text in known else load(text).endpoints.values())
    ]
    found = {each.host: target.of(each) for each in named or known.values()}
    if not found:
        raise UsageError(
            f"no host given, and no {HOSTS_FILE}",
            remedy=f"Write: netesto hosts {verb} root@host1 root@host2",
        )
    hosts = [each.host for each in named]
    if twice := next((name for name in hosts if hosts.count(name) > 1), ""):
        raise UsageError(f"host {twice} is given twice", remedy="Give each host once.")
    return list(found.values())


def _check_writable(path: Path, hosts: Sequence[Target]) -> None:
    """WorldError, before anything is done, if the hosts file lacks one of the hosts and cannot be
    written."""
    if path.suffix in ansible.SUFFIXES:
        return
    known = load(str(path)).endpoints if path.exists() else {}
    if any(host.name not in known for host in hosts):
        try:
            with tempfile.TemporaryFile(dir=path.parent):
                pass
        except OSError as error:
            raise _cannot_write(path, error) from error


def _cannot_write(path: Path, error: OSError) -> WorldError:
    return WorldError(f"{path}: cannot write: {error.strerror}")


def _other_addresses(path: Path, hosts: Sequence[Target]) -> dict[str, str]:
    """The addresses of the other hosts in the hosts file, each with its host."""
    if not path.exists() or path.suffix in ansible.SUFFIXES:
        return {}
    names = {host.name for host in hosts}
    return {
        str(address): f"{each.host} in {path}"
        for each in load(str(path)).endpoints.values()
        if each.host not in names
        for address in each.addresses.values()
    }


def _wanted_host(options: argparse.Namespace) -> WantedHost:
    remote_folder = paths.data_folder() / "remote"
    bundled = payload.read_bundle(options.bundle) if options.bundle else []
    return WantedHost(
        code=functools.cache(payload.code),
        packages=[payload.own(), *bundled],
        requirements=payload.locked(),
        unit=(remote_folder / "netesto-agent.service").read_text(encoding="utf-8"),
        tools_script=(remote_folder / "install-packages").read_text(encoding="utf-8"),
        with_tools=not options.no_tools,
        offline=options.offline or options.bundle is not None,
        device=options.device,
    )


@dataclass(frozen=True, slots=True)
class _Done:
    """The result for each host: its plan as carried out, or the error."""

    hosts: Sequence[Target]
    plans: Mapping[str, HostPlan]
    errors: Sequence[AgentError]

    @property
    def changed(self) -> list[str]:
        """Hosts on which something was done, in order."""
        failed = {error.host for error in self.errors}
        return [name for name, each in self.plans.items() if each.steps and name not in failed]

    @property
    def good(self) -> list[Target]:
        """Hosts without an error, in order."""
        failed = {error.host for error in self.errors}
        return [host for host in self.hosts if host.name in self.plans and host.name not in failed]

    def tell(self, done: str, nothing: str) -> int:
        """Print the end of each host; the exit status."""
        for host in self.good:
            what = done if self.plans[host.name].steps else nothing
            for note in (what, *self.plans[host.name].notes):
                if note:
                    printing.out(f"{host.name}: {note}")
        for error in self.errors:
            printing.err(f"netesto: {error}")
        return status.NOT_READY if self.errors else status.OK


def _carry_out(
    hosts: Sequence[Target],
    planned: Planner,
    *,
    dry: bool,
    taken: dict[str, str] | None = None,
) -> _Done:
    try:
        return asyncio.run(_carried_out(hosts, planned, dry=dry, taken=taken))
    except KeyboardInterrupt:
        if not dry:
            printing.err("Repeat the command: it continues where it stopped.")
        raise


async def _carried_out(
    hosts: Sequence[Target],
    planned: Planner,
    *,
    dry: bool,
    taken: dict[str, str] | None,
) -> _Done:
    """Examine all hosts, print the steps, and execute them, on all hosts at once and independently.
    `taken` are addresses of other hosts: each machine may appear only once."""
    found = await _side_by_side((host, _planned(host, planned)) for host in hosts)
    if taken is not None:
        found = [*_each_machine_once(hosts, found, taken)]
    errors = [each for each in found if isinstance(each, AgentError)]
    plans = {
        host.name: each
        for host, each in zip(hosts, found, strict=True)
        if not isinstance(each, AgentError)
    }
    for name, each in plans.items():
        for step in each.steps:
            if step.words:
                printing.out(f"{name}: {step.words}", flush=True)
    if not dry:
        ready = [host for host in hosts if host.name in plans and plans[host.name].steps]
        ends = await _side_by_side((host, remote.act(host, plans[host.name])) for host in ready)
        errors += [end for end in ends if isinstance(end, AgentError)]
    return _Done(hosts, plans, errors)


def _each_machine_once(
    hosts: Sequence[Target], found: Sequence[HostPlan | AgentError], at: dict[str, str]
) -> Iterator[HostPlan | AgentError]:
    """AgentError for a host that ssh reaches at an address of another host (`at`, by address) or of
    an earlier one: a hosts file cannot have both, because traffic between them would not leave the
    machine."""
    for host, each in zip(hosts, found, strict=True):
        addresses = () if isinstance(each, AgentError) else each.facts.addresses
        own = [text for text in addresses if not ip_address(text).is_loopback]
        earlier = next((text for text in own if text in at), "")
        if earlier:
            yield AgentError(
                f"same machine as {at[earlier]}: ssh reaches both at {earlier}",
                host=host.name,
                remedy="Give each machine once. To rename one, change its name in the hosts file"
                " and install it again.",
            )
        else:
            at.update(dict.fromkeys(own, host.name))
            yield each


async def _planned(host: Target, planned: Planner) -> HostPlan:
    """What is to be done on a host. AgentError if it cannot be, or a run holds the agent there,
    which would be ended, or the agent does not answer."""
    try:
        facts = await remote.look(host)
        found = await planned(host, facts)
        if facts.installed is not None and facts.installed.runs:
            holder = await _holder(host, facts)
            if holder is None and found.steps:
                await remote.check_unused(host, facts)
            elif holder and found.steps:
                raise AgentBusyError(holder, remedy="Wait until that run has ended.")
    except AgentError as error:
        text = error.message.removeprefix(f"{error.host or host.name}: ")
        raise AgentError(text, host=host.name, remedy=error.remedy) from None
    return found


async def _holder(host: Target, facts: Facts) -> str | None:
    """The holder of a host's agent; "" if there is none, None if the agent cannot be asked.

    NoAnswerError if it does not respond: a run may hold it."""
    endpoint = Endpoint(host=host.name, agent=str(_agent_address(host, facts)))
    try:
        agent = await agents.connect(endpoint)
        async with asyncio.timeout(agents.CONNECT_TIMEOUT_S), agent:
            return (await agent.info()).holder
    except NoAnswerError:
        raise
    except (AgentError, TimeoutError):
        return None


async def _side_by_side(work: Iterable[tuple[Target, Awaitable[T]]]) -> list[T | AgentError]:
    """The result of each, in order; errors that do not concern a host are raised."""
    ends = await asyncio.gather(*(each for _, each in work), return_exceptions=True)
    for end in ends:
        if isinstance(end, BaseException) and not isinstance(end, AgentError):
            raise end
    return [
        end for end in ends if not isinstance(end, BaseException) or isinstance(end, AgentError)
    ]


def _write(path: Path, done: _Done, device: str) -> None:
    """Add the hosts to the hosts file, unless it is an inventory of Ansible. Traffic uses the
    addresses of `device` ("": those that ssh used)."""
    if path.suffix in ansible.SUFFIXES:
        return
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    known = load(str(path)).endpoints if before.strip() else {}
    text = before
    for host in done.good:
        facts = done.plans[host.name].facts
        text = hostsfile.with_host(
            text,
            path,
            name=host.name,
            agent=str(_agent_address(host, facts)),
            addresses=_traffic(facts, device),
        )
    if text != before:
        try:
            atomic.replace(path, text, lasting=True)
        except OSError as error:
            raise _cannot_write(path, error) from error
        printing.out(f"hosts    {path}")
    for host in done.good:
        if host.name in known:
            earlier = addresses.parse(known[host.name].agent)
            facts = done.plans[host.name].facts
            _tell_of_earlier(earlier, _agent_address(host, facts))
            kept, own = known[host.name].addresses.values(), _traffic(facts, device)
            if device and kept and not {*map(str, kept)} <= {*own}:
                printing.out(
                    f"{host.name}: {path} keeps its addresses, {', '.join(map(str, kept))};"
                    f" {device} has {', '.join(own) or 'none'}"
                )


def _traffic(facts: Facts, device: str) -> Sequence[str]:
    """The addresses of the traffic of a host, at most one of each IP version."""
    if not device:
        return facts.addresses
    found = facts.interfaces.get(device, ())
    return [*{ip_address(each).version: each for each in reversed(found)}.values()][::-1]


def _tell_of_earlier(earlier: AgentAddress, now: SshAddress) -> None:
    """Another user of a host may have installed an agent of its own there before."""
    if isinstance(earlier, SshAddress) and earlier.user != now.user and earlier.path != now.path:
        printing.out(
            f"{now.host}: the agent at {earlier} stays; to remove it:"
            f" netesto hosts remove {earlier.user or 'USER'}@{earlier.host}"
        )


def _agent_address(host: Target, facts: Facts) -> SshAddress:
    return replace(host.address, path=Path(facts.places.socket))


def _prove(path: Path, done: _Done) -> int:
    """Flows over all changed hosts, each to the next, which prove that runs work. A single one uses
    another host as its peer, or itself."""
    # Not needed if nothing has changed.
    from netesto.run import start
    from netesto.run.request import RunRequest
    from netesto.run.settings import RunSettings

    names = done.changed
    if len(names) == 1:
        names += [host.name for host in done.good if host.name != names[0]][:1]
    pairs = list(zip(names, [*names[1:], names[0]], strict=True))
    inventory = load(str(path)).only(names)
    found = [each.addresses for each in inventory.endpoints.values()]
    with owned.temporary_folder() as folder:
        script = folder / "proof.nts"
        script.write_text(_proof(pairs), encoding="utf-8")
        shown = Display if len(names) > 1 else _Alone
        display = shown(quiet=True)
        end = start.run(
            RunRequest(
                script=str(script),
                settings=RunSettings(libraries=(), definitions={}, max_iterations=1000),
                out=folder / "results",
                hosts=inventory,
                # Without addresses in the file, agents report those of both versions.
                family=6 if any(each and 4 not in each for each in found) else 4,
                ground=HOSTS,
                agreed=True,
                # Somebody else may be testing the same agents.
                wait_s=PROOF_WAIT_S,
                pages=False,
            ),
            display,
        )
        rows = tablerows.of(Path(folder, "results"), display.experiments)
    for failure in end.failures:
        printing.err(f"netesto: {failure}")
    flows = [row for row in rows if not csvfile.is_aggregate(row)]
    # The flows that failed have the reason there.
    for row in flows:
        if row["status"] != "ok":
            printing.err(f"    {row['host']} to {row['server']}: {row['status']}")
    if end.status == status.OK:
        rates = (f"{row['host']} to {row['server']} {row['rate']} Mbit/s" for row in flows)
        printing.out(f"proof    a flow of {PROOF_S} s from each host: {', '.join(rates)}")
    return end.status


class _Alone(Display):
    """Of a host that is its own peer. Warnings, such as that its flow uses no link, do not matter:
    what fails is reported in the end."""

    def warn(self, text: str) -> None:
        del text


def _proof(pairs: Sequence[tuple[str, str]]) -> str:
    """A script with a flow between each of the pairs."""
    servers = dict.fromkeys(server for _, server in pairs)
    hosts = dict.fromkeys(name for pair in pairs for name in pair)
    lines = ["SET number=COUNTER"]
    for server in servers:
        lines += [f"DO_SERVER host={server} exp=$number expName=proof order=0 start=1"]
        lines += ["SET number=PREV"]
    lines += [
        f"DO_CLIENT host={client} server={server} test=TCP_STREAM"
        f" ca={ALWAYS_THERE} dur={PROOF_S} stats=0"
        for client, server in pairs
    ]
    lines += ["WAIT_FLOWS", *(f"DO_SERVER host={server} order=1" for server in servers)]
    lines += [*(f"GET_DATA host={host}" for host in hosts), "PROCESS_EXP exp=PREV"]
    return "\n".join([*lines, ""])
