"""completions/: shells complete what the command line accepts."""

import importlib.util
from importlib import metadata
from pathlib import Path

import pytest

from netesto.cli import options
from netesto.system import process

COMPLETIONS = Path(__file__).parents[2] / "completions"
# What `make completions` last ran with. Another version may word its output differently.
GENERATED_WITH = "1.13.0"

as_generated = pytest.mark.skipif(
    importlib.util.find_spec("shtab") is None or metadata.version("shtab") != GENERATED_WITH,
    reason=f"completions/ was made by shtab {GENERATED_WITH}",
)


def generated(shell):
    import shtab  # noqa: PLC0415 - a tool of developers, which need not be installed

    ours = (COMPLETIONS / "definitions.bash").read_text() if shell == "bash" else ""
    return shtab.complete(options.parser(), shell=shell) + "\n" + ours


@as_generated
@pytest.mark.parametrize(("shell", "name"), [("bash", "netesto.bash"), ("zsh", "_netesto")])
def test_completion_is_what_make_completions_generates(shell, name):
    assert (COMPLETIONS / name).read_text() == generated(shell)


def completed(folder, *words):
    """The completions of bash for the last of `words`."""
    line = " ".join(f"'{word}'" for word in words)
    script = folder / "complete.bash"
    script.write_text(
        f"source {COMPLETIONS}/netesto.bash\ncd {folder}\nCOMP_WORDS=({line})\n"
        f"COMP_CWORD={len(words) - 1}\n_netesto\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
    )
    return process.run(["bash", str(script)], timeout=60).stdout.split()


def test_commands_are_completed(tmp_path):
    assert completed(tmp_path, "netesto", "ru") == ["run"]


def test_options_of_a_command_are_completed(tmp_path):
    assert completed(tmp_path, "netesto", "run", "--gr") == ["--ground"]


def test_choices_of_an_option_are_completed(tmp_path):
    assert completed(tmp_path, "netesto", "run", "--ground", "u") == ["uml"]


def test_scripts_are_completed(tmp_path):
    (tmp_path / "my.nts").touch()
    assert completed(tmp_path, "netesto", "run", "my") == ["my.nts"]


def test_scripts_are_completed_behind_a_definition(tmp_path):
    """As bash cuts `netesto run -D dur=60 -D ca=bbr my`."""
    (tmp_path / "my.nts").touch()
    words = ("netesto", "run", "-D", "dur", "=", "60", "-D", "ca", "=", "bbr", "my")
    assert completed(tmp_path, *words) == ["my.nts"]


def test_options_are_completed_behind_a_definition(tmp_path):
    words = ("netesto", "run", "-D", "dur", "=", "60", "my.nts", "--pl")
    assert completed(tmp_path, *words) == ["--plain"]


def test_bash_is_told_how_to_complete_the_command(tmp_path):
    script = f"source {COMPLETIONS}/netesto.bash; complete -p netesto"
    told = process.run(["bash", "-c", script], timeout=60).stdout
    assert told == "complete -o filenames -F _netesto netesto\n"


def test_results_folders_are_completed_without_files(tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results.txt").touch()
    assert completed(tmp_path, "netesto", "show", "res") == ["results"]
