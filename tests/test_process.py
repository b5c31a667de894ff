"""process.py: where a program is found."""

from pathlib import Path

from netesto import process


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
    assert process.run(["tool"], timeout=10, env={"PATH": str(tmp_path)}).stdout == "ours\n"


def test_a_tethered_command_runs_for_the_process_that_made_it_alone():
    """Whoever comes too late to ask for the signal has another parent."""
    argv = process.tethered(["echo", "ran"])
    orphaned = process.run(["sh", "-c", '"$@"; :', "sh", *argv], timeout=10)
    assert (process.run(argv, timeout=10).stdout, orphaned.stdout) == ("ran\n", "")


def test_files_of_the_working_folder_are_no_modules(tmp_path: Path):
    (tmp_path / "json.py").write_text("raise SystemExit('not meant')")
    argv = process.python("netesto", "--version")
    assert process.run(argv, timeout=20, cwd=tmp_path).stderr == ""
