"""`python -m netesto`."""

import sys

from netesto.cli import main

if __name__ == "__main__":
    sys.exit(main())
