"""A guest's process and clock, seen from outside."""

import os
import platform
from collections.abc import Sequence
from pathlib import Path

import pytest

from netesto.errors import LabError
from netesto.grounds import SIM, UML, Ground
from netesto.lab import inside, spinner, watch
from netesto.system import process

MACHINE = platform.machine().encode()

MAPS = """\
40000000-40001000 r-xs 00001000 00:1a 1 /dev/shm/#5 (deleted)
7fbfbf6000-7fbfbf7000 rwxs 00002000 00:1a 1 /dev/shm/#5 (deleted)
7fbfbf8000-7fbfbf9000 rwxs 00004000 00:1a 1 /dev/shm/#5 (deleted)
7fbfbf9000-7fbfbfa000 rwxs 00003000 00:1a 1 /dev/shm/#5 (deleted)
7fbffff000-7fc0000000 r-xs 00000000 00:1a 1 /dev/shm/#5 (deleted)
7fc0001000-7fc0002000 rw-s 00009000 00:1a 1 /dev/shm/#5 (deleted)
7ffffffde000-7ffffffff000 rwxp 00000000 00:00 0 [stack]
"""


def test_the_stack_lies_beneath_the_kernel_s_own_code():
    assert spinner.stack(MAPS) == (0x7FBFBF8000, 0x7FBFBFA000)


def test_the_page_with_the_clock_is_not_the_stack():
    clock = "7fbfffe000-7fbffff000 rw-s 00007000 00:1a 1 /dev/shm/#5 (deleted)\n"
    before, code, after = MAPS.partition("7fbffff000-7fc0000000 r-xs")
    assert spinner.stack(before + clock + code + after) == (0x7FBFBF8000, 0x7FBFBFA000)


def test_a_process_without_a_guest_s_memory_has_no_stack():
    assert spinner.stack("7ffffffde000-7ffffffff000 rw-p 0 00:00 0 [stack]\n") == (0, 0)


def test_arguments_stand_between_the_processor_s_kind_and_the_environment():
    page = b"\x9c\0\0\xdaq" + MACHINE + b"\0netperf\0-H\x0010.0.1.2\0HOME=/\0A=b c\0/bin/netperf"
    assert spinner.arguments(page + b"\0" * 9) == ("netperf", "-H", "10.0.1.2")


def test_arguments_may_follow_a_gap():
    page = b"x86\0\0\0\0sleep\x001\0HOME=/\0/bin/sleep"
    assert spinner.arguments(page + b"\0" * 9) == ("sleep", "1")


def test_what_is_no_stack_tells_no_arguments():
    assert (
        spinner.arguments(b""),
        spinner.arguments(b"\0" * 4096),
        spinner.arguments(b"code"),
    ) == (
        (),
        (),
        (),
    )


def test_a_process_is_reported_with_how_it_was_started():
    assert watch.described("sh (process 7)", ["sh", "-c", "a\n  b"]) == "sh (process 7: sh -c a b)"


def test_a_process_of_which_only_its_start_is_known_is_reported_by_that():
    assert watch.described("", ["sh", "-c", "a"]) == "sh -c a"


def test_a_name_that_is_another_process_s_is_left_out():
    assert watch.described("netserver (process 94)", ["netperf", "-H"]) == "netperf -H"


def test_a_long_command_line_is_cut():
    assert watch.described("", ["a" * 300]) == "a" * watch.SHOWN_CHARACTERS + "…"


def warnings(folder: Path, clocks: Sequence[str], *, ground: Ground = SIM) -> list[str]:
    """The report on a guest whose clock shows these values, one after the other."""
    (folder / "guest").mkdir()
    (folder / "clock").write_text("10.000 10.00")
    told: list[str] = []
    shown = iter(clocks)
    with process.background(["sleep", "60"], stdout=folder / "out") as child:
        (folder / "guest" / "pid").write_text(str(child.pid))
        end, ending = os.pipe()
        orders = os.open(os.devnull, os.O_WRONLY)

        def meanwhile() -> None:
            clock = next(shown, "")
            (folder / "clock").write_text(clock or "99 99")
            if not clock:
                os.close(ending)

        guest = watch.Guest(ground, folder, orders, end, child)
        watch.Watch(
            guest, (), max_wall_s=None, stall_s=60, meanwhile=meanwhile, warn=told.append
        ).run()
    return told


CRAWL = ("10.100 10.09", "10.300 10.24", "10.500 10.38", "10.700 10.50")


def test_a_program_that_makes_simulated_time_crawl_is_reported_once(tmp_path):
    (told,) = warnings(tmp_path, CRAWL)
    assert told == (
        "a program polls, and simulated time crawls: 0.06 s of it took 0 s of processor time (at "
        "10.500 s). The run continues. A loop that polls must sleep, or wait with a timeout."
    )


def test_a_guest_that_is_silent_for_a_while_is_not_interrupted(tmp_path, monkeypatch):
    asked: list[str] = []

    def ask(_path: Path, what: str) -> str:
        asked.append(what)
        return ""

    monkeypatch.setattr(watch, "LULL_S", 0.0)
    monkeypatch.setattr(watch.mconsole, "ask", ask)
    warnings(tmp_path, ("10.100 10.09", "10.300 10.24", "10.310 10.24", "10.500 10.38"))
    assert asked == []


@pytest.mark.parametrize(
    ("clocks", "ground"), [(("90.000 90.00", "170.000 169.98"), SIM), (CRAWL, UML)]
)
def test_time_that_passes_while_all_wait_or_that_is_real_does_not_crawl(tmp_path, clocks, ground):
    assert warnings(tmp_path, clocks, ground=ground) == []


def test_process_1_of_a_guest_is_not_ended(tmp_path, monkeypatch):
    """A busy machine may leave it no time while it boots."""
    monkeypatch.setattr(watch, "LULL_S", 0.0)
    (tmp_path / "console").write_text("booting")
    (tmp_path / "clock").touch()
    with process.background(["sleep", "60"], stdout=tmp_path / "out") as child:
        argv = ("python3", "-I", "-S", inside.__file__)
        one = spinner.Spinner(child.pid, argv, share=1.0)
        monkeypatch.setattr(spinner, "busiest", lambda _leader, _before: one)
        end, ending = os.pipe()
        orders = os.open(os.devnull, os.O_WRONLY)
        guest = watch.Guest(SIM, tmp_path, orders, end, child)
        with pytest.raises(LabError, match=r"no sign of life .* its last lines:\nbooting"):
            watch.Watch(guest, (), max_wall_s=None, stall_s=0, warn=lambda _text: None).run()
        assert child.poll() is None
    for number in (end, ending, orders):
        os.close(number)
