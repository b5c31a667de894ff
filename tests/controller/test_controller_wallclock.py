import time
from pathlib import Path

from netesto.controller import wallclock
from netesto.controller.wallclock import Speed, Stopwatch


def test_speed_is_simulated_seconds_for_each_second_of_wall_time():
    assert wallclock.speed(60.3, 5.0) == Speed(5.0, 12.06)


def test_less_than_a_second_of_wall_time_has_no_speed():
    assert wallclock.speed(60.3, 0.0) == Speed(0.0, None)


def test_a_clock_that_was_set_back_tells_nothing():
    assert wallclock.speed(60.3, -3600.0) == Speed()


def test_real_time_has_no_speed(tmp_path: Path):
    assert Stopwatch(tmp_path / ".wall", is_simulated=False).speed() == Speed()


def test_real_time_is_wall_time(tmp_path: Path):
    began_s = time.monotonic()
    wall_s = Stopwatch(tmp_path / ".wall", is_simulated=False).wall_s()
    assert wall_s is not None
    assert 0 <= wall_s <= time.monotonic() - began_s + 0.001


def test_a_folder_that_takes_no_file_gives_no_speed(tmp_path: Path):
    assert Stopwatch(tmp_path / "nowhere" / ".wall", is_simulated=True).speed() == Speed()


def test_a_stopwatch_leaves_no_file(tmp_path: Path):
    Stopwatch(tmp_path / ".wall", is_simulated=True).speed()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_a_killed_run_left_is_no_obstacle(tmp_path: Path):
    (tmp_path / ".wall").touch()
    before_s = time.time()
    found = Stopwatch(tmp_path / ".wall", is_simulated=True).speed()
    assert found.wall_s is not None
    # Here both clocks are the machine's own.
    assert 0 <= found.wall_s <= time.time() - before_s + 1
