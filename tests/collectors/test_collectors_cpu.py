import asyncio
import json

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto.collectors import cpu
from netesto.collectors.clock import Clock
from netesto.errors import OutputError
from netesto.model import CpuSample

seconds = st.floats(min_value=0, max_value=1e6)
accounts = st.fixed_dictionaries(dict.fromkeys((*cpu._BUSY, *cpu._IDLE), seconds))


def test_busy_is_what_is_not_idle():
    before = {"user": 10.0, "idle": 100.0}
    after = {"user": 10.5, "system": 0.25, "idle": 100.125, "iowait": 0.125}
    assert cpu.busy_percent([before], [after]) == (75.0,)


def test_guest_time_is_not_counted_twice():
    before = {"user": 0.0, "guest": 0.0, "idle": 0.0}
    after = {"user": 1.0, "guest": 1.0, "idle": 1.0}
    assert cpu.busy_percent([before], [after]) == (50.0,)


def test_iowait_that_runs_backwards_takes_nothing_away():
    before = {"user": 0.0, "idle": 0.0, "iowait": 5.0}
    after = {"user": 1.0, "idle": 1.0, "iowait": 4.0}
    assert cpu.busy_percent([before], [after]) == (50.0,)


def test_an_account_that_did_not_move_tells_nothing():
    moved, still = {"user": 1.0}, {"user": 0.0}
    assert cpu.busy_percent([still, still], [moved, still]) is None


@given(accounts, accounts)
def test_a_share_lies_between_nothing_and_all(before, after):
    shares = cpu.busy_percent([before], [after]) or (0.0,)
    assert 0.0 <= shares[0] <= 100.0


def test_a_sample_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "cpu.jsonl"
    sample = CpuSample(1795182497.47317, (54.35, 64.71))
    path.write_text(cpu.format_sample(sample))
    assert cpu.read(path) == [sample]


def test_a_last_line_cut_short_is_left_out(tmp_path):
    path = tmp_path / "cpu.jsonl"
    sample = CpuSample(1.5, (10.0,))
    path.write_text(cpu.format_sample(sample) + '{"time_s": 2.5, "busy_perc')
    assert cpu.read(path) == [sample]


def test_a_line_that_is_not_ours_is_named_with_its_place(tmp_path):
    path = tmp_path / "cpu.jsonl"
    path.write_text('{"time_s": 1.0}\n')
    with pytest.raises(OutputError, match=r"cpu\.jsonl:1: not a sample"):
        cpu.read(path)


def test_a_core_that_comes_or_goes_begins_anew(tmp_path):
    collector = cpu.CpuCollector(tmp_path / "cpu.jsonl", Clock())
    collector._before = [{"user": 1.0}] * (len(psutil.cpu_times(percpu=True)) + 1)
    assert asyncio.run(collector._look()) == b""


def test_a_look_tells_of_every_core(tmp_path):
    collector = cpu.CpuCollector(tmp_path / "cpu.jsonl", Clock())
    cores = len(psutil.cpu_times(percpu=True))
    collector._before = [{}] * cores
    assert len(json.loads(asyncio.run(collector._look()))["busy_percent"]) == cores
