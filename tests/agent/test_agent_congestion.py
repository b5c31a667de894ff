"""Which congestion controls a process may use, with all rights and with none."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from netesto.agent import congestion
from netesto.system import process

SHOW = "import sys; from netesto.agent import congestion; print(*congestion.allowed(sys.argv[1:]))"


def listed(kind: str) -> set[str]:
    return set(Path(f"/proc/sys/net/ipv4/tcp_{kind}_congestion_control").read_text().split())


def allowed_without_rights(*known: str) -> set[str]:
    argv = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-c", SHOW, *known]
    return set(process.run(argv, timeout=60).stdout.split())


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_may_use_all():
    assert congestion.allowed([*listed("available"), "of_a_module"]) == ()


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="drops rights")
def test_without_rights_those_that_the_kernel_allows_may_be_used():
    allowed = set() if listed("available") <= listed("allowed") else listed("allowed")
    assert allowed_without_rights(*listed("available")) == allowed


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="drops rights")
def test_without_rights_one_whose_module_is_not_loaded_may_not_be_used():
    assert allowed_without_rights(*listed("available"), "of_a_module") == listed("allowed")
