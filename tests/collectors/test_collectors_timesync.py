import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from netesto.collectors import timesync
from netesto.model import TimeSync
from netesto.system import process

# What chronyc 4.3 printed: a reference, and none.
TRACKING = (
    "C0A80101,192.168.1.1,3,1700000000.123456789,-0.000012000,0.000001,0.000035,-12.3,0.001,"
    "0.015,0.004000000,0.000500000,64.2,Normal\n"
)
NO_SOURCE = (
    "7F7F0101,,0,0.000000000,0.000000000,0.0,0.0,0.000,0.000,0.000,1.000000000,1.000000000,0.0,"
    "Not synchronised\n"
)


def test_the_bound_of_chrony_is_offset_dispersion_and_half_the_delay():
    found = timesync.parse_tracking(TRACKING)
    expected = TimeSync(is_synchronized=True, error_s=0.002512, source="chronyd")
    assert replace(found, error_s=round(found.error_s, 9)) == expected


def test_chrony_without_a_source_is_not_synchronized():
    assert not timesync.parse_tracking(NO_SOURCE).is_synchronized


def test_a_clock_that_is_its_own_reference_is_not_synchronized():
    tracking = (
        "7F7F0101,,8,1795501935.169556202,0.000000000,0.000000000,0.000000000,0.000,0.000,0.000,"
        "0.000000000,0.000000000,0.0,Normal\n"
    )
    assert not timesync.parse_tracking(tracking).is_synchronized


def test_what_is_no_output_of_chronyc_means_not_synchronized():
    found = timesync.parse_tracking("506 Cannot talk to daemon\n")
    assert found == TimeSync(is_synchronized=False, error_s=0.0, source="chronyd")


def test_chronyd_is_asked_where_the_kernel_does_not_know(tmp_path, monkeypatch):
    daemon, client = tmp_path / "chronyd", tmp_path / "chronyc"
    shutil.copy("/bin/sleep", daemon)
    client.write_text(f"#!/bin/sh\ncat <<'.'\n{TRACKING}.\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    if asyncio.run(timesync.read()).is_synchronized:
        pytest.skip("the kernel of this machine says itself that its clock is synchronized")
    with process.background([str(daemon), "60"], stdout=tmp_path / "log", timeout=60) as child:
        # The kernel lets us know that a program has started before it gives the process its name.
        comm = Path(f"/proc/{child.pid}/comm")
        assert process.wait_until(lambda: comm.read_text() == "chronyd\n", timeout=60)
        assert asyncio.run(timesync.read()) == timesync.parse_tracking(TRACKING)
