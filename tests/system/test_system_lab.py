"""A lab by hand: `netesto lab up`, `path`, `down`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from whole_runs import netesto

pytestmark = pytest.mark.lab

WAYS = {
    "h1 ─ e1 ─ a1 ─ c1 ─ a7 ─ e8 ─ h16",
    "h1 ─ e1 ─ a1 ─ c2 ─ a7 ─ e8 ─ h16",
    "h1 ─ e1 ─ a2 ─ c3 ─ a8 ─ e8 ─ h16",
    "h1 ─ e1 ─ a2 ─ c4 ─ a8 ─ e8 ─ h16",
}


@pytest.fixture(scope="module")
def fat_tree(tmp_path_factory: pytest.TempPathFactory, lab_obstacle: str) -> Iterator[str]:
    """The name of a fat tree that is up."""
    if lab_obstacle:
        pytest.skip(f"lab: {lab_obstacle}")
    folder = tmp_path_factory.mktemp("by-hand")
    name = netesto(folder, "lab", "up", "fattree").stdout.split()[1]
    yield name
    netesto(folder, "lab", "down", "--name", name)


def test_the_paths_between_two_hosts_and_their_shares(fat_tree: str, tmp_path: Path):
    done = netesto(tmp_path, "lab", "path", "--name", fat_tree, "h1", "h16")
    lines = [line.split("  ") for line in done.stdout.splitlines()]
    assert (done.status, {way for way, _ in lines}) == (0, WAYS)


def test_the_path_of_one_flow(fat_tree: str, tmp_path: Path):
    words = ("lab", "path", "--name", fat_tree, "h1", "h16", "--sport", "40000")
    done = netesto(tmp_path, *words)
    assert (done.status, done.stdout.strip() in WAYS) == (0, True)


def test_a_path_from_an_unknown_host(fat_tree: str, tmp_path: Path):
    done = netesto(tmp_path, "lab", "path", "--name", fat_tree, "h1", "h99")
    said = done.stderr.splitlines()[0]
    assert (done.status, said) == (2, f"netesto: lab {fat_tree}: no host h99")


def test_the_status_of_one_lab(fat_tree: str, tmp_path: Path):
    done = netesto(tmp_path, "lab", "status", "--name", fat_tree)
    first, *hosts = done.stdout.splitlines()
    assert (done.status, first, len(hosts)) == (0, f"lab {fat_tree} (fattree): up", 16)
