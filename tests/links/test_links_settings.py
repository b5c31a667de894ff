"""A link's settings, from text to values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto.errors import UsageError
from netesto.links.given import changed, link_settings, recorded
from netesto.links.settings import SETTINGS, LinkSettings, as_text, written
from netesto.links.values import Loss, Mark, QueueLimit


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
        rate="10mbit", delay="20", jitter="0.5", distribution="normal", loss="0.01", reorder="1",
        duplicate="2", corrupt="3", limit="50p", qdisc="fq_codel", target="1", interval="20",
        ecn="1", quantum="300", flows="16", mark="0.5", mtu="9000", offload="off",
    ) == LinkSettings(
        rate_bps=1e7, delay_ms=20.0, jitter_ms=0.5, distribution="normal", loss=Loss(0.01),
        reorder_percent=1.0, duplicate_percent=2.0, corrupt_percent=3.0,
        limit=QueueLimit(50, "packets"), qdisc="fq_codel", target_ms=1.0, interval_ms=20.0,
        ecn=True, quantum_bytes=300, flows=16, mark=Mark(ms=0.5), mtu=9000, offload="off",
    )  # fmt: skip


def test_settings_of_a_red_queue_are_read():
    asked = {"rate": "10mbit", "qdisc": "red", "min": "30K", "max": "90K", "limit": "200K"}
    assert read(**asked) == LinkSettings(
        rate_bps=1e7,
        qdisc="red",
        min_bytes=30_000,
        max_bytes=90_000,
        limit=QueueLimit(200_000, "bytes"),
    )


def test_a_policed_link_has_no_queue():
    settings = read(rate="10mbit", police="30K")
    assert (settings.police_bytes, settings.queue) == (30_000, None)


def test_losses_of_the_gilbert_elliott_model_are_read():
    assert read(loss="ge(1,10)").loss == Loss(model=(1.0, 10.0))


def test_mean_loss_of_the_gilbert_elliott_model_is_that_of_its_bad_state():
    # It is in the bad state for 1 / (1 + 10) of the time.
    assert round(Loss(model=(1.0, 10.0)).mean_percent, 6) == round(100 / 11, 6)


def test_mean_loss_counts_what_both_states_lose():
    assert Loss(model=(50.0, 50.0, 40.0, 10.0)).mean_percent == 25.0


def test_a_threshold_of_marks_in_bytes_has_a_unit():
    assert read(rate="10mbit", mark="100K").mark == Mark(size_bytes=100_000)


def test_a_threshold_in_bytes_is_a_time_before_the_rate():
    assert Mark(size_bytes=100_000).after_ms(1e9) == 0.8


def test_a_queue_without_marks_may_be_told_to_have_none():
    link = read(rate="10mbit", mark="100K")
    assert changed(link, {"mark": "none"}, what="link").mark is None
    assert changed(read(rate="10mbit"), {"mark": "none"}, what="link").mark is None


@pytest.mark.parametrize(
    "asked",
    [
        {"rate": "10mbit", "delay": "0.0005", "loss": "ge(1,10,90,0.5)", "limit": "100K"},
        {"rate": "1gbit", "qdisc": "codel", "mark": "100K", "target": "1", "ecn": "0"},
        {"rate": "10mbit", "police": "30K", "down": "1", "mtu": "9000", "offload": "off"},
        {"delay": "20", "jitter": "2", "distribution": "pareto", "reorder": "0.5", "corrupt": "1"},
    ],
)
def test_settings_are_read_back_from_their_text(asked):
    settings = read(**asked)
    assert link_settings(as_text(settings), what="") == settings


def test_every_setting_has_its_own_field():
    assert {name: setting.name for name, setting in SETTINGS.items()} == {
        name: name for name in SETTINGS
    }


# ---- changes -------------------------------------------------------------------------------------


def after(settings: LinkSettings, **given: str) -> LinkSettings:
    return changed(settings, given, what="SET_LINK")


def test_a_change_leaves_the_rest():
    assert after(read(rate="10mbit", delay="20", loss="1"), delay="5") == LinkSettings(
        rate_bps=1e7, delay_ms=5.0, loss=Loss(1.0), limit=QueueLimit(62_500, "bytes")
    )


def test_the_queue_keeps_its_size_at_another_rate():
    assert after(read(rate="10mbit"), rate="1gbit").queue == read(rate="10mbit").queue


def test_a_queue_of_another_kind_holds_as_much_in_its_own_unit():
    before = read(rate="10mbit", limit="15140")
    assert after(before, qdisc="fq_codel").limit == QueueLimit(10, "packets")


def test_a_limit_in_bdp_is_that_of_the_link_after_the_change():
    before = read(rate="10mbit", rtt="40")
    assert after(before, rate="100mbit", limit="bdp(1)").limit == QueueLimit(500_000, "bytes")


def test_settings_of_the_former_qdisc_go_with_it():
    before = read(rate="10mbit", qdisc="codel", target="1")
    assert after(before, qdisc="pie").target_ms is None


def test_an_rtt_replaces_the_delay():
    assert after(read(delay="20"), rtt="10").delay_ms == 5.0


def test_a_policed_link_queues_again():
    before = read(rate="10mbit", police="30K")
    assert after(before, police="none", qdisc="codel") == read(rate="10mbit", qdisc="codel")


def test_a_link_without_a_rate_loses_its_queue():
    assert after(read(rate="10mbit", limit="50K"), rate="none") == LinkSettings()


def test_rtt_is_twice_the_delay():
    assert read(rtt="40") == read(delay="20")


def test_a_delay_may_have_a_unit():
    assert read(delay="250us") == LinkSettings(delay_ms=0.25)


def test_a_loss_may_have_a_percent_sign():
    assert read(loss="1%") == LinkSettings(loss=Loss(1.0))


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
        ({"offload": "no"}, "LAB pair: offload=no: not one of host, on, off"),
        ({"qdisc": "fqcodel"}, "LAB pair: qdisc=fqcodel: not a queue that a link can have; did"),
        ({"limit": "100K"}, "LAB pair: limit=100K: nothing queues on a link without rate="),
        ({"qdisc": "fq"}, "LAB pair: qdisc=fq: nothing queues on a link without rate="),
        ({"rate": "1mbit", "qdisc": "pie", "mark": "1"}, "LAB pair: mark=1: qdisc=pie has no mark"),
        ({"rate": "10mbit", "target": "5"}, "LAB pair: target=5: qdisc=none has no target"),
        ({"rate": "10mbit", "qdisc": "red", "min": "9K"}, "LAB pair: red needs min= and max="),
        ({"mark": "1"}, "LAB pair: mark=1: nothing queues on a link without rate="),
        ({"police": "30K"}, "LAB pair: police=30K: nothing queues on a link without rate="),
        ({"rate": "1mbit", "police": "9K", "limit": "9K"}, "LAB pair: limit=9K: police= leaves"),
        ({"reorder": "1"}, "LAB pair: reorder=1: only with delay="),
        ({"delay": "1", "distribution": "normal"}, "LAB pair: distribution=normal: only with"),
        ({"loss": "ge(0,1)"}, "LAB pair: loss=ge(0,1): with p=0 the model never loses"),
        ({"loss": "ge(1,2,3,4,5)"}, "LAB pair: loss=ge(1,2,3,4,5): ge takes p, r, 1-h, 1-k"),
        ({"offload": "on", "loss": "1"}, "LAB pair: loss=1: a super-packet of offload=on counts"),
        (
            {"offload": "on", "rate": "1gbit", "limit": "50p"},
            "LAB pair: limit=50p: a super-packet of offload=on counts as one",
        ),
        (
            {"offload": "on", "rate": "1gbit", "qdisc": "red"},
            "LAB pair: qdisc=red: a super-packet of offload=on counts as one",
        ),
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


# ---- links that the program carries ----------------------------------------------------------


def carried(**given):
    return link_settings(given, what="a link")


def test_protect_makes_a_link_one_that_the_program_carries():
    assert [carried(**each).is_carried for each in (
        {"rate": "1gbit"}, {"protect": "off"}, {"emulator": "program"}, {"protect": "ordered"},
    )] == [False, True, True, True]  # fmt: skip


def test_pause_resume_and_hold_have_the_formulas_of_the_protection():
    link = carried(
        protect="ordered", rate="100gbit", delay="0.9us", reaction="4.3us", overhead="20"
    )
    # L = 6.1 us; 1.5 L at 100 Gbit/s is 114,375 bytes, and 10 frames of 1514.
    assert (link.pause_bytes, link.resume_bytes) == (129_515, 116_564)
    # 2 (L + 14 frames of 1537 bytes).
    assert link.hold_ms == pytest.approx(2 * (6.1e-3 + 14 * 1537 * 8 / 1e11 * 1e3))
    assert carried(protect="ordered", rate="1gbit", pause="5000").resume_bytes == 4500
    assert carried(protect="ordered").pause_bytes is None


@pytest.mark.parametrize(
    ("loss", "target", "copies"),
    [
        ("0.1", "1e-8", 2),
        ("0.01", "1e-8", 1),
        ("1", "1e-8", 3),
        ("10", "1e-3", 2),
        ("50", "0.25", 1),
    ],
)
def test_copies_auto_is_the_smallest_number_that_leaves_the_target(loss, target, copies):
    link = carried(protect="ordered", loss=loss, copies="auto", target=target)
    assert link.copies_made == copies
    assert recorded(written(link)) == link


_NONE = "the program that carries it has no"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("copies=3", "copies=3: only with protect= or emulator=program"),
        ("protect=off rate=1gbit qdisc=fq", f"qdisc=fq: {_NONE} qdisc="),
        ("protect=off duplicate=1", f"duplicate=1: {_NONE} duplicate="),
        ("protect=off delay=1 reorder=1", f"reorder=1: {_NONE} reorder="),
        ("protect=off offload=on", "offload=on: the program carries packets of the MTU"),
        ("protect=ordered pause=4000 resume=5000", "resume=5000: above pause=4000"),
        (
            "protect=ordered txbuffer=1000",
            "txbuffer=1000: does not hold one frame of 1514 bytes",
        ),
        ("protect=ordered copies=auto", "copies=auto: a loss of 0 % needs no copies, or all"),
        (
            "protect=ordered copies=auto loss=50",
            "copies=auto: 8 copies leave more than target=1e-08",
        ),
        ("rate=1gbit qdisc=codel target=1e-8", "target=1e-8: shorter than 1 us"),
    ],
)
def test_what_a_carried_link_cannot_be_is_refused(given, message):
    with pytest.raises(UsageError) as caught:
        carried(**dict(word.split("=", 1) for word in given.split()))
    assert caught.value.message == f"a link: {message}"


def test_a_link_of_the_kernel_does_not_become_protected():
    with pytest.raises(UsageError) as caught:
        changed(link_settings({"rate": "1gbit"}, what=""), {"protect": "ordered"}, what="SET_LINK")
    assert caught.value.message == (
        "SET_LINK: protect=ordered: the kernel carries this link, which cannot protect"
    )
