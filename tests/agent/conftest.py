"""Real agents for tests: a process each, reached over a Unix socket."""

import contextlib
import os
import select
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from subprocess import Popen

import pytest
from agent_daemons import READY_TIMEOUT_S, Daemon, StartDaemon

from netesto.system import process


@pytest.fixture
def start_daemon(tmp_path: Path) -> Iterator[StartDaemon]:
    """Starts agents; `prefix` is a command to run one under, such as `ip netns exec NAME`."""
    with starting_in(tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def module_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, Daemon]]:
    with starting_in(tmp_path_factory.mktemp("pair")) as start:
        yield start("a"), start("b")


@pytest.fixture
def pair(module_pair: tuple[Daemon, Daemon], tmp_path: Path) -> tuple[Daemon, Daemon]:
    """Agents of hosts a and b, for all tests of a module that leave them as they were; each test
    has its own run."""
    a, b = (replace(daemon, run=tmp_path.name) for daemon in module_pair)
    return a, b


@contextlib.contextmanager
def starting_in(folder: Path) -> Iterator[StartDaemon]:
    children: list[Popen[bytes]] = []

    def start(
        host: str,
        *options: str,
        prefix: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        program: tuple[str, ...] = ("-m", "netesto.agent.daemon"),
    ) -> Daemon:
        state = folder / host
        log = folder / f"{host}.log"
        address = f"unix:{folder}/{host}.sock"
        reader, writer = os.pipe()
        argv = [*prefix, sys.executable, *program, "--listen", address]
        argv += ["--state", str(state), "--host", host, "--device", "lo", *options]
        argv += ["--ready-fd", str(writer)]
        child = process.launch(argv, stdout=log, pass_fds=[writer], env=env)
        children.append(child)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            select.select([pipe], [], [], READY_TIMEOUT_S)
            ready = pipe.readline().split()
            assert ready == ["ready", address], log.read_text()
        return Daemon(host, child, address, state, log)

    try:
        yield start
    finally:
        for child in children:
            process.end(child)


@pytest.fixture
def netperf() -> None:
    if shutil.which("netperf") is None or shutil.which("netserver") is None:
        pytest.skip("netperf is not installed")
