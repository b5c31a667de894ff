import re
from dataclasses import replace

import pytest

from netesto.errors import ResultsError
from netesto.measured import GoodputInterval, TransferResult
from netesto.results import series
from netesto.results.series import CpuSeries, PingSeries, RateSeries, SocketSeries
from results import samples
from results.samples import BEGIN_S, experiment, group, instance, request, sample


def flow_of(*each, result=None, **other):
    flow = instance(client_samples=each, **({"result": result} if result else {}))
    return series.build(experiment(group(flow, **other))).flows[0]


def at(time_s, **values):
    return sample(BEGIN_S + time_s, **values)


def test_times_count_from_the_experiments_beginning():
    found = flow_of(at(1.5))
    assert (found.start_s, found.end_s, found.sockets[0].time_s) == (0.251, 24.25, (1.5,))


def test_socket_series_has_differences_and_momentary_values():
    found = flow_of(
        at(1.0, bytes_acked=0, total_retransmits=2, cwnd=10, unacked=9, rtt_ms=40, min_rtt_ms=39),
        at(1.2, bytes_acked=250_000, total_retransmits=5, cwnd=20),
    )  # fmt: skip
    assert found.sockets == (
        SocketSeries(
            time_s=(1.0, 1.2),
            acked_mbit_per_s=(None, 10.0),
            cwnd=(10, 20),
            unacked=(9, None),
            rtt_ms=(40.0, None),
            min_rtt_ms=(39.0, None),
            retransmits=(None, 3),
        ),
    )


def test_goodput_of_a_stream_is_what_the_receivers_socket_got():
    flow = replace(
        instance(client_samples=()),
        server_samples=(at(1.0, bytes_received=0), at(1.2, bytes_received=250_000)),
    )
    found = series.build(experiment(group(flow))).flows[0]
    assert found.goodput == RateSeries(source="bytes received", time_s=(1.1,), mbit_per_s=(10.0,))


def test_goodput_is_what_the_tool_tells_at_the_middle_of_its_intervals():
    told = TransferResult(
        rate_bps=1e6, elapsed_s=1.0, intervals=(GoodputInterval(BEGIN_S + 1, BEGIN_S + 1.2, 5e6),)
    )
    found = flow_of(at(1.0, bytes_acked=0), result=told)
    assert found.goodput == RateSeries(source="tool", time_s=(1.1,), mbit_per_s=(5.0,))


def test_goodput_is_what_was_acknowledged_where_the_tool_tells_no_intervals():
    found = flow_of(at(1.0, bytes_acked=0), at(2.0, bytes_acked=1_000_000))
    assert found.goodput == RateSeries(source="bytes acked", time_s=(1.5,), mbit_per_s=(8.0,))


def test_goodput_is_unknown_without_intervals_and_samples():
    assert flow_of().goodput == RateSeries(source="")


def test_counter_that_shrinks_gives_no_rate():
    found = flow_of(at(1.0, bytes_acked=500), at(2.0, bytes_acked=100))
    assert found.sockets[0].acked_mbit_per_s == (None, None)


def test_each_connection_of_a_flow_has_its_own_series():
    found = flow_of(at(1.0, local_port=1, cwnd=10), at(1.0, local_port=2, cwnd=20))
    assert [each.cwnd for each in found.sockets] == [(10,), (20,)]


def test_many_connections_are_put_in_one_row_without_differences():
    each = [at(2.0 - n / 100, local_port=n, cwnd=n, bytes_acked=n) for n in range(20)]
    found = flow_of(*each).sockets
    assert (len(found), found[0].cwnd[:2], set(found[0].acked_mbit_per_s)) == (1, (19, 18), {None})


