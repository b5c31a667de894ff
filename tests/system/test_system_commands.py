"""DO_COMMAND in a lab whose agent is killed meanwhile."""

import json
from pathlib import Path

import pytest
from whole_runs import PATIENCE_S

from netesto.system import process

SCRIPT = """\
LAB pair
DO_COMMAND host=a name=kill
DO_CLIENT host=a server=b test=TCP_STREAM dur=1
PROCESS_EXP
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run in which the first run of a command has killed the agent."""
    folder = tmp_path_factory.mktemp("commands")
    told = folder / "told"
    # Its parent is the agent.
    kill = f'echo x >>{told}; test "$(wc -l <{told})" -gt 1 || kill -9 $PPID'
    (folder / "agent.toml").write_text(f"[commands.kill]\nrun = ['sh', '-c', '{kill}']\n")
    (folder / "a.nts").write_text(SCRIPT)
    words = ("run", "--plain", "--no-pages", "--out", "out", "--commands", "agent.toml", "a.nts")
    argv = process.python("netesto", *words)
    finished = process.run(argv, timeout=PATIENCE_S, cwd=folder)
    (folder / "stderr").write_text(finished.stderr)
    return folder


@pytest.mark.lab
def test_script_waits_until_the_command_of_a_killed_agent_has_run_again(killed: Path):
    said = (killed / "stderr").read_text()
    warnings = [line for line in said.splitlines() if line.startswith("warning")]
    again = "warning: a: its agent is back, with its settings made again; ran again: command kill"
    assert ((killed / "told").read_text(), again in warnings, "Traceback" in said) == (
        "x\nx\n", True, False,
    )  # fmt: skip


@pytest.mark.lab
def test_each_run_of_a_command_is_recorded_with_its_time_and_why_it_ran_again(killed: Path):
    manifest = json.loads((killed / "out" / "1" / "manifest.json").read_text())
    first, second = manifest["hosts"]["a"]["settings"]
    assert [first["setting"], second["setting"]] == [{"type": "Command", "name": "kill"}] * 2
    assert (first["after"].partition(":")[0], second["after"]) == ("not known", "exit status 0")
    assert (first["why"], second["why"].partition(":")[0]) == ("", "agent lost")
    assert first["made_s"] < second["made_s"] < manifest["started_s"]


TWO_CELLS = """\
LAB pair
SWEEP kind=x,y DO
    DO_COMMAND host=a name=resolve
    DO_CLIENT host=a server=b test=TCP_STREAM dur=1 exp=COUNTER
    WAIT_FLOWS
    PROCESS_EXP
    DO_COMMAND host=a name=look
DONE
"""

COMMANDS = """\
[commands.resolve]
run = ["getent", "ahostsv4", "b"]
[commands.look]
run = ["echo", "seen"]
"""


@pytest.fixture(scope="module")
def two_cells(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a run whose cells begin and end with a command."""
    folder = tmp_path_factory.mktemp("cells")
    (folder / "agent.toml").write_text(COMMANDS)
    (folder / "a.nts").write_text(TWO_CELLS)
    words = ("run", "--plain", "--no-pages", "--out", "out", "--commands", "agent.toml", "a.nts")
    process.run(process.python("netesto", *words), timeout=PATIENCE_S, cwd=folder)
    return folder / "out"


@pytest.mark.lab
def test_names_of_the_lab_s_hosts_resolve_in_a_command(two_cells: Path):
    hosts = json.loads((two_cells / "1" / "manifest.json").read_text())["hosts"]
    [setting] = hosts["a"]["settings"]
    address = next(each for each in hosts["b"]["info"]["addresses"] if "." in each)
    assert setting["after"].split()[:4] == ["exit", "status", "0:", address.partition("/")[0]]


@pytest.mark.lab
def test_commands_behind_the_last_experiment_are_in_the_record_of_the_run(two_cells: Path):
    [record] = (two_cells / "runs").glob("*.json")
    settings = json.loads(record.read_text())["settings"]
    told = {host: [each["after"] for each in made] for host, made in settings.items()}
    assert told == {"a": ["exit status 0: seen"]}
