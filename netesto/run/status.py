"""The exit statuses of `netesto`, named."""

from netesto.errors import (
    NetestoError,
    ScriptError,
    UsageError,
    WorldError,
)

OK = 0
# Something measured failed, or an ASSERT was false; the results are on disk.
FAILED = 1
# The script or the command line is wrong.
WRONG = 2
# The world is not ready: a host, a tool, a kernel feature, this machine, the results folder.
NOT_READY = 3
# compare: the runs are too few, or spread too much, to say that nothing is worse.
CANNOT_TELL = 4
# compare: an experiment of the base has nothing in the new folder that it can be compared with.
NOT_COMPARABLE = 5
# 128 + SIGINT: interrupted; partial results are kept, hosts are put back.
INTERRUPTED = 130


def of(error: NetestoError) -> int:
    """The exit status of an error."""
    match error:
        case ScriptError() | UsageError():
            return WRONG
        case WorldError():
            return NOT_READY
        case _:
            return FAILED
