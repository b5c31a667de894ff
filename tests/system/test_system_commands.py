"""DO_COMMAND in a lab whose agent is killed meanwhile."""

from pathlib import Path

import pytest

from netesto import process

TIMEOUT_S = 60


@pytest.mark.lab
def test_script_waits_until_the_command_of_a_killed_agent_has_run_again(tmp_path: Path):
    told = tmp_path / "told"
    # Its parent is the agent.
    kill = f'echo x >>{told}; test "$(wc -l <{told})" -gt 1 || kill -9 $PPID'
    (tmp_path / "agent.toml").write_text(f"[commands.kill]\nrun = ['sh', '-c', '{kill}']\n")
    (tmp_path / "a.nts").write_text("LAB pair\nDO_COMMAND host=a name=kill\n")
    words = ("run", "--plain", "--out", "out", "--commands", "agent.toml", "a.nts")
    argv = process.python("netesto", *words)
    finished = process.run(argv, timeout=TIMEOUT_S, cwd=tmp_path)
    warnings = [line for line in finished.stderr.splitlines() if line.startswith("warning")]
    assert (told.read_text(), warnings[-1], "Traceback" in finished.stderr) == (
        "x\nx\n", "warning: a: its agent is back, and has its settings again", False,
    )  # fmt: skip