def test_many_connections_have_the_medians_of_each_instant():
    each = [at(1.0 + n // 10, local_port=n, cwnd=n, rtt_ms=0.5) for n in range(20)]
    [found] = flow_of(*each).sockets
    assert (found.time_s, found.cwnd, found.rtt_ms) == ((1.0, 2.0), (4, 14), (0.5, 0.5))


def test_the_connections_of_a_traces_requests_are_one_row():
    asked = replace(request(), test="TRACE_KV")
    sampled = instance(
        client_samples=(at(1.0, local_port=1, cwnd=7), at(1.0, local_port=2, cwnd=9))
    )
    [flow] = series.build(experiment(group(sampled, asked=asked))).flows
    assert [each.cwnd for each in flow.sockets] == [(7,)]


def test_reverse_test_is_seen_at_the_server():
    flow = instance(client_samples=(at(1.0, cwnd=1),), server_samples=(at(1.0, cwnd=2),))
    found = series.build(experiment(group(flow, asked=request(test="TCP_MAERTS")))).flows[0]
    assert found.sockets[0].cwnd == (2,)


def test_label_tells_what_the_kernel_really_used():
    assert flow_of(at(1.0, congestion_control="bbr")).label == "bbr client1→server1 #1"


def test_datagrams_have_no_congestion_control_in_their_label():
    asked = replace(request(), test="UDP_STREAM")
    [flow] = series.build(experiment(group(instance(client_samples=()), asked=asked))).flows
    assert flow.label == "UDP client1→server1 #1"


def test_label_tells_the_group_only_where_another_is_alike():
    others = [request(group=2), request(group=3, client="client3")]
    found = series.build(
        experiment(*(group(instance(), asked=each) for each in (request(), *others)))
    )
    assert [flow.label for flow in found.flows] == [
        "cubic client1→server1 #1.1",
        "cubic client1→server1 #2.1",
        "cubic client3→server1 #1",
    ]


def test_pings_and_cpus_are_there_once():
    evidence = samples.partial()
    shared = replace(evidence.groups[1], server_cpu=evidence.groups[0].server_cpu)
    found = series.build(replace(evidence, groups=(evidence.groups[0], shared)))
    assert ([ping.group for ping in found.pings], [cpu.host for cpu in found.cpu]) == (
        [1, 2],
        ["client1", "client2", "server1"],
    )


def test_cpu_series_has_mean_and_busiest_core():
    evidence = samples.two_flows()
    found = series.build(evidence).cpu[-1]
    first = (found.host, found.time_s[0], found.mean_percent[0], found.busiest_percent[0])
    assert first == ("server1", 0.25, 38.0, 41.0)


def test_what_is_written_is_read_back(tmp_path):
    built = series.build(samples.partial())
    series.write(built, tmp_path / "series.json")
    assert series.read(tmp_path / "series.json") == built


def test_a_file_that_was_edited_is_reported(tmp_path):
    path = tmp_path / "series.json"
    series.write(series.build(samples.partial()), path)
    text = path.read_text()
    path.write_text(text.replace('"cubic"', '"bbr"', 1))
    with pytest.raises(ResultsError, match=r"series\.json: was edited: its checksum differs"):
        series.read(path)


def test_a_file_of_another_experiment_is_reported(tmp_path):
    (tmp_path / "7").mkdir()
    path = tmp_path / "7" / "series.json"
    series.write(series.build(samples.partial()), path)
    with pytest.raises(ResultsError, match=r"series\.json: it belongs to experiment 12"):
        series.read(path)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('"checksum":"[0-9a-f]{64}",', "", "was edited: its checksum differs"),
        ('"format":3', '"format":2', "another version of netesto wrote it"),
    ],
)
def test_a_file_of_another_format_is_refused(tmp_path, old: str, new: str, fault: str):
    path = tmp_path / "series.json"
    series.write(series.build(samples.partial()), path)
    path.write_text(re.sub(old, new, path.read_text()))
    with pytest.raises(ResultsError) as caught:
        series.read(path)
    assert caught.value.message == f"{path}: {fault}"


def test_hundred_flows_of_a_minute_stay_below_two_megabytes(tmp_path):
    series.write(series.build(samples.hundred_flows()), tmp_path / "series.json")
    assert (tmp_path / "series.json").stat().st_size < 2_000_000


def test_file_that_is_no_series_is_named(tmp_path):
    (tmp_path / "series.json").write_text("{}")
    with pytest.raises(ResultsError, match=r"series\.json: not readable as series"):
        series.read(tmp_path / "series.json")


def test_values_are_of_the_declared_kind():
    found = series.build(samples.two_flows())
    assert (type(found.cpu[0]), type(found.pings[0])) == (CpuSeries, PingSeries)
