"""`netesto check` and `netesto fmt`: what they print, what they leave behind, how they end."""

import stat
import sys
from pathlib import Path

import pytest

from netesto import cli
from netesto.system import process


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes a script, and goes where it is."""
    monkeypatch.chdir(tmp_path)

    def writes(text, name="a.nts"):
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return writes


def piped(*words, text):
    """What `netesto WORDS` prints of a script on its standard input, and its exit status."""
    argv = [sys.executable, "-m", "netesto", *words]
    done = process.run(argv, timeout=60, stdin=text, check=False)
    return done.status, done.stdout


# ---- check -----------------------------------------------------------------------------------


def test_check_of_a_sound_script_ends_well(write, capsys):
    write("ECHO a\n")
    assert (cli.main(["check", "a.nts"]), capsys.readouterr().out) == (0, "no errors or warnings\n")


def test_warnings_alone_are_no_failure(write, capsys):
    write("END\nECHO a\n")
    status = cli.main(["check", "a.nts"])
    assert (status, capsys.readouterr().err.splitlines()[-1]) == (0, "0 errors, 1 warning")


def test_an_error_in_any_script_is_a_failure(write, capsys):
    write("ECHO a\n", "one.nts")
    write("WAIT x\n", "two.nts")
    status = cli.main(["check", "one.nts", "two.nts"])
    assert (status, capsys.readouterr().err.splitlines()[-1]) == (2, "1 error, 0 warnings")


def test_check_knows_the_aliases_of_the_topology_file_of_a_trace(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.toml").write_text(
        '[nodes]\nh1 = "host"\nh2 = "host"\n[[links]]\nbetween = ["h1", "h2"]\nrate = "1mbit"\n'
        '[aliases]\n"10.4.2.2" = "h2"\n'
    )
    (tmp_path / "t.nts").write_text(
        "LAB file=t.toml\nDO_TRACE file=t.txt exp=COUNTER\nWAIT_FLOWS\nPROCESS_EXP\n"
    )
    (tmp_path / "t.txt").write_text("\nh1 0 2 10.4.2.2 5000000 0 0\n")
    assert cli.main(["check", "t.nts"]) == 0
    (tmp_path / "t.txt").write_text("\nh1 0 2 10.4.2.3 5000000 0 0\n")
    assert cli.main(["check", "t.nts"]) == 2
    assert "t.txt:2:8: error: no host has the address 10.4.2.3" in capsys.readouterr().err


def test_an_empty_script_has_nothing_wrong(write, capsys):
    write("")
    assert cli.main(["check", "a.nts"]) == 0


def test_what_cannot_be_read_is_reported_and_the_others_are_checked(write, capsys, tmp_path):
    write("WAIT x\n")
    (tmp_path / "folder").mkdir()
    cli.main(["check", "folder", "none.nts", "a.nts"])
    lines = [line for line in capsys.readouterr().err.splitlines() if " error: " in line]
    assert lines == [
        "folder:1:1: error: cannot be read: Is a directory",
        "none.nts:1:1: error: cannot be read: No such file or directory",
        "a.nts:1:6: error: 'x' is not a time (examples: 20, 1.5, 200ms, 2m)",
    ]


def test_a_script_with_a_nul_is_no_text(write, capsys):
    write(b"\xef\xbb\xbfECHO a\nECHO b\0c\n")
    cli.main(["check", "a.nts"])
    assert capsys.readouterr().err.splitlines()[:2] == [
        "a.nts:2:7: error: not UTF-8 text (byte 0x00)",
        "    ECHO b·c",
    ]


def test_a_file_that_is_no_text_is_reported_with_the_place(write, capsys):
    write(b"ECHO a\nECHO \xc3\xa9b \xff\n")
    cli.main(["check", "a.nts"])
    assert capsys.readouterr().err.splitlines()[:3] == [
        "a.nts:2:9: error: not UTF-8 text (byte 0xff)",
        "    ECHO éb \N{REPLACEMENT CHARACTER}",
        "            ^",
    ]


def test_a_script_on_standard_input_is_checked():
    assert piped("check", "-", text="WAIT 1\n") == (0, "no errors or warnings\n")


def test_passes_of_loops_are_limited_as_asked(write, capsys):
    write("FOR i IN 1..20 DO\nDONE\n")
    assert cli.main(["check", "--max-iterations", "10", "a.nts"]) == 2


# ---- fmt -------------------------------------------------------------------------------------


def test_the_usual_form_is_printed(write, capsys):
    write("ECHO   a\r\n")
    assert (cli.main(["fmt", "a.nts"]), capsys.readouterr().out) == (0, "ECHO a\n")


def test_a_script_on_standard_input_is_printed_in_the_usual_form():
    assert piped("fmt", "-", text="FOR i IN 1..2 DO\nECHO $i\nDONE") == (
        0,
        "FOR i IN 1..2 DO\n    ECHO $i\nDONE\n",
    )


def test_a_script_is_written_in_the_usual_form(write, capsys):
    path = write("ECHO   a\n")
    cli.main(["fmt", "-w", "a.nts"])
    assert (path.read_text(), capsys.readouterr().out) == ("ECHO a\n", "formatted a.nts\n")


def test_a_script_in_the_usual_form_is_not_written(write, capsys):
    path = write("ECHO a\n")
    before = path.stat()
    cli.main(["fmt", "-w", "a.nts"])
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns, capsys.readouterr().out) == (
        before.st_ino,
        before.st_mtime_ns,
        "",
    )


def test_a_written_script_keeps_its_mode(write):
    path = write("ECHO   a\n")
    path.chmod(0o750)
    cli.main(["fmt", "-w", "a.nts"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


def test_a_link_to_a_script_stays_one(write, tmp_path):
    path = write("ECHO   a\n")
    link = tmp_path / "link.nts"
    link.symlink_to("a.nts")
    cli.main(["fmt", "-w", "link.nts"])
    assert (link.is_symlink(), path.read_text()) == (True, "ECHO a\n")


def test_writing_leaves_nothing_else_behind(write, tmp_path):
    write("ECHO   a\n")
    cli.main(["fmt", "-w", "a.nts"])
    assert [path.name for path in tmp_path.iterdir()] == ["a.nts"]


def test_a_wrong_script_is_left_alone_and_the_others_are_written(write, capsys):
    wrong = write("ECHO   a\nDONE\n", "wrong.nts")
    sound = write("ECHO   a\n", "sound.nts")
    status = cli.main(["fmt", "-w", "wrong.nts", "sound.nts"])
    assert (status, wrong.read_text(), sound.read_text()) == (2, "ECHO   a\nDONE\n", "ECHO a\n")


def test_the_form_can_be_checked(write, capsys):
    path = write("ECHO   a\n")
    write("ECHO a\n", "b.nts")
    status = cli.main(["fmt", "--check", "a.nts", "b.nts"])
    assert (status, capsys.readouterr().err, path.read_text()) == (
        1,
        "a.nts is not in the standard format\n",
        "ECHO   a\n",
    )


def test_standard_input_is_not_written(capsys):
    assert cli.main(["fmt", "-w", "-"]) == 2


def test_a_missing_script_is_reported(write, capsys):
    status = cli.main(["fmt", "none.nts"])
    assert (status, capsys.readouterr().err) == (
        2,
        (
            "netesto: none.nts: No such file or directory\n"
            f"It is not in {Path.cwd()}; scripts are named by their paths.\n"
        ),
    )


LIBRARY_THAT_RUNS_ITSELF = """\
BEGIN outer
    FOR i IN 1..2 DO
        RUN inner dur=$dur
    DONE
