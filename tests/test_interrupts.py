"""Requests to end a process, as signals to this one."""

import contextlib
import os
import signal
import sys

import pytest
from typed import returned

from netesto.system import interrupts, process

pytestmark = pytest.mark.usefixtures("handlers")


def test_any_of_the_signals_interrupts():
    with pytest.raises(KeyboardInterrupt), interrupts.handled():
        signal.raise_signal(signal.SIGHUP)


def test_what_follows_the_first_request_is_not_disturbed():
    done = []

    @interrupts.handled()
    def work() -> None:
        try:
            signal.raise_signal(signal.SIGHUP)
        finally:
            for number in interrupts.SIGNALS:
                signal.raise_signal(number)
            done.append("put back")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["put back"]


def test_a_request_that_foreign_code_lost_is_not_the_last():
    with interrupts.handled():
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


class EndsWhileItIsDeleted:
    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def test_a_request_that_a_finalizer_lost_comes_again():
    @interrupts.handled()
    def work() -> None:
        EndsWhileItIsDeleted()
        process.wait_until(lambda: False, timeout=60)

    with pytest.raises(KeyboardInterrupt):
        work()


def test_what_finalizers_raise_otherwise_is_reported(monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: reported.append(lost.exc_type))

    class Fails:
        def __del__(self) -> None:
            raise ValueError

    with interrupts.handled():
        Fails()
    assert reported == [ValueError]


def test_what_was_heeded_is_the_last():
    with interrupts.handled():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        interrupts.begin_shutdown()
        assert returned(signal.raise_signal, signal.SIGINT) is None


def test_a_late_request_does_not_end_a_process_that_is_ending():
    with pytest.raises(KeyboardInterrupt), interrupts.handled():
        signal.raise_signal(signal.SIGTERM)
    assert returned(signal.raise_signal, signal.SIGHUP) is None


def test_a_second_ctrl_c_counts_where_somebody_may_be_in_a_hurry():
    with interrupts.handled():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        interrupts.begin_shutdown()
        with pytest.raises(KeyboardInterrupt), interrupts.hurried():
            signal.raise_signal(signal.SIGINT)


def test_a_second_ctrl_c_that_came_before_counts_too():
    with interrupts.handled():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        interrupts.begin_shutdown()
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), interrupts.hurried():
            pass


def test_a_terminal_that_goes_away_is_in_no_hurry():
    with interrupts.handled():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGHUP)
        interrupts.begin_shutdown()
        with interrupts.hurried():
            assert returned(signal.raise_signal, signal.SIGHUP) is None


def test_a_signal_that_is_ignored_stays_ignored():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interrupts.handled(), interrupts.undisturbed():
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_handlers_are_as_before_where_nothing_came():
    before = [signal.getsignal(number) for number in interrupts.SIGNALS]
    with interrupts.handled():
        pass
    assert [signal.getsignal(number) for number in interrupts.SIGNALS] == before


def test_handlers_are_as_before_after_those_of_others():
    with interrupts.handled():
        ours = signal.getsignal(signal.SIGTERM)
        with interrupts.handed_over():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        assert signal.getsignal(signal.SIGTERM) is ours


def test_a_request_that_others_took_is_the_first():
    with interrupts.handled():
        with interrupts.handed_over() as requests:
            requests.is_shutting_down = True
        assert returned(signal.raise_signal, signal.SIGTERM) is None


@pytest.mark.parametrize("number", interrupts.SIGNALS)
def test_what_is_undisturbed_ends_before_a_request_acts(number):
    done = []

    @interrupts.handled()
    @interrupts.undisturbed()
    def work() -> None:
        os.kill(os.getpid(), number)
        done.append("put back")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["put back"]


@interrupts.undisturbed()
def undisturbed(*numbers: signal.Signals) -> None:
    """These signals arrive while something is undisturbed."""
    for number in numbers:
        signal.raise_signal(number)


def test_a_second_ctrl_c_during_what_is_undisturbed_counts():
    with interrupts.handled():
        with pytest.raises(KeyboardInterrupt):
            undisturbed(signal.SIGINT, signal.SIGINT)
        interrupts.begin_shutdown()
        with pytest.raises(KeyboardInterrupt), interrupts.hurried():
            pass


def test_a_terminal_that_goes_away_during_what_is_undisturbed_is_in_no_hurry():
    with interrupts.handled():
        with pytest.raises(KeyboardInterrupt):
            undisturbed(signal.SIGHUP, signal.SIGHUP)
        interrupts.begin_shutdown()
        with interrupts.hurried():
            assert interrupts.is_shutting_down()


def test_a_program_that_was_told_to_end_says_so_however_often_it_was_told(tmp_path):
    ends = """
import atexit, os, signal, sys
from netesto import cli
tell = lambda number: os.kill(os.getpid(), number)
atexit.register(lambda: [tell(number) for number in (2, 15, 1)])
sys.exit(cli.guarded(lambda: tell(signal.SIGHUP)))
"""
    finished = process.run([sys.executable, "-c", ends], timeout=60, check=False)
    assert (finished.status, finished.stderr) == (130, "netesto: interrupted\n")


def test_a_program_under_nohup_outlives_its_terminal():
    hung_up = """
import os, signal, sys
from netesto import cli
sys.exit(cli.guarded(lambda: os.kill(os.getpid(), signal.SIGHUP) or 7))
"""
    argv = ["nohup", sys.executable, "-c", hung_up]
    assert process.run(argv, timeout=60, check=False).status == 7


def status_of(text: str) -> int:
    """The exit status of a program that is interrupted while it makes a dataclass by `exec`."""
    code = f"""
import signal, sys
from netesto.system import interrupts
{text}
"""
    return process.run([sys.executable, "-c", code], timeout=60, check=False).status


def test_a_request_during_an_exec_of_text_does_not_settle_the_exit_status():
    """A KeyboardInterrupt proper would: the status would be -2."""
    assert (
        status_of("""
with interrupts.handled():
    try:
        exec("signal.raise_signal(signal.SIGHUP)")
    except KeyboardInterrupt:
        interrupts.begin_shutdown()
sys.exit(130)
""")
        == 130
    )


def test_requests_after_the_end_do_not_change_the_exit_status():
    assert (
        status_of("""
with interrupts.handled():
    with interrupts.handled():
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            interrupts.begin_shutdown()
    interrupts.begin_shutdown()
for number in interrupts.SIGNALS:
    signal.raise_signal(number)
sys.exit(130)
""")
        == 130
    )


def test_a_request_that_was_blocked_until_it_can_be_handled_is_heeded():
    assert (
        status_of("""
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
signal.raise_signal(signal.SIGINT)
try:
    with interrupts.handled():
        pass
except KeyboardInterrupt:
    sys.exit(130)
""")
        == 130
    )


@pytest.mark.parametrize("module", ["netesto.system.interrupts", "netesto.cli.printing"])
def test_a_request_while_the_program_is_imported_is_reported(module):
    interrupted = f"""
import signal, sys

class Interrupting:
    def find_spec(self, name, *_):
        if name == "{module}":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from netesto.__main__ import main
sys.exit(main())
"""
    finished = process.run([sys.executable, "-c", interrupted], timeout=60, check=False)
    assert (finished.status, finished.stderr) == (130, "netesto: interrupted\n")


def test_the_program_ends_without_a_last_look_at_what_it_imported():
    looked_at = """
import gc, sys
from netesto.__main__ import main
sys.argv = ["netesto", "unknown"]
main()
print(len(gc.get_objects()))
"""
    finished = process.run([sys.executable, "-c", looked_at], timeout=60)
    assert int(finished.stdout) <= 1000
