"""A stress test of the engine beside the figures of a second implementation, and theory."""

import itertools
import json
import math

import pytest
from needs import unmet

from netesto.emulator import PROGRAM, words
from netesto.links.given import link_settings
from netesto.results.stress import clopper_pearson
from netesto.system import process

# The link of the stress test of LinkGuardian's artifact.
LINK = "rate=100gbit delay=0.9us overhead=20"
PROTECTION = "reaction=4.3us pause=40000 resume=36800 copies=2"


@pytest.fixture(scope="module", autouse=True)
def _program():
    if not PROGRAM.exists():
        unmet("native", "netesto-link was not compiled: no C compiler")


def stressed(settings, *options, frames):
    there = dict(word.split("=", 1) for word in f"{LINK} {PROTECTION} {settings}".split())
    back = dict(word.split("=", 1) for word in LINK.split()) | {"emulator": "program"}
    ways = [link_settings(each, what="a link") for each in (there, back)]
    command = [str(PROGRAM), "stress", f"frames={frames}", "size=1518", *words(*ways), *options]
    return json.loads(process.run(command, timeout=100).stdout)


def speed_gbps(told):
    return told["delivered"] * (1518 + 20) * 8 / told["seconds"] / 1e9


# The greatest buffers in bytes. A second implementation gives these figures for 1e-3 and 1e-2.
@pytest.mark.parametrize(
    ("settings", "gbps", "tx_bytes", "rx_bytes"),
    [
        ("protect=ordered loss=0.1", 95.5, 27_000, 65_000),
        ("protect=ordered loss=1", 76, None, None),
        ("protect=nonblocking loss=0.1", 99.6, 27_000, None),
        ("protect=nonblocking loss=1", 97.8, None, None),
        ("protect=ordered loss=0.1 pause=130000 resume=117000", 99.5, None, 79_000),
    ],
)
def test_speed_recovery_and_buffers_are_those_of_a_second_implementation(
    settings, gbps, tx_bytes, rx_bytes
):
    told = stressed(settings, frames=1_000_000)
    assert speed_gbps(told) == pytest.approx(gbps, abs=1.0)
    assert told["recovery_p50_us"] == pytest.approx(6.2, abs=0.2)
    if tx_bytes is not None:
        assert told["tx_max"] == pytest.approx(tx_bytes, rel=0.25)
    if rx_bytes is not None:
        assert told["rx_max"] == pytest.approx(rx_bytes, rel=0.25)


@pytest.mark.parametrize("percent", [1, 3])
@pytest.mark.parametrize("copies", [1, 2])
def test_what_stays_lost_is_the_power_of_the_loss(percent, copies):
    told = stressed(f"protect=nonblocking loss={percent} copies={copies}", frames=2_000_000)
    low, high = clopper_pearson(told["given"] - told["delivered"], told["given"])
    assert low <= (percent / 100) ** (copies + 1) <= high


def test_without_protection_what_is_lost_on_the_wire_stays_lost():
    told = stressed("protect=off loss=1", frames=100_000)
    assert told["given"] - told["delivered"] == told["wire_lost"]
    assert speed_gbps(told) == pytest.approx(100 * 0.99, abs=0.1)


def test_the_same_seed_gives_the_same_result_and_another_seed_another():
    each = [stressed("protect=ordered loss=1", f"seed={n}", frames=100_000) for n in (1, 1, 2)]
    for told in each:
        # Of this machine.
        del told["elapsed_s"]
    assert each[0] == each[1]
    assert each[0] != each[2]


def test_losses_of_the_gilbert_model_have_its_mean_and_its_runs(tmp_path):
    path = tmp_path / "losses.csv"
    stressed("protect=off loss=ge(1,25)", f"losses={path}", frames=200_000)
    lost = [round(float(line.split(",")[0]) / 1538 / 8 * 1e11) for line in
            path.read_text().splitlines()[1:]]  # fmt: skip
    runs = sum(1 for a, b in itertools.pairwise(lost) if b != a + 1) + 1
    # In the bad state 4 % of the time, for 4 frames at a time; 3 standard deviations.
    assert len(lost) / 200_000 == pytest.approx(1 / 26, rel=0.08)
    assert len(lost) / runs == pytest.approx(4, rel=0.12)


def test_its_interval_is_that_of_clopper_and_pearson():
    assert clopper_pearson(0, 10) == pytest.approx((0, 1 - 0.025**0.1))
    assert clopper_pearson(10, 10) == pytest.approx((0.025**0.1, 1))
    # At each end, 3 or more, or 3 or fewer, of 1000 have a probability of 2.5 %.
    low, high = clopper_pearson(3, 1000)
    fewer = sum(math.comb(1000, k) * low**k * (1 - low) ** (1000 - k) for k in range(3))
    up_to = sum(math.comb(1000, k) * high**k * (1 - high) ** (1000 - k) for k in range(4))
    assert (1 - fewer, up_to) == pytest.approx((0.025, 0.025))