END outer
BEGIN inner
    WAIT $dur
    IF $missing: WAIT 1
END inner
"""


def test_equal_warnings_are_said_once_with_their_number(write, capsys):
    write(LIBRARY_THAT_RUNS_ITSELF, "library")
    write("SOURCE library\nRUN inner dur=1\nRUN inner dur=2\nRUN inner dur=3\nIF $other: END\n")
    shared = "IF: undefined variable $missing counts as 0"
    told = []
    for command in (["check"], ["run", "-n"]):
        assert cli.main([*command, "a.nts"]) == 0
        told.append([line for line in capsys.readouterr().err.splitlines() if "IF:" in line])
    assert told == [
        [
            "a.nts:5:4: warning: IF: undefined variable $other counts as 0",
            f"a.nts:2: warning: {shared} (3 times; also lines 3, 4)",
        ],
        [
            f"warning: a.nts:2, by library:8: {shared} (3 times; also lines 3, 4)",
            "warning: a.nts:5: IF: undefined variable $other counts as 0",
        ],
    ]


def test_lines_with_equal_warnings_are_listed(write, capsys):
    write("IF $x: END\nFOR i IN 1..2 DO\nIF $x: END\nDONE\nIF $x: END\n")
    assert cli.main(["check", "a.nts"]) == 0
    lines = capsys.readouterr().err.splitlines()
    shared = "IF: undefined variable $x counts as 0 (3 times; also lines 3, 5)"
    assert (lines[0], lines[-1]) == (f"a.nts:1:4: warning: {shared}", "0 errors, 3 warnings")
    cli.main(["run", "-n", "a.nts"])
    assert capsys.readouterr().err == f"warning: a.nts:1: {shared}\n"


def test_the_steps_within_a_library_are_one_line(write, capsys, tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "library").write_text(LIBRARY_THAT_RUNS_ITSELF)
    write("SOURCE library\nFOR d IN 1x DO\nRUN outer dur=$d\nDONE\n")
    assert cli.main(["check", "--lib", "lib", "a.nts"]) == 2
    assert capsys.readouterr().err.splitlines()[:7] == [
        "a.nts:3: error: '1x' is not a time (examples: 20, 1.5, 200ms, 2m)",
        "    RUN outer (dur=1x)",
        "  at lib/library:7:10",
        "        WAIT $dur",
        "             ^^^^",
        "  in lib/library: RUN inner < FOR i",
        "  in a.nts:2: FOR d (d=1x)",
    ]
