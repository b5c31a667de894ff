"""Requests to end: Ctrl-C, SIGTERM, SIGHUP. The first raises KeyboardInterrupt; later ones do not
interrupt the shutdown.

Requests often come twice: when a terminal closes, it and the shell signal us; a service manager
sends one signal after the other. The second must not interrupt what the first one starts: saving
measurements and putting hosts back. Only a second Ctrl-C comes from a person in a hurry; it has an
effect if there is something to skip (`hurried`).

Signals that are ignored at the start (nohup) stay ignored. Only the main thread is interrupted.
"""

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import TypeAlias

Handler: TypeAlias = Callable[[int, FrameType | None], object] | int | None

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# The delay before a lost request is repeated: the code that lost it must have ended.
_AGAIN_S = 0.01


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Defer requests until the body has ended. Processes that the body starts never get any."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class RequestToEnd(KeyboardInterrupt):
    """A subclass of KeyboardInterrupt. If a plain one passes through an `exec` of text, as it can
    while a dataclass is created, Python later ends the process by SIGINT, whatever its exit status
    (`unhandled_keyboard_interrupt` in Python/pythonrun.c)."""


class Requests:
    """The handler of all three signals."""

    def __init__(self) -> None:
        # The first one was caught, and the program is shutting down.
        self.is_shutting_down = False
        self._is_hurried = False
        self._has_hurry_come = False
        self._last = signal.SIGINT

    def __call__(self, number: int, frame: FrameType | None) -> None:
        del frame
        if not self.is_shutting_down and not _is_interrupted():
            self._last = signal.Signals(number)
            raise RequestToEnd
        if number == signal.SIGINT:
            self._has_hurry_come = True
            self._hurry()

    def _hurry(self) -> None:
        if self._is_hurried and self._has_hurry_come:
            self._is_hurried = False
            raise RequestToEnd

    @contextlib.contextmanager
    def persistent(self) -> Iterator[None]:
        """While the body runs, repeat a request that came in a finalizer or in a callback of a weak
        reference: Python only reports an exception there, and continues."""
        others_hook = sys.unraisablehook

        def note(lost: "sys.UnraisableHookArgs") -> None:
            if isinstance(lost.exc_value, RequestToEnd):
                signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
            else:
                others_hook(lost)

        def again(_number: int, _frame: FrameType | None) -> None:
            if not self.is_shutting_down and not _is_interrupted():
                signal.raise_signal(self._last)

        before = signal.signal(signal.SIGALRM, again)
        sys.unraisablehook = note
        try:
            yield
        finally:
            sys.unraisablehook = others_hook
            signal.setitimer(signal.ITIMER_REAL, 0)
            _restore({signal.SIGALRM: before})

    @contextlib.contextmanager
    def hurried(self) -> Iterator[None]:
        try:
            self._is_hurried = True
            self._hurry()
            yield
        finally:
            self._is_hurried = False


@contextlib.contextmanager
def handled() -> Iterator[None]:
    """While the body runs, a request to end raises KeyboardInterrupt, until `begin_shutdown` is
    called. From then on this process ignores them, also after the body."""
    requests = Requests()
    before = {number: signal.signal(number, requests) for number in not_ignored()}
    try:
        # Our parent may have blocked them until they can be handled (__main__, lab.inside).
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        with requests.persistent():
            yield
    finally:
        # Python drops its handlers when it exits; ignored signals stay ignored, including those
        # that a nested call has left ignored.
        is_ending = requests.is_shutting_down or _is_interrupted() or not_ignored() != list(before)
        _restore(dict.fromkeys(before, signal.SIG_IGN) if is_ending else before)


def begin_shutdown() -> None:
    """Declare that the caller has caught the KeyboardInterrupt and will shut down: no further one
    is raised. Until then each request raises one, because other code may swallow it."""
    _requests().is_shutting_down = True


def is_ending() -> bool:
    """Whether there was a request to end: it was handled, or is being raised."""
    return is_shutting_down() or _is_interrupted()


def is_shutting_down() -> bool:
    """Whether there was a request to end that was handled."""
    return _requests().is_shutting_down


@contextlib.contextmanager
def hurried() -> Iterator[None]:
    """After the first request, a Ctrl-C raises KeyboardInterrupt in the body; immediately if it
    came before."""
    with _requests().hurried():
        yield


@contextlib.contextmanager
def handed_over() -> Iterator[Requests]:
    """Let the body install other handlers, and report to the yielded object; restore ours after."""
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield _requests()
    finally:
        _restore(handlers)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Defer requests to end until the body is done; then they act as if they came one after the
    other, so that a second Ctrl-C is not lost."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        arrived.append(number)

    before = {number: signal.signal(number, note) for number in not_ignored()}
    try:
        yield
    finally:
        _restore(before)
        _repeat(arrived)


def _repeat(numbers: Sequence[int]) -> None:
    """Raise the signals again, each while what the one before has raised unwinds."""
    if numbers:
        try:
            signal.raise_signal(numbers[0])
        finally:
            _repeat(numbers[1:])


def _requests() -> Requests:
    """The installed handler; one that gets no requests if there is none."""
    handlers = map(signal.getsignal, SIGNALS)
    return next((handler for handler in handlers if isinstance(handler, Requests)), Requests())


def _is_interrupted() -> bool:
    """Whether a KeyboardInterrupt is being raised: we may be called while it unwinds."""
    error = sys.exception()
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def not_ignored() -> list[signal.Signals]:
    """The signals that are not ignored."""
    return [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


def _restore(handlers: Mapping[signal.Signals, Handler]) -> None:
    for number, handler in handlers.items():
        # None: the handler was not installed from Python.
        signal.signal(number, signal.SIG_DFL if handler is None else handler)
