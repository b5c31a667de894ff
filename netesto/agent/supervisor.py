"""Restarts a failed agent on hosts without a service manager: `--lock FILE -- COMMAND`.

As with the systemd unit, the host of a killed agent is put back at once, and an agent that cannot
start because of its configuration stays down. The lock is held for as long as this runs, and has
the number of its process and when that began.
"""

import argparse
import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from netesto.errors import ProcessError
from netesto.system import interrupts, life, proc, process

# The delay after a failure. It doubles each time, and is reset after an agent that ran for longer.
FIRST_PAUSE_S = 0.5
LAST_PAUSE_S = 60.0

# The time for an agent to put its host back; the systemd unit has the same limit.
STOP_S = 30.0

# A larger log is rotated, and the old one kept beside it.
LOG_BYTES = 10_000_000

EXIT_USAGE = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Keep an agent running until SIGTERM, or until it ends well."""
    parser = argparse.ArgumentParser(prog="netesto.agent.supervisor")
    parser.add_argument("--lock", type=Path, required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("command", nargs="+")
    given = parser.parse_args(argv)
    os.umask(0o022)
    lock = life.take(given.lock)
    if lock is None:
        sys.stderr.write(f"{given.lock}: {life.holder(given.lock)} has this lock\n")
        return 1
    # Whom the lock names may be asked to end at once.
    with interrupts.handled():
        try:
            os.truncate(lock, 0)
            os.write(lock, f"{os.getpid()} {proc.begun_ticks()}".encode())
            # The log names controllers and peers.
            os.umask(0o077)
            return _keep(given.command, given.log)
        except KeyboardInterrupt:
            interrupts.begin_shutdown()
            return 0
        finally:
            os.close(lock)


def _keep(command: Sequence[str], log: Path) -> int:
    pause_s = FIRST_PAUSE_S
    while True:
        begun = time.monotonic()
        status = _life(command, log)
        if status in {0, EXIT_USAGE}:
            return status
        _recover(command, log)
        if time.monotonic() - begun > LAST_PAUSE_S:
            pause_s = FIRST_PAUSE_S
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LAST_PAUSE_S)


def _life(command: Sequence[str], log: Path) -> int:
    """One agent, to its end; its exit status."""
    if log.exists() and log.stat().st_size > LOG_BYTES:
        log.replace(log.with_name(f"{log.name}.1"))
    with contextlib.ExitStack() as stack:
        with interrupts.undisturbed():
            child = process.launch(command, stdout=log)
            stack.callback(_end, child)
        return child.wait()


def _end(child: process.Child) -> None:
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
        process.wait_until(lambda: child.poll() is not None, timeout=STOP_S)
    process.end(child)


def _recover(command: Sequence[str], log: Path) -> None:
    """Put back what an agent left; the log says what that was. If it hangs, the next agent will."""
    try:
        done = process.run([*command, "--recover"], timeout=STOP_S, check=False)
        said = done.stdout + done.stderr
    except ProcessError as error:
        said = f"{error}\n"
    with contextlib.suppress(OSError), log.open("a", encoding="utf-8") as file:
        file.write(said)


if __name__ == "__main__":
    sys.exit(main())
