"""Flows that fail although their tool succeeded."""

from dataclasses import replace
from ipaddress import ip_address

from netesto.measured import SocketSample, TransferResult
from netesto.model import GroupRequest
from netesto.results.evidence import OK, GroupEvidence, InstanceEvidence
from netesto.results.silence import silence, without_silent
from results import samples

NOTHING = TransferResult(rate_bps=0.0, elapsed_s=2.004)
REQUESTS = replace(samples.PLAIN, test="TCP_RR")
STREAM = replace(REQUESTS, test="TCP_STREAM")
DATAGRAMS = replace(REQUESTS, test="UDP_STREAM")


def sample(received: int | None, *, acked: int = 1) -> SocketSample:
    return SocketSample(
        time_s=1.0,
        local_port=12900,
        peer_port=14000,
        congestion_control="cubic",
        cwnd=10,
        mss_bytes=1448,
        rtt_ms=1.0,
        min_rtt_ms=1.0,
        unacked=0,
        lost=0,
        retransmits=0,
        total_retransmits=0,
        bytes_sent=0,
        bytes_acked=acked,
        bytes_received=received,
    )


def flow(result: TransferResult | None, *seen: SocketSample) -> InstanceEvidence:
    status = OK if result else "failed before"
    return InstanceEvidence(
        instance=1,
        status=status,
        asked_start_s=0.0,
        started_s=0.0,
        ended_s=2.0,
        result=result,
        client_samples=seen,
    )


def group(request: GroupRequest, *flows: InstanceEvidence) -> GroupEvidence:
    return GroupEvidence(
        request=request,
        full_host=request.client,
        full_server=request.server,
        kernel="6.1",
        tool_version="2.7.0",
        instances=flows,
    )


def statuses(*groups: GroupEvidence) -> list[str]:
    return [each.status for group in without_silent(groups) for each in group.instances]


def test_requests_of_which_no_byte_arrived_are_no_data():
    silent = flow(NOTHING, sample(0), sample(0))
    assert silence(REQUESTS, silent) == "no data: 0 transactions in 2 s"


def test_a_request_still_on_its_way_at_the_end_is_a_measurement():
    assert silence(REQUESTS, flow(NOTHING, sample(0), sample(9_115_161))) == ""


def test_what_was_acknowledged_has_arrived_also_where_the_server_was_not_sampled():
    assert silence(REQUESTS, flow(NOTHING, sample(0, acked=9_115_161))) == ""


def test_a_stream_of_which_no_byte_arrived_is_no_data():
    assert silence(STREAM, flow(NOTHING, sample(0))) == "no data: 0 bytes in 2 s"


def test_what_only_shook_hands_and_closed_has_carried_nothing():
    ended = replace(sample(1, acked=2), state="CLOSE")
    assert silence(REQUESTS, flow(NOTHING, sample(0), ended)) == "no data: 0 transactions in 2 s"


def test_a_flow_with_a_rate_is_a_measurement():
    assert silence(STREAM, flow(replace(NOTHING, rate_bps=8.0))) == ""


def test_tcp_without_samples_is_given_the_benefit_of_the_doubt():
    assert silence(REQUESTS, flow(NOTHING, sample(None))) == ""


def test_datagrams_that_all_were_lost_are_no_data():
    assert silence(DATAGRAMS, flow(NOTHING)) == "no data: 0 bytes in 2 s"


def test_a_silent_flow_on_a_path_where_none_was_heard_has_failed():
    silent = group(STREAM, flow(NOTHING, sample(0)), flow(None))
    assert statuses(silent) == ["no data: 0 bytes in 2 s", "failed before"]


def test_a_silent_flow_beside_one_that_got_through_is_a_measurement():
    heard = group(replace(STREAM, group=2), flow(replace(NOTHING, rate_bps=8.0)))
    assert statuses(group(STREAM, flow(NOTHING, sample(0))), heard) == [OK, OK]


def test_a_flow_between_other_hosts_says_nothing_of_the_path():
    elsewhere = replace(STREAM, server="c", server_address=ip_address("10.0.0.3"))
    heard = group(elsewhere, flow(replace(NOTHING, rate_bps=8.0)))
    assert statuses(group(STREAM, flow(NOTHING, sample(0))), heard) == [
        "no data: 0 bytes in 2 s",
        OK,
    ]
