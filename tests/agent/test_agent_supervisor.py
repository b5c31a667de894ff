"""An agent without a service manager is restarted, and its host put back meanwhile."""

import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from netesto.agent import supervisor
from netesto.system import process

# An agent that fails once, and ends well the next time.
AGENT = """\
#!/bin/sh
case $1 in
--recover) echo "setting put back" >&2 ;;
*) echo life; [ -e "$0.failed" ] || { touch "$0.failed"; exit 1; } ;;
esac
"""


@pytest.fixture(autouse=True)
def _umask_of_a_process_of_its_own() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_the_log_says_what_was_put_back_after_an_agent_that_failed(tmp_path: Path) -> None:
    agent, log = tmp_path / "agent", tmp_path / "log"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    status = supervisor.main(["--lock", str(tmp_path / "lock"), "--log", str(log), str(agent)])
    assert (status, log.read_text()) == (0, "life\nsetting put back\nlife\n")


def test_the_log_is_its_users_alone(tmp_path: Path) -> None:
    log = tmp_path / "log"
    supervisor.main(["--lock", str(tmp_path / "lock"), "--log", str(log), "true"])
    assert stat.filemode(log.stat().st_mode) == "-rw-------"


@pytest.mark.usefixtures("handlers")
def test_a_request_to_end_that_comes_while_an_agent_starts_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[process.Child] = []
    launch = process.launch

    def interrupted(*words: Any, **options: Any) -> process.Child:
        started.append(launch(*words, **options))
        signal.raise_signal(signal.SIGTERM)
        return started[0]

    monkeypatch.setattr(process, "launch", interrupted)
    words = ["--lock", str(tmp_path / "lock"), "--log", str(tmp_path / "log"), "sleep", "600"]
    status = supervisor.main(words)
    [agent] = started
    assert (status, agent.returncode) == (0, -signal.SIGTERM)
