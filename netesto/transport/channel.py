"""The gRPC options that both ends must agree on, with their reasons."""

# A ping every 4 s, answered within 6 s, also between calls: a frozen or vanished peer is noticed
# in at most 10 s and the calls to it fail. gRPC answers pings by itself, however busy Python is.
KEEPALIVE_S = 4.0
KEEPALIVE_ANSWER_S = 6.0

# The other end must tolerate these pings; gRPC's own limit is one in five minutes.
_MIN_PING_INTERVAL_S = 2.0

# Pieces of files have 256 KiB, lists of files are smaller still.
_MESSAGE_BYTES_MAX = 16 * 1024 * 1024

COMMON_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.keepalive_time_ms", round(KEEPALIVE_S * 1000)),
    ("grpc.keepalive_timeout_ms", round(KEEPALIVE_ANSWER_S * 1000)),
    # Without it an unanswered ping is waited for a minute, whatever the timeout above says.
    ("grpc.http2.ping_timeout_ms", round(KEEPALIVE_ANSWER_S * 1000)),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", _MESSAGE_BYTES_MAX),
)

CLIENT_OPTIONS = (
    *COMMON_OPTIONS,
    # Test beds are not behind the proxy that `http_proxy` names for the web.
    ("grpc.enable_http_proxy", 0),
    # Each controller has a connection of its own, so that its end is seen by the agent.
    ("grpc.use_local_subchannel_pool", 1),
    # What a host's name stands for is asked of the name service, not of its TXT records.
    ("grpc.service_config_disable_resolution", 1),
)

SERVER_OPTIONS = (
    *COMMON_OPTIONS,
    ("grpc.http2.min_recv_ping_interval_without_data_ms", round(_MIN_PING_INTERVAL_S * 1000)),
    ("grpc.http2.max_ping_strikes", 0),
    # Two agents on one port would each get half of the calls.
    ("grpc.so_reuseport", 0),
)

# Metadata keys of agent.proto.
HOLD_KEY = "netesto-hold"
FAULT_KEY = "netesto-fault-bin"
