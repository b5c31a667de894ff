"""What carries the calls of a controller to its agents.

gRPC writes a log to standard error, in the middle of a live display; the caller gets the same as an
error. It reads the variable once, when it is imported, and therefore after this.
"""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
