"""Transports the calls of a controller to its agents.

gRPC logs to standard error, into a live display, although the caller gets the same as an error. It
reads the variable once, when it is imported; set it before that.
"""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
