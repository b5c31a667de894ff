"""Commands that scripts may run: those that the owner of a host names, as he wrote them."""

import contextlib
import os
import signal
import tomllib
import tracemalloc
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from agent_daemons import StartDaemon

from netesto.agent import commands
from netesto.errors import AgentError, NotAllowedError
from netesto.hostsettings import Applied, Command
from netesto.system import process

TABLE = tomllib.loads("""
[tell]
run = ["echo", "rx {rx} of {what}"]
parameters = { rx = "1-8192", what = ["eth0", "veth"] }
[fail]
run = ["sh", "-c", "echo no >&2; exit 3"]
[slow]
run = ["sleep", "60"]
timeout = "200ms"
[long]
run = ["seq", "100000"]
output = "12"
[flood]
run = ["head", "-c", "100000000", "/dev/zero"]
timeout = "25s"
[quoted]
run = ["echo", "$(id); `id` > x"]
""")
ALLOWED = commands.read(TABLE)


async def test_a_command_runs_with_its_values():
    said = await commands.run(ALLOWED, "tell", ["rx=64", "what=veth"])
    assert said == "exit status 0: rx 64 of veth"


async def test_exit_status_and_errors_are_reported():
    assert await commands.run(ALLOWED, "fail", []) == "exit status 3: no"


async def test_the_end_of_a_long_output_is_kept():
    assert await commands.run(ALLOWED, "long", []) == "exit status 0: 99999\n100000"


async def test_a_flood_of_output_takes_no_memory():
    tracemalloc.start()
    try:
        said = await commands.run(ALLOWED, "flood", [])
        most_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (said[:14], most_bytes < 5_000_000) == ("exit status 0:", True)


async def test_a_command_that_takes_too_long_is_ended():
    with pytest.raises(AgentError, match=r"command slow: still running after 0\.2 s, ended"):
        await commands.run(ALLOWED, "slow", [])


async def test_a_program_that_becomes_a_daemon_runs_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # It leaves the group when it has the processor for the first time.
    monkeypatch.setattr(commands, "LEAVING_S", 60.0)
    place = tmp_path / "pid"
    daemon = f"echo $$ >{place}; exec sleep 600"
    words = ["sh", "-c", 'setsid -f sh -c "$0" >/dev/null 2>&1 </dev/null', daemon]
    table = commands.read({"detach": {"run": words}})
    assert await commands.run(table, "detach", []) == "exit status 0"
    assert process.wait_until(lambda: place.exists() and place.read_text() != "", timeout=60)
    # Nobody else ends it. ProcessLookupError if somebody has.
    os.kill(int(place.read_text()), signal.SIGKILL)


async def test_what_a_command_leaves_running_in_its_group_is_ended_and_reported():
    table = commands.read({"leave": {"run": ["sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"]}})
    said = await commands.run(table, "leave", [])
    begin, _, pid = said.rpartition(": ")
    assert (begin, commands.is_fine(said)) == (
        "exit status 0, and what it had left running in its process group was ended", False,
    )  # fmt: skip
    assert process.wait_until(lambda: not is_alive(int(pid)), timeout=60)


def is_alive(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


async def test_no_shell_reads_what_is_run():
    assert await commands.run(ALLOWED, "quoted", []) == "exit status 0: $(id); `id` > x"


async def test_another_command_is_refused():
    with pytest.raises(NotAllowedError, match="command reboot is not allowed"):
        await commands.run(ALLOWED, "reboot", [])


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["rx=0", "what=veth"], "command tell: rx=0: not allowed"),
        (["rx=8193", "what=veth"], "command tell: rx=8193: not allowed"),
        (["rx=1;id", "what=veth"], "command tell: rx=1;id: not allowed"),
        (["rx=64", "what=eth1"], "command tell: what=eth1: not allowed"),
        (["rx=64"], "command tell: wrong parameters"),
        (["rx=64", "what=veth", "x=1"], "command tell: wrong parameters"),
        (["rx=64", "what"], "command tell: wrong parameters"),
    ],
)
async def test_other_values_are_refused(values, said):
    with pytest.raises(NotAllowedError) as caught:
        await commands.run(ALLOWED, "tell", values)
    assert caught.value.message == said


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("", "run: a list of strings is required"),
        ('run = "reboot"', "run: a list of strings is required"),
        ('run = ["x", "{a}"]', "parameters: run has a"),
        ('run = ["{a}"]\nparameters = { a = "1-2" }', "the program cannot be a parameter"),
        ('run = ["x", "{a}"]\nparameters = { a = ".*" }', "parameters.a: a range"),
        ('run = ["x", "{a}"]\nparameters = { a = ["-rf"] }', "parameters.a: a range"),
        ('run = ["x"]\ntimeout = 5', 'timeout: 5: a unit is required, such as "5s" or "24h"'),
        ('run = ["x"]\ntimeout = "1m"', "timeout: at most 25 s"),
        ('run = ["x"]\nshell = true', "a table with output, parameters, run, timeout"),
    ],
)
def test_a_table_that_is_wrong_is_refused(entry, said):
    with pytest.raises(ValueError, match=f"commands.x: .*{said}|commands.x: {said}"):
        commands.read(tomllib.loads(f"[x]\n{entry}\n"))


async def test_an_agent_runs_what_its_file_allows_and_tells_which(
    start_daemon: StartDaemon, tmp_path: Path
):
    config = tmp_path / "agent.toml"
    config.write_text('[commands.tell]\nrun = ["echo", "hello"]\n')
    agent = start_daemon("a", "--config", str(config))
    async with agent.held() as a:
        known = (await a.info()).commands
        applied = await a.configure(Command("tell"))
    assert (known, replace(applied, made_s=None)) == (
        ("tell",),
        Applied(Command("tell"), "", "exit status 0: hello"),
    )
