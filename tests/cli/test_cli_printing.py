"""What is printed: no text of a script acts on a terminal, and no encoding lacks a character."""

import io
import os
import sys
from pathlib import Path

import pytest
from rich.text import Text

from netesto import cli
from netesto.cli import printing
from netesto.cli.console import LastingConsole
from netesto.errors import WorldError
from netesto.system import process

ESCAPES = "a\x1b[31mred\x1b]0;title\x07\x9b1m\u202ertl"
SHOWN = "a␛[31mred␛]0;title␇\ufffd1m\ufffdrtl"


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Writes a script and goes where it is."""
    monkeypatch.chdir(tmp_path)

    def write(text):
        (tmp_path / "a.nts").write_text(text, encoding="utf-8")
        return "a.nts"

    return write


def netesto(*words, cwd, **environment):
    argv = [sys.executable, "-m", "netesto", *words]
    env = {**os.environ, **environment}
    done = process.run(argv, timeout=60, check=False, cwd=cwd, env=env)
    return done.status, done.stdout, done.stderr


def test_escape_sequences_of_an_echo_are_shown_and_not_obeyed(script, capsys):
    cli.main(["run", "-n", script(f"ECHO {ESCAPES}\n")])
    assert capsys.readouterr().out.splitlines()[0] == f"# {SHOWN}"


def test_a_caret_stands_under_its_word_behind_control_characters(script, capsys):
    cli.main(["run", "-n", script("WAIT \x01\x1b x\x01y\n")])
    assert capsys.readouterr().err.splitlines()[1:3] == [
        "    WAIT ␁␛ x␁y",
        "            ^^^",
    ]


def test_a_warning_of_a_script_is_shown_and_not_obeyed(script, capsys):
    cli.main(["run", "-n", script("BEGIN m\nECHO\nEND m\nRUN m \x1b[31m\n")])
    assert "'\\x1b[31m' is not name=value" in capsys.readouterr().err


def test_what_check_finds_is_shown_and_not_obeyed(script, capsys):
    cli.main(["check", script("FOO\x1b[31m\n")])
    assert "\x1b" not in capsys.readouterr().err


def test_json_of_a_dry_run_has_every_character_as_it_is_in_ascii(script, capsys):
    cli.main(["run", "-n=json", script("DO_SERVER host=a expName=ü\x1b\x9b\n")])
    assert '"expName": "\\u00fc\\u001b\\u009b"' in capsys.readouterr().out


def test_a_console_of_rich_shows_what_it_is_given_and_keeps_its_own_colours():
    output = io.StringIO()
    console = LastingConsole(file=output, force_terminal=True, color_system="standard", width=80)
    console.print(Text("a\x1b]0;title\x07", style="red"))
    assert output.getvalue() == "\x1b[31ma␛]0;title\x1b[0m\n"


COMMANDS = ("run -n", "run -n=json", "check", "fmt", "fmt --check")
# Runs each, and tells their statuses.
IN_TURN = """
import sys
from pathlib import Path
from netesto import cli
sys.exit(str([cli.main([*words.split(), "a.nts"]) for words in sys.argv[1:]]))
"""
UNKNOWN = "LAB pair\nDESC größer\nSET x=→😀\nECHO $x ±1\nDO_SERVER host=a expName=grün\n"


@pytest.mark.parametrize(
    "environment",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
    ids=["ascii", "C"],
)
def test_every_command_can_print_every_character_in_every_encoding(script, tmp_path, environment):
    script(UNKNOWN)
    argv = [sys.executable, "-c", IN_TURN, *COMMANDS]
    env = {**os.environ, **environment}
    done = process.run(argv, timeout=60, check=False, cwd=tmp_path, env=env)
    assert done.stderr == "[0, 0, 0, 0, 0]\n"


def test_what_an_encoding_lacks_is_printed_in_plain_characters(script, tmp_path):
    name = script("ECHO …→ü😀\n")
    _, out, _ = netesto("run", "-n", name, cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert out.splitlines()[0] == "# ...->\\xfc\\U0001f600"


def test_a_script_that_is_formatted_is_printed_as_utf_8_in_every_encoding(script, tmp_path):
    name = script(UNKNOWN)
    _, out, _ = netesto("fmt", name, cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert out == UNKNOWN


def test_a_script_keeps_its_control_characters_when_it_is_formatted_into_a_file(script, capfd):
    text = "ECHO \x1b[31m\x9b\n"
    cli.main(["fmt", script(text)])
    assert capfd.readouterr().out == text


def test_a_name_that_is_no_text_is_refused(tmp_path):
    (tmp_path / os.fsdecode(b"b\xff.nts")).write_text("ECHO 1\n")
    assert netesto("run", "-n", os.fsdecode(b"b\xff.nts"), cwd=tmp_path) == (
        2,
        "",
        (
            "netesto: b\ufffd.nts: not text in the encoding of this shell\n"
            "Names and values are UTF-8; in another locale set PYTHONUTF8=1.\n"
        ),
    )


def test_a_missing_folder_of_an_output_is_made(tmp_path):
    printing.deliver("page", tmp_path / "a/b/page.html")
    assert (tmp_path / "a/b/page.html").read_text() == "page"


def test_an_output_in_the_place_of_a_folder_is_refused(tmp_path):
    with pytest.raises(WorldError, match="cannot write: Is a directory\nChoose a file with -o"):
        printing.deliver("page", tmp_path)


def test_a_full_standard_output_is_reported(monkeypatch):
    with Path("/dev/full").open("w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        with pytest.raises(WorldError, match="standard output: No space left on device"):
            printing.deliver("page", None)
        # What it still holds cannot be written either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def test_a_reader_that_went_away_is_no_error_of_ours(monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        with pytest.raises(BrokenPipeError):
            printing.deliver("page", None)
        os.dup2(os.open(os.devnull, os.O_WRONLY), writer)


def test_a_document_has_every_byte_of_a_text_that_is_not_utf_8(tmp_path, capfdbinary):
    text = b"\xff \xc3\xa4\n".decode(errors="surrogateescape")
    printing.deliver(text, None)
    printing.deliver(text, tmp_path / "file")
    assert capfdbinary.readouterr().out == (tmp_path / "file").read_bytes() == b"\xff \xc3\xa4\n"
