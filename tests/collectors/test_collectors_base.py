import asyncio
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from netesto.collectors.base import Sampler, next_tick, ticks
from netesto.collectors.clock import Clock


class Counter(Sampler):
    """Writes a line at every tick; says the same trouble each time."""

    looks = 0

    async def _look(self) -> bytes:
        self.looks += 1
        self._warn("trouble")
        return b"%d\n" % self.looks


def counter(path: Path, **options) -> Counter:
    return Counter(path, Clock(), 0.01, **options)


@given(st.integers(0, 10**6), st.floats(0, 1e6))
def test_the_next_tick_is_never_one_that_is_over(tick, elapsed):
    assert next_tick(tick, elapsed) >= elapsed


@given(st.integers(0, 10**6), st.floats(0, 1e6))
def test_ticks_only_go_forward(tick, elapsed):
    assert next_tick(tick, elapsed) > tick


def test_a_look_in_time_is_followed_by_the_next_tick():
    assert next_tick(7, 7.4) == 8


def test_ticks_missed_by_a_late_look_are_left_out():
    assert next_tick(7, 9.4) == 10


def test_ticks_end_when_they_are_stopped():
    async def seen() -> list[int]:
        stopped = asyncio.Event()
        stopped.set()
        return [tick async for tick in ticks(0.01, stopped)]

    assert asyncio.run(seen()) == []


def test_a_sampler_looks_at_once_and_its_file_is_whole_after_stop(tmp_path):
    path = tmp_path / "out"

    async def run() -> Counter:
        sampler = counter(path)
        await sampler.start()
        await asyncio.sleep(0)
        await sampler.stop()
        return sampler

    sampler = asyncio.run(run())
    assert path.read_text() == "".join(f"{look + 1}\n" for look in range(max(1, sampler.looks)))


def test_stop_may_come_twice(tmp_path):
    async def run() -> None:
        sampler = counter(tmp_path / "out")
        await sampler.start()
        await sampler.stop()
        await sampler.stop()

    asyncio.run(run())
    assert (tmp_path / "out").exists()


def test_stop_may_come_without_start(tmp_path):
    asyncio.run(counter(tmp_path / "out").stop())
    assert not (tmp_path / "out").exists()


def test_a_file_that_cannot_be_written_is_a_warning(tmp_path):
    told: list[str] = []

    async def run() -> Counter:
        sampler = counter(tmp_path / "nowhere" / "out", on_warning=told.append)
        await sampler.start()
        await sampler.stop()
        return sampler

    assert asyncio.run(run()).errors == told == ["out: No such file or directory"]


def test_a_trouble_is_told_once(tmp_path):
    told: list[str] = []

    async def run() -> None:
        sampler = counter(tmp_path / "out", on_warning=told.append)
        await sampler._look()
        await sampler._look()

    asyncio.run(run())
    assert told == ["trouble"]


def test_a_full_disk_is_a_warning():
    async def run() -> Counter:
        sampler = counter(Path("/dev/full"))
        await sampler.start()
        await asyncio.sleep(0)
        await sampler.stop()
        return sampler

    assert "full: No space left on device" in asyncio.run(run()).errors
