"""What carries the calls of a controller to its agents.

gRPC has a log of its own on standard error, in the midst of a live display; what it would say
there reaches the caller as an error anyway. It reads the variable once, when it is imported, so
this is the one place for it.
"""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
