"""An agent whose disk becomes unwritable while it works."""

import contextlib
import resource
from collections.abc import Iterator

import pytest
from agent_daemons import Daemon, StartDaemon
from agent_values import request

from netesto.errors import AgentError
from netesto.hostsettings import Sysctl

SYSCTL = "net.ipv4.tcp_notsent_lowat"


@contextlib.contextmanager
def failing_disk(daemon: Daemon) -> Iterator[None]:
    """While the body runs, every write of the agent to a file fails."""
    most = resource.RLIM_INFINITY
    resource.prlimit(daemon.child.pid, resource.RLIMIT_FSIZE, (0, most))
    yield
    resource.prlimit(daemon.child.pid, resource.RLIMIT_FSIZE, (most, most))


@pytest.mark.lab
async def test_settings_are_put_back_though_the_disk_fails(start_daemon: StartDaemon):
    daemon = start_daemon("a", prefix=("unshare", "--net"))
    async with daemon.held() as a:
        before = (await a.configure(Sysctl(SYSCTL, "5000"))).before
        with failing_disk(daemon):
            left = await a.put_back()
        assert (left, (await a.configure(Sysctl(SYSCTL, "5000"))).before) == ([], before)


@pytest.mark.lab
async def test_nothing_is_set_that_the_disk_cannot_note(start_daemon: StartDaemon):
    daemon = start_daemon("a", prefix=("unshare", "--net"))
    async with daemon.held() as a:
        with failing_disk(daemon), pytest.raises(AgentError) as refused:
            await a.configure(Sysctl(SYSCTL, "5000"))
        applied = await a.configure(Sysctl(SYSCTL, "6000"))
    said = f"a: {daemon.state}/journal: File too large"
    assert (refused.value.message, applied.before == "5000") == (said, False)


@pytest.mark.lab
@pytest.mark.usefixtures("netperf")
async def test_group_that_the_disk_cannot_note_is_refused_and_may_come_again(
    start_daemon: StartDaemon,
):
    # In a network of its own: its servers have ports that those of other tests have, too.
    daemon = start_daemon("a", prefix=("unshare", "--net"))
    async with daemon.held() as a:
        # The tool's server has a file, too.
        await a.take_stats(1, 0, tests=(request().test,), tools=(request().tool,))
        with failing_disk(daemon), pytest.raises(AgentError) as refused:
            await a.expect(request())
        ports = await a.expect(request())
    said = f"a: {daemon.state}: File too large"
    assert (refused.value.message, len(ports.data)) == (said, request().instances)
