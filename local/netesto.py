#!/usr/bin/env python3
"""The classic command line of netesto, for old Makefiles and habits.

    netesto.py < script          run the script on standard input; results go to this folder
    netesto.py -n < script       print what it would do
    netesto.py -s                be the server of this host, which is now called its agent

`-d` shows more of what happens; `--debug=FILE` writes it to FILE. `netesto` has the rest.
"""

import argparse
import contextlib
import sys
from pathlib import Path

# This file has the package's name: its own folder is not where to look for the package.
sys.path.pop(0)

from netesto import cli


def main() -> int:
    """Translate the words, and run the same code as `netesto`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-s", dest="server", action="store_true")
    parser.add_argument("-n", dest="dry_run", action="store_true")
    parser.add_argument("-d", dest="verbose", action="store_true")
    parser.add_argument("--debug", type=Path)
    parser.add_argument("-p", "--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs="*", help="options of netesto run, such as --hosts FILE")
    classic, options = parser.parse_known_args()
    if classic.server:
        # An agent says why it listens on no port, and what to do.
        port = ["--listen", f"127.0.0.1:{classic.port}"] if classic.port is not None else []
        return cli.main(["agent", *port, *options])
    words = ["run", "--out", ".", *options, *classic.rest, "-"]
    words[1:1] = ["-n"] if classic.dry_run else []
    words[1:1] = ["-v"] if classic.verbose or classic.debug else []
    with contextlib.ExitStack() as stack:
        if classic.debug:
            log = stack.enter_context(classic.debug.open("a"))
            stack.enter_context(contextlib.redirect_stderr(log))
        return cli.main(words)


if __name__ == "__main__":
    sys.exit(main())
