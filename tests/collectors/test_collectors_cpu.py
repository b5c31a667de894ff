import json
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto.collectors import cpu
from netesto.collectors.clock import Clock
from netesto.errors import OutputError
from netesto.measured import CPU_STATES, CpuSample

accounts = st.tuples(*[st.integers(min_value=0, max_value=10**9)] * len(CPU_STATES))

# proc_stat(5) of two cores, and a line about something else.
STAT = """\
cpu  30 2 12 300 3 1 2 0 4 1
cpu0 10 1 4 100 1 0 1 0 2 1
cpu1 20 1 8 200 2 1 1 0 2 0
intr 12345 0 9
"""


def ticks(**passed):
    """An account in the order of /proc/stat."""
    names = [
        "user",
        "nice",
        "system",
        "idle",
        "iowait",
        "irq",
        "softirq",
        "steal",
        "guest",
        "guest_nice",
    ]
    return tuple(passed.get(name, 0) for name in names)


def shares(**passed):
    """The shares other than 0 of the time since an account of zeros."""
    found = cpu.shares(ticks(), ticks(**passed))
    assert found is not None
    return {name: share for name, share in zip(CPU_STATES, found, strict=True) if share}


def line(time_s, *cores):
    return cpu.format_sample(time_s, dict(enumerate(cores)))


def test_cores_are_read_by_their_numbers():
    assert cpu.parse(STAT) == {
        0: (10, 1, 4, 100, 1, 0, 1, 0, 2, 1),
        1: (20, 1, 8, 200, 2, 1, 1, 0, 2, 0),
    }


def test_a_kernel_with_fewer_states_has_no_time_in_the_others():
    assert cpu.parse("cpu0 1 2 3 4\n") == {0: (1, 2, 3, 4, 0, 0, 0, 0, 0, 0)}


def test_states_are_those_of_mpstat():
    assert shares(
        user=10, nice=20, system=30, idle=40, iowait=50, irq=10, softirq=20, steal=20
    ) == {
        "usr": 5.0, "nice": 10.0, "sys": 15.0, "iowait": 25.0, "irq": 5.0, "soft": 10.0,
        "steal": 10.0, "idle": 20.0,
    }  # fmt: skip


def test_time_of_guests_is_not_that_of_users():
    assert shares(user=5, nice=3, guest=4, guest_nice=2, idle=2) == {
        "usr": 10.0, "nice": 10.0, "guest": 40.0, "gnice": 20.0, "idle": 20.0,
    }  # fmt: skip


def test_iowait_that_runs_backwards_takes_nothing_away():
    found = cpu.shares(ticks(iowait=5), ticks(iowait=4, user=1, idle=1))
    assert found is not None
    assert (found[0], found[-1]) == (50.0, 50.0)


def test_an_account_that_did_not_move_tells_nothing():
    assert cpu.shares(ticks(user=7), ticks(user=7)) is None


@given(accounts, accounts)
def test_the_shares_of_a_core_are_all_of_it(before, after):
    assert sum(cpu.shares(before, after) or (100.0,)) == pytest.approx(100.0)


def test_a_sample_is_what_passed_since_the_look_before(tmp_path):
    path = tmp_path / "cpu.jsonl"
    first = line(1.0, ticks(user=5), ticks(idle=5))
    second = line(2.0, ticks(user=8, idle=1), ticks(idle=9))
    path.write_text(first + second)
    zeros = (0.0,) * 8
    states = ((75.0, *zeros, 25.0), (0.0, *zeros, 100.0))
    assert cpu.read(path) == [CpuSample(2.0, (75.0, 0.0), states, (0, 1))]


def test_a_last_line_cut_short_is_left_out(tmp_path):
    path = tmp_path / "cpu.jsonl"
    path.write_text(line(1.0, ticks(user=5)) + line(2.0, ticks(user=9)) + line(3.0, ticks())[:20])
    assert [sample.time_s for sample in cpu.read(path)] == [2.0]


def test_a_core_that_comes_or_goes_begins_anew(tmp_path):
    path = tmp_path / "cpu.jsonl"
    one = [line(second, ticks(user=int(second))) for second in (1.0, 2.0)]
    two = [line(second, ticks(user=int(second)), ticks(idle=int(second))) for second in (3.0, 4.0)]
    path.write_text("".join([*one, *two]))
    assert [(each.time_s, each.cores) for each in cpu.read(path)] == [(2.0, (0,)), (4.0, (0, 1))]


def test_a_look_within_a_tick_is_counted_with_the_next(tmp_path):
    path = tmp_path / "cpu.jsonl"
    looks = [line(1.0, ticks(user=1)), line(1.1, ticks(user=1)), line(2.0, ticks(user=1, idle=1))]
    path.write_text("".join(looks))
    assert [(each.time_s, each.busy_percent) for each in cpu.read(path)] == [(2.0, (0.0,))]


@pytest.mark.parametrize(
    "text",
    [
        '{"time_s": 1.0}',
        '{"time_s": 1.0, "ticks": {"0": [1, 2]}}',
        '{"time_s": 1.0, "ticks": {"0": [1, 2, 3, 4, 5, 6, 7, 8, 9, -1]}}',
        '{"time_s": 1.0, "ticks": {"x": [1, 2, 3, 4, 5, 6, 7, 8, 9, 1]}}',
        '{"time_s": 1.0, "ticks": 7}',
    ],
)
def test_a_line_that_is_not_ours_is_named_with_its_place(tmp_path, text):
    path = tmp_path / "cpu.jsonl"
    path.write_text(text + "\n")
    with pytest.raises(OutputError, match=r"cpu\.jsonl:1: not a sample"):
        cpu.read(path)


def test_a_look_tells_of_every_core(tmp_path):
    recording = cpu.CpuRecording(tmp_path / "cpu.jsonl", Clock(), pytest.fail)
    with pathlib.Path("/proc/stat").open(encoding="ascii") as stat:
        cores = cpu.parse(stat.read())
    assert json.loads(recording.look())["ticks"].keys() == {str(n) for n in cores}
    recording.close()
