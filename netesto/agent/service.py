"""The agent's side of transport.base.Agent, by shape.

The transport's gate admits one controller at a time and lets only the holder act: a call that
needs a hold finds one here, unless it is just ending.
"""

import asyncio
import contextlib
import errno
import os
import platform
import uuid
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Sequence,
)
from ipaddress import ip_address
from typing import Any, Concatenate, ParamSpec, TypeVar

import psutil

import netesto
from netesto.agent import congestion, examination, spool
from netesto.agent.experiment import Premises
from netesto.agent.session import Session
from netesto.collectors import timesync
from netesto.errors import AgentError
from netesto.model import (
    Address,
    AgentStatus,
    ClockReading,
    Event,
    FilePiece,
    FinishedExperiment,
    HostInfo,
    HostState,
)

# Problems of a disk or the machine, which are not internal errors of the agent.
_OF_THE_MACHINE = frozenset({
    errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE,
})  # fmt: skip


P = ParamSpec("P")
Answer = TypeVar("Answer")


def _by_holder(
    call: Callable[Concatenate[Session, P], Awaitable[Answer]],
) -> Callable[Concatenate["Service", P], Coroutine[Any, Any, Answer]]:
    """The call of a service that its hold carries out."""

    async def carry_out(service: "Service", /, *given: P.args, **named: P.kwargs) -> Answer:
        with service.acting() as session:
            return await call(session, *given, **named)

    return carry_out


# How long the ends of an interface that was set up a moment ago may negotiate: 1 to 3 s at
# 1000BASE-T.
_CARRIER_S = 5.0


class Service:
    """The agent of one host. `on_shut_down` is called when its controller asks it to end."""

    def __init__(self, premises: Premises, *, on_shut_down: Callable[[], None]) -> None:
        self._premises = premises
        self._on_shut_down = on_shut_down
        self._session: Session | None = None
        self._reason = ""
        self._identity = uuid.uuid4().hex

    async def info(self) -> HostInfo:
        premises = self._renewed()
        able = await premises.tools.current()
        processors = os.sched_getaffinity(0)
        return HostInfo(
            host=premises.host,
            version=netesto.__version__,
            kernel=platform.release(),
            cpus=len(processors),
            memory_bytes=psutil.virtual_memory().total,
            device=premises.device,
            addresses=addresses(premises.device),
            tools={name: each.version for name, each in able.tools.items()},
            congestion_controls=able.kernel.congestion_controls,
            qdiscs=able.kernel.qdiscs or (),
            holder=self._session.controller if self._session else "",
            processors=tuple(sorted(processors)),
            identity=self._identity,
            allowed_congestion_controls=congestion.allowed(able.kernel.congestion_controls),
            tool_options=tuple(
                f"{name} {extra}" for name, each in able.tools.items() for extra in each.extras
            ),
            commands=tuple(premises.commands),
            unusable_tools=able.broken,
        )

    async def hold(self, controller: str, run: str) -> AsyncGenerator[Event, None]:
        session = Session(self._renewed(), controller=controller, run=run)
        self._session = session
        try:
            while (event := await session.events.get()) is not None:
                yield event
        finally:
            self._session = None
            await session.close(self._reason or "the controller let the agent go")
        if self._reason:
            raise AgentError(self._reason)

    async def probe_clock(self) -> ClockReading:
        return self._premises.clock.reading(self._premises.clock.now())

    async def examine(self, peers: Sequence[Address], *, for_run: bool = False) -> HostState:
        carrier_s = _CARRIER_S if for_run else 0.0
        state = await examination.examine(peers, self._renewed(), carrier_s=carrier_s)
        if for_run and state.device:
            self._premises.device = state.device
        return state

    def _renewed(self) -> Premises:
        """The premises, without those of an earlier hold."""
        if self._session is None:
            self._premises.renew()
        return self._premises

    async def status(self) -> AgentStatus:
        session, premises = self._session, self._premises
        run = session.run if session else ""
        remains = premises.journal.remains()
        return AgentStatus(
            holder=session.controller if session else "",
            run=run,
            held_s=premises.clock.now() - session.begun_s if session else 0.0,
            unfetched=tuple(await asyncio.to_thread(premises.spool.unfetched, without=run)),
            settings=tuple(each.setting.words for each in reversed(remains.changes)),
            left=remains.left,
        )

    configure = _by_holder(Session.configure)
    take_stats = _by_holder(Session.take_stats)
    expect = _by_holder(Session.expect)
    forget = _by_holder(Session.forget)
    start = _by_holder(Session.start)
    begin = _by_holder(Session.begin)
    start_capture = _by_holder(Session.start_capture)
    confirm = _by_holder(Session.confirm)
    abort = _by_holder(Session.abort)
    put_back = _by_holder(Session.put_back)

    async def finish(self, exp: int, *, with_time_sync: bool = False) -> FinishedExperiment:
        with self.acting() as session:
            await session.finish(exp)
            changed = await session.changed()
        folder = self._premises.spool.experiment(session.run, exp)
        entries, content = await asyncio.to_thread(spool.listed, folder)
        time_sync = await timesync.read() if with_time_sync else None
        return FinishedExperiment(tuple(entries), time_sync, tuple(content), tuple(changed))

    async def fetch(self, exp: int, paths: Sequence[str]) -> AsyncGenerator[FilePiece, None]:
        folder = self._premises.spool.experiment(self._current_session().run, exp)
        for path in paths:
            with contextlib.closing(spool.pieces(folder, path)) as pieces:
                for content in pieces:
                    yield FilePiece(path, content)

    async def shut_down(self) -> None:
        self._on_shut_down()

    def end(self, reason: str) -> None:
        """End the hold, if there is one, and undo it; its stream ends with the reason as an error,
        or without one if that is ""."""
        self._reason = reason
        if self._session is not None:
            self._session.events.put_nowait(None)

    @contextlib.contextmanager
    def acting(self) -> Iterator[Session]:
        """The hold, for a call that changes the host. AgentError if a file of the agent cannot be
        written."""
        session = self._current_session()
        try:
            with session.call():
                yield session
        except OSError as error:
            if error.errno not in _OF_THE_MACHINE:
                raise
            raise AgentError(
                f"{error.filename or self._premises.folder}: {error.strerror}",
                remedy="The agent needs this file. Check on that host: df -h, df -i, and dmesg for"
                " errors of the disk.",
            ) from error

    def _current_session(self) -> Session:
        if self._session is None:
            raise AgentError("the hold has ended")
        return self._session


def addresses(device: str) -> tuple[str, ...]:
    """The addresses of this host, without loopback and link-local ones; those of the test interface
    come first."""
    found = {
        (name != device, address.version, int(address)): address
        for name, entries in psutil.net_if_addrs().items()
        for entry in entries
        if entry.family.name in ("AF_INET", "AF_INET6") and "%" not in entry.address
        for address in (ip_address(entry.address),)
    }
    known = dict.fromkeys(found[key] for key in sorted(found))
    return tuple(
        str(address) for address in known if not address.is_loopback and not address.is_link_local
    )
