"""`python -m netesto.agent`."""

import sys

from netesto.agent.daemon import main

if __name__ == "__main__":
    sys.exit(main())
