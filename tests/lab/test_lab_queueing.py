"""A link's settings as words for tc."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto import shaping
from netesto.lab import queueing
from netesto.lab.links import link_settings


def words(**asked: str) -> list[str]:
    return [" ".join(line) for line in queueing.qdiscs(link_settings(asked, what="link"))]


def test_a_plain_link_needs_no_qdisc():
    assert words() == []


def test_a_rate_needs_tbf_with_a_burst_of_a_millisecond():
    assert words(rate="100mbit") == [
        "root handle 1: tbf rate 100000000bit burst 12500 limit 625000",
    ]


def test_a_slow_rate_lets_two_packets_through_at_once():
    assert words(rate="1mbit", limit="30K") == [
        "root handle 1: tbf rate 1000000bit burst 3028 limit 30000",
    ]


def test_a_limit_in_packets_is_a_queue_of_its_own():
    assert words(rate="100mbit", limit="50p") == [
        "root handle 1: tbf rate 100000000bit burst 12500 limit 12500",
        "parent 1:1 handle 2: pfifo limit 50",
    ]


def test_delay_jitter_and_loss_need_netem():
    assert words(delay="20", jitter="2", loss="0.01") == [
        "root handle 1: netem delay 20000us 2000us loss 0.010000% limit 1728750",
    ]


def test_packets_are_in_the_air_before_they_are_in_the_queue():
    assert words(rate="10mbit", rtt="40", limit="bdp", qdisc="fq_codel") == [
        "root handle 1: netem delay 20000us limit 10782",
        "parent 1:1 handle 2: tbf rate 10000000bit burst 3028 limit 3028",
        "parent 2:1 handle 3: fq_codel limit 34",
    ]


def test_a_delay_line_holds_what_a_full_link_carries_in_the_smallest_packets():
    # 100 Mbit/s for 50 ms are 9766 frames of 64 bytes.
    [netem, _] = words(rate="100mbit", delay="50")
    assert netem == "root handle 1: netem delay 50000us limit 29532"


def test_a_user_mode_kernel_needs_a_larger_burst():
    link = link_settings({"rate": "100mbit"}, what="link")
    [line] = queueing.qdiscs(link, burst_s=shaping.burst_s("uml"))
    assert " ".join(line) == "root handle 1: tbf rate 100000000bit burst 62500 limit 625000"


def test_simulated_time_is_never_late():
    assert shaping.burst_s("sim") == shaping.burst_s(None) == shaping.BURST_S


def test_red_takes_its_thresholds_from_the_limit():
    assert words(rate="100mbit", qdisc="red", limit="300K")[1:] == [
        "parent 1:1 handle 2: red limit 300000 avpkt 1000 bandwidth 100000000bit",
    ]


def test_cake_has_a_limit_of_memory():
    assert words(rate="100mbit", qdisc="cake", limit="2M")[1:] == [
        "parent 1:1 handle 2: cake memlimit 2000000",
    ]


def test_marks_are_of_packets_that_queued_too_long():
    assert words(rate="100mbit", qdisc="codel", mark="0.5", limit="100p")[1:] == [
        "parent 1:1 handle 2: codel limit 100 ecn ce_threshold 500us",
    ]


def test_a_loss_without_a_delay():
    assert words(loss="1") == ["root handle 1: netem loss 1.000000% limit 10000"]


def test_the_kinds_are_those_of_the_words():
    asked = {"rate": "10mbit", "delay": "20", "limit": "50p"}
    kinds = queueing.kinds(link_settings(asked, what="link"))
    assert kinds == ("netem", "tbf", "pfifo", "ingress")


def test_a_plain_link_needs_nothing_of_the_kernel():
    assert queueing.kinds(link_settings({"offload": "off"}, what="link")) == ()


@pytest.mark.parametrize(
    ("kind", "asked", "wanted"),
    [
        ("netem", {"delay": "20", "loss": "1"}, "delay=20 loss=1"),
        ("tbf", {"rate": "10mbit"}, "a rate of 10 Mbit/s"),
        ("fq_codel", {"rate": "10mbit", "qdisc": "fq_codel"}, "qdisc=fq_codel"),
        ("pfifo", {"rate": "10mbit", "limit": "50p"}, "limit=50p"),
        ("ingress", {"rate": "10mbit"}, "a link with limits (10 Mbit/s, queue 62500)"),
    ],
)
def test_what_asks_for_a_qdisc(kind, asked, wanted):
    assert queueing.wanted_by(link_settings(asked, what="link"), kind) == wanted


@given(st.floats(8e3, 1e11), st.integers(1280, 65_535))
def test_a_burst_holds_two_frames(rate_bps, mtu):
    assert shaping.burst_bytes(rate_bps, mtu) >= 2 * (mtu + 14)
