"""The common basis of both ends: the protocol number, and the options of gRPC with their
reasons."""

from typing import TypeAlias

import netesto
from netesto.errors import AgentError

Options: TypeAlias = tuple[tuple[str, int], ...]

# Incremented when an end with the old number would misunderstand one with the new. 0: a version
# without a number.
PROTOCOL = 5


def check(other: str, protocol: int, version: str, *, host: str = "") -> None:
    """AgentError with both versions if the `other` end ("agent", "controller") has another protocol
    number than this one."""
    if protocol == PROTOCOL:
        return
    ours = "controller" if other == "agent" else "agent"
    newer = version if protocol > PROTOCOL else netesto.__version__
    raise AgentError(
        f"the {other} has netesto {version or 'without a version'} (protocol {protocol}),"
        f" and the {ours} {netesto.__version__} (protocol {PROTOCOL})",
        host=host,
        remedy=f"Install the same version at both ends; the newer one is {newer}.",
    )


# A ping every 1.5 s, which must be answered within 2 s, also between calls: a cut, or a peer that
# hangs, is noticed after 2 to 3.5 s. gRPC answers pings itself, however busy Python is; if a
# machine is too busy for that, the hold is joined again.
KEEPALIVE_S = 1.5
KEEPALIVE_ANSWER_S = 2.0

# At this rate the pings of this many hosts on one machine take 4 % of a processor. With more hosts
# they are rarer, down to a tenth.
_HOSTS_AT_THAT_PACE = 20
_PACES_MAX = 10.0

# The other end must accept these pings; by default gRPC allows one in five minutes.
_MIN_PING_INTERVAL_S = 0.5

# The time between two attempts to reconnect, and the timeout of each: a restored path is used
# within a second.
_RECONNECT_S = (0.1, 1.0)
_CONNECT_S = 2.0

# Pieces of files have 256 KiB; lists of files may be longer.
_REPLY_BYTES_MAX = 16 * 1024 * 1024

# An agent allocates space for a request before it knows the caller. The longest requests name files
# of an experiment; the client requests few at a time (client._FETCHED_TOGETHER).
REQUEST_BYTES_MAX = 64 * 1024
# The hosts of a lab are called by their own user alone, and traces (DO_TRACE) may be long.
_LAB_REQUEST_BYTES_MAX = 256 * 1024 * 1024

# Until the caller is known, each takes a socket and up to 64 KiB, the window of HTTP/2.
_CONNECTIONS_MAX = 2_000

# A controller needs one for its hold, and one for each call in progress; further calls wait there.
_STREAMS_MAX = 100

# How long a connection may take to begin as HTTP/2, in milliseconds.
_HANDSHAKE_MS = 5_000


def client_options(machine_hosts: int = 1) -> Options:
    """Those of a controller; `machine_hosts` are the hosts that share one machine."""
    most = ("grpc.max_send_message_length", _request_bytes_max(machine_hosts))
    return (*_keepalive(machine_hosts), most, *_CLIENT_OPTIONS)


def server_options(machine_hosts: int = 1) -> Options:
    """Those of an agent."""
    most = ("grpc.max_receive_message_length", _request_bytes_max(machine_hosts))
    return (*_keepalive(machine_hosts), most, *_SERVER_OPTIONS)


def _request_bytes_max(machine_hosts: int) -> int:
    return _LAB_REQUEST_BYTES_MAX if machine_hosts > 1 else REQUEST_BYTES_MAX


def pace(machine_hosts: int) -> float:
    """The factor for timeouts if this many hosts share one machine."""
    return min(max(1.0, machine_hosts / _HOSTS_AT_THAT_PACE), _PACES_MAX)


def _keepalive(machine_hosts: int) -> Options:
    times = pace(machine_hosts)
    answer_ms = round(times * KEEPALIVE_ANSWER_S * 1000)
    return (
        ("grpc.keepalive_time_ms", round(times * KEEPALIVE_S * 1000)),
        ("grpc.keepalive_timeout_ms", answer_ms),
        # Without it gRPC waits a minute for the reply to a ping, whatever the timeout above.
        ("grpc.http2.ping_timeout_ms", answer_ms),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    )


_CLIENT_OPTIONS: Options = (
    ("grpc.max_receive_message_length", _REPLY_BYTES_MAX),
    ("grpc.initial_reconnect_backoff_ms", round(_RECONNECT_S[0] * 1000)),
    ("grpc.max_reconnect_backoff_ms", round(_RECONNECT_S[1] * 1000)),
    # The shortest time that gRPC gives to an attempt.
    ("grpc.min_reconnect_backoff_ms", round(_CONNECT_S * 1000)),
    # Do not use the web proxy of `http_proxy`.
    ("grpc.enable_http_proxy", 0),
    # Each controller has its own connection, so that the agent sees it end.
    ("grpc.use_local_subchannel_pool", 1),
    # Do not look up TXT records of a host's name.
    ("grpc.service_config_disable_resolution", 1),
)

_SERVER_OPTIONS: Options = (
    ("grpc.max_send_message_length", _REPLY_BYTES_MAX),
    ("grpc.max_concurrent_streams", _STREAMS_MAX),
    ("grpc.max_allowed_incoming_connections", _CONNECTIONS_MAX),
    ("grpc.max_metadata_size", 8 * 1024),
    ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
    # Windows do not grow with the bandwidth of a peer: requests are small.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", round(_MIN_PING_INTERVAL_S * 1000)),
    ("grpc.http2.max_ping_strikes", 0),
    # Otherwise two agents could listen on one port, and each would get half of the calls.
    ("grpc.so_reuseport", 0),
)

# Metadata keys of agent.proto.
HOLD_KEY = "netesto-hold"
STAMP_KEY = "netesto-stamp"
FAULT_KEY = "netesto-fault-bin"
