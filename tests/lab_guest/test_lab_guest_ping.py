"""Pings in simulated time."""

import resource
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from guests import Ended

from netesto.collectors import ping
from netesto.lab.kernels import Kernel


def children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.sim
def test_a_ping_whose_replies_come_just_before_the_next_request_sleeps_between(
    inside: Callable[..., Ended], sim_kernel: Kernel, tmp_path: Path
):
    file = tmp_path / "ping"
    script = str(Path(__file__).with_name("pinging.py"))
    before_s = children_s()
    ended = inside(sim_kernel, [sys.executable, script, str(file)], writable=[tmp_path])
    used_s = children_s() - before_s
    # Polling takes 0.3 s of the machine for each request.
    samples = ping.read(file)
    assert (ended.status, len(samples) > 15, used_s < 3.5) == (0, True, True), (used_s, ended)
