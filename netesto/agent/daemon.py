"""The agent as a program: `netesto-agent`, which serves its host, and all hosts of a lab.

first thread            gRPC of all hosts, signals
thread of each host     its event loop, in its namespaces: all else
sampler (processes)     a thread for each of their hosts
"""

import argparse
import asyncio
import concurrent.futures
import contextlib
import faulthandler
import logging
import os
import platform
import random
import resource
import secrets
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from netesto import log as logs
from netesto.agent import access, carried, config, recovery, routes, supervision
from netesto.agent.config import Config, ConfigFile
from netesto.agent.experiment import Premises
from netesto.agent.journal import Journal
from netesto.agent.limits import OF_LAB
from netesto.agent.service import Service
from netesto.agent.spool import Spool
from netesto.agent.supervision import Manager
from netesto.agent.tools import Abilities, Tools
from netesto.collectors import sampler
from netesto.collectors.clock import Clock
from netesto.collectors.counters import COUNTERS
from netesto.collectors.sampler import Sampler
from netesto.errors import AgentError, NetestoError, UsageError
from netesto.system import interrupts, proc, process
from netesto.text.printable import printable
from netesto.traffic import TOOLS
from netesto.traffic.ports import DATA_PORTS, PortRange
from netesto.transport.addresses import AGENT_SOCKET, NO_PORTS, UnixAddress
from netesto.transport.gate import Gate
from netesto.transport.server import AgentServer, within

# Spelled out, because this module is called __main__ when it is run.
log = logging.getLogger("netesto.agent.daemon")

# Each flow takes at least two. Limited, because some tools iterate over all descriptors that they
# may have.
OPEN_FILES = 65_536

# A host of a lab takes 9 before its first call, and some for each flow.
FILES_OF_HOST = 40

# What the other hosts of a lab may take to end when one cannot.
OTHERS_GRACE_S = 10.0

_REQUESTED = "the agent was asked to end"

EXIT_OK = 0
EXIT_USAGE = 2
EXIT_WORLD = 3

_EPILOG = "example: netesto-agent --device eth0 --group netesto"


def prepare() -> None:
    """Make this process find the programs that agents use, and make their output independent of the
    locale."""
    process.reach_system_programs()
    os.environ["LC_ALL"] = "C"


def load() -> None:
    """Load the tools and collectors that other distributions add, for this process and those that
    it forks. WorldError names a distribution that is broken."""
    TOOLS.load()
    COUNTERS.load()


@dataclass(frozen=True, slots=True)
class ServedHost:
    """A host, by its options (`parser`), and what puts a thread on it: into its namespaces."""

    arguments: argparse.Namespace
    join: Callable[[], None] = lambda: None


@dataclass(eq=False, slots=True)
class _Shared:
    """What the hosts of this process share: the event loop of gRPC, the mark of all that they
    start, and who hears that they are ready."""

    loop: asyncio.AbstractEventLoop
    mark: str
    manager: Manager
    ready_fd: int | None
    unready: int

    async def announce(self, addresses: Sequence[object]) -> None:
        text = " ".join(map(str, addresses))
        log.info("ready", extra={"address": text})
        self.unready -= 1
        if self.ready_fd is not None:
            os.write(self.ready_fd, f"ready {text}\n".encode())
        if not self.unready:
            self.manager.report("READY=1")
            if self.ready_fd is not None:
                os.close(self.ready_fd)


@dataclass(eq=False, slots=True)
class _PreparedHost:
    """A host, and what this process prepared before it had threads. `end_reason` has the reason
    when it is to end; `loop` serves it, while it is served."""

    arguments: argparse.Namespace
    settings: Config
    join: Callable[[], None]
    sampler: Sampler
    tools: Tools
    end_reason: concurrent.futures.Future[str] = field(default_factory=concurrent.futures.Future)
    loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_in_lab(self) -> bool:
        return self.arguments.links is not None

    def end(self, reason: str = _REQUESTED) -> None:
        """Ask it to end, unless it does."""
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            self.end_reason.set_result(reason)

    @contextlib.contextmanager
    def served(self) -> Iterator[None]:
        """The body, in the event loop that runs now, serves it."""
        self.loop = asyncio.get_running_loop()
        try:
            yield
        finally:
            self.loop = None

    def live(self, shared: _Shared) -> None:
        """Serve this host in this thread, to its end."""
        self.join()
        if self.is_in_lab:
            logs.HOST.set(self.settings.host)
        with recovery.claim(self.settings.state) as journal:
            asyncio.run(_run(self, journal, shared))


