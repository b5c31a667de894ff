import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto.agent.qdiscs import RootQdisc, described, parse, recreate
from netesto.errors import OutputError
from netesto.units import decimal

# As iproute2 6.1.0 prints them.
PFIFO = '[{"kind":"pfifo","handle":"801a:","root":true,"refcnt":3,"options":{"limit":100}}]'
TBF = (
    '[{"kind":"tbf","handle":"801b:","root":true,"refcnt":3,'
    '"options":{"rate":1250000,"burst":15000,"lat":50000}}]'
)
DEFAULT = (
    '[{"kind":"mq","handle":"0:","root":true,"options":{}},'
    '{"kind":"fq_codel","handle":"0:","parent":":1","options":{"limit":10240}}]'
)
SHAPED = (
    '[{"kind":"tbf","handle":"1:","root":true,"options":{"rate":1250000,"burst":15000,"lat":50}},'
    '{"kind":"pfifo","handle":"10:","parent":"1:1","options":{"limit":100}}]'
)


def test_root_is_read():
    assert parse(PFIFO) == RootQdisc("pfifo", "801a:", {"limit": 100})


@pytest.mark.parametrize("text", ["", "[]", DEFAULT])
def test_kernels_own_qdisc_is_no_root_of_anybody(text: str):
    assert parse(text) is None


def test_children_are_seen():
    root = parse(SHAPED)
    assert root == RootQdisc("tbf", "1:", {"rate": 1250000, "burst": 15000, "lat": 50}, True)


@pytest.mark.parametrize("kind", ["ingress", "clsact"])
def test_qdisc_of_incoming_packets_is_no_child_of_the_root(kind: str):
    entrance = f'{{"kind":"{kind}","handle":"ffff:","parent":"ffff:fff1","options":{{}}}}'
    assert parse(f"{PFIFO[:-1]},{entrance}]") == parse(PFIFO)


@pytest.mark.parametrize("text", ["{", "[1]", '[{"root": true}]'])
def test_text_that_is_no_list_of_qdiscs_is_an_error(text: str):
    with pytest.raises(OutputError, match="invalid list of qdiscs from tc"):
        parse(text)


def again(root: RootQdisc | None) -> tuple[str, ...] | None:
    assert root is not None
    return recreate(root)


def test_fifo_is_made_again():
    assert again(parse(PFIFO)) == ("handle", "801a:", "pfifo", "limit", "100")


def test_token_bucket_is_made_again_in_bits():
    words = (
        "handle",
        "801b:",
        "tbf",
        "rate",
        "10000000bit",
        "burst",
        "15000",
        "latency",
        "50000us",
    )
    assert again(parse(TBF)) == words


def test_netem_with_loss_is_made_again():
    options = {"limit": 1000, "loss-random": {"loss": 0.0001, "correlation": 0}, "ecn": False}
    words = ("handle", "1:", "netem", "limit", "1000", "loss", "0.01%", "0%")
    assert recreate(RootQdisc("netem", "1:", options)) == words


def test_fair_queue_keeps_its_rate_and_its_horizon():
    # As iproute2 6.1.0 prints it; the last three are those of 6.13.
    options = {"limit": 83, "flow_limit": 100, "buckets": 1024, "orphan_mask": 1023,
               "pacing": False, "quantum": 3028, "initial_quantum": 15140, "maxrate": 125_000_000,
               "low_rate_threshold": 68_750, "refill_delay": 40_000, "ce_threshold": 900,
               "timer_slack": 10_000, "horizon": 5_000_000, "horizon_cap": None,
               "bands": 3, "priomap ": [1, 2, 2], "weights ": [589824, 196608, 65536]}  # fmt: skip
    made = recreate(RootQdisc("fq", "1:", options))
    assert made is not None
    assert " ".join(made[3:]) == (
        "limit 83 flow_limit 100 buckets 1024 orphan_mask 1023 nopacing quantum 3028"
        " initial_quantum 15140 maxrate 1000000000bit low_rate_threshold 550000bit"
        " refill_delay 40000us ce_threshold 900us timer_slack 10000ns horizon 5000000us horizon_cap"
        " bands 3 priomap 1 2 2 weights 589824 196608 65536"
    )


def test_delay_line_keeps_its_marks():
    options = {"limit": 9, "loss-random": {"loss": 0.01, "correlation": 0}, "ecn": True}
    words = ("handle", "1:", "netem", "limit", "9", "loss", "1%", "0%", "ecn")
    assert recreate(RootQdisc("netem", "1:", options)) == words


def test_controlled_delay_keeps_its_times_and_marks():
    options = {
        "limit": 83, "flows": 1024, "quantum": 1514, "target": 6999, "ce_threshold": 999,
        "interval": 69999, "memory_limit": 33554432, "ecn": True, "drop_batch": 64,
    }  # fmt: skip
    made = recreate(RootQdisc("fq_codel", "1:", options))
    assert made is not None
    assert " ".join(made[3:]) == (
        "limit 83 flows 1024 quantum 1514 target 7000us interval 70000us ce_threshold 1000us"
        " memory_limit 33554432 drop_batch 64 ecn"
    )


@pytest.mark.parametrize(
    "root",
    [
        RootQdisc("htb", "1:", {"default": "0x10"}),
        RootQdisc("tbf", "1:", {"rate": 1, "burst": 1, "lat": 1}, has_children=True),
        RootQdisc("tbf", "1:", {"rate": 1, "burst": 1, "lat": 1, "peakrate": 2}),
        RootQdisc("netem", "1:", {"limit": 9, "reorder": {"reorder": 0.1}}),
        RootQdisc("pfifo", "1:", {}),
        RootQdisc("fq", "1:", {"limit": 9, "a_new_one": 1}),
    ],
)
def test_what_cannot_be_known_is_not_guessed(root: RootQdisc):
    assert recreate(root) is None


@pytest.mark.parametrize(
    ("value", "text"), [(0.01, "0.01"), (20.0, "20"), (0.000001, "0.000001"), (100, "100")]
)
def test_decimal_keeps_its_digits(value: float, text: str):
    assert decimal(value) == text


@given(st.decimals("0", "3600000", places=6))
def test_decimal_is_read_back(value):
    assert float(decimal(float(value))) == float(value)


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("htb", {"r2q": 10, "direct_packets_stat": 0}, {"r2q": 10, "direct_packets_stat": 7}),
        (
            "cake",
            {"bandwidth": 5000000, "autorate": "autorate-ingress"},
            {"bandwidth": 4669189, "autorate": "autorate-ingress"},
        ),
    ],
)
def test_what_packets_change_in_a_qdisc_is_no_change_of_it(
    kind: str, before: dict[str, object], after: dict[str, object]
):
    first, then = (described(RootQdisc(kind, "1:", each)) for each in (before, after))
    assert first == then


def test_another_bandwidth_of_cake_is_a_change():
    first, then = (described(RootQdisc("cake", "1:", {"bandwidth": each})) for each in (1, 2))
    assert first != then
