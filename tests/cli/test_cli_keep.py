"""Warnings about settings that a script leaves on purpose."""

import pytest

from netesto import cli

TEXT = "{}SET_SYSCTL host=a net.ipv4.tcp_ecn=1 keep=1\nSET_QDISC host=a qdisc=fq keep=1\n"
WARNING = "SET_SYSCTL: keep=1 has no effect beyond the lab, whose hosts are removed with it"


@pytest.fixture
def warnings_of(tmp_path, monkeypatch, capsys):
    """The warnings about a script."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hosts.toml").write_text('[a]\nagent = "unix:/nowhere"\n')

    def of(text, *command):
        (tmp_path / "a.nts").write_text(text)
        cli.main([*command, "a.nts"])
        return [
            line
            for line in capsys.readouterr().err.splitlines()
            if "keep" in line and "warning" in line
        ]

    return of


def test_check_warns_once_that_a_lab_keeps_nothing(warnings_of):
    assert warnings_of(TEXT.format("LAB pair\n"), "check") == [f"a.nts:2:43: warning: {WARNING}"]


def test_a_dry_run_warns_once_that_a_lab_keeps_nothing(warnings_of):
    assert warnings_of(TEXT.format("LAB pair\n"), "run", "-n") == [f"warning: a.nts:2: {WARNING}"]


def test_of_real_hosts_there_is_no_warning(warnings_of):
    assert warnings_of(TEXT.format(""), "check", "--hosts", "hosts.toml") == []