def main(argv: Sequence[str] | None = None) -> int:
    """Run an agent until SIGTERM, SIGINT, SIGHUP, or its controller asks it to end."""
    arguments = parser().parse_args(argv)
    return serve([ServedHost(arguments)], ready_fd=arguments.ready_fd)


def serve(
    hosts: Sequence[ServedHost], *, ready_fd: int | None, found: Abilities | None = None
) -> int:
    """Run the agents of these hosts to their end; the exit status. `found`: the capabilities of the
    machine, if known."""
    first = hosts[0].arguments
    logs.configure(level=logging.DEBUG if first.verbose else logging.INFO)
    # Only its user can access what an agent creates, including sockets.
    os.umask(0o077)
    prepare()
    _allow_many_flows(len(hosts))
    proc.take_memory_from_one_arena()
    if sys.version_info < (3, 12):
        # Later versions do so by themselves; this one starts a thread for each command.
        asyncio.set_child_watcher(asyncio.PidfdChildWatcher())
    try:
        settings = [_config(host.arguments) for host in hosts]
        load()
        if first.recover:
            with recovery.claim(settings[0].state) as journal:
                asyncio.run(recovery.recover(journal))
            return EXIT_OK
        with contextlib.ExitStack() as stack:
            # Before there are threads, and files that no child may keep open.
            samplers = sampler.forked([host.join for host in hosts])
            for each in samplers:
                stack.callback(each.close)
            mark = recovery.mark()
            if first.links is not None:
                stack.enter_context(recovery.end_lab(mark))
            lives = [
                _PreparedHost(host.arguments, config, host.join, sampled, Tools(TOOLS, found))
                for host, config, sampled in zip(hosts, settings, samplers, strict=True)
            ]
            asyncio.run(_live(lives, mark, ready_fd))
    except UsageError as error:
        sys.stderr.write(printable(f"netesto-agent: {error}\n"))
        return EXIT_USAGE
    except NetestoError as error:
        sys.stderr.write(printable(f"netesto-agent: {error}\n"))
        return EXIT_WORLD
    return EXIT_OK


