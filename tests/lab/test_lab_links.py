"""A link's settings, from text to values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto.errors import UsageError
from netesto.lab.links import LinkSettings, QueueLimit, link_settings


def read(**asked: str) -> LinkSettings:
    return link_settings(asked, what="LAB pair")


def complaint(**asked: str) -> str:
    with pytest.raises(UsageError) as caught:
        read(**asked)
    return caught.value.message


def test_a_plain_link_has_no_limits():
    assert read() == LinkSettings()


def test_every_setting_is_read():
    assert read(
        rate="10mbit", delay="20", jitter="0.5", loss="0.01", limit="100K", mtu="9000",
        offload="off",
    ) == LinkSettings(
        rate_bps=1e7, delay_ms=20.0, jitter_ms=0.5, loss_percent=0.01,
        limit=QueueLimit(100_000, "bytes"), mtu=9000, offload=False,
    )  # fmt: skip


def test_rtt_is_twice_the_delay():
    assert read(rtt="40") == read(delay="20")


def test_a_delay_may_have_a_unit():
    assert read(delay="250us") == LinkSettings(delay_ms=0.25)


def test_a_loss_may_have_a_percent_sign():
    assert read(loss="1%") == LinkSettings(loss_percent=1.0)


def test_a_limit_in_packets():
    assert read(rate="10mbit", limit="50p").limit == QueueLimit(50, "packets")


def test_a_limit_of_one_and_a_half_bandwidth_delay_products():
    # 10 Mbit/s for 40 ms are 50 kB.
    asked = {"rate": "10mbit", "rtt": "40", "limit": "bdp(1.5)"}
    assert read(**asked).limit == QueueLimit(75_000, "bytes")


def test_a_bandwidth_delay_product_for_a_qdisc_that_counts_packets():
    asked = {"rate": "10mbit", "rtt": "40", "limit": "bdp", "qdisc": "fq_codel"}
    assert read(**asked).limit == QueueLimit(34, "packets")


def test_the_default_queue_of_a_short_path_lasts_50_ms():
    assert read(rate="100mbit").queue == QueueLimit(625_000, "bytes")


def test_the_default_queue_of_a_long_path_is_its_bandwidth_delay_product():
    assert read(rate="100mbit", rtt="200").queue == QueueLimit(2_500_000, "bytes")


def test_the_default_queue_of_a_slow_link_holds_an_initial_window():
    assert read(rate="64kbit").queue == QueueLimit(15_140, "bytes")


def test_a_rate_of_none_is_no_shaper():
    assert read(rate="none", delay="20") == read(delay="20")


def test_a_link_without_a_rate_has_no_queue():
    assert read(delay="20").queue is None


def test_only_netem_makes_delay_jitter_and_loss():
    assert read(rate="1gbit", delay="20", loss="1").emulates == ("delay=20", "loss=1")


def test_settings_in_words():
    asked = {"rate": "100mbit", "delay": "20", "loss": "0.1", "limit": "1M", "offload": "off"}
    words = "100 Mbit/s, delay 20 ms, loss 0.1 %, queue 1M, offload off"
    assert read(**asked).describe() == words


def test_a_plain_link_has_no_words():
    assert read().describe() == ""


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"rate": "fast"}, "LAB pair: rate=fast: 'fast' is not a rate"),
        ({"rate": "100"}, "LAB pair: rate=100: slower than 8 kbit/s"),
        ({"delay": "20mbit"}, "LAB pair: delay=20mbit: '20mbit' is not a time"),
        ({"delay": "-1"}, "LAB pair: delay=-1: not between 0 and 60000 ms"),
        ({"delay": "1", "rtt": "2"}, "LAB pair: give delay or rtt"),
        ({"delay": "1", "jitter": "2"}, "LAB pair: jitter=2: more than the delay"),
        ({"loss": "101"}, "LAB pair: loss=101: not between 0 and 100 percent"),
        ({"loss": "nan"}, "LAB pair: loss=nan: not between 0 and 100 percent"),
        ({"loss": "few"}, "LAB pair: loss=few: not a number"),
        ({"mtu": "500"}, "LAB pair: mtu=500: not a whole number from 1280 to 65535"),
        ({"offload": "no"}, "LAB pair: offload=no: neither on nor off"),
        ({"qdisc": "fqcodel"}, "LAB pair: qdisc=fqcodel: not a queue that a link can have; did"),
        ({"limit": "100K"}, "LAB pair: limit=100K: nothing queues on a link without rate="),
        ({"qdisc": "fq"}, "LAB pair: qdisc=fq: nothing queues on a link without rate="),
        ({"rate": "10mbit", "mark": "1"}, "LAB pair: mark=1: only qdisc=codel or fq_codel can"),
        ({"rate": "10mbit", "limit": "many"}, "LAB pair: limit=many: 'many' is not a size"),
        ({"rate": "10mbit", "limit": "100"}, "LAB pair: limit=100: does not hold one packet"),
        ({"rate": "10mbit", "limit": "5G"}, "LAB pair: limit=5G: a queue of 5G; the maximum is 4G"),
        ({"rate": "1tbit"}, "LAB pair: rate=1tbit: a queue of 6250M; the maximum is 4G"),
        ({"rate": "10mbit", "limit": "0p"}, "LAB pair: limit=0p: not a whole number"),
        ({"rate": "10mbit", "limit": "bdp(2)"}, "LAB pair: limit=bdp(2): needs the rate and"),
        ({"rate": "10mbit", "limit": "9K", "qdisc": "pfifo"}, "LAB pair: limit=9K: pfifo counts"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(asked, message):
    assert complaint(**asked).startswith(message)


def test_the_remedy_says_what_is_allowed():
    with pytest.raises(UsageError) as caught:
        read(rate="fast")
    assert caught.value.remedy == "rate: as in tc: 10mbit, 1gbit; none for no shaper"


def test_a_queue_of_a_host_is_no_setting_of_its_link():
    with pytest.raises(UsageError) as caught:
        read(qdisc="fq")
    assert caught.value.remedy == "SET_QDISC gives an interface of a host a queue."


@given(st.text(max_size=8))
def test_any_limit_is_read_or_refused(text):
    try:
        limit = read(rate="10mbit", delay="20", limit=text).limit
    except UsageError:
        return
    assert limit is not None
    assert limit.amount > 0


@given(st.integers(1514, 10**9))
def test_a_limit_in_bytes_is_read_back(size):
    settings = read(rate="10mbit", limit=str(size))
    assert read(rate="10mbit", limit=str(settings.limit)) == settings
