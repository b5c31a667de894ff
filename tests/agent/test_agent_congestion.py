"""Which congestion controls a process may use, with all rights and with none."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from netesto import process
from netesto.agent import congestion

SHOW = "from netesto.agent import congestion; print(*congestion.allowed())"


def listed(kind: str) -> set[str]:
    return set(Path(f"/proc/sys/net/ipv4/tcp_{kind}_congestion_control").read_text().split())


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_may_use_all():
    assert congestion.allowed() == ()


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="drops rights")
def test_without_rights_those_that_the_kernel_allows_may_be_used():
    argv = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-c", SHOW]
    allowed = set() if listed("available") <= listed("allowed") else listed("allowed")
    assert set(process.run(argv, timeout=30).stdout.split()) == allowed
