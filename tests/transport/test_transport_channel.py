"""How often connections are checked."""

import pytest

from netesto.transport import channel


@pytest.mark.parametrize(
    ("machine_hosts", "every_ms", "answer_ms"),
    [
        (1, 1500, 2000),
        (20, 1500, 2000),
        (60, 4500, 6000),
        (200, 15_000, 20_000),
        (999, 15_000, 20_000),
    ],
)
def test_many_hosts_of_one_machine_are_pinged_less_often(machine_hosts, every_ms, answer_ms):
    for options in (channel.client_options(machine_hosts), channel.server_options(machine_hosts)):
        told = dict(options)
        assert told["grpc.keepalive_time_ms"] == every_ms
        assert told["grpc.keepalive_timeout_ms"] == answer_ms
        assert told["grpc.http2.ping_timeout_ms"] == answer_ms
