"""An agent with the fault that netesto.transport.grpcserver mends."""

import sys

from netesto.agent import daemon
from netesto.transport import grpcserver

if __name__ == "__main__":
    del grpcserver._AioServer._make_request_call_future
    sys.exit(daemon.main())
