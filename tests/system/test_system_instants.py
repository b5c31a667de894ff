"""A run that is asked to end at any instant, by any signals, ends within 5 s, with status 130
unless it had finished, and hosts, temporary files and results are as required."""

from collections.abc import Iterator

import pytest
from instants import INSTANTS, Instant, drawn, tried
from places import skip_unless_possible

from netesto.lab import netns
from netesto.lab.netns import Lab
from netesto.run import labs


@pytest.fixture(scope="module")
def hosts(lab_obstacle: str) -> Iterator[Lab]:
    """Two hosts with agents that run all the time."""
    if lab_obstacle:
        pytest.skip(f"lab: {lab_obstacle}")
    network = labs.network(labs.parse_spec("pair,rate=20mbit"))
    lab = netns.bring_up(labs.plan_of(network))
    yield lab
    netns.take_down(lab)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    option = metafunc.config.getoption
    grounds = option("--instants-grounds").split(",")
    found = drawn(option("--instants"), seed=option("--instants-seed"), grounds=grounds)
    on_hosts = "hosts" in metafunc.fixturenames
    # Who asks for another number of instants means all of them.
    is_default = option("--instants") == INSTANTS
    mine = [each for each in found if (each.ground == "hosts") == on_hosts]
    metafunc.parametrize(
        "instant",
        [
            pytest.param(each, marks=marks(each, is_thorough=is_default and rank % 2 == 1))
            for rank, each in enumerate(mine)
        ],
        ids=str,
    )


def marks(instant: Instant, *, is_thorough: bool) -> list[pytest.MarkDecorator]:
    ground = getattr(pytest.mark, instant.ground.replace("hosts", "lab"))
    return [ground, pytest.mark.thorough] if is_thorough else [ground]


def test_a_run_on_hosts_ends_at_any_instant(instant: Instant, hosts: Lab):
    ended = tried(instant, hosts)
    assert ended.fault(instant) == "", ended.said


# Shares nothing: workers take any of these.
def test_a_run_ends_at_any_instant(instant: Instant, lab_obstacle: str):
    skip_unless_possible(instant.ground, lab_obstacle)
    ended = tried(instant, None)
    assert ended.fault(instant) == "", ended.said
