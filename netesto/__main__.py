"""`python -m netesto`."""

import gc
import os
import signal
import sys

# Objects allocated between two garbage collections; Python's default is 700. Most of what a run
# imports and draws stays alive, and collections took a seventh of its processor time.
OBJECTS = 10_000


def main() -> int:
    """Run the command line; return its exit status. A request to end that arrives while the rest of
    the program is imported takes effect afterwards."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    gc.set_threshold(OBJECTS)
    _open_standard_streams()
    from netesto import cli
    from netesto.run import status
    from netesto.system import interrupts, proc

    try:
        with interrupts.handled():
            outcome = cli.main()
            # Everything is done: later signals do not change the exit status.
            interrupts.begin_shutdown()
    except KeyboardInterrupt:
        sys.stderr.write("netesto: interrupted\n")
        outcome = status.INTERRUPTED
    if proc.ground_inside() is not None:
        # The guest ends, too. Python's own end would touch most of the memory, a twentieth of all
        # that a short run takes. Output was flushed above.
        os._exit(outcome)
    # Without this, Python's last garbage collection takes a third of a second after a run.
    gc.freeze()
    return outcome


def _open_standard_streams() -> None:
    """Open the null device in place of each closed standard stream. Otherwise a file or socket that
    is opened later gets its number, and the output meant for the stream."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    if sys.stderr is None:
        # print() treats None as standard output.
        sys.stderr = os.fdopen(2, "w", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
