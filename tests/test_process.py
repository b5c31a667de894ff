"""process.py: where a program is found, and what remains of a cancelled one."""

import asyncio
import os
from pathlib import Path

import pytest

from netesto.errors import ProcessError
from netesto.system import process


def program_in(folder: Path, name: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\necho ours\n")
    path.chmod(0o755)
    return path


def test_a_program_is_found_in_the_first_folder_that_has_it(tmp_path: Path):
    program_in(tmp_path / "a", "other")
    first, _ = program_in(tmp_path / "b", "tool"), program_in(tmp_path / "c", "tool")
    path = f"{tmp_path}/a:{tmp_path}/b:{tmp_path}/c"
    assert process.program("tool", {"PATH": path}) == str(first)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/usr/local/bin:/usr/bin", "/usr/local/bin:/usr/bin:/usr/local/sbin:/usr/sbin"),
        ("/usr/sbin:/usr/bin", "/usr/sbin:/usr/bin"),
        ("/home/a/bin:/opt/bin", "/home/a/bin:/opt/bin"),
    ],
)  # fmt: skip
def test_programs_of_the_system_are_found_beside_others_of_it(path, expected, monkeypatch):
    monkeypatch.setenv("PATH", path)
    process.reach_system_programs()
    assert os.environ["PATH"] == expected


def test_a_program_that_is_nowhere_keeps_its_name(tmp_path: Path):
    assert process.program("tool", {"PATH": str(tmp_path)}) == "tool"


def test_a_program_with_a_folder_is_not_looked_for(tmp_path: Path):
    program_in(tmp_path, "tool")
    assert process.program("./tool", {"PATH": str(tmp_path)}) == "./tool"


def test_a_relative_folder_of_the_path_is_left_to_the_system(tmp_path: Path, monkeypatch):
    program_in(tmp_path / "bin", "tool")
    monkeypatch.chdir(tmp_path)
    assert process.program("tool", {"PATH": "bin"}) == "tool"


def test_what_runs_is_the_program_of_its_own_environment(tmp_path: Path):
    program_in(tmp_path, "tool")
    assert process.run(["tool"], timeout=60, env={"PATH": str(tmp_path)}).stdout == "ours\n"


def test_a_tethered_command_runs_for_the_process_that_made_it_alone():
    """A process that requests the signal too late has another parent."""
    argv = process.tethered(["echo", "ran"])
    orphaned = process.run(["sh", "-c", '"$@"; :', "sh", *argv], timeout=60)
    assert (process.run(argv, timeout=60).stdout, orphaned.stdout) == ("ran\n", "")


def test_files_of_the_working_folder_are_no_modules(tmp_path: Path):
    (tmp_path / "json.py").write_text("raise SystemExit('not meant')")
    argv = process.python("netesto", "--version")
    assert process.run(argv, timeout=60, cwd=tmp_path).stderr == ""


async def test_a_command_that_prints_without_end_is_ended():
    with pytest.raises(ProcessError, match="yes: printed more than 1000 bytes"):
        await process.run_async(["yes"], timeout=60, most_bytes=1000)


async def test_a_command_that_does_not_read_its_input_is_no_failure():
    finished = await process.run_async(["true"], timeout=60, stdin=b"x" * 1_000_000)
    assert finished.status == 0


@pytest.mark.parametrize("turns", range(4))
def test_a_command_that_is_cancelled_while_it_starts_leaves_no_process(tmp_path: Path, turns: int):
    """asyncio would kill the shell alone, and wait for what it has started."""
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    # All that the shell starts has the pipe open for writing.
    argv = ["sh", "-c", 'exec 9>"$0"; sleep 300 & sleep 300', str(fifo)]

    async def scenario() -> bool:
        reads = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        command = asyncio.create_task(process.run_async(argv, timeout=60))
        for _ in range(turns):
            await asyncio.sleep(0)
        command.cancel()
        await asyncio.wait({command}, timeout=60)
        assert command.cancelled()
        os.set_blocking(reads, True)
        try:
            return await asyncio.wait_for(asyncio.to_thread(os.read, reads, 1), 60) == b""
        finally:
            os.close(reads)

    assert asyncio.run(scenario())


@pytest.mark.parametrize(
    ("status", "words"),
    [(1, "exited 1"), (-9, "was ended by SIGKILL"), (-99, "was ended by signal 99")],
)
def test_the_manner_of_an_end_names_the_signal(status, words):
    assert process.manner(status) == words
