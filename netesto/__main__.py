"""`python -m netesto`."""

import gc
import os
import signal
import sys

# So many objects are made before Python looks for unused ones among them, by default 700. Most of
# what a run imports and draws stays: a seventh of its processor time went into looking at it.
OBJECTS = 10_000


def main() -> int:
    """Run the command line; its exit status. A request to end that comes while the rest of the
    program is imported is heeded after that."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    gc.set_threshold(OBJECTS)
    _open_standard_streams()
    from netesto import cli, interrupts
    from netesto.run import status

    try:
        with interrupts.heeded():
            outcome = cli.main()
            # All is done: what comes now does not change the exit status.
            interrupts.heed()
    except KeyboardInterrupt:
        sys.stderr.write("netesto: interrupted\n")
        outcome = status.INTERRUPTED
    # Python would look at all objects once more before it ends: a third of a second after a run.
    gc.freeze()
    return outcome


def _open_standard_streams() -> None:
    """Open the null device in the place of each standard stream that is closed: a file or socket
    that is opened later would get its number, and what is meant for it."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    if sys.stderr is None:
        # print() would take None for standard output.
        sys.stderr = os.fdopen(2, "w", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
