"""Observations that the groups of an experiment share."""

from ipaddress import ip_address
from pathlib import Path
from typing import cast

from netesto.agent.observation import Observation
from netesto.collectors import ping
from netesto.collectors.clock import Clock
from netesto.collectors.sampler import Sampler
from netesto.system import process

HERE, THERE = ip_address("127.0.0.1"), ip_address("127.0.0.2")
DEADLINE_S = 60


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def observation(folder: Path) -> Observation:
    """One that takes no samples."""
    said: list[str] = []
    nobody = cast("Sampler", None)
    return Observation(
        folder,
        Clock(),
        nobody,
        on_warning=said.append,
        on_loss=said.append,
    )


async def test_groups_of_one_pair_of_hosts_have_one_train_of_pings(tmp_path: Path):
    observed = observation(tmp_path)
    async with observed.pinging(1, HERE):
        async with observed.pinging(2, HERE), observed.pinging(3, THERE):
            pass
        first = tmp_path / "ping.1.out"
        known = len(ping.read(first))
        goes_on = lambda: len(ping.read(first)) > known  # noqa: E731
        assert await process.wait_until_async(goes_on, timeout=DEADLINE_S)
    assert names(tmp_path) == ["ping.1.out", "ping.3.out"]


async def test_a_group_that_begins_later_has_its_own_train(tmp_path: Path):
    observed = observation(tmp_path)
    for group in (4, 7):
        async with observed.pinging(group, HERE):
            pass
    assert names(tmp_path) == ["ping.4.out", "ping.7.out"]