async def _live(hosts: Sequence[_PreparedHost], mark: str, ready_fd: int | None) -> None:
    """Serve the hosts, each in a thread, until all have ended. If one fails, all end. If one is
    blocked, so that it cannot end, this process does when the others have."""
    loop = asyncio.get_running_loop()
    shared = _Shared(loop, mark, Manager.of_environment(), ready_fd, len(hosts))

    def end() -> None:
        for host in hosts:
            host.end()

    # Including SIGHUP of a closed terminal: the host is put back first.
    for sign in interrupts.not_ignored():
        loop.add_signal_handler(sign, end)
    with concurrent.futures.ThreadPoolExecutor(len(hosts)) as threads:
        lives = [loop.run_in_executor(threads, partial(host.live, shared)) for host in hosts]
        over = asyncio.create_task(asyncio.wait(lives, return_when=asyncio.FIRST_EXCEPTION))
        watch = asyncio.create_task(_watch(hosts))
        await asyncio.wait({over, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not over.done():
            stuck, reason = watch.result()
            for host in hosts:
                host.end(reason)
            if rest := [life for host, life in zip(hosts, lives, strict=True) if host is not stuck]:
                await asyncio.wait(rest, timeout=OTHERS_GRACE_S)
            # Waits for no thread. Another agent ends what this one has started, and puts the host
            # back.
            os._exit(EXIT_WORLD)
        watch.cancel()
        _, others = over.result()
        end()
        if others:
            await asyncio.wait(others)
    for failed in filter(None, [life.exception() for life in lives]):
        raise failed


async def _watch(hosts: Sequence[_PreparedHost]) -> tuple[_PreparedHost, str]:
    """Return the first host of a lab whose event loop is blocked, and that in words."""
    # Outside of labs an agent calls itself. In simulated time, whose waits are no waits, a blocked
    # host does not answer in time soon enough.
    if not hosts[0].is_in_lab or proc.is_in_simulated_time():
        await asyncio.Event().wait()

    def loops() -> dict[_PreparedHost, asyncio.AbstractEventLoop]:
        return {host: loop for host in hosts if (loop := host.loop) is not None}

    stuck, silent_s = await supervision.blocked(loops)
    name = stuck.settings.host
    log.critical("event loop blocked", extra={"blocked": name})
    # Where it is, in the log.
    faulthandler.dump_traceback()
    return stuck, f"the event loop of {name} has been blocked for {silent_s:g} s"


def _allow_many_flows(hosts: int) -> None:
    """Raise the limit of open files, by default 1024 on many systems, and 4096 at most in guests,
    which 200 hosts use up."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < FILES_OF_HOST * hosts:
        most = FILES_OF_HOST * hosts
        # Without the right to raise it, opening a file fails, and says so.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (now, most))
        now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if most == resource.RLIM_INFINITY else min(OPEN_FILES, most)
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


async def _run(host: _PreparedHost, journal: Journal, shared: _Shared) -> None:
    arguments, settings, is_in_lab = host.arguments, host.settings, host.is_in_lab
    if not settings.listen:
        raise UsageError("no address to listen on", remedy=f"Listen on unix:{AGENT_SOCKET}.")
    listen = [access.listen_address(text) for text in settings.listen]
    group = access.group_number(settings.group) if settings.group else None
    for address in listen:
        access.prepare_folder(address.path.parent, group)
    await recovery.recover(journal)
    spool = Spool(settings.state / "spool")
    with recovery.life(journal, shared.mark, is_in_lab=is_in_lab):
        limits = OF_LAB if is_in_lab else settings.limits
        for run in () if is_in_lab else spool.remove_older(limits.spool_age):
            log.warning("files never fetched are removed: too old", extra={"run": run})
        config_file = None
        if not is_in_lab:
            config_file = ConfigFile(arguments.config, lambda: _config(arguments))
        premises = Premises(
            limits=limits,
            commands=settings.commands,
            is_device_named=bool(settings.device),
            is_in_lab=is_in_lab,
            host=settings.host or platform.node().partition(".")[0],
            device=settings.device or routes.default_device(),
            links=arguments.links or "",
            nodes=dict(pair.split("=") for pair in arguments.nodes),
            folder=settings.state,
            spool=spool,
            journal=journal,
            clock=Clock(arguments.clock),
            sampler=host.sampler,
            tools=host.tools,
            ports=PortRange(used=_first_port(settings.host if is_in_lab else None)),
            machine_hosts=arguments.machine_hosts,
            program_links=carried.parse(arguments.carried),
            config=None if config_file is None else config_file.now,
        )
        try:
            with host.served():
                await _serve(premises, listen, group, host, shared)
        finally:
            if not is_in_lab:
                spool.see_ages()


def _first_port(host: str | None) -> int:
    """A random port: after a restart, earlier ports may be in TIME_WAIT, and a client cannot use
    the same pair of ports again. In simulated time the port must not depend on how many random
    numbers were drawn before, which differs between versions of Python: the name of the `host` and
    the second decide, because its namespace is new or an earlier agent there started in another
    second."""
    if host is None:
        return secrets.randbelow(DATA_PORTS)
    return random.Random(f"{host} {int(time.monotonic())}").randrange(DATA_PORTS)


async def _serve(
    premises: Premises,
    listen: Sequence[UnixAddress],
    group: int | None,
    host: _PreparedHost,
    shared: _Shared,
) -> None:
    shut_down = asyncio.Event()
    reason = _REQUESTED
    service = Service(premises, on_shut_down=shut_down.set)
    gate = Gate(service)
    server: AgentServer | None = None
    finding_out: asyncio.Task[None] | None = None
    loop = asyncio.get_running_loop()
    try:
        server = await within(
            shared.loop,
            _listening(gate, loop, listen, group, machine_hosts=premises.machine_hosts),
        )
        await within(shared.loop, shared.announce(listen))
        for run in premises.spool.runs():
            log.warning("files of an earlier run were never fetched", extra={"run": run})
        # Before a controller requests it.
        finding_out = asyncio.create_task(_find_out(premises.tools))
        asked = asyncio.create_task(_end_reason(host))
        ends: list[Coroutine[object, object, object]] = [shut_down.wait()]
        # Only its controller reaches the agents of a lab, and simulated time serves nothing else.
        if not premises.is_in_lab:
            ends.append(within(shared.loop, shared.manager.watch(listen[0])))
        tasks = [asked, *(asyncio.create_task(each) for each in ends)]
        done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in rest:
            task.cancel()
        await asyncio.wait(tasks)
        for task in done:
            task.result()  # raises if the agent does not answer
        if asked in done:
            reason = asked.result()
        if shut_down.is_set():
            reason = ""
    except AgentError as error:
        reason = error.message
        raise
    finally:
        service.end(reason)
        await gate.close()
        if server is not None:
            await within(shared.loop, server.stop())
        if finding_out is not None:
            await asyncio.wait({finding_out})
        log.info("ended")


async def _end_reason(host: _PreparedHost) -> str:
    """Return, when the host is to end, the reason."""
    return await asyncio.wrap_future(host.end_reason)


async def _listening(
    gate: Gate,
    loop: asyncio.AbstractEventLoop,
    listen: Sequence[UnixAddress],
    group: int | None,
    *,
    machine_hosts: int,
) -> AgentServer:
    """A server that listens, for a gate that works in another loop."""
    server = AgentServer(gate, loop=loop, machine_hosts=machine_hosts)
    try:
        for address in listen:
            server.listen(address, group=group)
        await server.start()
    except BaseException:
        await server.stop()
        raise
    return server


async def _find_out(tools: Tools) -> None:
    able = await tools.current()
    if able.kernel.unknown:
        log.warning("qdiscs unknown", extra={"reason": able.kernel.unknown})
    for name, reason in able.broken.items():
        log.warning("tool not used", extra={"tool": name, "reason": reason})


def _config(arguments: argparse.Namespace) -> Config:
    """The settings of the command line, which override those of the file."""
    found = config.read(arguments.config) if arguments.config else Config()
    given = {key: value for key, value in vars(arguments).items() if value and hasattr(found, key)}
    made = replace(found, **given)
    return replace(made, listen=tuple(made.listen), state=made.state.absolute())


class _Removed(argparse.Action):
    """An option of earlier versions."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        _: argparse.Namespace,
        __: object,
        option: str | None = None,
    ) -> None:
        parser.error(f"{option}: removed. {NO_PORTS}")


# One option per paragraph; the formatter would put each argument on its own line.
# fmt: off
def parser() -> argparse.ArgumentParser:
    """The options of an agent."""
    parser = argparse.ArgumentParser(
        prog="netesto-agent",
        description="Runs traffic and observes it on this host, for a controller.",
        epilog=_EPILOG)
    parser.add_argument("--listen", metavar="ADDRESS", action="append", help=
        f"unix:PATH; repeatable (default: {AGENT_SOCKET})")
    parser.add_argument("--group", metavar="NAME",
        help="who may use its Unix sockets as well (default: nobody)")
    parser.add_argument("--state", type=Path, metavar="DIR",
        help=f"the folder of its state (default: {config.DEFAULT_STATE})")
    parser.add_argument("--host", metavar="NAME", help="its name (default: the host's)")
    parser.add_argument("--device", metavar="DEV",
        help="the interface of the traffic (default: the one that leads to the peers of a run)")
    parser.add_argument("--links", metavar="NAMESPACE", help=
        "in a lab: the namespace of its links with limits, if there are any (else an empty word),"
        " whose queues are in the host's statistics")
    parser.add_argument("--nodes", type=lambda text: text.split(",") if text else [], default=(),
        metavar="NAME=NAMESPACE,…",
        help="in a lab: the nodes between its hosts, whose queues are sampled")
    parser.add_argument("--machine-hosts", type=int, default=1, metavar="N", help=
        "in a lab: how many hosts it has; agents of large labs check less often whether the"
        " controller is there")
    parser.add_argument("--carried", default="", metavar="A:B:SOCKET,…", help=
        "in a lab: the links that programs carry, whose states and losses are recorded")
    parser.add_argument("--clock", type=int, metavar="NS",
        help="in a lab: UTC minus the monotonic clock, the same for all of its hosts")
    parser.add_argument("--config", type=Path, metavar="FILE",
        help="an agent.toml; options override it")
    parser.add_argument("--ready-fd", type=int, metavar="N",
        help="write a line to this descriptor when ready")
    parser.add_argument("--recover", action="store_true",
        help="put back the changes of a killed agent (see --state), and exit")
    parser.add_argument("--insecure", "--clients", nargs="?", action=_Removed,
        help=argparse.SUPPRESS)
    parser.add_argument("-v", "--verbose", action="store_true", help="log more")
    return parser
# fmt: on


if __name__ == "__main__":
    sys.exit(main())
