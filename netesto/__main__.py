"""`python -m netesto`."""

import sys

from netesto import interrupts
from netesto.run import status


def main() -> int:
    """Run the command line; its exit status. Requests to end are heeded from the first instant on,
    also while the rest of the program is imported."""
    with interrupts.heeded():
        try:
            from netesto import cli  # noqa: PLC0415 - takes a moment

            outcome = cli.main()
        except KeyboardInterrupt:
            sys.stderr.write("netesto: interrupted\n")
            outcome = status.INTERRUPTED
        # All is done: what comes now does not change the exit status.
        interrupts.heed()
    return outcome


if __name__ == "__main__":
    sys.exit(main())
