"""CPU quotas of control groups."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from netesto.collectors import cgroup
from netesto.collectors.cgroup import Quota

SECOND = {
    "proc/self/cgroup": "0::/system.slice/agent.service\n",
    "sys/fs/cgroup/system.slice/cpu.max": "50000 100000\n",
    "sys/fs/cgroup/system.slice/cpu.stat": (
        "usage_usec 9\nnr_periods 30\nnr_throttled 10\nthrottled_usec 1500000\n"
    ),
    "sys/fs/cgroup/system.slice/agent.service/cpu.max": "max 100000\n",
}
FIRST = {
    "proc/self/cgroup": "4:memory:/x\n3:cpu,cpuacct:/docker/f00\n0::/\n",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "150000\n",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/cpu,cpuacct/cpu.stat": (
        "nr_periods 4\nnr_throttled 3\nthrottled_time 2500000000\n"
    ),
}
NONE = {
    "proc/self/cgroup": "1:cpu:/\n0::/\n",
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
    "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
}


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (SECOND, Quota(0.5, 30, 10, 1.5)),
        (
            SECOND | {"sys/fs/cgroup/system.slice/agent.service/cpu.max": "20000 100000\n"},
            Quota(0.2, 30, 10, 1.5),
        ),
        (FIRST, Quota(1.5, 4, 3, 2.5)),
        (NONE, None),
        ({}, None),
    ],
    ids=["above", "both", "container of version 1", "none", "no groups"],
)
def test_the_least_quota_of_a_group_and_those_above_it(
    tmp_path: Path, files: Mapping[str, str], found: Quota | None
):
    write(tmp_path, files)
    assert Quota.now(tmp_path) == found


@pytest.mark.parametrize(
    ("files", "are_mounted"), [(NONE, True), ({"sys/class/net/eth0/mtu": "1500\n"}, False)]
)
def test_a_quota_is_unknown_where_no_control_groups_are_mounted(
    tmp_path: Path, files: Mapping[str, str], are_mounted: bool
):
    write(tmp_path, files)
    assert cgroup.are_mounted(tmp_path) is are_mounted


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


LEAST = Quota(0.1, 100, 20, 1.0)
LIMITED = "limited the flows"
SAID = "its control group has a CPU quota of 0.1 CPUs"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (None, None, ""),
        (LEAST, LEAST, f"{SAID}; it was not throttled"),
        (
            LEAST,
            Quota(0.1, 150, 50, 2.5),
            f"{SAID}, which throttled it in 30 of 50 periods, for 1.5 s: it may have {LIMITED}",
        ),
        (LEAST, Quota(1e6, 150, 50, 2.5), ""),
    ],
    ids=["none", "idle", "throttled", "more than all processors"],
)
def test_what_a_quota_did_meanwhile_in_words(before: Quota | None, after: Quota | None, said: str):
    assert cgroup.words(before, after) == said


BUSY = """
import time
from netesto.collectors.cgroup import Quota
before = after = Quota.now()
end_s = time.monotonic() + 50
# Others may leave it less than its quota for a while.
while after.throttled_s == before.throttled_s and time.monotonic() < end_s:
    after = Quota.now()
print(before.cpus, after.throttled > before.throttled, after.throttled_s > before.throttled_s)
"""


@pytest.mark.parametrize("quota_group", [0.1], indirect=True)
def test_a_group_of_the_kernel_that_is_throttled(quota_group: Path):
    join = f"import os; open('{quota_group}/cgroup.procs', 'w').write(str(os.getpid()))\n"
    done = subprocess.run(
        [sys.executable, "-c", join + BUSY], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "0.1 True True\n"
