"""The classic command lines in local/."""

import sys
from pathlib import Path

from netesto.system import process

LOCAL = Path(__file__).resolve().parents[2] / "local"


def test_netesto_py_runs_the_script_on_standard_input(tmp_path: Path):
    argv = [sys.executable, str(LOCAL / "netesto.py"), "-n"]
    done = process.run(argv, timeout=60, stdin="WAIT 3\n", cwd=tmp_path)
    assert done.stdout == "# 0 experiments, 0 flows, about 3 s\n"


def test_exp_py_makes_a_page_of_the_words_given_to_it(tmp_path: Path):
    (tmp_path / "exp.csv").write_text("exp,rate\n1.0,94.5\n")
    argv = [sys.executable, str(LOCAL / "exp.py"), "File=exp", "doTable"]
    done = process.run(argv, timeout=60, cwd=tmp_path)
    assert ("94.5" in done.stdout, done.stdout.startswith("<!DOCTYPE html>")) == (True, True)
