"""Several runs with --ssh, and the hosts that they share."""

import time
from dataclasses import dataclass, field

import pytest

from netesto.deploy.once import take_turns
from netesto.errors import AgentError

WAIT_S = 5.0


@dataclass
class Host:
    """A host that is free after a moment, or never."""

    name: str
    begun: list[tuple[str, float | None]]
    busy: AgentError | None = field(default=None)

    def lock(self):
        return self.name

    def begin(self, wait_s):
        self.begun.append((self.name, wait_s))

    def error(self, stage, wait_s=None, say=None):
        time.sleep(0.001)
        return self.busy


@pytest.fixture
def begun():
    return []


def test_hosts_are_taken_in_the_order_of_their_locks(begun):
    take_turns([Host("b", begun), Host("a", begun)], None, print)
    assert begun == [("a", None), ("b", None)]


def test_the_time_that_a_run_waits_is_that_for_all_of_its_hosts(begun):
    take_turns([Host("a", begun), Host("b", begun)], WAIT_S, print)
    waits = [wait_s for _, wait_s in begun]
    assert WAIT_S >= waits[0] > waits[1] > 0


def test_behind_a_host_that_is_in_use_none_is_taken(begun):
    busy = AgentError("in use by ann", host="a")
    with pytest.raises(AgentError) as caught:
        take_turns([Host("b", begun), Host("a", begun, busy)], None, print)
    assert (caught.value, begun) == (busy, [("a", None)])
