"""Several runs with --ssh, and the hosts that they share."""

import asyncio
import contextlib
import os
import signal
import time
from dataclasses import dataclass, field

import pytest

from netesto.deploy.once import Brought, end, take_turns
from netesto.errors import AgentError
from netesto.system import interrupts, process

WAIT_S = 5.0


@dataclass
class Host(Brought):
    """A host that becomes free after a moment, or never."""

    name: str
    begun: list[tuple[str, float | None]]
    busy: AgentError | None = field(default=None)

    def lock(self):
        return self.name

    def begin(self, wait_s):
        self.begun.append((self.name, wait_s))

    async def reached(self, stage, wait_s=None, say=None, *, or_stage=""):
        await asyncio.sleep(0.001)
        if self.busy is not None:
            raise self.busy


@pytest.fixture
def begun():
    return []


def test_hosts_are_taken_in_the_order_of_their_locks(begun):
    asyncio.run(take_turns([Host("b", begun), Host("a", begun)], None, print))
    assert begun == [("a", None), ("b", None)]


def test_the_time_that_a_run_waits_is_that_for_all_of_its_hosts(begun):
    asyncio.run(take_turns([Host("a", begun), Host("b", begun)], WAIT_S, print))
    waits = [wait_s for _, wait_s in begun]
    assert WAIT_S >= waits[0] > waits[1] > 0


def test_behind_a_host_that_is_in_use_none_is_taken(begun):
    busy = AgentError("in use by ann", host="a")
    with pytest.raises(AgentError) as caught:
        asyncio.run(take_turns([Host("b", begun), Host("a", begun, busy)], None, print))
    assert (caught.value, begun) == (busy, [("a", None)])


@dataclass
class Frozen(Brought):
    """A host whose ssh ignores the request to end."""

    child: process.Child

    def let_go(self):
        process.kill_group(self.child.pid, signal.SIGSTOP)

    @property
    def is_gone(self):
        return self.child.poll() is not None


@pytest.mark.usefixtures("handlers")
def test_a_second_ctrl_c_waits_for_no_ssh_that_is_frozen(tmp_path, monkeypatch):
    # Longer than a busy machine takes without these waits.
    monkeypatch.setattr(process, "TERM_GRACE_S", 30.0)
    monkeypatch.setattr("netesto.deploy.once._HASTE_S", 30.0)
    hosts = [Frozen(process.launch(["sleep", "60"], stdout=tmp_path / "log")) for _ in range(2)]
    with interrupts.handled():
        with contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        interrupts.begin_shutdown()
        os.kill(os.getpid(), signal.SIGINT)
        begun_s = time.monotonic()
        end(hosts)
        took_s = time.monotonic() - begun_s
    assert took_s < process.TERM_GRACE_S
