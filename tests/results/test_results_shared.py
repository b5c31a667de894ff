"""What groups of an experiment share counts once in its row: interfaces, queues, pings."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto.files import paths
from netesto.measured import PingSample
from netesto.results import fields, series
from netesto.results.evidence import GroupEvidence
from netesto.results.overall import counted_once
from netesto.results.queues import Queue
from results import samples

BEGIN_S = samples.BEGIN_S + samples.LEAD_S


def counting(number: int, first: int | None, last: int, *, device="eth0", client="client1"):
    """A group while which the interface counted from `first` to `last`, in each counter."""
    names = ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes")
    return samples.group(
        samples.instance(),
        asked=samples.request(group=number, client=client),
        device=device,
        counters=dict.fromkeys(names, last - (first or 0)),
        counters_before=None if first is None else dict.fromkeys(names, first),
    )


def whole(*each: GroupEvidence) -> Mapping[str, str]:
    """The row of the experiment."""
    return samples.row(fields.load(paths.fields_file()), *each)


@pytest.mark.parametrize(
    ("each", "packets"),
    [
        ([counting(1, 100, 300)], "200.0"),
        ([counting(1, 100, 300), counting(2, 100, 300)], "200.0"),
        ([counting(1, 100, 300), counting(2, 250, 400)], "300.0"),
        ([counting(1, 0, 900), counting(2, 100, 200), counting(3, 300, 400)], "900.0"),
        # Counts between them belong to neither.
        ([counting(1, 0, 100), counting(2, 500, 600)], "200.0"),
        ([counting(1, 0, 100), counting(2, 0, 100, device="eth1")], "200.0"),
        ([counting(1, 0, 100), counting(2, 0, 100, client="client2")], "200.0"),
        # Imported: the earlier counts of the interface are unknown.
        ([counting(1, None, 100), counting(2, None, 100)], "200.0"),
        ([], ""),
        ([samples.group(samples.failed(), counters={"tx_packets": 5})], ""),
    ],
)
def test_packets_of_an_interface_count_once(each, packets):
    assert whole(*each)["client-tx-packets"] == packets


def test_bytes_per_packet_are_of_the_whole():
    found = whole(counting(1, 0, 100), counting(2, 50, 100))
    assert (found["client-tx-packet-len"], found["client-rx-bytes"]) == ("1.0", "100.0")


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1))
def test_counters_gain_what_some_group_saw(pairs):
    seen = [("a", min(pair), max(pair)) for pair in pairs]
    steps = {step for _, first, last in seen for step in range(first, last)}
    assert counted_once(seen) == len(steps)


def dropping(number: int, *queues: Queue) -> GroupEvidence:
    asked = samples.request(group=number)
    return samples.group(samples.instance(), asked=asked, queues=queues)


def queue(place: str, drops: int) -> Queue:
    return Queue(
        place=place, kind="tbf", rate_bps=None, time_s=(BEGIN_S, BEGIN_S + 30),
        backlog_bytes=(0, 0), backlog_packets=(0, 0), drops=(3, 3 + drops), marks=(None, None),
        delay_us=(None, None),
    )  # fmt: skip


def test_drops_of_a_queue_count_once_and_those_of_another_are_added():
    left, shared, right = queue("a/l", 1), queue("r/s", 10), queue("b/r", 100)
    found = whole(dropping(1, left, shared), dropping(2, shared, right))
    assert (found["queueDrops"], found["queueMarks"]) == ("111.0", "")


def pinging(number: int, client: str = "client1") -> GroupEvidence:
    asked = samples.request(group=number, client=client)
    pings = tuple(PingSample(BEGIN_S + second, 10.0, second + 1) for second in (0, 1, 4, 5))
    return samples.group(samples.instance(), asked=asked, pings=pings)


def test_lost_pings_of_a_pair_of_hosts_count_once():
    assert whole(pinging(1), pinging(2), pinging(3, "client2"))["pingLost"] == "4.0"


def test_pings_of_a_pair_of_hosts_are_one_series():
    found = series.build(samples.experiment(pinging(1), pinging(2), pinging(3, "client2"))).pings
    assert [(each.host, each.groups, len(each.time_s)) for each in found] == [
        ("client1", (1, 2), 4),
        ("client2", (3,), 4),
    ]
