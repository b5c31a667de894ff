"""`netesto hosts install` after its steps: the hosts file."""

from dataclasses import replace
from pathlib import Path

import pytest

from netesto.cli import installing
from netesto.deploy.facts import ROOT, Facts, of_user
from netesto.deploy.plan import HostPlan
from netesto.deploy.target import Target
from netesto.transport.addresses import SshAddress

AS_ROOT = Facts()
AS_USER = replace(AS_ROOT, user="ann", home="/home/ann", places=of_user("/home/ann"))


def installed(path: Path, user: str, facts: Facts) -> None:
    host = Target("h1", SshAddress("h1", user))
    installing._write(path, installing._Done([host], {"h1": HostPlan(facts, ())}, []), "")


@pytest.fixture
def by_root(tmp_path, capsys) -> Path:
    path = tmp_path / "hosts.toml"
    installed(path, "root", AS_ROOT)
    capsys.readouterr()
    return path


def test_an_agent_that_another_user_had_installed_is_named(by_root, capsys):
    installed(by_root, "ann", AS_USER)
    assert capsys.readouterr().out == (
        f"hosts    {by_root}\n"
        "h1: the agent at ssh://root@h1 stays; to remove it: netesto hosts remove root@h1\n"
    )


def test_an_agent_that_another_user_installs_for_the_whole_host_replaces_the_first(by_root, capsys):
    installed(by_root, "ann", replace(AS_USER, places=ROOT))
    assert capsys.readouterr().out == f"hosts    {by_root}\n"
