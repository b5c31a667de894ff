"""A link's settings as words for tc."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto.grounds import UML
from netesto.links import made
from netesto.links.given import link_settings
from netesto.links.made import Maker

SHAPERS, WIRES = Maker(), Maker(has_wires=True)


def words(maker: Maker = SHAPERS, /, **asked: str) -> list[str]:
    direction = made.direction(link_settings(asked, what="link"), maker)
    return [
        " ".join((*place, *stage.words))
        for place, stage in zip(direction.places, direction.stages, strict=True)
    ]


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
        "root handle 1: netem limit 2353750 delay 20000us 2000us loss 0.010000%",
    ]


def test_packets_are_in_the_air_before_they_are_in_the_queue():
    assert words(rate="10mbit", rtt="40", limit="bdp", qdisc="fq_codel") == [
        "root handle 1: netem limit 10782 delay 20000us",
        "parent 1:1 handle 2: tbf rate 10000000bit burst 3028 limit 3028",
        "parent 2:1 handle 3: fq_codel limit 34",
    ]


def test_a_delay_line_holds_what_a_full_link_carries_in_the_smallest_packets():
    # 100 Mbit/s for 50 ms are 9766 frames of 64 bytes.
    [netem, _] = words(rate="100mbit", delay="50")
    assert netem == "root handle 1: netem limit 29532 delay 50000us"


def test_a_user_mode_kernel_needs_a_larger_burst():
    assert words(made.maker(UML), rate="100mbit") == [
        "root handle 1: tbf rate 100000000bit burst 62500 limit 625000"
    ]


def test_a_wire_has_its_queue_before_its_rate():
    assert words(WIRES, rate="10mbit", rtt="40", limit="bdp", qdisc="fq_codel") == [
        "root handle 1: netem limit 4294967295 delay 20000us rate 10000000bit",
        "parent 1:1 handle 2: fq_codel limit 34",
    ]


def test_a_wire_without_a_qdisc_has_a_queue_of_bytes():
    assert words(WIRES, rate="100mbit") == [
        "root handle 1: netem limit 4294967295 rate 100000000bit",
        "parent 1:1 handle 2: bfifo limit 625000",
    ]


def test_a_wire_that_is_down_passes_nothing():
    assert words(WIRES, rate="100mbit", down="1") == ["root handle 1: blackhole"]


def test_a_policed_link_drops_where_packets_enter_it():
    settings = link_settings({"rate": "10mbit", "delay": "5", "police": "30K"}, what="link")
    direction = made.direction(settings, Maker(has_wires=True))
    assert (direction.police, [stage.kind for stage in direction.stages]) == (
        (
            *("action", "police", "rate", "10000000bit", "burst", "30000", "mtu", "64kb"),
            *("conform-exceed", "drop/ok"),
        ),
        ["netem"],
    )


def test_everything_that_befalls_packets_is_an_option_of_netem():
    asked = {"delay": "10", "jitter": "1", "distribution": "normal", "loss": "ge(1,10)"}
    assert words(**asked, duplicate="1", corrupt="2", reorder="3") == [
        (
            "root handle 1: netem limit 1181875 delay 10000us 1000us distribution normal "
            "loss gemodel 1% 10% duplicate 1.000000% corrupt 2.000000% reorder 3.000000%"
        )
    ]


@pytest.mark.parametrize(
    ("delay", "exact_ns"), [("5", None), ("0.008", None), ("0.0075", 7500), ("0.007", 7000)]
)
def test_a_delay_that_tc_cannot_set_exactly_is_known(delay, exact_ns):
    settings = link_settings({"delay": delay}, what="link")
    assert made.direction(settings, Maker()).delay_ns == exact_ns


def test_a_delay_below_a_microsecond_is_written_in_microseconds():
    assert words(delay="0.0005") == ["root handle 1: netem limit 10040 delay 0.500us"]


def test_thresholds_of_an_aqm_are_its_options():
    asked = {"rate": "10mbit", "limit": "50p"}
    assert [
        words(WIRES, qdisc="codel", target="1", interval="20", ecn="1", **asked)[1],
        words(WIRES, qdisc="fq_pie", tupdate="30", quantum="300", flows="8", **asked)[1],
        words(WIRES, rate="10mbit", qdisc="red", min="30K", max="90K", ecn="1", limit="200K")[1],
        words(WIRES, rate="10mbit", qdisc="cake", interval="30", limit="2M")[1],
    ] == [
        "parent 1:1 handle 2: codel limit 50 target 1000us interval 20000us ecn",
        "parent 1:1 handle 2: fq_pie limit 50 tupdate 30000us quantum 300 flows 8",
        (
            "parent 1:1 handle 2: red limit 200000 avpkt 1000 bandwidth 10000000bit "
            "min 30000 max 90000 ecn"
        ),
        "parent 1:1 handle 2: cake memlimit 2000000 rtt 30000us",
    ]


def test_a_threshold_of_marks_is_rounded_to_a_microsecond():
    assert words(WIRES, rate="10mbit", qdisc="codel", mark="2.4224", limit="50p")[1] == (
        "parent 1:1 handle 2: codel limit 50 ce_threshold 2422us"
    )


def test_a_threshold_of_marks_alone_makes_a_queue_that_drops_only_when_it_is_full():
    # 100 kB take 0.8 ms at 1 Gbit/s.
    assert words(WIRES, rate="1gbit", mark="100K", limit="400p")[1] == (
        "parent 1:1 handle 2: codel limit 400 ce_threshold 800us "
        "target 1000000000us interval 1000000000us"
    )


def test_a_token_bucket_passes_its_burst_at_once_and_a_wire_nothing():
    settings = link_settings({"rate": "100mbit"}, what="link")
    errors = [made.error_bytes(settings, maker) for maker in (Maker(), Maker(has_wires=True))]
    assert errors == [12_500, 0]


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
        "parent 1:1 handle 2: codel limit 100 ce_threshold 500us",
    ]


def test_a_loss_without_a_delay():
    assert words(loss="1") == ["root handle 1: netem limit 10000 loss 1.000000%"]


def test_the_kinds_are_those_of_the_words():
    asked = {"rate": "10mbit", "delay": "20", "limit": "50p"}
    kinds = made.direction(link_settings(asked, what="link"), Maker()).kinds
    assert kinds == ("netem", "tbf", "pfifo", "clsact")


def test_a_plain_link_needs_nothing_of_the_kernel():
    assert made.direction(link_settings({"offload": "off"}, what="link"), Maker()).kinds == ()


@pytest.mark.parametrize(
    ("kind", "asked", "wanted"),
    [
        ("netem", {"delay": "20", "loss": "1"}, "delay=20 loss=1"),
        ("tbf", {"rate": "10mbit"}, "a rate of 10 Mbit/s"),
        ("fq_codel", {"rate": "10mbit", "qdisc": "fq_codel"}, "qdisc=fq_codel"),
        ("pfifo", {"rate": "10mbit", "limit": "50p"}, "limit=50p"),
        ("clsact", {"rate": "10mbit"}, "a link with limits (10 Mbit/s, queue 62500)"),
    ],
)
def test_what_asks_for_a_qdisc(kind, asked, wanted):
    assert made.wanted_by(link_settings(asked, what="link"), kind) == wanted


@given(st.floats(8e3, 1e11), st.integers(1280, 65_535))
def test_a_burst_holds_two_frames(rate_bps, mtu):
    assert made.burst_bytes(rate_bps, mtu) >= 2 * (mtu + 14)
